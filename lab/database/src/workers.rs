//! Threads that run transactions until the first of them has done its share.

use std::array;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::Result;
use crate::outcome::Outcome;

/// What the program that measures does about the threads of a run. By default nothing.
#[derive(Debug, Clone, Copy)]
pub struct Harness {
    /// Binds the calling thread, the n-th of the run, to a processor.
    pub pin: fn(usize),
    /// Calls what it is given, which starts the threads and waits for their end, once: to count
    /// what they do, say.
    pub around: fn(&mut dyn FnMut()),
}

impl Default for Harness {
    fn default() -> Self {
        Self {
            pin: |_| {},
            around: |threads| threads(),
        }
    }
}

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
    harness: Harness,
    new: impl Fn(usize) -> W + Sync,
) -> Result<Outcome> {
    let threads = threads.max(1);
    let (barrier, done) = (Barrier::new(threads), AtomicBool::new(false));
    let work = |thread: usize| {
        (harness.pin)(thread);
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
    let mut outcomes = Ok(Vec::new());
    (harness.around)(&mut || outcomes = on_threads(threads, &work));
    let sum = |sum: Outcome, one: Outcome| Outcome {
        threads: sum.threads + 1,
        committed: sum.committed + one.committed,
        rolled_back: sum.rolled_back + one.rolled_back,
        aborts: sum.aborts + one.aborts,
        index_operations: sum.index_operations + one.index_operations,
        seconds: sum.seconds.max(one.seconds),
        index_seconds: sum.index_seconds + one.index_seconds,
        kinds: array::from_fn(|kind| sum.kinds[kind].and(one.kinds[kind])),
    };
    Ok(outcomes?.into_iter().fold(Outcome::default(), sum))
}

/// What `work` returns on so many threads, to which it is told their numbers.
fn on_threads<R: Send>(
    threads: usize,
    work: &(impl Fn(usize) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Runs of threads, and whether one is under way.
        static AROUND: Cell<(u32, bool)> = const { Cell::new((0, false)) };
    }

    /// Counts its steps.
    struct Stepping(u64);

    impl Worker for Stepping {
        fn step(&mut self) -> Result<()> {
            self.0 += 1;
            Ok(())
        }

        fn outcome(&self, seconds: f64) -> Outcome {
            Outcome {
                committed: self.0,
                seconds,
                ..Outcome::default()
            }
        }
    }

    #[test]
    fn all_that_threads_do_is_within_the_harness() {
        let harness = Harness {
            around: |threads| {
                AROUND.set((AROUND.get().0 + 1, true));
                threads();
                AROUND.set((AROUND.get().0, false));
            },
            ..Harness::default()
        };
        let outcome = run(3, 50, harness, |_| Stepping(0)).expect("no step fails");
        assert!((50..=150).contains(&outcome.committed) && outcome.threads == 3);
        assert_eq!(AROUND.get(), (1, false));
    }
}
