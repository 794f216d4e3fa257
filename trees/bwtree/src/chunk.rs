//! Pre-allocated chunks: a base node with room for its deltas in front of it.
//!
//! ```text
//! byte 0         8            12        16
//!     │ marker W │ size_bytes │ base_at │ … free … │◄ newest delta │ … │ oldest │ base node │
//! ```
//!
//! A thread that appends a delta first claims its bytes by moving the marker towards the front with
//! one compare-and-swap, then writes them, then publishes them through the mapping table. If that
//! fails, the bytes stay unused. A chunk without room for a delta makes its writer consolidate. A
//! chain so lies in one block, newest first, and is freed by one call.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hedgerow_sync::word::Word;

use crate::mapping_table::exchange;
use crate::node::base::Base;
use crate::planted::{PlantedBug, planted};

#[repr(C)]
struct Chunk<W> {
    /// Bytes from the chunk's start to its oldest claimed delta.
    marker: W,
    size_bytes: u32,
    base_at: u32,
}

const fn chunk_header_bytes<W>() -> usize {
    size_of::<Chunk<W>>().next_multiple_of(8)
}

const _: () = {
    use std::sync::atomic::AtomicU64;
    assert!(offset_of!(Chunk<AtomicU64>, size_bytes) == 8);
    assert!(offset_of!(Chunk<AtomicU64>, base_at) == 12);
    assert!(chunk_header_bytes::<AtomicU64>() == 16);
};

/// A new chunk: where its base node is to be written, how far that is from the chunk's start, and
/// the whole size in bytes.
pub(crate) struct NewChunk {
    pub base: NonNull<u8>,
    pub base_at: u32,
}

/// A chunk for a base node of `base_bytes`, with room for `delta_bytes` of deltas.
pub(crate) fn allocate<W: Word>(delta_bytes: usize, base_bytes: usize) -> NewChunk {
    let base_at = chunk_header_bytes::<W>() + delta_bytes.next_multiple_of(8);
    let size_bytes = base_at + base_bytes;
    let chunk = hedgerow_memory::allocate(size_bytes);
    // SAFETY: the block is new, aligned to 8 bytes, and larger than a chunk's header.
    unsafe {
        chunk.cast::<Chunk<W>>().write(Chunk {
            marker: W::new(base_at as u64),
            size_bytes: u32::try_from(size_bytes).expect("a node is below 4 GiB"),
            base_at: base_at as u32,
        });
        chunk.as_ptr().expose_provenance();
        NewChunk {
            base: chunk.add(base_at),
            base_at: base_at as u32,
        }
    }
}

fn chunk_of<W: Word>(base: Base<'_>) -> NonNull<Chunk<W>> {
    // SAFETY: base nodes lie in chunks of the tree's word type, at the distance that they name.
    unsafe { base.record().address().sub(base.chunk_distance()).cast() }
}

/// Claims room for a delta; `None` if the chunk is full. Returns its address.
pub(crate) fn claim<W: Word>(base: Base<'_>, bytes: usize) -> Option<NonNull<u8>> {
    debug_assert!(bytes.is_multiple_of(8));
    let chunk = chunk_of::<W>(base);
    // SAFETY: the chunk is as alive as its base node, and its marker is atomic.
    let marker = unsafe { &chunk.as_ref().marker };
    let overrun = if planted(PlantedBug::ChunkOverrun) {
        24
    } else {
        0
    };
    loop {
        let end = marker.load(Ordering::Relaxed);
        let start = (end as usize).checked_sub(bytes)?;
        if start + overrun < chunk_header_bytes::<W>() {
            return None;
        }
        if exchange(marker, end, start as u64).is_ok() {
            // SAFETY: within the chunk, by the check above.
            return Some(unsafe { chunk.cast::<u8>().add(start) });
        }
    }
}

/// Bytes of a chunk, its base node included.
pub(crate) fn size_bytes<W: Word>(base: Base<'_>) -> usize {
    // SAFETY: as in `claim`; the field is immutable.
    unsafe { chunk_of::<W>(base).as_ref().size_bytes as usize }
}

/// The chunk of a base node as a word, to release it later.
pub(crate) fn word<W: Word>(base: Base<'_>) -> u64 {
    chunk_of::<W>(base).as_ptr().expose_provenance() as u64
}

/// Frees a chunk with all its records.
///
/// # Safety
///
/// `word` came from [`word`] with the same word type; nobody uses a record of the chunk any more.
pub(crate) unsafe fn release<W: Word>(word: u64) {
    let chunk = std::ptr::with_exposed_provenance_mut::<Chunk<W>>(word as usize);
    let Some(chunk) = NonNull::new(chunk) else {
        return;
    };
    // SAFETY: the caller owns the chunk, which came from `allocate` with this size.
    unsafe {
        let size_bytes = chunk.as_ref().size_bytes as usize;
        chunk.drop_in_place();
        hedgerow_memory::release(chunk.cast(), size_bytes);
    }
}
