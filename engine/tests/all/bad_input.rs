//! Each thing that can be asked wrongly, or found broken: a clear error, and nothing lost.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hedgerow::{Action, Db, Durability, Error, Locks, MAX_KEY_BYTES, WriteOptions};
use hedgerow_log::Manifest;
use hedgerow_vfs::{FileLock, MemoryVfs, OpenMode, SystemVfs, Vfs, VfsFile};

fn one_line(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() > 10, "{text:?}");
    text
}

macro_rules! assert_error {
    ($result:expr, $pattern:pat, $word:literal) => {{
        let error = $result.map(|_| ()).unwrap_err();
        assert!(matches!(error, $pattern), "{error:?}");
        let text = one_line(&error);
        assert!(text.contains($word), "{text:?} does not say {:?}", $word);
    }};
}

#[test]
fn keys_values_and_names_have_limits() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder()
        .max_value_bytes(1000)
        .open(dir.path())
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let longest = vec![b'k'; MAX_KEY_BYTES];
    let too_long = vec![b'k'; MAX_KEY_BYTES + 1];
    keyspace.put(&longest, b"fits").unwrap();
    keyspace.expire(&longest, u64::MAX).unwrap();
    assert_error!(
        keyspace.put(&too_long, b""),
        Error::KeyTooLong { .. },
        "65537"
    );
    assert_error!(keyspace.get(&too_long), Error::KeyTooLong { .. }, "65536");
    assert_error!(
        keyspace.remove(&too_long),
        Error::KeyTooLong { .. },
        "shorter"
    );
    assert_error!(
        keyspace.get_many(&[&too_long], |_, _| ()),
        Error::KeyTooLong { .. },
        "key"
    );
    keyspace.put(b"v", &[0; 1000]).unwrap();
    assert_error!(
        keyspace.put(b"v", &[0; 1001]),
        Error::ValueTooLong { .. },
        "max_value_bytes"
    );
    let columns: [(&[u8], &[u8]); 2] = [(b"a", &[1; 600]), (b"b", &[2; 600])];
    assert_error!(
        keyspace.put_columns(b"c", &columns),
        Error::ValueTooLong { .. },
        "1000"
    );
    let mut batch = db.batch();
    batch
        .put(&keyspace, b"fits", b"")
        .put(&keyspace, b"v", &[0; 1001]);
    assert_error!(
        batch.commit(WriteOptions::default()),
        Error::ValueTooLong { .. },
        "split"
    );
    let mut batch = db.batch();
    batch.put(&keyspace, &too_long, b"");
    assert_error!(
        batch.commit(WriteOptions::default()),
        Error::KeyTooLong { .. },
        "key"
    );
    assert_eq!(keyspace.len(), 2, "nothing of what failed is there");
}

#[test]
fn names_of_keyspaces_have_limits() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.keyspace("k").unwrap();
    assert_error!(db.keyspace(""), Error::KeyspaceName { bytes: 0 }, "255");
    assert_error!(
        db.keyspace(&"x".repeat(256)),
        Error::KeyspaceName { .. },
        "256"
    );
    db.keyspace(&"x".repeat(255)).unwrap();
    assert_error!(db.create_keyspace("k"), Error::KeyspaceExists(_), "exists");
    assert_error!(db.open_keyspace("none"), Error::KeyspaceMissing(_), "none");
    assert_error!(
        db.drop_keyspace("none"),
        Error::KeyspaceMissing(_),
        "create"
    );
    assert_error!(
        db.clear_keyspace("none"),
        Error::KeyspaceMissing(_),
        "create"
    );
}

