//! Snapshots see the database as it was, whatever happens to it meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::{
    Db, Direction, Durability, Error, IndexKind, Isolation, Keyspace, KeyspaceSnapshot, Locks,
    Snapshot, WriteOptions,
};
use hedgerow_testkit::databases::{builder_of, key_of};
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

over_each_index! {
    snapshots_show_what_was_there_whatever_happens_later,
    a_snapshot_sees_all_of_what_returned_before_and_none_of_what_came_later,
    long_rows_are_seen_as_they_were,
    the_oldest_snapshot_ends_when_versions_take_too_much,
    an_ended_snapshot_leaves_no_versions_behind,
    a_keyspace_that_was_cleared_or_dropped_is_still_there,
    rows_expire_by_the_time_of_the_snapshot,
    a_removal_of_many_rows_leaves_them_to_snapshots,
    a_row_that_a_transaction_wrote_and_removed_counts_as_written,
}

pub(crate) fn open(index: IndexKind) -> Db {
    let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
    builder
        .workers(2)
        .version_memory(Some(64 << 20))
        .open("/db")
        .unwrap()
}

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn key(index: IndexKind, number: u64) -> Vec<u8> {
    key_of(Some(index), format!("k{number:04}"))
}

pub(crate) fn statistic(db: &Db, name: &str) -> u64 {
    db.statistics().get(name).unwrap() as u64
}

/// All rows of a keyspace as a snapshot sees it, by a range, by scans both ways, by single reads
/// and by one batch of reads, which must agree.
pub(crate) fn rows_at(at: &KeyspaceSnapshot, keys: &[Vec<u8>]) -> Rows {
    let entries = at.range(..).unwrap();
    let rows: Rows = entries.map(|entry| entry.unwrap().to_pair()).collect();
    let reversed = at.range(..).unwrap().rev();
    let reversed: Rows = reversed.map(|entry| entry.unwrap().to_pair()).collect();
    assert_eq!(rows, reversed);
    assert_eq!(at.len().unwrap(), rows.len() as u64);
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut few = Vec::new();
        let scanned = at.scan_up_to(.., direction, 3, |key, _| {
            few.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        });
        scanned.unwrap();
        let expected: Vec<_> = match direction {
            Direction::Forward => rows.keys().take(3).cloned().collect(),
            Direction::Reverse => rows.keys().rev().take(3).cloned().collect(),
        };
        assert_eq!(few, expected);
    }
    let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = vec![None; keys.len()];
    let read = at.get_many(&wanted, |i, row| {
        found[i] = row.map(|row| row.value().unwrap().to_vec());
    });
    read.unwrap();
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found.as_ref(), rows.get(key), "{}", key.escape_ascii());
        assert_eq!(at.get(key).unwrap().as_ref(), rows.get(key));
    }
    rows
}

fn snapshots_show_what_was_there_whatever_happens_later(index: IndexKind) {
    let db = open(index);
    let keyspace = db.keyspace("rows").unwrap();
    let keys: Vec<Vec<u8>> = (0..300).map(|number| key(index, number)).collect();
    let mut rng = StdRng::seed_from_u64(19);
    let mut model = Rows::new();
    let mut snapshots: Vec<(Snapshot, Rows)> = Vec::new();
    for step in 0..4_000_u64 {
        change(&db, &keyspace, &keys, &mut model, step, &mut rng);
        match rng.random_range(0..100) {
            0..4 if snapshots.len() < 6 => snapshots.push((db.snapshot().unwrap(), model.clone())),
            4..6 if !snapshots.is_empty() => {
                let at = rng.random_range(0..snapshots.len());
                drop(snapshots.swap_remove(at));
            }
            6..9 if !snapshots.is_empty() => {
                let (snapshot, expected) = &snapshots[rng.random_range(0..snapshots.len())];
                let at = snapshot.at(&keyspace).unwrap();
                assert_eq!(
                    &rows_at(&at, &keys),
                    expected,
                    "{snapshot:?} at step {step}"
                );
            }
            _ => {}
        }
    }
    for (snapshot, expected) in &snapshots {
        let at = snapshot.keyspace("rows").unwrap();
        assert_eq!(&rows_at(&at, &keys), expected);
    }
    assert_eq!(statistic(&db, "snapshots"), snapshots.len() as u64);
    // In another order than they were opened.
    while !snapshots.is_empty() {
        let at = rng.random_range(0..snapshots.len());
        drop(snapshots.swap_remove(at));
        for (snapshot, expected) in &snapshots {
            let at = snapshot.keyspace("rows").unwrap();
            assert_eq!(&rows_at(&at, &keys), expected);
        }
    }
    let left = ["snapshots", "versions", "version_bytes"].map(|name| statistic(&db, name));
    assert_eq!(left, [0, 0, 0]);
    let present = keyspace.range(..).unwrap();
    let present: Rows = present.map(|entry| entry.unwrap().to_pair()).collect();
    assert_eq!(present, model);
}

