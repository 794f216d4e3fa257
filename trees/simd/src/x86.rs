//! The vector kernels for x86-64.
//!
//! Unsigned order from signed comparison (AVX2 has no other): flip the top bit of both sides.
//! Loads are inline assembly, since another thread may be writing the node (see the crate's
//! documentation); they cover the words of a [`Slots`] or a [`SharedLine`] and nothing else.
//!
//! Iteration here is by loops. A closure has the target features of the function around it, so the
//! compiler cannot inline it into an adapter such as `map`, which has none, and need not inline the
//! adapter: then each line costs a call.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use crate::Slots;
use crate::kernel::{Kernel, live_slots};
use crate::line::{Line32, Line64, SharedLine, flip_sign};

/// The slots of a node that can hold keys.
const KEY_SLOTS: u32 = 0x7fff;

/// 256-bit vectors.
///
/// Safe to call only below [`Level::run`](crate::Level::run), which proves the features.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2;

#[target_feature(enable = "avx2")]
#[inline]
fn load4<const WORDS: usize>(slots: &[AtomicU64; WORDS], first: usize) -> __m256i {
    let words = &slots[first..first + 4];
    let vector: __m256i;
    // SAFETY: `words` is four words of a live node (bounds checked above, and `first` is a
    // constant at every call); the load is of exactly these 32 bytes and writes nothing. It races
    // with atomic stores, of which it sees each 8-byte lane whole or not at all, or, on a page,
    // with stores of assembly; what it finds there is a fact only after the page was validated.
    unsafe {
        asm!(
            "vmovdqu {vector}, ymmword ptr [{address}]",
            vector = lateout(ymm_reg) vector,
            address = in(reg) words.as_ptr(),
            options(readonly, nostack, preserves_flags),
        );
    }
    vector
}

#[target_feature(enable = "avx2")]
#[inline]
fn bits4(comparison: __m256i) -> u32 {
    _mm256_movemask_pd(_mm256_castsi256_pd(comparison)) as u32
}

#[target_feature(enable = "avx2")]
#[inline]
fn equal_avx2(slots: &Slots, key: u64) -> u32 {
    let key = _mm256_set1_epi64x(key as i64);
    let a = bits4(_mm256_cmpeq_epi64(load4(slots, 0), key));
    let b = bits4(_mm256_cmpeq_epi64(load4(slots, 4), key));
    let c = bits4(_mm256_cmpeq_epi64(load4(slots, 8), key));
    let d = bits4(_mm256_cmpeq_epi64(load4(slots, 12), key));
    (a | (b << 4) | (c << 8) | (d << 12)) & KEY_SLOTS
}

/// Slots above `key`.
#[target_feature(enable = "avx2")]
#[inline]
fn above_avx2(slots: &Slots, key: u64) -> u32 {
    let flip = _mm256_set1_epi64x(i64::MIN);
    let key = _mm256_xor_si256(_mm256_set1_epi64x(key as i64), flip);
    let a = bits4(_mm256_cmpgt_epi64(
        _mm256_xor_si256(load4(slots, 0), flip),
        key,
    ));
    let b = bits4(_mm256_cmpgt_epi64(
        _mm256_xor_si256(load4(slots, 4), flip),
        key,
    ));
    let c = bits4(_mm256_cmpgt_epi64(
        _mm256_xor_si256(load4(slots, 8), flip),
        key,
    ));
    let d = bits4(_mm256_cmpgt_epi64(
        _mm256_xor_si256(load4(slots, 12), flip),
        key,
    ));
    a | (b << 4) | (c << 8) | (d << 12)
}

/// Half a line from lane `first` on: all ones in the lanes that are below `key`.
#[target_feature(enable = "avx2")]
#[inline]
fn half_32_avx2(line: &Line32, first: usize, key: __m256i) -> __m256i {
    let words: &[i32; 8] = line[first..].first_chunk().expect("half a line");
    // SAFETY: the load is of exactly these eight words, and needs no alignment.
    let lanes = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
    _mm256_cmpgt_epi32(key, lanes)
}

/// As `half_32_avx2`.
#[target_feature(enable = "avx2")]
#[inline]
fn half_64_avx2(line: &Line64, first: usize, key: __m256i) -> __m256i {
    let words: &[i64; 4] = line[first..].first_chunk().expect("half a line");
    // SAFETY: the load is of exactly these four words, and needs no alignment.
    let lanes = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
    _mm256_cmpgt_epi64(key, lanes)
}

