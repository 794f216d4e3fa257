//! Each keyspace has the index that it was made with, beside others with other indexes.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use hedgerow::{
    Builder, Db, Durability, Error, IndexKind, KeyspaceOptions, Locks, Result, WriteOptions,
};
use hedgerow_log::Manifest;
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs};

const IN_MEMORY: [IndexKind; 4] = [
    IndexKind::Masstree,
    IndexKind::Matryoshka,
    IndexKind::BwTree,
    IndexKind::Bst,
];

pub(crate) fn with(index: IndexKind) -> KeyspaceOptions {
    KeyspaceOptions { index: Some(index) }
}

fn builder(disk: &MemoryVfs) -> Builder {
    Db::builder().vfs(Arc::new(disk.clone())).workers(2)
}

/// The message of an error, if it is one of these.
fn refused<T>(outcome: Result<T>, is_it: impl FnOnce(&Error) -> bool) -> String {
    let error = outcome.err().expect("it must be refused");
    assert!(is_it(&error), "{error}");
    error.to_string()
}

/// Name, kind and rows of a keyspace.
pub(crate) type Contents = (String, IndexKind, Vec<(Vec<u8>, Vec<u8>)>);

/// Names, kinds and rows of all keyspaces.
pub(crate) fn everything(db: &Db) -> Vec<Contents> {
    let names = db.keyspaces().into_iter();
    let one = |name: String| {
        let keyspace = db.open_keyspace(&name).unwrap();
        let rows = keyspace.range(..).unwrap();
        let rows = rows.map(|entry| entry.unwrap().to_pair()).collect();
        (name, keyspace.index_kind().unwrap(), rows)
    };
    names.map(one).collect()
}

/// Whoever makes, clears or drops a keyspace has the manifest while the log is synced, and then
/// waits for removals; a closing has removals wait, and needs the manifest.
#[test]
fn closing_ends_beside_those_who_make_and_clear_and_drop_keyspaces() {
    const LONGEST: Duration = Duration::from_secs(60);
    let changes: [fn(&Db) -> Result<()>; 3] = [
        |db| db.keyspace("new").map(drop),
        |db| db.clear_keyspace("rows"),
        |db| db.drop_keyspace("rows"),
    ];
    for change in changes {
        let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
        let open = || {
            Db::builder()
                .vfs(Arc::new(vfs.clone()))
                .workers(2)
                .open("/db")
        };
        let db = Arc::new(open().unwrap());
        let rows = db.keyspace("rows").unwrap();
        let paused = vfs.pause_once(CallKind::Sync, 0);
        rows.put(b"key", b"value").unwrap();
        assert!(paused.is_reached_within(LONGEST));
        let (ended, ends) = mpsc::channel();
        let start = |work: fn(&Db) -> Result<()>| {
            let (db, ended) = (Arc::clone(&db), ended.clone());
            thread::spawn(move || ended.send(work(&db).map_err(|error| error.to_string())))
        };
        // Each gets as far as it can.
        let soon = Duration::from_millis(50);
        start(change);
        thread::sleep(soon);
        start(Db::close);
        while !matches!(rows.put(b"other", b"value"), Err(Error::Closed)) {
            thread::yield_now();
        }
        thread::sleep(soon);
        paused.release();
        let mut failed = 0;
        for _ in 0..2 {
            let outcome = ends.recv_timeout(LONGEST).expect("both end");
            failed += usize::from(outcome.is_err());
        }
        assert!(failed < 2, "the closing succeeds");
        drop((rows, db));
        let db = open().unwrap();
        let found = db.keyspace("rows").unwrap().get(b"key").unwrap();
        assert!(found.is_some() || failed == 0, "it failed, and did it");
    }
}

