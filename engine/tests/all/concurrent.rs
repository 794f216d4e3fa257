//! Many threads at once: nothing half-done is ever seen, nothing is lost, and what checkpoints
//! and backups take beside writers is a state that existed.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hedgerow::{
    Action, Db, Direction, Durability, Error, IndexKind, Keyspace, Locks, Transaction, WriteOptions,
};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::side_by_side::Side;
use hedgerow_testkit::{db_races, over_each_index};
use hedgerow_vfs::{MemoryVfs, Vfs};

const DIR: &str = "/data";

fn memory() -> Arc<dyn Vfs> {
    Arc::new(MemoryVfs::new())
}

over_each_index! {
    updates_from_many_threads_lose_nothing,
    batches_and_transactions_are_seen_whole,
    single_reads_never_go_back_behind_a_batch,
    checkpoints_and_backups_beside_writers,
    scans_beside_writers_are_ordered_and_complete,
    a_checkpoint_comes_by_itself_when_the_log_is_long,
    durability_is_asked_for_without_blocking_and_announced,
    expired_rows_go_in_the_background,
    batches_of_reads_see_commits_of_several_keys_whole,
    batches_of_reads_see_a_keyspace_before_it_is_cleared_or_after,
}

fn open(index: IndexKind, vfs: &Arc<dyn Vfs>, dir: &str) -> Db {
    builder_of(Some(index))
        .vfs(Arc::clone(vfs))
        .workers(3)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .open(Path::new(dir))
        .unwrap()
}

fn number(bytes: &[u8]) -> u64 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

