//! Watching a key: has anybody changed it since?
//!
//! A row's version answers that for a key that is there: versions of a key only grow, even across
//! its removal. A key that is not there has no version, and one that was created and removed again
//! looks as it did before. So a watch of an absent key is also listed here, and whoever removes a
//! row (which that round trip cannot do without) looks whether its key is on the list. While
//! nobody watches an absent key, that costs one load per removal.
//!
//! Expiry is a change like another, seen from the moment at which the row expires. But a row that
//! had expired before the watch began is absent to it, and its being swept away changes nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hedgerow_index::Index;
use hedgerow_log::Timestamp;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::row::Row;
use crate::space::Space;
use crate::transaction::Transaction;
use crate::worker;

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
    entry: Arc<Entry>,
}

impl std::fmt::Debug for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let changed = self.entry.changed.load(Ordering::Relaxed);
        f.debug_struct("Absent").field("changed", &changed).finish()
    }
}

impl Drop for Absent {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.watches.leave(self);
        }
    }
}

struct Entry {
    since_ms: u64,
    changed: AtomicBool,
}

type ByKey = HashMap<Vec<u8>, Vec<Arc<Entry>>>;

/// The absent keys that are watched.
#[derive(Default)]
pub(crate) struct Watches {
    /// How many there are. Changed under the stripe of the key, as rows are.
    count: AtomicUsize,
    /// By the name of the keyspace: its id changes when it is cleared.
    entries: Mutex<HashMap<String, ByKey>>,
}

impl Watches {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, ByKey>> {
        // Each change leaves the list whole.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, keyspace: &str, key: &[u8], since_ms: u64) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            since_ms,
            changed: AtomicBool::new(false),
        });
        let mut entries = self.entries();
        let by_key = entries.entry(keyspace.to_owned()).or_default();
        let watching = by_key.entry(key.to_vec()).or_default();
        watching.push(Arc::clone(&entry));
        self.count.fetch_add(1, Ordering::SeqCst);
        entry
    }

    fn leave(&self, absent: &Absent) {
        let mut entries = self.entries();
        let Some(by_key) = entries.get_mut(&absent.keyspace) else {
            return;
        };
        if let Some(watching) = by_key.get_mut(&absent.key) {
            watching.retain(|entry| !Arc::ptr_eq(entry, &absent.entry));
            if watching.is_empty() {
                by_key.remove(&absent.key);
            }
        }
        if by_key.is_empty() {
            entries.remove(&absent.keyspace);
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// A row with this expiry was removed. The caller holds the key's stripe.
    #[inline]
    pub(crate) fn removed(&self, space: &Space, key: &[u8], expiry_ms: Option<u64>) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.tell(space, key, expiry_ms);
        }
    }

    #[cold]
    fn tell(&self, space: &Space, key: &[u8], expiry_ms: Option<u64>) {
        let entries = self.entries();
        let watching = entries.get(&space.name).and_then(|keys| keys.get(key));
        for entry in watching.into_iter().flatten() {
            entry.see(expiry_ms);
        }
    }

    /// The rows of a keyspace are about to go all at once. The caller holds all stripes.
    pub(crate) fn cleared(&self, space: &Space) {
        let entries = self.entries();
        for (key, watching) in entries.get(&space.name).into_iter().flatten() {
            let read = space.index.get(key, |bytes| {
                let expiry_ms = Row::new(bytes).expiry_ms();
                watching.iter().for_each(|entry| entry.see(expiry_ms));
            });
            if read.is_err() {
                // There may have been a row that stays.
                watching.iter().for_each(|entry| entry.see(None));
            }
        }
    }
}

impl Entry {
    /// A row with this expiry was there and is gone.
    fn see(&self, expiry_ms: Option<u64>) {
        if expiry_ms.is_none_or(|expiry_ms| expiry_ms > self.since_ms) {
            self.changed.store(true, Ordering::Relaxed);
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
        let (space, _stripe) = self.hold(key)?;
        let now_ms = self.engine.now_ms();
        let found = space.index.get(key, |bytes| {
            let row = Row::new(bytes);
            (row.timestamp(), !row.is_expired(|| now_ms))
        })?;
        let live = found.is_some_and(|(_, live)| live);
        let absent = (!live).then(|| Absent {
            engine: Arc::downgrade(&self.engine),
            keyspace: space.name.clone(),
            key: key.to_vec(),
            entry: self.engine.watches.enter(&space.name, key, now_ms),
        });
        Ok(Watch {
            stored: found.map(|(timestamp, _)| timestamp),
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
        let told = |absent: &Absent| absent.entry.changed.load(Ordering::Relaxed);
        Ok(live != watch.live
            || now.is_some_and(|(timestamp, _)| Some(timestamp) != watch.stored)
            || watch.absent.as_ref().is_some_and(told))
    }
}
