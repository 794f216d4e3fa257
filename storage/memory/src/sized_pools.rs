//! Pools of blocks of one kind and many sizes.

use std::fmt;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::block_pool::{BlockPool, Placement};
use crate::class;

/// Blocks of one kind and of any size, for nodes that differ in size: a pool for each size class of
/// that kind. Meant to be a `static`; each block is given back with the placement and the size that
/// it was asked for with.
///
/// Segregated, the blocks of a kind and class lie in a [`BlockPool`] of their own, which is made
/// when the first of them is; otherwise they come from where [`Placement::allocate`] takes them.
pub struct SizedPools {
    kind: &'static str,
    /// By size class.
    pools: [OnceLock<BlockPool>; class::COUNT],
}

impl SizedPools {
    /// Pools of a kind, which is their name in reports. None is made yet.
    #[must_use]
    pub const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            pools: [const { OnceLock::new() }; class::COUNT],
        }
    }

    /// The pool of blocks of so many bytes, if they are segregated and not too large for pools.
    fn pool(&self, placement: Placement, size_bytes: usize) -> Option<BlockPool> {
        if placement != Placement::Segregated || size_bytes > class::LARGEST_BYTES {
            return None;
        }
        let class = class::of(size_bytes);
        let make = || BlockPool::new(self.kind, class::slot_bytes(class), placement);
        Some(*self.pools[class].get_or_init(make))
    }

    /// An uninitialised block, aligned to 64 bytes if its size is a multiple of 64 (and not 0),
    /// else to 8. As [`allocate`](crate::allocate), at the cost of a branch or two more.
    #[must_use]
    pub fn allocate(&self, placement: Placement, size_bytes: usize) -> NonNull<u8> {
        match self.pool(placement, size_bytes) {
            Some(pool) => pool.allocate(),
            None => placement.allocate(size_bytes),
        }
    }

    /// Gives a block back; any thread may do so.
    ///
    /// # Safety
    ///
    /// `block` came from [`allocate`](Self::allocate) of these pools with the same placement and
    /// size, was not released since, and nothing reads or writes it any more.
    pub unsafe fn release(&self, placement: Placement, block: NonNull<u8>, size_bytes: usize) {
        // SAFETY: the caller gives back what `allocate` took from the same place.
        unsafe {
            match self.pool(placement, size_bytes) {
                Some(pool) => pool.release(block),
                None => placement.release(block, size_bytes),
            }
        }
    }
}

impl fmt::Debug for SizedPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SizedPools")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
