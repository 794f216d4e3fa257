//! The limit of the memory for versions: every kind of commit keeps it, who is ended for it, and
//! what keeps a key that comes and goes from filling it.

use std::thread;

use hedgerow::{Db, Durability, IndexKind, Isolation, Keyspace, Locks, Snapshot, WriteOptions};
use hedgerow_testkit::over_each_index;

use crate::snapshots::{key, statistic};
use crate::transactions::open_small;

over_each_index! {
    every_kind_of_commit_keeps_to_the_limit,
    only_who_is_beyond_the_limit_is_ended,
    who_sees_no_version_is_not_ended,
    one_commit_of_many_rows_keeps_to_the_limit,
    a_snapshot_that_closes_takes_nobody_with_it,
    a_key_that_comes_and_goes_is_kept_once,
}

const LIMIT: usize = 1 << 20;
/// So large that a thousand of them are most of the limit.
const VALUE: [u8; 600] = [7; 600];

/// A kind of commit, which writes these keys.
type Write = fn(&Db, &Keyspace, &[Vec<u8>]);

const KINDS: [(&str, Write); 5] = [
    ("single keys", |_, rows, keys| {
        keys.iter().for_each(|key| {
            rows.put(key, &VALUE).unwrap();
        });
    }),
    ("batches", |db, rows, keys| {
        let mut batch = db.batch();
        keys.iter().for_each(|key| {
            batch.put(rows, key, &VALUE);
        });
        batch.commit(Durability::Periodic).unwrap();
    }),
    ("locked keys", |db, rows, keys| {
        let locks: Vec<_> = keys.iter().map(|key| (rows, &key[..])).collect();
        let put_all = |tx: &mut hedgerow::Transaction<'_>| {
            let mut keys = keys.iter();
            keys.try_for_each(|key| tx.put(rows, key, &VALUE))
        };
        let options = WriteOptions::default();
        db.transact(Locks::Keys(&locks), &options, put_all).unwrap();
    }),
    ("everything locked", |db, rows, keys| {
        db.transact(Locks::All, &WriteOptions::default(), |tx| {
            let mut keys = keys.iter();
            keys.try_for_each(|key| tx.put(rows, key, &VALUE))
        })
        .unwrap();
    }),
    ("optimistic transactions", |db, rows, keys| {
        let mut tx = db.begin(Isolation::Snapshot).unwrap();
        keys.iter().for_each(|key| {
            tx.put(rows, key, &VALUE).unwrap();
        });
        tx.commit(Durability::Periodic).unwrap();
    }),
];

fn every_kind_of_commit_keeps_to_the_limit(index: IndexKind) {
    for (name, write) in KINDS {
        let (db, rows) = open_small(index, LIMIT, 1 << 20);
        let all: Vec<Vec<u8>> = (0..200).map(|number| key(index, number)).collect();
        write(&db, &rows, &all);
        // Each sees rows that the next one does not.
        let mut open: Vec<Snapshot> = Vec::new();
        for _ in 0..40 {
            open.push(db.snapshot().unwrap());
            all.chunks(20).for_each(|keys| write(&db, &rows, keys));
            let bytes = statistic(&db, "version_bytes") as usize;
            // Garbage of those that were ended goes write by write.
            assert!(bytes < 2 * LIMIT, "{name}: {bytes}");
        }
        let ended = open.iter().filter(|open| open.check().is_err()).count();
        assert!((20..40).contains(&ended), "{name}: {ended} were ended");
        open.last().unwrap().check().unwrap();
    }
}

/// Rows enough that one snapshot before all are replaced needs nearly all of the limit.
fn fill(index: IndexKind) -> (Db, Keyspace, Vec<Vec<u8>>) {
    let (db, rows) = open_small(index, LIMIT, 1 << 20);
    let keys: Vec<Vec<u8>> = (0..1_320).map(|number| key(index, number)).collect();
    replace(&rows, &keys);
    (db, rows, keys)
}

fn replace(rows: &Keyspace, keys: &[Vec<u8>]) {
    for key in keys {
        rows.put(key, &VALUE).unwrap();
    }
}

