//! Snapshots where files are in the way: full disks, checkpoints that fail, more rows than memory,
//! keyspaces that nobody but a snapshot sees any more, and databases opened for reading only.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;

use hedgerow::{
    Action, Builder, Db, Direction, Durability, Error, Health, IndexKind, Isolation, Keyspace,
    Locks, WriteOptions,
};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

use crate::page_file::{self, fill, number, value};
use crate::page_space::live_pages;
use crate::snapshots::{Rows, key, rows_at, statistic};
use crate::transactions::present;

const DIR: &str = "/db";

over_each_index! {
    a_database_that_is_only_read_has_snapshots_and_transactions,
    a_full_disk_changes_nothing_that_a_snapshot_sees,
    a_checkpoint_that_fails_changes_nothing_that_a_snapshot_sees,
    a_keyspace_that_only_a_snapshot_sees_is_in_no_checkpoint,
    a_backup_is_of_the_present_beside_snapshots_and_transactions,
    a_snapshot_closes_within_any_closure,
}

fn builder(index: IndexKind, vfs: Arc<dyn Vfs>) -> Builder {
    builder_of(Some(index))
        .vfs(vfs)
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .version_memory(Some(64 << 20))
}

fn keys(index: IndexKind) -> Vec<Vec<u8>> {
    (0..200).map(|number| key(index, number)).collect()
}

/// Rows, of which the snapshots here are.
fn fill_all(rows: &Keyspace, keys: &[Vec<u8>]) -> Rows {
    for (key, number) in keys.iter().zip(0_u8..) {
        rows.put(key, &[number; 100]).unwrap();
    }
    present(rows)
}

fn a_database_that_is_only_read_has_snapshots_and_transactions(index: IndexKind) {
    let (disk, keys) = (MemoryVfs::new(), keys(index));
    let db = builder(index, Arc::new(disk.clone())).open(DIR).unwrap();
    let rows = db.keyspace("rows").unwrap();
    fill_all(&rows, &keys);
    db.checkpoint().unwrap();
    rows.delete_range(keys[50].clone()..keys[90].clone())
        .unwrap();
    rows.put(&keys[60], b"in the log").unwrap();
    db.sync().unwrap();
    let (killed, expected) = (disk.deep_clone(), present(&rows));
    drop((rows, db));
    let reading = builder(index, Arc::new(killed)).read_only(true);
    let db = reading.open(DIR).unwrap();
    let rows = db.open_keyspace("rows").unwrap();
    let (first, second) = (db.snapshot().unwrap(), db.snapshot().unwrap());
    for snapshot in [&first, &second] {
        assert_eq!(snapshot.keyspaces(), ["rows"]);
        assert_eq!(rows_at(&snapshot.at(&rows).unwrap(), &keys), expected);
    }
    drop(first);
    assert_eq!(rows_at(&second.at(&rows).unwrap(), &keys), expected);
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let tx = db.begin(isolation).unwrap();
        assert_eq!(tx.count(&rows, ..).unwrap(), 161);
        assert_eq!(tx.get(&rows, &keys[60]).unwrap().unwrap(), b"in the log");
        tx.commit(Durability::Sync).unwrap();
        let mut runs = 0;
        let refused = db.transaction(isolation, |tx| {
            runs += 1;
            tx.remove(&rows, &keys[60])
        });
        assert!(matches!(refused, Err(Error::ReadOnly)) && runs == 1);
    }
    assert_eq!(present(&rows), expected);
    db.close().unwrap();
    assert!(matches!(second.check(), Err(Error::Closed)));
    assert!(matches!(db.begin(Isolation::Snapshot), Err(Error::Closed)));
}

