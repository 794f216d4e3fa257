//! Maps whose operations run under a guard: the loops that a run is.
//!
//! Most concurrent structures protect what a reader may still see by a guard, whose making costs
//! a memory fence; their documentation advises to hold one over many operations. Here a guard
//! lives for up to a thousand. A map without guards has `()` for one, and the same loops.

use std::hint::black_box;

use hedgerow_lab_contender::{Map, Steps, Tally, take_steps, value_of};
use hedgerow_lab_data::KeyRange;

/// Operations under one guard: long enough to hide its cost, short enough to free memory.
const OPERATIONS_PER_GUARD: usize = 1024;

/// A map and what its operations need.
pub(super) trait Guarded: Default + 'static {
    /// What keeps a reader's memory alive.
    type Guard<'a>;

    /// Makes one.
    fn guard(&self) -> Self::Guard<'_>;

    /// Inserts or replaces.
    fn put(&self, key: &[u8], value: u64, guard: &Self::Guard<'_>);

    /// Looks up.
    fn get(&self, key: &[u8], guard: &Self::Guard<'_>) -> Option<u64>;

    /// Inserts a key that is absent; returns the value of one that is present. Overridden where the
    /// map has an operation for it.
    #[inline]
    fn insert_if_absent(&self, key: &[u8], value: u64, guard: &Self::Guard<'_>) -> Option<u64> {
        let found = self.get(key, guard);
        if found.is_none() {
            self.put(key, value, guard);
        }
        found
    }

    /// Removes; whether the key was there.
    fn remove(&self, key: &[u8], guard: &Self::Guard<'_>) -> bool;

    /// Visits up to `count` pairs in order from `from` on; `count` is not 0.
    fn scan(
        &self,
        from: &[u8],
        count: usize,
        guard: &Self::Guard<'_>,
        visit: impl FnMut(&[u8], u64),
    );
}

/// A map under a guard that is held: what a mixed run takes its steps on.
struct Under<'a, M: Guarded> {
    map: &'a M,
    guard: M::Guard<'a>,
}

impl<M: Guarded> Map for Under<'_, M> {
    #[inline]
    fn put(&self, key: &[u8], value: u64) {
        self.map.put(key, value, &self.guard);
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.map.get(key, &self.guard)
    }

    #[inline]
    fn insert_if_absent(&self, key: &[u8], value: u64) -> Option<u64> {
        self.map.insert_if_absent(key, value, &self.guard)
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.map.remove(key, &self.guard)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        if count > 0 {
            self.map.scan(from, count, &self.guard, visit);
        }
    }

    #[inline]
    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        if count == 0 {
            return tally;
        }
        for key in keys.iter() {
            self.map.scan(key, count, &self.guard, |key, value| {
                black_box(key);
                tally.count(Some(value));
            });
        }
        tally
    }
}

/// A guarded map as a contender.
#[derive(Default)]
pub(super) struct GuardedMap<M>(M);

impl<M: Guarded> GuardedMap<M> {
    fn under(&self) -> Under<'_, M> {
        Under {
            map: &self.0,
            guard: self.0.guard(),
        }
    }
}

impl<M: Guarded> Map for GuardedMap<M> {
    fn put(&self, key: &[u8], value: u64) {
        self.0.put(key, value, &self.0.guard());
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key, &self.0.guard())
    }

    fn insert_if_absent(&self, key: &[u8], value: u64) -> Option<u64> {
        self.0.insert_if_absent(key, value, &self.0.guard())
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key, &self.0.guard())
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        if count > 0 {
            self.0.scan(from, count, &self.0.guard(), visit);
        }
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        for some in keys.chunks((OPERATIONS_PER_GUARD / count.max(1)).max(1)) {
            tally = tally.and(self.under().scan_run(some, count));
        }
        tally
    }

    fn mixed_run(&self, steps: &Steps<'_>) -> Tally {
        let mut tally = Tally::default();
        for some in steps.chunks(OPERATIONS_PER_GUARD) {
            tally = tally.and(take_steps(&self.under(), &some));
        }
        tally
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        for some in keys.chunks(OPERATIONS_PER_GUARD) {
            let guard = self.0.guard();
            for key in some.iter() {
                self.0.put(key, value_of(key).wrapping_add(add), &guard);
            }
        }
    }

    fn get_run(&self, keys: KeyRange<'_>) -> Tally {
        let mut tally = Tally::default();
        for some in keys.chunks(OPERATIONS_PER_GUARD) {
            let guard = self.0.guard();
            for key in some.iter() {
                tally.count(self.0.get(key, &guard));
            }
        }
        tally
    }

    fn dependent_run(&self, keys: KeyRange<'_>) -> Tally {
        let zero = black_box(0_u64);
        let mut tally = Tally::default();
        let mut last = 0;
        for some in keys.chunks(OPERATIONS_PER_GUARD) {
            let guard = self.0.guard();
            for index in 0..some.len() as u64 {
                let value = self
                    .0
                    .get(some.get((index + (last & zero)) as usize), &guard);
                last = value.unwrap_or(0);
                tally.count(value);
            }
        }
        tally
    }

    fn remove_run(&self, keys: KeyRange<'_>) -> u64 {
        let mut removed = 0;
        for some in keys.chunks(OPERATIONS_PER_GUARD) {
            let guard = self.0.guard();
            removed += some.iter().filter(|key| self.0.remove(key, &guard)).count() as u64;
        }
        removed
    }
}
