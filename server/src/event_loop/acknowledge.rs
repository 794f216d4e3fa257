//! When a worker acknowledges writes: once the operating system has them, or the disk.

use std::sync::atomic::Ordering;

use hedgerow::Commit;
use hedgerow::backend::Backend;

use crate::connection::output::WaitingReply;
use crate::event_loop::worker::Worker;

impl<B: Backend> Worker<B> {
    /// Hands the tick's commits to the operating system, so that nothing that is acknowledged is
    /// lost when the process is killed. If that fails, the tick's writes are not acknowledged.
    pub(crate) fn write_out(&mut self) {
        let metrics = &self.shared.metrics;
        let outcome = self.shared.db.write_out();
        for active in &self.tick.active {
            let output = &mut self.outputs[active.slot];
            match (&outcome, &mut self.sessions[active.slot]) {
                (Err(error), Some(session)) => {
                    output.replace_waiting(WaitingReply::waits_for_write_out, |reply, out| {
                        let start = out.position();
                        session.reply_not_on_disk(reply.code, reply.is_silent(), error, out);
                        metrics.count_if_error(out.since(start));
                    })
                }
                _ => output.release_written_out(),
            }
        }
    }

    /// Sends the replies whose writes are durable by now.
    pub(crate) fn send_durable(&mut self) {
        // Before asking: an advance from here on wakes the poll.
        self.handle.waits_for_sync.store(true, Ordering::SeqCst);
        let durable_epoch = self.shared.db.durable_epoch();
        self.overdue_at = None;
        let waited = std::mem::take(&mut self.waiting);
        for &slot in &waited {
            let output = &mut self.outputs[slot];
            output.release_durable(durable_epoch);
            if let Some(session) = &mut self.sessions[slot] {
                let db = &self.shared.db;
                let fails = |commit: Option<Commit>| db.poll_durable(&commit?).err();
                if let Some(error) = fails(output.awaited()) {
                    // Clients that only wait (`WAITAOF`) continue to wait for space.
                    let for_good = !matches!(error, hedgerow::Error::DiskFull);
                    output.replace_waiting(
                        |reply| {
                            (for_good || !reply.only_waits()) && fails(reply.awaited()).is_some()
                        },
                        |reply, out| {
                            let start = out.position();
                            session.reply_not_on_disk(reply.code, reply.is_silent(), &error, out);
                            self.shared.metrics.count_if_error(out.since(start));
                        },
                    );
                }
                output.replace_overdue(self.now, durable_epoch, |out| session.reply_overdue(out));
            }
            let has_waiting = output.has_waiting();
            let deadlines = self.overdue_at.into_iter().chain(output.deadline());
            self.overdue_at = deadlines.min();
            if let Some(peer) = &mut self.peers[slot] {
                peer.waiting = has_waiting;
            }
            if has_waiting {
                self.waiting.push(slot);
            }
        }
        self.send_together(waited.iter().copied());
        for slot in waited {
            self.flush(slot);
        }
        if self.waiting.is_empty() {
            self.handle.waits_for_sync.store(false, Ordering::SeqCst);
        }
    }
}
