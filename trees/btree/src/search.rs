//! Search within a slotted page: heads first, hints before them, tails last.
//!
//! Heads are compared as integers, by a binary search without branches on keys; 16 of them, the
//! hints, lie at the start of the page and say where to begin. Only records with equal heads are
//! read.

use std::cmp::Ordering;

use crate::page::{HEADER, Image, Tag};
use crate::slotted::Layout;

/// Heads that are repeated at the start of a page.
pub(crate) const HINTS: usize = 16;

/// The head of a key, which compares as its bytes do.
#[inline(always)]
pub(crate) fn head_of<L: Layout>(key: &[u8]) -> u64 {
    let word = match key.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => short_word(key),
    };
    if L::HEAD == 8 { word } else { word >> 32 }
}

/// Up to seven bytes, padded with zeros; no call to copy them.
#[inline(always)]
fn short_word(key: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let high = u64::from(u32::from_be_bytes(*first)) << 32;
        let low = u64::from(u32::from_be_bytes(*last)) << 32;
        return high | low >> (8 * (key.len() - 4));
    }
    let mut word = 0;
    for &byte in key {
        word = word << 8 | u64::from(byte);
    }
    if key.is_empty() {
        0
    } else {
        word << (64 - 8 * key.len())
    }
}

/// The order of two byte strings of one byte or more. Most differ in their first eight.
#[inline(always)]
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    if let (Some(x), Some(y)) = (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        let (x, y) = (u64::from_be_bytes(*x), u64::from_be_bytes(*y));
        if x != y {
            return x.cmp(&y);
        }
    }
    a.cmp(b)
}

impl<const PAGE: usize> Image<PAGE> {
    /// The index of the first record at or above `suffix`, and whether it is equal.
    #[inline(always)]
    pub(crate) fn search<L: Layout>(&self, suffix: &[u8]) -> (usize, bool) {
        let count = self.count();
        if L::HEAD == 0 {
            return self.search_tails::<L>(0, count, suffix);
        }
        let head = head_of::<L>(suffix);
        let (low, high) = if L::HINTED && count > HINTS {
            self.hinted::<L>(head, count)
        } else {
            (0, count)
        };
        let first = self.first_head::<L>(low, high, |other| other < head);
        if first == count || self.head_at::<L>(first) != head {
            return (first, false);
        }
        let mut end = first + 1;
        if end < high && self.head_at::<L>(end) == head {
            end = self.first_head::<L>(end, high, |other| other <= head);
        }
        self.search_tails::<L>(first, end, suffix)
    }

    /// Between which slots the hints place a head.
    #[inline(always)]
    fn hinted<L: Layout>(&self, head: u64, count: usize) -> (usize, usize) {
        let step = count / (HINTS + 1);
        let (below, upto) = if L::HEAD == 8 {
            let hints: [u64; HINTS] =
                std::array::from_fn(|i| u64::from_le_bytes(*self.array(HEADER + 8 * i)));
            rank(&hints, head)
        } else {
            let bytes: &[u8; 4 * HINTS] = self.array(HEADER);
            let hints: [u32; HINTS] = std::array::from_fn(|i| {
                u32::from_le_bytes([
                    bytes[4 * i],
                    bytes[4 * i + 1],
                    bytes[4 * i + 2],
                    bytes[4 * i + 3],
                ])
            });
            rank(&hints, head as u32)
        };
        let high = if upto == HINTS {
            count
        } else {
            (upto + 1) * step
        };
        (below * step, high)
    }

    /// The first index of `low..high` whose head is not `before`, without a branch that the keys
    /// decide.
    #[inline(always)]
    fn first_head<L: Layout>(
        &self,
        low: usize,
        high: usize,
        before: impl Fn(u64) -> bool,
    ) -> usize {
        let mut base = low;
        let mut len = high - low;
        while len > 1 {
            let half = len / 2;
            base += half * usize::from(before(self.head_at::<L>(base + half - 1)));
            len -= half;
        }
        base + usize::from(len == 1 && before(self.head_at::<L>(base)))
    }

    /// The search among records whose heads are equal (or absent).
    #[inline(always)]
    fn search_tails<L: Layout>(
        &self,
        mut low: usize,
        mut high: usize,
        suffix: &[u8],
    ) -> (usize, bool) {
        while low < high {
            let middle = (low + high) / 2;
            match self.compare_tail::<L>(middle, suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return (middle, true),
            }
        }
        (low, false)
    }