/// The halves of a line are packed into one vector of narrower lanes, 16 bytes of either in turn.
/// The first lanes stay the first, and no other order matters for a count.
#[target_feature(enable = "avx2")]
#[inline]
fn count_32_avx2(line: &Line32, skip: usize, key: i32) -> usize {
    let key = _mm256_set1_epi32(key);
    let both = _mm256_packs_epi32(half_32_avx2(line, 0, key), half_32_avx2(line, 8, key));
    let two_each = _mm256_movemask_epi8(both) as u32;
    ((two_each >> (2 * skip)).count_ones() / 2) as usize
}

/// As `count_32_avx2`.
#[target_feature(enable = "avx2")]
#[inline]
fn count_64_avx2(line: &Line64, skip: usize, key: i64) -> usize {
    let key = _mm256_set1_epi64x(key);
    let both = _mm256_packs_epi32(half_64_avx2(line, 0, key), half_64_avx2(line, 4, key));
    let bits = _mm256_movemask_ps(_mm256_castsi256_ps(both)) as u32;
    (bits >> skip).count_ones() as usize
}

/// Two lines at a time are packed into one vector of a byte for each lane: one mask, one count.
#[target_feature(enable = "avx2")]
#[inline]
fn count_all_32_avx2<'a>(mut lines: impl Iterator<Item = &'a Line32>, key: i32) -> usize {
    let key = _mm256_set1_epi32(key);
    let words =
        |line: &Line32| _mm256_packs_epi32(half_32_avx2(line, 0, key), half_32_avx2(line, 8, key));
    let mut count = 0;
    while let Some(line) = lines.next() {
        let one = words(line);
        let other = match lines.next() {
            Some(line) => words(line),
            None => _mm256_setzero_si256(),
        };
        let bytes = _mm256_movemask_epi8(_mm256_packs_epi16(one, other)) as u32;
        count += bytes.count_ones();
    }
    count as usize
}

/// The sum of eight lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn sum_of_eight(eight: __m256i) -> usize {
    let four = _mm_add_epi32(
        _mm256_castsi256_si128(eight),
        _mm256_extracti128_si256::<1>(eight),
    );
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    let both = _mm_cvtsi128_si64(two) as u64;
    ((both as u32) + (both >> 32) as u32) as usize
}

/// As `count_all_32_avx2`.
#[target_feature(enable = "avx2")]
#[inline]
fn count_all_64_avx2<'a>(lines: impl Iterator<Item = &'a Line64>, key: i64) -> usize {
    let key = _mm256_set1_epi64x(key);
    let mut sum = _mm256_setzero_si256();
    for line in lines {
        sum = _mm256_sub_epi64(sum, half_64_avx2(line, 0, key));
        sum = _mm256_sub_epi64(sum, half_64_avx2(line, 4, key));
    }
    sum_of_four(sum)
}

/// The sum of four lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn sum_of_four(four: __m256i) -> usize {
    let two = _mm_add_epi64(
        _mm256_castsi256_si128(four),
        _mm256_extracti128_si256::<1>(four),
    );
    _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) as usize
}

/// Four words of a line, their bits flipped where `flip` has ones, in one instruction.
#[target_feature(enable = "avx2")]
#[inline]
fn flipped4<const WORDS: usize>(
    words: &[AtomicU64; WORDS],
    first: usize,
    flip: __m256i,
) -> __m256i {
    let words = &words[first..first + 4];
    let vector: __m256i;
    // SAFETY: as in `load4`.
    unsafe {
        asm!(
            "vpxor {vector}, {flip}, ymmword ptr [{address}]",
            vector = lateout(ymm_reg) vector,
            flip = in(ymm_reg) flip,
            address = in(reg) words.as_ptr(),
            options(readonly, nostack, preserves_flags),
        );
    }
    vector
}

#[target_feature(enable = "avx2")]
#[inline]
fn below_shared_avx2(line: &SharedLine, key: u64) -> u32 {
    let flip = _mm256_set1_epi64x(i64::MIN);
    let key = _mm256_xor_si256(_mm256_set1_epi64x(key as i64), flip);
    let (low, high) = (flipped4(line, 0, flip), flipped4(line, 4, flip));
    bits4(_mm256_cmpgt_epi64(key, low)) | (bits4(_mm256_cmpgt_epi64(key, high)) << 4)
}