/// One change, of one of all the kinds that there are, to database and model.
fn change(
    db: &Db,
    keyspace: &Keyspace,
    keys: &[Vec<u8>],
    model: &mut Rows,
    step: u64,
    rng: &mut StdRng,
) {
    let key = &keys[rng.random_range(0..keys.len())];
    let other = &keys[rng.random_range(0..keys.len())];
    let value = step.to_le_bytes();
    match rng.random_range(0..20) {
        0..8 => {
            keyspace.put(key, &value).unwrap();
            model.insert(key.clone(), value.to_vec());
        }
        8..12 => {
            let removed = keyspace.remove(key).unwrap();
            assert_eq!(removed, model.remove(key).is_some());
        }
        12..14 => {
            let long = vec![step as u8; 3_000];
            let mut batch = db.batch();
            batch.put(keyspace, key, &long);
            if other != key {
                batch.remove(keyspace, other);
                model.remove(other);
            }
            batch.commit(Durability::Periodic).unwrap();
            model.insert(key.clone(), long);
        }
        14..16 => {
            let locks = Locks::Keys(&[(keyspace, key.as_slice())]);
            let options = WriteOptions::default();
            let moved = db.transact(locks, &options, |tx| tx.put(keyspace, key, &value));
            moved.unwrap();
            model.insert(key.clone(), value.to_vec());
        }
        16..19 => {
            let swapped = db.transaction(Isolation::Serializable, |tx| {
                let present = tx.get(keyspace, key)?;
                assert_eq!(present.as_ref(), model.get(key));
                tx.remove(keyspace, key)?;
                tx.put(keyspace, other, &value)
            });
            swapped.unwrap();
            model.remove(key);
            model.insert(other.clone(), value.to_vec());
        }
        _ => {
            let (from, to) = (key.min(other), key.max(other));
            let removed = keyspace.delete_range(from.clone()..to.clone()).unwrap();
            let kept: Rows = model
                .iter()
                .filter(|(key, _)| *key < from || *key >= to)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(removed as usize, model.len() - kept.len());
            *model = kept;
        }
    }
}

