//! Databases that live in memory alone.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use hedgerow::{Db, Durability, Error, Isolation, WriteOptions};

#[test]
fn everything_works_that_needs_no_files() {
    let db = Db::builder()
        .workers(2)
        .sweep_interval(None)
        .open_in_memory()
        .unwrap();
    assert!(db.is_in_memory());
    let rows = db.keyspace("rows").unwrap();
    for n in 0..10_000_u32 {
        rows.put(&n.to_be_bytes(), b"value").unwrap();
    }
    let mut batch = db.batch();
    batch
        .put(&rows, b"a", b"1")
        .remove(&rows, &7_u32.to_be_bytes());
    batch.commit(Durability::Periodic).unwrap();
    assert_eq!(rows.len(), 10_000);
    assert_eq!(rows.range(..).unwrap().count(), 10_000);
    let expired = WriteOptions::default().expiry_ms(1);
    rows.put_with(b"gone", b"1", &expired).unwrap();
    assert_eq!(db.sweep_expired().unwrap(), 1);
    db.clear_keyspace("rows").unwrap();
    assert!(rows.is_empty());
    db.drop_keyspace("rows").unwrap();
    assert_eq!(db.keyspaces(), Vec::<String>::new());
}

#[test]
fn nothing_is_recorded_and_nobody_waits() {
    let db = Db::builder()
        .flush_interval(Duration::from_millis(5))
        .open_in_memory()
        .unwrap();
    let rows = db.keyspace("rows").unwrap();
    let commit = rows
        .put_with(b"key", &[7; 100_000], &Durability::Sync.into())
        .unwrap();
    assert!(db.is_durable(&commit), "there is nothing to wait for");
    db.write_out().unwrap();
    db.sync().unwrap();
    let logged = db.statistics().get("log_bytes_total").unwrap();
    assert!(logged < 10_000.0, "{logged} bytes of log");
}

#[test]
fn what_needs_files_is_refused() {
    let db = Db::builder().open_in_memory().unwrap();
    let target = tempfile::tempdir().unwrap();
    assert!(matches!(db.checkpoint(), Err(Error::InMemory)));
    assert!(matches!(db.backup(target.path()), Err(Error::InMemory)));
    assert_eq!(target.path().read_dir().unwrap().count(), 0);
    db.close().unwrap();
    let error = db.keyspace("rows").unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");
}

#[test]
fn a_transaction_commits_after_more_writes_than_an_epoch_has_timestamps() {
    let db = Db::builder().workers(1).open_in_memory().unwrap();
    let rows = db.keyspace("rows").unwrap();
    rows.put(b"read", b"1").unwrap();
    // An epoch has 2²⁴ timestamps, of which each write of one key takes four.
    for _ in 0..(1 << 22) + 10 {
        rows.put(b"hot", b"").unwrap();
    }
    let db = Arc::new(db);
    let (done, ended) = mpsc::channel();
    let committing = Arc::clone(&db);
    thread::spawn(move || {
        let rows = committing.keyspace("rows").unwrap();
        let mut transaction = committing.begin(Isolation::Serializable).unwrap();
        let read = transaction.get(&rows, b"read").unwrap().unwrap();
        transaction.put(&rows, b"hot", &read).unwrap();
        let commit = transaction.commit(Durability::Periodic);
        done.send(commit.is_ok()).unwrap();
    });
    let committed = ended.recv_timeout(Duration::from_secs(60));
    assert_eq!(committed, Ok(true), "a commit that does not end");
}
