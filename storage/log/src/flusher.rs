//! The flusher: the one thread that makes epochs durable.
//!
//! **Closing epoch** *e*: set the global epoch to *e*+1, then take every shard's mutex once and
//! swap its buffer for an empty one. A writer reads the epoch under that mutex, so the flusher now
//! has everything of epoch ≤ *e*. Each non-empty buffer becomes a block of its shard's file. One of
//! these blocks carries *e* with the length that **every** shard's file must have for *e* to be
//! whole (`output.rs`). The files are synced in parallel, idle shards not at all, and then *e* is
//! durable: recovery accepts *e* exactly if all those lengths hold valid blocks.
//!
//! **Full disk**: once no more space can be reserved behind the files, the log accepts only
//! removals, and the flusher writes accepted records to the reserved space. A block that does not
//! fit stays in memory, and the flusher writes it again, at the same place, until it fits;
//! meanwhile appends are refused. **Failed sync** (or any other error of writing): what the disk
//! has is unknown, and another sync proves nothing, so the log is poisoned and this thread ends.
//!
//! **Idle**: after a commit the flusher sleeps for one interval. What is appended meanwhile does
//! not wake it, as it closes that when the interval ends: so a commit whose sync is asked for costs
//! one wake, and not a second one for its record. After a quiet interval the flusher leaves a small
//! unsynced block saying that everything before it is durable. It costs nothing, and a later check
//! can then distinguish damage to the last commit from a write that a power cut tore. Then it
//! sleeps until the next append wakes it.

use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::{Arc, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::entries::IncarnationEnd;
use crate::health::Health;
use crate::output::{Fault, Output, Unsynced};
use crate::planted::{PlantedBug, planted};
use crate::requests::{Rotation, RotationPoint, RotationProgress};
use crate::segment::SegmentWriter;
use crate::shared::Shared;
use crate::syncers::Synced;
use crate::syncers::Syncers;

/// Why the flusher ended without having flushed everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Poisoned,
    /// Asked to stop while the disk was full.
    DiskFull,
}

/// The flusher's state.
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    syncers: Syncers,
    /// When the oldest unclosed record was appended, or a little before.
    dirty_since: Option<Instant>,
    /// When the last commit took the buffers: nothing in them now is older.
    last_taken: Option<Instant>,
    /// Whether there was a commit since the last "all durable" block.
    all_durable_block_due: bool,
}

/// What was appended since the flusher last took the buffers.
struct Appended {
    /// Whether there is something to close.
    dirty: bool,
    /// Whether a buffer is worth writing early.
    large: bool,
}

/// When the thread ends, by returning or by panicking, nobody must wait for it any more.
struct ExitGuard {
    shared: Arc<Shared>,
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.state.status.poison("the log's thread panicked");
        }
        let mut requests = self.shared.requests();
        requests.stop = true;
        requests.rotation = None;
        drop(requests);
        self.shared.flusher_done.store(true, Release);
        self.shared.wake_writers();
        self.shared.state.status.wake_waiters();
    }
}

impl Flusher {
    pub(crate) fn new(shared: Arc<Shared>) -> Flusher {
        Flusher {
            syncers: Syncers::new(shared.shards.len()),
            shared,
            dirty_since: None,
            last_taken: None,
            all_durable_block_due: false,
        }
    }

    pub(crate) fn start(self) -> std::io::Result<JoinHandle<Result<IncarnationEnd, Stopped>>> {
        thread::Builder::new()
            .name("hedgerow-log".into())
            .spawn(move || self.run())
    }

    fn run(mut self) -> Result<IncarnationEnd, Stopped> {
        let _guard = ExitGuard {
            shared: Arc::clone(&self.shared),
        };
        self.work()
    }

    fn work(&mut self) -> Result<IncarnationEnd, Stopped> {
        loop {
            // A worker may have met a full disk, or poisoned the log.
            drop(self.write(|_| Ok(()))?);
            let (durable, rotation, stop) = {
                let mut requests = self.shared.requests();
                (requests.durable, requests.rotation.take(), requests.stop)
            };
            if let Some(rotation) = rotation {
                self.rotate(rotation)?;
            } else if stop {
                return self.finish(durable);
            } else if durable > self.shared.state.status.durable_epoch() {
                self.commit(durable)?;
                // The callers have their answer; the next ones are to wait for less.
                self.shared.output().write_ahead(&self.shared.state);
            } else {
                self.do_periodic_work()?;
            }
        }
    }

