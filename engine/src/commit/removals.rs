//! Ranges whose rows are leaving the index, for longer than everybody can wait.
//!
//! Who removes a range stops all writers for a moment, notes the range, and lets them go on: they
//! stay out of the range until it is done ([`Stripes::is_going`]). So do readers of single keys. The
//! rows then go while others are served, and at the end writers stop for another moment, in which
//! the commit gets its timestamp and its record.
//!
//! Until there is that record, what the index lacks is nobody's. So whoever would make the index's
//! state durable, or take it away, waits for the [`Removals`] under way: a checkpoint, and the end of
//! a keyspace.

use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hedgerow_sync::backoff::Backoff;

use crate::commit::closed_ranges::Going;
use crate::commit::stripes::{MultiGuard, REMOVAL, STRIPES, Stripes};
use crate::index::bounds::Bounds;

/// A range that is going, until it is dropped.
pub(crate) struct GoingRange<'a> {
    stripes: &'a Stripes,
    keyspace: u32,
    start: Bound<Vec<u8>>,
}

impl Drop for GoingRange<'_> {
    fn drop(&mut self) {
        // Ranges that are going do not meet, so their starts differ.
        let is_own = |range: &Going| range.keyspace == self.keyspace && range.start == self.start;
        let ranges = &self.stripes.going;
        ranges.change(|ranges| ranges.retain(|range| !is_own(range)));
        self.stripes.multi.fetch_sub(REMOVAL, Ordering::Release);
    }
}

impl Stripes {
    /// Notes a range that meets no other. The guard of all stripes says that nobody is within.
    pub(crate) fn note_going(
        &self,
        all: &MultiGuard<'_>,
        keyspace: u32,
        (start, end): Bounds<'_>,
    ) -> GoingRange<'_> {
        debug_assert_eq!(all.held().len(), STRIPES);
        let start = start.map(<[u8]>::to_vec);
        let range = Going {
            keyspace,
            start: start.clone(),
            end: end.map(<[u8]>::to_vec),
        };
        self.going.change(|ranges| ranges.push(range));
        self.multi.fetch_add(REMOVAL, Ordering::SeqCst);
        GoingRange {
            stripes: self,
            keyspace,
            start,
        }
    }

    /// Whether any range is going.
    #[inline]
    pub(crate) fn has_going(&self) -> bool {
        // Relaxed: who has a stripe has seen what was noted under all stripes.
        self.multi.load(Ordering::Relaxed) >= REMOVAL
    }

    /// Whether a key is in a range that is going. It stays so or not while its stripe is held.
    #[inline]
    pub(crate) fn is_going(&self, keyspace: u32, key: &[u8]) -> bool {
        self.has_going() && self.meets_going(keyspace, (Bound::Included(key), Bound::Included(key)))
    }

    /// Whether a range meets one that is going.
    #[cold]
    pub(crate) fn meets_going(&self, keyspace: u32, bounds: Bounds<'_>) -> bool {
        self.going.meet(keyspace, bounds)
    }

    /// Waits while something `is_going`. The caller holds no stripe and no log shard.
    #[cold]
    pub(crate) fn await_going(&self, is_going: impl Fn() -> bool) {
        let mut backoff = Backoff::new();
        while is_going() {
            backoff.wait();
        }
    }
}

/// Removals of ranges under way, and those who wait for them.
#[derive(Default)]
pub(crate) struct Removals(RwLock<()>);

