//! A disk that is full, at every amount of free space: the database opens, answers, and lets rows
//! be removed, so that whoever runs it can free space.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use hedgerow::{Builder, Db, Durability, Error, Health, IndexKind, Keyspace, WriteOptions};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::{FaultyVfs, MemoryVfs};

const DIR: &str = "/data";
/// Rows before the disk is full, and bytes of each: the logs have several times what B-trees have
/// of memory here.
const ROWS: u32 = 3_000;
const ROW_BYTES: usize = 900;
/// Rows in the checkpoint.
const CHECKPOINTED: u32 = 1_000;
const RESERVE_BYTES: u32 = 256 << 10;

over_each_index! {
    at_each_amount_of_free_space_it_opens_reads_and_removes,
    it_opens_after_openings_that_wrote_nothing,
    each_worker_can_remove_after_an_opening,
    keyspaces_are_cleared_and_dropped,
    what_was_cleared_or_removed_gives_its_space_back,
    a_checkpoint_that_does_not_fit_leaves_removals_their_space,
}

fn sync() -> WriteOptions {
    Durability::Sync.into()
}

/// Takes no checkpoint by itself, so that each opening has the logs to replay. Writes no zeros
/// ahead of the log: they would be space that comes back when they are cut off.
fn builder(index: IndexKind, vfs: &FaultyVfs) -> Builder {
    builder_of(Some(index))
        .vfs(Arc::new(vfs.clone()))
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .log_reserve_bytes(RESERVE_BYTES)
        .log_ahead_bytes(0)
}

fn open(index: IndexKind, vfs: &FaultyVfs) -> Db {
    let db = builder(index, vfs).open(Path::new(DIR));
    db.unwrap_or_else(|error| panic!("opening: {error}"))
}

fn key(number: u32) -> [u8; 8] {
    u64::from(number).to_be_bytes()
}

/// The files of a database whose process was killed.
fn killed(index: IndexKind) -> MemoryVfs {
    let memory = MemoryVfs::new();
    let vfs = FaultyVfs::new(Arc::new(memory.clone()));
    let db = open(index, &vfs);
    let keyspace = db.keyspace("rows").unwrap();
    for number in 0..ROWS {
        if number == CHECKPOINTED {
            db.checkpoint().unwrap();
        }
        let value = [number as u8; ROW_BYTES];
        keyspace.put(&key(number), &value).unwrap();
    }
    db.sync().unwrap();
    memory.deep_clone()
}

/// The database as it was killed, open, on a disk that has no more than so much space from now on.
fn open_on_full_disk(index: IndexKind, files: &MemoryVfs, space: u64) -> (FaultyVfs, Db) {
    let vfs = FaultyVfs::new(Arc::new(files.deep_clone()));
    vfs.set_space(Some(1 << 40));
    let db = open(index, &vfs);
    vfs.set_space(Some(space));
    (vfs, db)
}

/// Writes until the disk is full.
fn fill(keyspace: &Keyspace) {
    for number in 0_u32.. {
        let name = [&b"x..."[..], &number.to_be_bytes()].concat();
        match keyspace.put_with(&name, &[1; ROW_BYTES], &sync()) {
            Ok(_) => {}
            Err(Error::DiskFull) => return,
            Err(error) => panic!("filling: {error}"),
        }
    }
}

/// All rows from `first` on are there, and none before.
fn check_rows(keyspace: &Keyspace, first: u32) {
    let (mut rows, mut others) = (first, 0);
    for entry in keyspace.range(..).unwrap() {
        let entry = entry.unwrap_or_else(|error| panic!("reading: {error}"));
        if entry.key() == key(rows) {
            assert_eq!(
                entry.value(),
                Some(&[rows as u8; ROW_BYTES][..]),
                "row {rows}"
            );
            rows += 1;
        } else {
            assert!(entry.key().starts_with(b"x"), "row {rows} is missing");
            others += 1;
        }
    }
    assert_eq!(rows, ROWS);
    assert_eq!(keyspace.len(), u64::from(ROWS - first) + others);
}

