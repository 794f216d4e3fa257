//! Pre-allocated chunks: a base node with room for its deltas in front of it.
//!
//! ```text
//! │ … free … │◄ newest delta │ … │ oldest │ marker W │ size_bytes │ base_at │ base node │
//! 0                                       │◄ of a cache line, 16 bytes     ►│
//! ```
//!
//! A thread that appends a delta first claims its bytes by moving the marker towards the front with
//! one compare-and-swap, then writes them, then publishes them through the mapping table. If that
//! fails, the bytes stay unused. A chunk without room for a delta makes its writer consolidate. A
//! chain so lies in one block, newest first, and is freed by one call. The marker shares a cache
//! line with what every operation reads of the base node.
//!
//! A chunk takes a whole block of its size class; what the rounding adds is room for deltas. Those
//! of leaves and those of inner nodes are kinds of their own where they are segregated.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hedgerow_memory::{Placement, SizedPools};

use crate::chunk_word::ChunkWord;
use crate::mapping_table::exchange;
use crate::node::RecordRef;
use crate::node::base::Base;
use crate::node::record::{BEFORE_BASE_BYTES, LINE_BYTES};
use crate::planted::{PlantedBug, planted};

/// What lies just before a base node.
#[repr(C)]
struct Chunk<W: ChunkWord> {
    newest: W::Newest,
    /// Bytes from the chunk's start to its oldest claimed delta.
    marker: W,
    size_bytes: u32,
    base_at: u32,
}

const fn chunk_header_bytes<W: ChunkWord>() -> usize {
    size_of::<Chunk<W>>().next_multiple_of(8)
}

const _: () = {
    use std::sync::atomic::AtomicU64;

    use crate::direct_pointers::DirectWord;
    assert!(offset_of!(Chunk<AtomicU64>, size_bytes) == 8);
    assert!(offset_of!(Chunk<AtomicU64>, base_at) == 12);
    assert!(chunk_header_bytes::<AtomicU64>() == BEFORE_BASE_BYTES);
    // The word of an id is the first one of its chunk's header.
    assert!(offset_of!(Chunk<DirectWord>, newest) == 0);
};

static LEAVES: SizedPools = SizedPools::new("bwtree leaf");
static INNER_NODES: SizedPools = SizedPools::new("bwtree inner");

/// The kind of a node's chunk.
fn kind_of(level: u8) -> &'static SizedPools {
    if level == 0 { &LEAVES } else { &INNER_NODES }
}

/// What is asked of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct ChunkPlan {
    /// Where its memory comes from.
    pub placement: Placement,
    /// The level of its node.
    pub level: u8,
    /// Bytes of deltas that there is room for, at least.
    pub delta_bytes: usize,
    pub base_bytes: usize,
}

/// A chunk for a base node. Returns where that is to be written.
pub(crate) fn allocate<W: ChunkWord>(plan: ChunkPlan) -> NonNull<u8> {
    let ChunkPlan {
        placement,
        delta_bytes,
        base_bytes,
        ..
    } = plan;
    let header_bytes = chunk_header_bytes::<W>();
    let end_bytes = (header_bytes + base_bytes).next_multiple_of(LINE_BYTES);
    let wanted = delta_bytes.next_multiple_of(LINE_BYTES) + end_bytes;
    // Classes of multiples of a line are multiples of a line.
    let size_bytes = placement.block_bytes(wanted) / LINE_BYTES * LINE_BYTES;
    let header_at = size_bytes - end_bytes;
    let chunk = W::allocate(kind_of(plan.level), placement, size_bytes);
    // SAFETY: the block is new, aligned to 64 bytes, and the header and the base node behind it end
    // where the block ends at the latest.
    unsafe {
        chunk.as_ptr().expose_provenance();
        let header = chunk.add(header_at);
        header.cast::<Chunk<W>>().write(Chunk {
            newest: W::Newest::default(),
            marker: W::new(header_at as u64),
            size_bytes: u32::try_from(size_bytes).expect("a node is below 4 GiB"),
            base_at: (header_at + header_bytes) as u32,
        });
        header.add(header_bytes)
    }
}

