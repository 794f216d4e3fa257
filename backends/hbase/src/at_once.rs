//! Calls that are under way at the same time, each of which waits for its gateway.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs the work of each number below `count`, at most `most` at once, and returns what it gave, in
/// the order of the numbers. Where the operating system has no more threads, those that there are
/// do the work.
pub(crate) fn at_once<T: Send>(
    count: usize,
    most: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::new();
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                return done;
            }
            done.push((nth, work(nth)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, share).ok();
        let others: Vec<_> = (1..count.min(most)).map_while(spawn).collect();
        let mut done = share();
        for thread in others {
            match thread.join() {
                Ok(some) => done.extend(some),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, given)| given).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn work_runs_at_once_and_its_results_stand_in_order() {
        // Nobody goes on before all eight have begun.
        let all = Barrier::new(8);
        let given = at_once(40, 8, |nth| {
            if nth < 8 {
                all.wait();
            }
            nth
        });
        assert!(given.into_iter().eq(0..40));
        assert!(at_once(0, 8, |nth| nth).is_empty());
    }
}
