//! Blocks straight from the standard allocator: large ones always, and all of them when
//! sanitizers are to see each block.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::tally::Tally;

/// Blocks handed out and not yet released, and their bytes.
static LIVE: Tally = Tally::new();

/// The layout of a block of `size_bytes`, or `None` for a size that no memory could hold.
#[inline]
pub(crate) fn layout(size_bytes: usize) -> Option<Layout> {
    let size_bytes = size_bytes.max(8);
    let align_bytes = if size_bytes.is_multiple_of(64) { 64 } else { 8 };
    Layout::from_size_align(size_bytes, align_bytes).ok()
}

/// A block from the standard allocator; `None` when it has no more.
pub(crate) fn allocate(size_bytes: usize) -> Option<NonNull<u8>> {
    let layout = layout(size_bytes)?;
    // SAFETY: `layout` never makes a layout of size 0.
    let block = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
    LIVE.add(layout.size());
    Some(block)
}

/// Gives a block of [`allocate`] back.
///
/// # Safety
///
/// `block` came from [`allocate`] of this module with the same size and is not used any more.
pub(crate) unsafe fn release(block: NonNull<u8>, size_bytes: usize) {
    if let Some(layout) = layout(size_bytes) {
        LIVE.subtract(layout.size());
        // SAFETY: the caller hands over a live block made with this very layout.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
    }
}

/// Bytes that a block of `size_bytes` is asked for.
pub(crate) fn block_bytes(size_bytes: usize) -> usize {
    layout(size_bytes).map_or(size_bytes, |layout| layout.size())
}

/// Ends the process as collections do that find no memory.
#[cold]
#[inline(never)]
pub(crate) fn out_of_memory(size_bytes: usize) -> ! {
    std::alloc::handle_alloc_error(layout(size_bytes).unwrap_or(Layout::new::<u8>()))
}

/// Blocks handed out and not yet released.
pub(crate) fn live_blocks() -> usize {
    LIVE.sum().blocks
}

/// Bytes of blocks handed out and not yet released.
pub(crate) fn live_bytes() -> usize {
    LIVE.bytes()
}

#[cfg(any(feature = "system-allocator", miri))]
pub(crate) fn reserved_bytes() -> usize {
    live_bytes()
}

/// The pool of a kind: there are none in this mode.
#[cfg(any(feature = "system-allocator", miri))]
#[derive(Clone, Copy)]
pub(crate) enum Kind {}

#[cfg(any(feature = "system-allocator", miri))]
impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match *self {}
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        match *self {}
    }
}

/// There are no pools in this mode.
#[cfg(any(feature = "system-allocator", miri))]
pub(crate) fn kind(_name: &'static str, _block_bytes: usize) -> Option<&'static Kind> {
    None
}

/// A block of a kind, of which there are none in this mode.
#[cfg(any(feature = "system-allocator", miri))]
pub(crate) fn allocate_kind(kind: &'static Kind) -> Option<NonNull<u8>> {
    match *kind {}
}

/// Gives a block of a kind back.
///
/// # Safety
///
/// None: there are no kinds in this mode.
#[cfg(any(feature = "system-allocator", miri))]
pub(crate) unsafe fn release_kind(kind: &'static Kind, _block: NonNull<u8>) {
    match *kind {}
}

/// There are no pools in this mode.
#[cfg(any(feature = "system-allocator", miri))]
pub(crate) fn classes() -> (Vec<crate::class_report::ClassReport>, usize) {
    (Vec::new(), 0)
}
