//! Cursors: where the draws of random keys from a keyspace of many rows continue.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The cursors of a keyspace.
#[derive(Default)]
pub(crate) struct Cursors(Mutex<Placed>);

impl Cursors {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Placed> {
        // A panic leaves them whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys that were drawn last.
#[derive(Default)]
pub(crate) struct Placed {
    pub(crate) keys: Vec<Vec<u8>>,
    /// Rows when they were placed.
    pub(crate) rows: u64,
}

impl Placed {
    /// Whether the keyspace is another than it was, as far as its rows say.
    pub(crate) fn is_stale(&self, rows: u64) -> bool {
        self.keys.is_empty() || rows > self.rows.saturating_mul(4) || rows < self.rows / 4
    }
}
