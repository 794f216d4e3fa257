//! Whole superpages, for trees that lay out nodes of one size themselves.
//!
//! Unlike a pool's regions, a [`Superpage`] has an owner and returns to the kernel when that owner
//! drops it: a tree that goes away leaves nothing behind.

use std::ptr::NonNull;

/// Size and alignment of a superpage, in bytes.
pub const SUPERPAGE_BYTES: usize = 2 << 20;

/// 2 MiB of zeroed memory, aligned to 2 MiB and advised to be one superpage.
#[derive(Debug)]
pub struct Superpage(NonNull<u8>);

// SAFETY: it is memory that its owner alone may use, with no tie to a thread.
unsafe impl Send for Superpage {}
// SAFETY: a shared superpage gives out its address and nothing else.
unsafe impl Sync for Superpage {}

impl Superpage {
    /// A fresh one, all zero. When memory runs out the process ends through
    /// [`std::alloc::handle_alloc_error`], as with any Rust collection.
    #[must_use]
    pub fn new() -> Self {
        match take() {
            Some(start) => Self(start),
            None => crate::out_of_memory(SUPERPAGE_BYTES),
        }
    }

    /// Its first byte; valid for reads and writes of [`SUPERPAGE_BYTES`] while `self` lives.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.0
    }
}

impl Default for Superpage {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Superpage {
    fn drop(&mut self) {
        // SAFETY: `self.0` came from `take` and is given back this once.
        unsafe { give_back(self.0) }
    }
}

#[cfg(not(any(feature = "system-allocator", miri)))]
fn take() -> Option<NonNull<u8>> {
    crate::region::map(SUPERPAGE_BYTES).map(|chunk| chunk.start)
}

/// # Safety
///
/// `start` came from [`take`] and is not used any more.
#[cfg(not(any(feature = "system-allocator", miri)))]
unsafe fn give_back(start: NonNull<u8>) {
    // SAFETY: `take` made this mapping of exactly this size (`region::map` trims the rest), and
    // the caller gives up the only pointer to it.
    unsafe { libc::munmap(start.as_ptr().cast(), SUPERPAGE_BYTES) };
}

#[cfg(any(feature = "system-allocator", miri))]
const LAYOUT: Option<std::alloc::Layout> =
    match std::alloc::Layout::from_size_align(SUPERPAGE_BYTES, SUPERPAGE_BYTES) {
        Ok(layout) => Some(layout),
        Err(_) => None,
    };

#[cfg(any(feature = "system-allocator", miri))]
fn take() -> Option<NonNull<u8>> {
    // SAFETY: the layout is not of size 0.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(LAYOUT?) })
}

/// # Safety
///
/// `start` came from [`take`] and is not used any more.
#[cfg(any(feature = "system-allocator", miri))]
unsafe fn give_back(start: NonNull<u8>) {
    if let Some(layout) = LAYOUT {
        // SAFETY: `take` allocated this block with this layout.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superpages_are_aligned_zeroed_and_writable_to_the_end() {
        let pages: Vec<Superpage> = (0..3).map(|_| Superpage::new()).collect();
        for page in &pages {
            let start = page.start().as_ptr();
            assert_eq!(start as usize % SUPERPAGE_BYTES, 0);
            for offset in [0, 4095, SUPERPAGE_BYTES - 1] {
                // SAFETY: the offsets lie inside the superpage, which is ours alone.
                unsafe {
                    assert_eq!(start.add(offset).read(), 0);
                    start.add(offset).write(7);
                }
            }
        }
    }
}
