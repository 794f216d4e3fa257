//! Whole superpages side by side, for trees that lay out nodes of one size themselves.
//!
//! Unlike a pool's regions they have an owner, and return to the kernel when that owner drops them.
//! As they are one run, a node's place is its number times its size from the start: no table maps
//! superpages. A run that needs more address space moves to a place with twice as much: on Linux
//! the kernel moves its pages, elsewhere the bytes are copied.

use std::ptr::NonNull;

/// Size and alignment of a superpage, in bytes.
pub const SUPERPAGE_BYTES: usize = 2 << 20;

/// Superpages of 2 MiB in one run, aligned to 2 MiB, advised to be superpages, zero until written
/// (the kernel gives memory for what is touched).
#[derive(Debug)]
pub struct Superpages {
    start: NonNull<u8>,
    count: usize,
}

// SAFETY: it is memory that its owner alone may use, with no tie to a thread.
unsafe impl Send for Superpages {}
// SAFETY: a shared run gives out its address and nothing else.
unsafe impl Sync for Superpages {}

impl Superpages {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            start: NonNull::dangling(),
            count: 0,
        }
    }

    /// The first byte; valid for reads and writes of [`count`](Self::count) superpages until the
    /// next call of [`reserve`](Self::reserve), while `self` lives. Dangling when there are none.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Superpages that there is room for.
    #[inline(always)]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Makes room for at least so many superpages, and for twice as many as before where it has to
    /// move. What was written stays as it was. When memory runs out the process ends through
    /// [`std::alloc::handle_alloc_error`], as with any Rust collection.
    pub fn reserve(&mut self, count: usize) {
        self.reserve_by(regrow, count);
    }

    /// As [`reserve`](Self::reserve), with a way to move.
    #[inline(always)]
    fn reserve_by(&mut self, regrow: Regrow, count: usize) {
        if count <= self.count {
            return;
        }
        let count = count.max(2 * self.count);
        let Some(bytes) = count.checked_mul(SUPERPAGE_BYTES) else {
            crate::system::out_of_memory(usize::MAX);
        };
        let fresh = if self.count == 0 {
            take(bytes)
        } else {
            // SAFETY: this run came from `take` or a `Regrow` with as many bytes, and is given up
            // for what comes back; should nothing come back, the process ends.
            unsafe { regrow(self.start, self.count * SUPERPAGE_BYTES, bytes) }
        };
        match fresh {
            Some(start) => (self.start, self.count) = (start, count),
            None => crate::system::out_of_memory(bytes),
        }
    }
}

impl Default for Superpages {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Superpages {
    fn drop(&mut self) {
        if self.count > 0 {
            // SAFETY: the run came from `take` or a `Regrow` with as many bytes, and is given back
            // this once.
            unsafe { give_back(self.start, self.count * SUPERPAGE_BYTES) }
        }
    }
}

#[cfg(not(any(feature = "system-allocator", miri)))]
fn take(bytes: usize) -> Option<NonNull<u8>> {
    crate::region::map(bytes).map(|chunk| chunk.start)
}

/// Moves a run to where there is room for so many bytes (the last argument), more than before (the
/// one in the middle); `None` when there is no such place, and then the run is where it was.
///
/// # Safety
///
/// The run came from [`take`] or from such a function with as many bytes as are named in the
/// middle, and is not used any more when a new start is returned.
type Regrow = unsafe fn(NonNull<u8>, usize, usize) -> Option<NonNull<u8>>;

#[cfg(all(target_os = "linux", not(any(feature = "system-allocator", miri))))]
use by_moving as regrow;

#[cfg(any(not(target_os = "linux"), feature = "system-allocator", miri))]
use by_copying as regrow;

/// Has the kernel move the pages.
///
/// # Safety
///
/// That of a [`Regrow`].
#[cfg(all(target_os = "linux", not(any(feature = "system-allocator", miri))))]
unsafe fn by_moving(start: NonNull<u8>, old_bytes: usize, bytes: usize) -> Option<NonNull<u8>> {
    let place = take(bytes)?;
    // SAFETY: both ranges are mappings of our own of just these sizes, which do not overlap, as
    // both are mapped; the caller gives up the old one, and nobody knows the new one yet, which
    // the moved one replaces.
    let moved = unsafe {
        libc::mremap(
            start.as_ptr().cast(),
            old_bytes,
            bytes,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            place.as_ptr(),
        )
    };
    (moved != libc::MAP_FAILED).then_some(place)
}

/// Copies the bytes. Compiled for tests everywhere, so that no system has code that was never run.
///
/// # Safety
///
/// That of a [`Regrow`].
#[cfg(any(test, not(target_os = "linux"), feature = "system-allocator", miri))]
unsafe fn by_copying(start: NonNull<u8>, old_bytes: usize, bytes: usize) -> Option<NonNull<u8>> {
    let place = take(bytes)?;
    // SAFETY: `place` is fresh and longer than the old run, which the caller gives up, so that
    // this is its last use and its one return.
    unsafe {
        place.copy_from_nonoverlapping(start, old_bytes);
        give_back(start, old_bytes);
    }
    Some(place)
}

/// # Safety
///
/// `start` came from [`take`] or a [`Regrow`] with as many bytes and is not used any more.
#[cfg(not(any(feature = "system-allocator", miri)))]
unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the mapping is of exactly this size (`region::map` trims the rest), and the caller
    // gives up the only pointer to it.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

#[cfg(any(feature = "system-allocator", miri))]
fn layout(bytes: usize) -> Option<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(bytes, SUPERPAGE_BYTES).ok()
}