#[test]
fn options_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let second = std::time::Duration::from_secs(1);
    let zero = std::time::Duration::ZERO;
    let wrong = [
        (Db::builder().workers(0), "workers"),
        (Db::builder().workers(5000), "workers"),
        (Db::builder().flush_interval(second), "flush_interval"),
        (Db::builder().flush_interval(zero), "flush_interval"),
        (Db::builder().sweep_interval(Some(zero)), "sweep_interval"),
        (Db::builder().max_value_bytes(usize::MAX), "max_value_bytes"),
    ];
    for (builder, option) in wrong {
        let error = builder.open(dir.path()).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)));
        assert!(one_line(&error).contains(option));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn directories_that_are_not_databases_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);

    let missing = path("missing");
    assert_error!(
        Db::builder().create(false).open(&missing),
        Error::Missing { .. },
        "missing"
    );
    assert_error!(
        Db::builder().read_only(true).open(&missing),
        Error::Missing { .. },
        "create"
    );
    assert_error!(Db::check(&missing), Error::Missing { .. }, "missing");
    assert!(!missing.exists());

    std::fs::create_dir(path("empty")).unwrap();
    assert_error!(
        Db::builder().read_only(true).open(path("empty")),
        Error::Missing { .. },
        "no"
    );
    assert_eq!(std::fs::read_dir(path("empty")).unwrap().count(), 0);

    std::fs::create_dir(path("foreign")).unwrap();
    std::fs::write(path("foreign/letters.txt"), "dear").unwrap();
    assert_error!(
        Db::open(path("foreign")),
        Error::NotADatabase { .. },
        "letters.txt"
    );

    std::fs::write(path("file"), "a file").unwrap();
    assert_error!(
        Db::open(path("file")),
        Error::NotADatabase { .. },
        "not a directory"
    );
    assert_error!(
        Db::check(path("file")),
        Error::NotADatabase { .. },
        "not a directory"
    );

    std::fs::create_dir(path("other")).unwrap();
    std::fs::write(
        path("other/MANIFEST"),
        "MANIFEST-000004\n of another engine",
    )
    .unwrap();
    assert_error!(
        Db::open(path("other")),
        Error::NotADatabase { .. },
        "MANIFEST"
    );
}

fn filled(dir: &Path) {
    let db = Db::builder().workers(1).keep_checkpoints(1);
    let db = db.open(dir).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for i in 0..100u32 {
        keyspace.put(&i.to_be_bytes(), b"some value").unwrap();
    }
    db.checkpoint().unwrap();
    keyspace.put(b"after", b"the checkpoint").unwrap();
    db.close().unwrap();
}

fn only_file(dir: &Path, folder: &str) -> PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(dir.join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.pop().unwrap()
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = at.min(bytes.len() - 1);
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_database_in_use_is_not_opened_twice() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    assert_error!(Db::open(dir.path()), Error::Locked { .. }, "in use");
    assert_error!(
        Db::builder().read_only(true).open(dir.path()),
        Error::Locked { .. },
        "stop"
    );
    assert_error!(Db::check(dir.path()), Error::Locked { .. }, "in use");
    db.close().unwrap();
    Db::open(dir.path()).unwrap();
}

#[test]
fn half_of_a_database_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    std::fs::remove_file(dir.path().join("MANIFEST")).unwrap();
    assert_error!(
        Db::open(dir.path()),
        Error::HalfWritten { .. },
        "restore a backup"
    );
}

#[test]
fn a_newer_format_is_named() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let manifest = dir.path().join("MANIFEST");
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[8..12].copy_from_slice(&99u32.to_le_bytes());
    let crc = crc32c_of(&bytes);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&manifest, bytes).unwrap();
    assert_error!(
        Db::open(dir.path()),
        Error::NewerFormat { found: 99, .. },
        "newer program"
    );
}

/// A killed database with an index of a later program: opening it here must not recover it, which
/// writes, for that program recovers it otherwise.
#[test]
fn an_unknown_index_is_named_and_the_database_left_alone() {
    let disk = MemoryVfs::new();
    let builder = |disk: &MemoryVfs| Db::builder().vfs(Arc::new(disk.clone()));
    let db = builder(&disk).open("/db").unwrap();
    let later = db.keyspace("later").unwrap();
    later
        .put_with(b"key", b"value", &Durability::Sync.into())
        .unwrap();
    let killed = disk.deep_clone();
    let mut manifest = Manifest::load(&killed, Path::new("/db")).unwrap();
    manifest.keyspaces[0].index = "fractal".to_owned();
    manifest.store(&killed, Path::new("/db")).unwrap();
    let before = killed.files();
    for read_only in [true, false] {
        let opened = builder(&killed).read_only(read_only).open("/db");
        assert_error!(opened, Error::UnknownIndex { .. }, "\"fractal\"");
        let opened = builder(&killed).read_only(read_only).open("/db");
        assert_error!(opened, Error::UnknownIndex { .. }, "use a newer program");
    }
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<PathBuf> {
        files.iter().map(|(path, _)| path.clone()).collect()
    };
    let after = killed.files();
    assert_eq!(names(&after), names(&before));
    assert!(after == before, "a file has other contents");
}