/// The header of a base node's chunk.
#[inline(always)]
fn header_of<'g, W: ChunkWord>(base: Base<'g>) -> &'g Chunk<W> {
    let address = base.record().address();
    // SAFETY: base nodes lie behind the headers of chunks of the tree's word type, which are as
    // alive as they; the marker is atomic, all else immutable.
    unsafe { address.sub(chunk_header_bytes::<W>()).cast().as_ref() }
}

/// Where the chunk of a base node begins.
#[inline(always)]
fn start_of<W: ChunkWord>(base: Base<'_>) -> NonNull<u8> {
    let base_at = header_of::<W>(base).base_at as usize;
    // SAFETY: a base node lies `base_at` bytes behind its chunk's start.
    unsafe { base.record().address().sub(base_at) }
}

/// Claims room for a delta; `None` if the chunk is full. Returns its address.
pub(crate) fn claim<W: ChunkWord>(base: Base<'_>, bytes: usize) -> Option<NonNull<u8>> {
    debug_assert!(bytes.is_multiple_of(8));
    let marker = &header_of::<W>(base).marker;
    loop {
        let end = marker.load(Ordering::Relaxed);
        let start = match (end as usize).checked_sub(bytes) {
            Some(start) => start,
            None if planted(PlantedBug::ChunkOverrun) && bytes - end as usize <= 24 => 0,
            None => return None,
        };
        if exchange(marker, end, start as u64).is_ok() {
            // SAFETY: within the chunk, as the subtraction did not go below its start.
            return Some(unsafe { start_of::<W>(base).add(start) });
        }
    }
}

/// Whether a record of a base node's chain lies in its chunk.
pub(crate) fn contains<W: ChunkWord>(base: Base<'_>, record: RecordRef<'_>) -> bool {
    (start_of::<W>(base)..=base.record().address()).contains(&record.address())
}

/// Bytes of a chunk, its base node included.
pub(crate) fn size_bytes<W: ChunkWord>(base: Base<'_>) -> usize {
    header_of::<W>(base).size_bytes as usize
}

/// Bytes of a chunk in front of its base node: header and room for deltas.
pub(crate) fn delta_bytes<W: ChunkWord>(base: Base<'_>) -> usize {
    header_of::<W>(base).base_at as usize
}

/// Bytes of a chunk that are written once others can see it, counted from its start: room for
/// deltas, and the marker. What follows them stays as it is.
pub(crate) fn written_bytes<W: ChunkWord>(base: Base<'_>) -> usize {
    delta_bytes::<W>(base) - chunk_header_bytes::<W>() + offset_of!(Chunk<W>, size_bytes)
}

/// The header of a base node's chunk as a word, to release the chunk later.
pub(crate) fn word<W: ChunkWord>(base: Base<'_>) -> u64 {
    let header: *const Chunk<W> = header_of(base);
    header.expose_provenance() as u64
}

/// Frees a chunk with all its records.
///
/// # Safety
///
/// `word` came from [`word`] with the same word type, of a chunk of that placement; nobody uses a
/// record of the chunk any more.
pub(crate) unsafe fn release<W: ChunkWord>(word: u64, placement: Placement) {
    let header = std::ptr::with_exposed_provenance_mut::<Chunk<W>>(word as usize);
    let Some(header) = NonNull::new(header) else {
        return;
    };
    // SAFETY: the caller owns the chunk, which came from `allocate` with this size and the level of
    // the base node behind the header, and has its header so far from its start.
    unsafe {
        let level = RecordRef::new(header.cast::<u8>().add(chunk_header_bytes::<W>()))
            .header()
            .level;
        let size_bytes = header.as_ref().size_bytes as usize;
        let header_at = header.as_ref().base_at as usize - chunk_header_bytes::<W>();
        header.drop_in_place();
        let chunk = header.cast::<u8>().sub(header_at);
        W::release(kind_of(level), placement, chunk, size_bytes);
    }
}
