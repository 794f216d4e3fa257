//! The side of the log that writes blocks: all shards' files, behind one mutex.
//!
//! Two kinds of threads use it: the flusher, which closes epochs, and workers that write out
//! appended records to the operating system before they reply ([`Log::write_out`]). Syncs run
//! outside the mutex, so a worker never waits for one.
//!
//! Both end their writes with a block that closes them: it has an epoch and the length that every
//! shard's file must have. Recovery takes the newest such block whose lengths are all there, and
//! drops what lies behind them. There are two ways to a cut that is consistent across shards:
//!
//! - *closing an epoch*: advance the global epoch, then take the buffers one after the other;
//!   recovery drops records of the next epoch in them;
//! - *at one moment*: take all buffers with all of their mutexes locked. This uses no epoch, so
//!   every tick of an event loop can do it.
//!
//! [`Log::write_out`]: crate::Log::write_out

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use hedgerow_sync::CachePadded;
use hedgerow_vfs::{VfsFile, is_disk_full};

use crate::block::{Closing, HEADER_BYTES, ShardLength};
use crate::entries::IncarnationEnd;
use crate::log_state::LogState;
use crate::planted::{PlantedBug, planted};
use crate::recovery::EPOCH_GAP;
use crate::segment::SegmentWriter;
use crate::shard::{Buffer, Shard};

/// Epochs that may be closed without a block, since nothing was committed in them. After so many a
/// block is written all the same: recovery must never begin with an epoch that was used, and all
/// that it knows of them are blocks. Half of the gap that it leaves, so that requests for epochs
/// ahead of the current one fit in between.
pub(crate) const MOST_EPOCHS_WITHOUT_BLOCK: u64 = EPOCH_GAP / 2;

/// Why blocks could not be written.
pub(crate) enum Fault {
    /// No space; the blocks wait to be written again.
    Full,
    /// Any other error: the log is poisoned.
    Failed(String),
}

/// All shards' files, and what was written to them.
pub(crate) struct Output {
    writers: Vec<SegmentWriter>,
    /// The newest epoch that a written block closes.
    pub(crate) closed: u64,
    /// The newest epoch of any record taken from the buffers.
    pub(crate) newest: u64,
    /// The epoch that blocks close which are finished and not all written yet.
    closing: Option<u64>,
    /// Whether the files have records that no block closes yet: of large buffers that were written
    /// early, or of an epoch after the one that was closed.
    uncovered: bool,
    /// The sequence of a manifest that the next block of a group commit must name.
    pub(crate) manifest: Option<u64>,
    /// Whether the files are sealed: nothing may be written until the switch to the next ones.
    pub(crate) sealed: bool,
    /// Whether the reserve is given to a checkpoint.
    reserve_released: bool,
}

/// A file that has to be synced, and what is durable then.
pub(crate) struct Unsynced {
    pub(crate) shard: usize,
    pub(crate) file: Arc<dyn VfsFile>,
    pub(crate) length: u64,
}

impl Output {
    pub(crate) fn new(writers: Vec<SegmentWriter>, first_epoch: u64) -> Output {
        Output {
            writers,
            closed: first_epoch - 1,
            newest: first_epoch - 1,
            closing: None,
            uncovered: false,
            manifest: None,
            sealed: false,
            reserve_released: false,
        }
    }

    /// Whether blocks wait for space.
    pub(crate) fn has_pending(&self) -> bool {
        self.writers.iter().any(SegmentWriter::is_pending)
    }

    /// Closes `epoch`: everything of it or before, in all shards, is in the files then, and one
    /// block says so.
    pub(crate) fn close_epoch(
        &mut self,
        log: &LogState,
        shards: &[CachePadded<Shard>],
        epoch: u64,
    ) -> Result<(), Fault> {
        log.epoch.store(epoch + 1, SeqCst);
        for (at, shard) in shards.iter().enumerate() {
            self.take(shard, &mut shard.lock(), at);
        }
        let is_quiet = self.newest <= self.closed && self.manifest.is_none();
        if is_quiet && epoch - self.closed < MOST_EPOCHS_WITHOUT_BLOCK {
            // Nothing happened since: no block is needed.
            return Ok(());
        }
        let manifest = self.manifest.take();
        self.finish_blocks(log, epoch, manifest, false);
        self.closing = Some(epoch);
        self.write_pending(log)
    }

    /// Closes `epoch`, or that of the newest record, and seals the files: one block in every shard
    /// says so. Everything happens at one moment, at which no commit is under way and `cut` runs.
    /// Returns the epoch.
    pub(crate) fn seal(
        &mut self,
        log: &LogState,
        shards: &[CachePadded<Shard>],
        epoch: u64,
        cut: impl FnOnce(),
    ) -> (u64, Result<(), Fault>) {
        let mut buffers: Vec<_> = shards.iter().map(|shard| shard.lock()).collect();
        for (at, buffer) in buffers.iter_mut().enumerate() {
            self.take(&shards[at], buffer, at);
        }
        let epoch = epoch.max(self.newest);
        log.epoch.store(epoch + 1, SeqCst);
        cut();
        drop(buffers);
        let manifest = self.manifest.take();
        self.finish_blocks(log, epoch, manifest, true);
        self.closing = Some(epoch);
        self.sealed = true;
        (epoch, self.write_pending(log))
    }