fn a_full_disk_changes_nothing_that_a_snapshot_sees(index: IndexKind) {
    let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let builder = || builder(index, Arc::new(vfs.clone())).log_ahead_bytes(0);
    let db = builder().log_reserve_bytes(64 << 10).open(DIR).unwrap();
    let (rows, keys) = (db.keyspace("rows").unwrap(), keys(index));
    let before = fill_all(&rows, &keys);
    let sync = WriteOptions::from(Durability::Sync);
    let snapshot = db.snapshot().unwrap();
    let begin = || db.begin(Isolation::Serializable).unwrap();
    let (mut putting, mut removing, mut waiting) = (begin(), begin(), begin());
    putting.put(&rows, &key(index, 300), b"refused").unwrap();
    assert!(removing.remove(&rows, &keys[199]).unwrap());
    waiting.put(&rows, &key(index, 301), b"later").unwrap();
    vfs.set_space(Some(0));
    let mut written = 0;
    while rows
        .put_with(&keys[written % 100], &[9; 1_000], &sync)
        .is_ok()
    {
        written += 1;
        assert!(written < 10_000, "the disk takes everything");
    }
    assert_eq!(db.health(), Health::DiskFull);
    let refused = putting.commit(Durability::Sync).unwrap_err();
    assert!(matches!(refused, Error::DiskFull), "{refused}");
    assert!(!rows.contains(&key(index, 300)).unwrap());
    // What only removes is accepted, as of all other kinds of writes.
    removing.commit(Durability::Sync).unwrap();
    assert!(!rows.contains(&keys[199]).unwrap());
    let removed = rows.delete_range_with(keys[100].clone()..keys[180].clone(), &sync);
    assert_eq!(removed.unwrap().0, 80);
    // It fits, or it does not: what was removed gave no space back yet.
    let taken = db.checkpoint();
    assert!(matches!(taken, Ok(_) | Err(Error::DiskFull)), "{taken:?}");
    assert_eq!(rows_at(&snapshot.at(&rows).unwrap(), &keys), before);
    let full = db.snapshot().unwrap();
    let at_full = present(&rows);
    assert_eq!(rows_at(&full.at(&rows).unwrap(), &keys), at_full);
    vfs.set_space(None);
    while db.health() != Health::Healthy {
        std::thread::yield_now();
    }
    // It was open all the time.
    waiting.commit(Durability::Sync).unwrap();
    for key in &keys[150..] {
        rows.put_with(key, b"after", &sync).unwrap();
    }
    db.checkpoint().unwrap();
    assert_eq!(rows_at(&snapshot.at(&rows).unwrap(), &keys), before);
    assert_eq!(rows_at(&full.at(&rows).unwrap(), &keys), at_full);
    let expected = present(&rows);
    db.close().unwrap();
    drop(db);
    let db = builder().open(DIR).unwrap();
    assert_eq!(present(&db.keyspace("rows").unwrap()), expected);
}

fn a_checkpoint_that_fails_changes_nothing_that_a_snapshot_sees(index: IndexKind) {
    let faults = [CallKind::Write, CallKind::Sync, CallKind::Rename];
    let faults = faults
        .into_iter()
        .flat_map(|kind| [(kind, 0), (kind, 1), (kind, 3)]);
    let mut failed = 0;
    for (kind, after) in faults {
        for fault in [ErrorKind::StorageFull, ErrorKind::Other].map(Fault::Error) {
            let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
            let builder = || builder(index, Arc::new(vfs.clone()));
            let db = builder().open(DIR).unwrap();
            let (rows, keys) = (db.keyspace("rows").unwrap(), keys(index));
            let before = fill_all(&rows, &keys);
            let snapshot = db.snapshot().unwrap();
            rows.delete_range(..keys[70].clone()).unwrap();
            rows.put(&keys[80], b"after").unwrap();
            db.sync().unwrap();
            let expected = present(&rows);
            vfs.fail_once(kind, after, fault);
            failed += u32::from(db.checkpoint().is_err());
            vfs.heal();
            let at = || rows_at(&snapshot.at(&rows).unwrap(), &keys);
            assert_eq!(at(), before, "{kind:?} {after} {fault:?}");
            // Another one goes to its end, unless the log stopped for good.
            if !matches!(db.health(), Health::Poisoned(_)) {
                while rows.put(&keys[0], b"again").is_err() {
                    std::thread::yield_now();
                }
                assert!(rows.remove(&keys[0]).unwrap());
                db.checkpoint().unwrap();
            }
            assert_eq!(at(), before, "{kind:?} {after} {fault:?}");
            assert_eq!(present(&rows), expected);
            drop(db);
            let db = builder().open(DIR).unwrap();
            assert_eq!(present(&db.keyspace("rows").unwrap()), expected);
        }
    }
    assert!(failed >= 6, "only {failed} checkpoints failed");
}

