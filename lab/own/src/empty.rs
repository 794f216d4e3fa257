//! The empty contender: what the lab's own loop costs.
//!
//! It reads every byte of the key that a real contender's value depends on, makes that value
//! and lets the loop tally it, but keeps nothing. Its time per operation is the harness's share
//! in everyone's figures: it stands beside them, as a contender of the name `(harness)`.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_lab_contender::{Map, Tally, value_of};
use hedgerow_lab_data::KeyRange;

/// Answers every lookup with the value that the lab last put under every key.
#[derive(Debug, Default)]
pub struct Empty {
    /// What the last run of puts added to the values.
    add: AtomicU64,
}

impl Empty {
    /// The name of this contender in results.
    pub const NAME: &'static str = "(harness)";
}

impl Map for Empty {
    fn put(&self, key: &[u8], value: u64) {
        let add = value.wrapping_sub(value_of(key));
        // Written only when it changes, or threads would wait for one another's cache line.
        if self.add.load(Ordering::Relaxed) != add {
            self.add.store(add, Ordering::Relaxed);
        }
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        Some(value_of(black_box(key)).wrapping_add(self.add.load(Ordering::Relaxed)))
    }

    fn remove(&self, key: &[u8]) -> bool {
        black_box(value_of(key));
        true
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        for key in keys.iter() {
            for _ in 0..count {
                tally.count(Some(black_box(value_of(key))));
            }
        }
        tally
    }
}