fn updates_from_many_threads_lose_nothing(index: IndexKind) {
    let vfs = memory();
    let db = open(index, &vfs, DIR);
    let counters = db.keyspace("counters").unwrap();
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 500;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let counters = &counters;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = (round % 3).to_be_bytes();
                    counters
                        .update(&key, &WriteOptions::default(), |row, new| {
                            let old = row.and_then(|row| row.value()).map_or(0, number);
                            new.set_value((old + 1).to_string().as_bytes());
                            Action::Put(())
                        })
                        .unwrap();
                    let name = [b't', thread as u8];
                    counters
                        .put_columns(b"columns!", &[(&name, round.to_string().as_bytes())])
                        .unwrap();
                    // Compare-and-swap in a loop, as a client would.
                    loop {
                        let seen = counters
                            .read(b"swapped!", |row| {
                                (row.timestamp(), number(row.value().unwrap()))
                            })
                            .unwrap();
                        let next = seen.map_or(1, |(_, n)| n + 1).to_string();
                        let version = seen.map(|(version, _)| version);
                        match counters.compare_and_swap(b"swapped!", version, next.as_bytes()) {
                            Ok(_) => break,
                            Err(Error::Conflict { found, .. }) => assert!(found > version),
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let check = |db: &Db| {
        let counters = db.keyspace("counters").unwrap();
        let total: u64 = (0..3_u64)
            .map(|i| number(&counters.get(&i.to_be_bytes()).unwrap().unwrap()))
            .sum();
        assert_eq!(total, THREADS * ROUNDS);
        assert_eq!(
            number(&counters.get(b"swapped!").unwrap().unwrap()),
            THREADS * ROUNDS
        );
        let columns = counters
            .read(b"columns!", |row| {
                row.columns()
                    .map(|(_, value)| number(value))
                    .collect::<Vec<_>>()
            })
            .unwrap();
        assert_eq!(columns, Some(vec![ROUNDS - 1; THREADS as usize]));
        assert_eq!(counters.len(), 5);
    };
    check(&db);
    db.close().unwrap();
    check(&open(index, &vfs, DIR));
}

/// Moves an amount, or all that there is, from one account to another.
fn transfer(
    tx: &mut Transaction<'_>,
    accounts: &Keyspace,
    from: &[u8],
    to: &[u8],
    amount: u64,
) -> hedgerow::Result<()> {
    let taken = number(&tx.get(accounts, from)?.unwrap());
    let given = number(&tx.get(accounts, to)?.unwrap());
    let amount = taken.min(amount);
    tx.put(accounts, from, (taken - amount).to_string().as_bytes())?;
    tx.put(accounts, to, (given + amount).to_string().as_bytes())
}

/// Money moves between accounts; its sum is seen to stay the same by everyone who may rely on it.
fn batches_and_transactions_are_seen_whole(index: IndexKind) {
    const ACCOUNTS: u64 = 8;
    const START: u64 = 1000;
    let vfs = memory();
    let db = open(index, &vfs, DIR);
    let accounts = db.keyspace("accounts").unwrap();
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(|i| i.to_be_bytes().to_vec()).collect();
    for key in &keys {
        accounts.put(key, START.to_string().as_bytes()).unwrap();
    }
    let all: Vec<_> = keys.iter().map(|key| (&accounts, key.as_slice())).collect();
    let options = WriteOptions::default();
    let (moves, sums) = (Side::new(3, 400), Side::new(2, 20));
    thread::scope(|scope| {
        for writer in 0..3u64 {
            let (db, accounts, keys, options) = (&db, &accounts, &keys, &options);
            let (moves, sums) = (&moves, &sums);
            scope.spawn(move || {
                let mut share = moves.share();
                while share.continues(sums) {
                    let round = share.rounds() as u64;
                    let from = &keys[((round * 7 + writer) % ACCOUNTS) as usize];
                    let to = &keys[((round * 3 + writer * 5 + 1) % ACCOUNTS) as usize];
                    if from == to {
                        continue;
                    }
                    let locks = [(accounts, from.as_slice()), (accounts, to.as_slice())];
                    let locks = if round.is_multiple_of(16) {
                        Locks::All
                    } else {
                        Locks::Keys(&locks)
                    };
                    let amount = round % 50;
                    db.transact(locks, options, |tx| {
                        transfer(tx, accounts, from, to, amount)
                    })
                    .unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut share = sums.share();
                while share.continues(&moves) {
                    let (sum, commit) = db
                        .transact(Locks::Keys(&all), &options, |tx| {
                            let balances = keys.iter().map(|key| tx.get(&accounts, key));
                            let sum: Result<u64, Error> =
                                balances.map(|value| Ok(number(&value?.unwrap()))).sum();
                            sum
                        })
                        .unwrap();
                    assert_eq!(sum, ACCOUNTS * START);
                    assert_eq!(commit.epoch(), 0, "reading commits nothing");
                }
            });
        }
    });
    db.close().unwrap();
    let db = open(index, &vfs, DIR);
    let accounts = db.keyspace("accounts").unwrap();
    let sum: u64 = accounts
        .range(..)
        .unwrap()
        .map(|e| number(e.unwrap().value().unwrap()))
        .sum();
    assert_eq!(sum, ACCOUNTS * START);
}

/// Whoever has read one key of a batch finds the others, one plain read after the other.
fn single_reads_never_go_back_behind_a_batch(index: IndexKind) {
    let vfs = memory();
    let db = open(index, &vfs, DIR);
    let keyspace = db.keyspace("k").unwrap();
    let keys: Vec<Vec<u8>> = (0..6_u64).map(|i| i.to_be_bytes().to_vec()).collect();
    let (batches, reads) = (Side::new(1, 1500), Side::new(2, 200));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut share = batches.share();
            while share.continues(&reads) {
                let round = share.rounds();
                let mut batch = db.batch();
                // In turns from either side, so that no order of reading is safe by luck.
                for i in 0..keys.len() {
                    let i = if round % 2 == 0 {
                        i
                    } else {
                        keys.len() - 1 - i
                    };
                    batch.put(&keyspace, &keys[i], round.to_string().as_bytes());
                }
                batch.commit(WriteOptions::default()).unwrap();
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut newest, mut share) = (0, reads.share());
                while share.continues(&batches) {
                    for key in &keys {
                        let seen = keyspace.get(key).unwrap().map_or(0, |value| number(&value));
                        assert!(seen >= newest, "saw batch {newest}, then {seen}");
                        newest = seen;
                    }
                    let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    let mut least = u64::MAX;
                    let each = |_, row: Option<hedgerow::Row<'_>>| {
                        least = least.min(row.map_or(0, |row| number(row.value().unwrap())));
                    };
                    keyspace.get_many(&slices, each).unwrap();
                    assert!(
                        least >= newest,
                        "saw batch {newest}, then {least} among many"
                    );
                }
            });
        }
    });
}