/// No program has ever written version 0: such a file is damaged, and not of another program.
#[test]
fn format_version_0_is_named() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let manifest = dir.path().join("MANIFEST");
    let whole = std::fs::read(&manifest).unwrap();
    let mut bytes = whole.clone();
    bytes[8..12].fill(0);
    let crc = crc32c_of(&bytes);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&manifest, bytes).unwrap();
    assert_error!(Db::open(dir.path()), Error::Corrupt(_), "version 0");
    std::fs::write(&manifest, whole).unwrap();
    for folder in ["log", "checkpoint"] {
        let file = only_file(dir.path(), folder);
        let whole = std::fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        bytes[8..12].fill(0);
        let crc = crc32c_bytes(bytes[..60].iter());
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&file, bytes).unwrap();
        assert_error!(Db::open(dir.path()), Error::Corrupt(_), "version 0");
        std::fs::write(&file, whole).unwrap();
    }
    Db::open(dir.path()).unwrap();
}

/// The manifest's checksum: crc32c of bytes 8..16 and those from 20 on, bit by bit.
fn crc32c_of(manifest: &[u8]) -> u32 {
    crc32c_bytes(manifest[8..16].iter().chain(&manifest[20..]))
}

fn crc32c_bytes<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let crc = bytes.fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    });
    !crc
}

#[test]
fn damage_is_found_and_named() {
    for (folder, at) in [("log", 200), ("checkpoint", 500)] {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path());
        let file = only_file(dir.path(), folder);
        flip(&file, at);
        let error = Db::open(dir.path()).unwrap_err();
        let Error::Corrupt(problem) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(problem.file, file);
        assert!(one_line(&error).contains("backup"), "{error}");
        let report = Db::check(dir.path()).unwrap();
        assert_eq!(report.problems.len(), 1);
        assert_eq!(report.problems[0].file, file);
        assert_error!(
            Db::restore(dir.path(), dir.path().join("restored")),
            Error::Corrupt(_),
            "byte"
        );
        assert!(
            !dir.path().join("restored").exists(),
            "nothing is restored from damage"
        );
        // Put right again, all is there: refusing has changed nothing.
        flip(&file, at);
        assert_eq!(
            Db::open(dir.path()).unwrap().keyspace("k").unwrap().len(),
            101
        );
    }
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    flip(&dir.path().join("MANIFEST"), 40);
    assert_error!(Db::open(dir.path()), Error::Corrupt(_), "MANIFEST");
    assert_eq!(Db::check(dir.path()).unwrap().problems.len(), 1);
}

#[test]
fn a_missing_file_is_named() {
    for folder in ["log", "checkpoint"] {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path());
        let file = only_file(dir.path(), folder);
        std::fs::remove_file(&file).unwrap();
        let error = Db::open(dir.path()).unwrap_err();
        assert!(
            one_line(&error).contains(file.file_name().unwrap().to_str().unwrap()),
            "{error}"
        );
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
    }
}

#[test]
fn restoring_needs_a_backup_and_an_empty_place() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    filled(&data);
    assert_error!(Db::restore(&data, &data), Error::NotEmpty { .. }, "empty");
    // What a file system has of its own does not count.
    let mounted = dir.path().join("mounted");
    std::fs::create_dir_all(mounted.join("lost+found")).unwrap();
    let db = Db::open(&data).unwrap();
    db.backup(&mounted).unwrap();
    db.close().unwrap();
    let fresh = dir.path().join("fresh");
    std::fs::create_dir_all(fresh.join("lost+found")).unwrap();
    Db::open(&fresh).unwrap().close().unwrap();
    // A name that is no text counts, too.
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join(OsStr::from_bytes(b"\xff")), b"precious").unwrap();
    assert_error!(
        Db::restore(&data, &foreign),
        Error::NotEmpty { .. },
        "empty"
    );
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1);
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert_error!(
        Db::restore(&empty, dir.path().join("x")),
        Error::Missing { .. },
        "there is no database in"
    );
    let unclosed = dir.path().join("unclosed");
    let db = Db::open(&unclosed).unwrap();
    assert_error!(
        Db::restore(&unclosed, dir.path().join("x")),
        Error::NotABackup { .. },
        "copy it with Db::backup"
    );
    drop(db);
    Db::restore(&data, &empty).unwrap();
    assert_eq!(Db::open(&empty).unwrap().keyspace("k").unwrap().len(), 101);
}

