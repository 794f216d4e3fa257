//! The backend on a real cluster, whose URL is in `HEDGEROW_HBASE_URL`; without it each test says
//! that it was skipped. `.ci/hbase up` starts one.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hedgerow::backend::{Backend, BackendKeyspace, Capability, ChangeRows, Put, ReadRows};
use hedgerow::{Action, Direction, Error, KeyRange, Locks, WriteOptions};
use hedgerow_hbase::{ClusterUrl, Hbase, HbaseKeyspace, HbaseOptions};

fn open() -> Option<Hbase> {
    let Ok(url) = std::env::var("HEDGEROW_HBASE_URL") else {
        eprintln!("skipped: HEDGEROW_HBASE_URL names no cluster; `.ci/hbase up` starts one");
        return None;
    };
    let url: ClusterUrl = url.parse().unwrap();
    Some(Hbase::open(&url, HbaseOptions::default()).unwrap())
}

/// A keyspace of its own for each test: what earlier runs left in it is removed.
fn keyspace(db: &Hbase, name: &str) -> HbaseKeyspace {
    let keyspace = db.keyspace(name).unwrap();
    db.clear_keyspace(name, &options()).unwrap();
    keyspace
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
}

fn options() -> WriteOptions {
    WriteOptions::default()
}

fn value(keyspace: &HbaseKeyspace, key: &[u8]) -> Option<Vec<u8>> {
    keyspace
        .read(key, |row| row.value().unwrap().to_vec())
        .unwrap()
}

fn keys(
    keyspace: &HbaseKeyspace,
    range: impl KeyRange,
    direction: Direction,
    most: usize,
) -> Vec<String> {
    let mut found = Vec::new();
    let visit = |key: &[u8], _: hedgerow::Row<'_>| {
        found.push(String::from_utf8(key.to_vec()).unwrap());
        ControlFlow::Continue(())
    };
    keyspace.scan_up_to(range, direction, most, visit).unwrap();
    found
}

#[test]
fn rows_are_stored_changed_and_removed() {
    let Some(db) = open() else { return };
    let rows = keyspace(&db, "rows");
    let stored = WriteOptions {
        user_flags: 7,
        ..options()
    };
    let commit = rows.put_with(b"a", b"1", &stored).unwrap();
    let read = rows.read(b"a", |row| {
        (row.value() == Some(b"1"), row.user_flags(), row.version())
    });
    assert_eq!(read.unwrap(), Some((true, 7, commit.timestamp.raw())));
    let (sum, commit) = rows
        .update(b"a", &options(), |row, new| {
            assert_eq!(row.unwrap().value(), Some(&b"1"[..]));
            new.set_value(b"2");
            Action::Put(3)
        })
        .unwrap();
    assert!(sum == 3 && commit.is_some());
    assert_eq!(value(&rows, b"a").as_deref(), Some(&b"2"[..]));
    let hash = |row: hedgerow::Row<'_>| {
        row.columns()
            .map(|(n, v)| (n.to_vec(), v.to_vec()))
            .collect()
    };
    rows.update(b"a", &options(), |_, new| {
        new.set_column(b"x", b"1")
            .set_column(b"", b"unnamed")
            .set_column(b"y", b"");
        Action::Put(())
    })
    .unwrap();
    rows.update(b"a", &options(), |_, new| {
        new.remove_column(b"y").set_column(b"x", b"2");
        Action::Put(())
    })
    .unwrap();
    let columns: Option<Vec<(Vec<u8>, Vec<u8>)>> = rows.read(b"a", hash).unwrap();
    assert_eq!(
        columns.unwrap(),
        [
            (b"".to_vec(), b"unnamed".to_vec()),
            (b"x".to_vec(), b"2".to_vec())
        ]
    );
    rows.put_with(b"a", b"plain", &options()).unwrap();
    assert_eq!(value(&rows, b"a").as_deref(), Some(&b"plain"[..]));
    rows.update(b"a", &options(), |_, new| {
        new.set_column(b"z", b"1");
        Action::Put(())
    })
    .unwrap();
    let columns: Option<Vec<(Vec<u8>, Vec<u8>)>> = rows.read(b"a", hash).unwrap();
    assert_eq!(
        columns.unwrap(),
        [(b"z".to_vec(), b"1".to_vec())],
        "hidden columns are gone"
    );
    rows.update(b"a", &options(), |_, _| Action::Remove(()))
        .unwrap();
    assert!(rows.read(b"a", |_| ()).unwrap().is_none());
}

