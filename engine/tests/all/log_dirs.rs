//! Logs and checkpoints in other directories than the data folder, one for each disk.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::{
    Action, Builder, Db, Durability, Error, Health, IndexKind, KeyspaceOptions, WriteOptions,
};
use hedgerow_log::Manifest;
use hedgerow_testkit::databases::{builder_of, key_of};
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, RecordingVfs, Vfs};

const DATA: &str = "/data";

over_each_index! {
    rows_come_back_whatever_the_directories_of_later_openings,
    a_directory_is_released_when_nothing_in_it_is_needed,
    each_fault_of_an_opening_with_a_new_directory_loses_nothing,
    a_full_log_directory_is_a_full_disk,
    backups_are_in_one_folder_and_restored_into_several,
}

fn sync() -> WriteOptions {
    Durability::Sync.into()
}

/// Directories on disks of the model.
fn disks(numbers: &[u32]) -> Vec<PathBuf> {
    let disks = numbers.iter().map(|number| format!("/disk{number}").into());
    disks.collect()
}

fn builder(index: IndexKind, vfs: &Arc<dyn Vfs>) -> Builder {
    builder_of(Some(index))
        .vfs(Arc::clone(vfs))
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
}

/// Puts rows, durably, from two threads, whose logs are two.
fn put(index: IndexKind, db: &Db, numbers: std::ops::Range<u32>) {
    let keyspace = db.keyspace("rows").unwrap();
    let put = |number: u32| {
        let key = key_of(Some(index), number.to_be_bytes());
        keyspace.put_with(&key, &[7; 300], &sync()).unwrap();
    };
    let odd = |number: &u32| number % 2 == 1;
    std::thread::scope(|scope| {
        scope.spawn(|| numbers.clone().filter(odd).for_each(put));
        scope.spawn(|| numbers.clone().filter(|n| !odd(n)).for_each(put));
    });
}

#[track_caller]
fn check_rows(index: IndexKind, db: &Db, count: u32) {
    let keyspace = db.open_keyspace("rows").unwrap();
    for number in 0..count {
        let key = key_of(Some(index), number.to_be_bytes());
        assert!(
            keyspace.get(&key).unwrap().is_some(),
            "row {number} of {count}"
        );
    }
    assert_eq!(keyspace.len(), u64::from(count));
}

/// The files of a kind, by their directories.
fn folders_with(vfs: &MemoryVfs, extension: &str) -> BTreeSet<PathBuf> {
    let files = vfs.files().into_iter().map(|(path, _)| path);
    let files = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    let folder = |path: PathBuf| path.ancestors().nth(2).unwrap().to_path_buf();
    files.map(folder).collect()
}

/// What is above a folder `log` or `checkpoint`.
fn folders(disks: &[PathBuf]) -> BTreeSet<PathBuf> {
    disks.iter().cloned().collect()
}

fn rows_come_back_whatever_the_directories_of_later_openings(index: IndexKind) {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let lists: [Option<&[u32]>; 9] = [
        Some(&[1, 2]),
        None,
        Some(&[2, 3]),
        Some(&[]),
        None,
        Some(&[3]),
        Some(&[1, 2, 3]),
        None,
        Some(&[]),
    ];
    let mut count = 0;
    let mut current = Vec::new();
    for (round, list) in lists.into_iter().enumerate() {
        for is_closed in [false, true] {
            let mut builder = builder(index, &vfs);
            if let Some(list) = list {
                current = disks(list);
                builder = builder.log_dirs(&current);
            }
            // What was killed is a copy that goes on.
            let db = builder.open(DATA).unwrap();
            assert_eq!(db.log_dirs(), current);
            if count > 0 {
                check_rows(index, &db, count);
            }
            put(index, &db, count..count + 40);
            count += 40;
            if round % 3 == 1 {
                db.checkpoint().unwrap();
                let expected = match &current[..] {
                    [] => folders(&[DATA.into()]),
                    current => folders(current),
                };
                assert!(folders_with(&memory, "log").is_subset(&expected));
                assert!(folders_with(&memory, "ckpt").is_subset(&expected));
                put(index, &db, count..count + 40);
                count += 40;
            }
            if is_closed {
                db.close().unwrap();
            } else {
                let killed = memory.deep_clone();
                let reader = builder_of(Some(index)).vfs(Arc::new(killed.deep_clone()));
                check_rows(index, &reader.read_only(true).open(DATA).unwrap(), count);
                let report = builder_of(Some(index))
                    .vfs(Arc::new(killed.clone()))
                    .check(DATA);
                assert_eq!(report.unwrap().problems, []);
                let again: Arc<dyn Vfs> = Arc::new(killed);
                check_rows(
                    index,
                    &self::builder(index, &again).open(DATA).unwrap(),
                    count,
                );
                db.close().unwrap();
            }
        }
    }
}