    /// Does what no caller asks for: writes large buffers, closes an epoch in time, sleeps.
    fn do_periodic_work(&mut self) -> Result<(), Stopped> {
        let now = Instant::now();
        let Appended { dirty, large } = self.look();
        if !dirty {
            self.dirty_since = None;
            self.last_taken = None;
            if self.all_durable_block_due {
                return self.sleep_after_commit(now);
            }
            self.sleep_idle();
            return Ok(());
        }
        let last_taken = self.last_taken.take();
        let since = *self.dirty_since.get_or_insert(last_taken.unwrap_or(now));
        let due = since + self.shared.state.options.flush_interval;
        if now >= due {
            return self.commit(0);
        }
        if large {
            let shared = Arc::clone(&self.shared);
            drop(self.write(|output| output.write_large(&shared.state, &shared.shards))?);
            return Ok(());
        }
        thread::park_timeout(due - now);
        Ok(())
    }

    /// Whether there is something to close, and whether a buffer is worth writing early.
    fn look(&self) -> Appended {
        let mut dirty = {
            let output = self.shared.output();
            output.newest > output.closed
        };
        let mut large = false;
        for shard in &self.shared.shards {
            let buffer = shard.lock();
            dirty |= buffer.records > 0;
            large |= buffer.bytes.len() >= self.shared.state.options.write_threshold_bytes;
        }
        Appended { dirty, large }
    }

    /// Sleeps until an interval has passed since `looked`, when nothing was appended; if still
    /// nothing is, says on disk that everything is durable. Appends do not wake this thread
    /// meanwhile.
    fn sleep_after_commit(&mut self, looked: Instant) -> Result<(), Stopped> {
        let quiet = self.shared.state.options.flush_interval;
        thread::park_timeout(quiet.saturating_sub(looked.elapsed()));
        if looked.elapsed() >= quiet && !self.look().dirty {
            return self.write_all_durable_block();
        }
        // Nothing in the buffers is older.
        self.last_taken = Some(looked);
        Ok(())
    }

    /// Sleeps until the next append wakes this thread.
    fn sleep_idle(&self) {
        self.shared.state.idle.store(true, SeqCst);
        // This sees what was appended before the store; a later append wakes this thread.
        let dirty = self.look().dirty;
        if !dirty && self.is_full() {
            thread::park_timeout(self.shared.state.options.full_disk_retry);
        } else if !dirty {
            thread::park();
        }
        self.shared.state.idle.store(false, SeqCst);
    }

    fn is_full(&self) -> bool {
        self.shared.state.status.health() == Health::DiskFull
    }

    /// Says on disk that everything is durable.
    fn write_all_durable_block(&mut self) -> Result<(), Stopped> {
        self.all_durable_block_due = false;
        let shared = Arc::clone(&self.shared);
        let output = self.write(|output| {
            // Somebody may have written since we looked.
            if output.newest > output.closed {
                Ok(())
            } else {
                output.write_all_durable_block(&shared.state)
            }
        })?;
        drop(output);
        Ok(())
    }

