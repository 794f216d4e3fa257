//! What the system's allocator does with large blocks that are freed.

/// From now on, blocks of 128 KiB and more that the standard allocator hands out are mappings of
/// their own, which the system has back as soon as they are freed. For programs, not for libraries:
/// it holds for the whole process.
///
/// glibc begins like that. But once a large block was freed, it takes blocks of up to that size (32
/// MiB at most) from its heaps, of which each thread has one, and these keep what is freed: a
/// server that handles values of a megabyte then has several that nobody uses. The price of a
/// mapping is that each of its pages is a fault when it is first touched, some 50 µs for a block of
/// 1 MiB. With another C library it does nothing.
pub fn fix_mmap_threshold() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        const THRESHOLD_BYTES: libc::c_int = 128 << 10;
        // SAFETY: `mallopt` may be called at any time, by any thread; it takes the allocator's own
        // lock, reads no memory of ours, and this parameter accepts any number up to 32 MiB.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES) };
    }
}
