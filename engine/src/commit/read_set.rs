//! What a serializable transaction read: keys, and ranges as ranges, however many rows they have.
//! At the commit it must still be so.
//!
//! Validation asks the version stores, not the indexes: while a transaction is open, every write
//! leaves there what it replaced, or that there was nothing. A read still holds if the store has no
//! version of the key, or of any key of the range, that ended after the transaction's moment
//! (precision locking; Neumann, Mühlbauer, Kemper, SIGMOD 2015, §2.3, with the version store in
//! place of undo buffers). Keys that others are about to write come from their
//! [intents](crate::versions::intents).
//!
//! A row that expires is a change that nobody writes: whoever looks after that sees no row. So a
//! transaction that saw it may not commit any more. Of all rows that it saw, the one that expires
//! first is remembered.
//!
//! A store with a million versions is slow to ask. So a key's [stripe](crate::commit::stripes) is
//! asked first: if its last commit is not after the moment, neither is the key's.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hedgerow_index::{Direction, ScanRange};
use hedgerow_log::Timestamp;

use crate::commit::stripes::MultiGuard;
use crate::error::{Error, Result};
use crate::index::bounds::Bounds;
use crate::index::space::Space;
use crate::planted::{PlantedBug, planted};
use crate::row::Row;
use crate::versions::intents::{WriteSet, has_key, key_within};

/// Keys after which a list is freed of those that are in it twice.
const FEW_KEYS: usize = 64;
/// What a key or a range takes beside its bytes.
const OVERHEAD_BYTES: usize = 32;

/// A range that was read.
#[derive(PartialEq, Eq)]
struct ReadRange {
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
}

impl ReadRange {
    fn bounds(&self) -> Bounds<'_> {
        let (start, end) = (self.start.as_ref(), self.end.as_ref());
        (start.map(Vec::as_slice), end.map(Vec::as_slice))
    }
}

/// What was read of one keyspace.
struct ReadsOf {
    space: Arc<Space>,
    keys: Vec<Box<[u8]>>,
    /// Length of `keys` at which they are sorted next.
    tidy_at: usize,
    ranges: Vec<ReadRange>,
}

/// A row that was seen and will expire.
struct ExpiringRow {
    expiry_ms: u64,
    space: Arc<Space>,
    key: Box<[u8]>,
}

/// Of the rows that a transaction has seen, the one that expires first.
#[derive(Default)]
pub(crate) struct FirstExpiry(Option<ExpiringRow>);

impl FirstExpiry {
    /// Remembers that a row was seen which has not expired yet.
    #[inline]
    pub(crate) fn add(&mut self, space: &Arc<Space>, key: &[u8], row: Row<'_>) {
        let Some(expiry_ms) = row.expiry_ms() else {
            return;
        };
        let first = self.0.as_ref();
        if first.is_none_or(|first| expiry_ms < first.expiry_ms) {
            self.0 = Some(ExpiringRow {
                expiry_ms,
                space: Arc::clone(space),
                key: key.into(),
            });
        }
    }