/// All ones in the lanes of half a line of flipped words that are below the flipped `key`.
#[target_feature(enable = "avx2")]
#[inline]
fn flipped_below4(line: &SharedLine, first: usize, key: __m256i) -> __m256i {
    let words = &line[first..first + 4];
    let vector: __m256i;
    // SAFETY: as in `load4`.
    unsafe {
        asm!(
            "vpcmpgtq {vector}, {key}, ymmword ptr [{address}]",
            vector = lateout(ymm_reg) vector,
            key = in(ymm_reg) key,
            address = in(reg) words.as_ptr(),
            options(readonly, nostack, preserves_flags),
        );
    }
    vector
}

#[target_feature(enable = "avx2")]
#[inline]
fn count_flipped_avx2<const LINES: usize>(lines: [&SharedLine; LINES], key: u64) -> usize {
    let key = _mm256_set1_epi64x(flip_sign(key) as i64);
    let halves = |line: &SharedLine| (flipped_below4(line, 0, key), flipped_below4(line, 4, key));
    if LINES == 1 {
        let (low, high) = halves(lines[0]);
        let both = _mm256_castsi256_ps(_mm256_packs_epi32(low, high));
        return _mm256_movemask_ps(both).count_ones() as usize;
    }
    // A lane that is below counts -1.
    let mut sums = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for line in lines {
        let (low, high) = halves(line);
        sums = (
            _mm256_sub_epi64(sums.0, low),
            _mm256_sub_epi64(sums.1, high),
        );
    }
    sum_of_four(_mm256_add_epi64(sums.0, sums.1))
}

#[target_feature(enable = "avx2")]
#[inline]
fn below_shared_32_avx2<const WORDS: usize>(words: &[AtomicU64; WORDS], key: u32) -> u32 {
    let flip = _mm256_set1_epi32(i32::MIN);
    let key = _mm256_xor_si256(_mm256_set1_epi32(key as i32), flip);
    let bits = |half| _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(key, half))) as u32;
    let mut mask = bits(flipped4(words, 0, flip));
    if WORDS == 8 {
        mask |= bits(flipped4(words, 4, flip)) << 8;
    }
    mask
}

/// As `flipped_below4`, for eight lanes of 32 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn flipped_below8(line: &SharedLine, first: usize, key: __m256i) -> __m256i {
    let words = &line[first..first + 4];
    let vector: __m256i;
    // SAFETY: as in `load4`.
    unsafe {
        asm!(
            "vpcmpgtd {vector}, {key}, ymmword ptr [{address}]",
            vector = lateout(ymm_reg) vector,
            key = in(ymm_reg) key,
            address = in(reg) words.as_ptr(),
            options(readonly, nostack, preserves_flags),
        );
    }
    vector
}

/// As `count_flipped_avx2`.
#[target_feature(enable = "avx2")]
#[inline]
fn count_flipped_32_avx2<const LINES: usize>(lines: [&SharedLine; LINES], key: u32) -> usize {
    let key = _mm256_set1_epi32((key ^ (1 << 31)) as i32);
    let halves = |line: &SharedLine| (flipped_below8(line, 0, key), flipped_below8(line, 4, key));
    if LINES == 1 {
        let (low, high) = halves(lines[0]);
        let two_each = _mm256_movemask_epi8(_mm256_packs_epi32(low, high)) as u32;
        return (two_each.count_ones() / 2) as usize;
    }
    let mut sum = _mm256_setzero_si256();
    for line in lines {
        let (low, high) = halves(line);
        sum = _mm256_sub_epi32(_mm256_sub_epi32(sum, low), high);
    }
    sum_of_eight(sum)
}

impl Kernel for Avx2 {
    #[inline(always)]
    fn below_shared_32<const WORDS: usize>(words: &[AtomicU64; WORDS], key: u32) -> u32 {
        const { assert!(WORDS == 4 || WORDS == 8, "a line, or half of one") }
        // SAFETY: an `Avx2` kernel runs only inside `Level::run` and the like, after detection.
        unsafe { below_shared_32_avx2(words, key) }
    }

