//! Intents: the keys that transactions are about to write.
//!
//! Two transactions that commit at the same time may each read what the other writes, and neither
//! write is in an index yet. So a transaction announces its keys, *then* validates what it read,
//! also against the announcements of others, and withdraws its own when its rows are in the
//! indexes. Whichever of two announces later finds the other: as an intent, or as versions that it
//! left.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_index::is_inverted;

use crate::index::bounds::Bounds;

/// The keys that a commit writes, by keyspace, sorted.
pub(crate) type WriteSet = BTreeMap<u32, Vec<Box<[u8]>>>;

struct Intent {
    number: u64,
    keys: Arc<WriteSet>,
}

/// The announcements of all transactions that are committing.
#[derive(Default)]
pub(crate) struct Intents {
    announced: Mutex<Vec<Intent>>,
    numbers: AtomicU64,
    /// No commit of an earlier epoch is under way.
    awaited: AtomicU64,
}

/// An announcement, until it is dropped.
pub(crate) struct Announced<'a> {
    intents: &'a Intents,
    number: u64,
}

impl Intents {
    fn announced(&self) -> MutexGuard<'_, Vec<Intent>> {
        // Each change is one step.
        self.announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is known that no commit of an epoch before this one is under way.
    pub(crate) fn is_awaited(&self, epoch: u64) -> bool {
        self.awaited.load(Ordering::Acquire) >= epoch
    }

    /// The caller has waited for the commits that were under way in this epoch or a later one.
    pub(crate) fn set_awaited(&self, epoch: u64) {
        self.awaited.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Whether nobody has announced anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.announced().is_empty()
    }

    /// Announces what a transaction is about to write.
    pub(crate) fn announce(&self, keys: Arc<WriteSet>) -> Announced<'_> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.announced().push(Intent { number, keys });
        Announced {
            intents: self,
            number,
        }
    }
}

impl Announced<'_> {
    /// What the other transactions are about to write, as it is now.
    pub(crate) fn others(&self) -> Vec<Arc<WriteSet>> {
        let announced = self.intents.announced();
        let others = announced
            .iter()
            .filter(|intent| intent.number != self.number);
        others.map(|intent| Arc::clone(&intent.keys)).collect()
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        let mut announced = self.intents.announced();
        announced.retain(|intent| intent.number != self.number);
    }
}

/// Whether a key is among those.
pub(crate) fn has_key(set: &WriteSet, keyspace: u32, key: &[u8]) -> bool {
    let keys = set.get(&keyspace);
    keys.is_some_and(|keys| keys.binary_search_by(|own| (**own).cmp(key)).is_ok())
}

/// A key of a range that is among those.
pub(crate) fn key_within<'s>(
    set: &'s WriteSet,
    keyspace: u32,
    (start, end): Bounds<'_>,
) -> Option<&'s [u8]> {
    if is_inverted(start, end) {
        return None;
    }
    let keys = set.get(&keyspace)?;
    let first = keys.partition_point(|key| match start {
        Bound::Unbounded => false,
        Bound::Included(start) => **key < *start,
        Bound::Excluded(start) => **key <= *start,
    });
    let key: &[u8] = keys.get(first)?;
    let is_within = match end {
        Bound::Unbounded => true,
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
    };
    is_within.then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(keys: &[&str]) -> Arc<WriteSet> {
        let keys = keys.iter().map(|key| key.as_bytes().into()).collect();
        Arc::new(BTreeMap::from([(1, keys)]))
    }

    #[test]
    fn whoever_announces_later_sees_the_other() {
        let intents = Intents::default();
        let first = intents.announce(set(&["b", "d"]));
        let second = intents.announce(set(&["c"]));
        let seen = second.others();
        assert_eq!((seen.len(), first.others().len()), (1, 1));
        assert!(has_key(&seen[0], 1, b"d") && !has_key(&seen[0], 1, b"c"));
        assert!(!has_key(&seen[0], 2, b"d"));
        drop(first);
        assert!(second.others().is_empty());
    }

    #[test]
    fn a_range_finds_the_first_key_within() {
        let keys = set(&["b", "d"]);
        let within = |start: Bound<&'static str>, end: Bound<&'static str>| {
            let bounds = (start.map(str::as_bytes), end.map(str::as_bytes));
            key_within(&keys, 1, bounds).map(|key| String::from_utf8_lossy(key).into_owned())
        };
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(within(Unbounded, Unbounded).as_deref(), Some("b"));
        assert_eq!(within(Excluded("b"), Unbounded).as_deref(), Some("d"));
        assert_eq!(within(Excluded("b"), Excluded("d")), None);
        assert_eq!(within(Included("c"), Included("d")).as_deref(), Some("d"));
        assert_eq!(within(Included("e"), Unbounded), None);
        assert_eq!(within(Included("z"), Included("a")), None);
    }
}
