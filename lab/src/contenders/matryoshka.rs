//! Matryoshka for many threads, as a map of words.
//!
//! The form for one thread is an index of integers like others ([`Integers`](super::Integers)),
//! and the one of byte keys an index like Masstree ([`Indexed`](super::Indexed)).

use std::hint::black_box;
use std::ops::Bound;

use hedgerow_index::Direction;
use hedgerow_lab_contender::{Map, Steps, Tally, take_steps, value_of};
use hedgerow_lab_data::KeyRange;
use hedgerow_matryoshka::SharedMatryoshka;
use hedgerow_sync::epoch;

use super::integers::Integer;
use super::masstree::{OPERATIONS_PER_PIN, one_less, pinned_runs};

/// The map of words, keys by their big-endian bytes.
#[derive(Default)]
pub struct Words(SharedMatryoshka);

impl Map for Words {
    #[inline]
    fn put(&self, key: &[u8], value: u64) {
        self.0.insert(u64::of(key), value);
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(u64::of(key))
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(u64::of(key)).is_some()
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        let mut left = count;
        let from = Bound::Included(u64::of(from));
        self.0.scan(from, Direction::Forward, |key, value| {
            visit(&key.to_be_bytes(), value);
            one_less(&mut left)
        });
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        for from in keys.iter() {
            let mut left = count;
            let from = Bound::Included(u64::of(from));
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

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        let mut tally = Tally::default();
        let mut integers: Vec<u64> = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            integers.clear();
            integers.extend(some.iter().map(u64::of));
            self.0.get_many(&integers, |_, value| tally.count(value));
        }
        Some(tally)
    }

    pinned_runs!();
}
