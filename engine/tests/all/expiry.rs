//! Rows that expire are swept, whatever their keys look like: also keys that were made so that
//! what a program might keep of them is the same.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hedgerow::backend::Backend;
use hedgerow::{
    Action, Builder, Db, Direction, Durability, Error, IndexKind, Isolation, Keyspace, Locks,
    MAX_KEY_BYTES, OptimisticTransaction, Row, Transaction, Watch, WriteOptions,
};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;

over_each_index! {
    keys_that_begin_alike_expire_each_for_itself,
    keys_keep_their_expiry_through_a_reopen,
    a_limit_counts_the_rows_that_have_not_expired,
    a_row_that_expires_beside_a_transaction_that_saw_it_is_a_conflict,
    a_row_behind_those_that_a_transaction_visited_may_expire,
    a_row_that_expires_beside_a_snapshot_transaction_that_writes_it_is_a_conflict,
    a_locking_transaction_has_one_time_for_keys_and_ranges,
    a_locking_transaction_runs_again_when_a_row_that_it_saw_has_expired,
    a_locking_transaction_ends_however_many_of_its_rows_expire,
    a_locking_transaction_that_may_run_again_sees_that_a_row_has_expired,
    a_row_that_expires_within_a_change_of_it_counts_as_gone,
    whoever_watches_an_absent_key_learns_of_a_row_that_came_expired,
    a_row_that_had_expired_before_the_watch_may_be_swept;
    any width:
    the_longest_keys_expire_each_for_itself,
}

fn builder(index: IndexKind, disk: &MemoryVfs, now: &Arc<AtomicU64>) -> Builder {
    let now = Arc::clone(now);
    builder_of(Some(index))
        .vfs(Arc::new(disk.clone()))
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .now(Box::new(move || now.load(Ordering::Relaxed)))
}

fn put(rows: &Keyspace, key: &[u8], expiry_ms: u64) {
    let options = WriteOptions {
        expiry_ms: Some(expiry_ms),
        ..WriteOptions::default()
    };
    rows.put_with(key, b"value", &options).unwrap();
}

/// Two keys of 264 bytes whose folded products with public constants are the same: the last word
/// of each cancels what the one before it made of the state.
fn colliding(keyspace: u32) -> [Vec<u8>; 2] {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a) * u128::from(b);
        (wide as u64) ^ (wide >> 64) as u64
    };
    let head = [b'k'; 248];
    let start = fold(u64::from(keyspace) ^ K, 264 ^ 0xa076_1d64_78bd_642f);
    let words = head.as_chunks::<8>().0.iter();
    let state = words.fold(start, |state, word| {
        fold(state ^ u64::from_le_bytes(*word), K)
    });
    [1u64, 2].map(|word| {
        let last = fold(state ^ word, K);
        [&head[..], &word.to_le_bytes(), &last.to_le_bytes()].concat()
    })
}

/// Keys that share their first 248 bytes, or all but the last where keys have one width.
fn alike(index: IndexKind) -> Vec<Vec<u8>> {
    if index.key_bytes().is_some() {
        let numbers = 0..56_u64;
        return numbers.map(|n| n.to_be_bytes().to_vec()).collect();
    }
    let mut keys: Vec<Vec<u8>> = (0..8).flat_map(colliding).collect();
    keys.extend((0..20).map(|n| [vec![b'k'; 248], vec![0; n]].concat()));
    keys.extend((0..20).map(|n| [vec![b'k'; 300], vec![n]].concat()));
    keys
}

/// Writes rows with one expiry, changes some of their expiries, and sweeps.
fn sweep(db: &Db, now: &AtomicU64, keys: &[Vec<u8>]) {
    let rows = db.keyspace("rows").unwrap();
    now.store(1_000, Ordering::Relaxed);
    for key in keys {
        put(&rows, key, 2_000);
    }
    assert_eq!(rows.expiring(), keys.len() as u64);
    let (third, rest): (Vec<_>, Vec<_>) = (0..keys.len()).partition(|n| n.is_multiple_of(3));
    for &n in &third {
        assert!(rows.expire(&keys[n], 3_000).unwrap());
    }
    now.store(2_000, Ordering::Relaxed);
    assert_eq!(db.sweep_expired().unwrap(), rest.len() as u64);
    assert_eq!(rows.len(), third.len() as u64);
    for &n in &third {
        assert!(rows.contains(&keys[n]).unwrap(), "key {n}");
    }
    now.store(3_000, Ordering::Relaxed);
    assert_eq!(db.sweep_expired().unwrap(), third.len() as u64);
    assert_eq!((rows.len(), rows.expiring()), (0, 0));
}

