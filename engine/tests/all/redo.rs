//! Redo in the order of keys: what the logs bring back to a page file through a pool far smaller
//! than they are, against what was there before.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use hedgerow::{
    Builder, Db, Direction, IndexKind, Keyspace, RecoveryPhase, RecoveryProgress, Timestamp,
    WriteOptions,
};
use hedgerow_testkit::databases::{LITTLE_MEMORY, builder_of};
use hedgerow_vfs::{MemoryVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const DIR: &str = "/db";
const KEYS: u32 = 12_000;

fn builder(disk: &MemoryVfs) -> Builder {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    builder_of(Some(IndexKind::BTree))
        .vfs(vfs)
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .now(Box::new(|| 1_000))
}

fn number(db: &Db, name: &str) -> u64 {
    db.statistics().get(name).unwrap() as u64
}

fn key(n: u32) -> Vec<u8> {
    // Some longer than what a leaf keeps of a key.
    let long = if n.is_multiple_of(500) { 1_500 } else { 0 };
    let mut key = format!("{:08x}", n.wrapping_mul(0x9e37_79b9)).into_bytes();
    key.resize(key.len() + long, b'k');
    key
}

/// A row, in whole.
type Seen = (
    Timestamp,
    Option<u64>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Vec<u8>)>,
);

fn rows(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Seen> {
    let mut all = BTreeMap::new();
    let visit = |key: &[u8], row: hedgerow::Row<'_>| {
        let columns = row
            .columns()
            .map(|(name, value)| (name.to_vec(), value.to_vec()));
        let seen = (
            row.timestamp(),
            row.expiry_ms(),
            row.value().map(<[u8]>::to_vec),
            columns.collect(),
        );
        all.insert(key.to_vec(), seen);
        ControlFlow::Continue(())
    };
    keyspace.scan(.., Direction::Forward, visit).unwrap();
    all
}

/// One change, most of them of few keys.
fn change(db: &Db, keyspace: &Keyspace, random: &mut StdRng, number: u32) {
    let hot = random.random_range(0..4) == 0;
    let n = random.random_range(0..if hot { 100 } else { KEYS });
    let key = key(n);
    match random.random_range(0..1_000) {
        0 => {
            let from = random.random_range(0..0xf0_u32) << 24;
            let to = format!("{:08x}", from + 0x0c00_0000);
            keyspace.delete_range(format!("{from:08x}")..to).unwrap();
        }
        1..100 => drop(keyspace.remove(&key).unwrap()),
        100..200 => {
            let value = number.to_le_bytes();
            let name = [b'a' + (number % 5) as u8];
            keyspace.put_columns(&key, &[(&name, &value)]).unwrap();
        }
        200..220 => {
            let until = WriteOptions::default().expiry_ms(2_000 + u64::from(n));
            keyspace.put_with(&key, b"goes", &until).unwrap();
        }
        220..240 => {
            let mut batch = db.batch();
            batch
                .put(keyspace, &key, b"of a batch")
                .remove(keyspace, b"none");
            batch.put(keyspace, &self::key(n / 2), b"too");
            batch.commit(WriteOptions::default()).unwrap();
        }
        _ => {
            let value = number.to_le_bytes().repeat(random.random_range(1..60));
            keyspace.put(&key, &value).unwrap();
        }
    }
}

#[test]
fn a_commit_larger_than_a_batch_is_applied_in_several() {
    let disk = MemoryVfs::new();
    let db = builder(&disk).open(DIR).unwrap();
    let keyspace = db.keyspace("one").unwrap();
    let mut batch = db.batch();
    for n in 0..2_000 {
        batch.put(&keyspace, &key(n), &[n as u8; 2_000]);
    }
    batch.commit(WriteOptions::default()).unwrap();
    db.sync().unwrap();
    let before = rows(&keyspace);
    let crashed = disk.deep_clone();
    drop((keyspace, db));
    let db = builder(&crashed)
        .memory_limit(Some(LITTLE_MEMORY))
        .open(DIR);
    let db = db.unwrap();
    assert!(number(&db, "recovery_batches") > 1);
    assert!(rows(&db.keyspace("one").unwrap()) == before);
}

