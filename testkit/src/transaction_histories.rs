//! Transactions on real databases, checked for serializability: random ones in recorded histories,
//! and a few whose outcome says by itself whether they were isolated.
//!
//! Transactions that read before they write are [`OptimisticTransaction`]s, or lock their keys.
//! Those that only write are committed as users would: one row by a plain put, several by a batch,
//! or by a transaction that locks its keys. Every other one that only reads is a [`Snapshot`]. Some
//! removals are writes of rows that have expired, and some, where all is serializable, are removals
//! of ranges. So all kinds of readers and writers meet. Expired rows are swept by a process of the
//! workload, not by the clock: a sweep is a write that conflicts, and where the seed orders the
//! steps, it orders sweeps among them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow::{
    Commit, Db, Direction, Durability, IndexKind, Isolation, Keyspace, Locks,
    OptimisticTransaction, Result, Snapshot, Transaction, WriteOptions,
};
use hedgerow_vfs::MemoryVfs;

use crate::databases::builder_of;
use crate::serializability::driver::{
    Aborted, Keys, RunOnKeys, TransactionSubject, run_interleaved, run_threads,
};
use crate::serializability::workload::{Choice, Kinds, Workload};
use crate::serializability::{History, Key, KeyRange, Model, Status, check};

/// A database whose transactions are recorded.
#[derive(Debug)]
pub struct RecordedDb {
    db: Db,
    keyspaces: Vec<Keyspace>,
    isolation: Isolation,
    /// Transactions so far that only read.
    reading: AtomicU64,
}

/// A write that waits for the commit.
type Write = (Key, Vec<u8>);

/// Of the registers whose removal is a write of a row that has expired, one in so many numbers.
const EXPIRED_EVERY: u64 = 8;

/// Of the transactions that only read, one in so many begins behind a sweep of expired rows.
const SWEPT_EVERY: u64 = 16;

/// A transaction of a [`RecordedDb`].
#[derive(Debug)]
pub struct RecordedTransaction {
    view: View,
    /// What it wrote while it has read nothing.
    blind: Option<Vec<Write>>,
}

/// What a transaction reads.
#[derive(Debug)]
enum View {
    Transaction(Box<OptimisticTransaction>),
    /// It only reads.
    Snapshot(Snapshot),
}

impl View {
    /// That of one who may write.
    fn transaction(&mut self) -> &mut OptimisticTransaction {
        match self {
            View::Transaction(transaction) => transaction,
            View::Snapshot(_) => unreachable!("who reads a snapshot writes nothing"),
        }
    }
}

/// The bytes of the first key in a range and of the first one behind it.
fn bounds(range: KeyRange) -> [[u8; 8]; 2] {
    [range.start, range.end].map(|number| Key::new(range.keyspace, number).bytes())
}

impl RecordedDb {
    /// An empty database in memory that is not synced.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(index: IndexKind, isolation: Isolation, keyspaces: u32) -> Result<RecordedDb> {
        let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
        let builder = builder.workers(3).version_memory(Some(64 << 20));
        let builder = builder.sweep_interval(None);
        let db = builder.open(Path::new("/db"))?;
        let names = (0..keyspaces).map(|number| db.keyspace(&format!("keyspace {number}")));
        let keyspaces = names.collect::<Result<Vec<_>>>()?;
        Ok(RecordedDb {
            db,
            keyspaces,
            isolation,
            reading: AtomicU64::new(0),
        })
    }

    fn keyspace(&self, key: Key) -> &Keyspace {
        &self.keyspaces[key.keyspace as usize]
    }

    /// Commits changes of one who has read nothing, in one of the ways that there are.
    fn commit_blindly(&self, writes: &[Write]) -> Result<Commit> {
        let options = WriteOptions::default();
        match writes {
            [(key, value)] => self.keyspace(*key).put(&key.bytes(), value),
            [(first, _), ..] if first.number % 2 == 0 => {
                let mut batch = self.db.batch();
                for (key, value) in writes {
                    batch.put(self.keyspace(*key), &key.bytes(), value);
                }
                batch.commit(Durability::Periodic)
            }
            writes => {
                let keys: Vec<_> = writes.iter().map(|(key, _)| (key, key.bytes())).collect();
                let locks = keys
                    .iter()
                    .map(|(key, bytes)| (self.keyspace(**key), &bytes[..]));
                let locks: Vec<_> = locks.collect();
                let ((), commit) = self.db.transact(Locks::Keys(&locks), &options, |tx| {
                    let mut writes = writes.iter();
                    writes.try_for_each(|(key, value)| {
                        tx.put(self.keyspace(*key), &key.bytes(), value)
                    })
                })?;
                Ok(commit)
            }
        }
    }

    fn write(&self, transaction: &mut OptimisticTransaction, key: Key, value: &[u8]) {
        let written = transaction.put(self.keyspace(key), &key.bytes(), value);
        written.expect("a small write is possible");
    }

    /// A commit that changed nothing.
    fn nothing(&self) -> Result<Commit> {
        let options = WriteOptions::default();
        let ((), commit) = self.db.transact(Locks::Keys(&[]), &options, |_| Ok(()))?;
        Ok(commit)
    }
}

