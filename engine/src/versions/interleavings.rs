//! The protocols of snapshots and of transactions that lock nothing, under shuttle: a snapshot that
//! is opened beside commits, one that is scanned beside them, two transactions that cross, and one
//! that asks a stripe whether its key was written. The world is a model with shuttle's mutexes;
//! chains of versions and intents are the code that ships. Each twin leaves a step out, and must
//! fail.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_log::Timestamp;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicBool, AtomicU64};
use shuttle::{Config, Runner, thread};

use crate::row::{Row, write_header};
use crate::versions::chain::{self, AtMoment, Version};
use crate::versions::intents::{WriteSet, has_key, key_within};

/// A step that a twin leaves out, or does at the wrong time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// A snapshot looks at the shards one after the other.
    ShardsOneByOne,
    /// A writer changes the index before it keeps what it replaces.
    KeepsLate,
    /// A reader asks the version store before the index.
    AsksStoreFirst,
    /// A writer changes the index before it counts what it has kept.
    CountsLate,
    /// A transaction validates before it announces.
    AnnouncesLate,
    /// A transaction does not look at intents.
    IgnoresIntents,
    /// Only keys that had a row are kept.
    ForgetsAbsence,
    /// A transaction takes the time of a stripe for the last one although a writer has it locked.
    IgnoresLockedStripes,
}

const KEYSPACE: u32 = 1;

/// Keys, of which each has a stripe of its own.
const KEYS: usize = 20;

/// A stripe: who writes, and, shifted by one, when the last commit was. The lowest bit says that
/// somebody writes.
#[derive(Default)]
struct Stripe {
    writer: Mutex<()>,
    word: AtomicU64,
}

/// A database: two log shards, one index, its versions.
struct World {
    flaw: Flaw,
    stripes: [Stripe; KEYS],
    shards: [Mutex<u64>; 2],
    index: Mutex<BTreeMap<u8, Vec<u8>>>,
    versions: Mutex<BTreeMap<u8, Vec<u8>>>,
    /// How many versions were kept.
    changes: AtomicU64,
    live: AtomicU64,
    intents: Mutex<BTreeMap<u64, Arc<WriteSet>>>,
}

fn row(timestamp: u64, value: u8) -> Vec<u8> {
    let mut row = Vec::new();
    write_header(&mut row, Timestamp::from_raw(timestamp), None, 0, false);
    row.push(value);
    row
}

fn value_of(row: &[u8]) -> u8 {
    Row::new(row).value().map_or(0, |value| value[0])
}

impl World {
    fn new(flaw: Flaw) -> Arc<World> {
        Arc::new(World {
            flaw,
            stripes: std::array::from_fn(|_| Stripe::default()),
            shards: [Mutex::new(1), Mutex::new(1)],
            index: Mutex::default(),
            versions: Mutex::default(),
            changes: AtomicU64::new(0),
            live: AtomicU64::new(0),
            intents: Mutex::default(),
        })
    }

