//! Memory for tree nodes and value blocks: segregated pools in superpage regions.
//!
//! A tree spends its time in cache and TLB misses, so where its nodes lie matters as much as what
//! is in them. Masstree gained a good part of its speed from an allocator of its own (§6.2, "+Flow"
//! and "+Superpage"), and this crate is ours:
//!
//! ```text
//!  allocate(320)                                           a thread
//!      │ pop                 ┌────────────┐  no lock, no shared write
//!      └────────────────────►│ magazine   │  up to 64 free slots of this class
//!                            └─────┬──────┘
//!            empty or full: half a │ magazine moves, under one mutex per class
//!                            ┌─────▼──────┐
//!                            │ central    │  free slots, and the chunk being carved
//!                            └─────┬──────┘
//!                     chunk used up│
//!                            ┌─────▼──────┐
//!                            │ regions    │  2 MiB aligned, MADV_HUGEPAGE
//!                            └────────────┘
//! ```
//!
//! * **Segregated.** Each size class carves its own chunks: 64 KiB ones while the class is small,
//!   whole 2 MiB regions afterwards. Slots of two classes never share a chunk, so the nodes of a
//!   tree lie among nodes and not among values.
//! * **Segregated further where a user asks.** A [`BlockPool`] is a pool for one kind of blocks,
//!   such as one node type of a tree: chunks of its own, slots of exactly its size. It lies beside
//!   the classes, with a magazine per thread and a central store like theirs. [`SizedPools`] are
//!   such pools for one kind of blocks of many sizes.
//! * **All cache sets.** Slots of 2 to 8 KiB lie an odd number of lines apart, so that the first
//!   lines of nodes of a page's size do not share a few sets of each cache.
//! * **Sized release.** The caller knows the size of what it frees, so slots carry no header: an
//!   8-byte value costs 8 bytes.
//! * **Any thread may release** what another allocated; the slot joins the magazine of the thread
//!   that released it.
//! * **Memory goes back to its class, not to the kernel.** A region belongs to its class for the
//!   life of the process. Blocks over [`LARGEST_POOLED_BYTES`] come from the standard allocator and
//!   go back to it.
//!
//! A tree that lays out its own nodes takes whole [`Superpages`] instead, and returns them when it
//! is dropped. A pool that addresses its memory by number reserves one large [`Mapping`].
//!
//! [`inspect`] reports on pools; a [`layout::Inspector`] shows how the nodes of a structure lie:
//! across lines, in cache sets, beside their parents, on pages.
//!
//! With the feature `system-allocator`, and always under Miri, every block comes from the standard
//! allocator, so that sanitizers see each of them.

#[cfg(all(target_os = "linux", not(miri)))]
mod advice;
mod block_pool;
mod blocks;
#[cfg(not(any(feature = "system-allocator", miri)))]
mod central;
mod class;
mod class_report;
mod code;
mod freed;
#[cfg(not(any(feature = "system-allocator", miri)))]
mod kind;
pub mod layout;
#[cfg(not(any(feature = "system-allocator", miri)))]
mod magazine;
mod mapping;
mod placed_box;
mod placed_node;
#[cfg(not(any(feature = "system-allocator", miri)))]
mod pool;
mod prefetch;
#[cfg(not(any(feature = "system-allocator", miri)))]
mod region;
mod report;
mod sized_pools;
mod superpage;
mod system;
mod tally;

use std::ptr::NonNull;

pub use block_pool::{BlockPool, Placement};
pub use class_report::ClassReport;
pub use code::drop_startup_code_pages;
pub use freed::fix_mmap_threshold;
pub use mapping::Mapping;
pub use placed_box::PlacedBox;
pub use placed_node::{PlacedNode, VisitNodes, WrittenFields};
pub use prefetch::{prefetch_line, prefetch_lines};
pub use report::{Report, inspect};
pub use sized_pools::SizedPools;
pub use superpage::{STEP_BYTES, SUPERPAGE_BYTES, Superpages};

/// The largest block that comes from a pool, in bytes; larger ones come from the standard
/// allocator.
pub const LARGEST_POOLED_BYTES: usize = class::LARGEST_BYTES;

/// Returns an uninitialised block of at least `size_bytes` bytes.
///
/// The block is aligned to 64 bytes when `size_bytes` is a multiple of 64 (and not 0), else to
/// at least 8. A size of 0 yields a block of 8 bytes. When memory runs out the process ends
/// through [`std::alloc::handle_alloc_error`], as with any Rust collection.
///
/// Costs a few instructions while the thread's magazine holds a slot; a refill takes a mutex
/// once for up to 32 blocks.
#[inline]
#[must_use]
pub fn allocate(size_bytes: usize) -> NonNull<u8> {
    match blocks::allocate(size_bytes) {
        Some(block) => block,
        None => system::out_of_memory(size_bytes),
    }
}

/// Gives a block back; any thread may do so.
///
/// # Safety
///
/// `block` came from [`allocate`] with the same `size_bytes`, was not released since, and nothing
/// reads or writes it any more.
#[inline]
pub unsafe fn release(block: NonNull<u8>, size_bytes: usize) {
    // SAFETY: the caller promises exactly what `blocks::release` requires.
    unsafe { blocks::release(block, size_bytes) }
}

/// Bytes that a block of `size_bytes` really occupies: the slot size of its class, if pooled.
#[inline]
#[must_use]
pub fn block_bytes(size_bytes: usize) -> usize {
    let pooled = cfg!(not(any(feature = "system-allocator", miri)));
    if pooled && size_bytes <= class::LARGEST_BYTES {
        class::slot_bytes(class::of(size_bytes))
    } else {
        system::block_bytes(size_bytes)
    }
}

/// Bytes of pool chunks and large blocks that this process holds: what the pools took from
/// the kernel, whether handed out or free. One or two atomic loads.
#[must_use]
pub fn reserved_bytes() -> usize {
    blocks::reserved_bytes()
}

/// Bytes in blocks that were handed out and not yet released, rounded up to their classes.
///
/// Exact while no thread allocates or releases. Takes one mutex per class, however many blocks
/// there are: for statistics and for memory limits that are checked now and then, not on every
/// operation.
#[must_use]
pub fn live_bytes() -> usize {
    blocks::live_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_sizes_are_refused_not_fatal() {
        assert!(blocks::allocate(usize::MAX).is_none());
        assert!(blocks::allocate(isize::MAX as usize).is_none());
    }
}
