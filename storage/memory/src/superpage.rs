//! Whole superpages side by side, for trees that lay out nodes of one size themselves.
//!
//! Unlike a pool's regions they have an owner, and return to the kernel when that owner drops them.
//! As they are one run, a node's place is its number times its size from the start: no table maps
//! superpages. A run that needs more address space moves to a place with twice as much: on Linux
//! the kernel moves its pages; elsewhere, or where it refuses, the bytes are copied.
//!
//! The first byte of a superpage takes all of its memory. So a run that grows by
//! [`extend`](Superpages::extend) has its last superpage in small pages, which the kernel gives a
//! step at a time, and which it makes a superpage once they are all there. A tree of few nodes then
//! takes little more than its nodes.

use std::ptr::NonNull;

/// Size and alignment of a superpage, in bytes.
pub const SUPERPAGE_BYTES: usize = 2 << 20;

/// Superpages of 2 MiB in one run, aligned to 2 MiB, advised to be superpages, zero until written
/// (the kernel gives memory for what is touched). Its owner makes room by
/// [`reserve`](Self::reserve) or by [`extend`](Self::extend), and not by both.
#[derive(Debug)]
pub struct Superpages {
    start: NonNull<u8>,
    count: usize,
    /// Bytes from the start on that [`extend`](Self::extend) has given memory.
    extent: usize,
}

/// What [`Superpages::extend`] gives memory at a time, in bytes.
pub const STEP_BYTES: usize = 64 << 10;