#[cfg(any(feature = "system-allocator", miri))]
fn take(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout is not of size 0: nobody asks for no superpage.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)?) })
}

/// # Safety
///
/// `start` came from [`take`] or a [`Regrow`] with as many bytes and is not used any more.
#[cfg(any(feature = "system-allocator", miri))]
unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: `take` allocated this block with this layout.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte near the beginning and one near the end of a superpage.
    const OFFSETS: [usize; 2] = [4095, SUPERPAGE_BYTES - 1];

    /// Fills a run that grows superpage by superpage, and looks at all of it each time.
    fn fill(regrow: Regrow) {
        let mut run = Superpages::new();
        let (mut filled, mut moves) = (0, 0);
        while filled < 11 {
            let before = run.count();
            run.reserve_by(regrow, filled + 1);
            moves += usize::from(run.count() != before);
            assert_eq!(run.start().as_ptr() as usize % SUPERPAGE_BYTES, 0);
            assert!(run.count() > filled);
            for superpage in 0..=filled {
                for offset in OFFSETS {
                    // SAFETY: the offsets lie inside the run, which is ours alone.
                    let byte = unsafe { run.start().add(superpage * SUPERPAGE_BYTES + offset) };
                    let expected = if superpage < filled {
                        superpage as u8 + 1
                    } else {
                        0
                    };
                    // SAFETY: as above.
                    unsafe {
                        assert_eq!(byte.read(), expected, "superpage {superpage} of {filled}");
                        byte.write(superpage as u8 + 1);
                    }
                }
            }
            filled += 1;
        }
        assert!(moves <= 5, "{moves} moves for {filled} superpages");
    }

    #[test]
    fn a_run_keeps_what_it_holds_when_it_moves_and_is_zero_behind_that() {
        fill(regrow);
    }

    #[test]
    fn a_run_keeps_what_it_holds_when_it_is_copied_and_is_zero_behind_that() {
        fill(by_copying);
    }

    #[test]
    fn a_run_is_moved_and_copied_in_turn_and_each_gives_back_what_the_other_took() {
        let both: [[Regrow; 2]; 2] = [[regrow, by_copying], [by_copying, regrow]];
        for ways in both {
            let mut run = Superpages::new();
            for (moves, way) in ways.into_iter().cycle().take(4).enumerate() {
                let count = run.count();
                run.reserve_by(way, count + 1);
                let first = run.start();
                // SAFETY: the first byte, and that of the first superpage that is new: within the
                // run, which is ours alone.
                unsafe {
                    assert_eq!(first.read(), moves as u8);
                    assert_eq!(first.add(count * SUPERPAGE_BYTES).read(), 0);
                    first.write(moves as u8 + 1);
                }
            }
            assert_eq!(run.count(), 8);
        }
    }

    #[test]
    fn a_run_of_none_is_given_back_as_nothing() {
        let mut run = Superpages::default();
        run.reserve(0);
        assert_eq!(run.count(), 0);
    }
}
