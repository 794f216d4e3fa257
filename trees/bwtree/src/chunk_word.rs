//! What a chunk's marker says of the chunk, by its type.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use hedgerow_sync::word::Word;

/// A word that is the marker of chunks: what else they have, and where their memory comes from.
///
/// # Safety
///
/// [`allocate`](Self::allocate) returns blocks as `hedgerow_memory::allocate` does.
pub unsafe trait ChunkWord: Word {
    /// What a chunk has in front of its marker: the word that names the newest record, where it is
    /// not in a mapping table.
    type Newest: Default + Send + Sync;

    /// A block for a chunk.
    fn allocate(bytes: usize) -> NonNull<u8> {
        hedgerow_memory::allocate(bytes)
    }

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// It came from [`allocate`](Self::allocate) with the same `bytes`, and nobody uses it any
    /// more.
    unsafe fn release(block: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { hedgerow_memory::release(block, bytes) };
    }
}

// SAFETY: the memory is that of `hedgerow_memory`.
unsafe impl ChunkWord for AtomicU64 {
    type Newest = ();
}
