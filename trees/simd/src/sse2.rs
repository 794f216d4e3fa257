//! The vector kernel that every x86-64 processor runs: 128-bit vectors, SSE2 and nothing newer.
//!
//! SSE2 orders signed 32-bit lanes only. Unsigned ones have their top bits flipped first; for
//! 64-bit lanes the sign bit of a few logical operations says whether a subtraction borrows.
//! Shared words are loaded one by one as the atomics they are, and put together in registers:
//! before AVX no processor promises that the halves of a longer load are whole.

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Slots;
use crate::kernel::{Kernel, live_slots};
use crate::line::{Line32, Line64, SharedLine};

const KEYS: u32 = 0x7fff;

/// 128-bit vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sse2;

/// Two shared words.
#[target_feature(enable = "sse2")]
#[inline]
fn load2<const WORDS: usize>(words: &[AtomicU64; WORDS], first: usize) -> __m128i {
    let word = |at: usize| words[at].load(Ordering::Relaxed) as i64;
    _mm_set_epi64x(word(first + 1), word(first))
}

/// The sign bit of each lane that is below the key's: where `lane - key` borrows.
#[target_feature(enable = "sse2")]
#[inline]
fn borrows(lanes: __m128i, key: __m128i) -> __m128i {
    let alike = _mm_andnot_si128(_mm_xor_si128(lanes, key), _mm_sub_epi64(lanes, key));
    _mm_or_si128(_mm_andnot_si128(lanes, key), alike)
}

/// The upper halves of the lanes of both, and the lower halves.
#[target_feature(enable = "sse2")]
#[inline]
fn halves(low: __m128i, high: __m128i) -> (__m128, __m128) {
    let (low, high) = (_mm_castsi128_ps(low), _mm_castsi128_ps(high));
    (
        _mm_shuffle_ps::<0b11_01_11_01>(low, high),
        _mm_shuffle_ps::<0b10_00_10_00>(low, high),
    )
}

/// A bit for each of four lanes below the key.
#[target_feature(enable = "sse2")]
#[inline]
fn below4(low: __m128i, high: __m128i, key: __m128i) -> u32 {
    let (signs, _) = halves(borrows(low, key), borrows(high, key));
    _mm_movemask_ps(signs) as u32
}

/// A bit for each of four lanes that is the key.
#[target_feature(enable = "sse2")]
#[inline]
fn equal4(low: __m128i, high: __m128i, key: __m128i) -> u32 {
    let (upper, lower) = halves(_mm_cmpeq_epi32(low, key), _mm_cmpeq_epi32(high, key));
    _mm_movemask_ps(_mm_and_ps(upper, lower)) as u32
}

#[target_feature(enable = "sse2")]
#[inline]
fn equal_sse2(slots: &Slots, key: u64) -> u32 {
    let key = _mm_set1_epi64x(key as i64);
    let at = |first: usize| equal4(load2(slots, first), load2(slots, first + 2), key) << first;
    (at(0) | at(4) | at(8) | at(12)) & KEYS
}

#[target_feature(enable = "sse2")]
#[inline]
fn below_sse2(slots: &Slots, key: u64) -> u32 {
    let key = _mm_set1_epi64x(key as i64);
    let at = |first: usize| below4(load2(slots, first), load2(slots, first + 2), key) << first;
    at(0) | at(4) | at(8) | at(12)
}

#[target_feature(enable = "sse2")]
#[inline]
fn below_32_sse2(line: &Line32, key: u32) -> u32 {
    let flip = _mm_set1_epi32(i32::MIN);
    let key = _mm_xor_si128(_mm_set1_epi32(key as i32), flip);
    let quarter = |first: usize| {
        let lane = |at: usize| line[first + at] as i32;
        let lanes = _mm_set_epi32(lane(3), lane(2), lane(1), lane(0));
        _mm_cmplt_epi32(_mm_xor_si128(lanes, flip), key)
    };
    let low = _mm_packs_epi32(quarter(0), quarter(4));
    let high = _mm_packs_epi32(quarter(8), quarter(12));
    _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
}

#[target_feature(enable = "sse2")]
#[inline]
fn below_64_sse2(line: &Line64, key: u64) -> u32 {
    let key = _mm_set1_epi64x(key as i64);
    let pair = |first: usize| _mm_set_epi64x(line[first + 1] as i64, line[first] as i64);
    below4(pair(0), pair(2), key) | below4(pair(4), pair(6), key) << 4
}

#[target_feature(enable = "sse2")]
#[inline]
fn below_shared_sse2(line: &SharedLine, key: u64) -> u32 {
    let key = _mm_set1_epi64x(key as i64);
    let low = below4(load2(line, 0), load2(line, 2), key);
    low | below4(load2(line, 4), load2(line, 6), key) << 4
}

impl Kernel for Sse2 {
    #[inline(always)]
    fn below_32(line: &Line32, key: u32) -> u32 {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { below_32_sse2(line, key) }
    }

    #[inline(always)]
    fn below_64(line: &Line64, key: u64) -> u32 {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { below_64_sse2(line, key) }
    }

    #[inline(always)]
    fn below_shared(line: &SharedLine, key: u64) -> u32 {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { below_shared_sse2(line, key) }
    }

    #[inline(always)]
    fn equal(slots: &Slots, _order: u64, key: u64) -> u32 {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { equal_sse2(slots, key) }
    }

    #[inline(always)]
    fn below(slots: &Slots, order: u64, key: u64) -> usize {
        // SAFETY: every x86-64 processor has SSE2.
        let below = unsafe { below_sse2(slots, key) };
        (below & live_slots(order)).count_ones() as usize
    }

    #[inline(always)]
    fn rank(slots: &Slots, count: usize, key: u64) -> usize {
        // At or below the key is below the next one; all are below the one after the last.
        let Some(next) = key.checked_add(1) else {
            return count;
        };
        let first = (1_u32 << count) - 1;
        // SAFETY: every x86-64 processor has SSE2.
        let below = unsafe { below_sse2(slots, next) };
        (below & first).count_ones() as usize
    }
}
