//! Threads that start at once.

use std::sync::Barrier;

use crate::Result;
use crate::machine::pin_this_thread;

/// What `work` returns on so many threads, which begin together, each on a processor of its own;
/// it is told the thread's number.
pub fn at_once<R: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (barrier, work) = (Barrier::new(threads), &work);
    std::thread::scope(|scope| {
        let start = |thread: usize| {
            let barrier = &barrier;
            scope.spawn(move || {
                pin_this_thread(thread);
                barrier.wait();
                work(thread)
            })
        };
        let workers: Vec<_> = (0..threads).map(start).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