fn a_keyspace_that_only_a_snapshot_sees_is_in_no_checkpoint(index: IndexKind) {
    let (disk, keys) = (MemoryVfs::new(), keys(index));
    let open = || builder(index, Arc::new(disk.clone())).open(DIR).unwrap();
    let db = open();
    let names = ["cleared", "dropped", "kept"];
    let spaces = names.map(|name| db.keyspace(name).unwrap());
    let before = spaces.each_ref().map(|rows| fill_all(rows, &keys))[0].clone();
    let (snapshot, other) = (db.snapshot().unwrap(), db.snapshot().unwrap());
    db.clear_keyspace("cleared").unwrap();
    db.drop_keyspace("dropped").unwrap();
    spaces[0].put(&keys[0], b"anew").unwrap();
    let check = || {
        for name in names {
            let at = snapshot.keyspace(name).unwrap();
            assert_eq!(rows_at(&at, &keys), before, "{name}");
        }
    };
    assert_eq!(db.checkpoint().unwrap().records, 201);
    check();
    // Another one of the same name, and another snapshot that closes.
    let again = db.create_keyspace("dropped").unwrap();
    drop(other);
    again.put(&keys[1], b"another").unwrap();
    assert_eq!(db.checkpoint().unwrap().records, 202);
    check();
    db.close().unwrap();
    drop(db);
    let db = open();
    assert!(matches!(snapshot.check(), Err(Error::Closed)));
    drop((snapshot, spaces, again));
    assert_eq!(db.keyspaces(), names);
    let counts = names.map(|name| db.keyspace(name).unwrap().len());
    assert_eq!(counts, [1, 1, 200]);
    assert_eq!(db.verify().unwrap(), 202);
    assert_eq!(db.checkpoint().unwrap().records, 202);
}

fn a_backup_is_of_the_present_beside_snapshots_and_transactions(index: IndexKind) {
    let (disk, keys) = (MemoryVfs::new(), keys(index));
    let open = |dir: &str| builder(index, Arc::new(disk.clone())).open(dir).unwrap();
    let db = open(DIR);
    let names = ["cleared", "dropped", "kept"];
    let spaces = names.map(|name| db.keyspace(name).unwrap());
    let before = spaces.each_ref().map(|rows| fill_all(rows, &keys))[0].clone();
    let snapshot = db.snapshot().unwrap();
    let mut tx = db.begin(Isolation::Serializable).unwrap();
    tx.put(&spaces[2], &keys[0], b"not committed").unwrap();
    db.clear_keyspace("cleared").unwrap();
    db.drop_keyspace("dropped").unwrap();
    spaces[0].put(&keys[0], b"anew").unwrap();
    spaces[2].remove(&keys[1]).unwrap();
    db.backup("/copy").unwrap();
    for name in names {
        let at = snapshot.keyspace(name).unwrap();
        assert_eq!(rows_at(&at, &keys), before, "{name}");
    }
    assert_eq!(
        tx.get(&spaces[2], &keys[1]).unwrap().as_ref(),
        before.get(&keys[1])
    );
    drop((tx, snapshot));
    // It has what the database has, and nothing that only a snapshot saw.
    let copy = open("/copy");
    assert_eq!(copy.keyspaces(), ["cleared", "kept"]);
    let counts = ["cleared", "kept"].map(|name| copy.keyspace(name).unwrap().len());
    assert_eq!(counts, [1, 199]);
    let unchanged = copy.keyspace("kept").unwrap().get(&keys[0]).unwrap();
    assert_eq!(unchanged.as_ref(), before.get(&keys[0]));
    assert_eq!(copy.verify().unwrap(), 200);
}

fn a_snapshot_closes_within_any_closure(index: IndexKind) {
    let db = builder(index, Arc::new(MemoryVfs::new()))
        .open(DIR)
        .unwrap();
    let (rows, keys) = (db.keyspace("rows").unwrap(), keys(index));
    rows.put(&keys[0], b"value").unwrap();
    let held = || {
        let seen = db.keyspace("seen").unwrap();
        fill_all(&seen, &keys);
        let held = (
            db.snapshot().unwrap(),
            db.begin(Isolation::Snapshot).unwrap(),
        );
        db.drop_keyspace("seen").unwrap();
        held
    };
    let options = WriteOptions::default();
    let closed = held();
    let update = rows.update(&keys[0], &options, |_, _| {
        drop(closed);
        Action::Keep(())
    });
    update.unwrap();
    let closed = held();
    db.transact(Locks::All, &options, |_| {
        drop(closed);
        Ok(())
    })
    .unwrap();
    let mut closed = Some(held());
    rows.get_many(&[&keys[0]], |_, _| drop(closed.take()))
        .unwrap();
    let mut closed = Some(held());
    let visit = |_: &[u8], _: hedgerow::Row<'_>| {
        closed = None;
        ControlFlow::Break(())
    };
    rows.scan(.., Direction::Forward, visit).unwrap();
    db.checkpoint().unwrap();
    let counted = ["snapshots", "open_transactions", "versions"];
    assert_eq!(counted.map(|name| statistic(&db, name)), [0; 3]);
    assert_eq!(db.verify().unwrap(), 1);
}