    /// Whether no row that was seen has expired; `now` tells the time in Unix milliseconds. The
    /// caller has its log shard locked.
    ///
    /// # Errors
    /// [`Error::TransactionConflict`].
    pub(crate) fn check(&self, now: impl FnOnce() -> u64) -> Result<()> {
        match &self.0 {
            Some(first) if first.expiry_ms <= now() => {
                let what = format!("{}, which expired", name_key(&first.key));
                Err(conflict(&first.space, what))
            }
            _ => Ok(()),
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct ReadSet {
    keyspaces: BTreeMap<u32, ReadsOf>,
    first_expiry: FirstExpiry,
    bytes: usize,
}

/// Since when a transaction that commits asks for changes.
#[derive(Clone, Copy)]
pub(crate) struct Since<'a> {
    /// The stripes of the keys that it writes.
    pub(crate) locked: &'a MultiGuard<'a>,
    /// Its snapshot's.
    pub(crate) moment: Timestamp,
}

impl Since<'_> {
    /// Whether somebody wrote a key.
    pub(crate) fn is_written(&self, space: &Space, key: &[u8]) -> bool {
        self.locked.may_have_changed(space.id, key, self.moment)
            && space.versions.has_changed(key, self.moment)
    }
}

/// A read that does not hold any more.
pub(crate) fn conflict(space: &Space, what: String) -> Error {
    Error::TransactionConflict {
        keyspace: space.name.clone(),
        what,
    }
}

/// The most bytes of a key that an error shows.
const SHOWN_KEY_BYTES: usize = 128;

/// A key, for [`conflict`], or its beginning.
pub(crate) fn name_key(key: &[u8]) -> String {
    match key.get(..SHOWN_KEY_BYTES) {
        Some(shown) if shown.len() < key.len() => {
            let bytes = key.len();
            format!("key \"{}…\" of {bytes} bytes", shown.escape_ascii())
        }
        _ => format!("key \"{}\"", key.escape_ascii()),
    }
}

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keyspaces.is_empty()
    }

    /// What remembering it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn of(&mut self, space: &Arc<Space>) -> &mut ReadsOf {
        self.keyspaces.entry(space.id).or_insert_with(|| ReadsOf {
            space: Arc::clone(space),
            keys: Vec::new(),
            tidy_at: FEW_KEYS,
            ranges: Vec::new(),
        })
    }

    /// Remembers that a key was read, whether it has a row or not.
    pub(crate) fn add_key(&mut self, space: &Arc<Space>, key: &[u8]) {
        let reads = self.of(space);
        if reads.keys.last().is_some_and(|last| **last == *key) {
            return;
        }
        reads.keys.push(key.into());
        let mut bytes = (key.len() + OVERHEAD_BYTES) as isize;
        if reads.keys.len() >= reads.tidy_at {
            let total = |keys: &[Box<[u8]>]| -> usize {
                keys.iter().map(|key| key.len() + OVERHEAD_BYTES).sum()
            };
            let before = total(&reads.keys);
            reads.keys.sort_unstable();
            reads.keys.dedup();
            reads.tidy_at = FEW_KEYS.max(2 * reads.keys.len());
            bytes -= (before - total(&reads.keys)) as isize;
        }
        self.bytes = self.bytes.saturating_add_signed(bytes);
    }

    /// Remembers that a range was read.
    pub(crate) fn add_range(&mut self, space: &Arc<Space>, (start, end): Bounds<'_>) {
        let range = ReadRange {
            start: start.map(<[u8]>::to_vec),
            end: end.map(<[u8]>::to_vec),
        };
        let reads = self.of(space);
        if reads.ranges.last() == Some(&range) {
            return;
        }
        let length = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        let bytes = length(&range.start) + length(&range.end) + 2 * OVERHEAD_BYTES;
        reads.ranges.push(range);
        self.bytes += bytes;
    }

    /// Remembers that a row was seen which has not expired yet.
    #[inline]
    pub(crate) fn add_seen(&mut self, space: &Arc<Space>, key: &[u8], row: Row<'_>) {
        self.first_expiry.add(space, key, row);
    }

    /// Whether everything is still as it was, and nobody of `others` is about to change it; `now`
    /// tells the time in Unix milliseconds. The caller keeps keyspaces from being cleared and
    /// dropped, and has seen to it that no commit of an earlier epoch is under way.
    ///
    /// # Errors
    /// [`Error::TransactionConflict`].
    pub(crate) fn validate(
        &self,
        since: Since<'_>,
        others: &[Arc<WriteSet>],
        now: impl FnOnce() -> u64,
    ) -> Result<()> {
        self.first_expiry.check(now)?;
        let mut keyspaces = self.keyspaces.values();
        keyspaces.try_for_each(|reads| reads.validate(since, others))
    }
}

impl ReadsOf {
    fn validate(&self, since: Since<'_>, others: &[Arc<WriteSet>]) -> Result<()> {
        let (space, id) = (&*self.space, self.space.id);
        if space.is_retired() {
            return Err(conflict(space, "all keys, which were cleared".to_owned()));
        }
        let is_changed = |key: &[u8]| {
            others.iter().any(|set| has_key(set, id, key)) || since.is_written(space, key)
        };
        if space.versions.is_empty() && others.is_empty() {
            return Ok(());
        }
        if let Some(key) = self.keys.iter().find(|key| is_changed(key)) {
            return Err(conflict(space, name_key(key)));
        }
        if planted(PlantedBug::RangesNotValidated) {
            return Ok(());
        }
        for range in &self.ranges {
            let bounds = range.bounds();
            let announced = others.iter().find_map(|set| key_within(set, id, bounds));
            let changed = announced.map(<[u8]>::to_vec).or_else(|| {
                let range = ScanRange::between(bounds, Direction::Forward);
                space.versions.changed_within(&range, since.moment)
            });
            if let Some(key) = changed {
                let what = format!("{} of a range that it read", name_key(&key));
                return Err(conflict(space, what));
            }
        }
        Ok(())
    }
}
