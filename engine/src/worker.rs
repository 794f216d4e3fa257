//! Per-thread state of the hot path: a number, buffers, and counters that threads do not share.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::stripes::BatchGuard;

static NEXT_WORKER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WORKER: usize = NEXT_WORKER.fetch_add(1, Ordering::Relaxed);
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::new()) };
}

/// A number of the calling thread, small and dense: chooses its log shard and counters.
#[inline]
pub(crate) fn number() -> usize {
    WORKER.with(|worker| *worker)
}

/// Whether the calling thread is inside a write, that is, in the closure of an update or
/// transaction.
pub(crate) fn is_writing() -> bool {
    SCRATCH.with(|scratch| scratch.try_borrow_mut().is_err())
}

/// The consistency of a batch of reads: a guard that holds commits of several keys off, if there
/// is one to be had and the thread needs it.
pub(crate) enum Batch<'a> {
    /// Such commits wait for the guard.
    Guarded(#[expect(dead_code, reason = "held for its drop")] BatchGuard<'a>),
    /// The thread is inside another batch, or inside a commit of its own.
    Nested,
    /// The batch must lock its stripes.
    MustLock,
}

thread_local! {
    static IN_BATCH: Cell<bool> = const { Cell::new(false) };
}

impl<'a> Batch<'a> {
    pub(crate) fn enter(begin: impl FnOnce(usize) -> Option<BatchGuard<'a>>) -> Batch<'a> {
        if IN_BATCH.get() || is_writing() {
            return Batch::Nested;
        }
        let batch = begin(number()).map_or(Batch::MustLock, Batch::Guarded);
        IN_BATCH.set(true);
        batch
    }

    pub(crate) fn is_nested(&self) -> bool {
        matches!(self, Batch::Nested)
    }

    pub(crate) fn must_lock(&self) -> bool {
        matches!(self, Batch::MustLock)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !matches!(self, Batch::Nested) {
            IN_BATCH.set(false);
        }
    }
}

/// Whether the calling thread is inside the closure of an update, a transaction or a batch of
/// reads. Then it must wait neither for stripes nor for commits of several keys: they may be waiting
/// for it, or be its own.
pub(crate) fn must_not_wait() -> bool {
    IN_BATCH.get() || is_writing()
}

/// Buffers that a thread's writes use again and again.
pub(crate) struct Scratch {
    /// What the index stores: filled by its `update`.
    pub(crate) row: Vec<u8>,
    /// A row's body, built before the commit.
    pub(crate) body: Vec<u8>,
    /// The changed columns, for the log.
    pub(crate) changes: Vec<u8>,
}

const KEPT_BYTES: usize = 1 << 20;

impl Scratch {
    const fn new() -> Scratch {
        Scratch {
            row: Vec::new(),
            body: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Runs a write with the thread's buffers. They also tell a write from inside a write (from
    /// the closure of an update or transaction), which could wait for itself forever. So could one
    /// from inside a batch of reads, for which commits of several keys wait, or which locks keys.
    #[inline]
    pub(crate) fn with<R>(write: impl FnOnce(&mut Scratch) -> Result<R>) -> Result<R> {
        if IN_BATCH.get() {
            return Err(Error::Nested);
        }
        SCRATCH.with(|scratch| {
            // That it is borrowed is all that can be wrong.
            let mut scratch = scratch.try_borrow_mut().map_err(|_| Error::Nested)?;
            let result = write(&mut scratch);
            if scratch.row.capacity() > KEPT_BYTES {
                *scratch = Scratch::new();
            }
            result
        })
    }
}

const LANES: usize = 16;

/// A counter with a cache line per group of threads.
pub(crate) struct StripedCounter {
    lanes: [Lane; LANES],
}

#[repr(align(128))]
struct Lane(AtomicI64);

impl StripedCounter {
    pub(crate) fn new() -> StripedCounter {
        StripedCounter {
            lanes: std::array::from_fn(|_| Lane(AtomicI64::new(0))),
        }
    }

    #[inline]
    pub(crate) fn add(&self, n: i64) {
        self.lanes[number() % LANES]
            .0
            .fetch_add(n, Ordering::Relaxed);
    }

    /// The sum; exact while nobody adds.
    pub(crate) fn sum(&self) -> u64 {
        let sum: i64 = self
            .lanes
            .iter()
            .map(|lane| lane.0.load(Ordering::Relaxed))
            .sum();
        sum.max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_across_threads() {
        let counter = StripedCounter::new();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        counter.add(3);
                        counter.add(-1);
                    }
                });
            }
        });
        assert_eq!(counter.sum(), 20 * 100 * 2);
    }

    #[test]
    fn a_write_inside_a_write_is_refused() {
        let nested = Scratch::with(|_| Scratch::with(|_| Ok(())));
        assert!(matches!(nested, Err(Error::Nested)));
        Scratch::with(|_| Ok(())).unwrap();
    }
}
