//! The flusher: the one thread that moves records from buffers to disk and makes epochs durable.
//!
//! **Closing epoch** *e*: set the global epoch to *e*+1, then take every shard's mutex once and
//! swap its buffer for an empty one. A writer reads the epoch under that mutex, so everything of
//! epoch ≤ *e* is now with the flusher. Each non-empty buffer becomes a block of its shard's file.
//! One of these blocks carries *e* with the length that **every** shard's file must have for *e*
//! to be whole. The blocks are written and synced in parallel, idle shards not at all, and then
//! *e* is durable: recovery accepts *e* exactly if all those lengths hold valid blocks.
//!
//! **Full disk**: the block that found no space stays in memory and is written again, at the same
//! place, until it fits; meanwhile appends are refused. **Failed sync** (or any other error of
//! writing): what the disk holds is unknown and asking again proves nothing, so the log is
//! poisoned and this thread ends.
//!
//! **Idle**: after the last commit and one quiet interval the flusher leaves a small unsynced
//! block saying that everything before it is durable. It costs nothing, and lets a later check
//! tell damage to the last commit from a write that a power cut tore.

use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::block::{Closing, ShardLength};
use crate::error::is_disk_full;
use crate::log::{Rotation, RotationPoint, Shared};
use crate::manifest::IncarnationEnd;
use crate::planted::{PlantedBug, planted};
use crate::segment::{SegmentWriter, WriteFault};
use crate::syncers::Helpers;

/// Why the flusher ended without having flushed everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Poisoned,
    /// Asked to stop while the disk was full.
    DiskFull,
}

/// The flusher's side of the log.
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    writers: Vec<Arc<Mutex<SegmentWriter>>>,
    helpers: Helpers,
    /// The newest epoch that a block on disk closes.
    closed: u64,
    /// The newest epoch of any record taken from the buffers.
    newest: u64,
    /// When the oldest unclosed record was appended, or a little before.
    dirty_since: Option<Instant>,
    /// When the last commit took the buffers: nothing in them now is older.
    last_taken: Option<Instant>,
    /// Whether there was a commit since the last "all durable" block.
    unattested: bool,
}

/// What a commit is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Close,
    Seal,
}

/// When the thread ends, by returning or by panicking, nobody must wait for it any more.
struct ExitGuard {
    shared: Arc<Shared>,
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.status.poison("the log's thread panicked");
        }
        let mut requests = self.shared.requests();
        requests.stop = true;
        requests.rotation = None;
        drop(requests);
        self.shared.flusher_done.store(true, Release);
        self.shared.wake_writers();
        self.shared.status.wake_waiters();
    }
}

impl Shared {
    /// Makes writers that wait for room look at the health again.
    pub(crate) fn wake_writers(&self) {
        for shard in &self.shards {
            let waiters = shard.lock().waiters();
            shard.wake_waiters(waiters);
        }
    }
}

