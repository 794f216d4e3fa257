//! What ends transactions that lock nothing, and how often they run: limits of what they read and
//! write, of the versions that are kept for them, and of runs after conflicts.

use hedgerow::{
    Action, Direction, Durability, Error, IndexKind, Isolation, Keyspace, OptimisticTransaction,
    Result, WriteOptions,
};
use hedgerow_testkit::databases::key_of;
use hedgerow_testkit::over_each_index;

use crate::snapshots::{Rows, key, open, statistic};
use crate::transactions::{BOTH, fail, open_small, present};

over_each_index! {
    a_transaction_that_reads_too_many_keys_is_refused,
    a_commit_that_is_too_large_is_refused_row_by_row,
    the_oldest_transaction_ends_when_versions_take_too_much,
    what_only_a_transaction_needs_ends_with_it,
    a_transaction_runs_again_after_a_conflict_and_reads_anew,
    a_transaction_that_fails_by_itself_runs_once,
}

fn check_words(error: &Error, parts: &[&str]) {
    let words = error.to_string();
    for part in parts {
        assert!(words.contains(part), "{part:?} is not in: {words}");
    }
}

fn a_transaction_that_reads_too_many_keys_is_refused(index: IndexKind) {
    let (db, rows) = open_small(index, 64 << 10, 1 << 20);
    let read_all = |tx: &OptimisticTransaction| -> Result<u64> {
        for number in 0..5_000 {
            // Keys without rows count as others.
            tx.get(&rows, &key_of(Some(index), format!("{number:08}")))?;
        }
        Ok(5_000)
    };
    let mut other = db.begin(Isolation::Serializable).unwrap();
    assert!(!other.contains(&rows, &key(index, 1)).unwrap());
    let mut runs = 0;
    let refused = db.transaction(Isolation::Serializable, |tx| {
        runs += 1;
        tx.put(&rows, &key(index, 2), b"never there")?;
        read_all(tx)
    });
    let error = refused.unwrap_err();
    let Error::TransactionTooLarge { bytes, limit } = error else {
        panic!("{error}");
    };
    assert!(limit == 64 << 10 && (limit + 1..limit + 100).contains(&bytes));
    assert!(runs == 1 && !error.is_conflict());
    let read = format!("{bytes} bytes of keys that it read");
    let parts = [read.as_str(), "65536", "Isolation::Snapshot", "read ranges"];
    check_words(&error, &parts);
    check_words(&error, &["--version-memory", "version_memory"]);
    assert!(rows.is_empty());
    // Others are as they were.
    other.put(&rows, &key(index, 1), b"there").unwrap();
    other.commit(Durability::Periodic).unwrap();
    // What such a transaction can do.
    let tx = db.begin(Isolation::Snapshot).unwrap();
    assert_eq!(read_all(&tx).unwrap(), 5_000);
    let tx = db.begin(Isolation::Serializable).unwrap();
    for number in 0..100 {
        assert_eq!(
            tx.count(&rows, key(index, number)..).unwrap(),
            u64::from(number < 2)
        );
    }
    // The same keys again and again are remembered once.
    for number in 0..20_000 {
        tx.get(&rows, &key(index, number % 100)).unwrap();
    }
    tx.commit(Durability::Periodic).unwrap();
    assert_eq!(statistic(&db, "snapshots_ended_total"), 0);
}

