//! What a chunk's marker says of the chunk, by its type.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use hedgerow_memory::{Placement, SizedPools};
use hedgerow_sync::word::Word;

/// A word that is the marker of chunks: what else they have, and where their memory comes from.
///
/// # Safety
///
/// [`allocate`](Self::allocate) returns blocks as [`SizedPools::allocate`] does.
pub unsafe trait ChunkWord: Word {
    /// What a chunk has in front of its marker: the word that names the newest record, where it is
    /// not in a mapping table.
    type Newest: Default + Send + Sync;

    /// A block of a kind, for a chunk or a delta record: from where the tree's nodes come from.
    fn allocate(kind: &'static SizedPools, placement: Placement, bytes: usize) -> NonNull<u8> {
        kind.allocate(placement, bytes)
    }

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// It came from [`allocate`](Self::allocate) with the same kind, placement and `bytes`, and
    /// nobody uses it any more.
    unsafe fn release(
        kind: &'static SizedPools,
        placement: Placement,
        block: NonNull<u8>,
        bytes: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { kind.release(placement, block, bytes) };
    }
}

// SAFETY: the memory is that of [`SizedPools`].
unsafe impl ChunkWord for AtomicU64 {
    type Newest = ();
}
