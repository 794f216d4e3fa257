//! A handle of a keyspace belongs to one opening of one database. A batch, a transaction or a
//! snapshot of another refuses it, and neither database changes.

use std::ops::ControlFlow;
use std::sync::Arc;

use hedgerow::{
    Db, Direction, Durability, Error, Isolation, Keyspace, Locks, Result, Transaction, WriteOptions,
};
use hedgerow_vfs::MemoryVfs;

const KEY: &[u8] = b"key";

fn open(disk: &MemoryVfs) -> Db {
    let builder = Db::builder().vfs(Arc::new(disk.clone())).workers(2);
    builder.checkpoint_log_bytes(None).open("/db").unwrap()
}

fn assert_refused<T>(outcome: Result<T>, call: &str) {
    let error = outcome.map(drop).expect_err(call);
    let is_named = matches!(&error, Error::OtherDatabase { keyspace } if keyspace == "rows");
    assert!(is_named, "{call}: {error}");
    let text = error.to_string();
    assert!(text.contains("open the keyspace again"), "{text}");
}

/// Gives the handle to everything of a database that takes one.
fn check_refused(db: &Db, foreign: &Keyspace) {
    let options = WriteOptions::default();
    let mut batch = db.batch();
    batch.put(foreign, KEY, b"of a batch");
    assert_refused(batch.commit(Durability::Sync), "batch");

    let keys = [(foreign, KEY)];
    let locked = db.transact(Locks::Keys(&keys), &options, |_| Ok(()));
    assert_refused(locked, "transact");
    let watch = foreign.watch(KEY).unwrap();
    let use_it = |tx: &mut Transaction<'_>| {
        assert_refused(tx.get(foreign, KEY), "get");
        assert_refused(tx.put(foreign, KEY, b"of a transaction"), "put");
        assert_refused(tx.remove(foreign, KEY), "remove");
        assert_refused(tx.changed_since(foreign, KEY, &watch), "changed_since");
        let visit = |_: &[u8], _: hedgerow::Row<'_>| ControlFlow::Continue(());
        assert_refused(tx.scan(foreign, .., Direction::Forward, visit), "scan");
        Ok(())
    };
    db.transact(Locks::All, &options, use_it).unwrap();

    let mut tx = db.begin(Isolation::Serializable).unwrap();
    assert_refused(tx.get(foreign, KEY), "optimistic get");
    assert_refused(
        tx.get_many(foreign, &[KEY], |_, _| ()),
        "optimistic get_many",
    );
    assert_refused(tx.count(foreign, ..), "optimistic count");
    assert_refused(tx.put(foreign, KEY, b"optimistic"), "optimistic put");
    assert_refused(tx.remove(foreign, KEY), "optimistic remove");
    tx.commit(Durability::Sync).unwrap();

    assert_refused(db.snapshot().unwrap().at(foreign), "snapshot");
}

#[test]
fn a_handle_of_an_earlier_opening_is_refused() {
    let disk = MemoryVfs::new();
    let closed = open(&disk);
    let stale = closed.keyspace("rows").unwrap();
    stale.put(KEY, b"before").unwrap();
    closed.close().unwrap();
    let db = open(&disk);
    check_refused(&db, &stale);
    let rows = db.keyspace("rows").unwrap();
    for handle in [&stale, &rows] {
        let value = handle.get(KEY).unwrap();
        assert_eq!(value.as_deref(), Some(&b"before"[..]));
    }
    let mut batch = db.batch();
    batch.put(&rows, KEY, b"after");
    batch.commit(Durability::Sync).unwrap();
    assert_eq!(rows.get(KEY).unwrap().as_deref(), Some(&b"after"[..]));
}

/// The other database has more keyspaces: the log must not have an identifier that its own
/// database does not know.
#[test]
fn a_handle_of_another_database_is_refused() {
    let (disk, other_disk) = (MemoryVfs::new(), MemoryVfs::new());
    let (db, other) = (open(&disk), open(&other_disk));
    db.keyspace("only").unwrap().put(KEY, b"before").unwrap();
    for name in ["first", "second", "third"] {
        other.keyspace(name).unwrap();
    }
    let foreign = other.keyspace("rows").unwrap();
    check_refused(&db, &foreign);
    assert!(!foreign.contains(KEY).unwrap());
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(db.keyspaces(), ["only"]);
    let only = db.keyspace("only").unwrap();
    assert_eq!(only.get(KEY).unwrap().as_deref(), Some(&b"before"[..]));
}