    /// Writes what was appended so far, in all shards, so that it survives this process.
    pub(crate) fn write_out(
        &mut self,
        log: &LogState,
        shards: &[CachePadded<Shard>],
    ) -> Result<(), Fault> {
        debug_assert!(!self.has_pending() && !self.sealed);
        let mut buffers: Vec<_> = shards.iter().map(|shard| shard.lock()).collect();
        if buffers.iter().all(|buffer| buffer.records == 0) && !self.uncovered {
            return Ok(());
        }
        for (at, buffer) in buffers.iter_mut().enumerate() {
            self.take(&shards[at], buffer, at);
        }
        drop(buffers);
        // All records in the files have this epoch or an earlier one: none is dropped. This is not
        // synced: a group commit names a manifest.
        self.finish_blocks(log, self.newest, None, false);
        self.write_pending(log)
    }

    /// Writes large buffers, without a block that closes them.
    pub(crate) fn write_large(
        &mut self,
        log: &LogState,
        shards: &[CachePadded<Shard>],
    ) -> Result<(), Fault> {
        let threshold = log.options.write_threshold_bytes;
        for (at, shard) in shards.iter().enumerate() {
            let mut buffer = shard.lock();
            if buffer.bytes.len() >= threshold {
                self.take(shard, &mut buffer, at);
            }
        }
        for writer in self
            .writers
            .iter_mut()
            .filter(|writer| writer.has_records())
        {
            log.counters.count_blocks(writer.blocks(), writer.records);
            writer.finish_blocks(None, false);
        }
        self.write_pending(log)
    }

    /// Writes a block that says that everything is durable. It only serves to distinguish damage
    /// from torn writes, so it waits neither for space nor for a sync.
    pub(crate) fn write_all_durable_block(&mut self, log: &LogState) -> Result<(), Fault> {
        let lengths = self
            .writers
            .iter()
            .enumerate()
            .map(|(at, writer)| ShardLength {
                valid: if at == 0 {
                    writer.length_after(true, false)
                } else {
                    writer.length
                },
                durable: writer.durable,
            });
        let closing = Closing {
            epoch: self.closed,
            lengths: lengths.collect(),
            manifest: None,
        };
        log.counters.count_blocks(1, 0);
        self.writers[0].finish_blocks(Some(closing), false);
        match self.write_pending(log) {
            Err(Fault::Full) => {
                self.writers[0].discard_block();
                Ok(())
            }
            other => other,
        }
    }

    /// Drops what was appended so far: only a planted bug does that.
    pub(crate) fn discard(&mut self, shards: &[CachePadded<Shard>]) {
        for shard in shards {
            let mut buffer = shard.lock();
            buffer.bytes.truncate(HEADER_BYTES);
            buffer.cuts.clear();
            buffer.records = 0;
            shard.wake_waiters(buffer.waiters());
        }
    }

    /// Swaps a shard's buffer for an empty one, if it has records.
    fn take(&mut self, shard: &Shard, buffer: &mut Buffer, at: usize) {
        if buffer.records == 0 {
            return;
        }
        let writer = &mut self.writers[at];
        debug_assert!(!writer.has_records());
        std::mem::swap(&mut buffer.bytes, &mut writer.bytes);
        std::mem::swap(&mut buffer.cuts, &mut writer.cuts);
        writer.records = std::mem::take(&mut buffer.records);
        writer.last_timestamp = buffer.last_appended;
        self.newest = self.newest.max(buffer.last_appended.epoch());
        self.uncovered = true;
        buffer.write_wanted = false;
        shard.wake_waiters(buffer.waiters());
    }

    /// Makes blocks of all taken buffers, one of them (or all, when sealing) carrying the lengths
    /// that the files will have, and the sequence of a manifest if there is one to name.
    fn finish_blocks(&mut self, log: &LogState, epoch: u64, manifest: Option<u64>, seals: bool) {
        let writers = &mut self.writers;
        let carrier = writers
            .iter()
            .position(SegmentWriter::has_records)
            .or_else(|| writers.iter().position(SegmentWriter::is_unsynced))
            .unwrap_or(0);
        let closes = |at| at == carrier || seals;
        self.uncovered = self.newest > epoch;
        let lengths = writers.iter().enumerate().map(|(at, writer)| ShardLength {
            valid: match writer.has_records() || closes(at) {
                true => writer.length_after(closes(at), manifest.is_some()),
                false => writer.length,
            },
            durable: writer.durable,
        });
        let closing = Closing {
            epoch,
            lengths: lengths.collect(),
            manifest,
        };
        for (at, writer) in writers.iter_mut().enumerate() {
            if writer.has_records() || closes(at) {
                log.counters.count_blocks(writer.blocks(), writer.records);
                writer.finish_blocks(closes(at).then(|| closing.clone()), seals);
            }
        }
    }

