//! Two openings of one directory at once: kept apart by locks, and told where there are none.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread;

use hedgerow::{Db, Durability, Error, Health, IndexKind, WriteOptions};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::{FileLock, MemoryVfs, OpenMode, SystemVfs, Vfs, VfsFile};

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

/// Each lock alone keeps others out: that of the directory where somebody removed `LOCK`, that of
/// the file where the file system locks no directories.
#[test]
fn a_lock_of_the_file_or_of_the_directory_alone_lets_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    Db::open(dir.path()).unwrap().close().unwrap();
    for path in [dir.path().join("LOCK"), dir.path().to_path_buf()] {
        let locked = File::open(&path).unwrap();
        locked.try_lock().unwrap();
        let opened = Db::open(dir.path());
        assert!(matches!(opened, Err(Error::Locked { .. })), "{path:?}");
        drop(locked);
        Db::open(dir.path()).unwrap().close().unwrap();
    }
}

/// A backup that came later would mix its files with those of the first, or remove them when it
/// fails.
#[test]
fn of_two_backups_into_one_directory_one_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let databases = [100, 200].map(|rows: u32| {
        let db = Db::open(dir.path().join(rows.to_string())).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        for i in 0..rows {
            keyspace.put(&i.to_be_bytes(), b"value").unwrap();
        }
        (db, u64::from(rows))
    });
    let mut locked = 0;
    for round in 0..30 {
        let target = dir.path().join(format!("backup-{round}"));
        let both = Barrier::new(2);
        let back_up = |(db, rows): &(Db, u64)| {
            both.wait();
            db.backup(&target).map(|_| *rows)
        };
        let made = thread::scope(|scope| {
            let threads = databases.each_ref().map(|db| scope.spawn(|| back_up(db)));
            threads.map(|thread| thread.join().unwrap())
        });
        let complete: Vec<u64> = made.iter().flatten().copied().collect();
        let [rows] = complete[..] else {
            panic!("one is made: {made:?}");
        };
        for refused in made.iter().filter_map(|made| made.as_ref().err()) {
            locked += u32::from(matches!(refused, Error::Locked { .. }));
            let is_expected = matches!(refused, Error::Locked { .. } | Error::NotEmpty { .. });
            assert!(is_expected, "{refused}");
        }
        let report = Db::check(&target).unwrap();
        assert_eq!((report.problems, report.rows), (vec![], rows));
    }
    assert!(locked > 0, "no two met");
    // Nor where somebody is about to make a database.
    let target = dir.path().join("taken");
    std::fs::create_dir(&target).unwrap();
    let lock = SystemVfs.lock(&target.join("LOCK")).unwrap();
    let [(db, _), _] = &databases;
    assert!(matches!(db.backup(&target), Err(Error::Locked { .. })));
    drop(lock);
    db.backup(&target).unwrap();
}

/// Restores a backup into two directories beside it, at the same moment.
fn restore_twice(backup: &Path, round: u32, logs: Option<&Path>) -> [hedgerow::Result<PathBuf>; 2] {
    let both = Barrier::new(2);
    let restore = &|name: &str| {
        let to = backup.with_file_name(format!("{name}-{round}"));
        both.wait();
        let builder = Db::builder();
        let builder = match logs {
            Some(logs) => builder.log_dirs([logs]),
            None => builder,
        };
        builder.restore(backup, &to).map(|_| to)
    };
    thread::scope(|scope| {
        let threads = ["one", "other"].map(|name| scope.spawn(move || restore(name)));
        threads.map(|thread| thread.join().unwrap())
    })
}

/// Both would make files of the same names there, and the one that fails would remove them.
#[test]
fn of_two_restores_with_one_log_directory_one_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("backup");
    let db = Db::open(&backup).unwrap();
    db.keyspace("k").unwrap().put(b"key", b"value").unwrap();
    db.close().unwrap();
    let check = |to: &Path| {
        let report = Db::check(to).unwrap();
        assert_eq!((report.problems, report.rows), (vec![], 1));
    };
    for round in 0..30 {
        let logs = dir.path().join(format!("logs-{round}"));
        let made = restore_twice(&backup, round, Some(&logs));
        let complete: Vec<&PathBuf> = made.iter().flatten().collect();
        let [to] = complete[..] else {
            panic!("one is made: {made:?}");
        };
        check(to);
    }
    // They share the backup alone.
    for to in restore_twice(&backup, 30, None) {
        check(&to.unwrap());
    }
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

impl Unlocked {
    fn open_db(&self, kind: IndexKind, checkpoint_log_bytes: Option<u64>) -> Db {
        let builder = builder_of(Some(kind))
            .vfs(Arc::new(self.clone()))
            .workers(2);
        let builder = builder.checkpoint_log_bytes(checkpoint_log_bytes);
        builder.open(DIR).unwrap()
    }

