//! Regions: 2 MiB-aligned memory from the kernel, advised to be superpages.
//!
//! The arena maps 32 MiB of address space at a time (the kernel backs it only when touched)
//! and cuts it into 2 MiB regions. Small chunks of classes that have little to store share
//! such a region in 64 KiB pieces; a class that has grown takes whole regions. The first region
//! that is shared stays in the kernel's small pages: a program that stores little shall not take a
//! superpage for it.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A region: the size and alignment of an x86-64 superpage.
pub(crate) const REGION_BYTES: usize = 2 << 20;

/// What a class carves from before it has earned whole regions.
pub(crate) const SMALL_CHUNK_BYTES: usize = 64 << 10;

/// Address space taken from the kernel at a time.
const EXTENT_BYTES: usize = 32 << 20;

/// A piece of memory that belongs to one class for good.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) start: NonNull<u8>,
    pub(crate) size_bytes: usize,
}

// SAFETY: a chunk is an address range owned by whoever holds it; it has no thread affinity.
unsafe impl Send for Chunk {}

/// Unused memory: the rest of the mapped extent, and of the region that is cut small.
struct Arena {
    extent: Option<Chunk>,
    small: Option<Chunk>,
    /// Whether a region has been cut small before.
    has_cut_small: bool,
    mapped_bytes: usize,
}

static ARENA: Mutex<Arena> = Mutex::new(Arena {
    extent: None,
    small: None,
    has_cut_small: false,
    mapped_bytes: 0,
});

fn arena() -> MutexGuard<'static, Arena> {
    // The arena is consistent between any two statements that could unwind (none do).
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fresh, zeroed chunk of a whole region or of [`SMALL_CHUNK_BYTES`]; `None` when the kernel
/// refuses.
pub(crate) fn chunk(whole_region: bool) -> Option<Chunk> {
    let mut arena = arena();
    if whole_region {
        return arena.region();
    }
    if arena.small.is_none() {
        arena.small = arena.region_to_cut();
    }
    take(&mut arena.small, SMALL_CHUNK_BYTES)
}

/// Address space taken from the kernel so far.
pub(crate) fn mapped_bytes() -> usize {
    arena().mapped_bytes
}

/// Cuts `size_bytes` off the front of `from`, leaving `None` when nothing remains.
fn take(from: &mut Option<Chunk>, size_bytes: usize) -> Option<Chunk> {
    let whole = (*from)?;
    debug_assert!(whole.size_bytes >= size_bytes && whole.size_bytes % size_bytes == 0);
    let rest_bytes = whole.size_bytes - size_bytes;
    *from = (rest_bytes > 0).then(|| Chunk {
        // SAFETY: the chunk is one mapping of `size_bytes + rest_bytes` bytes with a
        // non-empty rest, so the offset stays inside it.
        start: unsafe { whole.start.add(size_bytes) },
        size_bytes: rest_bytes,
    });
    Some(Chunk {
        start: whole.start,
        size_bytes,
    })
}

impl Arena {
    fn region(&mut self) -> Option<Chunk> {
        if self.extent.is_none() {
            let extent = map(EXTENT_BYTES).or_else(|| map(REGION_BYTES))?;
            self.mapped_bytes += extent.size_bytes;
            self.extent = Some(extent);
        }
        take(&mut self.extent, REGION_BYTES)
    }

    fn region_to_cut(&mut self) -> Option<Chunk> {
        let region = self.region()?;
        if !std::mem::replace(&mut self.has_cut_small, true) {
            use_small_pages(region);
        }
        Some(region)
    }
}

/// Has the kernel back an untouched region with its small pages.
fn use_small_pages(region: Chunk) {
    #[cfg(target_os = "linux")]
    // SAFETY: the region is a part of our own mapping. The advice is a hint and may fail
    // harmlessly.
    unsafe {
        libc::madvise(
            region.start.as_ptr().cast(),
            region.size_bytes,
            libc::MADV_NOHUGEPAGE,
        );
    }
    #[cfg(not(target_os = "linux"))]
    let _ = region;
}

/// Maps `size_bytes` (a multiple of the region size) at a region boundary.
pub(crate) fn map(size_bytes: usize) -> Option<Chunk> {
    let padded_bytes = size_bytes + REGION_BYTES;
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no
    // memory that exists.
    let raw = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            padded_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if raw == libc::MAP_FAILED {
        return None;
    }
    let raw = raw.cast::<u8>();
    let head_bytes = raw.align_offset(REGION_BYTES);
    let tail_bytes = REGION_BYTES - head_bytes;
    // SAFETY: head + size + tail is exactly the mapping made above, which nobody else knows
    // yet; the two trimmed ends are whole pages (mappings and regions are page aligned) and
    // are never used again. madvise on our own mapping is a hint and may fail harmlessly.
    unsafe {
        let start = raw.add(head_bytes);
        if head_bytes > 0 {
            libc::munmap(raw.cast(), head_bytes);
        }
        if tail_bytes > 0 {
            libc::munmap(start.add(size_bytes).cast(), tail_bytes);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(start.cast(), size_bytes, crate::advice::page_advice());
        Some(Chunk {
            start: NonNull::new_unchecked(start),
            size_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_aligned_disjoint_and_writable() {
        let mut starts = Vec::new();
        for _ in 0..20 {
            let region = chunk(true).expect("20 regions");
            assert_eq!(region.start.as_ptr() as usize % REGION_BYTES, 0);
            assert_eq!(region.size_bytes, REGION_BYTES);
            // SAFETY: the region is ours alone and REGION_BYTES long.
            unsafe {
                region.start.as_ptr().write(1);
                region.start.as_ptr().add(REGION_BYTES - 1).write(2);
            }
            starts.push(region.start.as_ptr() as usize);
        }
        for _ in 0..40 {
            let small = chunk(false).expect("40 small chunks");
            assert_eq!(small.size_bytes, SMALL_CHUNK_BYTES);
            assert_eq!(small.start.as_ptr() as usize % SMALL_CHUNK_BYTES, 0);
            let inside = |region: &usize| {
                (*region..*region + REGION_BYTES).contains(&(small.start.as_ptr() as usize))
            };
            assert!(
                !starts.iter().any(inside),
                "a small chunk lies in a whole region"
            );
        }
        starts.sort_unstable();
        assert!(
            starts
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= REGION_BYTES)
        );
    }
}
