//! When a worker acknowledges writes: once the operating system has them, or the disk.

use std::sync::atomic::Ordering;

use hedgerow::Commit;

use crate::connection::output::Held;
use crate::event_loop::worker::Worker;

impl Worker {
    /// Hands the turn's commits to the operating system, so that nothing that is acknowledged is
    /// lost when the process is killed. If that fails, the turn's writes are not acknowledged.
    pub(crate) fn write_out(&mut self) {
        let outcome = self.shared.db.write_out();
        for active in &self.turn.active {
            let output = &mut self.outputs[active.slot];
            match (&outcome, &mut self.sessions[active.slot]) {
                (Err(error), Some(session)) => {
                    output.replace_held(Held::waits_for_write_out, |held, out| {
                        session.reply_not_on_disk((held.code, held.is_silent()), error, out);
                    })
                }
                _ => output.release_written_out(),
            }
        }
    }

    /// Sends the replies whose writes are durable by now.
    pub(crate) fn release_held(&mut self) {
        // Before asking: an advance from here on wakes the poll.
        self.handle.waits_for_sync.store(true, Ordering::SeqCst);
        let durable_epoch = self.shared.db.durable_epoch();
        self.overdue_at = None;
        for slot in std::mem::take(&mut self.held) {
            let output = &mut self.outputs[slot];
            output.release_durable(durable_epoch);
            if let Some(session) = &mut self.sessions[slot] {
                let db = &self.shared.db;
                let fails = |commit: Option<Commit>| db.poll_durable(&commit?).err();
                if let Some(error) = fails(output.awaited()) {
                    // Whoever only waits goes on waiting for space.
                    let for_good = !matches!(error, hedgerow::Error::DiskFull);
                    output.replace_held(
                        |held| (for_good || !held.only_waits()) && fails(held.awaited()).is_some(),
                        |held, out| {
                            session.reply_not_on_disk((held.code, held.is_silent()), &error, out);
                        },
                    );
                }
                while output
                    .deadline()
                    .is_some_and(|deadline| deadline <= self.now)
                {
                    output.replace_first_held(|out| session.reply_overdue(out));
                    output.release_durable(durable_epoch);
                }
            }
            let is_held = output.is_held();
            let deadlines = self.overdue_at.into_iter().chain(output.deadline());
            self.overdue_at = deadlines.min();
            if let Some(peer) = &mut self.peers[slot] {
                peer.held = is_held;
            }
            if is_held {
                self.held.push(slot);
            }
            self.flush(slot);
        }
        if self.held.is_empty() {
            self.handle.waits_for_sync.store(false, Ordering::SeqCst);
        }
    }
}