/// Removes rows, one by one and a range, durably.
fn remove(keyspace: &Keyspace, first: &mut u32) {
    let removed = keyspace.remove_with(&key(*first), &sync());
    let removed = removed.unwrap_or_else(|error| panic!("removing: {error}"));
    assert!(removed.is_some());
    let range = &key(*first + 1)[..]..&key(*first + 40)[..];
    let removed = keyspace.delete_range_with(range, &sync());
    let (removed, _) = removed.unwrap_or_else(|error| panic!("removing a range: {error}"));
    assert_eq!(removed, 39);
    *first += 40;
}

/// The database closes, as far as there is space for that.
fn close(db: &Db) {
    match db.close() {
        Ok(()) | Err(Error::DiskFull) => {}
        Err(error) => panic!("closing: {error}"),
    }
}

fn live(index: IndexKind, files: &MemoryVfs, space: u64, is_filled: bool) {
    let (vfs, db) = open_on_full_disk(index, files, space);
    let keyspace = db.open_keyspace("rows").unwrap();
    if is_filled {
        fill(&keyspace);
    }
    let mut first = 0;
    close(&db);
    drop((keyspace, db));
    for _ in 0..3 {
        let db = open(index, &vfs);
        let keyspace = db.open_keyspace("rows").unwrap();
        check_rows(&keyspace, first);
        remove(&keyspace, &mut first);
        check_rows(&keyspace, first);
        close(&db);
    }
    vfs.set_space(None);
    let db = open(index, &vfs);
    let keyspace = db.open_keyspace("rows").unwrap();
    keyspace.put_with(b"x: after", b"", &sync()).unwrap();
    db.checkpoint().unwrap();
    check_rows(&keyspace, first);
    db.close().unwrap();
}

fn at_each_amount_of_free_space_it_opens_reads_and_removes(index: IndexKind) {
    let files = killed(index);
    // Odd steps, small ones where there is nearly nothing.
    let mut space = 0;
    while space < 3 << 20 {
        for is_filled in [false, true] {
            println!("{space} bytes free, filled: {is_filled}");
            live(index, &files, space, is_filled);
        }
        space += 1_237 + space / 4;
    }
}

fn it_opens_after_openings_that_wrote_nothing(index: IndexKind) {
    let files = killed(index);
    let (vfs, db) = open_on_full_disk(index, &files, 0);
    drop(db);
    for _ in 0..4 {
        let db = open(index, &vfs);
        check_rows(&db.open_keyspace("rows").unwrap(), 0);
    }
}

fn each_worker_can_remove_after_an_opening(index: IndexKind) {
    let files = killed(index);
    let (vfs, db) = open_on_full_disk(index, &files, 0);
    fill(&db.open_keyspace("rows").unwrap());
    drop(db);
    let db = open(index, &vfs);
    let keyspace = db.open_keyspace("rows").unwrap();
    // Threads take turns among the workers.
    for number in 0..4 {
        std::thread::scope(|scope| {
            let remove = || keyspace.remove_with(&key(number), &sync());
            let removed = scope.spawn(remove).join().unwrap();
            let removed = removed.unwrap_or_else(|e| panic!("thread {number} removes: {e}"));
            assert!(removed.is_some());
        });
    }
}

fn keyspaces_are_cleared_and_dropped(index: IndexKind) {
    let files = killed(index);
    for is_dropped in [false, true] {
        let (vfs, db) = open_on_full_disk(index, &files, 0);
        fill(&db.open_keyspace("rows").unwrap());
        assert!(matches!(db.keyspace("new"), Err(Error::DiskFull)));
        let done = match is_dropped {
            true => db.drop_keyspace("rows"),
            false => db.clear_keyspace("rows"),
        };
        done.unwrap_or_else(|error| panic!("dropped: {is_dropped}: {error}"));
        close(&db);
        let db = open(index, &vfs);
        let rows = db.open_keyspace("rows").map(|keyspace| keyspace.len());
        match is_dropped {
            true => assert!(matches!(rows, Err(Error::KeyspaceMissing(_)))),
            false => assert_eq!(rows.unwrap(), 0),
        }
    }
}