fn only_who_is_beyond_the_limit_is_ended(index: IndexKind) {
    for _ in 0..4 {
        let (db, rows, keys) = fill(index);
        let old = db.snapshot().unwrap();
        replace(&rows, &keys);
        let young: Vec<Snapshot> = (0..5).map(|_| db.snapshot().unwrap()).collect();
        let begun = db.begin(Isolation::Serializable).unwrap();
        // All of them together need less than the limit: what the old one gives is enough.
        thread::scope(|scope| {
            for part in keys.chunks(keys.len() / 4) {
                let rows = &rows;
                scope.spawn(move || replace(rows, part));
            }
        });
        assert!(old.check().is_err(), "the old one was beyond the limit");
        assert_eq!(statistic(&db, "snapshots_ended_total"), 1);
        young.iter().for_each(|young| young.check().unwrap());
        begun.commit(Durability::Periodic).unwrap();
    }
}

/// Its end would free nothing.
fn who_sees_no_version_is_not_ended(index: IndexKind) {
    let (db, rows) = open_small(index, LIMIT, 1 << 20);
    // All rows are younger.
    let oldest = db.snapshot().unwrap();
    let keys: Vec<Vec<u8>> = (0..1_320).map(|number| key(index, number)).collect();
    replace(&rows, &keys);
    let first = db.snapshot().unwrap();
    replace(&rows, &keys);
    let second = db.snapshot().unwrap();
    replace(&rows, &keys);
    assert!(first.check().is_err(), "two need more than the limit");
    oldest.check().unwrap();
    second.check().unwrap();
    assert_eq!(statistic(&db, "snapshots_ended_total"), 1);
}

/// What it replaces is more than the limit: who sees it does not stay for the next commit.
fn one_commit_of_many_rows_keeps_to_the_limit(index: IndexKind) {
    for (name, write) in KINDS.into_iter().skip(1) {
        let (db, rows) = open_small(index, LIMIT, 16 << 20);
        let keys: Vec<Vec<u8>> = (0..4_000).map(|number| key(index, number)).collect();
        write(&db, &rows, &keys);
        let old = db.snapshot().unwrap();
        write(&db, &rows, &keys);
        assert!(old.check().is_err(), "{name}");
        let bytes = statistic(&db, "version_bytes") as usize;
        assert!(bytes < LIMIT, "{name}: {bytes}");
    }
}

fn a_snapshot_that_closes_takes_nobody_with_it(index: IndexKind) {
    for _ in 0..4 {
        let (db, rows, keys) = fill(index);
        let old = db.snapshot().unwrap();
        replace(&rows, &keys);
        let mut begun = db.begin(Isolation::Serializable).unwrap();
        begun.put(&rows, &key(index, 5_000), b"new").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| drop(old));
            while statistic(&db, "snapshots") > 0 {
                thread::yield_now();
            }
            for part in keys[..600].chunks(150) {
                let rows = &rows;
                scope.spawn(move || replace(rows, part));
            }
        });
        assert_eq!(statistic(&db, "snapshots_ended_total"), 0);
        begun.commit(Durability::Periodic).unwrap();
    }
}

fn a_key_that_comes_and_goes_is_kept_once(index: IndexKind) {
    let (db, rows) = open_small(index, LIMIT, 1 << 20);
    let (cell, absent) = (key(index, 1), key(index, 2));
    let begin = || db.begin(Isolation::Serializable).unwrap();
    let (older, other) = (begin(), begin());
    for tx in [&older, &other] {
        assert!(!tx.contains(&rows, &cell).unwrap());
        assert!(!tx.contains(&rows, &absent).unwrap());
    }
    let come_and_go = |times: u32| {
        for _ in 0..times {
            rows.put(&cell, b"there").unwrap();
            rows.remove(&cell).unwrap();
            let mut batch = db.batch();
            batch.remove(&rows, &absent);
            batch.commit(Durability::Periodic).unwrap();
        }
    };
    come_and_go(2_000);
    let kept = statistic(&db, "versions");
    assert!(kept <= 2, "{kept} versions of two keys that came and went");
    let younger = begin();
    assert!(!younger.contains(&rows, &cell).unwrap());
    come_and_go(2_000);
    assert!(statistic(&db, "versions") <= 4);
    // Whoever read the key knows, also once another that needed the same has ended.
    for tx in [&older, &other, &younger] {
        assert!(!tx.contains(&rows, &cell).unwrap());
    }
    drop(younger);
    for mut tx in [older, other] {
        let there = key(index, 3);
        tx.put(&rows, &there, b"because there was none").unwrap();
        let refused = tx.commit(Durability::Periodic).unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
    }
    // Who removes a key that is not there has written it, too.
    let mut tx = begin();
    assert!(!tx.contains(&rows, &absent).unwrap());
    come_and_go(1);
    tx.put(&rows, &key(index, 4), b"still none").unwrap();
    let refused = tx.commit(Durability::Periodic).unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    assert_eq!(statistic(&db, "versions"), 0);
}
