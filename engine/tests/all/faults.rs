//! Disks that fill up and disks that fail, under a running engine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::{Builder, Db, Durability, Error, Health, IndexKind, WriteOptions};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

const DIR: &str = "/data";

fn faulty() -> FaultyVfs {
    FaultyVfs::new(Arc::new(MemoryVfs::new()))
}

over_each_index! {
    dropping_a_keyspace_that_the_disk_refuses_harms_nothing,
    a_full_disk_refuses_writes_until_there_is_space,
    a_full_disk_takes_removals_and_is_opened,
    a_failed_sync_stops_writing_for_good,
    every_file_operation_may_fail_once,
    a_manifest_that_may_be_in_place_has_its_files,
    checkpoints_that_keep_failing_leave_no_files,
    a_checkpoint_that_failed_is_tried_again_without_a_write,
}

fn builder(index: IndexKind, vfs: &FaultyVfs) -> Builder {
    builder_of(Some(index))
        .vfs(Arc::new(vfs.clone()))
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .log_reserve_bytes(8 << 10)
}

fn open(index: IndexKind, vfs: &FaultyVfs) -> hedgerow::Result<Db> {
    builder(index, vfs).open(Path::new(DIR))
}

fn sync() -> WriteOptions {
    Durability::Sync.into()
}

