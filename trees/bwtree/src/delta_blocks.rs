//! Delta records in blocks of their own, as the first Bw-tree had them, for comparison.
//!
//! Each insert, update, delete and separator record is allocated by itself, wherever the allocator
//! has room, and freed with its chain. A descent so follows links from block to block, where
//! chunks have the chain in few cache lines. Records of splits, merges and aborts stay in the
//! chunk of their base node: there is at most one of each, and it must have room.
//!
//! Links are distances of 32 bits in units of 8 bytes, so a block lies at most 8 GiB from its base
//! node. One that the allocator places farther away is given back, and the node consolidated.
//! The pools' blocks are near; the address sanitizer's allocator keeps sizes so far apart that none
//! is.

use std::ptr::NonNull;

use hedgerow_memory::{Placement, SizedPools};

use crate::chunk;
use crate::chunk_word::ChunkWord;
use crate::node::RecordRef;
use crate::node::record::Kind;

/// The farthest that a delta may lie from its base node, so that any two of a chain reach each
/// other.
const FARTHEST_BYTES: usize = 8 << 30;

static DELTAS: SizedPools = SizedPools::new("bwtree delta");

/// A block for a delta of a chain; `None` if it lies too far away.
pub(crate) fn allocate<W: ChunkWord>(
    base: RecordRef<'_>,
    placement: Placement,
    bytes: usize,
) -> Option<NonNull<u8>> {
    let block = W::allocate(&DELTAS, placement, bytes);
    block.as_ptr().expose_provenance();
    if block.addr().get().abs_diff(base.address().addr().get()) < FARTHEST_BYTES {
        return Some(block);
    }
    // SAFETY: just allocated, with this size.
    unsafe { release_one::<W>(block, placement, bytes) };
    None
}

/// Frees a block.
///
/// # Safety
///
/// It came from [`allocate`] with this placement and size, and nobody uses it.
pub(crate) unsafe fn release_one<W: ChunkWord>(
    block: NonNull<u8>,
    placement: Placement,
    bytes: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { W::release(&DELTAS, placement, block, bytes) };
}

/// The records of a chain that lie in blocks of their own.
fn blocks_of<'g, W: ChunkWord>(head: RecordRef<'g>) -> impl Iterator<Item = RecordRef<'g>> {
    let base = head.base();
    let next = |record: &RecordRef<'g>| (record.kind() != Kind::Base).then(|| record.next());
    // The next record is found before one is shown, so that it can be freed.
    let mut following = Some(head);
    let records = std::iter::from_fn(move || {
        let record = following?;
        following = next(&record);
        Some(record)
    });
    records.filter(move |&record| !chunk::contains::<W>(base, record))
}

/// Bytes of the blocks of a chain's deltas.
pub(crate) fn bytes<W: ChunkWord>(head: RecordRef<'_>, placement: Placement) -> usize {
    blocks_of::<W>(head)
        .map(|record| placement.block_bytes(record.delta_bytes()))
        .sum()
}

/// Frees the blocks of a chain's deltas.
///
/// # Safety
///
/// Nobody uses the deltas any more, each is freed once, and they are of that placement.
pub(crate) unsafe fn release<W: ChunkWord>(head: RecordRef<'_>, placement: Placement) {
    for record in blocks_of::<W>(head) {
        // SAFETY: the block came from `allocate` with the size of its record; the caller owns it.
        unsafe { release_one::<W>(record.address(), placement, record.delta_bytes()) };
    }
}
