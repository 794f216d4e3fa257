//! Striped counters: statistics without a cache line that all threads fight over.
//!
//! Each thread adds to one of a few stripes, each in a cache line of its own; reading sums them.

use std::sync::atomic::{AtomicI64, Ordering};

use crossbeam_utils::CachePadded;

use crate::threads;

const STRIPES: usize = 16;

/// `N` counters of events. Count rare ones (splits, retries), never every operation.
pub struct Counters<const N: usize> {
    stripes: [CachePadded<[AtomicI64; N]>; STRIPES],
}

impl<const N: usize> Counters<N> {
    /// All zero.
    pub fn new() -> Self {
        let stripe = |_| CachePadded::new(std::array::from_fn(|_| AtomicI64::new(0)));
        Self {
            stripes: std::array::from_fn(stripe),
        }
    }

    /// Adds one to counter `index`.
    #[inline]
    pub fn count(&self, index: usize) {
        self.add(index, 1);
    }

    /// Adds `n` to counter `index`.
    #[inline]
    pub fn add(&self, index: usize, n: i64) {
        self.stripes[threads::number() % STRIPES][index].fetch_add(n, Ordering::Relaxed);
    }

    /// The sum over all threads; exact while nobody adds.
    pub fn sum(&self, index: usize) -> u64 {
        let stripes = self.stripes.iter();
        let sum: i64 = stripes
            .map(|stripe| stripe[index].load(Ordering::Relaxed))
            .sum();
        sum.max(0) as u64
    }
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// One counter that goes up and down, such as the number of keys.
#[derive(Default)]
pub struct StripedCounter(Counters<1>);

impl StripedCounter {
    /// Zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `n`, which may be negative.
    #[inline]
    pub fn add(&self, n: i64) {
        self.0.add(0, n);
    }

    /// The sum over all threads; exact while nobody adds.
    pub fn sum(&self) -> u64 {
        self.0.sum(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_add_up() {
        let counters = Counters::<2>::new();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..100).for_each(|_| counters.count(1)));
            }
        });
        assert_eq!((counters.sum(0), counters.sum(1)), (0, 300));
    }

    #[test]
    fn what_some_threads_add_and_others_take_away_adds_up() {
        let counter = &StripedCounter::new();
        std::thread::scope(|scope| {
            for n in [3, -1].repeat(20) {
                scope.spawn(move || (0..100).for_each(|_| counter.add(n)));
            }
        });
        assert_eq!(counter.sum(), 20 * 100 * 2);
    }
}