#[test]
fn pages_of_a_keyspace_that_only_a_snapshot_sees_are_given_back_after_it() {
    for is_dropped in [false, true] {
        for is_known in [false, true] {
            for ending in ["last user", "close", "drop", "kill"] {
                let name = format!("dropped: {is_dropped}, known: {is_known}, {ending}");
                pages_after(is_dropped, is_known, ending, &name);
            }
        }
    }
}

/// `is_known`: whether a checkpoint has some of the keyspace's rows before it is cleared.
fn pages_after(is_dropped: bool, is_known: bool, ending: &str, name: &str) {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let open = |vfs: &Arc<dyn Vfs>| {
        let builder = page_file::builder(vfs).version_memory(Some(64 << 20));
        builder.open(page_file::DIR).unwrap()
    };
    let db = open(&vfs);
    let kept = db.keyspace("kept").unwrap();
    fill(&kept, 0..10);
    let without = live_pages(&db);
    let seen = db.keyspace("seen").unwrap();
    fill(&seen, 0..1_000);
    if is_known {
        db.checkpoint().unwrap();
    }
    fill(&seen, 1_000..3_000);
    let snapshot = db.snapshot().unwrap();
    drop(seen);
    match is_dropped {
        false => db.clear_keyspace("seen").unwrap(),
        true => db.drop_keyspace("seen").unwrap(),
    }
    // One that was cleared has an empty root.
    let expected = without + u64::from(!is_dropped);
    for _ in 0..2 {
        fill(&kept, 0..10);
        assert!(live_pages(&db) > expected + 100, "{name}: they are gone");
        let at = snapshot.keyspace("seen").unwrap();
        assert_eq!(at.len().unwrap(), 3_000, "{name}");
        for n in (0..3_000).step_by(91) {
            assert_eq!(
                at.get(&page_file::key(n)).unwrap(),
                Some(value(n)),
                "{name}"
            );
        }
    }
    let db = match ending {
        "last user" => {
            drop(snapshot);
            db
        }
        "close" => {
            db.close().unwrap();
            let again = open(&vfs);
            drop(snapshot);
            again
        }
        "drop" => {
            drop((kept, db));
            open(&vfs)
        }
        _ => open(&(Arc::new(memory.deep_clone()) as Arc<dyn Vfs>)),
    };
    assert_eq!(live_pages(&db), expected, "{name}");
    page_file::check(&db.keyspace("kept").unwrap(), 0..10);
    assert_eq!(db.verify().unwrap(), 10, "{name}");
}

/// All rows of a snapshot, by a scan.
fn scanned(at: &hedgerow::KeyspaceSnapshot, direction: Direction) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    let visit = |key: &[u8], row: hedgerow::Row<'_>| {
        rows.insert(key.to_vec(), row.value().unwrap().to_vec());
        ControlFlow::Continue(())
    };
    at.scan(.., direction, visit).unwrap();
    rows
}