/// HBase hides a row that is written within the millisecond of its removal, unless its table has
/// `NEW_VERSION_BEHAVIOR`.
#[test]
fn a_row_that_is_written_right_after_its_removal_is_there() {
    let Some(db) = open() else { return };
    let rows = keyspace(&db, "removed-and-written");
    for i in 0..500_u32 {
        let text = i.to_string();
        rows.update(b"k", &options(), |row, new| match (i % 3, row) {
            (0, Some(_)) => Action::Remove(()),
            _ => {
                new.set_value(text.as_bytes());
                Action::Put(())
            }
        })
        .unwrap();
        rows.put_with(b"k", text.as_bytes(), &options()).unwrap();
        assert_eq!(value(&rows, b"k"), Some(text.into_bytes()), "round {i}");
        rows.update(b"k", &options(), |_, _| Action::Remove(()))
            .unwrap();
        assert_eq!(value(&rows, b"k"), None);
    }
}

#[test]
fn rows_that_expire_are_gone_at_once() {
    let Some(db) = open() else { return };
    let rows = keyspace(&db, "expiry");
    let soon = |ms| WriteOptions {
        expiry_ms: Some(now_ms() + ms),
        ..options()
    };
    rows.put_with(b"a", b"1", &options()).unwrap();
    rows.put_with(b"a", b"2", &soon(300)).unwrap();
    rows.put_with(b"b", b"2", &soon(3_600_000)).unwrap();
    assert_eq!(value(&rows, b"a").as_deref(), Some(&b"2"[..]));
    std::thread::sleep(Duration::from_millis(350));
    assert_eq!(
        value(&rows, b"a"),
        None,
        "nor is the value from before there again"
    );
    assert_eq!(keys(&rows, .., Direction::Forward, 10), ["b"]);
    assert_eq!(rows.count(..).unwrap(), 1);
    let (made, _) = rows
        .update(b"a", &options(), |row, new| {
            new.set_column(b"f", b"v");
            Action::Put(row.is_none())
        })
        .unwrap();
    assert!(made);
    let row = rows
        .read(b"a", |row| (row.expiry_ms(), row.column_count()))
        .unwrap();
    assert_eq!(row, Some((None, 1)));
}

#[test]
fn ranges_go_both_ways_over_all_regions_and_pages() {
    let Some(db) = open() else { return };
    let rows = keyspace(&db, "ranges");
    let all: Vec<String> = (0..700)
        .map(|i| format!("{}{:03}", (b' ' + (i % 90) as u8) as char, i))
        .collect();
    let puts: Vec<Put<'_>> = all
        .iter()
        .map(|key| Put::plain(key.as_bytes(), b"v"))
        .collect();
    let mut done = 0;
    rows.put_many(&puts, &options(), |i, outcome| {
        assert!(i == done && outcome.is_ok());
        done += 1;
    });
    assert_eq!(done, all.len());
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(keys(&rows, .., Direction::Forward, usize::MAX), sorted);
    let mut reversed = sorted.clone();
    reversed.reverse();
    assert_eq!(keys(&rows, .., Direction::Reverse, usize::MAX), reversed);
    assert_eq!(keys(&rows, .., Direction::Reverse, 3), reversed[..3]);
    let (low, high) = (&sorted[100], &sorted[400]);
    for (lower, upper, from, to) in [
        (Bound::Included(low), Bound::Excluded(high), 100, 400),
        (Bound::Excluded(low), Bound::Included(high), 101, 401),
    ] {
        let range = || (lower.map(String::as_bytes), upper.map(String::as_bytes));
        assert_eq!(
            keys(&rows, range(), Direction::Forward, usize::MAX),
            sorted[from..to]
        );
        let mut expected = sorted[from..to].to_vec();
        expected.reverse();
        assert_eq!(
            keys(&rows, range(), Direction::Reverse, usize::MAX),
            expected
        );
        assert_eq!(rows.count(range()).unwrap(), (to - from) as u64);
    }
    let range = (
        Bound::Included(low.as_bytes()),
        Bound::Excluded(high.as_bytes()),
    );
    assert_eq!(rows.delete_range_with(range, &options()).unwrap().0, 300);
    assert_eq!(rows.count(..).unwrap(), 400);
}