    #[inline(always)]
    fn count_flipped_32<const LINES: usize>(lines: [&SharedLine; LINES], key: u32) -> usize {
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        unsafe { count_flipped_32_avx2(lines, key) }
    }

    #[inline(always)]
    fn count_flipped<const LINES: usize>(lines: [&SharedLine; LINES], key: u64) -> usize {
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        unsafe { count_flipped_avx2(lines, key) }
    }

    #[inline(always)]
    fn count_32(line: &Line32, skip: usize, key: i32) -> usize {
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        unsafe { count_32_avx2(line, skip, key) }
    }

    #[inline(always)]
    fn count_64(line: &Line64, skip: usize, key: i64) -> usize {
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        unsafe { count_64_avx2(line, skip, key) }
    }

    #[inline(always)]
    fn count_all_32<'a>(lines: impl Iterator<Item = &'a Line32>, key: i32) -> usize {
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        unsafe { count_all_32_avx2(lines, key) }
    }

    #[inline(always)]
    fn count_all_64<'a>(lines: impl Iterator<Item = &'a Line64>, key: i64) -> usize {
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        unsafe { count_all_64_avx2(lines, key) }
    }

    #[inline(always)]
    fn below_shared(line: &SharedLine, key: u64) -> u32 {
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        unsafe { below_shared_avx2(line, key) }
    }

    #[inline(always)]
    fn equal(slots: &Slots, _order: u64, key: u64) -> u32 {
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        unsafe { equal_avx2(slots, key) }
    }

    #[inline(always)]
    fn below(slots: &Slots, order: u64, key: u64) -> usize {
        let Some(key) = key.checked_sub(1) else {
            return 0;
        };
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        let above = unsafe { above_avx2(slots, key) };
        (!above & live_slots(order)).count_ones() as usize
    }

    #[inline(always)]
    fn rank(slots: &Slots, count: usize, key: u64) -> usize {
        let first = (1_u32 << count) - 1;
        // SAFETY: an `Avx2` kernel runs only inside `Level::run`, after detection.
        let above = unsafe { above_avx2(slots, key) };
        (!above & first).count_ones() as usize
    }
}

/// 512-bit vectors.
///
/// Safe to call only below [`Level::run`](crate::Level::run), which proves the features.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512;

#[target_feature(enable = "avx512f")]
#[inline]
fn load8<const WORDS: usize>(slots: &[AtomicU64; WORDS], first: usize) -> __m512i {
    let words = &slots[first..first + 8];
    let vector: __m512i;
    // SAFETY: eight words of a live node, bounds checked above; otherwise as in `load4`.
    unsafe {
        asm!(
            "vmovdqu64 {vector}, zmmword ptr [{address}]",
            vector = lateout(zmm_reg) vector,
            address = in(reg) words.as_ptr(),
            options(readonly, nostack, preserves_flags),
        );
    }
    vector
}

#[target_feature(enable = "avx512f")]
#[inline]
fn equal_avx512(slots: &Slots, key: u64) -> u32 {
    let key = _mm512_set1_epi64(key as i64);
    let low = u32::from(_mm512_cmpeq_epu64_mask(load8(slots, 0), key));
    let high = u32::from(_mm512_cmpeq_epu64_mask(load8(slots, 8), key));
    (low | (high << 8)) & KEY_SLOTS
}

