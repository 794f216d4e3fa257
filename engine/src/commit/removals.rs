//! Closed ranges: removals of so many rows that other writers cannot wait for all of them. A
//! removal of a range locks out all writers for a moment, registers the range as closed, and lets
//! them continue. Until the removal ends, writers and readers of single keys of the range wait
//! ([`Stripes::is_in_closed_range`]). The removal then deletes the rows beside other operations,
//! and at the end locks out writers for another moment, in which the commit gets its timestamp and
//! its record. Until that record is logged, the rows already removed belong to no commit. So what
//! would make the index's state durable, or discard it, waits for the [`Removals`] under way: a
//! checkpoint, and dropping or clearing a keyspace.

use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hedgerow_sync::backoff::Backoff;

use crate::commit::closed_ranges::ClosedRange;
use crate::commit::stripes::{MultiGuard, REMOVAL, STRIPES, Stripes};
use crate::index::bounds::Bounds;

/// Keeps a range closed until it is dropped.
pub(crate) struct ClosedRangeGuard<'a> {
    stripes: &'a Stripes,
    keyspace: u32,
    start: Bound<Vec<u8>>,
}

impl Drop for ClosedRangeGuard<'_> {
    fn drop(&mut self) {
        // Closed ranges do not meet, so their starts differ.
        let is_own =
            |range: &ClosedRange| range.keyspace == self.keyspace && range.start == self.start;
        let ranges = &self.stripes.closed;
        ranges.change(|ranges| ranges.retain(|range| !is_own(range)));
        self.stripes.multi.fetch_sub(REMOVAL, Ordering::Release);
    }
}

impl Stripes {
    /// Registers a range that overlaps no other. The guard of all stripes proves that no writer is
    /// in it.
    pub(crate) fn close_range(
        &self,
        all: &MultiGuard<'_>,
        keyspace: u32,
        (start, end): Bounds<'_>,
    ) -> ClosedRangeGuard<'_> {
        debug_assert_eq!(all.locked().len(), STRIPES);
        let start = start.map(<[u8]>::to_vec);
        let range = ClosedRange {
            keyspace,
            start: start.clone(),
            end: end.map(<[u8]>::to_vec),
        };
        self.closed.change(|ranges| ranges.push(range));
        self.multi.fetch_add(REMOVAL, Ordering::SeqCst);
        ClosedRangeGuard {
            stripes: self,
            keyspace,
            start,
        }
    }

    /// Whether any range is closed.
    #[inline]
    pub(crate) fn has_closed_ranges(&self) -> bool {
        // Relaxed: a thread that has locked a stripe sees what was registered under all stripes.
        self.multi.load(Ordering::Relaxed) >= REMOVAL
    }

    /// Whether a key is in a closed range. It stays so or not while its stripe is held.
    #[inline]
    pub(crate) fn is_in_closed_range(&self, keyspace: u32, key: &[u8]) -> bool {
        self.has_closed_ranges()
            && self.overlaps_closed_range(keyspace, (Bound::Included(key), Bound::Included(key)))
    }

    /// Whether a range overlaps a closed one.
    #[cold]
    pub(crate) fn overlaps_closed_range(&self, keyspace: u32, bounds: Bounds<'_>) -> bool {
        self.closed.overlaps_any(keyspace, bounds)
    }

    /// Waits while `is_closed` holds. The caller holds no stripe and no log shard.
    #[cold]
    pub(crate) fn await_closed_ranges(&self, is_closed: impl Fn() -> bool) {
        #[cfg(test)]
        self.count_wait(is_closed());
        let mut backoff = Backoff::new();
        while is_closed() {
            backoff.wait();
        }
    }

    #[cfg(test)]
    pub(crate) fn count_wait(&self, waits: bool) {
        self.waited.fetch_add(waits.into(), Ordering::SeqCst);
    }
}

