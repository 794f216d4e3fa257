//! Event counts for statistics, without a line that all threads fight over.
//!
//! Each thread adds to one of a few cache-line-sized shards; reading sums them. Count rare
//! events (splits, retries), never every operation.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 8;

#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// `N` event counters.
pub struct Counters<const N: usize> {
    shards: [Shard<N>; SHARDS],
}

static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn shard() -> usize {
    SHARD.with(|shard| {
        let mut index = shard.get();
        if index == usize::MAX {
            index = NEXT_SHARD.fetch_add(1, Ordering::Relaxed) % SHARDS;
            shard.set(index);
        }
        index
    })
}

impl<const N: usize> Counters<N> {
    /// All zero.
    pub fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Shard(std::array::from_fn(|_| AtomicU64::new(0)))),
        }
    }

    /// Adds one to counter `index`.
    #[inline]
    pub fn count(&self, index: usize) {
        self.shards[shard()].0[index].fetch_add(1, Ordering::Relaxed);
    }

    /// The sum over all threads.
    pub fn sum(&self, index: usize) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.0[index].load(Ordering::Relaxed))
            .sum()
    }
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

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
}