fn keys_that_begin_alike_expire_each_for_itself(index: IndexKind) {
    let now = Arc::new(AtomicU64::new(0));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    sweep(&db, &now, &alike(index));
}

/// Entries of the expiry index are a little longer than keys, and have the same limit.
fn the_longest_keys_expire_each_for_itself(index: IndexKind) {
    let now = Arc::new(AtomicU64::new(0));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let ending = |bytes: usize, last: u8| {
        let mut key = vec![b'l'; bytes];
        key[bytes - 1] = last;
        key
    };
    let lengths = MAX_KEY_BYTES - 14..=MAX_KEY_BYTES;
    let keys: Vec<_> = lengths
        .flat_map(|bytes| [ending(bytes, b'l'), ending(bytes, b'm')])
        .collect();
    sweep(&db, &now, &keys);
}

fn keys_keep_their_expiry_through_a_reopen(index: IndexKind) {
    let now = Arc::new(AtomicU64::new(1_000));
    let disk = MemoryVfs::new();
    let keys = alike(index);
    let db = builder(index, &disk, &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    for key in &keys[..10] {
        put(&rows, key, 2_000);
    }
    db.checkpoint().unwrap();
    for key in &keys[10..] {
        put(&rows, key, 2_000);
    }
    db.close().unwrap();
    drop((rows, db));
    let db = builder(index, &disk, &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    assert_eq!(rows.expiring(), keys.len() as u64);
    now.store(2_000, Ordering::Relaxed);
    assert_eq!(db.sweep_expired().unwrap(), keys.len() as u64);
    assert_eq!((rows.len(), rows.expiring()), (0, 0));
}

fn a_limit_counts_the_rows_that_have_not_expired(index: IndexKind) {
    let now = Arc::new(AtomicU64::new(1_000));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    // Runs of expired rows, and of others, of all lengths up to 20, and one of thousands.
    let (mut number, mut live) = (0_u64, Vec::new());
    for run in (1..=20).chain([3_000]) {
        for expiry_ms in [2_000, 4_000] {
            for _ in 0..run {
                let key = number.to_be_bytes();
                put(&rows, &key, expiry_ms);
                live.extend((expiry_ms == 4_000).then_some(key));
                number += 1;
            }
        }
    }
    now.store(3_000, Ordering::Relaxed);
    for limit in [
        0,
        1,
        2,
        7,
        50,
        live.len() - 1,
        live.len(),
        live.len() + 1,
        usize::MAX,
    ] {
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut seen = Vec::new();
            let visit = |key: &[u8], _: Row<'_>| {
                seen.push(key.to_vec());
                ControlFlow::Continue(())
            };
            rows.scan_up_to(.., direction, limit, visit).unwrap();
            let mut expected = live.clone();
            if direction == Direction::Reverse {
                expected.reverse();
            }
            expected.truncate(limit);
            assert_eq!(seen, expected, "{direction:?}, at most {limit}");
        }
    }
    // A visitor that breaks is not asked again.
    let mut calls = 0;
    let visit = |_: &[u8], _: Row<'_>| {
        calls += 1;
        ControlFlow::Break(())
    };
    rows.scan_up_to(.., Direction::Forward, 2, visit).unwrap();
    assert_eq!(calls, 1);
}

/// How a transaction sees the row under a key.
type See = fn(&mut OptimisticTransaction, &Keyspace, &[u8]) -> hedgerow::Result<bool>;

const WAYS_TO_SEE: [(&str, See); 6] = [
    ("get", |tx, rows, key| Ok(tx.get(rows, key)?.is_some())),
    ("contains", |tx, rows, key| tx.contains(rows, key)),
    ("get_many", |tx, rows, key| {
        let mut is_there = false;
        tx.get_many(rows, &[key], |_, row| is_there = row.is_some())?;
        Ok(is_there)
    }),
    ("update", |tx, rows, key| {
        tx.update(rows, key, |row, _| Action::Keep(row.is_some()))
    }),
    ("range", |tx, rows, key| {
        let from = (key.to_vec(), key.to_vec());
        let entries = tx.range(rows, from.0..=from.1, Direction::Forward, 1)?;
        Ok(entries.len() == 1)
    }),
    ("reverse scan", |tx, rows, key| {
        let mut is_there = false;
        tx.scan(rows, .., Direction::Reverse, |found, _| {
            is_there |= found == key;
            ControlFlow::Continue(())
        })?;
        Ok(is_there)
    }),
];

