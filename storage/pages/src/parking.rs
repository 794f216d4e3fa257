//! Where threads sleep until a latch changes hands.
//!
//! A state word has no room for a queue, so threads sleep in a few parking slots chosen by the
//! word's address. A thread that frees a latch with waiters wakes all threads of the slot; those
//! that wait for another page check its state and sleep again. As threads mostly release latches
//! after nanoseconds, the slots are mostly empty: they serve waits for the disk.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use hedgerow_sync::CachePadded;

/// A place to sleep.
pub(crate) trait Parking {
    /// Sleeps until [`unpark`](Self::unpark) is called for the same key, unless `blocked` says
    /// that there is nothing to wait for; may also return early. `blocked` runs such that an
    /// `unpark` after the cause went away cannot be missed.
    fn park(&self, key: usize, blocked: impl FnOnce() -> bool);
    /// Wakes all threads that sleep under the key.
    fn unpark(&self, key: usize);
}

const SLOTS: usize = 64;

#[derive(Default)]
struct ParkingSlot {
    sleepers: Mutex<usize>,
    wake: Condvar,
}

impl ParkingSlot {
    // The count stays right whatever panics: it is changed in one statement.
    fn sleepers(&self) -> MutexGuard<'_, usize> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parking slots of one pool of pages.
pub(crate) struct ParkingSlots([CachePadded<ParkingSlot>; SLOTS]);

impl ParkingSlots {
    /// Empty slots.
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| CachePadded::default()))
    }

    fn slot(&self, key: usize) -> &ParkingSlot {
        // State words are 8 bytes; neighbours go to different slots.
        &self.0[(key / 8) % SLOTS]
    }
}

impl Default for ParkingSlots {
    fn default() -> Self {
        Self::new()
    }
}

impl Parking for ParkingSlots {
    fn park(&self, key: usize, blocked: impl FnOnce() -> bool) {
        let slot = self.slot(key);
        let mut sleepers = slot.sleepers();
        if blocked() {
            *sleepers += 1;
            let waited = slot.wake.wait(sleepers);
            *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        }
    }

    fn unpark(&self, key: usize) {
        let slot = self.slot(key);
        // Under the mutex: a sleeper between its look and its sleep has it.
        if *slot.sleepers() > 0 {
            slot.wake.notify_all();
        }
    }
}
