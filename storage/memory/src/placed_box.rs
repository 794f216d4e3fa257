//! Owned values whose place in memory the owner chooses.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::block_pool::Placement;

/// A value that is owned, as in a `Box`, in a block of the size classes or of the standard
/// allocator: for what an application has beside the nodes of its trees (§4.1 of Arbel-Raviv,
/// Brown, Morrison). Values belong to no kind, so segregated ones lie in size classes, too.
///
/// Making one and dropping it cost what [`Placement::allocate`] and its release cost.
pub struct PlacedBox<T: ?Sized> {
    value: NonNull<T>,
    placement: Placement,
}

// SAFETY: a box is the only owner of its value; any thread may release a block (`Placement`).
unsafe impl<T: ?Sized + Send> Send for PlacedBox<T> {}
// SAFETY: a shared box gives out shared references to its value, and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for PlacedBox<T> {}

/// Whether a block of so many bytes is aligned for values of `T` (see [`crate::allocate`]).
const fn is_aligned<T>(size_bytes: usize) -> bool {
    align_of::<T>() <= 8 || (align_of::<T>() <= 64 && size_bytes.is_multiple_of(64))
}

impl<T> PlacedBox<T> {
    /// Moves a value into a block from there. What needs an alignment of more than 8 bytes must
    /// have a multiple of 64 bytes; other types do not compile.
    #[must_use]
    pub fn new(value: T, placement: Placement) -> Self {
        const { assert!(is_aligned::<T>(size_of::<T>())) };
        let block = placement.allocate(size_of::<T>()).cast::<T>();
        // SAFETY: the block is new, holds the bytes of a `T`, and is aligned as asserted.
        unsafe { block.write(value) };
        Self {
            value: block,
            placement,
        }
    }
}

impl<T> PlacedBox<[T]> {
    /// As many values as `count` says, side by side in one block from there, each as `make` makes
    /// it of its index. Their type needs an alignment of at most 8 bytes. If `make` panics, the
    /// block and the values already in it are never freed.
    ///
    /// # Panics
    ///
    /// If no memory could hold so many.
    #[must_use]
    pub fn from_fn(count: usize, placement: Placement, make: impl FnMut(usize) -> T) -> Self {
        const { assert!(align_of::<T>() <= 8) };
        let layout = std::alloc::Layout::array::<T>(count).expect("fewer values");
        let block = placement.allocate(layout.size()).cast::<T>();
        for (index, value) in (0..count).map(make).enumerate() {
            // SAFETY: the block is new, aligned as asserted, and holds the bytes of `count` values.
            unsafe { block.add(index).write(value) };
        }
        Self {
            value: NonNull::slice_from_raw_parts(block, count),
            placement,
        }
    }
}

impl<T: ?Sized> Deref for PlacedBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the block holds a value from the constructor until `drop`, and is this box's.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for PlacedBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; who has the box exclusively has its value so.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized> Drop for PlacedBox<T> {
    fn drop(&mut self) {
        let size_bytes = size_of_val::<T>(self);
        // SAFETY: the constructors allocated the block with this placement and the size of the
        // value, which is here, and nobody else has it.
        unsafe {
            self.value.drop_in_place();
            self.placement.release(self.value.cast(), size_bytes);
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for PlacedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
