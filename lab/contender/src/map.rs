//! Ordered maps in memory.

use std::hint::black_box;

use hedgerow_lab_data::{KeyRange, Kind};

use crate::{Entry, STEP_ADD, Steps, Unavailable};

/// What a timed run adds up, so that its answers can be checked and are not optimised away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Keys found or pairs visited.
    pub hits: u64,
    /// Wrapping sum of the values seen.
    pub sum: u64,
}

impl Tally {
    /// Counts one value, or a miss.
    #[inline]
    pub fn count(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.hits += 1;
            self.sum = self.sum.wrapping_add(value);
        }
    }

    /// Both tallies together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

/// The value that experiments store under a key: 8 bytes that depend on its first 8 and last 8
/// bytes and on its length. A few instructions, the same for every contender.
#[inline]
#[must_use]
pub fn value_of(key: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let (head, tail) = match key.first_chunk::<8>() {
        Some(head) => (
            u64::from_le_bytes(*head),
            word(&key[key.len() - key.len().min(8)..]),
        ),
        None => (word(key), 0),
    };
    (head ^ tail.rotate_left(29) ^ key.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// An ordered map from byte keys to 8-byte values.
///
/// The object is used by one thread, or by many where [`MapEntry::build`] gives
/// [`NewMap::Concurrent`].
pub trait Map {
    /// Inserts or replaces.
    fn put(&self, key: &[u8], value: u64);

    /// Looks up.
    fn get(&self, key: &[u8]) -> Option<u64>;

    /// Inserts a key that is absent; returns the value of one that is present, which stays as it
    /// is. One operation where the map has one for it.
    fn insert_if_absent(&self, key: &[u8], value: u64) -> Option<u64> {
        let found = self.get(key);
        if found.is_none() {
            self.put(key, value);
        }
        found
    }

    /// Removes; whether the key was there.
    fn remove(&self, key: &[u8]) -> bool;

    /// Visits up to `count` pairs in order from `from` on. For checking only: the callback is
    /// a dynamic call per pair. An unordered map visits nothing.
    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64));

    /// Scans `count` pairs from every key, touching every key and value. Timed, so written by
    /// hand for each map, with no dynamic call per pair.
    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally;

    /// Puts every key with [`value_of`] it plus `add`.
    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        for key in keys.iter() {
            self.put(key, value_of(key).wrapping_add(add));
        }
    }

    /// Looks up every key, one after the other, none waiting for another's answer.
    fn get_run(&self, keys: KeyRange<'_>) -> Tally {
        let mut tally = Tally::default();
        for key in keys.iter() {
            tally.count(self.get(key));
        }
        tally
    }

    /// Looks up every key; which one is next depends on the last answer, so nothing overlaps.
    fn dependent_run(&self, keys: KeyRange<'_>) -> Tally {
        let zero = black_box(0_u64);
        let mut tally = Tally::default();
        let mut last = 0;
        for index in 0..keys.len() as u64 {
            let value = self.get(keys.get((index + (last & zero)) as usize));
            last = value.unwrap_or(0);
            tally.count(value);
        }
        tally
    }

    /// Looks up every key in groups of `group`; `None` where the map has no batched lookup.
    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        let _ = (keys, group);
        None
    }

    /// Removes every key; how many were there.
    fn remove_run(&self, keys: KeyRange<'_>) -> u64 {
        keys.iter().filter(|key| self.remove(key)).count() as u64
    }

    /// Takes every step in order, one kind of operation after another, as [`take_steps`] does.
    fn mixed_run(&self, steps: &Steps<'_>) -> Tally {
        take_steps(self, steps)
    }

    /// Fills the empty map with sorted keys and [`value_of`] each: written by hand where a map
    /// is built from sorted keys at once.
    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        self.put_run(keys, 0);
    }
}

/// Takes every step in order by the map's own single operations, called directly. The tally
/// counts keys found by lookups and insertions, pairs visited by scans and keys removed; its sum
/// is of the values that lookups, insertions and scans saw.
pub fn take_steps<M: Map + ?Sized>(map: &M, steps: &Steps<'_>) -> Tally {
    let mut tally = Tally::default();
    let new = |key: &[u8]| value_of(key).wrapping_add(STEP_ADD);
    for (nth, (key, step)) in steps.iter().enumerate() {
        match step.kind() {
            Kind::Read => tally.count(map.get(key)),
            Kind::Update | Kind::Insert => map.put(key, new(key)),
            Kind::Remove => tally.hits += u64::from(map.remove(key)),
            Kind::Scan => {
                let from = steps.keys().part(nth..nth + 1);
                tally = tally.and(map.scan_run(from, step.scan_length() as usize));
            }
            Kind::ReadModifyWrite => {
                tally.count(map.get(key));
                map.put(key, new(key));
            }
            Kind::ReadInsert => {
                let found = map.get(key);
                tally.count(found);
                if found.is_none() {
                    map.put(key, new(key));
                }
            }
            Kind::InsertIfAbsent => tally.count(map.insert_if_absent(key, new(key))),
        }
    }
    tally
}

/// How to make an empty map.
#[derive(Clone, Copy)]
pub enum NewMap {
    /// A map for one thread.
    Single(fn() -> Box<dyn Map>),
    /// A map that many threads share.
    Concurrent(fn() -> Box<dyn Map + Send + std::marker::Sync>),
}

/// A map in the registry.
#[derive(Clone)]
pub struct MapEntry {
    /// Who it is.
    pub entry: Entry,
    /// How to make one, or why it cannot be had here.
    pub build: Result<NewMap, Unavailable>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_depend_on_head_tail_and_length() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"aaaaaaaaX", b"aaaaaaaaY", b"aaaaaaaa"];
        let mut values: Vec<_> = keys.iter().map(|key| value_of(key)).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), keys.len());
    }
}