#[test]
fn a_closed_database_refuses_writes_and_still_reads() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put(b"key", b"value").unwrap();
    db.close().unwrap();
    db.close().unwrap();
    assert_eq!(
        keyspace.get(b"key").unwrap().as_deref(),
        Some(&b"value"[..])
    );
    assert_error!(keyspace.put(b"key", b""), Error::Closed, "open it again");
    assert_error!(db.checkpoint(), Error::Closed, "closed");
    assert_error!(db.keyspace("new"), Error::Closed, "closed");
    assert_error!(db.drop_keyspace("k"), Error::Closed, "closed");
}

#[test]
fn writes_inside_closures_and_without_locks_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put(b"other", b"1").unwrap();
    let options = WriteOptions::default();
    let (inner, _) = keyspace
        .update(b"key", &options, |_, new| {
            assert_eq!(keyspace.get(b"other").unwrap().as_deref(), Some(&b"1"[..]));
            new.set_value(b"outer");
            Action::Put(keyspace.put(b"other", b"2"))
        })
        .unwrap();
    assert_error!(inner, Error::Nested, "deadlock");
    let locks = [(&keyspace, &b"key"[..])];
    let (inner, _) = db
        .transact(Locks::Keys(&locks), &options, |tx| {
            assert_error!(db.clear_keyspace("k"), Error::Nested, "closure");
            assert_error!(db.keyspace("new"), Error::Nested, "closure");
            // Reading what the transaction itself holds does not wait for it.
            assert!(keyspace.contains(b"key")?);
            // Some key is in another stripe.
            let refused =
                (0..100u32).filter_map(|i| tx.put(&keyspace, &i.to_be_bytes(), b"").err());
            let refused: Vec<_> = refused.collect();
            assert!(!refused.is_empty() && refused.iter().all(|e| matches!(e, Error::NotLocked)));
            tx.rollback();
            Ok(keyspace.remove(b"key"))
        })
        .unwrap();
    assert_error!(inner, Error::Nested, "arguments");
    assert_eq!(
        keyspace.get(b"key").unwrap().as_deref(),
        Some(&b"outer"[..])
    );
    assert_eq!(keyspace.len(), 2);
}