    /// Writes all finished blocks. After `Full` it is called again, until they fit.
    pub(crate) fn write_pending(&mut self, log: &LogState) -> Result<(), Fault> {
        let mut full = false;
        for writer in self.writers.iter_mut().filter(|writer| writer.is_pending()) {
            match writer.write() {
                Ok(bytes) => log.counters.count_bytes(bytes),
                Err(e) if is_disk_full(&e) && !planted(PlantedBug::FullDiskTakenForFailure) => {
                    full = true;
                }
                Err(e) => {
                    let file = writer.path.display();
                    return Err(Fault::Failed(format!("writing {file} failed: {e}")));
                }
            }
        }
        if full {
            return Err(Fault::Full);
        }
        if let Some(epoch) = self.closing.take() {
            self.closed = epoch;
        }
        log.set_short(self.writers.iter().any(SegmentWriter::is_short));
        Ok(())
    }

    /// For each shard, whether its disk has no space beyond the reserve.
    pub(crate) fn short_shards(&self) -> Vec<bool> {
        self.writers.iter().map(SegmentWriter::is_short).collect()
    }

    /// Tries to reserve disk space up to the configured amount.
    pub(crate) fn keep_reserve(&mut self) {
        self.writers
            .iter_mut()
            .for_each(SegmentWriter::keep_reserve);
    }

    /// For each shard, how many bytes of the reserved space a checkpoint could use.
    pub(crate) fn releasable(&self) -> Vec<u64> {
        self.writers.iter().map(SegmentWriter::releasable).collect()
    }

    /// Whether any shard has less than an eighth of its reserve left for removals, once what was
    /// appended is written.
    pub(crate) fn is_reserve_low(&self, shards: &[CachePadded<Shard>]) -> bool {
        let mut writers = self.writers.iter().zip(shards);
        writers.any(|(writer, shard)| writer.is_reserve_low(shard.lock().bytes.len()))
    }

    /// Whether the reserve is given to a checkpoint.
    pub(crate) fn is_reserve_released(&self) -> bool {
        self.reserve_released
    }

    /// Gives the reserve to a checkpoint, or reserves again what it can when the checkpoint has
    /// ended.
    pub(crate) fn set_reserve_released(&mut self, released: bool) {
        self.reserve_released = released;
        let change = match released {
            true => SegmentWriter::release_reserve,
            false => SegmentWriter::restore_reserve,
        };
        self.writers.iter_mut().for_each(change);
    }

    /// Writes files [ahead](SegmentWriter::write_ahead) that are short of room.
    pub(crate) fn write_ahead(&mut self, log: &LogState) {
        if self.sealed || self.reserve_released || self.has_pending() {
            return;
        }
        let most = u64::from(log.options.ahead_bytes);
        for writer in &mut self.writers {
            log.counters.count_ahead(writer.write_ahead(most));
        }
    }

    /// Truncates what was written ahead.
    pub(crate) fn trim(&mut self) {
        self.writers.iter_mut().for_each(SegmentWriter::trim_ahead);
    }

    /// The files with written bytes that were not synced.
    pub(crate) fn unsynced(&self) -> Vec<Unsynced> {
        let writers = self.writers.iter().enumerate();
        writers
            .filter(|(_, writer)| writer.is_unsynced())
            .map(|(shard, writer)| Unsynced {
                shard,
                file: writer.file(),
                length: writer.length,
            })
            .collect()
    }

    /// Records that a file was synced while it had at least `length` bytes.
    pub(crate) fn synced(&mut self, shard: usize, length: u64) {
        let writer = &mut self.writers[shard];
        writer.durable = writer.durable.max(length);
    }

    /// The path of a shard's file, for messages.
    pub(crate) fn path(&self, shard: usize) -> String {
        self.writers[shard].path.display().to_string()
    }

    /// Switches to the files of the next generation; returns those of the last.
    pub(crate) fn switch(&mut self, writers: Vec<SegmentWriter>) -> Vec<SegmentWriter> {
        debug_assert!(!self.has_pending() && writers.len() == self.writers.len());
        self.sealed = false;
        let sealed = std::mem::replace(&mut self.writers, writers);
        if !self.reserve_released {
            // The checkpoint for which they were made did not wait for the rotation.
            let writers = self.writers.iter_mut();
            writers.for_each(SegmentWriter::restore_reserve);
        }
        sealed
    }

    /// Where the files end now, if everything in them is durable.
    pub(crate) fn end(&self, log: &LogState) -> IncarnationEnd {
        let identity = self.writers[0].identity();
        IncarnationEnd {
            incarnation: identity.incarnation,
            cutoff_epoch: self.closed.max(log.status.durable_epoch()),
            max_epoch: log.epoch.load(Relaxed).max(self.newest),
            last_generation: identity.generation,
            lengths: self.writers.iter().map(|writer| writer.length).collect(),
        }
    }
}