impl RecordedTransaction {
    /// It reads: what it wrote before goes the way of its other writes.
    fn read(&mut self, db: &RecordedDb) -> &mut View {
        for (key, value) in self.blind.take().unwrap_or_default() {
            db.write(self.view.transaction(), key, &value);
        }
        &mut self.view
    }
}

/// The keys of a transaction that locks them.
struct LockedKeys<'r, 't> {
    db: &'r RecordedDb,
    transaction: &'r mut Transaction<'t>,
}

impl Keys for LockedKeys<'_, '_> {
    fn get(&mut self, key: Key) -> std::result::Result<Option<Vec<u8>>, Aborted> {
        let value = self.transaction.get(self.db.keyspace(key), &key.bytes());
        Ok(value.expect("it can be read"))
    }

    fn put(&mut self, key: Key, value: Vec<u8>) -> std::result::Result<(), Aborted> {
        let keyspace = self.db.keyspace(key);
        let written = self.transaction.put(keyspace, &key.bytes(), &value);
        written.expect("a small write is possible");
        Ok(())
    }

    fn remove(&mut self, key: Key) -> std::result::Result<bool, Aborted> {
        let removed = self.transaction.remove(self.db.keyspace(key), &key.bytes());
        Ok(removed.expect("a removal is possible"))
    }
}

fn status(outcome: Result<Commit>) -> Status {
    match outcome {
        Ok(commit) => Status::Committed {
            timestamp: (commit.epoch() > 0).then(|| commit.timestamp.raw()),
        },
        Err(error) if error.is_conflict() => Status::Aborted,
        Err(error) => panic!("{error}"),
    }
}

impl TransactionSubject for RecordedDb {
    type Transaction<'s> = RecordedTransaction;

    fn begin(&self) -> RecordedTransaction {
        let transaction = self.db.begin(self.isolation);
        RecordedTransaction {
            view: View::Transaction(Box::new(transaction.expect("it can begin"))),
            blind: Some(Vec::new()),
        }
    }

    fn begin_reading(&self) -> RecordedTransaction {
        let before = self.reading.fetch_add(1, Ordering::Relaxed);
        if before % SWEPT_EVERY == SWEPT_EVERY - 1 {
            self.db.sweep_expired().expect("rows can be removed");
        }
        if before.is_multiple_of(2) {
            return self.begin();
        }
        RecordedTransaction {
            view: View::Snapshot(self.db.snapshot().expect("it can be opened")),
            blind: None,
        }
    }

    fn get(
        &self,
        transaction: &mut RecordedTransaction,
        key: Key,
    ) -> std::result::Result<Option<Vec<u8>>, Aborted> {
        let keyspace = self.keyspace(key);
        let value = match transaction.read(self) {
            View::Transaction(transaction) => transaction.get(keyspace, &key.bytes()),
            View::Snapshot(snapshot) => {
                let keyspace = snapshot.at(keyspace);
                keyspace.and_then(|keyspace| keyspace.get(&key.bytes()))
            }
        };
        Ok(value.expect("it can be read"))
    }

    fn put(
        &self,
        transaction: &mut RecordedTransaction,
        key: Key,
        value: Vec<u8>,
    ) -> std::result::Result<(), Aborted> {
        match &mut transaction.blind {
            Some(writes) => {
                writes.retain(|(other, _)| *other != key);
                writes.push((key, value));
            }
            None => self.write(transaction.view.transaction(), key, &value),
        }
        Ok(())
    }