/// Slots at or below `key`.
#[target_feature(enable = "avx512f")]
#[inline]
fn at_or_below_avx512(slots: &Slots, key: u64) -> u32 {
    let key = _mm512_set1_epi64(key as i64);
    let low = u32::from(_mm512_cmple_epu64_mask(load8(slots, 0), key));
    let high = u32::from(_mm512_cmple_epu64_mask(load8(slots, 8), key));
    low | (high << 8)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn below_32_avx512(line: &Line32, key: i32) -> u32 {
    // SAFETY: the load is of exactly the line's sixteen words, and needs no alignment.
    let lanes = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
    u32::from(_mm512_cmplt_epi32_mask(lanes, _mm512_set1_epi32(key)))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn below_64_avx512(line: &Line64, key: i64) -> u32 {
    // SAFETY: the load is of exactly the line's eight words, and needs no alignment.
    let lanes = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
    u32::from(_mm512_cmplt_epi64_mask(lanes, _mm512_set1_epi64(key)))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn below_shared_avx512(line: &SharedLine, key: u64) -> u32 {
    u32::from(_mm512_cmplt_epu64_mask(
        load8(line, 0),
        _mm512_set1_epi64(key as i64),
    ))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn below_shared_32_avx512(line: &SharedLine, key: u32) -> u32 {
    let key = _mm512_set1_epi32(key as i32);
    u32::from(_mm512_cmplt_epu32_mask(load8(line, 0), key))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn count_flipped_32_avx512<const LINES: usize>(lines: [&SharedLine; LINES], key: u32) -> usize {
    let key = _mm512_set1_epi32((key ^ (1 << 31)) as i32);
    let mut count = 0;
    for line in lines {
        count += _mm512_cmplt_epi32_mask(load8(line, 0), key).count_ones() as usize;
    }
    count
}

#[target_feature(enable = "avx512f")]
#[inline]
fn count_flipped_avx512<const LINES: usize>(lines: [&SharedLine; LINES], key: u64) -> usize {
    let key = _mm512_set1_epi64(flip_sign(key) as i64);
    let mut count = 0;
    for line in lines {
        count += _mm512_cmplt_epi64_mask(load8(line, 0), key).count_ones() as usize;
    }
    count
}

impl Kernel for Avx512 {
    #[inline(always)]
    fn below_shared_32<const WORDS: usize>(words: &[AtomicU64; WORDS], key: u32) -> u32 {
        let Some(line) = words.first_chunk() else {
            // Half a line is one vector of AVX2, and what has AVX-512 has that.
            return Avx2::below_shared_32(words, key);
        };
        // SAFETY: an `Avx512` kernel runs only inside `Level::run` and the like, after detection.
        unsafe { below_shared_32_avx512(line, key) }
    }

    #[inline(always)]
    fn count_flipped_32<const LINES: usize>(lines: [&SharedLine; LINES], key: u32) -> usize {
        // SAFETY: an `Avx512` kernel runs only inside `Level::run`, after detection.
        unsafe { count_flipped_32_avx512(lines, key) }
    }

    #[inline(always)]
    fn count_flipped<const LINES: usize>(lines: [&SharedLine; LINES], key: u64) -> usize {
        // SAFETY: an `Avx512` kernel runs only inside `Level::run`, after detection.
        unsafe { count_flipped_avx512(lines, key) }
    }

    #[inline(always)]
    fn count_32(line: &Line32, skip: usize, key: i32) -> usize {
        // SAFETY: an `Avx512` kernel runs only inside `Level::run`, after detection.
        let below = unsafe { below_32_avx512(line, key) };
        (below >> skip).count_ones() as usize
    }

    #[inline(always)]
    fn count_64(line: &Line64, skip: usize, key: i64) -> usize {
        // SAFETY: an `Avx512` kernel runs only inside `Level::run`, after detection.
        let below = unsafe { below_64_avx512(line, key) };
        (below >> skip).count_ones() as usize
    }

    #[inline(always)]
    fn below_shared(line: &SharedLine, key: u64) -> u32 {
        // SAFETY: an `Avx512` kernel runs only inside `Level::run`, after detection.
        unsafe { below_shared_avx512(line, key) }
    }

    #[inline(always)]
    fn equal(slots: &Slots, _order: u64, key: u64) -> u32 {
        // SAFETY: an `Avx512` kernel runs only inside `Level::run`, after detection.
        unsafe { equal_avx512(slots, key) }
    }

    #[inline(always)]
    fn below(slots: &Slots, order: u64, key: u64) -> usize {
        let Some(key) = key.checked_sub(1) else {
            return 0;
        };
        // SAFETY: an `Avx512` kernel runs only inside `Level::run`, after detection.
        let mask = unsafe { at_or_below_avx512(slots, key) };
        (mask & live_slots(order)).count_ones() as usize
    }

    #[inline(always)]
    fn rank(slots: &Slots, count: usize, key: u64) -> usize {
        let first = (1_u32 << count) - 1;
        // SAFETY: an `Avx512` kernel runs only inside `Level::run`, after detection.
        let mask = unsafe { at_or_below_avx512(slots, key) };
        (mask & first).count_ones() as usize
    }
}