/// The manifest that releases a directory is not stored, and nor is that of a clear: what the disk
/// shows is what the database has, so it goes on.
#[test]
fn a_manifest_that_never_was_stored_stops_no_writes() {
    let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let open = |dirs: &[&str]| {
        let builder = Db::builder().vfs(Arc::new(vfs.clone())).workers(2);
        builder
            .log_dirs(dirs)
            .checkpoint_log_bytes(None)
            .open("/db")
            .unwrap()
    };
    let put = |db: &Db, key: &[u8]| db.keyspace("rows").unwrap().put(key, b"value").unwrap();
    let db = open(&["/disk1"]);
    put(&db, b"first");
    db.close().unwrap();
    let db = open(&[]);
    let is_manifest = |path: &Path, _| path.to_string_lossy().contains("MANIFEST");
    let full = Fault::Error(std::io::ErrorKind::StorageFull);
    // That of the checkpoint is stored, and no other.
    vfs.fail_from_at(is_manifest, CallKind::Rename, 1, full);
    db.checkpoint().unwrap();
    let listed = || Manifest::load(&vfs, Path::new("/db")).unwrap().directories;
    assert_eq!(listed().len(), 1);
    db.clear_keyspace("rows").unwrap_err();
    assert_eq!(db.keyspace("rows").unwrap().len(), 1);
    vfs.heal();
    put(&db, b"second");
    db.checkpoint().unwrap();
    assert_eq!(listed().len(), 0);
    db.clear_keyspace("rows").unwrap();
    put(&db, b"third");
    db.close().unwrap();
    assert_eq!(open(&[]).keyspace("rows").unwrap().len(), 1);
}

#[test]
fn keyspaces_of_several_kinds_share_commits_and_come_back() {
    let disk = MemoryVfs::new();
    let db = builder(&disk).open("/db").unwrap();
    let spaces = IN_MEMORY.map(|kind| db.keyspace_with(kind.name(), with(kind)).unwrap());
    let [first, second, third, fourth] = &spaces;
    for n in 0..1_000_u64 {
        let (key, mut batch) = (n.to_be_bytes(), db.batch());
        batch
            .put(first, &key, b"first")
            .put(second, &key, b"second")
            .put(third, &key, b"third")
            .put(fourth, &key, b"fourth");
        batch.commit(Durability::Periodic).unwrap();
    }
    db.checkpoint().unwrap();
    for space in &spaces {
        space
            .delete_range(100_u64.to_be_bytes()..900_u64.to_be_bytes())
            .unwrap();
    }
    let locks = spaces.each_ref().map(|space| (space, &b"is moved"[..]));
    let moved = db.transact(Locks::Keys(&locks), &Durability::Sync.into(), |tx| {
        tx.put(first, b"is moved", b"here")?;
        tx.put(second, b"is moved", b"there")?;
        tx.put(third, b"is moved", b"too")?;
        tx.put(fourth, b"is moved", b"as well")
    });
    moved.unwrap();
    db.clear_keyspace(IndexKind::Matryoshka.name()).unwrap();
    second
        .put_with(b"is after", b"clearing", &Durability::Sync.into())
        .unwrap();
    let before = everything(&db);
    let shown: Vec<_> = before
        .iter()
        .map(|(_, kind, rows)| (*kind, rows.len()))
        .collect();
    // Matryoshka's was cleared, and is of its kind still.
    let expected = [
        (IndexKind::Bst, 201),
        (IndexKind::BwTree, 201),
        (IndexKind::Masstree, 201),
        (IndexKind::Matryoshka, 1),
    ];
    assert_eq!(shown, expected);
    // As a kill would leave the files, and with another default.
    for default in IN_MEMORY {
        let killed = builder(&disk.deep_clone())
            .index(default)
            .open("/db")
            .unwrap();
        assert_eq!(everything(&killed), before, "{default:?}");
        assert_eq!(killed.default_index(), default);
        killed.backup("/copy").unwrap();
        killed.close().unwrap();
    }
    db.close().unwrap();
    builder(&disk).read_only(true).open("/db").unwrap();
    assert_eq!(builder(&disk).check("/db").unwrap().problems, []);
}

