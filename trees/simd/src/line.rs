//! Search within one 64-byte line of integers, for trees that one thread writes and, as a
//! [`SharedLine`], for trees that many threads write.
//!
//! A line is the unit that a memory access brings, and (with AVX-512) the unit that one
//! instruction compares. The kernels count the lanes below the key, whatever order the lanes
//! have, and leave out first ones that hold no key.

use std::sync::atomic::{AtomicU64, Ordering};

/// A line of 32-bit lanes: signed, as that is the order which AVX2 has.
pub type Line32 = [i32; 16];

/// A line of 64-bit lanes, signed too.
pub type Line64 = [i64; 8];

/// A line that readers compare while a writer changes it: 64-bit lanes, or pairs of 32-bit lanes,
/// the first of which is the lower half of the first word.
pub type SharedLine = [AtomicU64; 8];

/// A bit for every lane below `key`: the portable kernel and the vector kernels' oracle.
#[inline(always)]
pub(crate) fn below<T: Copy + Ord, const LANES: usize>(line: &[T; LANES], key: T) -> u32 {
    let mut mask = 0;
    for (lane, &value) in line.iter().enumerate() {
        mask |= u32::from(value < key) << lane;
    }
    mask
}

/// [`below`] for lanes that another thread may be writing.
#[inline(always)]
pub(crate) fn below_shared(line: &SharedLine, key: u64) -> u32 {
    let mut mask = 0;
    for (lane, value) in line.iter().enumerate() {
        mask |= u32::from(value.load(Ordering::Relaxed) < key) << lane;
    }
    mask
}

/// The two 32-bit lanes of a word.
#[inline(always)]
fn pair(word: &AtomicU64) -> [u32; 2] {
    let word = word.load(Ordering::Relaxed);
    [word as u32, (word >> 32) as u32]
}

/// Flips the sign bit of a word. Signed comparison, which is all that some processors have, orders
/// flipped words as unsigned comparison orders the words themselves.
#[inline(always)]
#[must_use]
pub fn flip_sign(word: u64) -> u64 {
    word ^ (1 << 63)
}

/// How many lanes of lines of flipped words are below `key`.
#[inline(always)]
pub(crate) fn count_flipped<const LINES: usize>(lines: [&SharedLine; LINES], key: u64) -> usize {
    let key = flip_sign(key) as i64;
    // Bits are cheaper to collect than sums, and to count all at once.
    const { assert!(LINES <= 8) };
    let mut mask = 0;
    for (line, first) in lines.into_iter().zip((0..).step_by(8)) {
        for (lane, value) in line.iter().enumerate() {
            mask |= u64::from((value.load(Ordering::Relaxed) as i64) < key) << (first + lane);
        }
    }
    mask.count_ones() as usize
}

/// [`flip_sign`] for both 32-bit lanes of a word.
#[inline(always)]
#[must_use]
pub fn flip_signs(word: u64) -> u64 {
    word ^ (1 << 63 | 1 << 31)
}

/// How many 32-bit lanes of lines of words that are flipped by [`flip_signs`] are below `key`.
#[inline(always)]
pub(crate) fn count_flipped_32<const LINES: usize>(lines: [&SharedLine; LINES], key: u32) -> usize {
    let key = (key ^ (1 << 31)) as i32;
    const { assert!(LINES <= 4) };
    let mut mask = 0;
    for (line, first) in lines.into_iter().zip((0..).step_by(16)) {
        for (word, lane) in line.iter().zip((first..).step_by(2)) {
            let [low, high] = pair(word).map(|lane| u64::from((lane as i32) < key));
            mask |= low << lane | high << (lane + 1);
        }
    }
    mask.count_ones() as usize
}
