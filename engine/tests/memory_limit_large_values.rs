//! Values that are replaced give their memory back, however few and large they are. The memory
//! limit counts the memory of the whole process: so this test has a process of its own.

use hedgerow::{Builder, Db, IndexKind, Keyspace};
use hedgerow_sync::epoch;

const VALUE_BYTES: usize = 4 << 20;
const LARGE: usize = 8 * VALUE_BYTES;
const IN_MEMORY: [IndexKind; 4] = [
    IndexKind::Masstree,
    IndexKind::Matryoshka,
    IndexKind::BwTree,
    IndexKind::Bst,
];

/// Without files, so that all that is in memory is the index's.
fn builder(index: IndexKind, limit_bytes: Option<usize>) -> Builder {
    let builder = Db::builder().index(index).workers(1);
    builder.sweep_interval(None).memory_limit(limit_bytes)
}

fn open(index: IndexKind, limit_bytes: Option<usize>) -> Db {
    builder(index, limit_bytes).open_in_memory().unwrap()
}

fn put(keyspace: &Keyspace, n: u8) {
    keyspace.put(b"the key.", &vec![n; VALUE_BYTES]).unwrap();
}

#[test]
fn large_values_that_are_replaced_take_no_more_memory() {
    for index in IN_MEMORY {
        replaced(index);
        removed(index);
    }
    snapshots_that_need_not_end_do_not();
    a_cleared_keyspace_goes_before_another_snapshot_ends();
    nobody_ends_for_memory_that_a_reader_has_pinned();
}

fn replaced(index: IndexKind) {
    let (before, name) = (hedgerow_memory::live_bytes(), index.name());
    let db = open(index, None);
    let keyspace = db.keyspace("k").unwrap();
    for n in 0..60 {
        put(&keyspace, n);
        let more = hedgerow_memory::live_bytes().saturating_sub(before);
        assert!(more < 8 * VALUE_BYTES, "{name}: {more} bytes after {n}");
    }
    drop((keyspace, db));
    // As much as is used, and a few values more.
    let limit_bytes = hedgerow_memory::reserved_bytes() + 6 * VALUE_BYTES;
    let db = open(index, Some(limit_bytes));
    let keyspace = db.keyspace("k").unwrap();
    (0..100).for_each(|n| put(&keyspace, n));
    assert_eq!(keyspace.get(b"the key.").unwrap().unwrap()[0], 99, "{name}");
}

/// Also by what a value is not replaced with.
fn removed(index: IndexKind) {
    let (before, name) = (hedgerow_memory::live_bytes(), index.name());
    let db = open(index, None);
    let keyspace = db.keyspace("k").unwrap();
    let key = |n: u64| n.to_be_bytes();
    for n in 0..40 {
        keyspace.put(&key(n), &vec![7; VALUE_BYTES]).unwrap();
    }
    for n in 0..40 {
        match n % 2 {
            0 => assert!(keyspace.remove(&key(n)).unwrap()),
            _ => drop(keyspace.put(&key(n), b"short").unwrap()),
        }
    }
    let more = hedgerow_memory::live_bytes().saturating_sub(before);
    assert!(more < 8 * VALUE_BYTES, "{name}: {more} bytes are left");
}

/// The oldest has the version whose memory is needed: no other has to end for it.
fn snapshots_that_need_not_end_do_not() {
    let limit_bytes = hedgerow_memory::reserved_bytes() + 3 * LARGE;
    let builder = builder(IndexKind::Masstree, Some(limit_bytes));
    let builder = builder.version_memory(Some(limit_bytes));
    let db = builder.open_in_memory().unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put(b"large", &vec![1; LARGE]).unwrap();
    let oldest = db.snapshot().unwrap();
    keyspace.put(b"large", &vec![2; LARGE]).unwrap();
    keyspace.put(b"small", b"1").unwrap();
    let second = db.snapshot().unwrap();
    keyspace.put(b"small", b"2").unwrap();
    fill_until_one_ends(&db, &keyspace);
    assert!(oldest.check().is_err() && second.check().is_ok());
    let seen = second.keyspace("k").unwrap().get(b"small").unwrap();
    assert_eq!(seen.as_deref(), Some(&b"1"[..]));
}

/// With memory for two large values and a few rows more.
fn open_for_snapshots() -> Db {
    let limit_bytes = hedgerow_memory::live_bytes() + 3 * LARGE;
    let builder = builder(IndexKind::Masstree, Some(limit_bytes));
    let builder = builder.version_memory(Some(limit_bytes));
    builder.open_in_memory().unwrap()
}

fn ended(db: &Db) -> f64 {
    db.statistics().get("snapshots_ended_total").unwrap()
}

/// Stores rows until a snapshot is ended for their memory.
fn fill_until_one_ends(db: &Db, keyspace: &Keyspace) {
    let mut rows = 0u64;
    while ended(db) == 0.0 {
        let row = vec![3; 1 << 20];
        keyspace.put(&rows.to_be_bytes(), &row).unwrap();
        rows += 1;
        assert!(rows < 1_000, "the limit is never reached");
    }
    assert_eq!(ended(db), 1.0, "the memory of one was enough");
}

/// Of a keyspace that only the oldest sees, which also sees a version that the second needs.
fn a_cleared_keyspace_goes_before_another_snapshot_ends() {
    let db = open_for_snapshots();
    let cleared = db.keyspace("cleared").unwrap();
    cleared.put(b"large", &vec![1; LARGE]).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put(b"small", b"1").unwrap();
    let oldest = db.snapshot().unwrap();
    db.clear_keyspace("cleared").unwrap();
    let second = db.snapshot().unwrap();
    keyspace.put(b"small", b"2").unwrap();
    fill_until_one_ends(&db, &keyspace);
    assert!(oldest.check().is_err() && second.check().is_ok());
    let seen = second.keyspace("k").unwrap().get(b"small").unwrap();
    assert_eq!(seen.as_deref(), Some(&b"1"[..]));
}

fn nobody_ends_for_memory_that_a_reader_has_pinned() {
    let db = open_for_snapshots();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put(b"large", &vec![1; LARGE]).unwrap();
    let oldest = db.snapshot().unwrap();
    keyspace.put(b"large", &vec![2; LARGE]).unwrap();
    keyspace.put(b"small", b"1").unwrap();
    let second = db.snapshot().unwrap();
    keyspace.put(b"small", b"2").unwrap();
    epoch::release_due();
    let pinned = epoch::pin();
    fill_until_one_ends(&db, &keyspace);
    for n in 0..4 {
        keyspace.put(&[n], &vec![4; 1 << 20]).unwrap();
    }
    assert_eq!(ended(&db), 1.0, "what it gave is on its way back");
    assert!(oldest.check().is_err() && second.check().is_ok());
    drop(pinned);
}
