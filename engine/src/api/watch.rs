//! Watching a key: has anybody changed it since?
//!
//! A row's version answers that for a key that is there: versions of a key only grow, even across
//! its removal. A key that is not there has no version, and one that was created and removed again
//! looks as it did before. So a list (`watches.rs`) has the watches of absent keys, and every
//! removal of a row checks that list: such a round trip needs a removal.
//!
//! Expiry is a change like another, seen from the moment at which the row expires. A row that had
//! expired before the watch began is absent for it, and its removal by the sweeper is no change.

use std::sync::{Arc, Weak};

use hedgerow_index::ValuePart;
use hedgerow_log::Timestamp;

use crate::api::keyspace::Keyspace;
use crate::api::transaction::Transaction;
use crate::commit::watches::AbsentKey;
use crate::commit::worker;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::row::Row;

/// What a key was when [`Keyspace::watch`] looked. Ask
/// [`Transaction::changed_since`] whether it was written meanwhile.
#[derive(Debug)]
pub struct Watch {
    /// The version of the row that was there, live or not.
    stored: Option<Timestamp>,
    live: bool,
    absent: Option<Absent>,
}

/// A watch's place on the list of absent keys; leaves it when dropped.
struct Absent {
    engine: Weak<Engine>,
    keyspace: String,
    key: Vec<u8>,
    listed: Arc<AbsentKey>,
}

impl std::fmt::Debug for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let changed = self.listed.has_changed();
        f.debug_struct("Absent").field("changed", &changed).finish()
    }
}

impl Drop for Absent {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade() {
            let watches = &engine.watches;
            watches.remove(&self.keyspace, &self.key, &self.listed);
        }
    }
}

impl Keyspace {
    /// Remembers what `key` is now, to ask later whether it changed; `WATCH` is made of this. A
    /// key that is written and then as before counts as changed, also one that was absent and is
    /// absent again, and so does one that expires.
    ///
    /// # Errors
    /// [`Error::Nested`] inside the closure of an update, a transaction or `get_many`.
    pub fn watch(&self, key: &[u8]) -> Result<Watch> {
        self.engine.check_key(key)?;
        // The stripe may be the caller's own.
        if worker::must_not_wait() {
            return Err(Error::Nested);
        }
        let (space, _stripe) = self.lock_key(key)?;
        let now_ms = self.engine.now_ms();
        let found = space.index.get(key, ValuePart::Whole, |bytes| {
            let row = Row::new(bytes);
            (row.timestamp(), !row.is_expired(|| now_ms))
        })?;
        let live = found.is_some_and(|(_, live)| live);
        let stored = found.map(|(timestamp, _)| timestamp);
        let absent = (!live).then(|| Absent {
            engine: Arc::downgrade(&self.engine),
            keyspace: space.name.clone(),
            key: key.to_vec(),
            listed: self.engine.watches.add(&space.name, key, stored),
        });
        Ok(Watch {
            stored,
            live,
            absent,
        })
    }
}

impl Transaction<'_> {
    /// Whether `key` was written, removed or expired since it was watched, by others than this
    /// transaction. The key must be among the locked ones for the answer to stay true.
    pub fn changed_since(&self, keyspace: &Keyspace, key: &[u8], watch: &Watch) -> Result<bool> {
        let now = self.stored_version(keyspace, key)?;
        let live = now.is_some_and(|(_, live)| live);
        Ok(live != watch.live
            || now.is_some_and(|(timestamp, _)| Some(timestamp) != watch.stored)
            || watch
                .absent
                .as_ref()
                .is_some_and(|absent| absent.listed.has_changed()))
    }
}
