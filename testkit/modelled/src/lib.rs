//! The processor's atomic word, played by shuttle's: with [`Modelled`] in its place, a protocol
//! that is generic over [`Word`] runs under a scheduler that tries many interleavings of its
//! threads. What is explored so is the code that ships, not a copy of it.
//!
//! A crate of its own, below the testkit, since the crates whose protocols are tested so
//! should not wait for the engine to compile.

use std::sync::atomic::Ordering;

use hedgerow_sync::word::Word;
use shuttle::sync::atomic::{AtomicU64, fence};
use shuttle::thread;

/// A word whose every access is a point where shuttle may switch threads. Usable within
/// shuttle's executions only.
#[derive(Debug)]
pub struct Modelled(AtomicU64);

// SAFETY: shuttle's atomic is one location, whose accesses and fences it executes one after the
// other, each in whole.
unsafe impl Word for Modelled {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    fn load(&self, ordering: Ordering) -> u64 {
        self.0.load(ordering)
    }

    fn store(&self, value: u64, ordering: Ordering) {
        self.0.store(value, ordering);
    }

    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }

    fn fence(ordering: Ordering) {
        fence(ordering);
    }

    fn pause(_rounds: &mut u32) {
        thread::yield_now();
    }
}