/// Whoever runs a server with a full disk clears a keyspace, or removes a range, and saves: then
/// there is space, though nobody else gave any.
fn what_was_cleared_or_removed_gives_its_space_back(index: IndexKind) {
    let files = killed(index);
    for is_cleared in [true, false] {
        let (vfs, db) = open_on_full_disk(index, &files, 0);
        let keyspace = db.open_keyspace("rows").unwrap();
        fill(&keyspace);
        if is_cleared {
            db.clear_keyspace("rows").unwrap();
        } else {
            keyspace.delete_range_with(.., &sync()).unwrap();
        }
        let saved = db.checkpoint();
        saved.unwrap_or_else(|error| panic!("cleared: {is_cleared}: {error}"));
        while db.health() != Health::Healthy {
            std::thread::yield_now();
        }
        for number in 0..100 {
            let put = keyspace.put_with(&key(number), &[2; ROW_BYTES], &sync());
            put.unwrap_or_else(|error| panic!("row {number}: {error}"));
        }
        close(&db);
        drop((keyspace, db));
        let db = open(index, &vfs);
        assert_eq!(db.open_keyspace("rows").unwrap().len(), 100);
    }
}

fn a_checkpoint_that_does_not_fit_leaves_removals_their_space(index: IndexKind) {
    let files = killed(index);
    let (vfs, db) = open_on_full_disk(index, &files, 0);
    let keyspace = db.open_keyspace("rows").unwrap();
    fill(&keyspace);
    let mut first = 0;
    for _ in 0..10 {
        // Of a page file it may fit by and by: what is changed has space reserved.
        match db.checkpoint() {
            Err(Error::DiskFull) => {}
            done => assert!(index == IndexKind::BTree && done.is_ok(), "{done:?}"),
        }
        remove(&keyspace, &mut first);
    }
    check_rows(&keyspace, first);
    close(&db);
    drop((keyspace, db));
    let db = open(index, &vfs);
    let keyspace = db.open_keyspace("rows").unwrap();
    check_rows(&keyspace, first);
    remove(&keyspace, &mut first);
}

/// However many: what removals use up of the reserves comes back with the checkpoints that they
/// take, as long as what was changed before has space.
#[test]
fn any_number_of_scattered_rows_is_removed_from_a_page_file() {
    for space in [0, 100_000, 1_500_000] {
        let files = killed(IndexKind::BTree);
        let vfs = FaultyVfs::new(Arc::new(files.deep_clone()));
        vfs.set_space(Some(6 << 20));
        let db = open(IndexKind::BTree, &vfs);
        let keyspace = db.open_keyspace("rows").unwrap();
        // Rows beyond what memory has, some of them in no checkpoint.
        for number in 0..4 * ROWS {
            let put = keyspace.put(&key(number), &[number as u8; ROW_BYTES]);
            match put {
                Ok(_) => {}
                Err(Error::DiskFull) => break,
                Err(error) => panic!("filling: {error}"),
            }
            if number == ROWS {
                db.checkpoint().unwrap();
                // The log takes a moment to see that it has space again.
                while db.health() != Health::Healthy {
                    thread::yield_now();
                }
            }
            // Or more would be accepted than the logs have reserved.
            if number % 64 == 0 && db.sync().is_err() {
                break;
            }
        }
        vfs.set_space(Some(space));
        fill(&keyspace);
        let rows: Vec<Vec<u8>> = keyspace
            .range(..)
            .unwrap()
            .map(|entry| entry.unwrap().key().to_vec())
            .collect();
        let count = rows.len();
        assert!(count > 2 * ROWS as usize, "{count} rows");
        // A prime that does not divide the count: one row of each leaf, then another.
        assert_ne!(count % 997, 0);
        for step in 0..count {
            let at = step * 997 % count;
            let removed = keyspace.remove_with(&rows[at], &sync());
            let removed = removed.unwrap_or_else(|error| panic!("{space}: row {step}: {error}"));
            assert!(removed.is_some(), "{space}: row {step}");
        }
        assert_eq!(keyspace.len(), 0);
        close(&db);
        drop((keyspace, db));
        let db = open(IndexKind::BTree, &vfs);
        assert_eq!(db.open_keyspace("rows").unwrap().len(), 0, "{space}");
    }
}