fn a_directory_is_released_when_nothing_in_it_is_needed(index: IndexKind) {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let open = |list: &[u32]| {
        builder(index, &vfs)
            .log_dirs(disks(list))
            .open(DATA)
            .unwrap()
    };
    let db = open(&[1, 2]);
    put(index, &db, 0..40);
    let listed = || {
        Manifest::load(&memory, Path::new(DATA))
            .unwrap()
            .directories
            .len()
    };
    assert_eq!(listed(), 2);
    assert!(memory.exists(Path::new("/disk2/OWNER")).unwrap());
    db.checkpoint().unwrap();
    put(index, &db, 40..80);
    db.close().unwrap();
    let db = open(&[1]);
    db.checkpoint().unwrap();
    assert_eq!(listed(), 1);
    assert_eq!(memory.list(Path::new("/disk2")).unwrap(), [""; 0]);
    check_rows(index, &db, 80);
    db.close().unwrap();
    let db = open(&[]);
    db.checkpoint().unwrap();
    put(index, &db, 80..120);
    assert_eq!(memory.list(Path::new("/disk1")).unwrap(), [""; 0]);
    let names = memory.list(&Path::new(DATA).join("log")).unwrap();
    assert!(names.iter().all(|name| name.ends_with(".log")), "{names:?}");
    // Earlier programs read it again.
    let bytes = hedgerow_vfs::read_file(&memory, &Manifest::path(Path::new(DATA))).unwrap();
    assert!(bytes[8] < 4, "version {}", bytes[8]);
    db.close().unwrap();
    // It may become one of another database.
    let other = builder(index, &vfs)
        .log_dirs(disks(&[2]))
        .open("/other")
        .unwrap();
    put(index, &other, 0..2);
    let db = builder(index, &vfs).open(DATA).unwrap();
    check_rows(index, &db, 120);
}

fn each_fault_of_an_opening_with_a_new_directory_loses_nothing(index: IndexKind) {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let db = builder(index, &vfs)
        .log_dirs(disks(&[1]))
        .open(DATA)
        .unwrap();
    put(index, &db, 0..40);
    db.close().unwrap();
    for kind in CallKind::ALL {
        for after in 0.. {
            let disk = memory.deep_clone();
            let faulty = FaultyVfs::new(Arc::new(disk.clone()));
            faulty.fail_from(kind, after, Fault::Error(std::io::ErrorKind::Other));
            let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
            let opened = builder(index, &vfs).log_dirs(disks(&[2, 1, 3])).open(DATA);
            let is_open = opened.is_ok();
            faulty.heal();
            drop(opened);
            for list in [None, Some(&[2, 3, 1][..]), Some(&[][..])] {
                let mut builder = builder(index, &vfs);
                if let Some(list) = list {
                    builder = builder.log_dirs(disks(list));
                }
                let db = builder.open(DATA);
                let db = db.unwrap_or_else(|error| panic!("{kind:?} {after}: {error}"));
                check_rows(index, &db, 40);
                assert_eq!(db.health(), Health::Healthy);
                db.close().unwrap();
            }
            let report = builder(index, &vfs).check(DATA).unwrap();
            assert_eq!(report.problems, [], "{kind:?} {after}");
            if is_open {
                break;
            }
        }
    }
}