#[test]
fn what_comes_back_in_batches_is_what_was_there() {
    let disk = MemoryVfs::new();
    let db = builder(&disk).open(DIR).unwrap();
    let (one, other) = (db.keyspace("one").unwrap(), db.keyspace("other").unwrap());
    let gone = db.keyspace("gone").unwrap();
    let mut random = StdRng::seed_from_u64(7);
    for number in 0..60_000 {
        let keyspace = [&one, &one, &one, &other, &gone][number as usize % 5];
        change(&db, keyspace, &mut random, number);
        if number == 10_000 {
            db.checkpoint().unwrap();
        }
        if number % 5_000 == 0 {
            // Else a fast machine has all of it in one block of the log, and no progress to tell.
            db.sync().unwrap();
        }
    }
    db.drop_keyspace("gone").unwrap();
    db.sync().unwrap();
    let before = [rows(&one), rows(&other)];
    let expiring = [one.expiring(), other.expiring()];
    assert!(before[0].len() > 5_000 && expiring[0] > 50);
    let crashed = disk.deep_clone();
    drop((one, other, gone, db));

    for (memory, batches) in [(LITTLE_MEMORY, 8..1_000), (64 << 20, 1..100)] {
        let said: Arc<Mutex<Vec<RecoveryProgress>>> = Arc::default();
        let calls = Arc::clone(&said);
        let db = builder(&crashed.deep_clone())
            .memory_limit(Some(memory))
            .progress(Box::new(move |progress| {
                calls.lock().unwrap().push(progress)
            }))
            .open(DIR)
            .unwrap();
        let names = ["one", "other"];
        let after = names.map(|name| rows(&db.keyspace(name).unwrap()));
        assert!(after == before, "with {memory} bytes");
        for ((name, before), expiring) in names.iter().zip(&before).zip(expiring) {
            let keyspace = db.keyspace(name).unwrap();
            let counts = (keyspace.len(), keyspace.expiring());
            assert_eq!(counts, (before.len() as u64, expiring));
        }
        assert!(number(&db, "recovered_records") > 49_000);
        let found = number(&db, "recovery_batches");
        assert!(batches.contains(&found), "{found} batches");
        assert!(number(&db, "recovery_overwritten_records") > 1_000);
        db.verify().unwrap();
        let said = said.lock().unwrap();
        let last = said.last().unwrap();
        assert_eq!(
            (last.phase, last.done_bytes),
            (RecoveryPhase::Log, last.total_bytes)
        );
        assert!(
            said.len() > 2 && said.iter().all(|p| p.done_bytes <= p.total_bytes),
            "{said:?}"
        );
        // All of it is the pool's again.
        let resident = number(&db, "pages_resident") * 4096;
        assert!(resident <= memory as u64, "{resident}");
    }
}

#[test]
fn a_page_is_written_for_a_batch_and_not_for_a_record() {
    let disk = MemoryVfs::new();
    let open = |disk| builder(disk).memory_limit(Some(4 << 20)).open(DIR).unwrap();
    let db = open(&disk);
    let rows = db.keyspace("rows").unwrap();
    const ROWS: u32 = 60_000;
    for n in 0..ROWS {
        rows.put(&key(n)[..8], &[7; 100]).unwrap();
    }
    db.sync().unwrap();
    let written = number(&db, "pages_written_total");
    assert!(written > u64::from(ROWS) / 2, "most rows met another page");
    let crashed = disk.deep_clone();
    drop((rows, db));
    let db = open(&crashed);
    assert_eq!(db.keyspace("rows").unwrap().len(), u64::from(ROWS));
    let again = number(&db, "pages_written_total");
    assert!(
        again * 3 < written,
        "{again} pages written, and {written} before"
    );
}