    /// Lets `write` write blocks, waiting for space as long as it takes, also for what others
    /// left unwritten.
    fn write(
        &self,
        write: impl FnOnce(&mut Output) -> Result<(), Fault>,
    ) -> Result<MutexGuard<'_, Output>, Stopped> {
        let mut write = Some(write);
        loop {
            if self.shared.state.status.is_poisoned() {
                return Err(Stopped::Poisoned);
            }
            let mut output = self.shared.output();
            if self.is_full() {
                output.keep_reserve();
            }
            let mut outcome = output.write_pending(&self.shared.state);
            if outcome.is_ok() {
                match write.take() {
                    Some(write) => outcome = write(&mut output),
                    None => return Ok(output),
                }
            }
            match outcome {
                Ok(()) => return Ok(output),
                Err(fault) => {
                    drop(output);
                    self.shared.fail(fault);
                }
            }
            if self.shared.requests().stop && !self.shared.state.status.is_poisoned() {
                return Err(Stopped::DiskFull);
            }
            thread::park_timeout(self.shared.state.options.full_disk_retry);
        }
    }

    /// Closes the current epoch (and all up to `requested`) and makes it durable.
    fn commit(&mut self, requested: u64) -> Result<(), Stopped> {
        let taken = Instant::now();
        let shared = Arc::clone(&self.shared);
        let epoch = self.close(requested, |output, epoch| {
            if planted(PlantedBug::AcknowledgeBeforeSync) {
                shared.state.status.advance(epoch);
            }
            (
                epoch,
                output.close_epoch(&shared.state, &shared.shards, epoch),
            )
        })?;
        self.dirty_since = None;
        self.last_taken = Some(taken);
        if epoch > self.shared.state.status.durable_epoch() {
            self.shared.state.status.advance(epoch);
        }
        Ok(())
    }

    /// Lets `close` close the current epoch (and all up to `requested`) and syncs the files; which
    /// epoch that was.
    fn close(
        &mut self,
        requested: u64,
        close: impl FnOnce(&mut Output, u64) -> (u64, Result<(), Fault>),
    ) -> Result<u64, Stopped> {
        let shared = Arc::clone(&self.shared);
        let mut epoch = 0;
        let (unsynced, closed) = {
            let mut before = 0;
            let output = self.write(|output| {
                before = output.closed;
                // Timestamps may have run ahead of the epoch.
                let current = shared
                    .state
                    .epoch
                    .load(Relaxed)
                    .max(requested)
                    .max(output.newest);
                let closed;
                (epoch, closed) = close(output, current);
                closed
            })?;
            (output.unsynced(), output.closed > before)
        };
        if closed {
            self.sync(unsynced)?;
            self.shared.state.counters.commits.fetch_add(1, Relaxed);
            self.all_durable_block_due = true;
        }
        Ok(epoch)
    }

    fn sync(&mut self, unsynced: Vec<Unsynced>) -> Result<(), Stopped> {
        let counters = &self.shared.state.counters;
        counters.syncs.fetch_add(unsynced.len() as u64, Relaxed);
        let outcomes = self.syncers.sync(unsynced);
        let mut output = self.shared.output();
        for Synced { shard, length } in outcomes {
            match length {
                Ok(length) => output.synced(shard, length),
                Err(error) => {
                    let reason = format!("syncing {} failed: {error}", output.path(shard));
                    drop(output);
                    self.shared.fail(Fault::Failed(reason));
                    return Err(Stopped::Poisoned);
                }
            }
        }
        Ok(())
    }

    /// Seals the files of this generation and continues in those of the next.
    fn rotate(&mut self, rotation: Rotation) -> Result<(), Stopped> {
        let Rotation {
            generation,
            writers,
            events,
            go_on,
        } = rotation;
        let shared = Arc::clone(&self.shared);
        let epoch = self.close(0, |output, epoch| {
            output.seal(&shared.state, &shared.shards, epoch, || {
                // The caller may have given up waiting; then there is nothing to wait for.
                if events.send(RotationProgress::Cut).is_ok() {
                    let _ = go_on.recv();
                }
            })
        })?;
        let mut sealed;
        let end = {
            let mut output = self.shared.output();
            let end = output.end(&self.shared.state);
            sealed = output.switch(writers);
            end
        };
        self.shared.switched.notify_all();
        if epoch > self.shared.state.status.durable_epoch() {
            self.shared.state.status.advance(epoch);
        }
        sealed.iter_mut().for_each(SegmentWriter::trim);
        self.shared.state.counters.begin_generation(generation);
        // The first block of the new generation shows that the old one was sealed.
        self.all_durable_block_due = true;
        // If nobody waits for the answer any more, the rotation still happened.
        let _ = events.send(RotationProgress::Done(RotationPoint {
            generation,
            epoch,
            end,
        }));
        Ok(())
    }

    /// Flushes the last records, and says where the files end. No appends are accepted any more.
    fn finish(&mut self, requested: u64) -> Result<IncarnationEnd, Stopped> {
        let mut requested = requested;
        while self.look().dirty || requested > self.shared.state.status.durable_epoch() {
            self.commit(requested)?;
            requested = self.shared.output().newest;
        }
        let unsynced = self.shared.output().unsynced();
        self.sync(unsynced)?;
        let mut output = self.shared.output();
        output.trim();
        Ok(output.end(&self.shared.state))
    }
}
