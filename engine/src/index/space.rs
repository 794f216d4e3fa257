//! A keyspace's contents: its index, its row count and its entries in the expiry index.
//!
//! [`Space::install`], [`Space::remove_row`], [`Space::remove_rows`] and their twins for recovery
//! are the only places where rows change: they update the row count and the expiry index, too.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_index::{
    Decision, Direction, IndexError, RangeDecision, ScanRange, ValuePart, is_inverted,
};
use hedgerow_log::Timestamp;
use hedgerow_sync::StripedCounter;

use crate::commit::watches::Watches;
use crate::error::Error;
use crate::index::any_index::AnyIndex;
use crate::index::bounds::Bounds;
use crate::index::cursors::Cursors;
use crate::index::expiry::Expiries;
use crate::index::kind::IndexKind;
use crate::row::{self, ColumnChanges, Columns, Row};
use crate::versions::lists::Retention;
use crate::versions::store::VersionStore;

pub(crate) struct Space {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: IndexKind,
    pub(crate) index: AnyIndex,
    /// What snapshots see of rows that were replaced or removed.
    pub(crate) versions: Arc<VersionStore>,
    length: StripedCounter,
    /// How many rows have an expiry.
    expiring: StripedCounter,
    /// Where draws of random keys continue.
    pub(crate) cursors: Cursors,
    /// Set, under all stripes, when the keyspace was dropped or cleared.
    retired: AtomicBool,
}

/// An index, and the counters of its rows.
pub(crate) struct StoredIndex {
    pub(crate) index: AnyIndex,
    pub(crate) rows: u64,
    pub(crate) expiring: u64,
}

/// How much of a row a commit needs that replaces it.
#[inline]
fn part_to_keep(retention: Option<Retention<'_>>) -> ValuePart {
    match retention {
        Some(_) => ValuePart::Whole,
        None => ValuePart::Head,
    }
}

/// What an installed row replaced.
struct Replaced {
    /// Its version, if there was a row.
    version: Option<Timestamp>,
    expiry_ms: Option<u64>,
}

impl Replaced {
    fn of(old: Option<&[u8]>) -> Replaced {
        Replaced {
            version: old.map(|bytes| Row::new(bytes).timestamp()),
            expiry_ms: old.and_then(|bytes| Row::new(bytes).expiry_ms()),
        }
    }
}

impl Space {
    pub(crate) fn new(id: u32, name: &str, kind: IndexKind, stored: StoredIndex) -> Space {
        let space = Space {
            id,
            name: name.to_owned(),
            kind,
            index: stored.index,
            versions: Arc::default(),
            length: StripedCounter::new(),
            expiring: StripedCounter::new(),
            cursors: Cursors::default(),
            retired: AtomicBool::new(false),
        };
        space.length.add(stored.rows as i64);
        space.expiring.add(stored.expiring as i64);
        space
    }

