//! The atomic word that protocols are written against.
//!
//! Protocol code is generic over [`Word`]; the default, `AtomicU64`, compiles to the plain
//! instruction. A test implements it for shuttle's atomic and so explores interleavings of
//! the shipping code, not of a copy.

use std::sync::atomic::{AtomicU64, Ordering};

/// A 64-bit atomic, with the fence and the pause that belong to its world.
///
/// # Safety
///
/// A word is one atomic location of 64 bits, with the semantics of [`AtomicU64`]: a load returns
/// what was stored there, an exchange takes place only if the location holds `current`, and all
/// orderings mean what they mean there, [`fence`](Self::fence) included. Latches exclude by what
/// words say, and trees follow addresses that they read from words.
///
/// A word that is not [`SHARED`](Self::SHARED) has these semantics while one thread uses it. A twin
/// in a test leaves some of it out; its test then sees to it that nothing is freed too early.
pub unsafe trait Word: Send + Sync {
    /// Whether several threads may use a word at once. What they share demands it.
    const SHARED: bool = true;

    /// A word that holds `value`.
    fn new(value: u64) -> Self;
    /// Loads the word.
    fn load(&self, ordering: Ordering) -> u64;
    /// Stores the word.
    fn store(&self, value: u64, ordering: Ordering);
    /// Compare and exchange; may fail spuriously.
    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
    /// A memory fence.
    fn fence(ordering: Ordering);
    /// Waits one round of a wait; `rounds` counts them and starts at 0.
    fn pause(rounds: &mut u32);
}

// SAFETY: it is that atomic.
unsafe impl Word for AtomicU64 {
    #[inline(always)]
    fn new(value: u64) -> Self {
        AtomicU64::new(value)
    }

    #[inline(always)]
    fn load(&self, ordering: Ordering) -> u64 {
        AtomicU64::load(self, ordering)
    }

    #[inline(always)]
    fn store(&self, value: u64, ordering: Ordering) {
        AtomicU64::store(self, value, ordering);
    }

    #[inline(always)]
    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        AtomicU64::compare_exchange_weak(self, current, new, success, failure)
    }

    #[inline(always)]
    fn fence(ordering: Ordering) {
        std::sync::atomic::fence(ordering);
    }

    #[inline(always)]
    fn pause(rounds: &mut u32) {
        crate::backoff::pause(rounds);
    }
}