#[test]
fn counters_of_many_threads_lose_nothing() {
    let Some(db) = open() else { return };
    let rows = keyspace(&db, "counters");
    let asked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..50 {
                    rows.update(b"n", &options(), |row, new| {
                        asked.fetch_add(1, Ordering::Relaxed);
                        let old = row.and_then(|row| row.value()).unwrap_or(b"0");
                        let old: u64 = std::str::from_utf8(old).unwrap().parse().unwrap();
                        new.set_value((old + 1).to_string().as_bytes());
                        Action::Put(())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(value(&rows, b"n").as_deref(), Some(&b"300"[..]));
    assert!(asked.load(Ordering::Relaxed) >= 300);
}

#[test]
fn a_transaction_has_one_row() {
    let Some(db) = open() else { return };
    let rows = keyspace(&db, "transactions");
    rows.put_with(b"a", b"1", &options()).unwrap();
    let watch = rows.watch(b"a").unwrap();
    let locks = [(&rows, &b"a"[..]), (&rows, b"a")];
    let (read, commit) = db
        .transact(Locks::Keys(&locks), &options(), |tx| {
            tx.put_with(&rows, b"a", b"2", &options())?;
            let failed: Result<(), ()> = tx.nested(|tx| {
                tx.put_with(&rows, b"a", b"3", &options()).unwrap();
                Err(())
            });
            assert!(failed.is_err());
            tx.read(&rows, b"a", |row| row.value().unwrap().to_vec())
        })
        .unwrap();
    assert_eq!(read.as_deref(), Some(&b"2"[..]));
    assert!(commit.epoch() > 0);
    let changed = db.transact(Locks::Keys(&locks[..1]), &options(), |tx| {
        use hedgerow::backend::LockingTransaction;
        tx.changed_since(&rows, b"a", &watch)
    });
    assert!(changed.unwrap().0);
    let two = [(&rows, &b"a"[..]), (&rows, b"b")];
    let refused = db.transact(Locks::Keys(&two), &options(), |_| Ok(()));
    let Err(Error::Unsupported(refused)) = refused else {
        panic!("two rows");
    };
    assert_eq!(refused.capability, Capability::SeveralRows);
    assert!(matches!(
        db.transact(Locks::All, &options(), |_| Ok(())),
        Err(Error::Unsupported(_))
    ));
}

#[test]
fn keys_and_values_beyond_limits_are_refused_and_those_within_are_kept() {
    let Some(db) = open() else { return };
    let rows = keyspace(&db, "limits");
    assert!(matches!(
        rows.put_with(b"", b"v", &options()),
        Err(Error::Backend(_))
    ));
    let longest = vec![b'k'; hedgerow_hbase::MAX_ROW_KEY_BYTES];
    rows.put_with(&longest, b"v", &options()).unwrap();
    assert_eq!(value(&rows, &longest).as_deref(), Some(&b"v"[..]));
    let longer = [&longest[..], b"k"].concat();
    assert!(matches!(
        rows.put_with(&longer, b"v", &options()),
        Err(Error::KeyTooLong { .. })
    ));
    for key in [&[0_u8][..], &[0, 0], &[0xff], b"\r\n \x7f"] {
        rows.put_with(key, key, &options()).unwrap();
        assert_eq!(value(&rows, key).as_deref(), Some(key));
    }
    let large = vec![7; 1 << 20];
    rows.put_with(b"large", &large, &options()).unwrap();
    assert_eq!(value(&rows, b"large"), Some(large));
    let outcome = rows.put_with(b"larger", &vec![7; 64 << 20], &options());
    assert!(matches!(outcome, Err(Error::ValueTooLong { .. })));
}

#[test]
fn rows_are_loaded_over_what_there_was() {
    let Some(db) = open() else { return };
    let keyspace = keyspace(&db, "load");
    let key = |i: usize| format!("{i:06}").into_bytes();
    // Every tenth key has a hash, another tenth the tombstone of one, and another a value.
    for i in (0..3000).step_by(10) {
        for (place, hash) in [(i, true), (i + 1, true), (i + 2, false)] {
            let put = |_: Option<hedgerow::Row<'_>>, new: &mut hedgerow::RowBuilder<'_>| {
                match hash {
                    true => new.set_column(b"old", b"x"),
                    false => new.set_value(b"old"),
                };
                Action::Put(())
            };
            keyspace.update(&key(place), &options(), put).unwrap();
        }
        let remove =
            |_: Option<hedgerow::Row<'_>>, _: &mut hedgerow::RowBuilder<'_>| Action::Remove(());
        keyspace.update(&key(i + 1), &options(), remove).unwrap();
    }
    let keys: Vec<Vec<u8>> = (0..3000).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let later = now_ms() + 3_600_000;
    for round in 0..2_u32 {
        let text = format!("{round}");
        let loaded = keyspace.load(&keys, &options(), |i, new| {
            new.set_user_flags(i as u32).set_expiry_ms(Some(later));
            match i % 2 {
                0 => new.set_value(text.as_bytes()),
                _ => new.clear_columns().set_column(b"new", text.as_bytes()),
            };
        });
        assert!(loaded.unwrap().is_some());
        let mut seen = 0;
        let visit = |key: &[u8], row: hedgerow::Row<'_>| {
            assert_eq!(key, keys[seen]);
            assert_eq!(row.user_flags(), seen as u32);
            assert_eq!(row.expiry_ms(), Some(later));
            let columns: Vec<_> = row.columns().collect();
            match seen % 2 {
                0 => assert_eq!(row.value(), Some(text.as_bytes())),
                _ => assert_eq!(columns, [(&b"new"[..], text.as_bytes())]),
            }
            seen += 1;
            ControlFlow::Continue(())
        };
        keyspace
            .scan_up_to(.., Direction::Forward, usize::MAX, visit)
            .unwrap();
        assert_eq!(seen, 3000);
    }
    let empty = keyspace.load(&[b"a", b""], &options(), |_, new| {
        new.set_value(b"x");
    });
    assert!(empty.is_err());
    assert_eq!(value(&keyspace, b"a"), None);
}
