//! Removing a range: one commit, whatever it holds, before and after a crash.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hedgerow::{Db, Durability, IndexKind, Keyspace, Locks, Watch, WriteOptions};
use hedgerow_testkit::databases::{builder_of, key_of};
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

over_each_index! {
    the_record_of_a_removal_does_not_grow_with_its_range,
    recovery_removes_what_was_there_and_keeps_what_came_later,
    readers_of_several_keys_see_a_range_whole_or_gone;
    any width:
    bounds_longer_than_any_key_are_as_good_as_others,
}

fn open(index: IndexKind, vfs: &MemoryVfs, workers: usize) -> Db {
    builder_of(Some(index))
        .vfs(Arc::new(vfs.clone()))
        .workers(workers)
        .open(Path::new("/db"))
        .unwrap()
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:05}").into_bytes()
}

fn keys(keyspace: &Keyspace) -> Vec<Vec<u8>> {
    let rows = keyspace.range(..).unwrap();
    rows.map(|entry| entry.unwrap().into_key()).collect()
}

fn the_record_of_a_removal_does_not_grow_with_its_range(index: IndexKind) {
    let db = open(index, &MemoryVfs::new(), 2);
    let keyspace = db.keyspace("default").unwrap();
    for i in 0..10_000 {
        keyspace.put(&key(i), b"value").unwrap();
    }
    let sync = WriteOptions::default().durability(Durability::Sync);
    keyspace.put_with(b"the last", b"value", &sync).unwrap();
    let logged = || {
        let statistics = db.statistics();
        ["log_records_total", "log_bytes_total"].map(|name| statistics.get(name).unwrap())
    };
    let before = logged();
    let removed = keyspace.delete_range_with(key(10)..key(9_990), &sync);
    assert_eq!(removed.unwrap().0, 9_980);
    let after = logged();
    assert_eq!(after[0] - before[0], 1.0, "one record");
    assert!(after[1] - before[1] < 4096.0, "and a short one");
    assert_eq!((keyspace.len(), keys(&keyspace).len()), (21, 21));
    let nothing = keyspace.delete_range_with(key(10)..key(9_990), &WriteOptions::default());
    assert_eq!(nothing.unwrap(), (0, None));
    let inverted = keyspace.delete_range("z".."a");
    assert_eq!(inverted.unwrap(), 0);
}

fn recovery_removes_what_was_there_and_keeps_what_came_later(index: IndexKind) {
    let vfs = MemoryVfs::new();
    for (round, workers) in [3, 1, 4, 2].into_iter().enumerate() {
        let db = open(index, &vfs, workers);
        let keyspace = db.keyspace("default").unwrap();
        let other = db.keyspace("other").unwrap();
        if round > 0 {
            let expected = (0..500).chain([700]).chain(2_500..3_000);
            let expected: Vec<_> = expected.map(key).collect();
            assert_eq!(keys(&keyspace), expected, "round {round}");
            let value = |k: u32| keyspace.get(&key(k)).unwrap();
            assert_eq!(value(700).as_deref(), Some(&b"again"[..]));
            assert_eq!(other.len(), 1);
            assert_eq!(keyspace.len(), 1_001);
        }
        for i in 0..3_000 {
            let options = WriteOptions {
                expiry_ms: (i % 7 == 0).then_some(u64::MAX / 4),
                ..WriteOptions::default()
            };
            keyspace.put_with(&key(i), b"value", &options).unwrap();
        }
        other.put(&key(700), b"stays").unwrap();
        if round % 2 == 1 {
            db.checkpoint().unwrap();
        }
        let range = (Bound::Excluded(key(499)), Bound::Included(key(2_499)));
        assert_eq!(keyspace.delete_range(range).unwrap(), 2_000);
        keyspace.put(&key(700), b"again").unwrap();
        if round == 2 {
            // The record is older than every row of the checkpoint then.
            db.checkpoint().unwrap();
        }
        db.close().unwrap();
    }
}

fn readers_of_several_keys_see_a_range_whole_or_gone(index: IndexKind) {
    let db = open(index, &MemoryVfs::new(), 2);
    let keyspace = db.keyspace("default").unwrap();
    let options = WriteOptions::default().durability(Durability::Periodic);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let wanted = [key(0), key(400), key(799)];
            let wanted: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
            while !done.load(Ordering::Relaxed) {
                let mut found = Vec::new();
                keyspace
                    .get_many(&wanted, |_, row| found.push(row.is_some()))
                    .unwrap();
                assert!(found.iter().all(|there| *there == found[0]), "{found:?}");
            }
        });
        for _ in 0..300 {
            let mut batch = db.batch();
            for i in 0..800 {
                batch.put(&keyspace, &key(i), b"value");
            }
            batch.commit(options).unwrap();
            let (removed, commit) = keyspace.delete_range_with(.., &options).unwrap();
            assert_eq!((removed, commit.is_some()), (800, true));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(keyspace.is_empty());
}