/// Three writers; checkpoints, backups and clearing beside them. Writer `w` writes, in order,
/// its round to `w.rounds`, a batch to both `w.pair.*`, and counts up a column.
fn checkpoints_and_backups_beside_writers(index: IndexKind) {
    let vfs = memory();
    let db = open(index, &vfs, DIR);
    let keyspace = db.keyspace("k").unwrap();
    let scratch = db.keyspace("scratch").unwrap();
    for i in 0..30_000u32 {
        keyspace
            .put(format!("#{i:07}").as_bytes(), b"some value")
            .unwrap();
    }
    let (writes, checkpoints) = (Side::new(3, 20), Side::new(1, 4));
    thread::scope(|scope| {
        for w in 0..3u8 {
            let (db, keyspace, scratch) = (&db, &keyspace, &scratch);
            let (writes, checkpoints) = (&writes, &checkpoints);
            scope.spawn(move || {
                let mut share = writes.share();
                while share.continues(checkpoints) {
                    let round = share.rounds() as u64;
                    let text = round.to_string();
                    let key = |name: &str| format!("{name} {w}").into_bytes();
                    keyspace.put(&key("rounds"), text.as_bytes()).unwrap();
                    let mut batch = db.batch();
                    batch.put(keyspace, &key("a pair"), text.as_bytes());
                    batch.put(keyspace, &key("z pair"), text.as_bytes());
                    batch.commit(WriteOptions::default()).unwrap();
                    keyspace
                        .put_columns(&key("column"), &[(b"n", text.as_bytes()), (&[w], b"x")])
                        .unwrap();
                    keyspace.put(&key("passes"), b"").unwrap();
                    keyspace.remove(&key("passes")).unwrap();
                    scratch.put(&round.to_be_bytes(), b"").unwrap();
                }
            });
        }
        let mut share = checkpoints.share();
        while share.continues(&writes) {
            let i = share.rounds() - 1;
            if i >= 4 {
                // The writers are not through: on a busy machine they come late.
                thread::yield_now();
                continue;
            }
            db.checkpoint().unwrap();
            db.clear_keyspace("scratch").unwrap();
            db.backup(Path::new(&format!("/backup{i}"))).unwrap();
        }
    });
    let before: Vec<_> = keyspace.range(..).unwrap().map(Result::unwrap).collect();
    db.close().unwrap();
    let reopened = open(index, &vfs, DIR);
    let after: Vec<_> = reopened
        .keyspace("k")
        .unwrap()
        .range(..)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(before == after, "rows, versions and all");
    for i in 0..4 {
        let dir = format!("/backup{i}");
        let report = Db::builder()
            .vfs(Arc::clone(&vfs))
            .check(Path::new(&dir))
            .unwrap();
        assert_eq!(report.problems, []);
        check_state(&open(index, &vfs, &dir));
    }
}

/// A state in which writers were interrupted anywhere, but which existed.
fn check_state(db: &Db) {
    let keyspace = db.keyspace("k").unwrap();
    assert_eq!(keyspace.prefix("#").unwrap().count(), 30_000);
    for w in 0..3u8 {
        let get = |name: &str| {
            let value = keyspace.get(format!("{name} {w}").as_bytes()).unwrap();
            value.map_or(0, |value| number(&value))
        };
        let (first, a, z) = (get("rounds"), get("a pair"), get("z pair"));
        assert_eq!(a, z, "half of a batch");
        assert!(first == a || first == a + 1, "{first} then {a}");
        let columns = keyspace
            .get_columns(format!("column {w}").as_bytes(), &[b"n", &[w]])
            .unwrap()
            .unwrap_or(vec![Some(b"0".to_vec()), Some(b"x".to_vec())]);
        let n = number(columns[0].as_ref().unwrap());
        assert!(n == a || n + 1 == a, "{a} then {n}");
        assert_eq!(columns[1].as_deref(), Some(&b"x"[..]));
    }
}

