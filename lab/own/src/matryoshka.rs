//! Matryoshka for many threads, as a map of words; and the form for one thread with writes in
//! batches.
//!
//! Without batches, the form for one thread is an index of integers like others
//! ([`Integers`](super::Integers)), and the one of byte keys an index like Masstree
//! ([`Indexed`](super::Indexed)).

use std::hint::black_box;
use std::ops::Bound;

use hedgerow_index::{ConcurrentIntMap, Direction, IntKey};
use hedgerow_lab_contender::{Map, STEP_ADD, Steps, Tally, take_steps, value_of};
use hedgerow_lab_data::{KeyRange, Kind};
use hedgerow_matryoshka::{MapKey, Matryoshka, SharedMatryoshka, SharedNodeKey, Strategy};
use hedgerow_sync::epoch;

use super::integers::{Integer, Integers};
use super::masstree::{OPERATIONS_PER_PIN, one_less, pinned_runs};

/// The map of words, keys by their big-endian bytes.
pub struct Words<K: IntKey<Encoded: SharedNodeKey> = u64>(SharedMatryoshka<K>);

impl<K: IntKey<Encoded: SharedNodeKey>> Default for Words<K> {
    fn default() -> Self {
        Self(SharedMatryoshka::default())
    }
}

impl<K: Integer<Encoded: SharedNodeKey>> Map for Words<K> {
    #[inline]
    fn put(&self, key: &[u8], value: u64) {
        self.0.insert(K::of(key), value);
    }

    #[inline]
    fn insert_if_absent(&self, key: &[u8], value: u64) -> Option<u64> {
        ConcurrentIntMap::insert(&self.0, K::of(key), value)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(K::of(key))
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(K::of(key)).is_some()
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        let mut left = count;
        let from = Bound::Included(K::of(from));
        self.0.scan(from, Direction::Forward, |key, value| {
            key.show(|key| visit(key, value));
            one_less(&mut left)
        });
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        for from in keys.iter() {
            let mut left = count;
            let from = Bound::Included(K::of(from));
            self.0.scan(from, Direction::Forward, |key, value| {
                black_box(key);
                tally.count(Some(value));
                one_less(&mut left)
            });
        }
        tally
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for key in some.iter() {
                self.put(key, value_of(key).wrapping_add(add));
            }
        }
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        let pairs = keys.iter().map(|key| (K::of(key), value_of(key)));
        let loaded = self.0.bulk_load(pairs);
        loaded.expect("an empty map, and a sorted run of keys ascends");
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        let mut tally = Tally::default();
        let mut integers: Vec<K> = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            integers.clear();
            integers.extend(some.iter().map(K::of));
            self.0.get_many(&integers, |_, value| tally.count(value));
        }
        Some(tally)
    }

    pinned_runs!();
}

/// Writes that are handed over together.
const BATCH: usize = 1024;

/// The map for one thread, where inserts that follow one another are made in batches, and so are
/// removals.
pub struct Batched<K: Integer + MapKey, S: Strategy>(Integers<K, Matryoshka<K, u64, S>, true>);

impl<K: Integer + MapKey, S: Strategy> Default for Batched<K, S> {
    fn default() -> Self {
        Self(Integers::default())
    }
}

impl<K: Integer + MapKey, S: Strategy> Map for Batched<K, S> {
    fn put(&self, key: &[u8], value: u64) {
        self.0.put(key, value);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        self.0.scan(from, count, visit);
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        self.0.scan_run(keys, count)
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        self.0.get_many_run(keys, group)
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        self.0.load_sorted_run(keys);
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        let mut map = self.0.0.borrow_mut();
        let mut pairs = Vec::with_capacity(BATCH);
        for some in keys.chunks(BATCH) {
            pairs.clear();
            pairs.extend(
                some.iter()
                    .map(|key| (K::of(key), value_of(key).wrapping_add(add))),
            );
            map.insert_many(&mut pairs);
        }
    }

    fn remove_run(&self, keys: KeyRange<'_>) -> u64 {
        let mut map = self.0.0.borrow_mut();
        let mut integers = Vec::with_capacity(BATCH);
        let removed = keys.chunks(BATCH).map(|some| {
            integers.clear();
            integers.extend(some.iter().map(K::of));
            map.remove_many(&mut integers) as u64
        });
        removed.sum()
    }

    /// Whoever only writes has nothing to wait for; a mix goes step by step.
    fn mixed_run(&self, steps: &Steps<'_>) -> Tally {
        let keys = || steps.keys().part(0..steps.len());
        let all = |kinds: [Kind; 2]| {
            steps
                .steps()
                .iter()
                .all(|step| kinds.contains(&step.kind()))
        };
        if all([Kind::Insert, Kind::Update]) {
            self.put_run(keys(), STEP_ADD);
            return Tally::default();
        }
        if all([Kind::Remove; 2]) {
            return Tally {
                hits: self.remove_run(keys()),
                sum: 0,
            };
        }
        take_steps(self, steps)
    }
}
