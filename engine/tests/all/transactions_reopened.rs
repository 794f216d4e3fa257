//! Transactions and snapshots when a database ends, by closing, by dropping or by a kill: what
//! committed is there whole, and what was open has left nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use hedgerow::{
    Action, Builder, Db, Direction, Durability, Error, IndexKind, Isolation, Keyspace,
    OptimisticTransaction, Result, Snapshot, WriteOptions,
};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;

use crate::snapshots::{Rows, key, rows_at, statistic};
use crate::transactions::present;

over_each_index! {
    what_committed_is_there_whole_and_nothing_else,
    the_log_has_a_transaction_whole_or_not_at_all,
    a_checkpoint_has_nothing_of_open_transactions_and_snapshots,
    each_call_after_the_end_says_so,
}

fn builder(index: IndexKind, disk: &MemoryVfs) -> Builder {
    builder_of(Some(index))
        .vfs(Arc::new(disk.clone()))
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .now(Box::new(|| 1_000))
}

fn open(index: IndexKind, disk: &MemoryVfs) -> Db {
    builder(index, disk).open("/db").unwrap()
}

/// A row: its keyspace, key, value, columns and expiry.
type WholeRow = (
    String,
    Vec<u8>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Vec<u8>)>,
    Option<u64>,
);

fn contents(db: &Db) -> Vec<WholeRow> {
    let mut all = Vec::new();
    for name in db.keyspaces() {
        let keyspace = db.open_keyspace(&name).unwrap();
        let visit = |key: &[u8], row: hedgerow::Row<'_>| {
            let value = row.value().map(<[u8]>::to_vec);
            let columns = row.columns().map(|(n, v)| (n.to_vec(), v.to_vec()));
            let columns = columns.collect();
            all.push((name.clone(), key.to_vec(), value, columns, row.expiry_ms()));
            ControlFlow::Continue(())
        };
        keyspace.scan(.., Direction::Forward, visit).unwrap();
    }
    all
}

/// Keyspaces of plain rows and of columns, and what was there before.
fn two_keyspaces(db: &Db, index: IndexKind) -> (Keyspace, Keyspace) {
    let plain = db.keyspace("plain").unwrap();
    let columns = db.keyspace("columns").unwrap();
    for number in 90..110 {
        plain.put(&key(index, number), b"before").unwrap();
        let before: [(&[u8], &[u8]); 2] = [(b"a", b"before"), (b"b", b"before")];
        columns.put_columns(&key(index, number), &before).unwrap();
    }
    (plain, columns)
}

/// Rows that come, change and go, in both.
fn write(
    tx: &mut OptimisticTransaction,
    (plain, columns): (&Keyspace, &Keyspace),
    index: IndexKind,
) -> Result<()> {
    for number in 0..40 {
        tx.put(plain, &key(index, number), &[number as u8; 70])?;
        tx.put_columns(columns, &key(index, 70 + number), &[(b"b", b"within")])?;
    }
    for number in 95..100 {
        assert!(tx.remove(plain, &key(index, number))?);
    }
    tx.update(columns, &key(index, 100), |_, new| {
        new.remove_column(b"a").set_column(b"c", b"within");
        Action::Put(())
    })?;
    let expires = WriteOptions::default().expiry_ms(5_000);
    tx.put_with(plain, &key(index, 100), b"within", &expires)
}

fn what_committed_is_there_whole_and_nothing_else(index: IndexKind) {
    for ending in ["close", "drop", "kill"] {
        let disk = MemoryVfs::new();
        let db = open(index, &disk);
        let (plain, columns) = two_keyspaces(&db, index);
        db.sync().unwrap();
        let records = || statistic(&db, "log_records_total");
        let before = records();
        let sync = Durability::Sync.into();
        let written = db.transaction_with(Isolation::Serializable, &sync, |tx| {
            write(tx, (&plain, &columns), index)
        });
        let ((), commit) = written.unwrap();
        assert!(db.is_durable(&commit));
        assert_eq!(records() - before, 1);
        let row = |key: &[u8]| plain.version(key).unwrap();
        assert_eq!(row(&key(index, 0)), Some(commit.timestamp));
        // Three that leave nothing: rolled back, refused, and never ended.
        let begin = || {
            let mut tx = db.begin(Isolation::Serializable).unwrap();
            tx.put(&plain, &key(index, 300), b"never there").unwrap();
            assert!(tx.remove(&columns, &key(index, 101)).unwrap());
            tx
        };
        begin().rollback();
        let (refused, open_still) = (begin(), begin());
        columns.remove_columns(&key(index, 101), &[b"a"]).unwrap();
        assert!(refused.commit(Durability::Sync).unwrap_err().is_conflict());
        let snapshot = db.snapshot().unwrap();
        let expected = contents(&db);
        let disk = match ending {
            "close" => {
                db.close().unwrap();
                disk
            }
            "drop" => {
                drop(db);
                disk
            }
            _ => {
                db.sync().unwrap();
                disk.deep_clone()
            }
        };
        let reopened = open(index, &disk);
        assert!(contents(&reopened) == expected, "after {ending}");
        let counted = ["snapshots", "open_transactions", "versions"];
        assert_eq!(counted.map(|name| statistic(&reopened, name)), [0; 3]);
        if ending != "kill" {
            let late = open_still.commit(Durability::Sync).unwrap_err();
            assert!(matches!(late, Error::Closed), "{late}");
        }
        drop(snapshot);
        reopened.checkpoint().unwrap();
        drop(reopened);
        assert!(contents(&open(index, &disk)) == expected, "later");
    }
}

