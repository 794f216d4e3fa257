//! A call that stops where a test wants it to: the test waits until it is there, does what should
//! happen meanwhile, and lets it continue. No time is involved, so the order of events is the same
//! on any machine.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where a paused call and a test meet.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct State {
    reached: bool,
    released: bool,
}

impl Gate {
    // A flag is set in one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the call is here, and waits until the test lets it go.
    pub(crate) fn pass(&self) {
        let mut state = self.state();
        state.reached = true;
        self.changed.notify_all();
        while !state.released {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A call that waits before it does anything, made by [`FaultyVfs::pause_once`]. The call goes on
/// when this is released or dropped.
///
/// [`FaultyVfs::pause_once`]: crate::FaultyVfs::pause_once
#[must_use = "the call is not paused any more when this is dropped"]
pub struct Pause(Arc<Gate>);

impl Pause {
    pub(crate) fn new() -> (Pause, Arc<Gate>) {
        let gate = Arc::<Gate>::default();
        (Pause(Arc::clone(&gate)), gate)
    }

    /// Waits until the call was made; false if it was not within `timeout`, which only bounds how
    /// long a test that fails takes.
    #[must_use]
    pub fn is_reached_within(&self, timeout: Duration) -> bool {
        let state = self.0.state();
        let waited = self
            .0
            .changed
            .wait_timeout_while(state, timeout, |state| !state.reached);
        waited.unwrap_or_else(PoisonError::into_inner).0.reached
    }

    /// Lets the call go on; one that was not made yet will not wait.
    pub fn release(&self) {
        self.0.state().released = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.release();
    }
}
