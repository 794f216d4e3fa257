//! Operations under way, so that a checkpoint can fall between them.
//!
//! Whoever changes pages is counted in a lane, one of several so that threads do not fight over a
//! line. A checkpoint closes the lanes, waits until they are empty, does what it must do at one
//! moment (microseconds), and opens them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};

use hedgerow_sync::{CachePadded, threads};

const LANES: usize = 32;

#[derive(Default)]
pub(crate) struct Operations {
    lanes: [CachePadded<AtomicUsize>; LANES],
    closed: AtomicBool,
    gate: Mutex<()>,
    moved: Condvar,
}

/// A change under way: until it is dropped no checkpoint begins.
pub struct Operation<'p> {
    operations: &'p Operations,
    lane: usize,
}

impl Operations {
    pub(crate) fn begin(&self) -> Operation<'_> {
        let lane = threads::number() % LANES;
        loop {
            self.lanes[lane].fetch_add(1, SeqCst);
            let operation = Operation {
                operations: self,
                lane,
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
    pub(crate) fn between<R>(&self, act: impl FnOnce() -> R) -> R {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, SeqCst);
        while self.lanes.iter().any(|lane| lane.load(SeqCst) > 0) {
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
        self.operations.lanes[self.lane].fetch_sub(1, SeqCst);
        if self.operations.closed.load(SeqCst) {
            // Under the gate, where whoever closed the lanes looks and then waits.
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
                operations.between(|| assert_eq!(left.load(SeqCst), right.load(SeqCst)));
            }
        });
    }
}