    fn remove(
        &self,
        transaction: &mut RecordedTransaction,
        key: Key,
    ) -> std::result::Result<bool, Aborted> {
        // Whether there is a row is a read.
        let transaction = transaction.read(self).transaction();
        if key.number % EXPIRED_EVERY == EXPIRED_EVERY - 1 {
            // A write, whatever was there.
            let options = WriteOptions::default().expiry_ms(1);
            let written = transaction.put_with(self.keyspace(key), &key.bytes(), b"-", &options);
            written.expect("a small write is possible");
            return Ok(true);
        }
        let removed = transaction.remove(self.keyspace(key), &key.bytes());
        Ok(removed.expect("a removal is possible"))
    }

    fn range(
        &self,
        transaction: &mut RecordedTransaction,
        range: KeyRange,
    ) -> std::result::Result<Vec<(Key, Vec<u8>)>, Aborted> {
        let keyspace = &self.keyspaces[range.keyspace as usize];
        let [start, end] = bounds(range);
        let entries = match transaction.read(self) {
            View::Transaction(transaction) => {
                transaction.range(keyspace, start..end, Direction::Forward, usize::MAX)
            }
            View::Snapshot(snapshot) => {
                let entries = snapshot.at(keyspace).and_then(|at| at.range(start..end));
                entries.and_then(Iterator::collect)
            }
        };
        let entries = entries.expect("it can be read").into_iter().map(|entry| {
            let number = u64::from_be_bytes(entry.key().try_into().expect("a key of 8 bytes"));
            let value = entry.value().expect("a plain value").to_vec();
            (Key::new(range.keyspace, number), value)
        });
        Ok(entries.collect())
    }

    fn remove_range(&self, range: KeyRange) -> Option<Status> {
        let keyspace = &self.keyspaces[range.keyspace as usize];
        let [start, end] = bounds(range);
        let removed = keyspace.delete_range_with(start..end, &WriteOptions::default());
        let (_, commit) = removed.expect("a removal is possible");
        commit.map(|commit| status(Ok(commit)))
    }

    fn run_locked(&self, keys: &[Key], run: RunOnKeys<'_>) -> Status {
        let keys: Vec<_> = keys.iter().map(|key| (key, key.bytes())).collect();
        let locks = keys
            .iter()
            .map(|(key, bytes)| (self.keyspace(**key), &bytes[..]));
        let locks: Vec<_> = locks.collect();
        let options = WriteOptions::default();
        let ran = self
            .db
            .transact(Locks::Keys(&locks), &options, |transaction| {
                let mut keys = LockedKeys {
                    db: self,
                    transaction,
                };
                run(&mut keys).expect("whoever has locked its keys goes on");
                Ok(())
            });
        status(ran.map(|((), commit)| commit))
    }

    fn commit(&self, transaction: RecordedTransaction) -> Status {
        let optimistic = match transaction.view {
            View::Transaction(optimistic) => optimistic,
            View::Snapshot(_) => return Status::Committed { timestamp: None },
        };
        match transaction.blind {
            None => status(optimistic.commit(Durability::Periodic)),
            Some(writes) if writes.is_empty() => status(self.nothing()),
            Some(writes) => {
                drop(optimistic);
                status(self.commit_blindly(&writes))
            }
        }
    }
}

/// Which transactions are run, and how many.
#[derive(Debug, Clone)]
pub struct Histories {
    /// The index of all keyspaces.
    pub index: IndexKind,
    /// What transactions are to be protected from.
    pub isolation: Isolation,
    /// How many histories.
    pub histories: usize,
    /// Operations of each, about.
    pub operations: usize,
    /// Seed of the first; the others follow.
    pub seed: u64,
}

/// What a campaign ran.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// Histories.
    pub histories: usize,
    /// Operations of all of them.
    pub operations: usize,
    /// Transactions that committed, and that did not.
    pub committed: usize,
    /// See `committed`.
    pub aborted: usize,
    /// Histories under [`Isolation::Snapshot`] that are not serializable, as they may be.
    pub write_skews: usize,
    /// Histories of which the check could not say whether they are right.
    pub undetermined: usize,
}

/// Operations of a transaction, on average.
const OPERATIONS_EACH: usize = 4;

