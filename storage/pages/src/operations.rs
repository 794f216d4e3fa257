//! Operations under way, so that a checkpoint can fall between them.
//!
//! A striped counter counts the threads that are changing pages, so that they do not contend for
//! one cache line. A checkpoint closes the counter, waits until all stripes are zero, does what it
//! must do at one moment (microseconds), and opens it.
//!
//! The first threads of a process have stripes that nobody else writes to, and end an operation by
//! a plain store. That does not wait for the pages' bytes to leave the processor's store buffer, as
//! an atomic subtraction does. But it may be seen only after the thread looked whether a checkpoint
//! waits, so that nobody tells that one: it looks again by itself.

use std::marker::PhantomData;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, Release, SeqCst},
};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use hedgerow_sync::CachePadded;
use hedgerow_sync::threads::Stripe;

/// Looks at the stripes before a checkpoint goes to sleep: most operations end meanwhile.
const LOOKS: u32 = 200;
/// How long a checkpoint sleeps before it looks at the stripes by itself.
const SLEEP: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(crate) struct Operations {
    stripes: [CachePadded<AtomicUsize>; Stripe::COUNT],
    closed: AtomicBool,
    gate: Mutex<()>,
    moved: Condvar,
}

/// A change under way: until it is dropped no checkpoint begins. It stays with its thread.
pub struct Operation<'p> {
    operations: &'p Operations,
    stripe: Stripe,
    of_thread: PhantomData<*const ()>,
}

impl Operations {
    #[inline]
    pub(crate) fn begin(&self) -> Operation<'_> {
        #[cfg(debug_assertions)]
        nesting::enter(self);
        let stripe = Stripe::of_thread();
        loop {
            self.stripes[stripe.index()].fetch_add(1, SeqCst);
            if !self.closed.load(SeqCst) {
                return Operation {
                    operations: self,
                    stripe,
                    of_thread: PhantomData,
                };
            }
            self.end(stripe);
            let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            while self.closed.load(SeqCst) {
                let waited = self.moved.wait(gate);
                gate = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Ends an operation that a stripe counts.
    #[inline]
    fn end(&self, stripe: Stripe) {
        let count = &self.stripes[stripe.index()];
        if stripe.is_own() {
            // Nobody else writes to it.
            count.store(count.load(Relaxed) - 1, Release);
        } else {
            count.fetch_sub(1, SeqCst);
        }
        if self.closed.load(SeqCst) {
            // Under the gate: the thread that closed the stripes checks and waits under it.
            let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.moved.notify_all();
        }
    }

    /// Runs `act` while no operation is under way. One caller at a time.
    pub(crate) fn while_idle<R>(&self, act: impl FnOnce() -> R) -> R {
        let are_under_way = || self.stripes.iter().any(|stripe| stripe.load(SeqCst) > 0);
        let lock = || self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = lock();
        self.closed.store(true, SeqCst);
        // Those that end now need the gate.
        drop(gate);
        for _ in (0..LOOKS).take_while(|_| are_under_way()) {
            std::hint::spin_loop();
        }
        let mut gate = lock();
        while are_under_way() {
            let waited = self.moved.wait_timeout(gate, SLEEP);
            gate = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let result = act();
        self.closed.store(false, SeqCst);
        self.moved.notify_all();
        drop(gate);
        result
    }
}

impl Drop for Operation<'_> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        nesting::leave(self.operations);
        self.operations.end(self.stripe);
    }
}

/// A thread that began a second operation of a pool within the first would wait for a checkpoint
/// that waits for the first. That takes a checkpoint at that moment, so builds with debug
/// assertions look for it at each operation.
#[cfg(debug_assertions)]
mod nesting {
    use std::cell::RefCell;

    use super::Operations;

    thread_local! {
        /// Where the pools' operations are that the thread is in.
        static UNDER_WAY: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    fn address(operations: &Operations) -> usize {
        std::ptr::from_ref(operations).addr()
    }

    pub(super) fn enter(operations: &Operations) {
        let address = address(operations);
        // A thread that is ending has nothing to find any more.
        let _ = UNDER_WAY.try_with(|under_way| {
            let mut under_way = under_way.borrow_mut();
            assert!(
                !under_way.contains(&address),
                "an operation begins within another of the same pool"
            );
            under_way.push(address);
        });
    }

    pub(super) fn leave(operations: &Operations) {
        let address = address(operations);
        let _ = UNDER_WAY.try_with(|under_way| {
            under_way.borrow_mut().retain(|other| *other != address);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "within another of the same pool")]
    fn an_operation_within_another_is_found() {
        let (operations, others) = (Operations::default(), Operations::default());
        let outer = operations.begin();
        drop(others.begin());
        drop(outer);
        let _outer = operations.begin();
        let _inner = operations.begin();
    }

    /// Its end may be seen only after its thread found no checkpoint that waits.
    #[test]
    fn an_operation_whose_end_nobody_tells_of_is_waited_for_no_longer_than_it_takes() {
        let operations = Operations::default();
        let stripe = &operations.stripes[0];
        stripe.store(1, SeqCst);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| operations.while_idle(|| stripe.load(SeqCst)));
            while !operations.closed.load(SeqCst) {
                std::thread::yield_now();
            }
            // Long enough that it sleeps.
            std::thread::sleep(20 * SLEEP);
            stripe.store(0, SeqCst);
            assert_eq!(waiting.join().expect("the checkpoint's moment"), 0);
        });
    }

    #[test]
    fn what_happens_between_operations_sees_none_half_done() {
        let operations = Operations::default();
        let (left, right) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let _operation = operations.begin();
                        left.fetch_add(1, SeqCst);
                        right.fetch_add(1, SeqCst);
                    }
                });
            }
            for _ in 0..500 {
                operations.while_idle(|| assert_eq!(left.load(SeqCst), right.load(SeqCst)));
            }
        });
    }
}