const _: () = assert!(SUPERPAGE_BYTES.is_multiple_of(STEP_BYTES));

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
            extent: 0,
        }
    }

    /// The first byte; valid for reads and writes of [`count`](Self::count) superpages until the
    /// next call of [`reserve`](Self::reserve) or [`extend`](Self::extend), while `self` lives.
    /// Dangling when there are none.
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

    /// Bytes from the start on that have memory for [`extend`](Self::extend): a multiple of
    /// [`STEP_BYTES`].
    #[inline(always)]
    #[must_use]
    pub fn extent(&self) -> usize {
        self.extent
    }

    /// Makes room for at least so many bytes from the start, as [`reserve`](Self::reserve) does,
    /// and gives them memory in steps of [`STEP_BYTES`], so that what is behind them takes none.
    /// For an owner that fills the run from its start on. Costs a comparison, and for each step one
    /// to three calls of the system.
    #[inline(always)]
    pub fn extend(&mut self, bytes: usize) {
        while self.extent < bytes {
            self.take_step();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_step(&mut self) {
        let superpage = self.extent / SUPERPAGE_BYTES;
        // All before it are superpages, so that the run is one mapping, which can move.
        self.reserve(superpage + 1);
        // SAFETY: the run has room for this superpage.
        let start = unsafe { self.start.add(superpage * SUPERPAGE_BYTES) };
        let within = self.extent % SUPERPAGE_BYTES;
        advise_step(start, within);
        self.extent += STEP_BYTES;
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
        debug_assert!(
            self.extent.is_multiple_of(SUPERPAGE_BYTES),
            "a run of superpages and small pages does not move"
        );
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

/// Gives a step of a superpage, `within` bytes from its start, memory of small pages; the last one
/// makes it a superpage. All of it is advice: what the kernel does not know or refuses it does at
/// the first touch, in whatever pages it likes.
#[cfg(all(target_os = "linux", not(any(feature = "system-allocator", miri))))]
fn advise_step(superpage: NonNull<u8>, within: usize) {
    if crate::advice::page_advice() != libc::MADV_HUGEPAGE {
        return;
    }
    let advise = |from: usize, bytes: usize, advice| {
        // SAFETY: a part of a superpage of a run of our own. No such advice changes its bytes.
        unsafe { libc::madvise(superpage.as_ptr().add(from).cast(), bytes, advice) };
    };
    if within == 0 {
        advise(0, SUPERPAGE_BYTES, libc::MADV_NOHUGEPAGE);
    }
    advise(within, STEP_BYTES, libc::MADV_POPULATE_WRITE);
    if within + STEP_BYTES == SUPERPAGE_BYTES {
        advise(0, SUPERPAGE_BYTES, libc::MADV_HUGEPAGE);
        advise(0, SUPERPAGE_BYTES, libc::MADV_COLLAPSE);
    }
}

#[cfg(not(all(target_os = "linux", not(any(feature = "system-allocator", miri)))))]
fn advise_step(_: NonNull<u8>, _: usize) {}

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

/// Has the kernel move the pages. Should it refuse, the bytes are copied.
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
    if moved != libc::MAP_FAILED {
        return Some(place);
    }
    // The kernel may have unmapped the place before it refused, and another thread may have mapped
    // it: so it is left alone, at worst as addresses without memory.
    // SAFETY: as the caller promises; the run is where it was.
    unsafe { by_copying(start, old_bytes, bytes) }
}

/// Copies the bytes.
///
/// # Safety
///
/// That of a [`Regrow`].
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

    /// Bytes of a run that have memory.
    #[cfg(all(target_os = "linux", not(any(feature = "system-allocator", miri))))]
    fn resident(run: &Superpages) -> usize {
        let mut pages = vec![0_u8; run.count() * SUPERPAGE_BYTES / 4096];
        let bytes = run.count() * SUPERPAGE_BYTES;
        // SAFETY: the run is a mapping of so many bytes, and there is a byte for each of its pages.
        let done = unsafe { libc::mincore(run.start().as_ptr().cast(), bytes, pages.as_mut_ptr()) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        pages.iter().filter(|page| *page & 1 == 1).count() * 4096
    }

    #[cfg(all(target_os = "linux", not(any(feature = "system-allocator", miri))))]
    #[test]
    fn a_run_that_is_extended_takes_little_more_than_what_it_holds() {
        let mut run = Superpages::new();
        let mut written = 0;
        // Through several moves, and ends within superpages and at their ends.
        for bytes in (1..90).map(|n| n * 100_000).chain([5 * SUPERPAGE_BYTES]) {
            run.extend(bytes);
            assert!((bytes..bytes + STEP_BYTES).contains(&run.extent()));
            for at in written..bytes {
                // SAFETY: the run has room for so many bytes, and is ours alone.
                unsafe { run.start().add(at).write(at as u8) };
            }
            written = written.max(bytes);
            let resident = resident(&run);
            assert!(
                (written..=run.extent()).contains(&resident),
                "{resident} of {bytes}"
            );
        }
        for at in 0..written {
            // SAFETY: as above.
            assert_eq!(unsafe { run.start().add(at).read() }, at as u8, "at {at}");
        }
    }

    #[cfg(all(target_os = "linux", not(any(feature = "system-allocator", miri))))]
    #[test]
    fn a_run_that_the_kernel_does_not_move_is_copied() {
        let mut run = Superpages::new();
        run.reserve(2);
        let ends = [0, SUPERPAGE_BYTES, 2 * SUPERPAGE_BYTES - 1];
        for (n, at) in ends.into_iter().enumerate() {
            // SAFETY: within the run, which is ours alone.
            unsafe { run.start().add(at).write(n as u8 + 1) };
        }
        // Two mappings, which do not move as one.
        let (start, advice) = (run.start().as_ptr().cast(), libc::MADV_NOHUGEPAGE);
        // SAFETY: the first superpage of the run. The advice changes none of its bytes.
        unsafe { libc::madvise(start, SUPERPAGE_BYTES, advice) };
        run.reserve(3);
        for (n, at) in ends.into_iter().enumerate() {
            // SAFETY: as above.
            let byte = unsafe { run.start().add(at).read() };
            assert_eq!(byte, n as u8 + 1, "at {at}");
        }
        // SAFETY: as above.
        assert_eq!(unsafe { run.start().add(2 * SUPERPAGE_BYTES).read() }, 0);
    }

    #[test]
    fn a_run_of_none_is_given_back_as_nothing() {
        let mut run = Superpages::default();
        run.reserve(0);
        assert_eq!(run.count(), 0);
    }
}
