//! Keyspaces whose index stores keys of 8 bytes only.

use std::sync::Arc;

use hedgerow::{
    Action, BST_KEY_BYTES, Builder, Db, Durability, Error, IndexKind, Keyspace, Locks, Result,
    WriteOptions,
};
use hedgerow_vfs::MemoryVfs;

use crate::keyspaces::{everything, with};

fn builder(disk: &MemoryVfs) -> Builder {
    Db::builder().vfs(Arc::new(disk.clone())).workers(2)
}

fn open(disk: &MemoryVfs) -> (Db, Keyspace) {
    let db = builder(disk).open("/db").unwrap();
    let keyspace = db.keyspace_with("numbers", with(IndexKind::Bst)).unwrap();
    (db, keyspace)
}

fn key(number: u64) -> [u8; BST_KEY_BYTES] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Whether a key of another width was refused in words that help.
fn refused<T>(outcome: Result<T>, bytes: usize) {
    let Some(error) = outcome.err() else {
        panic!("a key of {bytes} bytes was stored");
    };
    let is_it = matches!(&error, Error::KeyWidth { bytes: said, .. } if *said == bytes);
    assert!(is_it, "{error:?}");
    let words = error.to_string();
    for part in ["\"numbers\"", "bst", "8 bytes", "another index"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn keys_of_another_width_are_refused_and_never_found() {
    let (db, numbers) = open(&MemoryVfs::new());
    for other in [&b""[..], b"seven b", b"nine byte"] {
        let bytes = other.len();
        refused(numbers.put(other, b"value"), bytes);
        let built = numbers.update(other, &WriteOptions::default(), |_, row| {
            row.set_value(b"value");
            Action::Put(())
        });
        refused(built, bytes);
        let locks = [(&numbers, other)];
        let staged = db.transact(Locks::Keys(&locks), &WriteOptions::default(), |tx| {
            tx.put(&numbers, other, b"value")
        });
        refused(staged, bytes);
        let mut batch = db.batch();
        batch
            .put(&numbers, &key(1), b"one")
            .put(&numbers, other, b"value");
        refused(batch.commit(Durability::Periodic), bytes);
        assert!(numbers.get(other).unwrap().is_none());
        assert!(!numbers.remove(other).unwrap());
        let removed = db.transact(Locks::Keys(&locks), &WriteOptions::default(), |tx| {
            tx.remove(&numbers, other)
        });
        let (was_there, _) = removed.unwrap();
        assert!(!was_there);
    }
    // Nothing of what was refused is there, nor of its batch.
    assert_eq!(
        everything(&db),
        [("numbers".to_owned(), IndexKind::Bst, vec![])]
    );
    db.close().unwrap();
}

#[test]
fn rows_come_back_from_log_and_checkpoint() {
    let disk = MemoryVfs::new();
    let (db, numbers) = open(&disk);
    for number in 0..2_000 {
        numbers.put(&key(number), &number.to_le_bytes()).unwrap();
        if number == 1_000 {
            db.checkpoint().unwrap();
        }
    }
    for number in (0..2_000).step_by(3) {
        assert!(numbers.remove(&key(number)).unwrap());
    }
    numbers
        .delete_range(&b"\x40"[..]..&b"\x60-and-longer"[..])
        .unwrap();
    let locks = [(&numbers, &key(1)[..]), (&numbers, &key(5_000)[..])];
    let moved = db.transact(Locks::Keys(&locks), &Durability::Sync.into(), |tx| {
        tx.remove(&numbers, &key(1))?;
        tx.put(&numbers, &key(5_000), b"moved")
    });
    moved.unwrap();
    let before = everything(&db);
    let (_, kind, rows) = &before[0];
    assert_eq!(*kind, IndexKind::Bst);
    assert!(rows.is_sorted() && rows.len() > 900, "{} rows", rows.len());
    assert!(rows.iter().all(|(key, _)| !(0x40..0x60).contains(&key[0])));
    // As a kill would leave the files.
    let killed = builder(&disk.deep_clone()).open("/db").unwrap();
    assert_eq!(everything(&killed), before);
    killed.close().unwrap();
    db.close().unwrap();
    assert_eq!(builder(&disk).check("/db").unwrap().problems, []);
    let again = builder(&disk).index(IndexKind::Bst).open("/db").unwrap();
    assert_eq!(everything(&again), before);
    again.close().unwrap();
}

#[test]
fn a_handle_follows_its_name_to_a_keyspace_with_another_index() {
    let db = builder(&MemoryVfs::new()).open("/db").unwrap();
    let old = db.keyspace_with("numbers", with(IndexKind::Masstree));
    let old = old.unwrap();
    old.put(b"any width", b"value").unwrap();
    db.drop_keyspace("numbers").unwrap();
    let numbers = db.keyspace_with("numbers", with(IndexKind::Bst)).unwrap();
    refused(old.put(b"any width", b"value"), 9);
    old.put(&key(1), b"one").unwrap();
    assert_eq!(numbers.get(&key(1)).unwrap().as_deref(), Some(&b"one"[..]));
    db.drop_keyspace("numbers").unwrap();
    db.keyspace_with("numbers", with(IndexKind::Masstree))
        .unwrap();
    // A handle of the binary tree, which means a tree of byte keys now.
    numbers.put(b"any width", b"value").unwrap();
    assert!(old.get(b"any width").unwrap().is_some());
    db.close().unwrap();
}
