//! The version store of one keyspace: the versions of its rows that some snapshot may read, in
//! order of keys. It is a Masstree whose values are [chains](super::chain), made when the first
//! version is kept, and one of long rows, which chains name by number.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hedgerow_index::{Decision, ScanRange};
use hedgerow_log::Timestamp;
use hedgerow_masstree::{Bytes, Masstree};

use crate::versions::chain::{self, AtMoment, Version};

/// See the module.
#[derive(Default)]
pub(crate) struct VersionStore {
    tree: OnceLock<Masstree<Bytes>>,
    /// Rows that are too long for chains, by numbers.
    apart: OnceLock<Masstree<Bytes>>,
    numbers: AtomicU64,
    /// How many lists have versions of it.
    users: AtomicUsize,
    /// How many versions were ever kept.
    changes: AtomicU64,
    /// The latest commit for which a version was ever kept: none ends later.
    newest: AtomicU64,
    /// How many chains validations have looked at, for tests.
    #[cfg(test)]
    validated: AtomicUsize,
}

/// How many chains a scan looks at to find a row for its moment.
const MOST_CHAINS_AHEAD: usize = 64;

/// A store that may have versions. A list has one from before its first version is stored, and so
/// from before the index changes: who sees that change sees the store in use.
pub(crate) struct InUse(Arc<VersionStore>);

impl InUse {
    pub(crate) fn new(store: &Arc<VersionStore>) -> InUse {
        store.users.fetch_add(1, Ordering::AcqRel);
        InUse(Arc::clone(store))
    }

    pub(crate) fn store(&self) -> &Arc<VersionStore> {
        &self.0
    }

    /// Keeps a version, unless it is there: an index may decide several times about one update.
    /// Whether it was not. `newest` is the newest moment that needs it. An absence is not kept
    /// where the chain tells that moment already that the key has changed: then it tells older
    /// ones, too, since the commit that changed the key kept what each of them needs. Else a key
    /// that comes and goes would have a version for each time, for a transaction that one is enough
    /// for.
    pub(crate) fn keep(
        &self,
        key: &[u8],
        mut version: Version<'_>,
        newest: Timestamp,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let tree = self.0.tree.get_or_init(Masstree::new);
        if let Some(row) = version.row.filter(|row| row.len() > chain::MOST_ROW_BYTES) {
            let is_there = tree.get_with(key, |chain| {
                chain::versions(chain).any(|kept| kept.end == version.end)
            });
            if is_there == Some(true) {
                return false;
            }
            version.apart = Some(self.0.put_apart(row));
        }
        // Before the index changes, too: who is validated after this commit sees it.
        let end = version.end.raw();
        if self.0.newest.load(Ordering::Relaxed) < end {
            self.0.newest.fetch_max(end, Ordering::AcqRel);
        }
        let is_new = tree.update_with(key, buffer, |old, new| {
            let old = old.unwrap_or_default();
            if chain::versions(old).any(|kept| kept.end == version.end) {
                return Decision::Keep(false);
            }
            if version.row.is_none() && chain::changed_since(old, newest) {
                return Decision::Keep(false);
            }
            new.extend_from_slice(old);
            chain::push(new, version);
            Decision::Put(true)
        });
        // Before the index changes: a scan that misses the row there sees that it must look here.
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        is_new
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl VersionStore {
    /// Whether surely no version is kept: one load. Ask after the index was read.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.users.load(Ordering::Acquire) == 0
    }

    fn tree(&self) -> Option<&Masstree<Bytes>> {
        match self.is_empty() {
            true => None,
            false => self.tree.get(),
        }
    }

    /// Stores a row apart; its number.
    fn put_apart(&self, row: &[u8]) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let apart = self.apart.get_or_init(Masstree::new);
        apart.put(&number.to_be_bytes(), row);
        number
    }

    /// Frees the version that ends then.
    pub(crate) fn free(&self, key: &[u8], end: Timestamp, buffer: &mut Vec<u8>) {
        let Some(tree) = self.tree() else { return };
        let freed = tree.update_with(key, buffer, |old, new| {
            let mut freed = None;
            for kept in chain::versions(old.unwrap_or_default()) {
                match kept.end == end {
                    true => freed = kept.apart,
                    false => chain::push(new, kept),
                }
            }
            match new.is_empty() {
                true => Decision::Remove(freed),
                false => Decision::Put(freed),
            }
        });
        // After the chain, which names it.
        if let (Some(number), Some(apart)) = (freed, self.apart.get()) {
            apart.remove(&number.to_be_bytes());
        }
    }

    /// Runs `read` on the row that `key` had at a moment and that was replaced since, if there is
    /// one.
    pub(crate) fn row_at<R>(
        &self,
        key: &[u8],
        moment: Timestamp,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let tree = self.tree()?;
        let found = tree.get_with(key, |chain| self.row_of(chain, moment, read));
        found.flatten()
    }

    /// The same of a chain.
    fn row_of<R>(
        &self,
        chain: &[u8],
        moment: Timestamp,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        match chain::at(chain, moment) {
            AtMoment::Row(row) => Some(read(row)),
            // It is gone where the reader's snapshot was ended, which the reader asks afterwards.
            AtMoment::Apart(number) => self.apart.get()?.get_with(&number.to_be_bytes(), read),
            AtMoment::Absent | AtMoment::Unknown => None,
        }
    }

    /// Whether surely nothing was written after a moment whose versions are kept: one load. Then
    /// all that the store has is for older moments, which may be much.
    fn is_unchanged_since(&self, moment: Timestamp) -> bool {
        self.newest.load(Ordering::Acquire) <= moment.raw()
    }