/// The log ends anywhere in the record, as a power cut leaves it.
fn the_log_has_a_transaction_whole_or_not_at_all(index: IndexKind) {
    let disk = MemoryVfs::new();
    let db = builder(index, &disk).workers(1).log_ahead_bytes(0);
    let db = db.open("/db").unwrap();
    let (plain, columns) = two_keyspaces(&db, index);
    db.sync().unwrap();
    let nothing = contents(&db);
    let before = disk.deep_clone().files();
    let sync = Durability::Sync.into();
    let written = db.transaction_with(Isolation::Serializable, &sync, |tx| {
        write(tx, (&plain, &columns), index)
    });
    written.unwrap();
    let whole = contents(&db);
    let after = disk.deep_clone();
    let longer = after.files().into_iter().find_map(|(path, bytes)| {
        let known = before.iter().find(|(known, _)| *known == path);
        let from = known.map(|(_, bytes)| bytes.len())?;
        (bytes.len() > from).then_some((path, bytes, from))
    });
    let (path, bytes, from) = longer.expect("the log has a record more");
    assert!(path.starts_with("/db/log"), "{}", path.display());
    assert!(bytes.len() - from > 4_000);
    let (mut without, mut with) = (0, 0);
    for step in 0..=24 {
        let image = after.deep_clone();
        let end = from + (bytes.len() - from) * step / 24;
        image.insert_file(&path, bytes[..end].to_vec());
        let found = contents(&open(index, &image));
        match found == whole {
            true => with += 1,
            false => {
                assert!(found == nothing, "a part of it, cut at {end}");
                without += 1;
            }
        }
    }
    assert!(without > 10 && with > 0, "{without} without, {with} with");
}

fn a_checkpoint_has_nothing_of_open_transactions_and_snapshots(index: IndexKind) {
    let disk = MemoryVfs::new();
    let db = open(index, &disk);
    let rows = db.keyspace("rows").unwrap();
    let keys: Vec<Vec<u8>> = (0..300).map(|number| key(index, number)).collect();
    for key in &keys[..200] {
        rows.put(key, b"before").unwrap();
    }
    let (before, snapshot) = (present(&rows), db.snapshot().unwrap());
    let mut tx = db.begin(Isolation::Snapshot).unwrap();
    assert_eq!(tx.count(&rows, ..keys[10].clone()).unwrap(), 10);
    for number in 0..10 {
        tx.put(&rows, &keys[200 + number], b"own").unwrap();
        assert!(tx.remove(&rows, &keys[number]).unwrap());
    }
    assert_eq!(db.checkpoint().unwrap().records, 200);
    for key in &keys[50..150] {
        rows.put(key, b"after").unwrap();
    }
    rows.delete_range(keys[100].clone()..keys[120].clone())
        .unwrap();
    assert_eq!(db.checkpoint().unwrap().records, 180);
    rows.put(&keys[299], b"in the log").unwrap();
    db.sync().unwrap();
    // As a kill leaves it.
    let killed = open(index, &disk.deep_clone());
    assert_eq!(present(&killed.keyspace("rows").unwrap()), present(&rows));
    let counted = ["snapshots", "open_transactions", "versions"];
    assert_eq!(counted.map(|name| statistic(&killed, name)), [0; 3]);
    drop(killed);
    // Here both go on.
    assert_eq!(rows_at(&snapshot.at(&rows).unwrap(), &keys), before);
    assert_eq!(tx.count(&rows, ..).unwrap(), 200);
    tx.commit(Durability::Sync).unwrap();
    assert_eq!(rows_at(&snapshot.at(&rows).unwrap(), &keys), before);
    let later = open(index, &disk.deep_clone());
    let expected: Rows = present(&rows);
    assert_eq!(expected.len(), 181);
    assert!(expected.contains_key(&keys[209]) && !expected.contains_key(&keys[9]));
    assert_eq!(present(&later.keyspace("rows").unwrap()), expected);
    drop(later);
    db.close().unwrap();
    assert!(matches!(snapshot.check(), Err(Error::Closed)));
    assert_eq!(
        present(&open(index, &disk).keyspace("rows").unwrap()),
        expected
    );
}