fn scans_beside_writers_are_ordered_and_complete(index: IndexKind) {
    let vfs = memory();
    let db = open(index, &vfs, DIR);
    let keyspace = db.keyspace("k").unwrap();
    for i in (0..4000_u64).step_by(2) {
        keyspace.put(&i.to_be_bytes(), b"stays").unwrap();
    }
    let (writes, scans) = (Side::new(2, 1), Side::new(1, 20));
    thread::scope(|scope| {
        for odd in [1_u64, 3] {
            let (keyspace, writes, scans) = (&keyspace, &writes, &scans);
            scope.spawn(move || {
                let mut share = writes.share();
                while share.continues(scans) {
                    for i in (odd..4000).step_by(4) {
                        keyspace.put(&i.to_be_bytes(), b"flickers").unwrap();
                        keyspace.remove(&i.to_be_bytes()).unwrap();
                    }
                }
            });
        }
        let mut share = scans.share();
        while share.continues(&writes) {
            let keys: Vec<Vec<u8>> = if share.rounds() % 2 == 0 {
                keyspace
                    .range(..)
                    .unwrap()
                    .map(|entry| entry.unwrap().into_key())
                    .collect()
            } else {
                let mut keys = Vec::new();
                keyspace
                    .scan(.., Direction::Reverse, |key, _| {
                        keys.push(key.to_vec());
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                keys.reverse();
                keys
            };
            assert!(keys.is_sorted_by(|a, b| a < b));
            let even = keys.iter().filter(|key| key[7] % 2 == 0).count();
            assert_eq!(even, 2000);
        }
    });
}

fn a_checkpoint_comes_by_itself_when_the_log_is_long(index: IndexKind) {
    let vfs = memory();
    let db = builder_of(Some(index))
        .vfs(Arc::clone(&vfs))
        .workers(2)
        .checkpoint_log_bytes(Some(64 << 10))
        .open(Path::new(DIR))
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let mut i = 0u64;
    while db.statistics().get("checkpoints_total") < Some(2.0) {
        for _ in 0..100 {
            keyspace
                .put(&(i % 500).to_be_bytes(), &[b'v'; 100])
                .unwrap();
            i += 1;
        }
        // As fast as the disk, not faster: the memory disk keeps no old files, but buffers do.
        db.sync().unwrap();
    }
    assert_eq!(db.statistics().get("checkpoint_failures_total"), Some(0.0));
    db.close().unwrap();
    assert_eq!(
        open(index, &vfs, DIR).keyspace("k").unwrap().len(),
        500.min(i)
    );
}

fn durability_is_asked_for_without_blocking_and_announced(index: IndexKind) {
    let vfs = memory();
    let db = open(index, &vfs, DIR);
    let keyspace = db.keyspace("k").unwrap();
    let newest = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&newest);
    db.subscribe_durable(Box::new(move |progress| {
        if let hedgerow::Progress::Durable(epoch) = progress {
            told.fetch_max(epoch, Ordering::SeqCst);
        }
    }));
    let sync = WriteOptions::from(Durability::Sync);
    let commit = keyspace
        .put_with(b"number 1", b"1", &sync.no_wait())
        .unwrap();
    db.request_durable(&commit);
    while newest.load(Ordering::SeqCst) < commit.epoch() {
        thread::yield_now();
    }
    assert!(db.is_durable(&commit) && db.durable_epoch() >= commit.epoch());
    let commit = keyspace.put_with(b"number 2", b"2", &sync).unwrap();
    assert!(db.is_durable(&commit));
    let commit = keyspace.put(b"number 3", b"3").unwrap();
    db.wait_durable(&commit).unwrap();
    assert!(db.is_durable(&commit));
}

fn expired_rows_go_in_the_background(index: IndexKind) {
    let vfs = memory();
    let clock = Arc::new(AtomicU64::new(1000));
    let now = Arc::clone(&clock);
    let db = builder_of(Some(index))
        .vfs(Arc::clone(&vfs))
        .sweep_interval(Some(std::time::Duration::from_millis(1)))
        .now(Box::new(move || now.load(Ordering::Relaxed)))
        .open(Path::new(DIR))
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let expiring = WriteOptions::default().expiry_ms(2000);
    for i in 0..3000_u64 {
        keyspace
            .put_with(&i.to_be_bytes(), b"short-lived", &expiring)
            .unwrap();
    }
    keyspace.put(b"it stays", b"").unwrap();
    assert!(keyspace.persist(&7_u64.to_be_bytes()).unwrap());
    assert!(keyspace.expire(&8_u64.to_be_bytes(), 3000).unwrap());
    clock.store(2000, Ordering::Relaxed);
    while keyspace.len() > 3 {
        thread::yield_now();
    }
    assert_eq!(keyspace.count(..).unwrap(), 3);
    drop(db);
    let db = open(index, &vfs, DIR);
    assert_eq!(
        db.keyspace("k").unwrap().len(),
        3,
        "the removals are in the log"
    );
}

fn batches_of_reads_see_commits_of_several_keys_whole(index: IndexKind) {
    let vfs = memory();
    let db = open(index, &vfs, DIR);
    let pairs = db.keyspace("pairs").unwrap();
    let keys: Vec<Vec<u8>> = (0..40_u64).map(|i| i.to_be_bytes().to_vec()).collect();
    let stop = AtomicBool::new(false);
    let write = |n: u64| {
        let mut batch = db.batch();
        for key in &keys {
            batch.put(&pairs, key, n.to_string().as_bytes());
        }
        batch.commit(Durability::None).unwrap();
    };
    write(0);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (write, stop) = (&write, &stop);
            scope.spawn(move || {
                for n in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    write(n * 2 + writer);
                }
            });
        }
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let names: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    for _ in 0..2000 {
                        let mut seen = Vec::new();
                        pairs
                            .get_many(&names, |_, row| {
                                seen.push(number(row.unwrap().value().unwrap()));
                                // Reading on from inside must not wait for ever.
                                assert!(pairs.contains(names[0]).unwrap());
                            })
                            .unwrap();
                        assert!(seen.iter().all(|&n| n == seen[0]), "torn: {seen:?}");
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
}

