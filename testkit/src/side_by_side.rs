//! Threads of two kinds beside each other, such as writers and readers: each goes on until those of
//! the other kind have done their share.
//!
//! So neither kind has ended before the other began, however a busy machine schedules them, and a
//! test may rely on what the two did beside each other. A thread that panics has done its share:
//! the others end, and the test fails instead of waiting for ever.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The threads of one kind, and what each of them does at least.
#[derive(Debug)]
pub struct Side {
    rounds: usize,
    unfinished: AtomicUsize,
}

impl Side {
    /// `threads` threads, each of which does at least `rounds` rounds.
    pub fn new(threads: usize, rounds: usize) -> Self {
        Side {
            rounds,
            unfinished: AtomicUsize::new(threads),
        }
    }

    /// What one of the threads counts its rounds with; each takes one.
    pub fn share(&self) -> Share<'_> {
        Share {
            side: self,
            done: 0,
            finished: false,
        }
    }

    /// Whether all threads have done their rounds, or have ended.
    pub fn is_finished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed) == 0
    }
}

/// The rounds of one thread; dropped when it ends.
#[derive(Debug)]
pub struct Share<'a> {
    side: &'a Side,
    done: usize,
    finished: bool,
}

impl Share<'_> {
    /// Whether there is another round to do: as long as this thread's own share is not done, or
    /// that of `other`. Called once before each round.
    pub fn continues(&mut self, other: &Side) -> bool {
        if self.done >= self.side.rounds {
            self.finish();
            if other.is_finished() {
                return false;
            }
        }
        self.done += 1;
        true
    }

    /// Rounds begun so far.
    pub fn rounds(&self) -> usize {
        self.done
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            self.side.unfinished.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn each_kind_waits_for_the_other_and_not_for_a_thread_that_panicked() {
        let (writers, readers) = (Side::new(2, 3), Side::new(1, 100));
        let mut panicked = 0;
        thread::scope(|scope| {
            let threads = [0, 1].map(|thread| {
                let (writers, readers) = (&writers, &readers);
                scope.spawn(move || {
                    let mut share = writers.share();
                    while share.continues(readers) {
                        assert!(thread == 0, "the second one ends at once");
                    }
                    share.rounds()
                })
            });
            let mut share = readers.share();
            while share.continues(&writers) {
                thread::yield_now();
            }
            assert!(share.rounds() >= 100);
            for thread in threads {
                match thread.join() {
                    Ok(rounds) => assert!(rounds >= 3),
                    Err(_) => panicked += 1,
                }
            }
        });
        assert_eq!(panicked, 1);
        assert!(writers.is_finished() && readers.is_finished());
    }
}