fn lock(writer: &Mutex<SegmentWriter>) -> MutexGuard<'_, SegmentWriter> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flusher {
    pub(crate) fn new(
        shared: Arc<Shared>,
        writers: Vec<SegmentWriter>,
        first_epoch: u64,
    ) -> Flusher {
        Flusher {
            helpers: Helpers::new(writers.len()),
            writers: writers
                .into_iter()
                .map(|writer| Arc::new(Mutex::new(writer)))
                .collect(),
            shared,
            closed: first_epoch - 1,
            newest: first_epoch - 1,
            dirty_since: None,
            last_taken: None,
            unattested: false,
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
            let (durable, rotation, stop) = {
                let mut requests = self.shared.requests();
                (requests.durable, requests.rotation.take(), requests.stop)
            };
            if let Some(rotation) = rotation {
                self.rotate(rotation)?;
            } else if stop {
                return self.finish(durable);
            } else if durable > self.shared.status.durable_epoch() {
                self.commit(durable, Purpose::Close)?;
            } else {
                self.routine()?;
            }
        }
    }

    /// What there is to do when nobody asks: write large buffers, close an epoch in time, sleep.
    fn routine(&mut self) -> Result<(), Stopped> {
        let (dirty, large) = self.look();
        if !dirty {
            self.dirty_since = None;
            self.last_taken = None;
            return self.sleep_idle();
        }
        let now = Instant::now();
        let last_taken = self.last_taken.take();
        let since = *self.dirty_since.get_or_insert(last_taken.unwrap_or(now));
        let due = since + self.shared.options.flush_interval;
        if now >= due {
            return self.commit(0, Purpose::Close);
        }
        if large {
            return self.write_large();
        }
        thread::park_timeout(due - now);
        Ok(())
    }

    /// Whether there is something to close, and whether a buffer is worth writing early.
    fn look(&self) -> (bool, bool) {
        let mut dirty = self.newest > self.closed;
        let mut large = false;
        for shard in &self.shared.shards {
            let buffer = shard.lock();
            dirty |= buffer.records > 0;
            large |= buffer.bytes.len() >= self.shared.options.write_threshold_bytes;
        }
        (dirty, large)
    }

    fn sleep_idle(&mut self) -> Result<(), Stopped> {
        self.shared.idle.store(true, SeqCst);
        // Whoever appended before the store is seen here; whoever appends later wakes us.
        let (dirty, _) = self.look();
        if !dirty && self.unattested {
            let quiet = self.shared.options.flush_interval;
            let began = Instant::now();
            thread::park_timeout(quiet);
            if began.elapsed() >= quiet && !self.look().0 {
                self.shared.idle.store(false, SeqCst);
                return self.attest();
            }
        } else if !dirty {
            thread::park();
        }
        self.shared.idle.store(false, SeqCst);
        Ok(())
    }

    /// Takes the records of all shards for which `wanted` says so, and passes every shard's mutex.
    fn take_buffers(&mut self, wanted: impl Fn(usize) -> bool) {
        for (shard, writer) in self.shared.shards.iter().zip(&self.writers) {
            let mut buffer = shard.lock();
            if buffer.records == 0 || !wanted(buffer.bytes.len()) {
                continue;
            }
            let mut writer = lock(writer);
            debug_assert!(!writer.has_records());
            std::mem::swap(&mut buffer.bytes, &mut writer.bytes);
            writer.records = std::mem::take(&mut buffer.records);
            writer.last_timestamp = buffer.last_appended;
            self.newest = self.newest.max(buffer.last_appended.epoch());
            buffer.write_wanted = false;
            let waiters = buffer.waiters();
            drop(buffer);
            shard.wake_waiters(waiters);
        }
    }

    /// Writes large buffers without closing or syncing anything.
    fn write_large(&mut self) -> Result<(), Stopped> {
        let threshold = self.shared.options.write_threshold_bytes;
        self.take_buffers(|bytes| bytes >= threshold);
        let mut written = Vec::new();
        for (index, writer) in self.writers.iter().enumerate() {
            let mut writer = lock(writer);
            if writer.has_records() {
                self.count_block(&writer);
                writer.finish_block(None, false);
                written.push(index);
            }
        }
        self.perform(&written, false)
    }

    /// Closes the current epoch (and all up to `requested`) and makes it durable.
    fn commit(&mut self, requested: u64, purpose: Purpose) -> Result<(), Stopped> {
        let epoch = self.shared.epoch.load(Relaxed).max(requested);
        let taken = Instant::now();
        self.shared.epoch.store(epoch + 1, SeqCst);
        self.take_buffers(|_| true);
        if self.newest > self.closed || purpose == Purpose::Seal {
            if planted(PlantedBug::AcknowledgeBeforeSync) {
                self.shared.status.advance(epoch);
            }
            let written = self.finish_blocks(epoch, purpose);
            self.perform(&written, true)?;
            self.shared.counters.commits.fetch_add(1, Relaxed);
            self.closed = epoch;
            self.unattested = true;
        }
        self.dirty_since = None;
        self.last_taken = Some(taken);
        if epoch > self.shared.status.durable_epoch() {
            self.shared.status.advance(epoch);
        }
        Ok(())
    }

    /// Makes blocks of all taken buffers, one of them closing `epoch` (all, when sealing).
    /// Returns the shards that have something to write or sync.
    fn finish_blocks(&mut self, epoch: u64, purpose: Purpose) -> Vec<usize> {
        let mut writers: Vec<_> = self.writers.iter().map(|writer| lock(writer)).collect();
        let carrier = writers
            .iter()
            .position(|writer| writer.has_records())
            .or_else(|| writers.iter().position(|writer| writer.is_unsynced()))
            .unwrap_or(0);
        let closes = |index| index == carrier || purpose == Purpose::Seal;
        let lengths = writers
            .iter()
            .enumerate()
            .map(|(index, writer)| ShardLength {
                valid: match writer.has_records() || closes(index) {
                    true => writer.length_after(closes(index)),
                    false => writer.length,
                },
                durable: writer.durable,
            });
        let closing = Closing {
            epoch,
            lengths: lengths.collect(),
        };
        let mut written = Vec::new();
        for (index, writer) in writers.iter_mut().enumerate() {
            if writer.has_records() || closes(index) {
                self.count_block(writer);
                let closing = closes(index).then(|| closing.clone());
                writer.finish_block(closing, purpose == Purpose::Seal);
                written.push(index);
            } else if writer.is_unsynced() {
                written.push(index);
            }
        }
        written
    }

    fn count_block(&self, writer: &SegmentWriter) {
        self.shared.counters.blocks.fetch_add(1, Relaxed);
        self.shared
            .counters
            .records
            .fetch_add(writer.records.into(), Relaxed);
    }

    /// Writes (and syncs) the finished blocks of these shards, in parallel, waiting for space as
    /// long as it takes.
    fn perform(&mut self, shards: &[usize], sync: bool) -> Result<(), Stopped> {
        let counters = &self.shared.counters;
        let before: u64 = shards
            .iter()
            .map(|&shard| lock(&self.writers[shard]).length)
            .sum();
        let mut left = shards.to_vec();
        let mut was_full = false;
        while !left.is_empty() {
            let mut full = Vec::new();
            for (index, outcome) in self.helpers.perform(&self.writers, &left, sync) {
                match outcome {
                    Ok(()) => {}
                    Err(WriteFault::Write(e)) if is_disk_full(&e) => full.push(index),
                    Err(fault) => return Err(self.poison(index, &fault)),
                }
            }
            left = full;
            if !left.is_empty() {
                if !was_full {
                    counters.full_disk.fetch_add(1, Relaxed);
                    self.shared.status.set_disk_full(true);
                    self.shared.wake_writers();
                }
                was_full = true;
                if self.shared.requests().stop {
                    return Err(Stopped::DiskFull);
                }
                thread::park_timeout(self.shared.options.full_disk_retry);
            }
        }
        if was_full {
            self.shared.status.set_disk_full(false);
        }
        let after: u64 = shards
            .iter()
            .map(|&shard| lock(&self.writers[shard]).length)
            .sum();
        counters.bytes.fetch_add(after - before, Relaxed);
        counters.generation_bytes.fetch_add(after - before, Relaxed);
        if sync {
            counters.syncs.fetch_add(shards.len() as u64, Relaxed);
        }
        Ok(())
    }

    fn poison(&self, shard: usize, fault: &WriteFault) -> Stopped {
        let (verb, error) = match fault {
            WriteFault::Write(error) => ("writing", error),
            WriteFault::Sync(error) => ("syncing", error),
        };
        let path = lock(&self.writers[shard]).path.clone();
        self.shared
            .status
            .poison(&format!("{verb} {} failed: {error}", path.display()));
        self.shared.wake_writers();
        Stopped::Poisoned
    }

    /// Seals the files of this generation and goes on in those of the next.
    fn rotate(&mut self, rotation: Rotation) -> Result<(), Stopped> {
        self.commit(0, Purpose::Seal)?;
        let (generation, epoch, end) = (rotation.generation, self.closed, self.end());
        for (old, new) in self.writers.iter_mut().zip(rotation.writers) {
            *old = Arc::new(Mutex::new(new));
        }
        self.shared.counters.generation.store(generation, Relaxed);
        self.shared.counters.generation_bytes.store(0, Relaxed);
        // The first block of the new generation shows that the old one was sealed.
        self.unattested = true;
        // If nobody waits for the answer any more, the rotation still happened.
        let _ = rotation.done.send(RotationPoint {
            generation,
            epoch,
            end,
        });
        Ok(())
    }

    /// Writes the block that says that everything is durable. Not needed for anything but telling
    /// damage from torn writes, so it waits for no space and no sync.
    fn attest(&mut self) -> Result<(), Stopped> {
        self.unattested = false;
        let lengths = self.writers.iter().enumerate().map(|(index, writer)| {
            let writer = lock(writer);
            let valid = if index == 0 {
                writer.length_after(true)
            } else {
                writer.length
            };
            ShardLength {
                valid,
                durable: writer.durable,
            }
        });
        let closing = Closing {
            epoch: self.closed,
            lengths: lengths.collect(),
        };
        let mut writer = lock(&self.writers[0]);
        self.count_block(&writer);
        writer.finish_block(Some(closing), false);
        match writer.perform(false) {
            Ok(()) => Ok(()),
            Err(WriteFault::Write(e)) if is_disk_full(&e) => {
                writer.discard_block();
                Ok(())
            }
            Err(fault) => {
                drop(writer);
                Err(self.poison(0, &fault))
            }
        }
    }

    /// Flushes the last records, and says where the files end. No appends are accepted any more.
    fn finish(&mut self, requested: u64) -> Result<IncarnationEnd, Stopped> {
        let mut requested = requested;
        while self.look().0 || requested > self.shared.status.durable_epoch() {
            self.commit(requested, Purpose::Close)?;
            requested = self.newest;
        }
        let unsynced: Vec<usize> = (0..self.writers.len())
            .filter(|&i| lock(&self.writers[i]).is_unsynced())
            .collect();
        self.perform(&unsynced, true)?;
        Ok(self.end())
    }

    /// Where the files end now; everything in them is durable.
    fn end(&self) -> IncarnationEnd {
        let writers: Vec<_> = self.writers.iter().map(|writer| lock(writer)).collect();
        IncarnationEnd {
            incarnation: writers[0].identity().incarnation,
            cutoff_epoch: self.closed.max(self.shared.status.durable_epoch()),
            max_epoch: self.shared.epoch.load(Relaxed).max(self.newest),
            last_generation: writers[0].identity().generation,
            lengths: writers.iter().map(|writer| writer.length).collect(),
        }
    }
}