fn a_commit_that_is_too_large_is_refused_row_by_row(index: IndexKind) {
    let (db, rows) = open_small(index, 1 << 20, 4_000);
    let key = |number: u64| key(index, number);
    let mut runs = 0;
    let refused = db.transaction(Isolation::Snapshot, |tx| {
        runs += 1;
        tx.put(&rows, &key(1), &[1; 3_000])?;
        tx.put(&rows, &key(2), &[2; 3_000])
    });
    let error = refused.unwrap_err();
    assert!(runs == 1 && !error.is_conflict() && rows.is_empty());
    let is_it = |error: &Error| {
        matches!(error, Error::CommitTooLarge { bytes, limit: 4_000 } if (6_000..7_000)
            .contains(bytes))
    };
    assert!(is_it(&error), "{error}");
    check_words(
        &error,
        &["limit is 4000", "--max-commit-bytes", "max_commit_bytes"],
    );
    // By hand, the transaction may continue.
    let mut tx = db.begin(Isolation::Serializable).unwrap();
    tx.put(&rows, &key(1), &[1; 3_000]).unwrap();
    tx.put(&rows, &key(2), b"before").unwrap();
    assert!(is_it(&tx.put(&rows, &key(2), &[2; 3_000]).unwrap_err()));
    assert!(is_it(&tx.put(&rows, &key(3), &[3; 3_000]).unwrap_err()));
    let long: [(&[u8], &[u8]); 1] = [(b"long", &[3; 3_000])];
    assert!(is_it(&tx.put_columns(&rows, &key(3), &long).unwrap_err()));
    assert_eq!(tx.rows_written(), 2);
    assert!(!tx.contains(&rows, &key(3)).unwrap());
    // What is replaced gives its bytes back.
    tx.put(&rows, &key(1), b"short").unwrap();
    tx.put(&rows, &key(3), &[3; 3_000]).unwrap();
    tx.commit(Durability::Periodic).unwrap();
    let expected: [(u64, &[u8]); 3] = [(1, b"short"), (2, b"before"), (3, &[3; 3_000])];
    let expected = expected.map(|(n, value)| (key(n), value.to_vec()));
    assert_eq!(present(&rows), Rows::from(expected));
}

/// Each call of a transaction that was ended says so.
fn every_call_fails(tx: &mut OptimisticTransaction, rows: &Keyspace, own: &[u8], other: &[u8]) {
    let mut calls = 0;
    let mut check = |outcome: Result<()>| {
        calls += 1;
        let is_it = |error: &Error| {
            matches!(error, Error::TransactionTooOld { name, age_s, limit_bytes: 98_304 }
                if name == "import" && *age_s < 600)
        };
        match outcome {
            Err(error) if is_it(&error) => assert!(!error.is_conflict()),
            outcome => panic!("call {calls}: {outcome:?}"),
        }
    };
    let expires = WriteOptions::default().expiry_ms(5_000);
    for key in [own, other] {
        check(tx.get(rows, key).map(drop));
        check(tx.contains(rows, key).map(drop));
        check(tx.read(rows, key, |_| ()).map(drop));
        check(tx.get_many(rows, &[key], |_, _| ()));
        check(tx.count(rows, key..=key).map(drop));
        check(tx.range(rows, key.., Direction::Reverse, 1).map(drop));
        check(tx.put(rows, key, b"value"));
        check(tx.put_with(rows, key, b"value", &expires));
        check(tx.put_columns(rows, key, &[(b"a", b"1")]));
        check(tx.update(rows, key, |_, _| Action::Keep(())));
        check(tx.remove(rows, key).map(drop));
        check(tx.nested(|tx| tx.remove(rows, key)).map(drop));
    }
}

