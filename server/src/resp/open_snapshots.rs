//! The snapshots that clients have open, by their tokens. One with a name and a time to live can be
//! read from every connection until that is over; any other belongs to the connection that opened
//! it, and ends with it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hedgerow::backend::Backend;

/// A snapshot and its token.
pub(crate) struct OpenSnapshot<B: Backend> {
    pub(crate) token: Vec<u8>,
    pub(crate) snapshot: B::Snapshot,
    /// When it ends.
    pub(crate) until: Instant,
    pub(crate) is_shared: bool,
}

/// Snapshots, in the order of their opening.
pub(crate) struct OpenSnapshots<B: Backend>(Vec<OpenSnapshot<B>>);

impl<B: Backend> Default for OpenSnapshots<B> {
    fn default() -> Self {
        OpenSnapshots(Vec::new())
    }
}

impl<B: Backend> OpenSnapshots<B> {
    /// Ends those whose time is over.
    pub(crate) fn end_due(&mut self, now: Instant) {
        self.0.retain(|open| open.until > now);
    }

    pub(crate) fn push(&mut self, open: OpenSnapshot<B>) {
        self.0.push(open);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn find(&self, token: &[u8]) -> Option<&OpenSnapshot<B>> {
        self.0.iter().find(|open| open.token == token)
    }

    /// Closes the snapshot of a token; whether there was one.
    pub(crate) fn release(&mut self, token: &[u8]) -> bool {
        let before = self.0.len();
        self.0.retain(|open| open.token != token);
        self.0.len() < before
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenSnapshot<B>> {
        self.0.iter()
    }
}

/// Those that every connection can read from.
pub(crate) struct SharedSnapshots<B: Backend>(Mutex<OpenSnapshots<B>>);

impl<B: Backend> Default for SharedSnapshots<B> {
    fn default() -> Self {
        SharedSnapshots(Mutex::default())
    }
}

impl<B: Backend> SharedSnapshots<B> {
    /// All of them whose time is not over.
    pub(crate) fn lock(&self) -> MutexGuard<'_, OpenSnapshots<B>> {
        // Each change is one step.
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.end_due(Instant::now());
        open
    }
}
