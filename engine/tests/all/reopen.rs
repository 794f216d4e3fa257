//! What was written is there after closing and opening, whatever lies between.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::{Db, Durability, IndexKind, Locks, WriteOptions};
use hedgerow_log::Manifest;
use hedgerow_testkit::databases::{builder_of, key_of};
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::{MemoryVfs, RecordingVfs, Vfs};

over_each_index! {
    rows_survive_with_and_without_a_checkpoint,
    what_was_written_out_survives_the_process,
    what_nobody_asks_about_survives_a_power_cut_after_an_interval,
    keyspaces_come_go_and_are_cleared,
    a_backup_is_a_database_and_can_be_restored,
    logs_written_ahead_are_recovered_and_backed_up_as_others_are,
    reading_only_changes_no_file,
    only_a_new_database_without_rows_is_discarded,
    who_closes_a_database_first_decides_whether_it_goes,
}

/// No sync, no wait, no other commit: the clock alone.
fn what_nobody_asks_about_survives_a_power_cut_after_an_interval(index: IndexKind) {
    let recording = RecordingVfs::new(&MemoryVfs::new());
    let open = |vfs: Arc<dyn Vfs>| {
        let builder = builder_of(Some(index)).vfs(vfs).workers(2);
        let builder = builder.durability(Durability::Periodic);
        builder.open(Path::new("/db")).unwrap()
    };
    let db = open(Arc::new(recording.clone()));
    let commit = db.keyspace("a").unwrap().put(b"some row", b"value");
    let commit = commit.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !db.is_durable(&commit) {
        assert!(Instant::now() < deadline, "it never becomes durable");
        thread::sleep(Duration::from_millis(1));
    }
    // Of what was not synced nothing is kept.
    let image = recording.crash_image(recording.operations(), &mut |_| 0);
    let db = open(Arc::new(image));
    assert_eq!(pairs(&db, "a"), [pair("some row", "value")]);
}

fn pairs(db: &Db, keyspace: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let keyspace = db.open_keyspace(keyspace).unwrap();
    keyspace
        .range(..)
        .unwrap()
        .map(|entry| entry.unwrap().to_pair())
        .collect()
}

fn pair(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (key.into(), value.into())
}

fn rows_survive_with_and_without_a_checkpoint(index: IndexKind) {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let db = builder_of(Some(index)).workers(2).open(dir.path()).unwrap();
        let a = db.keyspace("a").unwrap();
        let b = db.keyspace("b").unwrap();
        if round == 0 {
            a.put(b"number 1", b"one").unwrap();
            b.put_columns(b"some row", &[(b"x", b"a long enough value"), (b"y", b"2")])
                .unwrap();
            a.put(b"are gone", b"").unwrap();
        } else {
            assert_eq!(a.len(), round, "round {round}");
            assert_eq!(
                b.get_columns(b"some row", &[b"z"]).unwrap().unwrap()[0],
                Some(vec![round as u8])
            );
        }
        b.put_columns(b"some row", &[(b"z", &[round as u8 + 1])])
            .unwrap();
        a.remove(b"are gone").unwrap();
        a.put(format!("more   {round}").as_bytes(), b"more")
            .unwrap();
        if round % 2 == 1 {
            let report = db.checkpoint().unwrap();
            assert_eq!(report.records, round + 2);
            assert_eq!(db.statistics().get("replayed_log_bytes"), Some(0.0));
        }
        if round == 0 {
            a.remove(b"number 1").unwrap();
        }
        db.close().unwrap();
    }
    let db = builder_of(Some(index)).open(dir.path()).unwrap();
    assert_eq!(db.keyspaces(), ["a", "b"]);
    let columns = db
        .keyspace("b")
        .unwrap()
        .read(b"some row", |row| row.column_count())
        .unwrap();
    assert_eq!(columns, Some(3));
    assert_eq!(pairs(&db, "a")[0], pair("more   0", "more"));
}

#[test]
fn a_checkpoint_tells_of_epochs_whose_rows_and_logs_are_gone() {
    let disk = MemoryVfs::new();
    let db = Db::builder()
        .vfs(Arc::new(disk.clone()))
        .open("/db")
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace
        .put_with(b"some key", b"", &Durability::Sync.into())
        .unwrap();
    db.sync().unwrap();
    let removed = keyspace.remove_with(b"some key", &Durability::Sync.into());
    let removed = removed.unwrap().unwrap();
    db.checkpoint().unwrap();
    let manifest = Manifest::load(&disk, Path::new("/db")).unwrap();
    let known = manifest.checkpoints[0].timestamp.epoch();
    assert!(known >= removed.epoch(), "{known} < {}", removed.epoch());
}

