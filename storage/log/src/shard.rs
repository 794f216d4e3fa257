//! A log shard's buffer, to which writers append records.
//!
//! One shard per worker, so its mutex is normally uncontended: the flusher takes it only to swap
//! the full buffer for an empty one. A writer has the [`ShardGuard`] while it takes a timestamp,
//! changes the tree, and appends the record. So a thread that has locked every shard's mutex once
//! (to close an epoch, or to rotate) knows that all earlier commits are in tree and buffer.

use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use hedgerow_sync::CachePadded;

use crate::block::HEADER_BYTES;
use crate::error::Result;
use crate::health::Status;
use crate::log_state::LogState;
use crate::record::{self, Operation};
use crate::segment::{Cut, empty_buffer};
use crate::timestamp::Timestamp;

/// One shard. The log pads each, so that two never share a cache line (or a prefetched pair).
pub(crate) struct Shard {
    buffer: Mutex<Buffer>,
    space: Condvar,
}

/// Records that wait for the flusher.
pub(crate) struct Buffer {
    /// Room for a block header, then records; the same behind each cut.
    pub(crate) bytes: Vec<u8>,
    /// Where further blocks begin.
    pub(crate) cuts: Vec<Cut>,
    pub(crate) records: u32,
    /// The last timestamp handed out.
    last: Timestamp,
    /// The last timestamp appended.
    pub(crate) last_appended: Timestamp,
    /// Whether the flusher was already woken to write this buffer.
    pub(crate) write_wanted: bool,
    waiters: u32,
}

impl Shard {
    pub(crate) fn new(first_epoch: u64) -> Shard {
        let before = Timestamp::new(first_epoch, 0);
        Shard {
            buffer: Mutex::new(Buffer {
                bytes: empty_buffer(),
                cuts: Vec::new(),
                records: 0,
                last: before,
                last_appended: Timestamp::ZERO,
                write_wanted: false,
                waiters: 0,
            }),
            space: Condvar::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Buffer> {
        // A panic under the lock cannot leave half a record: appending does not panic.
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the buffer once there is room in it. `check` says whether the log accepts the commit.
    pub(crate) fn guard<'a>(
        &'a self,
        log: &'a LogState,
        check: impl Fn(&Status) -> Result<()>,
    ) -> Result<ShardGuard<'a>> {
        let mut buffer = self.lock();
        check(&log.status)?;
        let limit = log.options.buffer_limit_bytes;
        while buffer.bytes.len() >= limit {
            log.wake_flusher();
            buffer.waiters += 1;
            buffer = self
                .space
                .wait(buffer)
                .unwrap_or_else(PoisonError::into_inner);
            buffer.waiters -= 1;
            check(&log.status)?;
        }
        Ok(ShardGuard { buffer, log })
    }

    /// Locks the buffer, whatever there is in it.
    pub(crate) fn guard_for_applied_changes<'a>(&'a self, log: &'a LogState) -> ShardGuard<'a> {
        let buffer = self.lock();
        ShardGuard { buffer, log }
    }

    /// Lets those who wait for room look again. The caller holds (or has just held) the lock.
    pub(crate) fn wake_waiters(&self, waiters: u32) {
        if waiters > 0 {
            self.space.notify_all();
        }
    }
}

impl Buffer {
    pub(crate) fn waiters(&self) -> u32 {
        self.waiters
    }

    /// Begins another block if the last one has records and so many bytes. A record comes next, so
    /// no block is empty.
    fn cut(&mut self, block_bytes: usize) {
        let start = self.cuts.last().map_or(0, |cut| cut.at);
        if self.records == 0 || self.bytes.len() - start < block_bytes {
            return;
        }
        self.cuts.push(Cut {
            at: self.bytes.len(),
            records: self.records,
            last_timestamp: self.last_appended,
        });
        self.bytes.resize(self.bytes.len() + HEADER_BYTES, 0);
    }
}

/// [`Log::cut`](crate::Log::cut): locks all shards, in the order in which everyone does who locks
/// several, and raises each to the newest timestamp of all, which the next commits then exceed.
pub(crate) fn cut<R>(shards: &[CachePadded<Shard>], at_cut: impl FnOnce(Timestamp) -> R) -> R {
    let mut buffers: Vec<_> = shards.iter().map(|shard| shard.lock()).collect();
    let newest = buffers.iter().map(|buffer| buffer.last).max();
    let newest = newest.unwrap_or(Timestamp::ZERO);
    for buffer in &mut buffers {
        buffer.last = newest;
    }
    at_cut(newest)
}

/// The right to commit in a shard: holds its mutex. Take a timestamp, apply the change, append
/// the record, drop. Do not block or take another shard while holding it.
pub struct ShardGuard<'a> {
    buffer: MutexGuard<'a, Buffer>,
    log: &'a LogState,
}

impl ShardGuard<'_> {
    /// A commit timestamp: above `floor`, above all earlier ones of this shard, and of the
    /// current epoch or a later one.
    pub fn timestamp(&mut self, floor: Timestamp) -> Timestamp {
        // Relaxed: the flusher stores a new epoch before it takes this shard's mutex, and that
        // orders the store before every later load under the mutex.
        let epoch = Timestamp::new(self.log.epoch.load(Ordering::Relaxed), 0);
        let timestamp = floor.max(self.buffer.last).next().max(epoch);
        self.buffer.last = timestamp;
        timestamp
    }

    /// Appends the record of one commit. Cannot fail: whether the log accepts commits was decided
    /// when the guard was taken. `timestamp` is the last one that [`Self::timestamp`] returned.
    pub fn append(&mut self, timestamp: Timestamp, operations: &[Operation<'_>]) {
        debug_assert_eq!(
            timestamp, self.buffer.last,
            "timestamps are appended in order"
        );
        debug_assert!(!operations.is_empty(), "a commit has operations");
        if !self.log.options.records {
            return;
        }
        let buffer = &mut *self.buffer;
        buffer.cut(self.log.options.block_bytes);
        record::append(&mut buffer.bytes, timestamp, operations);
        buffer.records += 1;
        buffer.last_appended = timestamp;
        let large = buffer.bytes.len() >= self.log.options.write_threshold_bytes;
        if large && !buffer.write_wanted {
            buffer.write_wanted = true;
            self.log.wake_flusher();
        } else if self.log.idle.load(Ordering::Relaxed) {
            // Relaxed suffices: the flusher says it is idle before it looks at this buffer under
            // the mutex. If it found the buffer empty, this load comes after and sees it.
            self.log.wake_if_idle();
        }
    }
}
