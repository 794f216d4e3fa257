//! The counters of a pool.

/// Events that a pool counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PoolStatistics {
    /// Pages read from the file.
    pub reads: u64,
    /// Batches of two or more of these, whose reads were under way at once.
    pub read_batches: u64,
    /// Pages written to the file.
    pub writes: u64,
    /// Writes that this took, of the table, too: neighbours in the file go with one.
    pub write_calls: u64,
    /// Pages whose memory was given back.
    pub evictions: u64,
    /// Pages written in vain, since they were changed meanwhile.
    pub wasted_writes: u64,
    /// Batches of evictions that tried clean pages first, since the disk was full a while before.
    pub clean_first_batches: u64,
    /// Copies of pages that a checkpoint still needed when they were changed.
    pub saved: u64,
    /// Checkpoints published.
    pub checkpoints: u64,
    /// Pages in memory now.
    pub resident: u64,
    /// Of those, changed since they were written.
    pub dirty: u64,
    /// Pages in use.
    pub live: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

pub(crate) const READS: usize = 0;
pub(crate) const WRITES: usize = 1;
pub(crate) const EVICTIONS: usize = 2;
pub(crate) const WASTED: usize = 3;
pub(crate) const SAVED: usize = 4;
pub(crate) const CHECKPOINTS: usize = 5;
pub(crate) const READ_BATCHES: usize = 6;
pub(crate) const WRITE_CALLS: usize = 7;
pub(crate) const CLEAN_BATCHES: usize = 8;