impl Removals {
    /// Begins a removal. The caller holds no stripe and no log shard.
    pub(crate) fn begin(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for those under way and lets none begin. The caller holds no stripe and no log shard.
    pub(crate) fn hold_off(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::{Db, Keyspace, Locks, WriteOptions};

    fn database() -> Db {
        let vfs = Arc::new(hedgerow_vfs::MemoryVfs::new());
        let builder = Db::builder().workers(2).checkpoint_log_bytes(None);
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
    fn those_within_a_range_that_is_going_wait_and_nobody_else() {
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
        let done = || finished.fetch_add(1, Ordering::SeqCst);
        thread::scope(|scope| {
            let under_way = engine.removals.begin();
            let all = engine.stripes.lock_many((0..STRIPES as u32).collect());
            let id = keyspace.space().unwrap().id;
            let bounds = (Bound::Included(&b"b"[..]), Bound::Excluded(&b"y"[..]));
            let going = engine.stripes.note_going(&all, id, bounds);
            drop(all);
            other.put(b"m", b"elsewhere").unwrap();
            keyspace.put(b"z", b"put").unwrap();
            assert_eq!(keyspace.get(b"z").unwrap().unwrap(), b"put");
            touch(db, keyspace, b"a");
            let [a, z] = [b"touched".to_vec(), b"put".to_vec()].map(Some);
            assert_eq!(values(keyspace, &[b"a", b"z"]), [a, z]);
            assert_eq!(keyspace.delete_range("z"..).unwrap(), 1);
            assert_eq!(keyspace.count(..).unwrap(), 2);
            scope.spawn(|| {
                keyspace.get(b"m").unwrap();
                done();
            });
            scope.spawn(|| {
                values(keyspace, &[b"a", b"m"]);
                done();
            });
            scope.spawn(|| {
                keyspace.put(b"c", b"put").unwrap();
                done();
            });
            scope.spawn(|| {
                touch(db, keyspace, b"d");
                done();
            });
            scope.spawn(|| {
                keyspace.delete_range("n".."x").unwrap();
                done();
            });
            scope.spawn(|| {
                let options = WriteOptions::default();
                db.transact(Locks::All, &options, |_| Ok(())).unwrap();
                done();
            });
            thread::sleep(Duration::from_millis(50));
            assert_eq!(finished.load(Ordering::SeqCst), 0);
            drop((going, under_way));
        });
        assert_eq!(finished.load(Ordering::SeqCst), 6);
        assert_eq!(keyspace.count(..).unwrap(), 4);
    }

    #[test]
    fn checkpoints_and_the_end_of_a_keyspace_wait_for_a_removal() {
        let db = &database();
        let engine = db.keyspace("rows").unwrap().engine;
        let finished = &AtomicU32::new(0);
        let done = || finished.fetch_add(1, Ordering::SeqCst);
        thread::scope(|scope| {
            let under_way = engine.removals.begin();
            scope.spawn(|| {
                db.checkpoint().unwrap();
                done();
            });
            scope.spawn(|| {
                db.clear_keyspace("rows").unwrap();
                done();
            });
            thread::sleep(Duration::from_millis(50));
            assert_eq!(finished.load(Ordering::SeqCst), 0);
            drop(under_way);
        });
        assert_eq!(finished.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn no_entry_of_a_dropped_keyspace_goes_in_a_checkpoints_cut() {
        let db = &database();
        let engine = db.keyspace("rows").unwrap().engine;
        let nobody = u32::MAX;
        engine.expiries.add(nobody, b"key", 1).unwrap();
        thread::scope(|scope| {
            let cut = engine.removals.hold_off();
            scope.spawn(|| db.sweep_expired().unwrap());
            thread::sleep(Duration::from_millis(50));
            assert_eq!(engine.expiries.count(), 1);
            drop(cut);
        });
        assert_eq!(engine.expiries.count(), 0);
    }

    #[test]
    fn a_range_is_going_until_its_guard_is_dropped() {
        let stripes = Stripes::new();
        let all = stripes.lock_many((0..STRIPES as u32).collect());
        let bounds = (Bound::Excluded(&b"b"[..]), Bound::Included(&b"d"[..]));
        let first = stripes.note_going(&all, 1, bounds);
        let open = (Bound::Included(&b"e"[..]), Bound::Unbounded);
        let second = stripes.note_going(&all, 1, open);
        drop(all);
        let going = |key: &str| stripes.is_going(1, key.as_bytes());
        let keys = ["a", "b", "b\0", "d", "d\0", "e", "f"];
        assert_eq!(
            keys.map(going),
            [false, false, true, true, false, true, true]
        );
        assert!(!stripes.is_going(2, b"c"));
        let up_to = |end: &'static [u8]| (Bound::Unbounded, Bound::Included(end));
        assert!(!stripes.meets_going(1, up_to(b"b")) && stripes.meets_going(1, up_to(b"c")));
        drop(first);
        assert_eq!(
            keys.map(going)[1..],
            [false, false, false, false, true, true]
        );
        // Who holds stripes of several keys says so apart from that.
        drop(stripes.lock_many(vec![3]));
        assert!(stripes.has_multi() && stripes.has_going());
        drop(second);
        assert!(!stripes.has_multi() && !stripes.has_going());
    }
}