fn dropping_a_keyspace_that_the_disk_refuses_harms_nothing(index: IndexKind) {
    let vfs = faulty();
    let db = open(index, &vfs).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put_with(b"some key", b"1", &sync()).unwrap();
    let full = Fault::Error(std::io::ErrorKind::StorageFull);
    vfs.fail_from(CallKind::Rename, 0, full);
    assert!(matches!(db.drop_keyspace("k"), Err(Error::DiskFull)));
    assert!(matches!(db.clear_keyspace("k"), Err(Error::DiskFull)));
    assert_eq!(
        keyspace.get(b"some key").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    vfs.heal();
    keyspace.put_with(b"some key", b"2", &sync()).unwrap();
    db.clear_keyspace("k").unwrap();
    db.drop_keyspace("k").unwrap();
    db.close().unwrap();
}

fn a_full_disk_refuses_writes_until_there_is_space(index: IndexKind) {
    let vfs = faulty();
    // Zeros written ahead of the log are space that a checkpoint finds.
    let builder = builder(index, &vfs).log_ahead_bytes(0);
    let db = builder.open(Path::new(DIR)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put_with(b"is there", b"1", &sync()).unwrap();
    vfs.set_space(Some(20_000));
    let mut stored = 0_u64;
    let error = loop {
        match keyspace.put_with(&stored.to_be_bytes(), &[7; 1000], &sync()) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull), "{error:?}");
    assert!(error.to_string().contains("free some space"));
    assert!(stored > 5, "{stored}");
    assert_eq!(db.health(), Health::DiskFull);
    assert!(matches!(
        keyspace.put(b"refused!", b""),
        Err(Error::DiskFull)
    ));
    vfs.set_space(Some(0));
    assert!(matches!(db.keyspace("new"), Err(Error::DiskFull)));
    // Of a page file, what was let be changed has its space.
    match db.checkpoint() {
        Err(Error::DiskFull) => assert_ne!(index, IndexKind::BTree),
        done => assert!(index == IndexKind::BTree && done.is_ok(), "{done:?}"),
    }
    assert_eq!(
        keyspace.get(b"is there").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(keyspace.get(b"refused!").unwrap(), None);

    vfs.set_space(None);
    while db.health() != Health::Healthy {
        std::thread::yield_now();
    }
    keyspace.put_with(b"is after", b"2", &sync()).unwrap();
    db.keyspace("new").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = open(index, &vfs).unwrap();
    assert_eq!(db.keyspaces(), ["k", "new"]);
    let keyspace = db.keyspace("k").unwrap();
    assert!(keyspace.contains(b"is after").unwrap() && keyspace.contains(b"is there").unwrap());
    assert!((0..stored).all(|i| keyspace.contains(&i.to_be_bytes()).unwrap()));
}

fn a_full_disk_takes_removals_and_is_opened(index: IndexKind) {
    let vfs = faulty();
    let builder = || {
        let builder = builder_of(Some(index)).vfs(Arc::new(vfs.clone()));
        let builder = builder.workers(2).checkpoint_log_bytes(None);
        builder.log_reserve_bytes(64 << 10).open(DIR).unwrap()
    };
    let db = builder();
    let keyspace = db.keyspace("k").unwrap();
    for n in 0..200_u64 {
        keyspace.put(&n.to_be_bytes(), &[7; 100]).unwrap();
    }
    vfs.set_space(Some(0));
    let mut stored = 0_u32;
    // Whatever is accepted becomes durable.
    while keyspace
        .put_with(b"one more", &stored.to_be_bytes(), &sync())
        .is_ok()
    {
        stored += 1;
    }
    assert_eq!(db.health(), Health::DiskFull);
    assert!(matches!(
        keyspace.put(b"refused!", b""),
        Err(Error::DiskFull)
    ));
    let key = |n: u64| n.to_be_bytes();
    let removed = keyspace.remove_with(&key(0), &sync()).unwrap().unwrap();
    assert!(db.poll_durable(&removed).unwrap());
    let mut batch = db.batch();
    batch.remove(&keyspace, &key(1)).remove(&keyspace, &key(2));
    batch.commit(Durability::Sync).unwrap();
    let (gone, _) = keyspace
        .delete_range_with(&key(3)[..]..&key(150)[..], &sync())
        .unwrap();
    assert_eq!(gone, 147);
    db.write_out().unwrap();
    drop((keyspace, db));

    // The disk is still full.
    for round in 150..155 {
        let db = builder();
        let keyspace = db.keyspace("k").unwrap();
        assert_eq!(keyspace.len(), 201 - round);
        let last = keyspace.get(b"one more").unwrap().unwrap();
        assert!(last == (stored - 1).to_be_bytes() || last == stored.to_be_bytes());
        keyspace.remove_with(&key(round), &sync()).unwrap().unwrap();
    }
    vfs.set_space(None);
    let db = builder();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put_with(b"is after", b"", &sync()).unwrap();
    assert_eq!(keyspace.len(), 47);
    db.close().unwrap();
}

fn a_failed_sync_stops_writing_for_good(index: IndexKind) {
    let vfs = faulty();
    let db = open(index, &vfs).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put_with(b"is there", b"1", &sync()).unwrap();
    vfs.fail_once(CallKind::Sync, 0, Fault::Error(std::io::ErrorKind::Other));
    let error = keyspace.put_with(b"was lost", b"2", &sync()).unwrap_err();
    assert!(matches!(error, Error::Poisoned(_)), "{error:?}");
    assert!(error.to_string().contains("reopen"), "{error}");
    // The next sync would succeed, and prove nothing.
    assert!(matches!(
        keyspace.put(b"one more", b""),
        Err(Error::Poisoned(_))
    ));
    assert!(matches!(db.health(), Health::Poisoned(_)));
    assert!(matches!(db.checkpoint(), Err(Error::Poisoned(_))));
    assert_eq!(
        keyspace.get(b"is there").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert!(db.close().is_err());
    let db = open(index, &vfs).unwrap();
    assert!(db.keyspace("k").unwrap().contains(b"is there").unwrap());
}

/// What may be in the database: for each key, its acknowledged state, and states that an
/// operation which failed may have left.
#[derive(Default)]
struct Expected {
    keys: BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>,
}

impl Expected {
    fn record(&mut self, key: &[u8], value: Option<&[u8]>, acknowledged: bool) {
        let states = self.keys.entry(key.to_vec()).or_insert_with(|| vec![None]);
        if acknowledged {
            states.clear();
        }
        states.push(value.map(<[u8]>::to_vec));
    }

    fn check(&self, db: &Db) {
        let keyspace = db.keyspace("k").unwrap();
        for (key, states) in &self.keys {
            let found = keyspace.get(key).unwrap();
            let key = key.escape_ascii();
            assert!(
                states.contains(&found),
                "{key}: {found:?} is none of {states:?}"
            );
        }
        let pair = [&b"a pair: "[..], b"its half"].map(|key| keyspace.get(key).unwrap());
        assert_eq!(pair[0], pair[1], "half of a batch");
    }
}

/// A process run with all kinds of file operations. Stops at nothing.
fn live(index: IndexKind, vfs: &FaultyVfs, expected: &mut Expected, round: u8) {
    let Ok(db) = open(index, vfs) else { return };
    let Ok(keyspace) = db.keyspace("k") else {
        return;
    };
    let text = [b'0' + round];
    for key in [&b"number 1"[..], b"number 2", b"number 3"] {
        let done = keyspace.put_with(key, &text, &sync()).is_ok();
        expected.record(key, Some(&text), done);
    }
    let _ = db.checkpoint();
    let done = keyspace.remove_with(b"number 2", &sync()).is_ok();
    expected.record(b"number 2", None, done);
    let mut batch = db.batch();
    batch
        .put(&keyspace, b"a pair: ", &text)
        .put(&keyspace, b"its half", &text);
    let done = batch.commit(Durability::Sync).is_ok();
    expected.record(b"a pair: ", Some(&text), done);
    expected.record(b"its half", Some(&text), done);
    if let Ok(scratch) = db.keyspace("scratch") {
        let _ = scratch.put(b"scratch!", b"y");
        if db.clear_keyspace("scratch").is_ok() {
            assert!(scratch.is_empty());
        }
        let _ = db.drop_keyspace("scratch");
    }
    let backup = Path::new("/backup").join(round.to_string());
    if db.backup(&backup).is_err() {
        let left = vfs.list(&backup).unwrap_or_default();
        assert_eq!(left, [""; 0], "left of a backup that failed");
    }
    let done = keyspace.put_with(b"the last", &text, &sync()).is_ok();
    expected.record(b"the last", Some(&text), done);
    let _ = db.close();
}

fn every_file_operation_may_fail_once(index: IndexKind) {
    let vfs = faulty();
    live(index, &vfs, &mut Expected::default(), 0);
    live(index, &vfs, &mut Expected::default(), 1);
    let calls: Vec<(CallKind, usize)> = CallKind::ALL
        .into_iter()
        .map(|kind| (kind, vfs.calls(kind)))
        .collect();
    let mut process_runs = 0;
    for (kind, count) in calls {
        for n in 0..count {
            let faults = if kind == CallKind::Write {
                let other = std::io::ErrorKind::Other;
                vec![
                    Fault::Error(other),
                    Fault::ShortWrite(other),
                    Fault::TornWrite(other),
                ]
            } else {
                vec![Fault::Error(std::io::ErrorKind::Other)]
            };
            for fault in faults {
                let vfs = faulty();
                vfs.fail_once(kind, n, fault);
                let mut expected = Expected::default();
                live(index, &vfs, &mut expected, 0);
                live(index, &vfs, &mut expected, 1);
                vfs.heal();
                let db =
                    open(index, &vfs).unwrap_or_else(|e| panic!("{kind:?} {n} {fault:?}: {e}"));
                expected.check(&db);
                db.close().unwrap();
                let report = Db::builder().vfs(Arc::new(vfs.clone())).check(DIR).unwrap();
                assert_eq!(report.problems, [], "{kind:?} {n} {fault:?}");
                for round in ["0", "1"] {
                    check_backup(&vfs, round);
                }
                process_runs += 1;
            }
        }
    }
    assert!(
        process_runs > 100,
        "only {process_runs} faults were possible"
    );
}

/// A backup that did not finish is recognised; one that did is whole.
fn check_backup(vfs: &FaultyVfs, round: &str) {
    let backup = Path::new("/backup").join(round);
    if !vfs.exists(&backup.join("MANIFEST")).unwrap() {
        return;
    }
    let report = Db::builder()
        .vfs(Arc::new(vfs.clone()))
        .check(&backup)
        .unwrap();
    assert_eq!(report.problems, []);
    let db = Db::builder()
        .vfs(Arc::new(vfs.clone()))
        .read_only(true)
        .open(&backup)
        .unwrap();
    let keyspace = db.open_keyspace("k").unwrap();
    assert!(keyspace.contains(b"a pair: ").unwrap() == keyspace.contains(b"its half").unwrap());
}

/// Syncs of directories fail within a checkpoint, also after its manifest was renamed; then comes
/// one that finds the disk full, and then a kill.
fn a_manifest_that_may_be_in_place_has_its_files(index: IndexKind) {
    for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other] {
        for passing in 0.. {
            let files = MemoryVfs::new();
            let vfs = FaultyVfs::new(Arc::new(files.clone()));
            let db = builder(index, &vfs).keep_checkpoints(1);
            let db = db.log_reserve_bytes(1 << 20).open(Path::new(DIR)).unwrap();
            let rows = db.keyspace("k").unwrap();
            rows.put_with(b"first---", b"1", &sync()).unwrap();
            db.checkpoint().unwrap();
            rows.put_with(b"second--", b"2", &sync()).unwrap();
            vfs.fail_once(CallKind::SyncDir, passing, Fault::Error(kind));
            let first = db.checkpoint();
            let full = Fault::Error(std::io::ErrorKind::StorageFull);
            vfs.fail_from(CallKind::SyncDir, 0, full);
            let second = db.checkpoint();
            let killed = FaultyVfs::new(Arc::new(files.deep_clone()));
            drop(db);
            let db = open(index, &killed).unwrap_or_else(|error| {
                panic!("{kind:?} after {passing}, {first:?}, {second:?}: {error}")
            });
            let rows = db.keyspace("k").unwrap();
            for (key, value) in [(b"first---".as_slice(), b"1"), (b"second--", b"2")] {
                let found = rows.get(key).unwrap();
                assert_eq!(
                    found.as_deref(),
                    Some(&value[..]),
                    "{kind:?} after {passing}"
                );
            }
            // So many that the first checkpoint met none.
            if passing > 20 {
                break;
            }
        }
    }
}

fn checkpoints_that_keep_failing_leave_no_files(index: IndexKind) {
    let files = MemoryVfs::new();
    let vfs = FaultyVfs::new(Arc::new(files.clone()));
    let db = open(index, &vfs).unwrap();
    let rows = db.keyspace("k").unwrap();
    for number in 0..1_000_u64 {
        rows.put(&number.to_be_bytes(), &[1; 100]).unwrap();
    }
    db.checkpoint().unwrap();
    let is_manifest = |file: &Path, _| file.to_string_lossy().contains("MANIFEST");
    let broken = Fault::Error(std::io::ErrorKind::Other);
    vfs.fail_from_at(is_manifest, CallKind::Rename, 0, broken);
    let parts = || {
        let folder = Path::new(DIR).join("checkpoint");
        let names = files.list(&folder).unwrap_or_default();
        names.iter().filter(|name| name.ends_with(".ckpt")).count()
    };
    let before = parts();
    for _ in 0..5 {
        rows.put(b"one more", b"row").unwrap();
        db.checkpoint().unwrap_err();
    }
    assert_eq!(parts(), before);
    vfs.heal();
    db.checkpoint().unwrap();
    assert_eq!(db.verify().unwrap(), 1_001);
}

/// The log that it was to replace is as long as before.
fn a_checkpoint_that_failed_is_tried_again_without_a_write(index: IndexKind) {
    let vfs = faulty();
    let builder = builder(index, &vfs).checkpoint_log_bytes(Some(64 << 10));
    let builder = builder.checkpoint_idle(None).checkpoint_interval(None);
    let db = builder.open(Path::new(DIR)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let refused = Fault::Error(std::io::ErrorKind::Other);
    vfs.fail_from(CallKind::Rename, 0, refused);
    // Less than twice the limit: wherever the rotation falls, what is behind it is below.
    for n in 0..700_u64 {
        keyspace.put(&n.to_be_bytes(), &[7; 100]).unwrap();
    }
    db.sync().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let wait_for = |what: &str| {
        while db.statistics().get(what) == Some(0.0) {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for("checkpoint_failures_total");
    vfs.heal();
    wait_for("checkpoints_total");
    db.close().unwrap();
    let db = open(index, &vfs).unwrap();
    assert_eq!(db.keyspace("k").unwrap().len(), 700);
}