/// Removals of ranges under way, and those who wait for them.
#[derive(Default)]
pub(crate) struct Removals {
    lock: RwLock<()>,
    /// How many have been found waiting since the database was opened, for tests.
    #[cfg(test)]
    waited: std::sync::atomic::AtomicUsize,
}

impl Removals {
    /// Begins a removal. The caller holds no stripe and no log shard.
    pub(crate) fn begin(&self) -> RwLockReadGuard<'_, ()> {
        #[cfg(test)]
        self.count_wait(self.lock.try_read().is_err());
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for those under way and lets none begin. The caller holds no stripe and no log shard.
    pub(crate) fn exclude(&self) -> RwLockWriteGuard<'_, ()> {
        #[cfg(test)]
        self.count_wait(self.lock.try_write().is_err());
        self.lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn count_wait(&self, waits: bool) {
        self.waited.fetch_add(waits.into(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, AtomicUsize};
    use std::thread;

    use super::*;
    use crate::{Db, Keyspace, Locks, WriteOptions};

    fn database() -> Db {
        let vfs = Arc::new(hedgerow_vfs::MemoryVfs::new());
        let builder = Db::builder()
            .workers(2)
            .checkpoint_log_bytes(None)
            .sweep_interval(None);
        builder.vfs(vfs).open("/db").unwrap()
    }

    fn touch(db: &Db, keyspace: &Keyspace, key: &[u8]) {
        let locks = Locks::Keys(&[(keyspace, key)]);
        let touched = db.transact(locks, &WriteOptions::default(), |transaction| {
            transaction.put(keyspace, key, b"touched")
        });
        touched.unwrap();
    }

    fn values(keyspace: &Keyspace, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut values = vec![None; keys.len()];
        let read = keyspace.get_many(keys, |i, row| {
            values[i] = row.and_then(|row| row.value().map(<[u8]>::to_vec));
        });
        read.map(|()| values).unwrap()
    }

    #[test]
    fn those_within_a_range_that_is_closed_wait_and_nobody_else() {
        let db = &database();
        let engine = db.keyspace("rows").unwrap().engine;
        let (keyspace, other) = (
            &db.keyspace("rows").unwrap(),
            &db.keyspace("other").unwrap(),
        );
        for key in [b"a", b"m", b"z"] {
            keyspace.put(key, b"old").unwrap();
        }
        let finished = &AtomicU32::new(0);
        thread::scope(|scope| {
            let under_way = engine.removals.begin();
            let all = engine.stripes.lock_many((0..STRIPES as u32).collect());
            let id = keyspace.space().unwrap().id;
            let bounds = (Bound::Included(&b"b"[..]), Bound::Excluded(&b"y"[..]));
            let closed = engine.stripes.close_range(&all, id, bounds);
            drop(all);
            other.put(b"m", b"elsewhere").unwrap();
            keyspace.put(b"z", b"put").unwrap();
            assert_eq!(keyspace.get(b"z").unwrap().unwrap(), b"put");
            touch(db, keyspace, b"a");
            let [a, z] = [b"touched".to_vec(), b"put".to_vec()].map(Some);
            assert_eq!(values(keyspace, &[b"a", b"z"]), [a, z]);
            assert_eq!(keyspace.delete_range("z"..).unwrap(), 1);
            assert_eq!(keyspace.count(..).unwrap(), 2);
            let waits: [Box<dyn FnOnce() + Send>; 6] = [
                Box::new(|| drop(keyspace.get(b"m").unwrap())),
                Box::new(|| drop(values(keyspace, &[b"a", b"m"]))),
                Box::new(|| _ = keyspace.put(b"c", b"put").unwrap()),
                Box::new(|| touch(db, keyspace, b"d")),
                Box::new(|| _ = keyspace.delete_range("n".."x").unwrap()),
                Box::new(|| {
                    let options = WriteOptions::default();
                    db.transact(Locks::All, &options, |_| Ok(())).unwrap();
                }),
            ];
            for wait in waits {
                meet(scope, &engine.stripes.waited, move || {
                    wait();
                    finished.fetch_add(1, Ordering::SeqCst);
                });
            }
            assert_eq!(finished.load(Ordering::SeqCst), 0);
            drop((closed, under_way));
        });
        assert_eq!(finished.load(Ordering::SeqCst), 6);
        assert_eq!(keyspace.count(..).unwrap(), 4);
    }

    /// Returns once `waits`, in a thread of its own, is counted as waiting; panics if it ends
    /// without.
    fn meet<'scope>(
        scope: &'scope thread::Scope<'scope, '_>,
        waited: &AtomicUsize,
        waits: impl FnOnce() + Send + 'scope,
    ) -> thread::ScopedJoinHandle<'scope, ()> {
        let before = waited.load(Ordering::SeqCst);
        let waiting = scope.spawn(waits);
        while waited.load(Ordering::SeqCst) == before {
            assert!(!waiting.is_finished(), "it waited for nothing");
            thread::yield_now();
        }
        waiting
    }