#[test]
fn a_batch_and_a_commit_that_meet_wait_for_each_other() {
    db_races::commit_during_a_batch(30).unwrap();
    db_races::batch_during_a_commit(30).unwrap();
}

/// All rows come with one commit and go with one.
fn batches_of_reads_see_a_keyspace_before_it_is_cleared_or_after(index: IndexKind) {
    let vfs = memory();
    let db = open(index, &vfs, DIR);
    let rows = db.keyspace("rows").unwrap();
    let keys: Vec<[u8; 8]> = (0..2_000_u64).map(u64::to_be_bytes).collect();
    let (clears, reads) = (Side::new(1, 40), Side::new(2, 100));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut share = clears.share();
            while share.continues(&reads) {
                let mut batch = db.batch();
                for key in &keys {
                    batch.put(&rows, key, b"");
                }
                batch.commit(Durability::Periodic).unwrap();
                db.clear_keyspace("rows").unwrap();
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut share = reads.share();
                let ends = [&keys[0][..], &keys[1_000], &keys[1_999]];
                while share.continues(&clears) {
                    let mut found = 0;
                    rows.get_many(&ends, |_, row| found += usize::from(row.is_some()))
                        .unwrap();
                    assert!(found == 0 || found == 3, "{found} of three");
                }
            });
        }
    });
}