    /// Whether `key` was written after a moment whose versions are kept.
    pub(crate) fn has_changed(&self, key: &[u8], moment: Timestamp) -> bool {
        if self.is_unchanged_since(moment) {
            return false;
        }
        self.tree().is_some_and(|tree| {
            tree.get_with(key, |chain| chain::changed_since(chain, moment)) == Some(true)
        })
    }

    /// A key of a range that was written after a moment whose versions are kept, if there is one.
    pub(crate) fn changed_within(
        &self,
        range: &ScanRange<'_>,
        moment: Timestamp,
    ) -> Option<Vec<u8>> {
        if self.is_unchanged_since(moment) {
            return None;
        }
        let mut changed = None;
        self.tree()?.scan_range(range, |key, chain| {
            #[cfg(test)]
            self.validated.fetch_add(1, Ordering::Relaxed);
            if chain::changed_since(chain, moment) {
                changed = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        changed
    }

    /// A number that is greater whenever a further version is kept: as long as it stays, so does
    /// what the store has for a moment whose versions are kept. Ask after the index was read.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// A key of a range before which the store has no row for a moment; `None` if it has none in
    /// the whole range.
    #[inline]
    pub(crate) fn first_retained(
        &self,
        range: &ScanRange<'_>,
        moment: Timestamp,
    ) -> Option<Vec<u8>> {
        match self.is_empty() {
            true => None,
            false => self.first_in_tree(range, moment),
        }
    }

    fn first_in_tree(&self, range: &ScanRange<'_>, moment: Timestamp) -> Option<Vec<u8>> {
        let mut first = None;
        let mut looked_at = 0;
        let range = range.limited(usize::MAX);
        self.tree()?.scan_range(&range, |key, chain| {
            looked_at += 1;
            let at = chain::at(chain, moment);
            let is_row = matches!(at, AtMoment::Row(_) | AtMoment::Apart(_));
            if is_row || looked_at == MOST_CHAINS_AHEAD {
                first = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        first
    }

    /// Visits the rows of a range that were there at a moment and were replaced or removed since.
    pub(crate) fn scan(
        &self,
        range: &ScanRange<'_>,
        moment: Timestamp,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        let Some(tree) = self.tree() else { return };
        tree.scan_range(range, |key, chain| {
            let visited = self.row_of(chain, moment, |row| visit(key, row));
            visited.unwrap_or(ControlFlow::Continue(()))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use hedgerow_index::Direction;

    use super::*;
    use crate::row::write_header;

    /// An old snapshot keeps versions that a transaction which began after them need not look at.
    #[test]
    fn a_validation_passes_over_versions_that_ended_before_its_moment() {
        let time = |sequence| Timestamp::new(1, sequence);
        let store = Arc::new(VersionStore::default());
        let in_use = InUse::new(&store);
        let (row, mut buffer) = ([0; 9], Vec::new());
        for key in 0..100 {
            let version = Version {
                end: time(20),
                row: Some(&row),
                apart: None,
            };
            assert!(in_use.keep(&[key], version, time(10), &mut buffer));
        }
        let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
        let changed = |moment| {
            let within = store.changed_within(&all, moment);
            (within, store.has_changed(&[7], moment))
        };
        assert_eq!(changed(time(20)), (None, false));
        assert_eq!(store.validated.load(Ordering::Relaxed), 0);
        assert_eq!(changed(time(19)), (Some(vec![0]), true));
        assert_eq!(store.validated.load(Ordering::Relaxed), 1);
    }

    /// However long its rows are, a chain is short: it is copied with each change, and four
    /// gibibytes are too long for a value.
    #[test]
    fn long_rows_are_no_part_of_a_chain() {
        let time = |sequence| Timestamp::new(1, sequence);
        let row_of = |sequence: u32| {
            let mut row = Vec::new();
            write_header(&mut row, time(sequence), None, 0, false);
            row.resize(100_000, sequence as u8);
            row
        };
        let store = Arc::new(VersionStore::default());
        let in_use = InUse::new(&store);
        let mut buffer = Vec::new();
        let rows = [10, 20, 30].map(row_of);
        for (row, end) in rows.iter().zip([20, 30, 40]) {
            let version = Version {
                end: time(end),
                row: Some(row),
                apart: None,
            };
            assert!(in_use.keep(b"key", version, time(end - 1), &mut buffer));
            let is_again = !in_use.keep(b"key", version, time(end - 1), &mut buffer);
            assert!(is_again, "an index decides more than once");
        }
        let chain_bytes = || store.tree.get()?.get_with(b"key", <[u8]>::len);
        assert!(chain_bytes().is_some_and(|bytes| bytes < 200));
        let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
        let seen = |sequence| {
            let mut scanned = None;
            store.scan(&all, time(sequence), |_, row| {
                scanned = Some(row.to_vec());
                ControlFlow::Continue(())
            });
            assert_eq!(
                store.row_at(b"key", time(sequence), <[u8]>::to_vec),
                scanned
            );
            scanned
        };
        assert_eq!(store.first_retained(&all, time(25)), Some(b"key".to_vec()));
        store.free(b"key", time(30), &mut buffer);
        let expected = [15, 25, 35].map(seen);
        let [first, _, third] = rows;
        assert_eq!(expected, [Some(first), None, Some(third)]);
        store.free(b"key", time(20), &mut buffer);
        store.free(b"key", time(40), &mut buffer);
        assert_eq!((chain_bytes(), seen(15)), (None, None));
        let mut left = 0;
        let apart = store.apart.get().unwrap();
        apart.scan(Bound::Unbounded, Direction::Forward, |_, _| {
            left += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(left, 0);
    }
}
