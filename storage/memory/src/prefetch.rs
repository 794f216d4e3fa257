//! Prefetching: asking for cache lines before they are needed, so that several arrive after one
//! memory latency.

/// Asks for the cache line at `address`; never faults, whatever the address.
#[inline(always)]
pub fn prefetch_line<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it reads nothing and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}

/// Asks for `LINES` cache lines from `address` on.
#[inline(always)]
pub fn prefetch_lines<const LINES: usize, T>(address: *const T) {
    for line in 0..LINES {
        prefetch_line(address.cast::<u8>().wrapping_add(line * 64));
    }
}