#[test]
fn a_keyspace_is_not_opened_with_another_index_than_it_was_made_with() {
    let disk = MemoryVfs::new();
    let db = builder(&disk).open("/db").unwrap();
    let plain = db.keyspace("plain").unwrap();
    assert_eq!(plain.index_kind().unwrap(), db.default_index());
    let is_it = |error: &Error| matches!(error, Error::KeyspaceIndex { .. });
    let said = refused(
        db.keyspace_with("plain", with(IndexKind::Matryoshka)),
        is_it,
    );
    for word in ["\"plain\"", "masstree, not matryoshka", "drop it"] {
        assert!(said.contains(word), "{said}");
    }
    db.keyspace_with("plain", with(IndexKind::Masstree))
        .unwrap();
    db.keyspace_with("plain", KeyspaceOptions::default())
        .unwrap();
    let exists = db.create_keyspace_with("plain", with(IndexKind::Masstree));
    refused(exists, |error| matches!(error, Error::KeyspaceExists(_)));
    assert_eq!(db.keyspaces(), ["plain"]);
    db.close().unwrap();
    let db = builder(&disk).read_only(true).open("/db").unwrap();
    refused(
        db.keyspace_with("plain", with(IndexKind::Matryoshka)),
        is_it,
    );
    db.keyspace_with("plain", with(IndexKind::Masstree))
        .unwrap();
    let missing = db.keyspace_with("new", with(IndexKind::Masstree));
    refused(missing, |error| matches!(error, Error::ReadOnly));
}

#[test]
fn rows_expire_in_keyspaces_of_each_kind() {
    let disk = MemoryVfs::new();
    let at = |now_ms: u64| {
        builder(&disk)
            .sweep_interval(None)
            .now(Box::new(move || now_ms))
    };
    let db = at(1_000).open("/db").unwrap();
    for kind in IN_MEMORY {
        let keyspace = db.keyspace_with(kind.name(), with(kind)).unwrap();
        for (key, expiry_ms) in [(b"are soon", 2_000), (b"are late", 9_000)] {
            let options = WriteOptions::default().expiry_ms(expiry_ms);
            keyspace.put_with(key, b"value", &options).unwrap();
        }
    }
    db.close().unwrap();
    let db = at(5_000).open("/db").unwrap();
    assert_eq!(db.sweep_expired().unwrap(), IN_MEMORY.len() as u64);
    for kind in IN_MEMORY {
        let keyspace = db.open_keyspace(kind.name()).unwrap();
        assert_eq!((keyspace.len(), keyspace.expiring()), (1, 1));
    }
}

#[test]
fn a_database_in_memory_refuses_btrees() {
    let db = Db::builder().open_in_memory().unwrap();
    let said = refused(db.keyspace_with("big", with(IndexKind::BTree)), |error| {
        matches!(error, Error::InvalidOption(_))
    });
    assert!(said.contains("needs a directory"), "{said}");
    let small = db
        .keyspace_with("small", with(IndexKind::Matryoshka))
        .unwrap();
    assert_eq!(small.index_kind().unwrap(), IndexKind::Matryoshka);
}

/// Whoever sweeps finds rows of a keyspace that is dropped before it comes to them.
#[test]
fn sweeping_goes_on_beside_keyspaces_that_are_dropped() {
    for index in [IndexKind::Masstree, IndexKind::BTree] {
        let builder = builder(&MemoryVfs::new()).index(index);
        let db = builder.sweep_interval(None).open("/d").unwrap();
        thread::scope(|scope| {
            let dropper = scope.spawn(|| {
                let expired = WriteOptions::default().expiry_ms(1);
                for _ in 0..200 {
                    let rows = db.keyspace("rows").unwrap();
                    for n in 0..50_u32 {
                        rows.put_with(&n.to_be_bytes(), b"value", &expired).unwrap();
                    }
                    db.drop_keyspace("rows").unwrap();
                }
            });
            while !dropper.is_finished() {
                db.sweep_expired().unwrap();
            }
        });
    }
}
