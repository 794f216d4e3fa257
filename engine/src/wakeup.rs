//! Stops background threads when a database closes, also while they sleep.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Ends the threads when the database closes.
#[derive(Default)]
pub(crate) struct Wakeup {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    pub(crate) fn stop(&self) {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Sleeps; whether to stop.
    pub(crate) fn sleep(&self, interval: Duration) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        let slept = self
            .changed
            .wait_timeout_while(stop, interval, |stop| !*stop);
        *slept.unwrap_or_else(PoisonError::into_inner).0
    }
}