    /// All files but the logs of the first opening, which nobody else writes. Of other logs only
    /// the names: they are written to by themselves, when nothing was committed for a while.
    fn files_of_others(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = self.0.files();
        files.retain(|(path, _)| !path.to_string_lossy().contains("log/00000001-"));
        let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
        for (_, bytes) in files.iter_mut().filter(|(path, _)| is_log(path)) {
            bytes.clear();
        }
        files
    }

    /// Panics if files of others are not what they were, and names those.
    #[track_caller]
    fn assert_unchanged(&self, before: &[(PathBuf, Vec<u8>)], context: &str) {
        let after = self.files_of_others();
        let differs = |file: &&(PathBuf, Vec<u8>)| !before.contains(file) || !after.contains(file);
        let changed: Vec<_> = before
            .iter()
            .chain(&after)
            .filter(differs)
            .map(|(path, bytes)| (path, bytes.len()))
            .collect();
        assert!(changed.is_empty(), "{context}: {changed:?}");
    }
}

over_each_index!(
    an_opening_that_was_displaced_stops_and_changes_nothing,
    closing_a_displaced_opening_changes_nothing,
    a_displaced_opening_discards_nothing,
);

/// What makes the first opening store its manifest.
type Store = fn(&Db) -> hedgerow::Result<()>;

fn an_opening_that_was_displaced_stops_and_changes_nothing(kind: IndexKind) {
    let stores: [(&str, Store); 5] = [
        ("checkpoint", |db| db.checkpoint().map(drop)),
        ("create", |db| db.create_keyspace("new").map(drop)),
        ("clear", |db| db.clear_keyspace("k")),
        ("drop", |db| db.drop_keyspace("k")),
        ("backup", |db| db.backup("/backup").map(drop)),
    ];
    for (name, store) in stores {
        let disk = Unlocked(MemoryVfs::new());
        let open = || disk.open_db(kind, None);
        let first = open();
        let keyspace = first.keyspace("k").unwrap();
        keyspace.put_with(b"is first", b"1", &sync()).unwrap();
        let second = open();
        let rows = second.keyspace("k").unwrap();
        rows.put_with(b"a second", b"2", &sync()).unwrap();

        let before = disk.files_of_others();
        let error = store(&first).unwrap_err();
        assert!(matches!(error, Error::Poisoned(_)), "{name}: {error}");
        assert!(error.to_string().contains("MANIFEST"), "{name}: {error}");
        disk.assert_unchanged(&before, name);
        assert!(matches!(first.health(), Health::Poisoned(_)), "{name}");
        let refused = keyspace.put(b"one more", b"");
        assert!(matches!(refused, Err(Error::Poisoned(_))), "{name}");
        assert!(
            keyspace.contains(b"is first").unwrap(),
            "{name}: reads go on"
        );
        assert!(first.close().is_err(), "{name}");
        disk.assert_unchanged(&before, name);

        rows.put_with(b"is third", b"3", &sync()).unwrap();
        second.checkpoint().unwrap();
        second.close().unwrap();
        let db = open();
        let rows = db.keyspace("k").unwrap();
        for key in [&b"is first"[..], b"a second", b"is third"] {
            assert!(
                rows.contains(key).unwrap(),
                "{name}: {}",
                key.escape_ascii()
            );
        }
    }
}

/// Without anything before that would have told the first opening.
fn closing_a_displaced_opening_changes_nothing(kind: IndexKind) {
    let disk = Unlocked(MemoryVfs::new());
    // Closing takes a last checkpoint of a page file, as checkpoints are on.
    let first = disk.open_db(kind, Some(1 << 30));
    let keyspace = first.keyspace("k").unwrap();
    keyspace.put_with(b"is first", b"1", &sync()).unwrap();
    let second = disk.open_db(kind, None);
    let rows = second.keyspace("k").unwrap();
    rows.put_with(b"a second", b"2", &sync()).unwrap();

    let before = disk.files_of_others();
    assert!(first.close().is_err());
    disk.assert_unchanged(&before, "closed");
    second.close().unwrap();
    let db = disk.open_db(kind, None);
    let rows = db.keyspace("k").unwrap();
    assert!(rows.contains(b"is first").unwrap() && rows.contains(b"a second").unwrap());
}

/// It made the database, and has no rows: but others do.
fn a_displaced_opening_discards_nothing(kind: IndexKind) {
    let disk = Unlocked(MemoryVfs::new());
    let first = disk.open_db(kind, None);
    first.keyspace("k").unwrap();
    let second = disk.open_db(kind, None);
    let rows = second.keyspace("k").unwrap();
    rows.put_with(b"a second", b"2", &sync()).unwrap();

    let before = disk.files_of_others();
    assert!(first.discard().is_err());
    disk.assert_unchanged(&before, "discarded");
    second.close().unwrap();
    let db = disk.open_db(kind, None);
    assert!(db.keyspace("k").unwrap().contains(b"a second").unwrap());
}
