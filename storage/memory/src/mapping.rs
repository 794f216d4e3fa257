//! Large mappings: address space reserved once, backed by the kernel page by page when touched, and
//! given back to it in pieces.
//!
//! A buffer pool whose page numbers are offsets (vmcache) reserves room for the most pages that it
//! can have, and has only a part of them in memory. Memory that was never touched, or was
//! discarded, is all zeros.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// Ranges that are given back with one call of the kernel.
#[cfg(all(target_os = "linux", not(miri)))]
const MOST_VECTORS: usize = 64;

/// Asks the kernel to count no swap space for what is not touched; Miri knows no such request.
const NO_SWAP_RESERVED: libc::c_int = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };

/// Address space of a fixed size, zero until written. Unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: it is memory that its owner alone hands out, with no tie to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives out its address; what changes it (`discard`) is unsafe and asks
// its caller for exclusive use of the range.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `size_bytes` of zeros, in small pages: memory is taken and given back exactly.
    ///
    /// # Errors
    ///
    /// What the kernel says when it has no such range, or the process is limited to less.
    pub fn reserve(size_bytes: usize) -> io::Result<Mapping> {
        if size_bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no
        // memory that exists.
        let raw = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | NO_SWAP_RESERVED,
                -1,
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(raw.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { start, size_bytes };
        mapping.ask_for_superpages(0..size_bytes, false);
        Ok(mapping)
    }

    /// Asks the kernel to back a range by superpages, as far as there are whole ones in it, or not
    /// to do so any more: a hint, which says nothing of memory that is there already. A superpage
    /// is taken whole with the first byte that is written in it; it is split when a part of it is
    /// discarded.
    ///
    /// # Panics
    ///
    /// If the range is not within the mapping.
    pub fn ask_for_superpages(&self, range: Range<usize>, wanted: bool) {
        assert!(range.start <= range.end && range.end <= self.size_bytes);
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let advice = if wanted {
                crate::advice::page_advice()
            } else {
                libc::MADV_NOHUGEPAGE
            };
            // SAFETY: the range was just checked to lie within our own mapping. The advice
            // changes no byte and may fail harmlessly.
            unsafe {
                let start = self.start.as_ptr().add(range.start);
                libc::madvise(start.cast(), range.len(), advice);
            }
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = wanted;
    }

    /// The first byte; valid for reads and writes of [`size_bytes`](Self::size_bytes) while
    /// `self` lives.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The size in bytes.
    #[inline(always)]
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Gives the memory behind a range of bytes back to the kernel; it reads as zeros from then
    /// on. The range should begin and end at a boundary of the kernel's pages.
    ///
    /// # Safety
    ///
    /// No reference to the range's bytes lives, and nobody writes to them meanwhile. Atomic loads
    /// by others may go on; they see old bytes or zeros.
    pub unsafe fn discard(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.size_bytes);
        if range.is_empty() {
            return;
        }
        // SAFETY: the range was just checked to lie within the mapping.
        let start = unsafe { self.start.as_ptr().add(range.start) };
        let bytes = range.len();
        #[cfg(all(target_os = "linux", not(miri)))]
        // The kernel rounds a length up: with larger pages than ours that would take neighbours.
        if kernel::are_pages(&range) {
            // SAFETY: the range lies within our own private anonymous mapping, where this advice
            // means zeros, and the caller gives up its contents.
            if unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED) } == 0 {
                return;
            }
        }
        // SAFETY: within the mapping, and the caller's alone.
        unsafe { start.write_bytes(0, bytes) };
    }

    /// [`discard`](Self::discard) of several ranges: where the kernel takes them together (Linux
    /// 6.13 on), 64 ranges cost one call and one round of telling the other processors to forget
    /// the addresses, which for single pages is most of the cost. Elsewhere one after the other.
    ///
    /// # Safety
    ///
    /// As for `discard`, of all of the ranges.
    pub unsafe fn discard_all(&self, ranges: &[Range<usize>]) {
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the caller gives up all ranges.
        let ranges = unsafe { self.discard_vectors(ranges) };
        for range in ranges {
            // SAFETY: the caller gives up all ranges.
            unsafe { self.discard(range.clone()) };
        }
    }

    /// Discards ranges by vectors as far as the kernel does that, and returns those that are left.
    ///
    /// # Safety
    ///
    /// As for `discard_all`.
    #[cfg(all(target_os = "linux", not(miri)))]
    unsafe fn discard_vectors<'r>(&self, mut ranges: &'r [Range<usize>]) -> &'r [Range<usize>] {
        let of_pages = |range: &Range<usize>| kernel::are_pages(range);
        let Some(process) = kernel::this_process().filter(|_| ranges.iter().all(of_pages)) else {
            return ranges;
        };
        while ranges.len() > 1 {
            let (group, rest) = ranges.split_at(ranges.len().min(MOST_VECTORS));
            let vectors = std::array::from_fn::<_, MOST_VECTORS, _>(|i| {
                let range = group.get(i).cloned().unwrap_or(0..0);
                assert!(range.start <= range.end && range.end <= self.size_bytes);
                libc::iovec {
                    // SAFETY: the range was just checked to lie within the mapping.
                    iov_base: unsafe { self.start.as_ptr().add(range.start) }.cast(),
                    iov_len: range.len(),
                }
            });
            let wanted: usize = group.iter().map(Range::len).sum();
            // SAFETY: the ranges lie within the mapping, and the caller gives them up.
            let done = unsafe { kernel::discard(process, &vectors[..group.len()]) };
            if done != Some(wanted) {
                // Some may be done already: to do so twice changes nothing.
                return ranges;
            }
            ranges = rest;
        }
        ranges
    }
}

