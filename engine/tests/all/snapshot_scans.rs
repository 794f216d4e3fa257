//! Scans at a snapshot see its rows, each once and in order, though rows are removed, replaced and
//! added under the scan's feet: by the scan's own visitor, at known places, and by other threads.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hedgerow::{Direction, Error, IndexKind, Isolation, Keyspace, WriteOptions};
use hedgerow_testkit::over_each_index;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::snapshots::{Rows, key, open};

over_each_index! {
    a_scan_sees_what_its_visitor_changes_ahead_of_it,
    scans_beside_writers_see_the_snapshot,
    a_limit_counts_rows_of_the_snapshot_alone,
    a_scan_whose_snapshot_is_ended_shows_nothing_wrong,
}

const KEYS: u64 = 3_000;

fn fill(rows: &Keyspace, index: IndexKind, step: usize) -> Rows {
    let mut model = Rows::new();
    for number in (0..KEYS).step_by(step) {
        let (key, value) = (key(index, number), number.to_string().into_bytes());
        rows.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    model
}

/// Removes, replaces or adds a row.
fn change(rows: &Keyspace, index: IndexKind, random: &mut StdRng) {
    let key = key(index, random.random_range(0..KEYS));
    match random.random_bool(0.5) {
        true => drop(rows.remove(&key).unwrap()),
        false => drop(rows.put(&key, b"later").unwrap()),
    }
}

fn in_order(model: &Rows, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows: Vec<_> = model.clone().into_iter().collect();
    if direction == Direction::Reverse {
        rows.reverse();
    }
    rows
}

fn a_scan_sees_what_its_visitor_changes_ahead_of_it(index: IndexKind) {
    // A change after so many rows: at once, within a chunk, now and then, hardly ever.
    for (seed, every) in [1, 7, 150, 1_000].into_iter().enumerate() {
        for direction in [Direction::Forward, Direction::Reverse] {
            for changed_before in [0, 300] {
                let db = open(index);
                let rows = db.keyspace("rows").unwrap();
                let model = fill(&rows, index, 2);
                let snapshot = db.snapshot().unwrap();
                let then = snapshot.at(&rows).unwrap();
                let tx = db.begin(Isolation::Serializable).unwrap();
                let mut random = StdRng::seed_from_u64(seed as u64);
                for _ in 0..changed_before {
                    change(&rows, index, &mut random);
                }
                let context = format!("{index:?}, every {every}, {direction:?}, {changed_before}");
                let mut seen = Vec::new();
                let mut visit = |key: &[u8], row: hedgerow::Row<'_>| {
                    seen.push((key.to_vec(), row.value().unwrap().to_vec()));
                    if seen.len() % every == 0 {
                        change(&rows, index, &mut random);
                    }
                    ControlFlow::Continue(())
                };
                then.scan(.., direction, &mut visit).unwrap();
                assert!(seen == in_order(&model, direction), "{context}");
                seen.clear();
                tx.scan(&rows, .., direction, |key, row| {
                    seen.push((key.to_vec(), row.value().unwrap().to_vec()));
                    ControlFlow::Continue(())
                })
                .unwrap();
                assert!(
                    seen == in_order(&model, direction),
                    "{context}, transaction"
                );
                assert_eq!(then.count(..).unwrap(), model.len() as u64);
            }
        }
    }
}

/// Ends the writers, also after a failure.
struct Done<'a>(&'a AtomicBool);
impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn scans_beside_writers_see_the_snapshot(index: IndexKind) {
    let db = open(index);
    let rows = db.keyspace("rows").unwrap();
    fill(&rows, index, 2);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        for seed in 0..2 {
            let (rows, done) = (rows.clone(), &done);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                while !done.load(Ordering::Relaxed) {
                    change(&rows, index, &mut random);
                    if random.random_range(0..64) == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
        for round in 0..8 {
            let snapshot = db.snapshot().unwrap();
            let then = snapshot.at(&rows).unwrap();
            // Single reads, which do not scan, say what the snapshot has.
            let keys = (0..KEYS).map(|number| key(index, number));
            let model = keys.filter_map(|key| Some((key.clone(), then.get(&key).unwrap()?)));
            let model: Rows = model.collect();
            for direction in [Direction::Forward, Direction::Reverse] {
                let mut seen = Vec::new();
                then.scan(.., direction, |key, row| {
                    seen.push((key.to_vec(), row.value().unwrap().to_vec()));
                    ControlFlow::Continue(())
                })
                .unwrap();
                assert!(
                    seen == in_order(&model, direction),
                    "{index:?}, round {round}"
                );
            }
        }
    });
}

fn a_limit_counts_rows_of_the_snapshot_alone(index: IndexKind) {
    let db = open(index);
    let rows = db.keyspace("rows").unwrap();
    // Of a hundred rows one has not expired.
    let expired = WriteOptions {
        expiry_ms: Some(1),
        ..WriteOptions::default()
    };
    for number in 0..KEYS {
        let options = match number % 100 {
            99 => WriteOptions::default(),
            _ => expired,
        };
        rows.put_with(&key(index, number), b"", &options).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let then = snapshot.at(&rows).unwrap();
    // Rows that came later are between those that were there.
    for number in 0..KEYS {
        rows.put(&key_behind(index, number), b"later").unwrap();
    }
    for (direction, limit) in [(Direction::Forward, 7), (Direction::Reverse, 30)] {
        let mut seen = Vec::new();
        then.scan_up_to(.., direction, limit, |key, _| {
            seen.push(key.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        let live = (0..KEYS / 100).map(|hundred| key(index, hundred * 100 + 99));
        let mut live: Vec<_> = live.collect();
        if direction == Direction::Reverse {
            live.reverse();
        }
        live.truncate(limit);
        assert_eq!(seen, live, "{index:?}");
    }
    let from = key(index, 100);
    let range = (Bound::Included(from), Bound::Unbounded);
    assert_eq!(then.count(range).unwrap(), KEYS / 100 - 1);
}

/// A key that no other test row has; where it sorts depends on the index.
fn key_behind(index: IndexKind, number: u64) -> Vec<u8> {
    key(index, KEYS + number)
}

fn a_scan_whose_snapshot_is_ended_shows_nothing_wrong(index: IndexKind) {
    let builder = hedgerow_testkit::databases::builder_of(Some(index));
    let vfs = std::sync::Arc::new(hedgerow_vfs::MemoryVfs::new());
    let db = builder.vfs(vfs).workers(2).version_memory(Some(64 << 10));
    let db = db.open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    let model = fill(&rows, index, 1);
    let others = db.keyspace("others").unwrap();
    fill(&others, index, 1);
    let snapshot = db.snapshot().unwrap();
    let then = snapshot.at(&rows).unwrap();
    let mut seen = Vec::new();
    let scanned = then.scan(.., Direction::Forward, |key, row| {
        seen.push((key.to_vec(), row.value().unwrap().to_vec()));
        if seen.len() == 100 {
            // More than versions may take, elsewhere; then rows ahead go, and nothing keeps them.
            for key in model.keys() {
                others.remove(key).unwrap();
            }
            for key in model.keys().step_by(2) {
                rows.remove(key).unwrap();
            }
        }
        ControlFlow::Continue(())
    });
    let is_ended = matches!(scanned, Err(Error::SnapshotEnded { .. }));
    assert!(is_ended, "{scanned:?}");
    let first = in_order(&model, Direction::Forward);
    assert!(first.starts_with(&seen), "{index:?}: {}", seen.len());
}
