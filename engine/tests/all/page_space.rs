//! What becomes of a page file's space: keyspaces that are dropped or never come to be, full disks,
//! copies of damaged files, and files that become short by themselves.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow::{Db, Error};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

use crate::page_file::{DIR, PAGES, builder, check, fill, find, key, number, open, value};

/// Pages of keyspaces that hold no row: their roots.
pub(crate) fn live_pages(db: &Db) -> u64 {
    db.checkpoint().unwrap();
    number(db, "pages_live")
}

#[test]
fn a_keyspace_that_could_not_be_made_leaves_no_page_behind() {
    let memory = MemoryVfs::new();
    let faulty = FaultyVfs::new(Arc::new(memory.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let db = open(&vfs);
    db.keyspace("cleared").unwrap();
    let before = live_pages(&db);
    let full = Fault::Error(ErrorKind::StorageFull);
    for _ in 0..5 {
        let is_manifest = |path: &Path, _| path.to_string_lossy().contains("MANIFEST");
        faulty.fail_from_at(is_manifest, CallKind::Write, 0, full);
        assert!(matches!(db.keyspace("new"), Err(Error::DiskFull)));
        assert!(matches!(db.clear_keyspace("cleared"), Err(Error::DiskFull)));
        faulty.heal();
    }
    assert_eq!(live_pages(&db), before);
    db.keyspace("new").unwrap();
    assert_eq!(live_pages(&db), before + 1);
}

#[test]
fn a_dropped_keyspace_leaves_no_page_behind_in_a_crash() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let db = open(&vfs);
    let kept = db.keyspace("kept").unwrap();
    fill(&kept, 0..10);
    let before = live_pages(&db);
    // Somebody still reads it, and no checkpoint has seen it before it is dropped.
    let read = db.keyspace("read").unwrap();
    fill(&read, 0..1_000);
    db.drop_keyspace("read").unwrap();
    db.checkpoint().unwrap();
    let crashed: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
    drop((read, kept, db));
    let db = open(&crashed);
    assert_eq!(live_pages(&db), before);
}

#[test]
fn dropped_keyspaces_are_given_back_though_pages_cannot_be_read_for_a_while() {
    let sizes = [600_u32, 3_000, 8_000];
    for after in 0..sizes.len() * 3 {
        let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let db = open(&vfs);
        fill(&db.keyspace("kept").unwrap(), 0..10);
        let before = live_pages(&db);
        for (name, rows) in ["a", "b", "c"].iter().zip(sizes) {
            fill(&db.keyspace(name).unwrap(), 0..rows);
        }
        db.checkpoint().unwrap();
        for name in ["a", "b", "c"] {
            db.drop_keyspace(name).unwrap();
        }
        let broken = Fault::Error(ErrorKind::Other);
        faulty.fail_from(CallKind::Read, after * 7, broken);
        let outcome = db.checkpoint();
        faulty.heal();
        assert!(outcome.is_err(), "{after}: there was something to read");
        db.checkpoint().unwrap();
        assert_eq!(live_pages(&db), before, "{after}");
        check(&db.keyspace("kept").unwrap(), 0..10);
    }
}

#[test]
fn slots_that_a_full_disk_keeps_taken_are_in_no_checkpoint() {
    let row = |n: u32| vec![n as u8; 1000];
    let mut refused = 0;
    for writes in 0..24 {
        let memory = MemoryVfs::new();
        let faulty = FaultyVfs::new(Arc::new(memory.clone()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let db = open(&vfs);
        let rows = db.keyspace("rows").unwrap();
        for n in 0..4_000 {
            rows.put(&key(n), &row(n)).unwrap();
        }
        for n in 0..2_000 {
            rows.put(&key(n * 7919 % 4_000), &row(n)).unwrap();
        }
        // The disk is full for the first writes of pages that the checkpoint does, and then not.
        let left = AtomicU64::new(writes);
        let is_refused = move |path: &Path, _| {
            let take = |left: u64| left.checked_sub(1);
            let relaxed = Ordering::Relaxed;
            path.ends_with("pages.hdg") && left.fetch_update(relaxed, relaxed, take).is_ok()
        };
        let full = Fault::Error(ErrorKind::StorageFull);
        faulty.fail_from_at(is_refused, CallKind::Write, 0, full);
        let outcome = db.checkpoint();
        faulty.heal();
        if outcome.is_err() {
            refused += 1;
            continue;
        }
        let crashed: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
        drop((rows, db));
        let db = open(&crashed);
        db.drop_keyspace("rows").unwrap();
        let live = live_pages(&db);
        assert!(live < 8, "{live} pages are lost after {writes} writes");
    }
    // A checkpoint that meets a full disk is tried again, so most of them succeed in the end.
    assert!(refused < 24, "{refused} refused");
}

#[test]
fn a_backup_of_a_damaged_page_fails_and_leaves_no_copy() {
    let disk = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    fill(&rows, 0..20_000);
    let long = vec![b'v'; 30_000];
    rows.put(b"a long one", &long).unwrap();
    db.backup("/good").unwrap();
    // All copies of a row, of which one is in use; one page of a value; and several.
    for (number, bytes, most, needs) in [
        (1, value(10_000), 100, "keys from"),
        (2, long[..4_060].to_vec(), 1, "key a long one"),
        (3, long[..4_060].to_vec(), 100, "key a long one"),
    ] {
        let files = disk.files();
        let (_, content) = files
            .iter()
            .find(|(path, _)| path == Path::new(PAGES))
            .unwrap();
        let file = vfs
            .open(Path::new(PAGES), hedgerow_vfs::OpenMode::ReadWrite)
            .unwrap();
        let (mut damaged, mut flipped) = (content.clone(), Vec::new());
        while flipped.len() < most
            && let Some(at) = find(&damaged, &bytes)
        {
            flipped.push((at as u64, damaged[at]));
            damaged[at] ^= 1;
            file.write_at(at as u64, &[damaged[at]]).unwrap();
        }
        let dir = format!("/backup {number}");
        let error = db.backup(&dir).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        let said = error.to_string();
        for part in ["pages.hdg", "page ", "checksum", needs, "keyspace \"rows\""] {
            assert!(said.contains(part), "{part:?} is not in: {said}");
        }
        assert_eq!(vfs.list(Path::new(&dir)).unwrap(), Vec::<String>::new());
        for (at, byte) in flipped {
            file.write_at(at, &[byte]).unwrap();
        }
        db.backup(&dir).unwrap();
        assert_eq!(
            Db::builder()
                .vfs(Arc::clone(&vfs))
                .check(&dir)
                .unwrap()
                .problems,
            []
        );
    }
}

#[test]
fn an_idle_database_gives_the_space_of_removed_rows_back_and_then_rests() {
    for is_dropped in [false, true] {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let db = builder(&vfs)
            .checkpoint_log_bytes(Some(u64::MAX))
            .checkpoint_idle(Some(Duration::from_millis(1)))
            .checkpoint_interval(None)
            .open(DIR)
            .unwrap();
        let rows = db.keyspace("rows").unwrap();
        fill(&rows, 0..20_000);
        db.checkpoint().unwrap();
        let full = number(&db, "pages_file_bytes");
        assert!(full > 4 << 20, "{full}");
        if is_dropped {
            drop(rows);
            db.drop_keyspace("rows").unwrap();
        } else {
            assert_eq!(rows.delete_range(..).unwrap(), 20_000);
        }
        let deadline = Instant::now() + Duration::from_secs(300);
        while number(&db, "pages_file_bytes") > full / 8 {
            assert!(Instant::now() < deadline, "the file stays as it is");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Nobody writes: however long that takes, only a few checkpoints come.
        let taken = number(&db, "checkpoints_total");
        std::thread::sleep(Duration::from_secs(2));
        let more = number(&db, "checkpoints_total") - taken;
        assert!(more <= 4, "{more} checkpoints of nothing");
    }
}
