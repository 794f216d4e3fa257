//! How a database works.

use hedgerow_memory::Placement;

use crate::row_lock::Concurrency;

/// How a database works.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What a transaction does about a lock in its way.
    pub concurrency: Concurrency,
    /// Whether each row's lock has cache lines of its own (§4.3.2).
    pub padded_locks: bool,
    /// Where rows, their data, wrappers and locks, and the items of indexes come from: the
    /// standard allocator for [`Placement::System`], else the size classes, among which nodes of
    /// [`Placement::Merged`] are, too.
    pub placement: Placement,
}

impl Default for Settings {
    /// Without waiting, with padded locks, in size classes: the paper's runs.
    fn default() -> Self {
        Self {
            concurrency: Concurrency::NoWait,
            padded_locks: true,
            placement: Placement::Merged,
        }
    }
}
