//! The report on one pool: a size class, or a kind of blocks.

use std::ops::Range;

/// One size class, or the pool of one kind of blocks, that has been used.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClassReport {
    /// The kind that has the pool for itself ([`BlockPool`](crate::BlockPool)); `None` for a size
    /// class.
    pub kind: Option<&'static str>,
    /// Bytes of one slot.
    pub slot_bytes: usize,
    /// Slots cut so far.
    pub slots: usize,
    /// Slots handed out and not released.
    pub live: usize,
    /// Free slots in the central store.
    pub free_central: usize,
    /// Free slots in the magazines of all threads.
    pub free_cached: usize,
    /// Whole 2 MiB regions that the class owns.
    pub regions: usize,
    /// Address ranges that the class owns, ascending; no other class has slots in them.
    pub chunks: Vec<Range<usize>>,
    /// Bytes of those ranges.
    pub reserved_bytes: usize,
    /// The share of slots not in the central store, in the chunk where it is smallest:
    /// near 1.0 where memory is dense.
    pub least_fill: f64,
}
