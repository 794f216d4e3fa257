//! How a log behaves.

use std::time::Duration;

/// How a log behaves.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Log files and buffers: one per worker.
    pub shards: u16,
    /// The longest time that a commit waits for its sync to begin when nobody asks for it.
    pub flush_interval: Duration,
    /// A buffer this large is written without waiting for the interval.
    pub write_threshold_bytes: usize,
    /// A buffer this large makes its writers wait for the disk.
    pub buffer_limit_bytes: usize,
    /// Where a buffer has so many bytes another block begins, so that none is longer than this and
    /// one commit. Recovery has a block of each shard in memory, or several.
    pub block_bytes: usize,
    /// Zeros that are written ahead of blocks at once, at most, where commits are waited for: their
    /// syncs take less then, and the log's bytes are written twice. 0: none.
    pub ahead_bytes: u32,
    /// Disk space that each log file has reserved behind its blocks, for removals on a full disk
    /// and for opening the database on one. 0: none.
    pub reserve_bytes: u32,
    /// How long to wait before trying again to write to a full disk.
    pub full_disk_retry: Duration,
    /// Whether commits are recorded. Without, the log still gives out timestamps and epochs, but
    /// appending costs nothing and what was committed cannot be recovered: for databases that
    /// live in memory alone.
    pub records: bool,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            shards: 1,
            flush_interval: Duration::from_millis(200),
            write_threshold_bytes: 256 << 10,
            buffer_limit_bytes: 32 << 20,
            block_bytes: 256 << 10,
            ahead_bytes: 64 << 10,
            reserve_bytes: 1 << 20,
            full_disk_retry: Duration::from_millis(100),
            records: true,
        }
    }
}