#[test]
fn a_snapshot_of_more_rows_than_memory_stays_as_it_is() {
    const ROWS: u32 = 10_000;
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let builder = page_file::builder(&vfs).version_memory(Some(64 << 20));
    let db: Db = builder.open(page_file::DIR).unwrap();
    let rows = db.keyspace("rows").unwrap();
    fill(&rows, 0..ROWS);
    let snapshot = db.snapshot().unwrap();
    // Of another moment: what is kept for it goes to the snapshot in the end.
    rows.put(b"between", b"both").unwrap();
    let mut tx = db.begin(Isolation::Snapshot).unwrap();
    tx.put(&rows, b"own", b"own").unwrap();
    let before = number(&db, "pages_evicted_total");
    for n in (0..ROWS).filter(|n| n % 3 != 0) {
        match n % 3 {
            1 => drop(rows.put(&page_file::key(n), b"short now").unwrap()),
            _ => assert!(rows.remove(&page_file::key(n)).unwrap()),
        }
        if n == ROWS / 2 {
            db.checkpoint().unwrap();
        }
    }
    fill(&rows, ROWS..2 * ROWS);
    let evicted = number(&db, "pages_evicted_total") - before;
    assert!(evicted > 200, "only {evicted} pages were evicted");
    let at = snapshot.at(&rows).unwrap();
    let expected = (0..ROWS).map(|n| (page_file::key(n), value(n)));
    let expected: BTreeMap<_, _> = expected.collect();
    for direction in [Direction::Forward, Direction::Reverse] {
        assert!(scanned(&at, direction) == expected, "{direction:?}");
    }
    for n in (0..2 * ROWS).step_by(37) {
        let found = at.get(&page_file::key(n)).unwrap();
        assert_eq!(found, (n < ROWS).then(|| value(n)), "row {n}");
    }
    assert_eq!(tx.count(&rows, ..).unwrap(), u64::from(ROWS) + 2);
    tx.commit(Durability::Periodic).unwrap();
    assert_eq!(number(&db, "versions"), u64::from(2 * ROWS / 3));
    drop((snapshot, at));
    assert_eq!(number(&db, "versions"), 0);
    assert_eq!(db.verify().unwrap(), rows.len());
}

/// Opens a database that is several times as large as its memory.
fn larger_than_memory(vfs: &FaultyVfs) -> (Db, Keyspace) {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let db = page_file::builder(&vfs)
        .version_memory(Some(64 << 20))
        .open(DIR)
        .unwrap();
    let rows = db.keyspace("rows").unwrap();
    (db, rows)
}

#[test]
fn a_removal_that_fails_halfway_says_what_went() {
    let memory = MemoryVfs::new();
    let vfs = FaultyVfs::new(Arc::new(memory.clone()));
    let (db, rows) = larger_than_memory(&vfs);
    // With pages of their own, which a scan reads and a removal frees.
    for n in 0..4_000 {
        rows.put(&page_file::key(n), &[7; 3_000]).unwrap();
    }
    db.checkpoint().unwrap();
    let (broken, mut failed) = (Fault::Error(ErrorKind::Other), 0);
    for round in 0..15_u32 {
        let snapshot = db.snapshot().unwrap();
        let from = format!("{round:x}0").into_bytes();
        let to = format!("{round:x}f").into_bytes();
        let before = snapshot.at(&rows).unwrap().len().unwrap();
        vfs.fail_from(CallKind::Read, (round * 30) as usize, broken);
        let removed = rows.delete_range(from..to);
        vfs.heal();
        failed += u32::from(removed.is_err());
        assert_eq!(rows.len(), rows.count(..).unwrap(), "round {round}");
        if let Ok(removed) = removed {
            assert_eq!(rows.len(), before - removed);
        }
        assert_eq!(snapshot.at(&rows).unwrap().len().unwrap(), before);
        if round % 5 == 4 {
            db.sync().unwrap();
            let killed: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
            let again = page_file::open(&killed);
            let again = again.keyspace("rows").unwrap();
            assert_eq!(present(&again), present(&rows), "round {round}");
        }
    }
    assert!(failed > 8, "only {failed} failed");
}

#[test]
fn what_a_scan_showed_before_it_failed_was_read() {
    let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let (db, rows) = larger_than_memory(&vfs);
    fill(&rows, 0..20_000);
    db.checkpoint().unwrap();
    let (broken, mut failed) = (Fault::Error(ErrorKind::Other), 0);
    for round in 0..24_u32 {
        for n in 0..300 {
            let other = page_file::key((round * 31 + n * 47) % 20_000);
            rows.contains(&other).unwrap();
        }
        let mut tx = db.begin(Isolation::Serializable).unwrap();
        let mut shown = Vec::new();
        vfs.fail_from(CallKind::Read, (round % 12) as usize, broken);
        let direction = [Direction::Forward, Direction::Reverse][round as usize % 2];
        let scanned = tx.scan(&rows, .., direction, |key, _| {
            shown.push(key.to_vec());
            ControlFlow::Continue(())
        });
        vfs.heal();
        assert!(scanned.is_err(), "round {round}: all was in memory");
        let Some(last) = shown.last() else { continue };
        failed += 1;
        rows.put(last, b"changed since").unwrap();
        tx.put(&rows, b"sum", b"of what was shown").unwrap();
        let refused = tx.commit(Durability::Periodic).unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
    }
    assert!(
        failed > 8,
        "only {failed} failed after they showed something"
    );
}
