//! Values: immutable blocks, whose addresses are the words of the tree.
//!
//! ```text
//! │ length u32 │ bytes … │
//! ```

use std::ptr::{self, NonNull};

use hedgerow_sync::epoch::{self, Guard};

const HEADER_BYTES: usize = 4;

/// A new block that holds `bytes`; its word.
pub(super) fn store(bytes: &[u8]) -> u64 {
    let length = u32::try_from(bytes.len()).expect("values are below 4 GiB");
    let block = hedgerow_memory::allocate(HEADER_BYTES + bytes.len()).as_ptr();
    // SAFETY: the block is new, 8-byte aligned, and has room for header and bytes.
    unsafe {
        block.cast::<u32>().write(length);
        ptr::copy_nonoverlapping(bytes.as_ptr(), block.add(HEADER_BYTES), bytes.len());
    }
    block.expose_provenance() as u64
}

/// The bytes of a word.
///
/// # Safety
///
/// The word came from [`store`], and its block is not freed while the result lives: the word was
/// read from the tree under a guard that lives as long, or nobody else has the tree.
#[inline(always)]
pub(super) unsafe fn load<'a>(word: u64) -> &'a [u8] {
    let block = ptr::with_exposed_provenance::<u8>(word as usize);
    // SAFETY: blocks are immutable after `store`, and alive by the caller's promise.
    unsafe {
        let length = block.cast::<u32>().read() as usize;
        std::slice::from_raw_parts(block.add(HEADER_BYTES), length)
    }
}

/// Asks for the first bytes of a word's block.
#[inline(always)]
pub(super) fn prefetch(word: u64) {
    hedgerow_memory::prefetch_line(ptr::without_provenance::<u8>(word as usize));
}

/// Bytes that a word's block takes.
///
/// # Safety
///
/// As for [`load`].
pub(super) unsafe fn block_bytes(word: u64) -> usize {
    // SAFETY: the caller promises what `load` asks for.
    hedgerow_memory::block_bytes(HEADER_BYTES + unsafe { load(word) }.len())
}

/// Frees a word's block.
///
/// # Safety
///
/// The word came from [`store`], nobody uses it any more, and it is released once.
pub(super) unsafe fn release(word: u64) {
    // SAFETY: the caller has the last use of the word.
    let length = unsafe { load(word) }.len();
    let block = ptr::with_exposed_provenance_mut::<u8>(word as usize);
    if let Some(block) = NonNull::new(block) {
        // SAFETY: `store` allocated this block with this size, and nobody uses it.
        unsafe { hedgerow_memory::release(block, HEADER_BYTES + length) }
    }
}

/// Frees a word's block once every thread that is pinned now has unpinned.
///
/// # Safety
///
/// The word came from [`store`], it is not in the tree any more, and it is retired once.
pub(super) unsafe fn retire(guard: &Guard, word: u64) {
    // SAFETY: the caller took the word out of the tree, so who pins from now on does not read it;
    // its block lives until it is released.
    unsafe { epoch::retire_bytes(guard, block_bytes(word), move || release(word)) }
}
