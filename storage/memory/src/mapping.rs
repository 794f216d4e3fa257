//! Large mappings: address space reserved once, backed by the kernel page by page when touched,
//! and given back to it in pieces.
//!
//! A buffer pool whose page number is an offset (vmcache) reserves room for all pages that could
//! ever be and keeps only a part of them in memory. Never touched means all zero, and so does
//! discarded.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

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
    /// Reserves `size_bytes` of zeros. `superpages` asks the kernel to back it by superpages, or,
    /// if false, to never do so: then memory is taken and given back in small pages exactly.
    ///
    /// # Errors
    ///
    /// What the kernel says when it has no such range, or the process is limited to less.
    pub fn reserve(size_bytes: usize, superpages: bool) -> io::Result<Mapping> {
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
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(raw.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let advice = if superpages {
                libc::MADV_HUGEPAGE
            } else {
                libc::MADV_NOHUGEPAGE
            };
            // SAFETY: advice on our own fresh mapping is a hint and may fail harmlessly.
            unsafe { libc::madvise(start.as_ptr().cast(), size_bytes, advice) };
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = superpages;
        Ok(Mapping { start, size_bytes })
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
        // SAFETY: the range lies within our own private anonymous mapping, where this advice
        // means zeros, and the caller gives up its contents. It fails for a range that is not
        // aligned, which the branch below then fills by hand.
        if unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED) } == 0 {
            return;
        }
        // SAFETY: within the mapping, and the caller's alone.
        unsafe { start.write_bytes(0, bytes) };
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
        let mapping = Mapping::reserve(1 << 30, false).expect("a gibibyte of address space");
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
    fn no_address_space_is_an_error() {
        assert!(Mapping::reserve(usize::MAX / 2, false).is_err());
        assert!(Mapping::reserve(0, true).is_err());
    }
}