fn what_was_written_out_survives_the_process(index: IndexKind) {
    let vfs = MemoryVfs::new();
    let dir = Path::new("/db");
    let builder = |vfs: &MemoryVfs| {
        builder_of(Some(index))
            .vfs(Arc::new(vfs.clone()))
            .workers(2)
            .durability(Durability::Periodic)
            .flush_interval(Duration::from_millis(200))
    };
    let db = builder(&vfs).open(dir).unwrap();
    let keyspace = db.keyspace("default").unwrap();
    for round in 0..20_u8 {
        keyspace
            .put(&key_of(Some(index), [round]), b"value")
            .unwrap();
        db.write_out().unwrap();
        // The files as they are when the process is killed now.
        let killed = builder(&vfs.deep_clone()).open(dir).unwrap();
        let found = killed.keyspace("default").unwrap();
        assert_eq!(found.len(), u64::from(round) + 1);
    }
    db.close().unwrap();
}

fn keyspaces_come_go_and_are_cleared(index: IndexKind) {
    let dir = tempfile::tempdir().unwrap();
    let db = builder_of(Some(index)).open(dir.path()).unwrap();
    let kept = db.create_keyspace("kept").unwrap();
    let cleared = db.create_keyspace("cleared").unwrap();
    let dropped = db.create_keyspace("dropped").unwrap();
    for keyspace in [&kept, &cleared, &dropped] {
        keyspace.put(b"some key", b"before").unwrap();
    }
    db.clear_keyspace("cleared").unwrap();
    db.drop_keyspace("dropped").unwrap();
    assert_eq!(
        (cleared.get(b"some key").unwrap(), cleared.len()),
        (None, 0)
    );
    assert!(matches!(
        dropped.get(b"some key"),
        Err(hedgerow::Error::KeyspaceMissing(_))
    ));
    assert!(matches!(
        dropped.put(b"some key", b""),
        Err(hedgerow::Error::KeyspaceMissing(_))
    ));
    cleared.put(b"some key", b"after").unwrap();
    let locks = [(&cleared, &b"another!"[..]), (&kept, &b"another!"[..])];
    db.transact(Locks::Keys(&locks), &WriteOptions::default(), |tx| {
        tx.put(&cleared, b"another!", b"1")?;
        tx.put(&kept, b"another!", b"1")
    })
    .unwrap();
    drop(db);
    let db = builder_of(Some(index)).open(dir.path()).unwrap();
    assert_eq!(db.keyspaces(), ["cleared", "kept"]);
    assert_eq!(
        pairs(&db, "cleared"),
        [pair("another!", "1"), pair("some key", "after")]
    );
    assert_eq!(
        pairs(&db, "kept"),
        [pair("another!", "1"), pair("some key", "before")]
    );
    let reborn = db.create_keyspace("dropped").unwrap();
    assert!(reborn.is_empty());
}

fn a_backup_is_a_database_and_can_be_restored(index: IndexKind) {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy, restored) = (
        dir.path().join("data"),
        dir.path().join("copy"),
        dir.path().join("restored"),
    );
    let db = builder_of(Some(index)).workers(3).open(&data).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for i in 0..2000 {
        keyspace
            .put(format!("{i:08}").as_bytes(), b"before")
            .unwrap();
    }
    db.backup(&copy).unwrap();
    let expected = pairs(&db, "k");
    keyspace
        .put_with(b"is later", b"after", &Durability::Sync.into())
        .unwrap();
    let not_empty = db.backup(&copy).unwrap_err();
    assert!(
        matches!(not_empty, hedgerow::Error::NotEmpty { .. }),
        "{not_empty}"
    );
    db.checkpoint().unwrap();
    db.close().unwrap();

    Db::restore(&copy, &restored).unwrap();
    for dir in [&copy, &restored] {
        let report = Db::check(dir).unwrap();
        assert_eq!((report.problems, report.rows), (vec![], 2000));
        let db = builder_of(Some(index)).open(dir).unwrap();
        assert_eq!(pairs(&db, "k"), expected);
        db.keyspace("k").unwrap().put(b"its life", b"own").unwrap();
    }
    assert_eq!(
        pairs(&builder_of(Some(index)).open(&restored).unwrap(), "k").len(),
        2001
    );
    assert_eq!(
        pairs(&builder_of(Some(index)).open(&data).unwrap(), "k").len(),
        2001
    );
}