/// Records histories, every other one by threads that run at once, and checks each.
///
/// # Errors
/// The first anomaly that the isolation forbids, and the seed of its history; or that the check
/// could not judge more than one history of ten, or of fewer.
pub fn run(campaign: &Histories) -> std::result::Result<Ran, String> {
    let mut ran = Ran::default();
    let model = match campaign.isolation {
        Isolation::Serializable => Model::StrictSerializable,
        Isolation::Snapshot => Model::StrongSnapshotIsolation,
    };
    for number in 0..campaign.histories {
        let seed = campaign.seed.wrapping_add(number as u64);
        let workload = workload(seed, campaign.operations, campaign.isolation);
        let db = RecordedDb::open(campaign.index, campaign.isolation, workload.keyspaces);
        let db = db.map_err(|error| error.to_string())?;
        let (history, how) = match is_interleaved(seed) {
            true => (run_interleaved(&db, &workload), "steps in a chosen order"),
            false => (run_threads(&db, &workload), "threads"),
        };
        let place = || format!("{:?}, seed {seed}, {how}", campaign.index);
        let statistics = check(&history, model).map_err(|found| format!("{}: {found}", place()))?;
        if statistics.gave_up || statistics.undetermined > 0 {
            ran.undetermined += 1;
            if 10 * ran.undetermined > campaign.histories.max(10) {
                return Err(format!("{}: the check gave up: {statistics:?}", place()));
            }
        }
        let is_skewed = campaign.isolation == Isolation::Snapshot
            && check(&history, Model::StrictSerializable).is_err();
        ran.write_skews += usize::from(is_skewed);
        count(&history, &mut ran);
        let left = db.db.statistics();
        for name in ["versions", "version_bytes", "open_transactions"] {
            if left.get(name) != Some(0.0) {
                return Err(format!("{}: {name} is not 0 at the end", place()));
            }
        }
    }
    Ok(ran)
}

fn count(history: &History, ran: &mut Ran) {
    ran.histories += 1;
    ran.operations += history.operations();
    for transaction in &history.transactions {
        match transaction.status {
            Status::Committed { .. } => ran.committed += 1,
            _ => ran.aborted += 1,
        }
    }
}

