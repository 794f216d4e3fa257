//! Striped counters: statistics without a cache line that all threads fight over.
//!
//! Each thread adds to its [`Stripe`], each in a cache line of its own; reading sums them.

use std::sync::atomic::{AtomicI64, Ordering};

use crossbeam_utils::CachePadded;

use crate::threads::Stripe;

/// The calling thread's part of a counter.
#[derive(Clone, Copy)]
struct Part<'c> {
    count: &'c AtomicI64,
    is_own: bool,
}

impl Part<'_> {
    /// Adds `n`; `ordering` is that of the store.
    #[inline]
    fn add(self, n: i64, ordering: Ordering) {
        if self.is_own {
            // Nobody else writes to it.
            let sum = self.count.load(Ordering::Relaxed).wrapping_add(n);
            self.count.store(sum, ordering);
        } else {
            self.count.fetch_add(n, ordering);
        }
    }
}

/// `N` counters of events. Count rare ones (splits, retries), never every operation.
pub struct Counters<const N: usize> {
    stripes: [CachePadded<[AtomicI64; N]>; Stripe::COUNT],
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
        self.part(index).add(n, Ordering::Relaxed);
    }

    /// The sum over all threads; exact while nobody adds.
    pub fn sum(&self, index: usize) -> u64 {
        self.total(index, Ordering::Relaxed).max(0) as u64
    }

    /// The calling thread's part of counter `index`.
    #[inline]
    fn part(&self, index: usize) -> Part<'_> {
        let stripe = Stripe::of_thread();
        let (count, is_own) = (&self.stripes[stripe.index()][index], stripe.is_own());
        Part { count, is_own }
    }

    /// The sum of all stripes, each loaded with this ordering.
    fn total(&self, index: usize, ordering: Ordering) -> i64 {
        let stripes = self.stripes.iter();
        stripes.map(|stripe| stripe[index].load(ordering)).sum()
    }
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// What was added to a [`StripedCounter`].
const ADDED: usize = 0;
/// What was taken away from it.
const REMOVED: usize = 1;

/// One counter that goes up and down, such as the number of keys.
///
/// Additions and removals are counted apart: one thread may add what another takes away, and a
/// reader between their stripes must not see the removal alone.
#[derive(Default)]
pub struct StripedCounter(Counters<2>);

impl StripedCounter {
    /// Zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `n`, which may be negative.
    #[inline]
    pub fn add(&self, n: i64) {
        match n < 0 {
            false => self.0.add(ADDED, n),
            true => {
                // Released, so that a reader who counts it finds the additions before it.
                self.0.part(REMOVED).add(-n, Ordering::Release);
            }
        }
    }

    /// The sum over all threads; exact while nobody adds. While somebody does, it is never below
    /// the least value during the call; it is above the greatest by what is added meanwhile, at
    /// most.
    pub fn sum(&self) -> u64 {
        let removed = self.0.total(REMOVED, Ordering::Acquire);
        let added = self.0.total(ADDED, Ordering::Relaxed);
        (added - removed).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

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

    /// Some threads add what others then take away: what is there all the time is always counted.
    #[test]
    fn a_sum_is_never_below_the_least_value() {
        const MOVES: usize = 20_000;
        let counter = &StripedCounter::new();
        counter.add(5);
        std::thread::scope(|scope| {
            let pair = |_| {
                let (sender, receiver) = mpsc::sync_channel(16);
                let adder = scope.spawn(move || {
                    for _ in 0..MOVES {
                        counter.add(1);
                        sender.send(()).expect("the other thread receives");
                    }
                });
                let remover = scope.spawn(move || receiver.iter().for_each(|()| counter.add(-1)));
                [adder, remover]
            };
            let pairs: Vec<_> = (0..3).map(pair).collect();
            while pairs.iter().flatten().any(|thread| !thread.is_finished()) {
                assert!(counter.sum() >= 5);
            }
        });
        assert_eq!(counter.sum(), 5);
    }
}
