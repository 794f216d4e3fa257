//! Counts of blocks that many threads change and few read.
//!
//! Threads take turns at [`SHARDS`] pairs of counters, each on cache lines of its own: an
//! allocation by one thread does not wait for a line that another one changes. A block may be given
//! back by another thread than allocated it, so a single counter can wrap below 0; the sum of all
//! is right. A sum that is taken while threads change counters may miss what one of them added and
//! have what another took away: it is then below the truth, and 0 at least.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Pairs of counters; threads beyond that share.
const SHARDS: usize = 32;

/// Blocks and bytes, over all threads.
pub(crate) struct Tally([Shard; SHARDS]);

/// The counters of some threads, on a pair of cache lines.
#[repr(align(128))]
struct Shard {
    blocks: AtomicUsize,
    bytes: AtomicUsize,
}

/// What a [`Tally`] comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) blocks: usize,
    pub(crate) bytes: usize,
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Self(
            [const {
                Shard {
                    blocks: AtomicUsize::new(0),
                    bytes: AtomicUsize::new(0),
                }
            }; SHARDS],
        )
    }

    /// One block more, of so many bytes.
    pub(crate) fn add(&self, bytes: usize) {
        let shard = &self.0[shard()];
        shard.blocks.fetch_add(1, Relaxed);
        shard.bytes.fetch_add(bytes, Relaxed);
    }

    /// One block less, of so many bytes.
    pub(crate) fn subtract(&self, bytes: usize) {
        let shard = &self.0[shard()];
        shard.blocks.fetch_sub(1, Relaxed);
        shard.bytes.fetch_sub(bytes, Relaxed);
    }

    /// All counters together: exact while no thread changes one.
    pub(crate) fn sum(&self) -> Sum {
        let blocks = self.0.iter().map(|shard| shard.blocks.load(Relaxed));
        Sum {
            blocks: at_least_0(blocks.fold(0, usize::wrapping_add)),
            bytes: self.bytes(),
        }
    }

    /// The bytes alone. Each write to a database with a limit of memory asks: a load for each of
    /// the counters, and no more.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let mut bytes = 0_usize;
        for shard in &self.0 {
            bytes = bytes.wrapping_add(shard.bytes.load(Relaxed));
        }
        at_least_0(bytes)
    }
}

/// A sum of counters that wrapped below 0.
#[inline]
fn at_least_0(sum: usize) -> usize {
    sum.cast_signed().max(0).cast_unsigned()
}

/// Which counters are the calling thread's; the first ones for a thread that is ending.
fn shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = THREADS.fetch_add(1, Relaxed) % SHARDS;
    }
    SHARD.try_with(|&shard| shard).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_misses_what_was_added_is_nothing() {
        let tally = Tally::new();
        tally.subtract(100);
        assert_eq!(
            tally.sum(),
            Sum {
                blocks: 0,
                bytes: 0
            }
        );
    }

    #[test]
    fn what_other_threads_give_back_is_taken_away() {
        static TALLY: Tally = Tally::new();
        let in_thread = |change: fn()| std::thread::spawn(change).join().expect("no panic");
        for _ in 0..2 * SHARDS {
            in_thread(|| {
                TALLY.add(100);
                TALLY.add(10);
            });
            in_thread(|| TALLY.subtract(100));
        }
        let left = Sum {
            blocks: 2 * SHARDS,
            bytes: 20 * SHARDS,
        };
        assert_eq!(TALLY.sum(), left);
    }
}
