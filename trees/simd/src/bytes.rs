//! Search among bytes: which of sixteen fingerprints equal a given one.

/// A bit for each of sixteen bytes that equals `wanted`, the first byte's lowest.
#[inline(always)]
pub fn equal_bytes(bytes: &[u8; 16], wanted: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        };
        // SAFETY: every x86-64 processor has SSE2, and the reference is to the sixteen bytes
        // that the load reads; it needs no alignment.
        unsafe {
            let vector = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
            _mm_movemask_epi8(_mm_cmpeq_epi8(vector, _mm_set1_epi8(wanted as i8))) as u32
        }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        bytes
            .iter()
            .rev()
            .fold(0, |mask, &byte| mask << 1 | u32::from(byte == wanted))
    }
}
