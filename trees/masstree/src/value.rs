//! What a value slot holds: 64 bits, either the value itself or a pointer to its bytes.
//!
//! Either way an update is one aligned store, and readers see the old or the new value
//! (§4.6.1). What an overwritten slot owned is released through the epoch.

use std::ptr::NonNull;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for super::Bytes {}
}

/// A policy for the 64 bits of a value slot.
pub trait Value: sealed::Sealed + Send + Sync + 'static {
    /// Whether slots own memory.
    const OWNING: bool;
    /// Prefetches the memory that a slot refers to.
    fn prefetch(raw: u64);
    /// Bytes that a slot owns elsewhere.
    ///
    /// # Safety
    ///
    /// `raw` is a live slot word of this policy.
    unsafe fn owned_bytes(raw: u64) -> usize;
    /// Frees what a slot owns.
    ///
    /// # Safety
    ///
    /// `raw` was a slot word of this policy, and nobody uses it any more.
    unsafe fn release(raw: u64);
}

/// Eight bytes, inline.
impl Value for u64 {
    const OWNING: bool = false;

    #[inline(always)]
    fn prefetch(_raw: u64) {}

    unsafe fn owned_bytes(_raw: u64) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn release(_raw: u64) {}
}

/// A byte string of any length: the slot points to an immutable block.
///
/// ```text
/// │ length u32 │ bytes … │
/// ```
pub enum Bytes {}

const HEADER_BYTES: usize = 4;

impl Bytes {
    /// A new block that holds `bytes`, as a slot word that owns it.
    #[inline]
    pub(crate) fn store(bytes: &[u8]) -> u64 {
        let length = u32::try_from(bytes.len()).expect("values are below 4 GiB");
        let block = hedgerow_memory::allocate(HEADER_BYTES + bytes.len()).as_ptr();
        // SAFETY: the block is new, 8-byte aligned, and has room for header and bytes.
        unsafe {
            block.cast::<u32>().write(length);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.add(HEADER_BYTES), bytes.len());
        }
        block.expose_provenance() as u64
    }

    /// The bytes of a slot word.
    ///
    /// # Safety
    ///
    /// `raw` came from [`store`](Self::store), was read (acquire) from a live slot or is
    /// owned, and is not released during `'a` (pin, latch, or ownership).
    #[inline(always)]
    pub(crate) unsafe fn load<'a>(raw: u64) -> &'a [u8] {
        let block = std::ptr::with_exposed_provenance::<u8>(raw as usize);
        // SAFETY: blocks are immutable after `store` and alive by the caller's promise.
        unsafe {
            let length = block.cast::<u32>().read() as usize;
            std::slice::from_raw_parts(block.add(HEADER_BYTES), length)
        }
    }
}

impl Value for Bytes {
    const OWNING: bool = true;

    #[inline(always)]
    fn prefetch(raw: u64) {
        hedgerow_memory::prefetch_line(std::ptr::with_exposed_provenance::<u8>(raw as usize));
    }

    unsafe fn owned_bytes(raw: u64) -> usize {
        // SAFETY: the caller has a live slot word.
        let length = unsafe { Self::load(raw) }.len();
        hedgerow_memory::block_bytes(HEADER_BYTES + length)
    }

    unsafe fn release(raw: u64) {
        // SAFETY: the caller has the last use of the word.
        let length = unsafe { Self::load(raw) }.len();
        let block = std::ptr::with_exposed_provenance_mut::<u8>(raw as usize);
        if let Some(block) = NonNull::new(block) {
            // SAFETY: `store` allocated this block with this size, and nobody uses it.
            unsafe { hedgerow_memory::release(block, HEADER_BYTES + length) }
        }
    }
}