fn bounds_longer_than_any_key_are_as_good_as_others(index: IndexKind) {
    let vfs = MemoryVfs::new();
    let longest = vec![b'k'; hedgerow::MAX_KEY_BYTES];
    let longer = [longest.as_slice(), b"more"].concat();
    let db = open(index, &vfs, 1);
    let keyspace = db.keyspace("default").unwrap();
    for key in [&b""[..], b"a", &longest, b"z"] {
        keyspace.put(key, b"value").unwrap();
    }
    assert_eq!(keyspace.delete_range(longer.clone()..).unwrap(), 1);
    assert_eq!(keyspace.delete_range(b"a".to_vec()..longer).unwrap(), 2);
    db.close().unwrap();
    let db = open(index, &vfs, 2);
    assert_eq!(keys(&db.keyspace("default").unwrap()), [b""]);
}

fn open_kind(disk: &MemoryVfs, kind: IndexKind) -> Db {
    builder_of(Some(kind))
        .vfs(Arc::new(disk.clone()))
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .now(Box::new(|| 1_000))
        .open(Path::new("/db"))
        .unwrap()
}

/// A key; some are longer than what a leaf keeps of one, and many of those begin alike.
fn odd_key(n: u32) -> Vec<u8> {
    let mut key = format!("{:08x}", n.wrapping_mul(0x9e37_79b9)).into_bytes();
    if n.is_multiple_of(40) {
        key[3..].fill(b'k');
        key.resize(1_500, b'k');
        key.extend_from_slice(&n.to_be_bytes());
    }
    key
}

/// What a keyspace is to hold: whether the row has an expiry, and its value.
type Model = std::collections::BTreeMap<Vec<u8>, (bool, Vec<u8>)>;

fn agrees(db: &Db, keyspace: &Keyspace, model: &Model) {
    let rows = keyspace.range(..).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.key().to_vec(), entry.value().unwrap().to_vec())
    });
    let expected = model
        .iter()
        .map(|(key, (_, value))| (key.clone(), value.clone()));
    assert!(rows.eq(expected));
    let expiring = model.values().filter(|(expires, _)| *expires).count();
    assert_eq!(keyspace.len(), model.len() as u64);
    assert_eq!(keyspace.expiring(), expiring as u64);
    assert_eq!(db.verify().unwrap(), model.len() as u64);
}

#[test]
fn ranges_go_from_every_index_and_come_back_gone() {
    use IndexKind::{BTree, Bst, LockedMap, Masstree, Matryoshka};
    for kind in [BTree, Masstree, Matryoshka, Bst, LockedMap] {
        let odd_key = |n| key_of(Some(kind), odd_key(n));
        let disk = MemoryVfs::new();
        let db = open_kind(&disk, kind);
        let keyspace = db.keyspace("rows").unwrap();
        let mut random = StdRng::seed_from_u64(11);
        let mut model = Model::new();
        for round in 0..12 {
            for _ in 0..3_000 {
                let key = odd_key(random.random_range(0..20_000));
                let expires = random.random_range(0..10) == 0;
                // Of those that expire, some are longer than a page.
                let longest = if expires { 5 } else { 4 };
                let length = [0, 8, 60, 500, 9_000][random.random_range(0..longest)];
                let value = vec![round; length];
                let options = WriteOptions {
                    expiry_ms: expires.then_some(2_000 + u64::from(round)),
                    ..WriteOptions::default()
                };
                keyspace.put_with(&key, &value, &options).unwrap();
                model.insert(key, (expires, value));
            }
            let mut ends = [0; 2].map(|_| odd_key(random.random_range(0..20_000)));
            ends.sort();
            let [from, to] = ends;
            let gone: Vec<_> = model.range(from.clone()..=to.clone()).collect();
            let gone: Vec<_> = gone.into_iter().map(|(key, _)| key.clone()).collect();
            assert_eq!(keyspace.delete_range(from..=to).unwrap(), gone.len() as u64);
            gone.iter().for_each(|key| drop(model.remove(key)));
            agrees(&db, &keyspace, &model);
            if round == 5 {
                db.checkpoint().unwrap();
            }
        }
        db.sync().unwrap();
        let crashed = disk.deep_clone();
        drop((keyspace, db));
        let db = open_kind(&crashed, kind);
        let keyspace = db.keyspace("rows").unwrap();
        agrees(&db, &keyspace, &model);
        // What expires is still swept, and what went with a range is not there to be.
        assert_eq!(keyspace.delete_range(..).unwrap(), model.len() as u64);
        agrees(&db, &keyspace, &Model::new());
    }
}