/// What happens meanwhile.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// A file system without locks, of which one may only read, but for one directory. Something
/// happens when the first file is made there.
struct Forbidding {
    disk: SystemVfs,
    writable: PathBuf,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Forbidding {
    fn check(&self, path: &Path) -> io::Result<()> {
        match path.starts_with(&self.writable) {
            true => Ok(()),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

impl Vfs for Forbidding {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        if mode != OpenMode::Read {
            self.check(path)?;
            let meanwhile = self.meanwhile.lock().unwrap().take();
            meanwhile.into_iter().for_each(|happens| happens());
        }
        self.disk.open(path, mode)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check(dir)?;
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(from)?;
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        self.disk.remove(path)
    }
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check(dir)?;
        self.disk.remove_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.check(path)?;
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn a_directory_that_cannot_be_written_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let copies = tempfile::tempdir().unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(Forbidding {
        disk: SystemVfs,
        writable: copies.path().to_path_buf(),
        meanwhile: Mutex::default(),
    });
    let builder = Db::builder().vfs(vfs);
    let opened = builder.clone().open(dir.path());
    assert_error!(opened, Error::ReadOnlyDirectory { .. }, "read_only");
    let created = builder.clone().open(dir.path().join("new"));
    assert_error!(created, Error::ReadOnlyDirectory { .. }, "permissions");
    let reader = builder.read_only(true);
    let db = reader.clone().open(dir.path()).unwrap();
    let keyspace = db.open_keyspace("k").unwrap();
    assert_eq!(keyspace.len(), 101);
    // It was closed: its files are a backup as they are.
    let copy = copies.path().join("copy");
    let report = db.backup(&copy).unwrap();
    assert!(report.files > 2, "{report:?}");
    let copied = Db::open(&copy).unwrap();
    let keyspace = copied.open_keyspace("k").unwrap();
    assert_eq!(keyspace.len(), 101);
    assert!(keyspace.contains(b"after").unwrap());
    // Somebody who may write opens it: what is read now may change.
    let writer = Db::open(dir.path()).unwrap();
    let second = copies.path().join("second");
    assert_error!(db.backup(&second), Error::ReadOnly, "read_only");
    let open_now = reader.open(dir.path()).unwrap();
    assert_error!(open_now.backup(&second), Error::ReadOnly, "read_only");
    assert_eq!(std::fs::read_dir(&second).map_or(0, Iterator::count), 0);
    writer.close().unwrap();
}

/// Somebody who may write opens a database while one who may not copies it: what is copied may be
/// gone, or not belong together. That is no damage, and there is no copy.
#[test]
fn a_writer_beside_a_backup_by_a_reader_or_a_restore_is_no_damage() {
    for checkpoints in [0, 2] {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path());
        let copies = tempfile::tempdir().unwrap();
        let path = dir.path().to_path_buf();
        let write = move || {
            let db = Db::builder().workers(1).keep_checkpoints(1);
            let db = db.open(&path).unwrap();
            let keyspace = db.open_keyspace("k").unwrap();
            for round in 0..checkpoints {
                keyspace.put(b"after", &[round]).unwrap();
                db.checkpoint().unwrap();
            }
            db.close().unwrap();
        };
        let beside = |write: Meanwhile| {
            let vfs: Arc<dyn Vfs> = Arc::new(Forbidding {
                disk: SystemVfs,
                writable: copies.path().to_path_buf(),
                meanwhile: Mutex::new(Some(write)),
            });
            Db::builder().vfs(vfs)
        };
        let reader = beside(Box::new(write.clone())).read_only(true);
        let db = reader.open(dir.path()).unwrap();
        let copy = copies.path().join("copy");
        assert_error!(db.backup(&copy), Error::ReadOnly, "read_only");
        assert_eq!(std::fs::read_dir(&copy).unwrap().count(), 0);
        drop(db);
        let restored = beside(Box::new(write)).restore(dir.path(), &copy);
        assert_error!(restored, Error::Locked { .. }, "in use");
        assert_eq!(std::fs::read_dir(&copy).unwrap().count(), 0);
    }
}

#[test]
fn values_of_any_bytes_and_empty_keys_are_fine() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let db = Db::builder().vfs(Arc::clone(&vfs)).open("/d").unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put(b"", b"").unwrap();
    keyspace.put(b"\0", &[0; 3]).unwrap();
    let big = vec![0xa5; 5 << 20];
    keyspace.put(b"big", &big).unwrap();
    db.close().unwrap();
    let db = Db::builder().vfs(vfs).open("/d").unwrap();
    let keyspace = db.keyspace("k").unwrap();
    assert_eq!(keyspace.get(b"").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(keyspace.get(b"big").unwrap(), Some(big));
    assert_eq!(keyspace.len(), 3);
}

/// An opening that is refused leaves a directory as it found it: nothing in one of somebody else's,
/// and no database where none could be opened.
#[test]
fn what_is_refused_leaves_nothing_behind() {
    let disk = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let builder = || Db::builder().vfs(Arc::clone(&vfs));
    let small = builder()
        .index(hedgerow::IndexKind::BTree)
        .memory_limit(Some(1024));
    assert_error!(small.open("/new"), Error::PageFile(_), "budget");
    assert!(!vfs.exists(Path::new("/new")).unwrap());

    vfs.create_dir_all(Path::new("/mine")).unwrap();
    disk.insert_file(Path::new("/mine/diary.txt"), b"today".to_vec());
    assert_error!(
        builder().open("/mine"),
        Error::NotADatabase { .. },
        "diary.txt"
    );
    let empty = Path::new("/empty");
    vfs.create_dir_all(empty).unwrap();
    let closed = || builder().create(false);
    assert_error!(closed().open(empty), Error::Missing { .. }, "no database");
    for missing in [empty, Path::new("/missing")] {
        assert_error!(
            builder().check(missing),
            Error::Missing { .. },
            "no database"
        );
        assert_error!(
            builder().restore(missing, "/to"),
            Error::Missing { .. },
            "no database"
        );
    }
    assert_eq!(disk.files().len(), 1, "the diary alone");
}
