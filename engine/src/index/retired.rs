//! Keyspaces in memory that were cleared or dropped. A handle of one keeps its index, and a server
//! has handles for as long as it runs: so the rows are removed one by one, beside other operations,
//! to give their memory back. The background thread does that, or a writer that finds no memory
//! left.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_index::IndexError;

use crate::index::space::Space;

/// Those whose memory has not been given back yet.
#[derive(Default)]
pub(crate) struct RetiredSpaces {
    spaces: Mutex<Vec<Arc<Space>>>,
    /// Held while rows are removed: whoever needs their memory waits.
    releasing: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change leaves what is guarded whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RetiredSpaces {
    /// Adds a keyspace that is out of the catalog, and that no thread writes any more.
    pub(crate) fn push(&self, space: Arc<Space>) {
        lock(&self.spaces).push(space);
    }

    /// Gives the memory of all of them back: at once of those that nobody has a handle of, in time
    /// that grows with its rows of any other. Waits for a call under way. Stops early when the
    /// database closes.
    pub(crate) fn release(&self, is_closed: impl Fn() -> bool) -> Result<(), IndexError> {
        let _releasing = lock(&self.releasing);
        loop {
            let Some(space) = lock(&self.spaces).pop() else {
                return Ok(());
            };
            if Arc::strong_count(&space) > 1 {
                space.empty(&is_closed)?;
            }
        }
    }
}
