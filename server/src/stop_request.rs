//! Asking a server to stop, and waiting until somebody does.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Whether somebody asked the server's owner to shut it down.
#[derive(Default)]
pub(crate) struct StopRequest {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl StopRequest {
    fn asked(&self) -> MutexGuard<'_, bool> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks.
    pub(crate) fn ask(&self) {
        *self.asked() = true;
        self.changed.notify_all();
    }

    /// Returns once somebody asked.
    pub(crate) fn wait(&self) {
        let mut asked = self.asked();
        while !*asked {
            let woken = self.changed.wait(asked);
            asked = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