    #[test]
    fn checkpoints_and_the_end_of_a_keyspace_wait_for_a_removal() {
        let db = &database();
        let engine = db.keyspace("rows").unwrap().engine;
        let operations: [fn(&Db); 3] = [
            |db| assert!(db.checkpoint().is_ok()),
            |db| db.clear_keyspace("rows").unwrap(),
            |db| db.drop_keyspace("rows").unwrap(),
        ];
        for operation in operations {
            thread::scope(|scope| {
                let under_way = engine.removals.begin();
                let waiting = meet(scope, &engine.removals.waited, || operation(db));
                assert!(!waiting.is_finished());
                drop(under_way);
            });
        }
        assert!(db.keyspaces().is_empty());
    }

    #[test]
    fn no_entry_of_a_dropped_keyspace_goes_in_a_checkpoints_cut() {
        let db = &database();
        let engine = db.keyspace("rows").unwrap().engine;
        let nobody = u32::MAX;
        engine.expiries.both().0.add(nobody, b"key", 1).unwrap();
        thread::scope(|scope| {
            let cut = engine.removals.exclude();
            let sweep = || assert_eq!(db.sweep_expired().unwrap(), 0);
            meet(scope, &engine.removals.waited, sweep);
            assert_eq!(engine.expiries.both().0.count(), 1);
            drop(cut);
        });
        assert_eq!(engine.expiries.both().0.count(), 0);
    }

    #[test]
    fn a_range_is_closed_until_its_guard_is_dropped() {
        let stripes = Stripes::new();
        let all = stripes.lock_many((0..STRIPES as u32).collect());
        let bounds = (Bound::Excluded(&b"b"[..]), Bound::Included(&b"d"[..]));
        let first = stripes.close_range(&all, 1, bounds);
        let open = (Bound::Included(&b"e"[..]), Bound::Unbounded);
        let second = stripes.close_range(&all, 1, open);
        drop(all);
        let is_closed = |key: &str| stripes.is_in_closed_range(1, key.as_bytes());
        let keys = ["a", "b", "b\0", "d", "d\0", "e", "f"];
        assert_eq!(
            keys.map(is_closed),
            [false, false, true, true, false, true, true]
        );
        assert!(!stripes.is_in_closed_range(2, b"c"));
        let up_to = |end: &'static [u8]| (Bound::Unbounded, Bound::Included(end));
        assert!(
            !stripes.overlaps_closed_range(1, up_to(b"b"))
                && stripes.overlaps_closed_range(1, up_to(b"c"))
        );
        drop(first);
        assert_eq!(
            keys.map(is_closed)[1..],
            [false, false, false, false, true, true]
        );
        // Locks of several stripes are counted separately.
        drop(stripes.lock_many(vec![3]));
        assert!(stripes.has_multi() && stripes.has_closed_ranges());
        drop(second);
        assert!(!stripes.has_multi() && !stripes.has_closed_ranges());
    }
}