/// A transaction saw a row; then it expires, and another transaction finds it gone. The first one
/// cannot come before the second, which read nothing of it, nor after it.
fn a_row_that_expires_beside_a_transaction_that_saw_it_is_a_conflict(index: IndexKind) {
    let keys = alike(index);
    let (seen, other) = (&keys[0], &keys[1]);
    for (way, see) in WAYS_TO_SEE {
        for isolation in [Isolation::Snapshot, Isolation::Serializable] {
            let now = Arc::new(AtomicU64::new(1_000));
            let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
            let rows = db.keyspace("rows").unwrap();
            let context = format!("{way}, {isolation:?}");
            put(&rows, seen, 2_000);
            let begin = || {
                let mut tx = db.begin(isolation).unwrap();
                assert!(see(&mut tx, &rows, seen).unwrap(), "{context}");
                tx
            };
            let (mut early, mut late, reader) = (begin(), begin(), begin());
            now.store(1_999, Ordering::Relaxed);
            early.put(&rows, other, b"in time").unwrap();
            assert!(early.commit(Durability::Periodic).is_ok(), "{context}");
            now.store(2_000, Ordering::Relaxed);
            assert!(!rows.contains(seen).unwrap(), "{context}");
            assert!(
                see(&mut late, &rows, seen).unwrap(),
                "{context}: its time is its beginning's"
            );
            late.put(&rows, &keys[2], b"too late").unwrap();
            let committed = late.commit(Durability::Periodic);
            match isolation {
                Isolation::Snapshot => assert!(committed.is_ok(), "{context}"),
                Isolation::Serializable => {
                    let error = committed.expect_err(&context);
                    assert!(
                        error.is_conflict() && error.to_string().contains("expired"),
                        "{error}"
                    );
                    assert!(!rows.contains(&keys[2]).unwrap(), "{context}");
                }
            }
            assert!(reader.commit(Durability::Periodic).is_ok(), "{context}");
        }
    }
    let now = Arc::new(AtomicU64::new(1_000));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    put(&rows, seen, 2_000);
    let mut tx = db.begin(Isolation::Serializable).unwrap();
    tx.put(&rows, seen, b"its own").unwrap();
    for (way, see) in WAYS_TO_SEE {
        assert!(see(&mut tx, &rows, seen).unwrap(), "{way}");
    }
    now.store(3_000, Ordering::Relaxed);
    tx.commit(Durability::Periodic)
        .expect("it saw only its own row");
    assert!(rows.contains(seen).unwrap());
}

/// Whether the row was swept already must make no difference: it is gone for everybody else.
fn a_row_that_expires_beside_a_snapshot_transaction_that_writes_it_is_a_conflict(index: IndexKind) {
    let keys = alike(index);
    let now = Arc::new(AtomicU64::new(1_000));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    put(&rows, &keys[0], 2_000);
    put(&rows, &keys[1], 1_000);
    let begin = || db.begin(Isolation::Snapshot).unwrap();
    let (mut keeps, mut replaces, mut revives) = (begin(), begin(), begin());
    now.store(2_000, Ordering::Relaxed);
    assert!(!rows.contains(&keys[0]).unwrap());
    let kept = keeps.update(&rows, &keys[0], |row, new| {
        new.set_expiry_ms(None);
        Action::Put(row.is_some())
    });
    assert!(kept.unwrap());
    replaces
        .put(&rows, &keys[0], b"of a row that is gone")
        .unwrap();
    for tx in [keeps, replaces] {
        let error = tx.commit(Durability::Periodic).unwrap_err();
        assert!(error.is_conflict() && error.to_string().contains("expired"));
    }
    assert!(!rows.contains(&keys[0]).unwrap());
    // It had expired before the transaction began: nobody changed anything since.
    revives.put(&rows, &keys[1], b"new").unwrap();
    revives.commit(Durability::Periodic).unwrap();
    assert!(rows.contains(&keys[1]).unwrap());
}

fn a_locking_transaction_has_one_time_for_keys_and_ranges(index: IndexKind) {
    let key = &alike(index)[0];
    let now = Arc::new(AtomicU64::new(1_000));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    put(&rows, key, 2_000);
    let work = |tx: &mut Transaction<'_>| {
        assert!(tx.contains(&rows, key)?);
        now.store(2_000, Ordering::Relaxed);
        let mut found = 0;
        tx.scan(&rows, .., Direction::Forward, |_, _| {
            found += 1;
            ControlFlow::Continue(())
        })?;
        Ok((tx.contains(&rows, key)?, found))
    };
    let options = WriteOptions::default();
    let (found, _) = db.transact(Locks::All, &options, work).unwrap();
    assert_eq!(found, (true, 1));
    assert!(!rows.contains(key).unwrap());
}

