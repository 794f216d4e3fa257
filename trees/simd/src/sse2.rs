//! The vector kernel that every x86-64 processor runs: 128-bit vectors, SSE2 and nothing newer.
//!
//! SSE2 orders signed 32-bit lanes, which is what lines hold. For 64-bit
//! lanes it has no order: what stands in for it takes more instructions than comparing one lane
//! after the other. Shared words must be loaded one by one, too, as before AVX no processor
//! promises that the halves of a longer load are whole. So vectors pay for lines of 32-bit lanes;
//! all other searches are those of [`Scalar`].

use std::arch::x86_64::*;

use crate::Slots;
use crate::kernel::{Kernel, Scalar};
use crate::line::Line32;

/// 128-bit vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sse2;

#[target_feature(enable = "sse2")]
#[inline]
fn below_32_sse2(line: &Line32, key: i32) -> u32 {
    let key = _mm_set1_epi32(key);
    let quarter = |first: usize| {
        let words: &[i32; 4] = line[first..].first_chunk().expect("a quarter of a line");
        // SAFETY: the load is of exactly these four words, and needs no alignment.
        let lanes = unsafe { _mm_loadu_si128(words.as_ptr().cast()) };
        _mm_cmplt_epi32(lanes, key)
    };
    let low = _mm_packs_epi32(quarter(0), quarter(4));
    let high = _mm_packs_epi32(quarter(8), quarter(12));
    _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
}

impl Kernel for Sse2 {
    #[inline(always)]
    fn count_32(line: &Line32, skip: usize, key: i32) -> usize {
        // SAFETY: every x86-64 processor has SSE2.
        let below = unsafe { below_32_sse2(line, key) };
        (below >> skip).count_ones() as usize
    }

    #[inline(always)]
    fn equal(slots: &Slots, order: u64, key: u64) -> u32 {
        Scalar::equal(slots, order, key)
    }

    #[inline(always)]
    fn below(slots: &Slots, order: u64, key: u64) -> usize {
        Scalar::below(slots, order, key)
    }

    #[inline(always)]
    fn rank(slots: &Slots, count: usize, key: u64) -> usize {
        Scalar::rank(slots, count, key)
    }
}