fn the_oldest_transaction_ends_when_versions_take_too_much(index: IndexKind) {
    let (db, rows) = open_small(index, 96 << 10, 1 << 20);
    let out = db.keyspace("out").unwrap();
    let write = |value: u8| {
        for number in 0..100 {
            rows.put(&key(index, number), &[value; 500]).unwrap();
        }
    };
    write(1);
    let mut old = db
        .begin_named(Isolation::Serializable, Some("import"))
        .unwrap();
    old.put(&out, &key(index, 1), b"never there").unwrap();
    old.put(&rows, &key(index, 300), b"own").unwrap();
    let idle = db.begin_named(Isolation::Serializable, Some("idle"));
    let idle = idle.unwrap();
    write(2);
    assert_eq!(old.get(&rows, &key(index, 7)).unwrap().unwrap(), [1; 500]);
    let mut young = db.begin(Isolation::Snapshot).unwrap();
    young.put(&out, &key(index, 2), b"there").unwrap();
    assert_eq!(db.oldest_snapshot().unwrap().name, "import");
    let mut writes = 0;
    while db.oldest_snapshot().unwrap().name == "import" {
        write(3 + writes);
        writes += 1;
        assert!(writes < 50, "nothing was ended");
    }
    let error = old.get(&rows, &key(index, 7)).unwrap_err();
    let parts = ["\"import\"", "98304 bytes", "oldest transaction"];
    check_words(&error, &parts);
    check_words(&error, &["nothing of it happened", "--version-memory"]);
    every_call_fails(&mut old, &rows, &key(index, 300), &key(index, 7));
    let error = old.commit(Durability::Periodic).unwrap_err();
    assert!(matches!(&error, Error::TransactionTooOld { name, .. } if name == "import"));
    // One that wrote nothing does not pretend to have seen anything.
    let error = idle.commit(Durability::Periodic).unwrap_err();
    assert!(matches!(&error, Error::TransactionTooOld { name, .. } if name == "idle"));
    // The younger one goes on.
    assert_eq!(young.get(&rows, &key(index, 7)).unwrap().unwrap(), [2; 500]);
    assert_eq!(young.count(&rows, ..).unwrap(), 100);
    young.commit(Durability::Periodic).unwrap();
    assert_eq!(out.len(), 1);
    assert!(out.contains(&key(index, 2)).unwrap());
    assert!(!rows.contains(&key(index, 300)).unwrap());
    let left = ["open_transactions", "transaction_conflicts_total"];
    assert_eq!(left.map(|name| statistic(&db, name)), [0, 0]);
    assert_eq!(statistic(&db, "snapshots_ended_total"), 2);
    write(100);
    assert_eq!(statistic(&db, "versions"), 0);
}

fn what_only_a_transaction_needs_ends_with_it(index: IndexKind) {
    let db = open(index);
    let rows = db.keyspace("rows").unwrap();
    rows.put(&key(index, 0), b"before").unwrap();
    let versions = || statistic(&db, "versions");
    // Of the snapshot's moment, and of a later one.
    for between in [false, true] {
        let snapshot = db.snapshot().unwrap();
        if between {
            rows.put(&key(index, 0), b"before").unwrap();
        }
        let begin = || db.begin(Isolation::Serializable).unwrap();
        let (first, second) = (begin(), begin());
        for number in 1..100 {
            rows.put(&key(index, number), b"new").unwrap();
        }
        rows.put(&key(index, 0), b"after").unwrap();
        let replaced = 1 + u64::from(between);
        assert_eq!(versions(), 99 + replaced);
        first.commit(Durability::Periodic).unwrap();
        assert_eq!(versions(), 99 + replaced);
        assert_eq!(second.count(&rows, ..).unwrap(), 1);
        // That there was nothing is of use to those alone who may have looked.
        second.rollback();
        assert_eq!(versions(), 1);
        let at = snapshot.at(&rows).unwrap();
        assert_eq!(at.len().unwrap(), 1);
        assert_eq!(at.get(&key(index, 0)).unwrap().unwrap(), b"before");
        drop((snapshot, at));
        assert_eq!(versions(), 0);
        rows.delete_range(key(index, 1)..).unwrap();
        rows.put(&key(index, 0), b"before").unwrap();
    }
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
}