/// A locking transaction W sees a row; then the row expires, and another transaction U sees it
/// gone, and what W is about to change as it was. U is neither before W nor after it, so W runs
/// again.
fn a_locking_transaction_runs_again_when_a_row_that_it_saw_has_expired(index: IndexKind) {
    let keys = alike(index);
    let (seen, changed) = (&keys[0], &keys[1]);
    let now = Arc::new(AtomicU64::new(1_999));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    put(&rows, seen, 2_000);
    rows.put(changed, b"old").unwrap();
    let named = [(&rows, seen.as_slice()), (&rows, changed.as_slice())];
    let beside = |third: &[u8]| {
        let mut tx = db.begin(Isolation::Serializable)?;
        let is_gone = !tx.contains(&rows, seen)?;
        let is_old = tx.get(&rows, changed)?.as_deref() == Some(&b"old"[..]);
        tx.put(&rows, third, b"beside")?;
        tx.commit(Durability::Periodic)?;
        hedgerow::Result::Ok((is_gone, is_old))
    };
    let (mut others, mut runs) = (Vec::new(), Vec::new());
    let work = |tx: &mut Transaction<'_>| {
        runs.push(tx.contains(&rows, seen)?);
        // The other transaction must not wait for a stripe of this one.
        let is_unlocked =
            |key: &&Vec<u8>| matches!(tx.put(&rows, key, b"probe"), Err(Error::NotLocked));
        let third = keys[2..].iter().find(is_unlocked).unwrap();
        now.store(2_000, Ordering::Relaxed);
        let committed = thread::scope(|scope| scope.spawn(|| beside(third)).join().unwrap());
        others.push(committed?);
        tx.put(&rows, changed, b"new")
    };
    let options = WriteOptions::default();
    Backend::transact(&db, Locks::Keys(&named), &options, work).unwrap();
    assert_eq!(others, [(true, true); 2]);
    assert_eq!(
        runs,
        [true, false],
        "the run that counts comes after the others"
    );
    assert_eq!(rows.get(changed).unwrap().as_deref(), Some(&b"new"[..]));
}

