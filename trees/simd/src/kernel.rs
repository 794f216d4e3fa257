//! The kernel interface and the three portable kernels.
//!
//! `order` is a permutation word: the low nibble counts the live slots, nibble `i + 1` names
//! the slot of the `i`-th key in key order (Masstree §4.6.2).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::line::{self, Line32, Line64, SharedLine};
use crate::words::below_32;
use crate::{Slots, WIDTH};

/// Search among the slices of one node.
pub trait Kernel: Copy + 'static {
    /// A bit for every slot whose slice equals `key`. Slots that are not live may be
    /// reported too (the caller checks the permutation); bit 15 is never set.
    fn equal(slots: &Slots, order: u64, key: u64) -> u32;

    /// How many live slots hold a slice below `key`.
    fn below(slots: &Slots, order: u64, key: u64) -> usize;

    /// How many of the first `count` slots, which are in ascending order, hold a slice at or
    /// below `key`. `count` is at most 15.
    fn rank(slots: &Slots, count: usize, key: u64) -> usize;

    /// How many lanes of the line are below `key`, not counting the first `skip`, which are at most
    /// 16 bytes.
    #[inline(always)]
    fn count_32(line: &Line32, skip: usize, key: i32) -> usize {
        (line::below(line, key) >> skip).count_ones() as usize
    }

    /// As [`count_32`](Self::count_32), for lanes of 64 bits.
    #[inline(always)]
    fn count_64(line: &Line64, skip: usize, key: i64) -> usize {
        (line::below(line, key) >> skip).count_ones() as usize
    }

    /// How many lanes of all these lines are below `key`. Cheaper than to count them line by line.
    #[inline(always)]
    fn count_all_32<'a>(lines: impl Iterator<Item = &'a Line32>, key: i32) -> usize {
        lines.map(|line| Self::count_32(line, 0, key)).sum()
    }

    /// As [`count_all_32`](Self::count_all_32), for lanes of 64 bits.
    #[inline(always)]
    fn count_all_64<'a>(lines: impl Iterator<Item = &'a Line64>, key: i64) -> usize {
        lines.map(|line| Self::count_64(line, 0, key)).sum()
    }

    /// A bit for every lane below `key`, of a line that another thread may be writing: each lane
    /// is read whole, and at its own moment.
    #[inline(always)]
    fn below_shared(line: &SharedLine, key: u64) -> u32 {
        line::below_shared(line, key)
    }

    /// As [`below_shared`](Self::below_shared), for lanes of 32 bits, of a line or half of one. A
    /// word has two, the first in its lower half. Where lanes are written otherwise than by atomic
    /// words, they may be read in part. Without a kernel of its own this is [`below_32`].
    #[inline(always)]
    fn below_shared_32<const WORDS: usize>(words: &[AtomicU64; WORDS], key: u32) -> u32 {
        below_32(
            words.each_ref().map(|word| word.load(Ordering::Relaxed)),
            key,
        )
    }

    /// How many lanes of lines are below `key`, of words with [flipped signs](crate::flip_sign).
    /// Lines are read as in [`below_shared`](Self::below_shared). Cheaper than as many bits, the
    /// more so the more lines.
    #[inline(always)]
    fn count_flipped<const LINES: usize>(lines: [&SharedLine; LINES], key: u64) -> usize {
        line::count_flipped(lines, key)
    }

    /// As [`count_flipped`](Self::count_flipped), for lanes of 32 bits, each with its
    /// [sign flipped](crate::flip_signs).
    #[inline(always)]
    fn count_flipped_32<const LINES: usize>(lines: [&SharedLine; LINES], key: u32) -> usize {
        line::count_flipped_32(lines, key)
    }
}

#[inline(always)]
fn load(slots: &Slots, slot: usize) -> u64 {
    slots[slot & 15].load(Ordering::Relaxed)
}

#[inline(always)]
fn count_of(order: u64) -> usize {
    (order & 15) as usize
}

#[inline(always)]
fn slot_at(order: u64, index: usize) -> usize {
    ((order >> (4 * index + 4)) & 15) as usize
}

/// The live slots of a permutation word, as a bit mask.
#[inline(always)]
pub fn live_slots(order: u64) -> u32 {
    // Free slots are the fewer ones in a node that is more than half full, the common case.
    let mut rest = (order >> 4) >> (4 * count_of(order));
    let mut free = 0_u32;
    for _ in count_of(order)..WIDTH {
        free |= 1 << (rest & 15);
        rest >>= 4;
    }
    !free & 0x7fff
}

/// Linear search in key order.
#[derive(Debug, Clone, Copy)]
pub struct Linear;

impl Kernel for Linear {
    #[inline(always)]
    fn equal(slots: &Slots, order: u64, key: u64) -> u32 {
        let mut mask = 0;
        for index in 0..count_of(order) {
            let slot = slot_at(order, index);
            let slice = load(slots, slot);
            if slice > key {
                break;
            }
            if slice == key {
                mask |= 1 << slot;
            }
        }
        mask & 0x7fff
    }

    #[inline(always)]
    fn below(slots: &Slots, order: u64, key: u64) -> usize {
        let count = count_of(order);
        (0..count)
            .find(|&index| load(slots, slot_at(order, index)) >= key)
            .unwrap_or(count)
    }

    #[inline(always)]
    fn rank(slots: &Slots, count: usize, key: u64) -> usize {
        (0..count)
            .find(|&index| load(slots, index) > key)
            .unwrap_or(count)
    }
}

/// Binary search in key order.
#[derive(Debug, Clone, Copy)]
pub struct Binary;

/// The number of leading indices in `0..count` for which `before` holds.
#[inline(always)]
fn partition_point(count: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = (low + high) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl Kernel for Binary {
    #[inline(always)]
    fn equal(slots: &Slots, order: u64, key: u64) -> u32 {
        let mut mask = 0;
        for index in Self::below(slots, order, key)..count_of(order) {
            let slot = slot_at(order, index);
            if load(slots, slot) != key {
                break;
            }
            mask |= 1 << slot;
        }
        mask & 0x7fff
    }

    #[inline(always)]
    fn below(slots: &Slots, order: u64, key: u64) -> usize {
        partition_point(count_of(order), |index| {
            load(slots, slot_at(order, index)) < key
        })
    }

    #[inline(always)]
    fn rank(slots: &Slots, count: usize, key: u64) -> usize {
        partition_point(count, |index| load(slots, index) <= key)
    }
}

/// Comparison of all slots without branches: the portable kernel and the vector kernels'
/// oracle.
#[derive(Debug, Clone, Copy)]
pub struct Scalar;

#[inline(always)]
fn mask_of(slots: &Slots, hit: impl Fn(u64) -> bool) -> u32 {
    let mut mask = 0;
    for slot in 0..WIDTH {
        mask |= u32::from(hit(load(slots, slot))) << slot;
    }
    mask
}

impl Kernel for Scalar {
    #[inline(always)]
    fn equal(slots: &Slots, _order: u64, key: u64) -> u32 {
        mask_of(slots, |slice| slice == key)
    }

    #[inline(always)]
    fn below(slots: &Slots, order: u64, key: u64) -> usize {
        (mask_of(slots, |slice| slice < key) & live_slots(order)).count_ones() as usize
    }

    #[inline(always)]
    fn rank(slots: &Slots, count: usize, key: u64) -> usize {
        let first = (1_u32 << count) - 1;
        (mask_of(slots, |slice| slice <= key) & first).count_ones() as usize
    }
}