/// The system call that `libc` has no function for.
#[cfg(all(target_os = "linux", not(miri)))]
mod kernel {
    use std::ops::Range;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether a range of a mapping consists of the kernel's pages.
    pub(super) fn are_pages(range: &Range<usize>) -> bool {
        static BYTES: OnceLock<usize> = OnceLock::new();
        // SAFETY: a call without pointers.
        let page_bytes =
            BYTES.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize);
        (range.start | range.end).is_multiple_of(*page_bytes)
    }

    /// A descriptor of this process, for calls that want one.
    pub(super) fn this_process() -> Option<RawFd> {
        static THIS: OnceLock<Option<OwnedFd>> = OnceLock::new();
        if REFUSED.load(Ordering::Relaxed) {
            return None;
        }
        let this = THIS.get_or_init(|| {
            // SAFETY: a call without pointers; what it returns is a new descriptor or -1.
            let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
            let fd = RawFd::try_from(fd).ok().filter(|&fd| fd >= 0)?;
            // SAFETY: a descriptor that nobody else has.
            Some(unsafe { OwnedFd::from_raw_fd(fd) })
        });
        this.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Set once the kernel says that it does not do this at all.
    static REFUSED: AtomicBool = AtomicBool::new(false);

    /// Gives the memory of ranges back, and says how many bytes; `None` if the kernel refuses, as
    /// it does before 6.13, in a child that was forked, and where a filter forbids the call.
    ///
    /// # Safety
    ///
    /// Nobody needs what lies in the ranges.
    pub(super) unsafe fn discard(process: RawFd, vectors: &[libc::iovec]) -> Option<usize> {
        // SAFETY: the vectors live during the call, and of what they name the caller needs nothing.
        let done = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process,
                vectors.as_ptr(),
                vectors.len(),
                libc::MADV_DONTNEED,
                0,
            )
        };
        let done = usize::try_from(done).ok();
        if done.is_none() {
            REFUSED.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `reserve` made this mapping of exactly this size, and nobody can use it after
        // its owner is gone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::Mapping;

    #[test]
    fn what_is_discarded_reads_as_zeros_and_the_rest_stays() {
        let mapping = Mapping::reserve(1 << 30).expect("a gibibyte of address space");
        let start = mapping.start().as_ptr();
        for page in 0..4_usize {
            // SAFETY: within the mapping, which is this test's alone.
            unsafe { start.add(page * 4096).write(7) };
        }
        // SAFETY: nothing refers to the range.
        unsafe { mapping.discard(4096..3 * 4096) };
        // SAFETY: within the mapping, which is this test's alone.
        let first = |page: usize| unsafe { start.add(page * 4096).read() };
        let bytes: Vec<u8> = (0..4).map(first).collect();
        assert_eq!(bytes, [7, 0, 0, 7]);
        // SAFETY: nothing refers to the range; it is not aligned, so it is filled by hand.
        unsafe { mapping.discard(1..3) };
        // SAFETY: as above.
        assert_eq!(unsafe { start.read() }, 7);
    }

    #[test]
    fn ranges_are_discarded_together_and_what_lies_between_stays() {
        let mapping = Mapping::reserve(1 << 24).expect("16 MiB of address space");
        let start = mapping.start().as_ptr();
        let pages = 300_usize;
        for page in 0..pages {
            // SAFETY: within the mapping, which is this test's alone.
            unsafe { start.add(page * 4096).write(7) };
        }
        // More than go with one call, one of them of two pages, the last not aligned.
        let mut ranges: Vec<_> = (0..100).map(|i| i * 2 * 4096..(i * 2 + 1) * 4096).collect();
        ranges.push(250 * 4096..252 * 4096);
        ranges.push(260 * 4096 + 1..260 * 4096 + 3);
        // SAFETY: nothing refers to the ranges.
        unsafe { mapping.discard_all(&ranges) };
        for page in 0..pages {
            let gone = page < 200 && page % 2 == 0 || (250..252).contains(&page);
            // SAFETY: within the mapping, which is this test's alone.
            let first = unsafe { start.add(page * 4096).read() };
            assert_eq!(first, if gone { 0 } else { 7 }, "page {page}");
        }
        // SAFETY: no range at all.
        unsafe { mapping.discard_all(&[]) };
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri gives up when memory ends")]
    fn no_address_space_is_an_error() {
        assert!(Mapping::reserve(usize::MAX / 2).is_err());
        assert!(Mapping::reserve(0).is_err());
    }
}
