//! Databases in memory: one map of versions behind one mutex, which keeps what an isolation level
//! promises, or breaks it in one way.
//!
//! A transaction reads at the timestamp of its snapshot, and commits by itself: under snapshot
//! isolation the first committer of a key wins; under serializability nothing that it read, and no
//! range, may have changed since. Transactions do not wait for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow_testkit::serializability::driver::{Aborted, TransactionSubject};
use hedgerow_testkit::serializability::{Key, KeyRange, Status};

/// What a database promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    ReadCommitted,
    Snapshot,
    Serializable,
}

/// How a database breaks its promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// Ranges are not validated.
    SkipsRanges,
    /// Keys that were absent when they were read are not validated.
    SkipsAbsentKeys,
    /// Reads of single keys are not validated.
    SkipsKeys,
    /// Both of two writers of a key commit.
    SkipsWriteConflicts,
    /// Snapshots miss the last commit.
    StaleSnapshots,
    /// Snapshots see only the first write of the last commit.
    HalfCommits,
    /// Reads of single keys see what was committed after the snapshot.
    ReadsTheFuture,
    /// Every 40th commit is acknowledged and installs nothing.
    LosesCommits,
    /// Every 40th conflict installs all the same.
    InstallsConflicts,
    /// Reads do not see the transaction's own writes.
    ForgetsOwnWrites,
    /// Ranges have removed keys.
    RangesShowRemoved,
    /// Ranges stop before their last key.
    RangesStopEarly,
    /// Removals of ranges stop before their last key.
    RemovalsStopEarly,
    /// Of the versions of a key only the last one is there: snapshots find the key absent.
    ReclaimsTooEarly,
    /// Every 40th commit gets its timestamp before its predecessor's.
    SwapsTimestamps,
    /// A commit that conflicts takes what it read as read just now, and tries again.
    RetriesWithStaleReads,
}

type Bytes = Option<Vec<u8>>;

#[derive(Debug, Default)]
struct State {
    versions: BTreeMap<Key, Vec<(u64, Bytes)>>,
    /// The timestamp of the last commit, and the last key that it wrote. Timestamps are even.
    last: (u64, Option<Key>),
    attempts: u64,
}

impl State {
    fn at(&self, key: Key, snapshot: u64) -> &Bytes {
        let versions = self.versions.get(&key).map_or(&[][..], Vec::as_slice);
        let mut seen = versions.iter().rev();
        let seen = seen.find(|(timestamp, _)| *timestamp <= snapshot);
        seen.map_or(&None, |(_, value)| value)
    }

    fn changed(&self, key: Key) -> u64 {
        let versions = self.versions.get(&key).and_then(|versions| versions.last());
        versions.map_or(0, |(timestamp, _)| *timestamp)
    }

    fn changed_in(&self, range: KeyRange) -> u64 {
        let keys = self.versions.keys().filter(|key| range.contains(**key));
        keys.map(|key| self.changed(*key)).max().unwrap_or(0)
    }
}

/// A database.
#[derive(Debug)]
pub struct Database {
    isolation: Isolation,
    flaw: Flaw,
    state: Mutex<State>,
}

/// A transaction of a [`Database`].
#[derive(Debug)]
pub struct Buffered {
    snapshot: u64,
    /// What the snapshot sees of this key is older than of all others.
    half_seen: Option<Key>,
    /// The keys that were read, and whether they were absent.
    keys: Vec<(Key, bool)>,
    ranges: Vec<KeyRange>,
    writes: BTreeMap<Key, Bytes>,
}

