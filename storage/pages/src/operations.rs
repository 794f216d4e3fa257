//! Operations under way, so that a checkpoint can fall between them.
//!
//! A striped counter counts the threads that are changing pages, so that they do not contend for
//! one cache line. A checkpoint closes the counter, waits until all stripes are zero, does what it
//! must do at one moment (microseconds), and opens it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};

use hedgerow_sync::{CachePadded, threads};

const STRIPES: usize = 32;

#[derive(Default)]
pub(crate) struct Operations {
    stripes: [CachePadded<AtomicUsize>; STRIPES],
    closed: AtomicBool,
    gate: Mutex<()>,
    moved: Condvar,
}

/// A change under way: until it is dropped no checkpoint begins.
pub struct Operation<'p> {
    operations: &'p Operations,
    stripe: usize,
}

impl Operations {
    pub(crate) fn begin(&self) -> Operation<'_> {
        let stripe = threads::number() % STRIPES;
        loop {
            self.stripes[stripe].fetch_add(1, SeqCst);
            let operation = Operation {
                operations: self,
                stripe,
            };
            if !self.closed.load(SeqCst) {
                return operation;
            }
            drop(operation);
            let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            while self.closed.load(SeqCst) {
                let waited = self.moved.wait(gate);
                gate = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Runs `act` while no operation is under way. One caller at a time.
    pub(crate) fn while_idle<R>(&self, act: impl FnOnce() -> R) -> R {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, SeqCst);
        while self.stripes.iter().any(|stripe| stripe.load(SeqCst) > 0) {
            let waited = self.moved.wait(gate);
            gate = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let result = act();
        self.closed.store(false, SeqCst);
        self.moved.notify_all();
        drop(gate);
        result
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.operations.stripes[self.stripe].fetch_sub(1, SeqCst);
        if self.operations.closed.load(SeqCst) {
            // Under the gate: the thread that closed the stripes checks and waits under it.
            let gate = &self.operations.gate;
            let _gate = gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.operations.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