fn is_closed<T>(outcome: Result<T>, call: &str) {
    match outcome {
        Err(Error::Closed) => {}
        Err(error) => panic!("{call}: {error}"),
        Ok(_) => panic!("{call} works"),
    }
}

fn snapshot_is_closed(snapshot: &Snapshot, rows: &Keyspace, key: &[u8]) {
    is_closed(snapshot.check(), "check");
    let at = snapshot.at(rows).unwrap();
    is_closed(at.get(key), "get");
    is_closed(at.contains(key), "contains");
    is_closed(at.version(key), "version");
    is_closed(at.get_columns(key, &[b"a"]), "get_columns");
    is_closed(at.get_many(&[key], |_, _| ()), "get_many");
    is_closed(at.range(..), "range");
    is_closed(at.prefix(key), "prefix");
    let visit = |_: &[u8], _: hedgerow::Row<'_>| ControlFlow::Continue(());
    is_closed(at.scan(.., Direction::Reverse, visit), "scan");
    is_closed(at.count(..), "count");
    is_closed(at.len(), "len");
    is_closed(at.is_empty(), "is_empty");
}

fn transaction_is_closed(mut tx: OptimisticTransaction, rows: &Keyspace, keys: [&[u8]; 2]) {
    for key in keys {
        is_closed(tx.get(rows, key), "get");
        is_closed(tx.contains(rows, key), "contains");
        is_closed(tx.get_many(rows, &[key], |_, _| ()), "get_many");
        is_closed(tx.count(rows, ..), "count");
        is_closed(tx.range(rows, .., Direction::Forward, 1), "range");
        is_closed(tx.put(rows, key, b"late"), "put");
        is_closed(tx.put_columns(rows, key, &[(b"a", b"1")]), "put_columns");
        is_closed(tx.update(rows, key, |_, _| Action::Keep(())), "update");
        is_closed(tx.remove(rows, key), "remove");
    }
    is_closed(tx.commit(Durability::Periodic), "commit");
}

fn each_call_after_the_end_says_so(index: IndexKind) {
    let disk = MemoryVfs::new();
    let db = open(index, &disk);
    let rows = db.keyspace("rows").unwrap();
    let (stored, own) = (key(index, 1), key(index, 2));
    rows.put(&stored, b"stored").unwrap();
    let snapshot = db.snapshot().unwrap();
    let mut iterators = [(); 2].map(|()| snapshot.at(&rows).unwrap().range(..).unwrap());
    let reader = db.begin(Isolation::Serializable).unwrap();
    let mut writer = db.begin(Isolation::Snapshot).unwrap();
    writer.put(&rows, &own, b"own").unwrap();
    db.close().unwrap();
    is_closed(db.snapshot(), "snapshot");
    is_closed(db.snapshot_named("late"), "snapshot_named");
    is_closed(db.begin(Isolation::Snapshot), "begin");
    is_closed(db.begin_named(Isolation::Snapshot, None), "begin_named");
    let never = |_: &mut OptimisticTransaction| -> Result<()> { panic!("it ran") };
    is_closed(
        db.transaction(Isolation::Serializable, never),
        "transaction",
    );
    assert_eq!(db.oldest_snapshot(), None);
    snapshot_is_closed(&snapshot, &rows, &stored);
    let [forward, reverse] = &mut iterators;
    is_closed(forward.next().unwrap(), "next");
    is_closed(reverse.next_back().unwrap(), "next_back");
    is_closed(reader.commit(Durability::Periodic), "commit of nothing");
    transaction_is_closed(writer, &rows, [&stored, &own]);
    drop(db);
    // They stay closed when the files are opened again, and do it no harm.
    let again = open(index, &disk);
    snapshot_is_closed(&snapshot, &rows, &stored);
    let present = present(&again.keyspace("rows").unwrap());
    assert_eq!(present, Rows::from([(stored, b"stored".to_vec())]));
}
