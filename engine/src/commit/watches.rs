//! The absent keys that are watched.
//!
//! A removal of a row checks whether its key is among them: an absent key that is written and
//! absent again was removed in between. While no absent key is watched, that check costs one load
//! per removal.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_index::ValuePart;
use hedgerow_log::Timestamp;

use crate::index::any_index::AnyIndex;
use crate::row::Row;

/// A key that had no live row when its watch began.
pub(crate) struct AbsentKey {
    /// The version of the row that was there and had expired, if one was.
    expired: Option<Timestamp>,
    changed: AtomicBool,
}

impl AbsentKey {
    /// A row of this version was there and is gone. That one which had expired before goes is no
    /// change; any other came after the watch began, whenever it expired.
    fn see(&self, removed: Option<Timestamp>) {
        if removed.is_none() || removed != self.expired {
            self.changed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a row was there and went since.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }
}

type ByKey = HashMap<Vec<u8>, Vec<Arc<AbsentKey>>>;

/// The absent keys that are watched.
#[derive(Default)]
pub(crate) struct Watches {
    /// How many there are. Changed under the stripe of the key, as rows are.
    count: AtomicUsize,
    /// By the name of the keyspace: its id changes when it is cleared.
    keys: Mutex<HashMap<String, ByKey>>,
}

impl Watches {
    fn keys(&self) -> MutexGuard<'_, HashMap<String, ByKey>> {
        // Each change leaves the list whole.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key, which has no row but perhaps an expired one of version `expired`. The caller
    /// holds its stripe.
    pub(crate) fn add(
        &self,
        keyspace: &str,
        key: &[u8],
        expired: Option<Timestamp>,
    ) -> Arc<AbsentKey> {
        let absent = Arc::new(AbsentKey {
            expired,
            changed: AtomicBool::new(false),
        });
        let mut keys = self.keys();
        let by_key = keys.entry(keyspace.to_owned()).or_default();
        let watching = by_key.entry(key.to_vec()).or_default();
        watching.push(Arc::clone(&absent));
        self.count.fetch_add(1, Ordering::SeqCst);
        absent
    }

    /// Ends what [`Watches::add`] began.
    pub(crate) fn remove(&self, keyspace: &str, key: &[u8], absent: &Arc<AbsentKey>) {
        let mut keys = self.keys();
        let Some(by_key) = keys.get_mut(keyspace) else {
            return;
        };
        if let Some(watching) = by_key.get_mut(key) {
            watching.retain(|other| !Arc::ptr_eq(other, absent));
            if watching.is_empty() {
                by_key.remove(key);
            }
        }
        if by_key.is_empty() {
            keys.remove(keyspace);
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// A row of this version was removed. The caller holds the key's stripe.
    #[inline]
    pub(crate) fn removed(&self, keyspace: &str, key: &[u8], version: Timestamp) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.mark_changed(keyspace, key, version);
        }
    }

    #[cold]
    fn mark_changed(&self, keyspace: &str, key: &[u8], version: Timestamp) {
        let keys = self.keys();
        let watching = keys.get(keyspace).and_then(|by_key| by_key.get(key));
        for absent in watching.into_iter().flatten() {
            absent.see(Some(version));
        }
    }

    /// The rows of a keyspace are about to go all at once. The caller holds all stripes.
    pub(crate) fn cleared(&self, keyspace: &str, index: &AnyIndex) {
        let keys = self.keys();
        for (key, watching) in keys.get(keyspace).into_iter().flatten() {
            let read = index.get(key, ValuePart::Head, |bytes| {
                let version = Row::new(bytes).timestamp();
                watching.iter().for_each(|absent| absent.see(Some(version)));
            });
            if read.is_err() {
                // There may have been a row that stays.
                watching.iter().for_each(|absent| absent.see(None));
            }
        }
    }
}