#[test]
fn whoever_watches_an_absent_key_learns_that_it_went_with_a_range() {
    for kind in [IndexKind::BTree, IndexKind::Masstree] {
        let db = open_kind(&MemoryVfs::new(), kind);
        let keyspace = db.keyspace("rows").unwrap();
        let watches = [b"a", b"b", b"z"].map(|key| (key, keyspace.watch(key).unwrap()));
        for key in ["a", "b", "z"] {
            keyspace.put(key.as_bytes(), b"value").unwrap();
        }
        assert_eq!(keyspace.delete_range("a".."c").unwrap(), 2);
        let changed = |key: &[u8], watch: &Watch| {
            let locks = Locks::Keys(&[(&keyspace, key)]);
            let changed = db.transact(locks, &WriteOptions::default(), |transaction| {
                transaction.changed_since(&keyspace, key, watch)
            });
            changed.unwrap().0
        };
        assert!(watches.iter().all(|(key, watch)| changed(*key, watch)));
        let watch = keyspace.watch(b"a").unwrap();
        assert_eq!(keyspace.delete_range("a".."c").unwrap(), 0);
        assert!(!changed(b"a", &watch), "nothing was there");
    }
}

#[test]
fn a_b_tree_gives_a_range_up_leaf_by_leaf() {
    let db = open_kind(&MemoryVfs::new(), IndexKind::BTree);
    let keyspace = db.keyspace("rows").unwrap();
    for i in 0..20_000 {
        keyspace.put(&key(i), &[7; 60]).unwrap();
    }
    let number = |name: &str| {
        let statistics = keyspace.index_statistics().unwrap();
        statistics.get(name).unwrap() as u64
    };
    let pages = || number("live_bytes") / number("page_bytes");
    let before = pages();
    assert_eq!(keyspace.delete_range(..).unwrap(), 20_000);
    let went_through = number("range_leaves");
    assert!(went_through <= before, "{went_through} of {before}");
    assert_eq!(pages(), 1);
}

#[test]
fn no_checkpoint_and_no_crash_shows_a_part_of_a_long_removal() {
    for kind in [IndexKind::BTree, IndexKind::Masstree, IndexKind::Bst] {
        let disk = MemoryVfs::new();
        let db = open_kind(&disk, kind);
        let keyspace = db.keyspace("rows").unwrap();
        let options = WriteOptions::default().durability(Durability::Sync);
        for round in 0..6 {
            for i in 0..8_000 {
                keyspace.put(&key(i), &[7; 30]).unwrap();
            }
            keyspace.put_with(b"the last", b"value", &options).unwrap();
            let crashed = thread::scope(|scope| {
                let removal = scope.spawn(|| keyspace.delete_range("key".."key~").unwrap());
                // Between the first row and the last.
                while keyspace.len() > 7_900 - 1_000 * round {
                    thread::yield_now();
                }
                db.checkpoint().unwrap();
                let crashed = disk.deep_clone();
                assert_eq!(removal.join().unwrap(), 8_000);
                crashed
            });
            let rows = open_kind(&crashed, kind).keyspace("rows").unwrap().len();
            assert!([1, 8_001].contains(&rows), "{rows} rows, {kind:?}");
        }
    }
}

#[test]
fn writers_beside_a_long_removal_keep_their_places() {
    const ROWS: u32 = 4_000;
    for kind in [IndexKind::BTree, IndexKind::Masstree, IndexKind::Bst] {
        let disk = MemoryVfs::new();
        let db = open_kind(&disk, kind);
        let keyspace = db.keyspace("rows").unwrap();
        for round in 0..20_u32 {
            for i in 0..ROWS {
                keyspace.put(&key(i), b"old").unwrap();
            }
            let done = AtomicBool::new(false);
            let written = thread::scope(|scope| {
                let writers = [0_u32, 1].map(|thread| {
                    let (keyspace, done) = (&keyspace, &done);
                    scope.spawn(move || {
                        let mut written = 0;
                        while !done.load(Ordering::Relaxed) && written < 500 {
                            // Each key once: from the middle of the range, and outside.
                            let i = ROWS / 2 - 700 + 2 * written + thread;
                            keyspace
                                .put(&key(i), format!("{round}").as_bytes())
                                .unwrap();
                            keyspace.put(&key(ROWS + i), b"outside").unwrap();
                            assert!(keyspace.contains(&key(ROWS + i)).unwrap());
                            written += 1;
                        }
                        written
                    })
                });
                keyspace.delete_range(..key(ROWS)).unwrap();
                done.store(true, Ordering::Relaxed);
                writers.map(|writer| writer.join().unwrap())
            });
            let outside = keyspace.count(key(ROWS)..).unwrap();
            assert!(outside >= u64::from(written[0].max(written[1])));
            // What recovery makes of the log is what was there.
            db.sync().unwrap();
            let rows = |db: &Db| {
                let keyspace = db.keyspace("rows").unwrap();
                let rows = keyspace.range(..).unwrap().map(|entry| entry.unwrap());
                rows.map(|entry| (entry.key().to_vec(), entry.row().timestamp()))
                    .collect::<Vec<_>>()
            };
            let (now, later) = (rows(&db), rows(&open_kind(&disk.deep_clone(), kind)));
            assert_eq!(now.len(), later.len());
            assert!(now == later, "{kind:?}");
            keyspace.delete_range(..).unwrap();
            assert_eq!(keyspace.len(), 0);
        }
    }
}