/// Of very many rows one may expire during each run. The transaction must come to an end, as all
/// others may wait for its locks.
fn a_locking_transaction_ends_however_many_of_its_rows_expire(index: IndexKind) {
    let keys = alike(index);
    let now = Arc::new(AtomicU64::new(1_000));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    for (key, expiry_ms) in keys.iter().zip(2_000..2_020) {
        put(&rows, key, expiry_ms);
    }
    now.store(1_999, Ordering::Relaxed);
    let options = WriteOptions::default();
    let mut runs = 0;
    let ran = Backend::transact(&db, Locks::All, &options, |tx| {
        runs += 1;
        let mut count = 0;
        tx.scan(&rows, .., Direction::Forward, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        now.fetch_add(1, Ordering::Relaxed);
        tx.put(&rows, &keys[0], b"counted")?;
        Ok(count)
    });
    let (count, _) = ran.unwrap();
    assert!((2..10).contains(&runs), "{runs} runs");
    assert!(count > 0);
}

fn a_locking_transaction_that_may_run_again_sees_that_a_row_has_expired(index: IndexKind) {
    let keys = alike(index);
    let now = Arc::new(AtomicU64::new(1_999));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    put(&rows, &keys[0], 2_000);
    let named = [(&rows, keys[0].as_slice()), (&rows, keys[1].as_slice())];
    let options = WriteOptions::default();
    let mut seen = Vec::new();
    let ran = Backend::transact(&db, Locks::Keys(&named), &options, |tx| {
        seen.push(tx.contains(&rows, &keys[0])?);
        now.store(2_000, Ordering::Relaxed);
        tx.put(&rows, &keys[1], b"value")
    });
    ran.unwrap();
    assert_eq!(seen, [true, false]);
    assert!(rows.contains(&keys[1]).unwrap());
}

/// A change of a row under a key, and whether there is a row afterwards.
type Change = (&'static str, fn(&Db, &Keyspace, &[u8]), bool);

/// Changes that look at the row first, and find it gone: it expires after they have looked.
const CHANGES: [Change; 6] = [
    (
        "persist",
        |_, rows, key| assert!(!rows.persist(key).unwrap()),
        false,
    ),
    (
        "expire",
        |_, rows, key| assert!(!rows.expire(key, 9_000).unwrap()),
        false,
    ),
    (
        "remove",
        |_, rows, key| assert!(!rows.remove(key).unwrap()),
        false,
    ),
    (
        "remove_columns",
        |_, rows, key| assert_eq!(rows.remove_columns(key, &[b"a"]).unwrap(), 0),
        false,
    ),
    (
        "put_columns",
        |_, rows, key| {
            rows.put_columns(key, &[(b"b", b"new")]).unwrap();
            let columns = rows.get_columns(key, &[b"a", b"b"]).unwrap().unwrap();
            assert_eq!(columns, [None, Some(b"new".to_vec())]);
        },
        true,
    ),
    (
        "batch",
        |db, rows, key| {
            let mut batch = db.batch();
            batch.put_columns(rows, key, &[(b"b", b"new")]);
            batch.commit(Durability::Periodic).unwrap();
            let columns = rows.get_columns(key, &[b"a", b"b"]).unwrap().unwrap();
            assert_eq!(columns, [None, Some(b"new".to_vec())]);
        },
        true,
    ),
];

fn a_row_that_expires_within_a_change_of_it_counts_as_gone(index: IndexKind) {
    let key = &alike(index)[0];
    for (name, change, is_there) in CHANGES {
        let now = Arc::new(AtomicU64::new(1_999));
        let is_running = Arc::new(AtomicBool::new(false));
        let (clock, runs) = (Arc::clone(&now), Arc::clone(&is_running));
        // Whoever asks for the time is the last who hears that it is not yet 2000.
        let tick = move || match runs.load(Ordering::Relaxed) {
            true => clock.swap(2_000, Ordering::Relaxed),
            false => clock.load(Ordering::Relaxed),
        };
        let builder = builder(index, &MemoryVfs::new(), &now).now(Box::new(tick));
        let db = builder.open("/db").unwrap();
        let rows = db.keyspace("rows").unwrap();
        rows.put_columns(key, &[(b"a", b"old"), (b"c", b"old")])
            .unwrap();
        assert!(rows.expire(key, 2_000).unwrap());
        is_running.store(true, Ordering::Relaxed);
        change(&db, &rows, key);
        assert_eq!(now.load(Ordering::Relaxed), 2_000, "{name}");
        assert_eq!(rows.contains(key).unwrap(), is_there, "{name}");
    }
}

/// A range was read up to the last row that was visited: what expires behind that is no conflict.
fn a_row_behind_those_that_a_transaction_visited_may_expire(index: IndexKind) {
    let mut keys = alike(index);
    keys.sort_unstable();
    let now = Arc::new(AtomicU64::new(1_000));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    put(&rows, &keys[1], 2_000);
    let mut tx = db.begin(Isolation::Serializable).unwrap();
    tx.put(&rows, &keys[0], b"its own").unwrap();
    let first = tx.range(&rows, .., Direction::Forward, 1).unwrap();
    assert_eq!(first[0].key(), keys[0]);
    now.store(2_000, Ordering::Relaxed);
    tx.commit(Durability::Periodic)
        .expect("it did not see the other row");
}

/// Whether a key changed since a watch.
fn changed(db: &Db, rows: &Keyspace, key: &[u8], watch: &Watch) -> bool {
    let locks = Locks::Keys(&[(rows, key)]);
    let asked = db.transact(locks, &WriteOptions::default(), |transaction| {
        transaction.changed_since(rows, key, watch)
    });
    asked.unwrap().0
}

/// A row may be stored with a time that is over, and be swept before anybody asks.
fn whoever_watches_an_absent_key_learns_of_a_row_that_came_expired(index: IndexKind) {
    let now = Arc::new(AtomicU64::new(1_000));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    let key = b"a key of";
    // One that was never there, and one of which an expired row is left.
    for expired_before in [false, true] {
        if expired_before {
            put(&rows, key, 900);
        }
        let watch = rows.watch(key).unwrap();
        rows.put(key, b"a value that anybody could read").unwrap();
        put(&rows, key, 1);
        assert!(changed(&db, &rows, key, &watch), "before it is swept");
        assert_eq!(db.sweep_expired().unwrap(), 1);
        assert!(changed(&db, &rows, key, &watch), "{expired_before}");
    }
}

fn a_row_that_had_expired_before_the_watch_may_be_swept(index: IndexKind) {
    let now = Arc::new(AtomicU64::new(1_000));
    let db = builder(index, &MemoryVfs::new(), &now).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    let key = b"a key of";
    put(&rows, key, 2_000);
    now.store(2_000, Ordering::Relaxed);
    let watch = rows.watch(key).unwrap();
    assert_eq!(db.sweep_expired().unwrap(), 1);
    assert!(!changed(&db, &rows, key, &watch));
    let watch = rows.watch(key).unwrap();
    assert_eq!(db.sweep_expired().unwrap(), 0);
    assert!(!changed(&db, &rows, key, &watch));
}