    /// Compares the key of a record with `suffix`, given that their heads are equal.
    ///
    /// A head pads short keys with zeros, so tails decide first and lengths then: `a` and
    /// `a\0` have one head and two lengths.
    #[inline(always)]
    pub(crate) fn compare_tail<L: Layout>(&self, index: usize, suffix: &[u8]) -> Ordering {
        let record = self.record_at::<L>(index);
        let tail = self.slice(record.tail_at..record.value_at);
        let other = suffix.get(L::HEAD..).unwrap_or(&[]);
        if !tail.is_empty() && !other.is_empty() {
            let order = compare(tail, other);
            if order != Ordering::Equal {
                return order;
            }
        }
        record.key_len.cmp(&suffix.len())
    }

    /// Renews the hints after a change at `index`: those from there on, or all of them when their
    /// spacing changed.
    #[inline(always)]
    pub(crate) fn update_hints<L: Layout>(&mut self, index: usize) {
        if !L::HINTED {
            return;
        }
        let count = self.count();
        let step = count / (HINTS + 1);
        // After an insertion a new spacing shows in a remainder of nothing, after a removal in
        // the largest.
        let rest = count % (HINTS + 1);
        if rest == 0 || rest == HINTS {
            self.renew_hints::<L>(0);
        } else if let Some(strip) = index.checked_div(step) {
            self.renew_hints::<L>(strip.saturating_sub(1));
        }
    }

    /// Copies the heads that the hints from `first` on repeat.
    pub(crate) fn renew_hints<L: Layout>(&mut self, first: usize) {
        let step = self.count() / (HINTS + 1);
        if !L::HINTED || step == 0 || first >= HINTS {
            return;
        }
        let bytes = step * L::HEAD;
        let (start, heads) = self.split_at_mut(L::BODY);
        let mut heads = &heads[bytes * (first + 1)..];
        for hint in start[HEADER + first * L::HEAD..].chunks_exact_mut(L::HEAD.max(1)) {
            if L::HEAD == 8 {
                hint.copy_from_slice(&heads[..8]);
            } else {
                hint.copy_from_slice(&heads[..4]);
            }
            heads = heads.get(bytes..).unwrap_or(&[]);
        }
    }

    /// Whether every hint is the head that it repeats.
    pub(crate) fn verify_hints<L: Layout>(&self) -> Result<(), String> {
        if !L::HINTED || self.count() <= HINTS {
            return Ok(());
        }
        let step = self.count() / (HINTS + 1);
        for hint in 0..HINTS {
            let at = HEADER + hint * L::HEAD;
            let head = L::BODY + step * (hint + 1) * L::SIDE;
            if self.slice(at..at + L::HEAD) != self.slice(head..head + L::HEAD) {
                return Err(format!("hint {hint} is not the head that it repeats"));
            }
        }
        Ok(())
    }

    /// Whether an inner node.
    #[inline(always)]
    pub(crate) fn is_inner(&self) -> bool {
        self.is(Tag::Inner)
    }

    /// The child that covers `key`, and its index.
    #[inline(always)]
    pub(crate) fn child_for<L: Layout>(&self, key: &[u8]) -> (u32, usize) {
        let (index, equal) = self.search::<L>(key.get(self.prefix_len()..).unwrap_or(&[]));
        let index = index + usize::from(equal);
        (self.child::<L>(index), index)
    }

    /// A child by its index; that at `count` is the last.
    #[inline(always)]
    pub(crate) fn child<L: Layout>(&self, index: usize) -> u32 {
        if index == self.count() {
            return self.upper_child() as u32;
        }
        self.u32_at(self.record_at::<L>(index).value_at)
    }

    /// Makes a child another page.
    pub(crate) fn set_child<L: Layout>(&mut self, index: usize, child: u32) {
        if index == self.count() {
            self.set_upper_child(child as usize);
        } else {
            let at = self.record_at::<L>(index).value_at;
            self.put(at, &child.to_le_bytes());
        }
    }
}

/// How many hints are below a head, and how many at or below.
#[inline(always)]
fn rank<T: Copy + Ord>(hints: &[T; HINTS], head: T) -> (usize, usize) {
    let (mut below, mut upto) = (0_u32, 0_u32);
    for &hint in hints {
        below += u32::from(hint < head);
        upto += u32::from(hint <= head);
    }
    (below as usize, upto as usize)
}