/// Whether the history of a seed is of one thread. The two seeds of a pair have one of each.
fn is_interleaved(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Another workload for each pair of seeds: few keys or many, chosen evenly or not. The seeds of a
/// campaign follow one another, and any ten have all numbers of processes and of keys and all
/// exponents, both with threads and with steps in a chosen order.
fn workload(seed: u64, operations: usize, isolation: Isolation) -> Workload {
    let pair = seed / 2;
    let processes = 2 + (pair % 4) as usize;
    let (kinds, range_removal_percent) = match isolation {
        Isolation::Serializable => (Kinds::MixedThenRegisters, 2),
        Isolation::Snapshot => (Kinds::Mixed, 0),
    };
    Workload {
        kinds,
        range_removal_percent,
        locked_percent: 25,
        processes,
        transactions: (operations / OPERATIONS_EACH / processes).max(1),
        // Three pairs have three numbers of keys, and the next three meet other exponents.
        keys: [4, 12, 40][((pair + pair / 3) % 3) as usize],
        choice: Choice::Zipf {
            exponent: [0.0, 0.6, 1.2][(pair % 3) as usize],
        },
        seed,
        ..Workload::default()
    }
}

/// Threads that add one to a few counters, by closures that run again after a conflict: at the end
/// nothing is missing.
///
/// # Errors
/// An addition is missing, or a transaction failed.
pub fn counters(index: IndexKind, rounds: u64) -> std::result::Result<(), String> {
    const THREADS: u64 = 4;
    let db = RecordedDb::open(index, Isolation::Serializable, 1);
    let db = &db.map_err(|error| error.to_string())?;
    let keyspace = &db.keyspaces[0];
    let number = |value: Option<Vec<u8>>| {
        let word = value.and_then(|value| value.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    };
    let add = move |by: u64| -> Result<()> {
        for round in 0..rounds {
            let key = ((by + round) % 2).to_be_bytes();
            db.db.transaction(Isolation::Serializable, |tx| {
                let now = number(tx.get(keyspace, &key)?);
                tx.put(keyspace, &key, &(now + 1).to_le_bytes())
            })?;
        }
        Ok(())
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|by| scope.spawn(move || add(by)))
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for outcome in outcomes {
        let outcome = outcome.map_err(|_| "a panic".to_owned())?;
        outcome.map_err(|error| error.to_string())?;
    }
    let mut sum = 0;
    for key in 0..2_u64 {
        let value = keyspace.get(&key.to_be_bytes());
        sum += number(value.map_err(|error| error.to_string())?);
    }
    match sum == THREADS * rounds {
        true => Ok(()),
        false => Err(format!("{sum} additions of {} are there", THREADS * rounds)),
    }
}

/// A transaction that meets a conflict in its first run, for sure, sees in its second what was in
/// its way.
///
/// # Errors
/// It lost the other's change, or did not run twice.
pub fn second_run(index: IndexKind) -> std::result::Result<(), String> {
    let db = RecordedDb::open(index, Isolation::Serializable, 1);
    let db = db.map_err(|error| error.to_string())?;
    let (keyspace, key) = (&db.keyspaces[0], 7_u64.to_be_bytes());
    let mut runs = 0;
    let mut appended = || -> Result<Option<Vec<u8>>> {
        keyspace.put(&key, b"a")?;
        db.db.transaction(Isolation::Serializable, |tx| {
            let mut value = tx.get(keyspace, &key)?.unwrap_or_default();
            runs += 1;
            if runs == 1 {
                keyspace.put(&key, b"ab")?;
            }
            value.push(b'c');
            tx.put(keyspace, &key, &value)
        })?;
        keyspace.get(&key)
    };
    match appended() {
        Ok(Some(value)) if value == b"abc" && runs == 2 => Ok(()),
        Ok(value) => Err(format!("{value:?} after {runs} runs, not \"abc\" after 2")),
        Err(error) => Err(error.to_string()),
    }
}

/// A row that expires by the clock of the machine, but not by that of the database: a snapshot goes
/// by the latter, as it was when it was opened.
///
/// # Errors
/// The row is not there.
pub fn time_of_a_snapshot(index: IndexKind) -> std::result::Result<(), String> {
    let clock = Arc::new(AtomicU64::new(1_000));
    let now = Arc::clone(&clock);
    let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
    let builder = builder.now(Box::new(move || now.load(Ordering::SeqCst)));
    let seen = || -> Result<bool> {
        let db = builder.sweep_interval(None).open(Path::new("/db"))?;
        let keyspace = db.keyspace("rows")?;
        let key = 7_u64.to_be_bytes();
        keyspace.put_with(&key, b"row", &WriteOptions::default().expiry_ms(1_005))?;
        let snapshot = db.snapshot()?;
        thread::sleep(Duration::from_millis(10));
        clock.store(2_000, Ordering::SeqCst);
        db.sweep_expired()?;
        snapshot.at(&keyspace)?.contains(&key)
    };
    match seen() {
        Ok(true) => Ok(()),
        Ok(false) => Err("a row expired within a snapshot".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn readers_sweep_expired_rows_at_times() {
        let db = RecordedDb::open(IndexKind::Masstree, Isolation::Serializable, 1).unwrap();
        let rows = &db.keyspaces[0];
        let expired = WriteOptions::default().expiry_ms(1);
        rows.put_with(&7_u64.to_be_bytes(), b"-", &expired).unwrap();
        for before in 0..SWEPT_EVERY {
            assert_eq!(rows.len(), 1, "behind {before} transactions");
            drop(db.begin_reading());
        }
        assert_eq!(rows.len(), 0);
    }

    #[test]
    fn ten_seeds_have_all_workloads_with_either_driver() {
        for first in 0..100 {
            for interleaved in [true, false] {
                let seeds = (first..first + 10).filter(|seed| is_interleaved(*seed) == interleaved);
                let workloads: Vec<Workload> = seeds
                    .map(|seed| workload(seed, 2_000, Isolation::Serializable))
                    .collect();
                let exponents = workloads.iter().map(|workload| match workload.choice {
                    Choice::Zipf { exponent } => exponent.to_bits(),
                    Choice::Uniform => 0,
                });
                let exponents: BTreeSet<u64> = exponents.collect();
                let keys: BTreeSet<u64> = workloads.iter().map(|w| w.keys).collect();
                let processes: BTreeSet<usize> = workloads.iter().map(|w| w.processes).collect();
                let different = (exponents.len(), keys.len(), processes.len());
                assert_eq!(different, (3, 3, 4), "from seed {first} on");
            }
        }
    }
}
