//! Two openings of one directory at once: kept apart by locks, and told where there are none.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hedgerow::{Db, Durability, Error, Health, WriteOptions};
use hedgerow_vfs::{FileLock, MemoryVfs, OpenMode, Vfs, VfsFile};

const DIR: &str = "/data";

fn sync() -> WriteOptions {
    Durability::Sync.into()
}

#[test]
fn removing_the_lock_file_lets_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    assert!(matches!(Db::open(dir.path()), Err(Error::Locked { .. })));
    assert!(matches!(Db::check(dir.path()), Err(Error::Locked { .. })));
    db.close().unwrap();
    Db::open(dir.path()).unwrap().close().unwrap();
}

#[test]
fn removing_the_lock_file_lets_nobody_in_in_memory_either() {
    let disk = MemoryVfs::new();
    let open = || Db::builder().vfs(Arc::new(disk.clone())).open(DIR);
    let db = open().unwrap();
    disk.remove(&Path::new(DIR).join("LOCK")).unwrap();
    assert!(matches!(open(), Err(Error::Locked { .. })));
    db.close().unwrap();
    open().unwrap();
}

/// A file system whose locks keep nobody out, as some that are mounted over a network.
#[derive(Clone)]
struct Unlocked(MemoryVfs);

struct NoLock;
impl FileLock for NoLock {}

impl Vfs for Unlocked {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        self.0.open(path, mode)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.remove_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn lock(&self, _path: &Path) -> io::Result<Box<dyn FileLock>> {
        Ok(Box::new(NoLock))
    }
}

/// What makes the first opening store its manifest.
type Store = fn(&Db) -> hedgerow::Result<()>;

#[test]
fn an_opening_that_was_displaced_stops_and_changes_nothing() {
    let stores: [(&str, Store); 5] = [
        ("checkpoint", |db| db.checkpoint().map(drop)),
        ("create", |db| db.create_keyspace("new").map(drop)),
        ("clear", |db| db.clear_keyspace("k")),
        ("drop", |db| db.drop_keyspace("k")),
        ("backup", |db| db.backup("/backup").map(drop)),
    ];
    for (name, store) in stores {
        let disk = Unlocked(MemoryVfs::new());
        let open = || {
            let builder = Db::builder().vfs(Arc::new(disk.clone())).workers(2);
            builder.checkpoint_log_bytes(None).open(DIR).unwrap()
        };
        let first = open();
        let keyspace = first.keyspace("k").unwrap();
        keyspace.put_with(b"first", b"1", &sync()).unwrap();
        let second = open();
        let rows = second.keyspace("k").unwrap();
        rows.put_with(b"second", b"2", &sync()).unwrap();

        let error = store(&first).unwrap_err();
        assert!(matches!(error, Error::Poisoned(_)), "{name}: {error}");
        assert!(error.to_string().contains("MANIFEST"), "{name}: {error}");
        assert!(matches!(first.health(), Health::Poisoned(_)), "{name}");
        let refused = keyspace.put(b"more", b"");
        assert!(matches!(refused, Err(Error::Poisoned(_))), "{name}");
        assert!(keyspace.contains(b"first").unwrap(), "{name}: reads go on");
        assert!(first.close().is_err(), "{name}");

        rows.put_with(b"third", b"3", &sync()).unwrap();
        second.checkpoint().unwrap();
        second.close().unwrap();
        let db = open();
        let rows = db.keyspace("k").unwrap();
        for key in [&b"first"[..], b"second", b"third"] {
            assert!(
                rows.contains(key).unwrap(),
                "{name}: {}",
                key.escape_ascii()
            );
        }
    }
}

#[test]
fn closing_does_not_displace_a_later_opening() {
    let disk = Unlocked(MemoryVfs::new());
    let open = || Db::builder().vfs(Arc::new(disk.clone())).open(DIR).unwrap();
    let first = open();
    first.keyspace("k").unwrap();
    let second = open();
    let rows = second.keyspace("k").unwrap();
    rows.put_with(b"second", b"2", &sync()).unwrap();
    assert!(first.close().is_err());
    second.close().unwrap();
    assert!(open().keyspace("k").unwrap().contains(b"second").unwrap());
}