    fn keep(&self, key: u8, end: u64) {
        let old = self.index.lock().unwrap().get(&key).cloned();
        if self.live.load(Ordering::SeqCst) == 0
            || (old.is_none() && self.flaw == Flaw::ForgetsAbsence)
        {
            return;
        }
        let version = Version {
            end: Timestamp::from_raw(end),
            row: old.as_deref(),
            apart: None,
        };
        chain::push(
            self.versions.lock().unwrap().entry(key).or_default(),
            version,
        );
        if self.flaw != Flaw::CountsLate {
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Removes a row as one commit.
    fn remove(&self, shard: usize, key: u8) {
        self.under_stripes(&[key], || {
            let mut last = self.shards[shard].lock().unwrap();
            *last += 1;
            self.keep(key, *last);
            self.index.lock().unwrap().remove(&key);
            if self.flaw == Flaw::CountsLate {
                self.changes.fetch_add(1, Ordering::SeqCst);
            }
            (*last, ())
        });
    }

    /// Installs rows as one commit, whose shard is locked.
    fn install(&self, timestamp: u64, keys: &[u8], value: u8) {
        for &key in keys {
            if self.flaw != Flaw::KeepsLate {
                self.keep(key, timestamp);
            }
            let new = row(timestamp, value);
            let old = self.index.lock().unwrap().insert(key, new);
            if self.flaw == Flaw::KeepsLate && self.live.load(Ordering::SeqCst) > 0 {
                let mut versions = self.versions.lock().unwrap();
                let version = Version {
                    end: Timestamp::from_raw(timestamp),
                    row: old.as_deref(),
                    apart: None,
                };
                chain::push(versions.entry(key).or_default(), version);
            }
        }
    }

    /// Runs `write`, which returns its timestamp, with the stripes of its keys locked.
    fn under_stripes<R>(&self, keys: &[u8], write: impl FnOnce() -> (u64, R)) -> R {
        let stripes: Vec<_> = keys
            .iter()
            .map(|&key| &self.stripes[key as usize])
            .collect();
        let locked = stripes.iter().map(|stripe| {
            let writer = stripe.writer.lock().unwrap();
            stripe.word.fetch_or(1, Ordering::SeqCst);
            writer
        });
        let locked: Vec<_> = locked.collect();
        let (timestamp, result) = write();
        for stripe in stripes {
            stripe.word.store(timestamp << 1, Ordering::SeqCst);
        }
        drop(locked);
        result
    }

    fn commit(&self, shard: usize, keys: &[u8], value: u8) {
        self.under_stripes(keys, || {
            let mut last = self.shards[shard].lock().unwrap();
            *last += 1;
            self.install(*last, keys, value);
            (*last, ())
        });
    }

    /// Whether a key may have been written after a moment, as its stripe tells.
    fn may_have_changed(&self, key: u8, moment: u64) -> bool {
        let word = self.stripes[key as usize].word.load(Ordering::SeqCst);
        let is_locked = word & 1 != 0 && self.flaw != Flaw::IgnoresLockedStripes;
        is_locked || word >> 1 > moment
    }

    /// Opens a snapshot: its moment.
    fn open(&self) -> u64 {
        if self.flaw == Flaw::ShardsOneByOne {
            let lasts = self.shards.each_ref().map(|shard| *shard.lock().unwrap());
            self.live.fetch_add(1, Ordering::SeqCst);
            return lasts[0].max(lasts[1]);
        }
        let mut first = self.shards[0].lock().unwrap();
        let mut second = self.shards[1].lock().unwrap();
        let moment = (*first).max(*second);
        (*first, *second) = (moment, moment);
        self.live.fetch_add(1, Ordering::SeqCst);
        moment
    }

    fn retained(&self, key: u8, moment: u64) -> Option<u8> {
        let versions = self.versions.lock().unwrap();
        match chain::at(versions.get(&key)?, Timestamp::from_raw(moment)) {
            AtMoment::Row(row) => Some(value_of(row)),
            AtMoment::Absent | AtMoment::Apart(_) | AtMoment::Unknown => None,
        }
    }

    /// What a key had at a moment; 0 for nothing.
    fn read(&self, key: u8, moment: u64) -> u8 {
        let early = (self.flaw == Flaw::AsksStoreFirst).then(|| self.retained(key, moment));
        let found = self.index.lock().unwrap().get(&key).cloned();
        match found {
            Some(row) if Row::new(&row).timestamp().raw() <= moment => value_of(&row),
            _ => early
                .unwrap_or_else(|| self.retained(key, moment))
                .unwrap_or(0),
        }
    }

    /// The keys from one on that had a row at a moment, from a copy of the index and the store.
    fn keys_merged(&self, from: u8, moment: u64) -> Vec<u8> {
        let moment = Timestamp::from_raw(moment);
        let is_seen = |row: &[u8]| Row::new(row).timestamp() <= moment;
        let index = self.index.lock().unwrap().clone();
        let mut keys: Vec<u8> = index.range(from..).map(|(key, _)| *key).collect();
        keys.retain(|key| is_seen(&index[key]));
        let versions = self.versions.lock().unwrap();
        let is_row = |chain: &[u8]| matches!(chain::at(chain, moment), AtMoment::Row(_));
        let retained = versions.range(from..).filter(|(_, chain)| is_row(chain));
        keys.extend(retained.map(|(key, _)| *key));
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The keys that had a row at a moment, in place as long as the store has none before them and
    /// keeps no more of them.
    fn keys_in_place(&self, moment: u64) -> Vec<u8> {
        let mut keys = Vec::new();
        let mut from = 0;
        let changes = self.changes.load(Ordering::SeqCst);
        let mut retained = self.versions.lock().unwrap().clone();
        retained.retain(|_, chain| {
            let at = chain::at(chain, Timestamp::from_raw(moment));
            matches!(at, AtMoment::Row(_))
        });
        let first = retained.keys().next().copied();
        loop {
            let index = self.index.lock().unwrap();
            let next = index.range(from..).next();
            let next = next.map(|(key, row)| (*key, Row::new(row).timestamp().raw()));
            drop(index);
            let has_changed = self.changes.load(Ordering::SeqCst) != changes;
            let limit = next.map_or(u8::MAX, |(key, _)| key);
            if has_changed || first.is_some_and(|first| first <= limit) {
                keys.extend(self.keys_merged(from, moment));
                return keys;
            }
            let Some((key, timestamp)) = next else {
                return keys;
            };
            keys.extend((timestamp <= moment).then_some(key));
            from = key + 1;
        }
    }

    /// Whether anything between two keys changed since a moment, or is about to.
    fn changed(&self, own: u64, from: u8, to: u8, moment: u64) -> bool {
        let announced = self.intents.lock().unwrap().clone();
        let bounds = (Bound::Included(&[from][..]), Bound::Excluded(&[to][..]));
        let others = announced.iter().filter(|(number, _)| **number != own);
        let is_meant = others.map(|(_, keys)| keys).any(|keys| match to - from {
            1 => has_key(keys, KEYSPACE, &[from]),
            _ => key_within(keys, KEYSPACE, bounds).is_some(),
        });
        if is_meant && self.flaw != Flaw::IgnoresIntents {
            return true;
        }
        if to - from == 1 && !self.may_have_changed(from, moment) {
            return false;
        }
        let versions = self.versions.lock().unwrap();
        let mut chains = versions.range(from..to);
        chains.any(|(_, chain)| chain::changed_since(chain, Timestamp::from_raw(moment)))
    }

    /// A transaction that has read between two keys at a moment, and writes another; whether it
    /// committed.
    fn transaction(&self, number: u64, moment: u64, (from, to): (u8, u8), writes: u8) -> bool {
        let announce = || {
            let keys = BTreeMap::from([(KEYSPACE, vec![Box::from([writes])])]);
            self.intents.lock().unwrap().insert(number, Arc::new(keys));
        };
        if self.flaw != Flaw::AnnouncesLate {
            announce();
        }
        let is_valid = self.under_stripes(&[writes], || {
            let mut last = self.shards[number as usize % 2].lock().unwrap();
            *last += 1;
            let is_valid = !self.changed(number, from, to, moment);
            if self.flaw == Flaw::AnnouncesLate {
                announce();
            }
            if is_valid {
                self.install(*last, &[writes], 1);
            }
            (*last, is_valid)
        });
        self.intents.lock().unwrap().remove(&number);
        is_valid
    }
}

/// One thread writes two rows as one commit, in each shard another; a third looks at a snapshot.
fn snapshot_beside_commits(flaw: Flaw) {
    let world = World::new(flaw);
    let acknowledged = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let writers: Vec<_> = [0, 1]
        .into_iter()
        .map(|shard: usize| {
            let (world, acknowledged) = (Arc::clone(&world), Arc::clone(&acknowledged));
            thread::spawn(move || {
                let keys = [10 * shard as u8, 10 * shard as u8 + 1];
                world.commit(shard, &keys, 1);
                acknowledged[shard].store(true, Ordering::SeqCst);
                world.commit(shard, &keys, 2);
            })
        })
        .collect();
    let known = acknowledged.each_ref().map(|it| it.load(Ordering::SeqCst));
    let moment = world.open();
    for _ in 0..2 {
        for (shard, known) in known.iter().enumerate() {
            let first = world.read(10 * shard as u8, moment);
            let second = world.read(10 * shard as u8 + 1, moment);
            assert!(first == second, "a snapshot saw half of a commit");
            assert!(first > 0 || !known, "a snapshot missed a commit");
        }
    }
    for writer in writers {
        writer.join().unwrap();
    }
    for shard in [0, 10] {
        let both = [shard, shard + 1].map(|key| world.read(key, moment));
        assert!(both[0] == both[1], "a snapshot saw half of a commit");
    }
}

/// Two transactions, each of which reads what the other writes: one of them fails.
fn crossing(flaw: Flaw, ranges: bool) {
    let world = World::new(flaw);
    let reads = match ranges {
        true => [(10, 20), (0, 10)],
        false => [(15, 16), (5, 6)],
    };
    let moments = [world.open(), world.open()];
    let other = Arc::clone(&world);
    let first = thread::spawn(move || other.transaction(0, moments[0], reads[0], 5));
    let second = world.transaction(1, moments[1], reads[1], 15);
    let first = first.join().unwrap();
    assert!(!(first && second), "both transactions committed");
}

/// A transaction has read a key, and another thread writes it by itself. Who sees that write
/// without the transaction's has seen that the transaction cannot happen any more.
fn beside_a_writer(flaw: Flaw) {
    let world = World::new(flaw);
    let moment = world.open();
    let other = Arc::clone(&world);
    let writer = thread::spawn(move || other.commit(1, &[5], 1));
    let other = Arc::clone(&world);
    let transaction = thread::spawn(move || other.transaction(0, moment, (5, 6), 15));
    let seen = world.open();
    let [write, transacted] = [5, 15].map(|key| world.read(key, seen) > 0);
    writer.join().unwrap();
    let committed = transaction.join().unwrap();
    let is_too_late = write && !transacted;
    assert!(!(committed && is_too_late), "a commit came too late");
}

/// A scan at a snapshot, while one thread removes a row and another replaces one.
fn scan_beside_commits(flaw: Flaw) {
    let world = World::new(flaw);
    world.commit(0, &[3, 5, 7], 1);
    let moment = world.open();
    let other = Arc::clone(&world);
    let remover = thread::spawn(move || other.remove(0, 5));
    let other = Arc::clone(&world);
    let writer = thread::spawn(move || other.commit(1, &[7, 9], 2));
    let keys = world.keys_in_place(moment);
    assert!(keys == [3, 5, 7], "a scan missed a row or saw a later one");
    remover.join().unwrap();
    writer.join().unwrap();
    assert!(world.keys_in_place(moment) == [3, 5, 7]);
}

fn explore(scenario: impl Fn() + Copy + Send + Sync + 'static) {
    let schedules = 3_000;
    Runner::new(RandomScheduler::new(schedules), Config::new()).run(scenario);
    Runner::new(PctScheduler::new(3, schedules), Config::new()).run(scenario);
}

#[test]
fn a_snapshot_sees_each_commit_whole_or_not_at_all() {
    explore(|| snapshot_beside_commits(Flaw::None));
}

#[test]
#[should_panic(expected = "a snapshot saw half of a commit")]
fn a_snapshot_that_looks_at_one_shard_after_the_other_fails() {
    explore(|| snapshot_beside_commits(Flaw::ShardsOneByOne));
}

#[test]
#[should_panic(expected = "a snapshot")]
fn a_writer_that_keeps_too_late_fails() {
    explore(|| snapshot_beside_commits(Flaw::KeepsLate));
}

#[test]
#[should_panic(expected = "a snapshot")]
fn a_reader_that_asks_the_store_first_fails() {
    explore(|| snapshot_beside_commits(Flaw::AsksStoreFirst));
}

#[test]
fn a_scan_sees_rows_that_are_removed_beside_it() {
    explore(|| scan_beside_commits(Flaw::None));
}

#[test]
#[should_panic(expected = "a scan missed a row")]
fn a_writer_that_counts_too_late_fails() {
    explore(|| scan_beside_commits(Flaw::CountsLate));
}

#[test]
fn of_two_crossing_transactions_one_fails() {
    explore(|| crossing(Flaw::None, false));
    explore(|| crossing(Flaw::None, true));
}

#[test]
#[should_panic(expected = "both transactions committed")]
fn transactions_that_announce_after_their_validation_fail() {
    explore(|| crossing(Flaw::AnnouncesLate, true));
}

#[test]
#[should_panic(expected = "both transactions committed")]
fn transactions_that_look_at_no_intents_fail() {
    explore(|| crossing(Flaw::IgnoresIntents, false));
}

#[test]
#[should_panic(expected = "both transactions committed")]
fn transactions_that_are_not_told_of_new_keys_fail() {
    explore(|| crossing(Flaw::ForgetsAbsence, false));
}

#[test]
fn a_transaction_asks_the_stripes_of_what_it_read() {
    explore(|| beside_a_writer(Flaw::None));
}

#[test]
#[should_panic(expected = "a commit came too late")]
fn a_transaction_that_ignores_locked_stripes_fails() {
    explore(|| beside_a_writer(Flaw::IgnoresLockedStripes));
}