    /// Refuses to store a row under a key that the index cannot have.
    #[inline]
    pub(crate) fn check_key_width(&self, key: &[u8]) -> Result<(), Error> {
        match self.kind.key_bytes() {
            Some(wanted) if key.len() != wanted => Err(Error::KeyWidth {
                bytes: key.len(),
                wanted,
                keyspace: self.name.clone(),
                index: self.kind.name(),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.length.sum()
    }

    pub(crate) fn expiring(&self) -> u64 {
        self.expiring.sum()
    }

    /// Adds a row to the expiry index, before the row changes.
    #[inline]
    fn precede(&self, expiries: &Expiries, key: &[u8], new: Option<u64>) -> Result<(), IndexError> {
        match new {
            Some(expiry_ms) => expiries.of(&self.index).add(self.id, key, expiry_ms),
            None => Ok(()),
        }
    }

    /// Removes the old entry of a changed row from the expiry index.
    #[inline]
    fn follow(&self, expiries: &Expiries, key: &[u8], old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        self.expiring
            .add(i64::from(new.is_some()) - i64::from(old.is_some()));
        if let Some(expiry_ms) = old {
            // An entry that cannot be removed now is removed when it is due.
            let _ = expiries.of(&self.index).remove(self.id, key, expiry_ms);
        }
    }

    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Stores the row that `encode` writes, and keeps the one that it replaces for snapshots.
    /// `buffer` holds the new row afterwards. The caller holds the key's stripe, or is the only
    /// thread that writes the key.
    #[inline]
    pub(crate) fn install(
        &self,
        expiries: &Expiries,
        retention: Option<Retention<'_>>,
        key: &[u8],
        expiry_ms: Option<u64>,
        buffer: &mut Vec<u8>,
        encode: impl Fn(&mut Vec<u8>),
    ) -> Result<(), IndexError> {
        self.precede(expiries, key, expiry_ms)?;
        let part = part_to_keep(retention);
        let replaced = self.index.update(key, part, buffer, |old, new| {
            self.keep(retention, key, old);
            encode(new);
            Decision::Put(Replaced::of(old))
        })?;
        if replaced.version.is_none() {
            self.length.add(1);
        }
        self.follow(expiries, key, replaced.expiry_ms, expiry_ms);
        Ok(())
    }

    /// Keeps what a key has, if there is a snapshot that could see it.
    #[inline]
    fn keep(&self, retention: Option<Retention<'_>>, key: &[u8], old: Option<&[u8]>) {
        if let Some(retention) = retention {
            retention.keep(&self.versions, key, old);
        }
    }

    /// Removes a row, and keeps it for snapshots. The caller holds the key's stripe, or is the only
    /// thread that writes the key.
    pub(crate) fn remove_row(
        &self,
        expiries: &Expiries,
        watches: &Watches,
        retention: Option<Retention<'_>>,
        key: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        let part = part_to_keep(retention);
        let replaced = self.index.update(key, part, buffer, |old, _| {
            self.keep(retention, key, old);
            Decision::Remove(Replaced::of(old))
        })?;
        if let Some(version) = replaced.version {
            self.length.add(-1);
            watches.removed(&self.name, key, version);
        }
        self.follow(expiries, key, replaced.expiry_ms, None);
        Ok(())
    }
}

impl Space {
    /// Removes the rows between two bounds for which `wanted` holds, until it breaks, and keeps
    /// them for snapshots. The caller sees to it that nobody else writes them.
    pub(crate) fn remove_rows(
        &self,
        expiries: &Expiries,
        retention: Option<Retention<'_>>,
        (start, end): Bounds<'_>,
        mut wanted: impl FnMut(&[u8], Row<'_>) -> RangeDecision,
    ) -> RemovedRows {
        let mut gone = RemovedBatch::default();
        let mut rows = 0;
        loop {
            let from = gone.last.clone();
            let from = from.as_deref().map_or(start, Bound::Excluded);
            let mut is_all = true;
            let mut wanted = |key: &[u8], row: Row<'_>| {
                let wanted = wanted(key, row);
                is_all = wanted.is_continue();
                wanted
            };
            let removed = match retention {
                Some(retention) => {
                    self.remove_retained(retention, (from, end), &mut gone, &mut wanted)
                }
                None => {
                    let index = self.index.as_dyn();
                    index.remove_range(from, end, &mut |key, bytes| {
                        if gone.is_full() {
                            return ControlFlow::Break(());
                        }
                        let row = Row::new(bytes);
                        let wanted = wanted(key, row);
                        if wanted? {
                            gone.push(key, row.expiry_ms());
                        }
                        wanted
                    })
                }
            };
            let is_full = gone.is_full();
            rows += gone.rows;
            self.length.add(-(gone.rows as i64));
            // Not from within the tree, which has latched pages of the same pool.
            for (key, expiry_ms) in gone.take() {
                self.follow(expiries, &key, Some(expiry_ms), None);
            }
            if removed.is_err() || !is_all || !is_full {
                return RemovedRows {
                    rows,
                    last: gone.last,
                    is_all,
                    failed: removed.err(),
                };
            }
        }
    }
}

/// Rows that are copied at once before they are removed one by one: so many at most, and no more
/// once they have so many bytes.
const RETAINED_CHUNK: usize = 256;
const MOST_RETAINED_BYTES: usize = 1 << 20;

impl Space {
    /// [`Index::remove_range`](hedgerow_index::Index::remove_range) for rows that snapshots see: an
    /// index that empties leaves does not show rows as a whole, so they go one by one. What went is
    /// in `gone`, also after an error; ends when that is full.
    fn remove_retained(
        &self,
        retention: Retention<'_>,
        (start, end): Bounds<'_>,
        gone: &mut RemovedBatch,
        wanted: &mut dyn FnMut(&[u8], Row<'_>) -> RangeDecision,
    ) -> Result<(), IndexError> {
        let mut buffer = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        loop {
            let from = last.as_deref().map_or(start, Bound::Excluded);
            let range = ScanRange::between((from, end), Direction::Forward).limited(RETAINED_CHUNK);
            let (mut rows, mut bytes, mut is_all) = (Vec::new(), 0, true);
            self.index.scan(&range, |key, row| {
                if bytes >= MOST_RETAINED_BYTES {
                    is_all = false;
                    return ControlFlow::Break(());
                }
                bytes += key.len() + row.len();
                rows.push((key.to_vec(), row.to_vec()));
                ControlFlow::Continue(())
            })?;
            for (key, row) in &rows {
                if gone.is_full() {
                    return Ok(());
                }
                match wanted(key, Row::new(row)) {
                    ControlFlow::Break(()) => return Ok(()),
                    ControlFlow::Continue(false) => continue,
                    ControlFlow::Continue(true) => {}
                }
                self.keep(Some(retention), key, Some(row));
                let remove = |_: Option<&[u8]>, _: &mut Vec<u8>| Decision::Remove(());
                self.index
                    .update(key, ValuePart::Head, &mut buffer, remove)?;
                gone.push(key, Row::new(row).expiry_ms());
            }
            if is_all && rows.len() < RETAINED_CHUNK {
                return Ok(());
            }
            last = rows.pop().map(|(key, _)| key);
        }
    }
}

/// The result of a removal of rows.
pub(crate) struct RemovedRows {
    /// The number of rows removed, and the last of them.
    pub(crate) rows: u64,
    pub(crate) last: Option<Vec<u8>>,
    /// Whether `wanted` saw all rows.
    pub(crate) is_all: bool,
    pub(crate) failed: Option<IndexError>,
}

/// The most expiries that are collected before they are removed, and the most bytes of their keys.
const MOST_EXPIRIES: usize = 1 << 14;
const MOST_EXPIRY_BYTES: usize = 1 << 20;

/// Removed rows whose entries of the expiry index must still be removed.
#[derive(Default)]
struct RemovedBatch {
    rows: u64,
    last: Option<Vec<u8>>,
    expiring: Vec<(Vec<u8>, u64)>,
    /// Bytes of the keys of these.
    expiring_bytes: usize,
}

/// Rows that are removed, or forgotten, between two checks whether the database closes.
const CHUNK_ROWS: usize = 1024;
/// Bytes of rows that are read between two such checks, about: a B-tree reads whole values.
const CHUNK_BYTES: usize = 1 << 20;

impl Space {
    /// Removes all rows of a keyspace that no thread can write any more, but some may still read.
    pub(crate) fn empty(&self, is_closed: &impl Fn() -> bool) -> Result<(), IndexError> {
        let mut buffer = Vec::new();
        loop {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
            let some = all.limited(CHUNK_ROWS).keys_only();
            self.index.scan(&some, |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            })?;
            if keys.is_empty() || is_closed() {
                return Ok(());
            }
            for key in keys {
                let remove = |_: Option<&[u8]>, _: &mut Vec<u8>| Decision::Remove(());
                self.index
                    .update(&key, ValuePart::Head, &mut buffer, remove)?;
            }
        }
    }
}

impl RemovedBatch {
    fn push(&mut self, key: &[u8], expiry_ms: Option<u64>) {
        self.rows += 1;
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        if let Some(expiry_ms) = expiry_ms {
            self.expiring.push((key.to_vec(), expiry_ms));
            self.expiring_bytes += key.len();
        }
    }

    fn is_full(&self) -> bool {
        self.expiring.len() >= MOST_EXPIRIES || self.expiring_bytes >= MOST_EXPIRY_BYTES
    }

    fn take(&mut self) -> Vec<(Vec<u8>, u64)> {
        (self.rows, self.expiring_bytes) = (0, 0);
        std::mem::take(&mut self.expiring)
    }
}

/// What a retired keyspace has in the expiry index, removed in steps. The sweeper removes entries
/// that these miss when they are due, since their keyspace is gone.
impl Space {
    /// Removes the entries of some rows behind a key; the last of these, if there may be others.
    pub(crate) fn forget_rows(&self, expiries: &Expiries, from: Option<&[u8]>) -> Option<Vec<u8>> {
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let all = ScanRange::starting_at(from, Direction::Forward);
        let (mut rows, mut row_bytes, mut last) = (0, 0, None);
        let scanned = self.index.scan(&all.limited(CHUNK_ROWS), |key, bytes| {
            self.follow(expiries, key, Row::new(bytes).expiry_ms(), None);
            rows += 1;
            row_bytes += bytes.len();
            if rows < CHUNK_ROWS && row_bytes < CHUNK_BYTES {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            ControlFlow::Break(())
        });
        scanned.ok()?;
        last.filter(|_| self.expiring() > 0)
    }

    /// Removes those among some entries of all keyspaces behind one; the last of these, if there
    /// may be others.
    pub(crate) fn forget_entries(
        &self,
        expiries: &Expiries,
        from: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let entries = expiries.of(&self.index);
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let some = entries.due(from, u64::MAX, CHUNK_ROWS).ok()?;
        for found in some.rows.iter().filter(|found| found.keyspace == self.id) {
            entries.remove_found(found).ok()?;
            self.expiring.add(-1);
        }
        some.more_behind.filter(|_| self.expiring() > 0)
    }
}

/// Recovery: repeats changes, unless the row is newer.
impl Space {
    pub(crate) fn replay_put(
        &self,
        expiries: &Expiries,
        key: &[u8],
        timestamp: Timestamp,
        body: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        self.replay(expiries, key, timestamp, buffer, |_, new| {
            new.extend_from_slice(&timestamp.raw().to_le_bytes());
            new.extend_from_slice(body);
            true
        })
    }

    /// `changes` is the payload of a `PutColumns` record.
    pub(crate) fn replay_columns(
        &self,
        expiries: &Expiries,
        key: &[u8],
        timestamp: Timestamp,
        changes: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        self.replay(expiries, key, timestamp, buffer, |old, new| {
            let base = old.map(Row::new);
            let (expiry_ms, user_flags) =
                base.map_or((None, 0), |row| (row.expiry_ms(), row.user_flags()));
            row::write_header(new, timestamp, expiry_ms, user_flags, true);
            let columns = base.map_or(Columns::NONE, |row| row.columns());
            let changes = ColumnChanges::decode(changes).into_iter().flatten();
            row::write_columns(new, row::merge_columns(columns, changes).into_iter());
            true
        })
    }

    pub(crate) fn replay_remove(
        &self,
        expiries: &Expiries,
        key: &[u8],
        timestamp: Timestamp,
        buffer: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        self.replay(expiries, key, timestamp, buffer, |_, _| false)
    }

    /// Removes the rows between two bounds that are older than the removal and that
    /// `is_own` says are this thread's.
    pub(crate) fn replay_remove_range(
        &self,
        expiries: &Expiries,
        bounds: Bounds<'_>,
        timestamp: Timestamp,
        is_own: impl Fn(&[u8]) -> bool,
    ) -> Result<(), IndexError> {
        if is_inverted(bounds.0, bounds.1) {
            return Ok(());
        }
        let is_older = |key: &[u8], row: Row<'_>| {
            ControlFlow::Continue(row.timestamp() < timestamp && is_own(key))
        };
        let took = self.remove_rows(expiries, None, bounds, is_older);
        took.failed.map_or(Ok(()), Err)
    }

    /// `make` writes the new row and returns true, or returns false to remove the row.
    fn replay(
        &self,
        expiries: &Expiries,
        key: &[u8],
        timestamp: Timestamp,
        buffer: &mut Vec<u8>,
        make: impl Fn(Option<&[u8]>, &mut Vec<u8>) -> bool,
    ) -> Result<(), IndexError> {
        let part = ValuePart::Whole;
        let replaced = self.index.update(key, part, buffer, |old, new| {
            if old.is_some_and(|old| Row::new(old).timestamp() >= timestamp) {
                return Decision::Keep(None);
            }
            let replaced = Replaced::of(old);
            if make(old, new) {
                Decision::Put(Some((replaced, true, Row::new(new).expiry_ms())))
            } else {
                Decision::Remove(Some((replaced, false, None)))
            }
        })?;
        let Some((replaced, present, expiry_ms)) = replaced else {
            return Ok(());
        };
        self.length
            .add(i64::from(present) - i64::from(replaced.version.is_some()));
        // No reader sees it before all is replayed.
        self.precede(expiries, key, expiry_ms)?;
        self.follow(expiries, key, replaced.expiry_ms, expiry_ms);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::TIMESTAMP_BYTES;

    const KINDS: [IndexKind; 5] = [
        IndexKind::Masstree,
        IndexKind::Matryoshka,
        IndexKind::BwTree,
        IndexKind::Bst,
        IndexKind::LockedMap,
    ];

    fn index(kind: IndexKind) -> AnyIndex {
        let made = AnyIndex::in_memory(kind).expect("there is address space");
        made.expect("it needs no file")
    }

    fn body(value: &[u8], expiry_ms: Option<u64>) -> Vec<u8> {
        let mut row = Vec::new();
        row::write_header(&mut row, Timestamp::ZERO, expiry_ms, 0, false);
        row.extend_from_slice(value);
        row.split_off(TIMESTAMP_BYTES)
    }

    fn at(sequence: u32) -> Timestamp {
        Timestamp::new(7, sequence)
    }

    /// A log's records of a row lead to the row's last state, whatever the tree had at first: so
    /// skipping older records would change only the cost. Here newer records do not follow.
    #[test]
    fn a_record_leaves_a_row_alone_that_is_as_new() {
        for kind in KINDS {
            let stored = StoredIndex {
                index: index(kind),
                rows: 0,
                expiring: 0,
            };
            let space = Space::new(1, "rows", kind, stored);
            let expiries = Expiries::default();
            let (key, mut buffer) = (&b"some key"[..], Vec::new());
            let newest = body(b"newest", Some(900));
            space
                .replay_put(&expiries, key, at(5), &newest, &mut buffer)
                .unwrap();
            let mut changes = Vec::new();
            let change = [(&b"name"[..], Some(&b"older"[..]))];
            row::write_column_changes(&mut changes, change.into_iter());
            for time in [at(3), at(5)] {
                let older = body(b"older", None);
                space
                    .replay_put(&expiries, key, time, &older, &mut buffer)
                    .unwrap();
                space
                    .replay_columns(&expiries, key, time, &changes, &mut buffer)
                    .unwrap();
                space
                    .replay_remove(&expiries, key, time, &mut buffer)
                    .unwrap();
                let all = (Bound::Unbounded, Bound::Unbounded);
                space
                    .replay_remove_range(&expiries, all, time, |_| true)
                    .unwrap();
                let found = space.index.get(key, ValuePart::Whole, |bytes| {
                    let row = Row::new(bytes);
                    let value = row.value().map(<[u8]>::to_vec);
                    (row.timestamp(), row.expiry_ms(), value)
                });
                let expected = (at(5), Some(900), Some(b"newest".to_vec()));
                assert_eq!(found.unwrap(), Some(expected), "{kind:?}, {time}");
                assert_eq!((space.len(), space.expiring()), (1, 1));
            }
            space
                .replay_columns(&expiries, key, at(6), &changes, &mut buffer)
                .unwrap();
            assert_eq!((space.len(), space.expiring()), (1, 1));
            let all = (Bound::Unbounded, Bound::Unbounded);
            space
                .replay_remove_range(&expiries, all, at(7), |_| true)
                .unwrap();
            assert_eq!((space.len(), space.expiring()), (0, 0));
        }
    }
}
