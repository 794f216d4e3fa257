//! The `masstree` crate from the registry, in its fastest form for 8-byte values: inline.
//!
//! Guards are held over up to a thousand operations, and scans use its fastest call that
//! yields exact keys, as its documentation advises.

use std::hint::black_box;

use masstree::{MassTree15Inline, RangeBound};

use super::{ContenderMap, Tally};
use crate::keys::Key;

/// Operations under one guard: long enough to hide its cost, short enough to free memory.
const OPERATIONS_PER_GUARD: usize = 1024;

/// `masstree` 0.9.5 with inline values.
pub struct MasstreeCrate(MassTree15Inline<u64>);

impl ContenderMap for MasstreeCrate {
    fn new() -> Self {
        Self(MassTree15Inline::new())
    }

    fn put(&self, key: &Key, value: u64) {
        self.0
            .insert_with_guard(key.as_slice(), value, &self.0.guard());
    }

    fn get(&self, key: &Key) -> Option<u64> {
        self.0.get_with_guard(key.as_slice(), &self.0.guard())
    }

    fn remove(&self, key: &Key) -> bool {
        let removed = self.0.remove_with_guard(key.as_slice(), &self.0.guard());
        matches!(removed, Ok(Some(_)))
    }

    fn scan(&self, from: &Key, count: usize, mut visit: impl FnMut(&[u8], u64)) {
        let guard = self.0.guard();
        let mut left = count;
        self.0.scan_intra_leaf_batch(
            RangeBound::Included(from.as_slice()),
            RangeBound::Unbounded,
            |key, value| {
                visit(key, value);
                left -= 1;
                left > 0
            },
            &guard,
        );
    }

    fn put_run(&self, keys: &[Key], add: u64) {
        for some in keys.chunks(OPERATIONS_PER_GUARD) {
            let guard = self.0.guard();
            for key in some {
                let value = key.value().wrapping_add(add);
                self.0.insert_with_guard(key.as_slice(), value, &guard);
            }
        }
    }

    fn get_run(&self, keys: &[Key]) -> Tally {
        let mut tally = Tally::default();
        for some in keys.chunks(OPERATIONS_PER_GUARD) {
            let guard = self.0.guard();
            for key in some {
                tally.count(self.0.get_with_guard(key.as_slice(), &guard));
            }
        }
        tally
    }

    fn dependent_run(&self, keys: &[Key]) -> Tally {
        let zero = black_box(0u64);
        let mut tally = Tally::default();
        let mut last = 0;
        for some in keys.chunks(OPERATIONS_PER_GUARD) {
            let guard = self.0.guard();
            for index in 0..some.len() as u64 {
                let key = &some[(index + (last & zero)) as usize];
                let value = self.0.get_with_guard(key.as_slice(), &guard);
                last = value.unwrap_or(0);
                tally.count(value);
            }
        }
        tally
    }

    fn remove_run(&self, keys: &[Key]) -> u64 {
        let mut removed = 0;
        for some in keys.chunks(OPERATIONS_PER_GUARD) {
            let guard = self.0.guard();
            for key in some {
                let answer = self.0.remove_with_guard(key.as_slice(), &guard);
                removed += u64::from(matches!(answer, Ok(Some(_))));
            }
        }
        removed
    }
}
