//! Keys in one arena, in the order in which operations use them.

use std::ops::Range;

use crate::random::{Permutation, fnv64, mix64};

/// A list of byte-string keys, stored back to back.
///
/// An operation's key lies right after the one before it, so a run over the list streams
/// through memory and the time measured is the contender's. Costs 8 bytes per key beside the
/// key's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`; it starts where the one before ends.
    ends: Vec<u64>,
}

impl Keys {
    /// No keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for `count` keys of `bytes` bytes together.
    #[must_use]
    pub fn with_capacity(count: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(count),
        }
    }

    /// Appends a key.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u64);
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The lengths of all keys together, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The `index`-th key.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    /// All keys in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }

    /// All keys as a range that a run takes.
    #[must_use]
    pub fn all(&self) -> KeyRange<'_> {
        self.range(0..self.len())
    }

    /// The keys at these positions, in order.
    ///
    /// # Panics
    ///
    /// If the range ends beyond the list.
    #[must_use]
    pub fn range(&self, range: Range<usize>) -> KeyRange<'_> {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "keys {range:?} of {}",
            self.len()
        );
        KeyRange { keys: self, range }
    }

    /// A list with the keys at `positions`, in their order (repeats allowed).
    ///
    /// # Panics
    ///
    /// If a position lies beyond the list.
    #[must_use]
    pub fn select(&self, positions: impl IntoIterator<Item = usize>) -> Self {
        positions.into_iter().map(|index| self.get(index)).collect()
    }

    /// The keys in a random order, the same for the same seed.
    #[must_use]
    pub fn shuffled(&self, seed: u64) -> Self {
        if self.is_empty() {
            return Self::new();
        }
        let order = Permutation::new(self.len() as u64, seed);
        self.select((0..self.len() as u64).map(|index| order.at(index) as usize))
    }

    /// A number that tells lists of different keys, or in a different order, apart: results
    /// carry it so that two machines can be seen to have measured the same.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        self.iter()
            .fold(self.len() as u64, |sum, key| mix64(sum ^ fnv64(key)))
    }

    /// The keys in ascending order without repeats.
    #[must_use]
    pub fn sorted(&self) -> Self {
        let mut order: Vec<&[u8]> = self.iter().collect();
        order.sort_unstable();
        order.dedup();
        order.into_iter().collect()
    }
}

impl<K: AsRef<[u8]>> FromIterator<K> for Keys {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut list = Self::new();
        for key in keys {
            list.push(key.as_ref());
        }
        list
    }
}

/// Consecutive keys of a list: what one run, or one thread's share of it, works through.
#[derive(Debug, Clone)]
pub struct KeyRange<'a> {
    keys: &'a Keys,
    range: Range<usize>,
}

impl<'a> KeyRange<'a> {
    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The `index`-th key of the range.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> &'a [u8] {
        debug_assert!(index < self.len());
        self.keys.get(self.range.start + index)
    }

    /// The keys in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let keys = self.keys;
        self.range.clone().map(move |index| keys.get(index))
    }

    /// The keys at these positions of the range.
    ///
    /// # Panics
    ///
    /// If the part ends beyond the range.
    #[inline]
    #[must_use]
    pub fn part(&self, part: Range<usize>) -> KeyRange<'a> {
        assert!(part.start <= part.end && part.end <= self.len());
        KeyRange {
            keys: self.keys,
            range: self.range.start + part.start..self.range.start + part.end,
        }
    }

    /// The range in pieces of `count` keys, the last one shorter: runs that hold a guard over
    /// some operations go by these.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub fn chunks(&self, count: usize) -> impl Iterator<Item = KeyRange<'a>> + use<'a> {
        let (keys, end) = (self.keys, self.range.end);
        self.range
            .clone()
            .step_by(count)
            .map(move |start| KeyRange {
                keys,
                range: start..end.min(start + count),
            })
    }

    /// The keys as a loop in another language needs them.
    #[must_use]
    pub fn raw(&self) -> KeyBytes<'a> {
        let first = match self.range.start {
            0 => 0,
            start => self.keys.ends[start - 1],
        };
        KeyBytes {
            bytes: &self.keys.bytes,
            first,
            ends: &self.keys.ends[self.range.clone()],
        }
    }
}

/// Keys as they lie in memory.
#[derive(Debug, Clone, Copy)]
pub struct KeyBytes<'a> {
    /// All keys of the list, of which the range may be a part.
    pub bytes: &'a [u8],
    /// Where the first key of the range begins in them.
    pub first: u64,
    /// Where each key of the range ends in them.
    pub ends: &'a [u64],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_in_order_whatever_their_lengths() {
        let given: [&[u8]; 5] = [b"b", b"", b"aa", b"\0", b"b"];
        let keys: Keys = given.iter().collect();
        assert_eq!(keys.iter().collect::<Vec<_>>(), given);
        assert_eq!((keys.len(), keys.total_bytes()), (5, 5));
        let sorted = keys.sorted();
        assert_eq!(
            sorted.iter().collect::<Vec<_>>(),
            [b"" as &[u8], b"\0", b"aa", b"b"]
        );
        assert_eq!(keys.select([2, 2]).get(1), b"aa");
    }

    #[test]
    fn ranges_and_chunks_cover_what_they_say() {
        let keys: Keys = (0..10u8).map(|n| [n]).collect();
        let range = keys.range(3..10);
        assert_eq!((range.len(), range.get(0)), (7, &[3][..]));
        let chunks: Vec<Vec<&[u8]>> = range.chunks(3).map(|c| c.iter().collect()).collect();
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
        assert_eq!(chunks.concat(), range.iter().collect::<Vec<_>>());
        let KeyBytes { bytes, first, ends } = range.raw();
        assert_eq!((bytes.len(), first, ends[0]), (10, 3, 4));
    }
}
