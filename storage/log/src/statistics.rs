//! Statistics of a running log. The flusher counts, and whoever wakes it; other appends do not.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Figures of a running log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The current epoch.
    pub epoch: u64,
    /// Everything up to this epoch is durable.
    pub durable_epoch: u64,
    /// The current generation of log files.
    pub generation: u32,
    /// Bytes in the current generation's files: what a checkpoint now would free later.
    pub generation_bytes: u64,
    /// Records written.
    pub records: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Zeros written ahead of blocks, so that their syncs take less.
    pub bytes_ahead: u64,
    /// Syncs of single files.
    pub syncs: u64,
    /// Group commits.
    pub commits: u64,
    /// Times the disk was found full.
    pub full_disk: u64,
    /// Times the log's thread was woken: for a record after a quiet time, a large buffer, a sync.
    pub wakes: u64,
}

pub(crate) struct Counters {
    pub(crate) generation: AtomicU32,
    pub(crate) generation_bytes: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) blocks: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) bytes_ahead: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) full_disk: AtomicU64,
    pub(crate) wakes: AtomicU64,
}

impl Counters {
    pub(crate) fn new(generation: u32) -> Counters {
        Counters {
            generation: AtomicU32::new(generation),
            generation_bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_ahead: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            full_disk: AtomicU64::new(0),
            wakes: AtomicU64::new(0),
        }
    }

    pub(crate) fn count_blocks(&self, blocks: u64, records: u32) {
        self.blocks.fetch_add(blocks, Relaxed);
        self.records.fetch_add(records.into(), Relaxed);
    }

    pub(crate) fn count_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.generation_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn count_ahead(&self, bytes: u64) {
        if bytes > 0 {
            self.bytes_ahead.fetch_add(bytes, Relaxed);
        }
    }

    pub(crate) fn begin_generation(&self, generation: u32) {
        self.generation.store(generation, Relaxed);
        self.generation_bytes.store(0, Relaxed);
    }

    pub(crate) fn read(&self, epoch: u64, durable_epoch: u64) -> Statistics {
        Statistics {
            epoch,
            durable_epoch,
            generation: self.generation.load(Relaxed),
            generation_bytes: self.generation_bytes.load(Relaxed),
            records: self.records.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            bytes_ahead: self.bytes_ahead.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            commits: self.commits.load(Relaxed),
            full_disk: self.full_disk.load(Relaxed),
            wakes: self.wakes.load(Relaxed),
        }
    }
}