fn a_transaction_runs_again_after_a_conflict_and_reads_anew(index: IndexKind) {
    let db = open(index);
    let rows = db.keyspace("rows").unwrap();
    let (counter, log) = (key(index, 1), key(index, 2));
    for isolation in BOTH {
        rows.delete_range(..).unwrap();
        let retries = statistic(&db, "transaction_retries_total");
        let (mut seen, mut moments) = (Vec::new(), Vec::new());
        let done = db.transaction(isolation, |tx| {
            let value = number(tx.get(&rows, &counter)?);
            assert!(!tx.contains(&rows, &log)?, "left by an earlier run");
            seen.push(value);
            moments.push(tx.timestamp());
            if seen.len() < 4 {
                // Somebody else.
                rows.put(&counter, &(value + 10).to_le_bytes())?;
            }
            tx.put(&rows, &log, &[seen.len() as u8])?;
            tx.put(&rows, &counter, &(value + 1).to_le_bytes())?;
            Ok(value)
        });
        assert_eq!((done.unwrap(), &seen), (30, &vec![0, 10, 20, 30]));
        assert!(moments.is_sorted_by(|a, b| a < b));
        assert_eq!(number(rows.get(&counter).unwrap()), 31);
        assert_eq!(rows.get(&log).unwrap().unwrap(), [4]);
        assert_eq!(statistic(&db, "transaction_retries_total"), retries + 3);
    }
    // Another transaction within the closure counts as somebody else.
    let mut runs = 0;
    let done = db.transaction(Isolation::Serializable, |outer| {
        runs += 1;
        let value = number(outer.get(&rows, &counter)?);
        if runs == 1 {
            db.transaction(Isolation::Serializable, |inner| {
                inner.put(&rows, &counter, &77_u64.to_le_bytes())
            })?;
        }
        outer.put(&rows, &log, &value.to_le_bytes())
    });
    done.unwrap();
    assert_eq!((runs, number(rows.get(&log).unwrap())), (2, 77));
    assert_eq!(statistic(&db, "versions"), 0);
}

fn a_transaction_that_fails_by_itself_runs_once(index: IndexKind) {
    let (db, rows) = open_small(index, 96 << 10, 1 << 20);
    let key = |number: u64| key(index, number);
    let mut runs = 0;
    let failed = db.transaction(Isolation::Serializable, |tx| {
        runs += 1;
        tx.put(&rows, &key(1), b"never there")?;
        fail()
    });
    assert!(matches!(failed, Err(Error::NotLocked)) && runs == 1);
    // One that was ended, as others wrote too much beside it.
    for number in 0..300 {
        rows.put(&key(number + 10), &[1; 500]).unwrap();
    }
    let mut runs = 0;
    let ended = db.transaction(Isolation::Snapshot, |tx| {
        runs += 1;
        tx.put(&rows, &key(1), b"never there")?;
        (0..300).try_for_each(|number| rows.put(&key(number + 10), &[2; 500]).map(drop))
    });
    assert!(matches!(ended, Err(Error::TransactionTooOld { .. })) && runs == 1);
    assert_eq!(statistic(&db, "transaction_retries_total"), 0);
    assert!(!rows.contains(&key(1)).unwrap());
    // A conflict that the closure returns itself is one.
    let mut runs = 0;
    let done = db.transaction(Isolation::Snapshot, |tx| {
        runs += 1;
        tx.put(&rows, &key(1), &[runs])?;
        let (expected, found) = (None, Some(tx.timestamp()));
        match runs {
            1 => Err(Error::Conflict { expected, found }),
            _ => Ok(()),
        }
    });
    done.unwrap();
    assert_eq!((runs, rows.get(&key(1)).unwrap()), (2, Some(vec![2])));
}

#[test]
fn a_transaction_that_always_conflicts_is_given_up() {
    let db = open(IndexKind::Masstree);
    let rows = db.keyspace("rows").unwrap();
    let mut runs = 0_u64;
    let refused = db.transaction(Isolation::Serializable, |tx| {
        runs += 1;
        tx.get(&rows, b"counter")?;
        rows.put(b"counter", &runs.to_le_bytes())?;
        tx.put(&rows, b"out", b"never there")
    });
    let error = refused.unwrap_err();
    assert!(matches!(&error, Error::TransactionConflict { .. }) && error.is_conflict());
    check_words(
        &error,
        &["\"counter\"", "keyspace \"rows\"", "nothing happened"],
    );
    assert_eq!(runs, 100);
    assert_eq!(number(rows.get(b"counter").unwrap()), 100);
    assert!(!rows.contains(b"out").unwrap());
    let counted = ["transaction_retries_total", "transaction_conflicts_total"];
    assert_eq!(counted.map(|name| statistic(&db, name)), [99, 100]);
    assert_eq!(statistic(&db, "transactions_total"), 0);
}