fn logs_written_ahead_are_recovered_and_backed_up_as_others_are(index: IndexKind) {
    for ahead in [None, Some(0), Some(4096)] {
        let memory = MemoryVfs::new();
        let open = |vfs: &MemoryVfs| {
            let builder = builder_of(Some(index)).vfs(Arc::new(vfs.clone()));
            let builder = match ahead {
                Some(bytes) => builder.log_ahead_bytes(bytes),
                None => builder,
            };
            builder.open("/data").unwrap()
        };
        let db = open(&memory);
        let keyspace = db.keyspace("k").unwrap();
        for i in 0..100 {
            let key = format!("{i:08}");
            keyspace
                .put_with(key.as_bytes(), b"value", &Durability::Sync.into())
                .unwrap();
        }
        let written = db.statistics().get("log_ahead_bytes_total").unwrap();
        assert_eq!(written > 0.0, ahead != Some(0), "{ahead:?}");
        // Killed here.
        let killed = memory.deep_clone();
        let check = Db::builder().vfs(Arc::new(killed.clone())).check("/data");
        assert_eq!(check.unwrap().problems, vec![]);
        assert_eq!(pairs(&open(&killed), "k").len(), 100);
        db.backup("/copy").unwrap();
        keyspace.put(b"is later", b"after").unwrap();
        db.close().unwrap();
        assert_eq!(pairs(&open(&memory), "k").len(), 101);
        let copy = Db::builder().vfs(Arc::new(memory.clone()));
        let checked = copy.check("/copy").unwrap();
        assert_eq!((checked.problems, checked.rows), (vec![], 100));
    }
}

fn reading_only_changes_no_file(index: IndexKind) {
    let dir = tempfile::tempdir().unwrap();
    let db = builder_of(Some(index)).open(dir.path()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put(b"some key", b"value").unwrap();
    db.close().unwrap();
    let listing = || {
        let mut files = Vec::new();
        for folder in [dir.path().to_path_buf(), dir.path().join("log")] {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    files.push((path.clone(), std::fs::read(path).unwrap()));
                }
            }
        }
        files.sort();
        files
    };
    let before = listing();
    let db = builder_of(Some(index))
        .read_only(true)
        .open(dir.path())
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    assert_eq!(
        keyspace.get(b"some key").unwrap().as_deref(),
        Some(&b"value"[..])
    );
    assert!(matches!(
        keyspace.put(b"some key", b""),
        Err(hedgerow::Error::ReadOnly)
    ));
    assert!(matches!(
        keyspace.remove(b"some key"),
        Err(hedgerow::Error::ReadOnly)
    ));
    assert!(matches!(db.keyspace("new"), Err(hedgerow::Error::ReadOnly)));
    assert!(matches!(db.checkpoint(), Err(hedgerow::Error::ReadOnly)));
    db.close().unwrap();
    assert_eq!(listing(), before);
}

fn only_a_new_database_without_rows_is_discarded(index: IndexKind) {
    let disk = MemoryVfs::new();
    let open = || {
        let builder = builder_of(Some(index)).vfs(Arc::new(disk.clone()));
        builder.workers(2).open(Path::new("/db")).unwrap()
    };
    let db = open();
    let rows = db.keyspace("a").unwrap();
    assert!(db.discard().unwrap());
    assert!(rows.put(b"some row", b"value").is_err(), "it is closed");
    assert!(!db.discard().unwrap(), "it was closed before");
    assert!(disk.files().is_empty());
    let db = open();
    let rows = db.keyspace("a").unwrap();
    rows.put(b"some row", b"value").unwrap();
    assert!(!db.discard().unwrap(), "it has a row");
    let db = open();
    assert_eq!(pairs(&db, "a"), [pair("some row", "value")]);
    let rows = db.keyspace("a").unwrap();
    rows.remove(b"some row").unwrap();
    assert!(!db.discard().unwrap(), "it was there before");
    assert_eq!(open().keyspaces(), ["a"]);
}

/// Another thread closes it, and a row comes, at the same moment.
fn who_closes_a_database_first_decides_whether_it_goes(index: IndexKind) {
    for _ in 0..20 {
        let disk = MemoryVfs::new();
        let open = || {
            let builder = builder_of(Some(index)).vfs(Arc::new(disk.clone()));
            builder.workers(2).open(Path::new("/db")).unwrap()
        };
        let db = open();
        let rows = db.keyspace("a").unwrap();
        let all = Barrier::new(3);
        let (is_discarded, is_stored) = thread::scope(|scope| {
            let closing = scope.spawn(|| {
                all.wait();
                db.close().unwrap();
            });
            let discarding = scope.spawn(|| {
                all.wait();
                db.discard().unwrap()
            });
            all.wait();
            let is_stored = rows.put(b"some row", b"value").is_ok();
            closing.join().unwrap();
            (discarding.join().unwrap(), is_stored)
        });
        assert_eq!(disk.files().is_empty(), is_discarded);
        if is_stored {
            assert_eq!(pairs(&open(), "a"), [pair("some row", "value")]);
        }
    }
}