impl Database {
    pub fn new(isolation: Isolation, flaw: Flaw) -> Self {
        Database {
            isolation,
            flaw,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the transaction finds at a key, but for its own writes.
    fn read(&self, state: &State, transaction: &Buffered, key: Key, in_range: bool) -> Bytes {
        let sees_all = self.isolation == Isolation::ReadCommitted
            || (self.flaw == Flaw::ReadsTheFuture && !in_range);
        let snapshot = match transaction.half_seen {
            _ if sees_all => u64::MAX,
            Some(half_seen) if half_seen == key => transaction.snapshot - 1,
            _ => transaction.snapshot,
        };
        state.at(key, snapshot).clone()
    }

    fn conflicts(&self, state: &State, transaction: &Buffered) -> bool {
        let after = |changed: u64| changed > transaction.snapshot;
        match self.isolation {
            Isolation::ReadCommitted => false,
            Isolation::Snapshot => {
                self.flaw != Flaw::SkipsWriteConflicts
                    && transaction
                        .writes
                        .keys()
                        .any(|key| after(state.changed(*key)))
            }
            Isolation::Serializable => {
                let mut keys = transaction.keys.iter();
                let is_validated = |absent: bool| match self.flaw {
                    Flaw::SkipsKeys => false,
                    Flaw::SkipsAbsentKeys => !absent,
                    _ => true,
                };
                let mut ranges = transaction.ranges.iter();
                keys.any(|(key, absent)| is_validated(*absent) && after(state.changed(*key)))
                    || (self.flaw != Flaw::SkipsRanges
                        && ranges.any(|range| after(state.changed_in(*range))))
            }
        }
    }
}

impl TransactionSubject for Database {
    type Transaction<'s> = Buffered;

    fn begin(&self) -> Buffered {
        let state = self.lock();
        let (timestamp, last_key) = state.last;
        Buffered {
            snapshot: match self.flaw {
                Flaw::StaleSnapshots => timestamp.saturating_sub(2),
                _ => timestamp,
            },
            half_seen: last_key.filter(|_| self.flaw == Flaw::HalfCommits),
            keys: Vec::new(),
            ranges: Vec::new(),
            writes: BTreeMap::new(),
        }
    }

    fn get(&self, transaction: &mut Buffered, key: Key) -> Result<Bytes, Aborted> {
        if self.flaw != Flaw::ForgetsOwnWrites
            && let Some(own) = transaction.writes.get(&key)
        {
            return Ok(own.clone());
        }
        let found = self.read(&self.lock(), transaction, key, false);
        transaction.keys.push((key, found.is_none()));
        Ok(found)
    }

    fn put(&self, transaction: &mut Buffered, key: Key, value: Vec<u8>) -> Result<(), Aborted> {
        transaction.writes.insert(key, Some(value));
        Ok(())
    }

    fn remove(&self, transaction: &mut Buffered, key: Key) -> Result<bool, Aborted> {
        transaction.writes.insert(key, None);
        Ok(true)
    }

    fn range(
        &self,
        transaction: &mut Buffered,
        range: KeyRange,
    ) -> Result<Vec<(Key, Vec<u8>)>, Aborted> {
        let state = self.lock();
        let committed = state.versions.keys();
        let mut found: BTreeMap<Key, Bytes> = committed
            .filter(|key| range.contains(**key))
            .map(|key| {
                let mut value = self.read(&state, transaction, *key, true);
                if value.is_none() && self.flaw == Flaw::RangesShowRemoved {
                    let versions = state.versions[key].iter().rev();
                    let mut seen = versions.filter(|(at, _)| *at <= transaction.snapshot);
                    value = seen.find_map(|(_, value)| value.clone());
                }
                (*key, value)
            })
            .collect();
        let own = transaction.writes.iter();
        let own = own.filter(|(key, _)| range.contains(**key));
        found.extend(own.map(|(key, value)| (*key, value.clone())));
        transaction.ranges.push(range);
        let rows = found.into_iter();
        let mut rows: Vec<(Key, Vec<u8>)> = rows
            .filter_map(|(key, value)| value.map(|value| (key, value)))
            .collect();
        if self.flaw == Flaw::RangesStopEarly && rows.len() > 2 {
            rows.pop();
        }
        Ok(rows)
    }

    fn remove_range(&self, range: KeyRange) -> Option<Status> {
        let end = match self.flaw {
            Flaw::RemovalsStopEarly => range.end - 1,
            _ => range.end,
        };
        let mut state = self.lock();
        let timestamp = state.last.0 + 2;
        for number in range.start..end {
            let key = Key::new(range.keyspace, number);
            let versions = state.versions.entry(key).or_default();
            versions.push((timestamp, None));
        }
        state.last = (timestamp, None);
        Some(Status::Committed {
            timestamp: Some(timestamp),
        })
    }

    fn commit(&self, transaction: Buffered) -> Status {
        let mut state = self.lock();
        if transaction.writes.is_empty() {
            return Status::Committed { timestamp: None };
        }
        state.attempts += 1;
        let is_rare = state.attempts.is_multiple_of(40);
        let conflicts = self.conflicts(&state, &transaction);
        let status = match conflicts && self.flaw != Flaw::RetriesWithStaleReads {
            true if self.flaw == Flaw::InstallsConflicts && is_rare => Status::Aborted,
            true => return Status::Aborted,
            false => Status::Committed {
                timestamp: Some(match self.flaw == Flaw::SwapsTimestamps && is_rare {
                    true => (state.last.0 + 2).saturating_sub(3),
                    false => state.last.0 + 2,
                }),
            },
        };
        let timestamp = state.last.0 + 2;
        let is_lost = self.flaw == Flaw::LosesCommits && is_rare;
        let last_key = transaction.writes.keys().next_back().copied();
        for (key, value) in transaction.writes.into_iter().filter(|_| !is_lost) {
            let versions = state.versions.entry(key).or_default();
            if self.flaw == Flaw::ReclaimsTooEarly {
                versions.clear();
            }
            versions.push((timestamp, value));
        }
        state.last = (timestamp, last_key);
        status
    }
}

/// A database whose clients do not hear whether every tenth transaction committed, whichever it
/// did, as when it crashes; half of those that did not hear were not even asked for.
#[derive(Debug)]
pub struct LosesAnswers {
    database: Database,
    commits: AtomicU64,
}

impl LosesAnswers {
    pub fn new(database: Database) -> Self {
        LosesAnswers {
            database,
            commits: AtomicU64::new(0),
        }
    }
}

impl TransactionSubject for LosesAnswers {
    type Transaction<'s> = Buffered;

    fn begin(&self) -> Buffered {
        self.database.begin()
    }

    fn get(&self, transaction: &mut Buffered, key: Key) -> Result<Bytes, Aborted> {
        self.database.get(transaction, key)
    }

    fn put(&self, transaction: &mut Buffered, key: Key, value: Vec<u8>) -> Result<(), Aborted> {
        self.database.put(transaction, key, value)
    }

    fn remove(&self, transaction: &mut Buffered, key: Key) -> Result<bool, Aborted> {
        self.database.remove(transaction, key)
    }

    fn range(
        &self,
        transaction: &mut Buffered,
        range: KeyRange,
    ) -> Result<Vec<(Key, Vec<u8>)>, Aborted> {
        self.database.range(transaction, range)
    }

    fn commit(&self, transaction: Buffered) -> Status {
        match self.commits.fetch_add(1, Ordering::Relaxed) % 20 {
            3 => Status::Unknown,
            13 => {
                self.database.commit(transaction);
                Status::Unknown
            }
            _ => self.database.commit(transaction),
        }
    }
}