fn a_snapshot_sees_all_of_what_returned_before_and_none_of_what_came_later(index: IndexKind) {
    let db = &open(index);
    let keyspace = &db.keyspace("rows").unwrap();
    let other = &db.keyspace("other").unwrap();
    let (done, acknowledged) = (&AtomicBool::new(false), &[const { AtomicU64::new(0) }; 2]);
    let number = |value: Option<Vec<u8>>| {
        value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
    };
    thread::scope(|scope| {
        for writer in 0..2_u64 {
            scope.spawn(move || {
                let (first, second) = (key(index, writer), key(index, 100 + writer));
                for count in 1.. {
                    // Both rows or none, in two keyspaces; then one row alone.
                    let mut batch = db.batch();
                    let value = u64::to_le_bytes(count);
                    batch.put(keyspace, &first, &value);
                    batch.put(other, &second, &value);
                    batch.commit(Durability::Periodic).unwrap();
                    let third = key(index, 200 + writer);
                    keyspace.put(&third, &value).unwrap();
                    acknowledged[writer as usize].store(count, Ordering::SeqCst);
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        for _ in 0..300 {
            let before = [0, 1].map(|writer| acknowledged[writer].load(Ordering::SeqCst));
            let snapshot = db.snapshot().unwrap();
            let (rows, others) = (snapshot.at(keyspace).unwrap(), snapshot.at(other).unwrap());
            let see = || {
                [0, 1].map(|writer: u64| {
                    let first = number(rows.get(&key(index, writer)).unwrap());
                    let second = number(others.get(&key(index, 100 + writer)).unwrap());
                    let third = number(rows.get(&key(index, 200 + writer)).unwrap());
                    assert_eq!(first, second, "half of a batch");
                    assert!(
                        third == first || third + 1 == first,
                        "{third} beside {first}"
                    );
                    third
                })
            };
            let seen = see();
            for writer in 0..2 {
                assert!(
                    seen[writer] >= before[writer],
                    "an acknowledged write is missing"
                );
            }
            for _ in 0..3 {
                thread::yield_now();
                assert_eq!(see(), seen, "a snapshot moved");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(statistic(db, "versions"), 0);
}

fn long_rows_are_seen_as_they_were(index: IndexKind) {
    const VALUE_BYTES: [usize; 4] = [10, 4_000, 5_000, 200_000];
    let db = open(index);
    let rows = db.keyspace("rows").unwrap();
    let keys: Vec<_> = (0..4).map(|number| key(index, number)).collect();
    let mut snapshots = Vec::new();
    for round in 0..6u8 {
        let mut expected = Rows::new();
        for (key, bytes) in keys.iter().zip(VALUE_BYTES) {
            let value = vec![round; bytes];
            rows.put(key, &value).unwrap();
            expected.insert(key.clone(), value);
        }
        snapshots.push((db.snapshot().unwrap(), expected));
    }
    // In the middle, and the oldest.
    snapshots.remove(3);
    snapshots.remove(0);
    for (snapshot, expected) in &snapshots {
        let seen = rows_at(&snapshot.keyspace("rows").unwrap(), &keys);
        assert_eq!(seen, *expected);
    }
    drop(snapshots);
    assert_eq!(statistic(&db, "versions"), 0);
}

fn the_oldest_snapshot_ends_when_versions_take_too_much(index: IndexKind) {
    let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
    let db = builder.version_memory(Some(96 << 10)).open("/db").unwrap();
    let keyspace = db.keyspace("rows").unwrap();
    let write = |from: u64| {
        for number in from..from + 100 {
            keyspace.put(&key(index, number), &[7; 500]).unwrap();
        }
    };
    write(0);
    let old = db.snapshot_named("report").unwrap();
    write(0);
    old.check().unwrap();
    let young = db.snapshot().unwrap();
    let then = young.at(&keyspace).unwrap();
    let held = old.at(&keyspace).unwrap();
    for round in 0.. {
        assert!(round < 50, "nothing was ended");
        write(100 * (round % 2));
        if old.check().is_err() {
            break;
        }
        assert_eq!(held.len().unwrap(), 100);
    }
    let error = held.get(&key(index, 0)).unwrap_err();
    assert!(matches!(&error, Error::SnapshotEnded { name, .. } if name == "report"));
    let words = error.to_string();
    for part in [
        "\"report\"",
        "98304 bytes",
        "--version-memory",
        "version_memory",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert!(held.range(..).is_err() && held.len().is_err());
    // The younger one is unharmed for now, and so are writers.
    assert_eq!(then.len().unwrap(), 100);
    for _ in 0..30 {
        write(0);
        assert!(statistic(&db, "version_bytes") < 2 * (96 << 10));
    }
    assert!(statistic(&db, "snapshots_ended_total") >= 1);
    drop((young, then, old, held));
    write(0);
    write(0);
    assert_eq!(statistic(&db, "snapshots"), 0);
    assert_eq!(
        db.snapshot().unwrap().at(&keyspace).unwrap().len().unwrap(),
        keyspace.len()
    );
}

/// Also while nobody writes any more, and the snapshot is still held.
fn an_ended_snapshot_leaves_no_versions_behind(index: IndexKind) {
    let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
    let db = builder.version_memory(Some(96 << 10)).open("/db").unwrap();
    let keyspace = db.keyspace("rows").unwrap();
    let write = || {
        for number in 0..400 {
            keyspace.put(&key(index, number), &[7; 500]).unwrap();
        }
    };
    write();
    let snapshot = db.snapshot().unwrap();
    write();
    assert!(snapshot.check().is_err());
    let deadline = Instant::now() + Duration::from_secs(120);
    while statistic(&db, "version_bytes") > 0 {
        assert!(Instant::now() < deadline, "they stay");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(statistic(&db, "versions"), 0);
}

fn a_keyspace_that_was_cleared_or_dropped_is_still_there(index: IndexKind) {
    let db = open(index);
    let cleared = db.keyspace("cleared").unwrap();
    let dropped = db.keyspace("dropped").unwrap();
    for number in 0..500 {
        cleared.put(&key(index, number), b"was there").unwrap();
        dropped.put(&key(index, number), b"too").unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    db.clear_keyspace("cleared").unwrap();
    db.drop_keyspace("dropped").unwrap();
    let made = db.create_keyspace("made").unwrap();
    made.put(&key(index, 1), b"later").unwrap();
    cleared.put(&key(index, 7), b"anew").unwrap();
    db.checkpoint().unwrap();
    db.sweep_expired().unwrap();
    assert_eq!(snapshot.keyspaces(), ["cleared", "dropped"]);
    let missing = snapshot.keyspace("made").unwrap_err();
    assert!(matches!(missing, Error::KeyspaceMissing(name) if name == "made"));
    for (name, value) in [("cleared", "was there"), ("dropped", "too")] {
        let at = snapshot.keyspace(name).unwrap();
        assert_eq!(at.len().unwrap(), 500);
        let found = at.get(&key(index, 7)).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_bytes()));
    }
    assert_eq!(cleared.len(), 1);
    drop(snapshot);
    db.close().unwrap();
}

fn rows_expire_by_the_time_of_the_snapshot(index: IndexKind) {
    let clock = Arc::new(AtomicU64::new(1_000));
    let now = Arc::clone(&clock);
    let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
    let builder = builder.now(Box::new(move || now.load(Ordering::SeqCst)));
    let db = builder.sweep_interval(None).open("/db").unwrap();
    let keyspace = db.keyspace("rows").unwrap();
    let expires = WriteOptions::default().expiry_ms(2_000);
    for number in 0..50 {
        let key = key(index, number);
        keyspace.put_with(&key, b"value", &expires).unwrap();
    }
    let before = db.snapshot().unwrap();
    clock.store(2_000, Ordering::SeqCst);
    let after = db.snapshot().unwrap();
    let counts = || {
        let of = |snapshot: &Snapshot| snapshot.at(&keyspace).unwrap().len().unwrap();
        (of(&before), of(&after))
    };
    assert_eq!(counts(), (50, 0));
    assert_eq!(db.sweep_expired().unwrap(), 50);
    assert_eq!((counts(), keyspace.len()), ((50, 0), 0));
}

fn a_row_that_a_transaction_wrote_and_removed_counts_as_written(index: IndexKind) {
    let db = open(index);
    let keyspace = db.keyspace("rows").unwrap();
    let (key, other) = (key(index, 1), key(index, 2));
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let mut first = db.begin(isolation).unwrap();
        let mut second = db.begin(isolation).unwrap();
        first.put(&keyspace, &key, b"comes").unwrap();
        assert!(first.remove(&keyspace, &key).unwrap());
        first.put(&keyspace, &other, b"stays").unwrap();
        second.put(&keyspace, &key, b"too late").unwrap();
        first.commit(Durability::Periodic).unwrap();
        let refused = second.commit(Durability::Periodic).unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
        assert!(!keyspace.contains(&key).unwrap());
    }
}

fn a_removal_of_many_rows_leaves_them_to_snapshots(index: IndexKind) {
    let db = open(index);
    let keyspace = db.keyspace("rows").unwrap();
    for number in 0..3_000 {
        keyspace.put(&key(index, number), &[3; 100]).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let range = key(index, 100)..key(index, 2_900);
    assert_eq!(keyspace.delete_range(range).unwrap(), 2_800);
    keyspace.put(&key(index, 500), b"anew").unwrap();
    let later = db.snapshot().unwrap();
    let at = snapshot.at(&keyspace).unwrap();
    assert_eq!(at.len().unwrap(), 3_000);
    assert_eq!(at.get(&key(index, 500)).unwrap().unwrap(), [3; 100]);
    assert_eq!(later.at(&keyspace).unwrap().len().unwrap(), 201);
    assert_eq!(statistic(&db, "versions"), 2_800);
    // A keyspace of it keeps a snapshot open.
    drop(snapshot);
    assert_eq!(statistic(&db, "versions"), 2_800);
    drop(at);
    assert_eq!(statistic(&db, "versions"), 0);
    assert_eq!(later.at(&keyspace).unwrap().len().unwrap(), 201);
}

/// Two hundred thousand columns, of which each call names all: one walk over the row for each call,
/// where one for each name would take minutes.
#[test]
fn columns_of_a_long_row_are_removed_and_read_together() {
    const COLUMNS: u32 = 200_000;
    let db = Db::builder().open_in_memory().unwrap();
    let rows = db.keyspace("rows").unwrap();
    let names: Vec<_> = (0..COLUMNS).map(u32::to_be_bytes).collect();
    let columns: Vec<(&[u8], &[u8])> = names.iter().map(|name| (&name[..], &name[..])).collect();
    rows.put_columns(b"row", &columns).unwrap();
    let snapshot = db.snapshot().unwrap();
    // In any order, some twice, and some that are not there.
    let removed = names.iter().rev().filter(|name| name[3] % 2 == 0);
    let removed: Vec<&[u8]> = removed
        .map(|name| &name[..])
        .chain([&b""[..], b"x"])
        .collect();
    let twice = [&removed[..], &removed[..]].concat();
    assert_eq!(rows.remove_columns(b"row", &twice).unwrap(), 100_000);
    let asked: Vec<&[u8]> = names.iter().rev().map(|name| &name[..]).collect();
    let then = snapshot.at(&rows).unwrap();
    let values = then.get_columns(b"row", &asked).unwrap().unwrap();
    assert!(
        values
            .iter()
            .map(|value| value.as_deref().unwrap())
            .eq(asked.iter().copied())
    );
    let values = rows.get_columns(b"row", &asked).unwrap().unwrap();
    let left = asked
        .iter()
        .map(|name| Some(*name).filter(|name| name[3] % 2 == 1));
    assert!(values.iter().map(Option::as_deref).eq(left));
}
