//! The vector kernel that every x86-64 processor runs: 128-bit vectors, SSE2 and nothing newer.
//!
//! SSE2 orders signed 32-bit lanes, which is what lines hold. For 64-bit lanes it has no order;
//! five instructions stand in for one comparison of two lanes. That pays where the outcomes of
//! several lines are summed, and not where those of a single line become a mask of bits
//! (results/notes/matryoshka.md). Shared words must be loaded one by one, as before AVX no
//! processor promises that the halves of a longer load are whole. So vectors serve lines of 32-bit
//! lanes and sums over lines of 64-bit lanes; all other searches are those of [`Scalar`].

use std::arch::x86_64::*;

use crate::Slots;
use crate::kernel::{Kernel, Scalar};
use crate::line::{Line32, Line64};

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

/// Two lanes of a line from lane `first` on: their top bits say whether they are below `key`.
///
/// The upper halves decide, as signed numbers, unless they are equal. Then the difference of the
/// lanes is that of their lower halves, and its top half is all ones if that is negative.
#[target_feature(enable = "sse2")]
#[inline]
fn below_2_sse2(line: &Line64, first: usize, key: __m128i) -> __m128i {
    let words: &[i64; 2] = line[first..].first_chunk().expect("a quarter of a line");
    // SAFETY: the load is of exactly these two words, and needs no alignment.
    let lanes = unsafe { _mm_loadu_si128(words.as_ptr().cast()) };
    let negative = _mm_and_si128(_mm_cmpeq_epi32(lanes, key), _mm_sub_epi64(lanes, key));
    _mm_or_si128(negative, _mm_cmplt_epi32(lanes, key))
}

/// Top bits are added up, without a mask for each line.
#[target_feature(enable = "sse2")]
#[inline]
fn count_all_64_sse2<'a>(lines: impl Iterator<Item = &'a Line64>, key: i64) -> usize {
    let key = _mm_set1_epi64x(key);
    let mut sum = _mm_setzero_si128();
    for line in lines {
        for first in [0, 2, 4, 6] {
            sum = _mm_add_epi64(sum, _mm_srli_epi64::<63>(below_2_sse2(line, first, key)));
        }
    }
    _mm_cvtsi128_si64(_mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum))) as usize
}

impl Kernel for Sse2 {
    #[inline(always)]
    fn count_32(line: &Line32, skip: usize, key: i32) -> usize {
        // SAFETY: every x86-64 processor has SSE2.
        let below = unsafe { below_32_sse2(line, key) };
        (below >> skip).count_ones() as usize
    }

    #[inline(always)]
    fn count_all_64<'a>(lines: impl Iterator<Item = &'a Line64>, key: i64) -> usize {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { count_all_64_sse2(lines, key) }
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
