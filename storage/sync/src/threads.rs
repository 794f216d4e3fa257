//! A small number for each thread, to choose its stripe among several; work that is divided among
//! threads.

use std::cell::Cell;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static NEXT: AtomicUsize = AtomicUsize::new(0);

const UNKNOWN: usize = usize::MAX;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// The number of the calling thread: 0, 1, 2 … in the order in which threads first ask. A thread
/// that ends does not give its number back. Costs a load.
#[inline]
#[must_use]
pub fn number() -> usize {
    let number = NUMBER.get();
    if number == UNKNOWN { assign() } else { number }
}

/// The calling thread's stripe among those of a striped counter.
///
/// The first threads of a process have stripes that nobody else writes to: they add by a load and a
/// store. An atomic addition costs some twenty cycles, and waits for all stores before it.
#[derive(Clone, Copy)]
pub struct Stripe {
    index: usize,
}

impl Stripe {
    /// Stripes of one thread each: those of the lowest [numbers](number).
    const OWN: usize = 16;
    /// Stripes that all other threads share.
    const SHARED: usize = 16;
    /// How many stripes there are.
    pub const COUNT: usize = Self::OWN + Self::SHARED;

    /// The calling thread's. Costs a load.
    #[inline]
    #[must_use]
    pub fn of_thread() -> Self {
        let number = number();
        let index = if number < Self::OWN {
            number
        } else {
            Self::OWN + number % Self::SHARED
        };
        Self { index }
    }

    /// Its index, below [`COUNT`](Self::COUNT).
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }

    /// Whether no other thread has this stripe, or ever will: a number is never given again.
    #[inline]
    #[must_use]
    pub fn is_own(self) -> bool {
        self.index < Self::OWN
    }
}

#[cold]
fn assign() -> usize {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    NUMBER.set(number);
    number
}

/// Runs `work` for each number below `count`, each in a thread of its own, and waits for all of
/// them: what they return, in the order of the numbers. Where the system starts no further thread,
/// the calling thread does that thread's work.
///
/// # Panics
/// If one of them panics, with what it panicked with.
pub fn run<R: Send>(count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let started: Vec<_> = (0..count)
            .map(|number| thread::Builder::new().spawn_scoped(scope, move || work(number)))
            .collect();
        let mut results = Vec::with_capacity(count);
        for (number, started) in started.into_iter().enumerate() {
            results.push(match started.map(|thread| thread.join()) {
                Ok(Ok(result)) => result,
                Ok(Err(cause)) => panic::resume_unwind(cause),
                Err(_) => work(number),
            });
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn each_number_has_a_thread_and_results_are_in_order() {
        let caller = thread::current().id();
        let results = run(5, |number| (number, thread::current().id() != caller));
        assert_eq!(results, [0, 1, 2, 3, 4].map(|number| (number, true)));
        assert!(run(0, |number| number).is_empty());
    }

    #[test]
    #[should_panic(expected = "of a thread")]
    fn a_panic_is_that_of_the_caller() {
        run(3, |number| assert_ne!(number, 1, "of a thread"));
    }

    /// In a process of its own, in which a thread's stack needs more addresses than there are.
    #[test]
    #[cfg_attr(
        any(miri, not(target_os = "linux")),
        ignore = "it starts a process, whose threads fail in the way of Linux"
    )]
    fn without_threads_the_caller_does_all_the_work() {
        const WITHOUT_THREADS: &str = "HEDGEROW_TEST_WITHOUT_THREADS";
        const NAME: &str = "threads::tests::without_threads_the_caller_does_all_the_work";
        if std::env::var_os(WITHOUT_THREADS).is_some() {
            assert!(thread::Builder::new().spawn(|| ()).is_err());
            let caller = thread::current().id();
            let results = run(5, |number| (number, thread::current().id() == caller));
            assert_eq!(results, [0, 1, 2, 3, 4].map(|number| (number, true)));
            return;
        }
        let program = std::env::current_exe().expect("the path of this program");
        let stack_bytes = 1_u64 << 60;
        let output = Command::new(program)
            .args(["--exact", NAME, "--test-threads=1"])
            .env(WITHOUT_THREADS, "1")
            .env("RUST_MIN_STACK", stack_bytes.to_string())
            .output()
            .expect("a process");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
    }

    #[test]
    fn a_stripe_of_ones_own_is_nobody_elses() {
        let stripes = run(3 * Stripe::COUNT, |_| Stripe::of_thread());
        assert!(stripes.iter().all(|stripe| stripe.index < Stripe::COUNT));
        assert!(stripes.iter().any(|stripe| !stripe.is_own()));
        let own = stripes.iter().filter(|stripe| stripe.is_own());
        let mut own: Vec<usize> = own.map(|stripe| stripe.index).collect();
        let count = own.len();
        own.sort_unstable();
        own.dedup();
        assert_eq!(own.len(), count);
    }

    #[test]
    fn each_thread_keeps_a_number_of_its_own() {
        let own = number();
        let mut numbers: Vec<usize> = (0..8)
            .map(|_| std::thread::spawn(|| (number(), number())))
            .map(|thread| thread.join().expect("a thread"))
            .map(|(first, second)| {
                assert_eq!(first, second);
                first
            })
            .chain([own])
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), number()), (9, own));
    }
}
