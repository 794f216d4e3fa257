//! Parts of a transaction: what one that fails wrote is undone, and nothing else.

use std::sync::Arc;

use hedgerow::{Db, Error, Keyspace, Locks, Result, Transaction, WriteOptions};
use hedgerow_vfs::MemoryVfs;

fn open(disk: &MemoryVfs) -> (Db, Keyspace) {
    let builder = Db::builder().vfs(Arc::new(disk.clone())).workers(1);
    let db = builder.max_commit_bytes(4_000).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    (db, rows)
}

fn fail() -> Result<()> {
    Err(Error::NotLocked)
}

fn work(tx: &mut Transaction<'_>, rows: &Keyspace) -> Result<()> {
    tx.put(rows, b"a", b"before")?;
    tx.nested(|tx| {
        tx.put(rows, b"a", b"within")?;
        let inner = tx.nested(|tx| {
            tx.put(rows, b"a", b"innermost")?;
            tx.remove(rows, b"stored")?;
            tx.put(rows, b"c", &[7; 3_000])?;
            fail()
        });
        assert!(inner.is_err());
        assert_eq!(tx.get(rows, b"a")?.as_deref(), Some(&b"within"[..]));
        // What was undone counts no more.
        tx.put(rows, b"d", &[8; 3_000])
    })?;
    let outer = tx.nested(|tx| {
        tx.nested(|tx| tx.put(rows, b"e", b"done"))?;
        // Of what a key had, the part brings the first back, however often it was written.
        tx.put(rows, b"a", b"once")?;
        tx.nested(|tx| {
            tx.put(rows, b"a", b"twice")?;
            tx.put(rows, b"a", b"thrice")
        })?;
        tx.remove(rows, b"a")?;
        tx.put(rows, b"d", b"short")?;
        fail()
    });
    assert!(outer.is_err());
    assert!(!tx.contains(rows, b"e")?);
    tx.put(rows, b"z", b"after")
}

#[test]
fn a_part_that_fails_is_undone_and_the_others_stay() {
    let disk = MemoryVfs::new();
    let (db, rows) = open(&disk);
    rows.put(b"stored", b"1").unwrap();
    let options = WriteOptions::default();
    let done = db.transact(Locks::All, &options, |tx| work(tx, &rows));
    done.unwrap();
    db.sync().unwrap();
    let (killed, recovered) = open(&disk.deep_clone());
    for rows in [&rows, &recovered] {
        let get = |key: &[u8]| rows.get(key).unwrap();
        assert_eq!(get(b"a").as_deref(), Some(&b"within"[..]));
        assert_eq!(get(b"d").as_deref(), Some(&[8; 3_000][..]));
        assert_eq!(get(b"stored").as_deref(), Some(&b"1"[..]));
        assert_eq!(get(b"z").as_deref(), Some(&b"after"[..]));
        assert_eq!(rows.len(), 4);
    }
    killed.close().unwrap();
    db.close().unwrap();
}