/// Clearing a keyspace holds the manifest while it waits for whoever is within a closure.
#[test]
fn statistics_within_a_closure_do_not_wait_for_a_keyspace_that_is_cleared() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let builder = builder(IndexKind::Masstree, &vfs).log_dirs(disks(&[1, 2]));
    let db = builder.open(DATA).unwrap();
    let rows = db.keyspace("rows").unwrap();
    db.keyspace("others").unwrap();
    let (ended, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        std::thread::scope(|scope| {
            let updated = rows.update(b"key", &sync(), |_, new| {
                scope.spawn(|| db.clear_keyspace("others").unwrap());
                // It has the manifest by then.
                std::thread::sleep(Duration::from_millis(100));
                assert_eq!(db.log_dirs().len(), 2);
                db.statistics();
                new.set_value(b"value");
                Action::Put(())
            });
            updated.unwrap();
        });
        ended.send(()).unwrap();
    });
    let ended = wait.recv_timeout(Duration::from_secs(60));
    ended.expect("the statistics wait for whoever waits for their caller");
}

fn a_full_log_directory_is_a_full_disk(index: IndexKind) {
    let memory = MemoryVfs::new();
    let faulty = FaultyVfs::new(Arc::new(memory.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let open = || {
        let builder = builder(index, &vfs).log_reserve_bytes(256 << 10);
        let builder = builder.log_ahead_bytes(0).log_dirs(disks(&[1, 2]));
        builder.open(DATA).unwrap()
    };
    let db = open();
    put(index, &db, 0..1200);
    let others = db.keyspace("others").unwrap();
    // The second of two disks is full; the other one and that of the data folder have space.
    faulty.set_space_in(Path::new("/disk2"), Some(64 << 10));
    let key = |number: u32| key_of(Some(index), number.to_be_bytes());
    fill(|number| others.put_with(&key(number), &[1; 300], &sync()).map(drop));
    assert_eq!(db.health(), Health::DiskFull);
    let keyspace = db.open_keyspace("rows").unwrap();
    for number in (1000..1200).rev() {
        let removed = keyspace.remove_with(&key(number), &sync()).unwrap();
        assert!(removed.is_some(), "row {number}");
    }
    check_rows(index, &db, 1000);
    drop((keyspace, others, db));
    let db = open();
    check_rows(index, &db, 1000);
    let others = db.open_keyspace("others").unwrap();
    fill(|number| others.put_with(&key(number), &[2; 300], &sync()).map(drop));
    // A checkpoint takes no space there, and gives that of the logs back.
    db.checkpoint().unwrap();
    assert!(!folders_with(&memory, "ckpt").contains(Path::new("/disk2")));
    let wait = Instant::now();
    while db.health() != Health::Healthy {
        assert!(wait.elapsed().as_secs() < 60, "no space after a checkpoint");
        std::thread::sleep(Duration::from_millis(5));
    }
    others.put_with(&key(7), b"", &sync()).unwrap();
    db.close().unwrap();
    faulty.set_space_in(Path::new("/disk2"), None);
    check_rows(index, &open(), 1000);
}

#[test]
fn a_checkpoint_on_a_full_disk_goes_where_its_rows_fit() {
    let index = IndexKind::Masstree;
    // The logs' disk is that of the data folder, or another one.
    for (full, expected) in [("/", "/disk1"), ("/disk1", DATA)] {
        let memory = MemoryVfs::new();
        let faulty = FaultyVfs::new(Arc::new(memory.clone()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let builder = builder(index, &vfs).log_reserve_bytes(256 << 10);
        let builder = builder.log_ahead_bytes(0).log_dirs(disks(&[1]));
        let db = builder.open(DATA).unwrap();
        put(index, &db, 0..100);
        let others = db.keyspace("others").unwrap();
        faulty.set_space_in(Path::new(full), Some(64 << 10));
        let key = |number: u32| key_of(Some(index), number.to_be_bytes());
        // Few rows, but long logs.
        let key = |number: u32| key(number % 10);
        fill(|number| others.put_with(&key(number), &[1; 300], &sync()).map(drop));
        let checkpoint = db.checkpoint();
        assert!(checkpoint.is_ok(), "{full} is full: {checkpoint:?}");
        let found = folders_with(&memory, "ckpt");
        assert_eq!(found, folders(&[expected.into()]), "{full} is full");
        check_rows(index, &db, 100);
    }
}

/// Writes from many threads, whose logs are two, until the disk of one is full.
fn fill(put: impl Fn(u32) -> hedgerow::Result<()> + Sync) {
    let fill = |first: u32| {
        for number in first..first + 200 {
            match put(number) {
                Ok(()) => {}
                Err(Error::DiskFull) => return true,
                Err(error) => panic!("filling: {error}"),
            }
        }
        false
    };
    let is_full = |first| std::thread::scope(|scope| scope.spawn(|| fill(first)).join().unwrap());
    assert!(
        (0..400).any(|thread| is_full(200 * thread)),
        "no disk is full"
    );
}

fn backups_are_in_one_folder_and_restored_into_several(index: IndexKind) {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let db = builder(index, &vfs)
        .log_dirs(disks(&[1, 2]))
        .open(DATA)
        .unwrap();
    put(index, &db, 0..60);
    db.checkpoint().unwrap();
    put(index, &db, 60..90);
    db.backup("/backup").unwrap();
    put(index, &db, 90..100);
    db.close().unwrap();
    check_rows(
        index,
        &builder(index, &vfs)
            .read_only(true)
            .open("/backup")
            .unwrap(),
        90,
    );
    let restore = |from: &str, to: &str, list: &[u32]| {
        let builder = builder(index, &vfs).log_dirs(disks(list));
        builder.restore(from, to)
    };
    // A closed database is as good as a backup of it.
    for (from, count) in [("/backup", 90), (DATA, 100)] {
        for list in [&[][..], &[3], &[4, 5, 6]] {
            let to = format!("/restored{count}-{}", list.len());
            let list: Vec<u32> = list.iter().map(|number| number + count).collect();
            restore(from, &to, &list).unwrap();
            let reader = builder(index, &vfs).check(&to).unwrap();
            assert_eq!(reader.problems, []);
            let db = builder(index, &vfs).open(&to).unwrap();
            assert_eq!(db.log_dirs(), disks(&list));
            check_rows(index, &db, count);
        }
    }
    // Not into one that has files, and then nothing is left behind.
    let error = restore("/backup", "/restored", &[8, 1]).unwrap_err();
    assert!(matches!(error, Error::LogDir { .. }), "{error:?}");
    assert!(!memory.exists(Path::new("/restored")).unwrap());
    assert!(!memory.exists(Path::new("/disk8")).unwrap());
    check_rows(index, &builder(index, &vfs).open(DATA).unwrap(), 100);
}

/// Files of the system, in `temporary`.
fn on_system(temporary: &Path, dirs: &[&str]) -> Builder {
    let dirs = dirs.iter().map(|dir| temporary.join(dir));
    Db::builder().workers(2).log_dirs(dirs)
}

#[track_caller]
fn refused(opened: hedgerow::Result<Db>, dir: &Path, words: &str) {
    let error = opened.unwrap_err();
    let text = error.to_string();
    let Error::LogDir { dir: found, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(found, dir, "{text}");
    assert!(text.contains(words) && text.contains("--log-dir"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn a_new_database_refuses_directories_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let at = fs::canonicalize(temporary.path()).unwrap();
    fs::create_dir(at.join("full")).unwrap();
    fs::write(at.join("full/mine"), "mine").unwrap();
    fs::write(at.join("file"), "mine").unwrap();
    fs::create_dir(at.join("a")).unwrap();
    symlink(at.join("a"), at.join("link")).unwrap();
    let open = |dirs: &[&str]| on_system(&at, dirs).open(at.join("data"));
    refused(open(&["a", "a"]), &at.join("a"), "named twice");
    refused(open(&["a", "link"]), &at.join("a"), "named twice");
    refused(open(&["new", "./new"]), &at.join("new"), "named twice");
    refused(open(&["a", "a/b"]), &at.join("a"), "within");
    refused(open(&["a/b", "link"]), &at.join("a/b"), "within");
    refused(open(&["data"]), &at.join("data"), "data folder");
    refused(open(&["data/log"]), &at.join("data/log"), "within");
    refused(open(&["."]), &at, "within");
    refused(open(&["a", "full"]), &at.join("full"), "not empty");
    refused(open(&["file"]), &at.join("file"), "it is a file");
    refused(open(&["none/a"]), &at.join("none/a"), "no folder");
    let names = fs::read_dir(&at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<_> = names.collect();
    assert_eq!(names, ["a", "file", "full", "link"].map(Into::into).into());
    assert_eq!(fs::read_dir(at.join("a")).unwrap().count(), 0);
    // An empty one may have what its file system has.
    fs::create_dir(at.join("a/lost+found")).unwrap();
    open(&["link"]).unwrap();
    let unnamed = Db::builder().log_dirs([""]).open(at.join("data"));
    assert!(matches!(unnamed, Err(Error::InvalidOption(_))));
    let in_memory = on_system(&at, &["a"]).open_in_memory();
    assert!(matches!(in_memory, Err(Error::InvalidOption(_))));
}

#[test]
fn a_restore_that_fails_leaves_no_directory_to_its_database() {
    let temporary = tempfile::tempdir().unwrap();
    let at = fs::canonicalize(temporary.path()).unwrap();
    let db = on_system(&at, &["a"]).open(at.join("data")).unwrap();
    put(IndexKind::Masstree, &db, 0..40);
    db.backup(at.join("backup")).unwrap();
    db.close().unwrap();
    let restore =
        |to: &str, dirs: &[&str]| on_system(&at, dirs).restore(at.join("backup"), at.join(to));
    // Somebody has the second directory.
    fs::create_dir(at.join("second")).unwrap();
    let lock = File::create(at.join("second/LOCK")).unwrap();
    lock.lock().unwrap();
    let error = restore("restored", &["first", "second"]).unwrap_err();
    assert!(
        error.to_string().contains("another process uses it"),
        "{error}"
    );
    for dir in ["first", "restored"] {
        assert_eq!(fs::read_dir(at.join(dir)).unwrap().count(), 0, "{dir}");
    }
    drop(lock);
    restore("restored", &["first", "second"]).unwrap();
    let db = Db::builder().open(at.join("restored")).unwrap();
    check_rows(IndexKind::Masstree, &db, 40);
}

#[test]
fn directories_that_are_not_where_they_were_are_missed_and_found_where_they_are() {
    let temporary = tempfile::tempdir().unwrap();
    let at = fs::canonicalize(temporary.path()).unwrap();
    let data = at.join("data");
    let fill = |db: Db| {
        put(IndexKind::Masstree, &db, 0..40);
        db.close().unwrap();
    };
    fill(on_system(&at, &["a", "b"]).open(&data).unwrap());
    fill(on_system(&at, &["c"]).open(at.join("other")).unwrap());
    let open = || Db::builder().workers(2).open(&data);
    let a = at.join("a");
    fs::rename(&a, at.join("moved")).unwrap();
    let read_only = || Db::builder().read_only(true).open(&data);
    for opened in [open(), read_only(), on_system(&at, &["b"]).open(&data)] {
        // The remedy names the other one as well: one that is not named gets no logs any more.
        let remedy = format!("--log-dir NEWPATH --log-dir {}", at.join("b").display());
        assert!(opened.as_ref().unwrap_err().to_string().contains(&remedy));
        refused(opened, &a, "it is missing");
    }
    // It is not made anew, either.
    refused(on_system(&at, &["a", "b"]).open(&data), &a, "it is missing");
    assert!(!a.exists());
    let error = Db::check(&data).unwrap_err();
    assert!(error.to_string().contains("it is missing"), "{error}");
    // An empty directory in its place, as if nothing were mounted there; and the other's.
    fs::create_dir(&a).unwrap();
    refused(open(), &a, "OWNER is missing");
    refused(
        on_system(&at, &["a", "b"]).open(&data),
        &a,
        "OWNER is missing",
    );
    fs::remove_dir(&a).unwrap();
    fs::rename(at.join("b"), &a).unwrap();
    refused(open(), &a, "another directory");
    refused(
        on_system(&at, &["c"]).open(&data),
        &at.join("c"),
        "another database",
    );
    fs::rename(&a, at.join("b")).unwrap();
    // Found where it is, and from then on without a word.
    let db = on_system(&at, &["moved", "b"]).open(&data).unwrap();
    check_rows(IndexKind::Masstree, &db, 40);
    db.close().unwrap();
    let db = open().unwrap();
    check_rows(IndexKind::Masstree, &db, 40);
    assert_eq!(db.log_dirs(), [at.join("moved"), at.join("b")]);
    db.close().unwrap();
    drop(db);
    // Neither a copy of one, nor one whose `OWNER` is damaged.
    fs::create_dir(&a).unwrap();
    fs::copy(at.join("b/OWNER"), a.join("OWNER")).unwrap();
    refused(on_system(&at, &["b", "a"]).open(&data), &a, "a copy of");
    // Nor a copy alone while the original is where it was.
    refused(
        on_system(&at, &["moved", "a"]).open(&data),
        &a,
        "are this directory",
    );
    fs::write(at.join("b/OWNER"), "x").unwrap();
    let error = open().unwrap_err();
    assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
    assert!(error.to_string().contains("OWNER"), "{error}");
    let found = Db::check(&data).unwrap().problems;
    assert!(found[0].to_string().contains("OWNER"), "{found:?}");
}

#[test]
fn an_open_database_has_its_directories_locked() {
    let temporary = tempfile::tempdir().unwrap();
    let at = fs::canonicalize(temporary.path()).unwrap();
    let db = on_system(&at, &["a", "b"]).open(at.join("data")).unwrap();
    put(IndexKind::Masstree, &db, 0..10);
    db.sync().unwrap();
    // A copy of the data folder alone finds the same directories.
    let copy = at.join("copy");
    fs::create_dir_all(copy.join("log")).unwrap();
    fs::copy(at.join("data/MANIFEST"), copy.join("MANIFEST")).unwrap();
    refused(Db::builder().open(&copy), &at.join("a"), "another process");
    db.close().unwrap();
    // The original has gone on by then: the copy's next opening is refused, and harms nothing.
    let db = on_system(&at, &["a", "b"]).open(at.join("data")).unwrap();
    put(IndexKind::Masstree, &db, 10..20);
    db.close().unwrap();
    drop(db);
    let error = Db::builder().open(&copy).unwrap_err();
    assert!(error.to_string().contains("MANIFEST"), "{error}");
    check_rows(
        IndexKind::Masstree,
        &Db::builder().open(at.join("data")).unwrap(),
        20,
    );
}

#[test]
fn an_older_manifest_that_knows_no_directories_is_refused() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let index = IndexKind::Masstree;
    let db = builder(index, &vfs).open(DATA).unwrap();
    put(index, &db, 0..10);
    db.close().unwrap();
    let path = Manifest::path(Path::new(DATA));
    let older = hedgerow_vfs::read_file(&memory, &path).unwrap();
    let db = builder(index, &vfs)
        .log_dirs(disks(&[1]))
        .open(DATA)
        .unwrap();
    put(index, &db, 10..20);
    db.close().unwrap();
    let newest = hedgerow_vfs::read_file(&memory, &path).unwrap();
    memory.insert_file(&path, older);
    for list in [&[][..], &[1]] {
        let error = builder(index, &vfs)
            .log_dirs(disks(list))
            .open(DATA)
            .unwrap_err();
        assert!(error.to_string().contains("MANIFEST"), "{error}");
    }
    memory.insert_file(&path, newest);
    check_rows(index, &builder(index, &vfs).open(DATA).unwrap(), 20);
}

#[test]
fn a_power_cut_brings_no_file_back_into_a_directory_that_was_released() {
    let (memory, index) = (MemoryVfs::new(), IndexKind::Masstree);
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let db = builder(index, &vfs).log_dirs(disks(&[1])).open(DATA);
    let db = db.unwrap();
    put(index, &db, 0..10);
    db.close().unwrap();
    let recording = RecordingVfs::new(&memory);
    let vfs: Arc<dyn Vfs> = Arc::new(recording.clone());
    let db = builder(index, &vfs).log_dirs(disks(&[])).open(DATA);
    let db = db.unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let mut state = 1_u64;
    let mut decide = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    for cut in 0..=recording.operations() {
        for list in [None, Some(&[1][..]), Some(&[2, 1][..]), Some(&[][..])] {
            let image: Arc<dyn Vfs> = Arc::new(recording.crash_image(cut, &mut decide));
            let mut builder = builder(index, &image);
            if let Some(list) = list {
                builder = builder.log_dirs(disks(list));
            }
            let db = builder.open(DATA);
            let db = db.unwrap_or_else(|error| panic!("cut behind {cut}, {list:?}: {error}"));
            check_rows(index, &db, 10);
        }
    }
}

/// Whoever made the directory may not have synced its name. Nothing is kept here that was not.
#[test]
fn the_name_of_a_directory_that_was_there_survives_a_power_cut() {
    let recording = RecordingVfs::new(&MemoryVfs::new());
    let vfs: Arc<dyn Vfs> = Arc::new(recording.clone());
    vfs.create_dir_all(Path::new(DATA)).unwrap();
    let _db = builder(IndexKind::Masstree, &vfs).open(DATA).unwrap();
    let image = recording.crash_image(recording.operations(), &mut |_| 0);
    assert!(image.exists(Path::new(DATA)).unwrap());
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let index = IndexKind::Masstree;
    let is_there = |path: &Path, _| path.starts_with("/disk1");
    for kind in [CallKind::CreateDir, CallKind::Open, CallKind::Write] {
        let denied = Fault::Error(std::io::ErrorKind::PermissionDenied);
        faulty.fail_from_at(is_there, kind, 0, denied);
        let opened = builder(index, &vfs).log_dirs(disks(&[1])).open(DATA);
        refused(opened, Path::new("/disk1"), "cannot be written");
        faulty.heal();
    }
    let db = builder(index, &vfs).log_dirs(disks(&[1])).open(DATA);
    put(index, &db.unwrap(), 0..10);
}

#[test]
fn keyspaces_of_several_kinds_share_the_directories() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let open = || {
        let builder = Db::builder().vfs(Arc::clone(&vfs)).workers(2);
        builder.log_dirs(disks(&[1, 2])).open(DATA).unwrap()
    };
    let db = open();
    let kinds = [IndexKind::Masstree, IndexKind::BTree, IndexKind::Matryoshka];
    for round in 0..3_u8 {
        for kind in kinds {
            let index = Some(kind);
            let options = KeyspaceOptions { index };
            let keyspace = db.keyspace_with(kind.name(), options).unwrap();
            keyspace.put_with(&[round], b"row", &sync()).unwrap();
        }
        db.checkpoint().unwrap();
    }
    let killed: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
    for vfs in [killed, {
        db.close().unwrap();
        Arc::clone(&vfs)
    }] {
        let db = Db::builder().vfs(vfs).open(DATA).unwrap();
        for kind in kinds {
            assert_eq!(db.open_keyspace(kind.name()).unwrap().len(), 3);
        }
    }
    let version = hedgerow_vfs::read_file(&memory, &Manifest::path(Path::new(DATA))).unwrap()[8];
    assert_eq!(version, 5, "older checkpoints are kept");
}
