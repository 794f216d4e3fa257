//! Threads that run transactions until the first of them has done its share.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::Result;
use crate::outcome::Outcome;

/// Binds the calling thread, the n-th, to a processor, or does nothing.
pub type Pin = fn(usize);

/// Who runs the transactions of a thread.
pub(crate) trait Worker {
    /// Runs the next transaction to its end.
    fn step(&mut self) -> Result<()>;

    /// Counts and times so far; the worker ran for so many seconds.
    fn outcome(&self, seconds: f64) -> Outcome;
}

/// Lets each of so many threads take `count` steps with a worker of its own, which `new` makes from
/// the thread's number; all end when the first one has done its share, as in the paper (§4.1).
pub(crate) fn run<W: Worker>(
    threads: usize,
    count: u64,
    pin: Pin,
    new: impl Fn(usize) -> W + Sync,
) -> Result<Outcome> {
    let threads = threads.max(1);
    let (barrier, done) = (Barrier::new(threads), AtomicBool::new(false));
    let work = |thread: usize| {
        pin(thread);
        let mut worker = new(thread);
        barrier.wait();
        let begun = Instant::now();
        let mut left = count;
        let mut result = Ok(());
        while left > 0 && result.is_ok() && !done.load(Ordering::Relaxed) {
            result = worker.step();
            left -= 1;
        }
        done.store(true, Ordering::Relaxed);
        result.map(|()| worker.outcome(begun.elapsed().as_secs_f64()))
    };
    let outcomes = std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<Outcome>>>()
    })?;
    let sum = |sum: Outcome, one: Outcome| Outcome {
        threads: sum.threads + 1,
        committed: sum.committed + one.committed,
        rolled_back: sum.rolled_back + one.rolled_back,
        aborts: sum.aborts + one.aborts,
        index_operations: sum.index_operations + one.index_operations,
        seconds: sum.seconds.max(one.seconds),
        index_seconds: sum.index_seconds + one.index_seconds,
    };
    Ok(outcomes.into_iter().fold(Outcome::default(), sum))
}
