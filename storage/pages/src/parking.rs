//! Where threads sleep until a latch changes hands.
//!
//! A state word has no room for a queue, so sleepers gather in a few lots chosen by the word's
//! address. Whoever frees a latch that has waiters wakes the whole lot; those who waited for
//! another page look and sleep again. As latches are mostly held for nanoseconds, lots are mostly
//! empty: they serve waits for the disk.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use hedgerow_sync::CachePadded;

/// A place to sleep.
pub trait Parking {
    /// Sleeps until [`unpark`](Self::unpark) is called for the same key, unless `blocked` says
    /// that there is nothing to wait for; may also return early. `blocked` runs such that an
    /// `unpark` after the cause went away cannot be missed.
    fn park(&self, key: usize, blocked: impl FnOnce() -> bool);
    /// Wakes all who sleep under the key.
    fn unpark(&self, key: usize);
}

const LOTS: usize = 64;

#[derive(Default)]
struct Lot {
    sleepers: Mutex<usize>,
    wake: Condvar,
}

impl Lot {
    // The count stays right whatever panics: it is changed in one statement.
    fn sleepers(&self) -> MutexGuard<'_, usize> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lots of one pool of pages.
pub struct Lots([CachePadded<Lot>; LOTS]);

impl Lots {
    /// Empty lots.
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| CachePadded::default()))
    }

    fn lot(&self, key: usize) -> &Lot {
        // State words are 8 bytes; neighbours go to different lots.
        &self.0[(key / 8) % LOTS]
    }
}

impl Default for Lots {
    fn default() -> Self {
        Self::new()
    }
}

impl Parking for Lots {
    fn park(&self, key: usize, blocked: impl FnOnce() -> bool) {
        let lot = self.lot(key);
        let mut sleepers = lot.sleepers();
        if blocked() {
            *sleepers += 1;
            let waited = lot.wake.wait(sleepers);
            *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        }
    }

    fn unpark(&self, key: usize) {
        let lot = self.lot(key);
        // Under the mutex: a sleeper between its look and its sleep has it.
        if *lot.sleepers() > 0 {
            lot.wake.notify_all();
        }
    }
}
