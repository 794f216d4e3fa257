//! Search within one 64-byte line of integers, for trees that one thread writes and, as a
//! [`SharedLine`], for trees that many threads write.
//!
//! A line is the unit that a memory access brings, and (with AVX-512) the unit that one
//! instruction compares. The kernels count the lanes below the key, whatever order the lanes
//! have, and leave out first ones that hold no key.

use std::sync::atomic::{AtomicU64, Ordering};

/// A line of 32-bit lanes.
pub type Line32 = [u32; 16];

/// A line of 64-bit lanes.
pub type Line64 = [u64; 8];

/// A line of 64-bit lanes that readers compare while a writer changes them.
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

/// A word for a line of flipped words, and the word of one: signed comparison, which is all that
/// some processors have, orders flipped words as unsigned comparison orders words.
#[inline(always)]
#[must_use]
pub fn flip(word: u64) -> u64 {
    word ^ (1 << 63)
}

/// How many lanes of lines of flipped words are below `key`.
#[inline(always)]
pub(crate) fn count_flipped<const LINES: usize>(lines: [&SharedLine; LINES], key: u64) -> usize {
    let key = flip(key) as i64;
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
