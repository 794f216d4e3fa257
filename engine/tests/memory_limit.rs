//! The memory limit counts the memory of the whole process: so this test has a process of its own.

use std::sync::Arc;

use hedgerow::{Action, Db, Error, Keyspace, Locks, Row, RowBuilder, Transaction, WriteOptions};
use hedgerow_vfs::{MemoryVfs, Vfs};

#[test]
fn memory_has_a_limit_that_removing_makes_room_under() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let limit = hedgerow_memory::reserved_bytes() + (24 << 20);
    let builder = Db::builder().vfs(vfs).workers(1).checkpoint_log_bytes(None);
    let db = builder.memory_limit(Some(limit)).open("/d").unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let mut stored = 0u32;
    let error = loop {
        match keyspace.put(&stored.to_be_bytes(), &[7; 1000]) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100_000, "the limit is never reached");
    };
    assert!(matches!(error, Error::OutOfMemory { limit_bytes, .. } if limit_bytes == limit));
    assert!(error.to_string().contains("memory_limit"));
    assert!(stored > 1000, "{stored}");
    assert!(hedgerow_memory::live_bytes() < limit + (1 << 20));
    let mut batch = db.batch();
    batch.put(&keyspace, b"more", b"");
    let refused = batch.commit(WriteOptions::default());
    assert!(
        matches!(refused, Err(Error::OutOfMemory { .. })),
        "{refused:?}"
    );
    rows_get_no_longer(&db, &keyspace);
    assert_eq!(
        keyspace.get(&0u32.to_be_bytes()).unwrap().map(|v| v.len()),
        Some(1000)
    );
    assert!(
        keyspace.remove(&0u32.to_be_bytes()).unwrap(),
        "removing is allowed"
    );
    keyspace.delete_range(..).unwrap();
    // What was removed is reclaimed once no reader can see it, as later operations go by.
    while keyspace.put(b"again", &[7; 1000]).is_err() {
        keyspace.remove(b"none").unwrap();
        keyspace.get(b"none").unwrap();
    }
    // The handle keeps the index that was cleared, and not its rows.
    for _ in 0..3 {
        while keyspace.put(&stored.to_be_bytes(), &[7; 1000]).is_ok() {
            stored += 1;
        }
        assert!(keyspace.len() > 1000, "{}", keyspace.len());
        db.clear_keyspace("k").unwrap();
        put_again(&keyspace);
    }
}

/// Stores a row, for which there is memory: what was removed is reclaimed as operations go by.
fn put_again(keyspace: &Keyspace) {
    let done = (0..100_000).any(|_| {
        keyspace.remove(b"none").unwrap();
        keyspace.put(b"again", &[7; 1000]).is_ok()
    });
    assert!(done, "the memory of cleared rows never comes back");
}

/// What makes a row no longer is let in, in a transaction as well: or no row could be shortened.
fn rows_get_no_longer(db: &Db, keyspace: &Keyspace) {
    let shorten = |row: Option<Row<'_>>, new: &mut RowBuilder<'_>| {
        let value = row.and_then(|row| row.value().map(<[u8]>::to_vec));
        let mut value = value.unwrap_or_default();
        value.pop();
        new.set_value_owned(value);
        Action::Put(())
    };
    let key = 1u32.to_be_bytes();
    let options = WriteOptions::default();
    keyspace.update(&key, &options, shorten).unwrap();
    let within = |tx: &mut Transaction<'_>| tx.update(keyspace, &key, shorten);
    db.transact(Locks::All, &options, within).unwrap();
    assert_eq!(keyspace.get(&key).unwrap().map(|v| v.len()), Some(998));
    let lengthen = |_: Option<Row<'_>>, new: &mut RowBuilder<'_>| {
        new.set_value(&[7; 999]);
        Action::Put(())
    };
    let refused = keyspace.update(&key, &options, lengthen);
    assert!(
        matches!(refused, Err(Error::OutOfMemory { .. })),
        "{refused:?}"
    );
}
