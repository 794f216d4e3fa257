//! Snapshots and transactions begun, used and ended within closures of other calls: refused where
//! they would wait for locks of the caller's, and possible everywhere else.

use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use hedgerow::{
    Action, Db, Direction, Durability, Error, IndexKind, Isolation, Keyspace, KeyspaceSnapshot,
    Locks, OptimisticTransaction, Result, Row, RowBuilder, Snapshot, Transaction, WriteOptions,
};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;

use crate::snapshots::{key, statistic};

over_each_index! {
    what_would_wait_for_the_caller_is_refused,
    closures_of_reads_at_a_snapshot_may_do_everything,
}

/// Nobody waits so long for anything but a deadlock.
const DEADLINE: Duration = Duration::from_secs(60);

/// A database with two rows, and a snapshot of it.
struct Stage {
    db: Db,
    rows: Keyspace,
    keys: [Vec<u8>; 2],
    snapshot: Snapshot,
    at: KeyspaceSnapshot,
}

/// Transactions of that moment: one that has written nothing, and one that has.
type Ending = [Option<OptimisticTransaction>; 2];

impl Stage {
    fn open(index: IndexKind) -> (Stage, Ending) {
        let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
        let builder = builder.workers(2).sweep_interval(None);
        let builder = builder.version_memory(Some(8 << 20));
        let db = builder.open("/db").unwrap();
        let rows = db.keyspace("rows").unwrap();
        let keys = [key(index, 1), key(index, 2)];
        rows.put(&keys[0], b"before").unwrap();
        // In pages of its own, where there are pages.
        rows.put(&keys[1], &[2; 10_000]).unwrap();
        let snapshot = db.snapshot().unwrap();
        let at = snapshot.at(&rows).unwrap();
        let begin = || db.begin(Isolation::Snapshot).unwrap();
        let (reader, mut writer) = (begin(), begin());
        writer.put(&rows, &keys[0], b"of the writer").unwrap();
        let stage = Stage {
            db,
            rows,
            keys,
            snapshot,
            at,
        };
        (stage, [Some(reader), Some(writer)])
    }
}

/// What of a stage is used within a closure.
struct Within<'s> {
    db: &'s Db,
    rows: &'s Keyspace,
    keys: &'s [Vec<u8>; 2],
    snapshot: &'s Snapshot,
    at: &'s KeyspaceSnapshot,
    /// Taken by what ends them.
    ending: Ending,
}

impl Within<'_> {
    /// Calls that wait for nobody.
    fn read(&mut self) {
        let [first, second] = self.keys;
        self.snapshot.check().unwrap();
        assert_eq!(self.at.get(first).unwrap().unwrap(), b"before");
        assert_eq!(self.at.get(second).unwrap().unwrap(), [2; 10_000]);
        assert_eq!(self.at.range(..).unwrap().count(), 2);
        self.at.get_many(&[first, second], |_, _| ()).unwrap();
        for tx in self.ending.iter_mut().flatten() {
            assert_eq!(tx.count(self.rows, ..).unwrap(), 2);
            assert_eq!(tx.get(self.rows, second).unwrap().unwrap(), [2; 10_000]);
            let done = tx.nested(|tx| {
                tx.put(self.rows, second, b"undone")?;
                tx.remove(self.rows, first)?;
                Err::<(), _>(Error::NotLocked)
            });
            assert!(done.is_err());
        }
        assert_eq!(
            self.db.oldest_snapshot().unwrap().name,
            self.snapshot.name()
        );
    }

    /// Ends the transaction that has written nothing, which waits for nobody.
    fn end_reader(&mut self) {
        let reader = self.ending[0].take().unwrap();
        reader.commit(Durability::Sync).unwrap();
    }

    /// Calls that take locks.
    fn calls_that_wait(&mut self) -> Vec<(&'static str, Result<()>)> {
        let Within { db, rows, keys, .. } = self;
        let writer = self.ending[1].take().unwrap();
        let put = |tx: &mut OptimisticTransaction| tx.put(rows, &keys[1], b"after");
        vec![
            ("snapshot", db.snapshot().map(drop)),
            ("snapshot_named", db.snapshot_named("late").map(drop)),
            ("begin", db.begin(Isolation::Snapshot).map(drop)),
            ("transaction", db.transaction(Isolation::Serializable, put)),
            ("commit", writer.commit(Durability::Periodic).map(drop)),
        ]
    }
}

/// Runs it on a thread of its own.
fn within_time(name: &'static str, run: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        run();
        let _ = sender.send(());
    });
    if receiver.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{name}: hangs");
    }
    thread.join().unwrap_or_else(|panic| {
        println!("{name}: failed");
        std::panic::resume_unwind(panic)
    });
}

type Closure = fn(&Db, &Keyspace, &[u8], &mut dyn FnMut());

/// Calls whose closures run while locks are held.
const WITH_LOCKS: [(&str, Closure); 5] = [
    ("update", |_, rows, key, call| {
        let decide = |_: Option<Row<'_>>, _: &mut RowBuilder<'_>| {
            call();
            Action::Keep(())
        };
        let options = WriteOptions::default();
        rows.update(key, &options, decide).unwrap();
    }),
    ("transact on keys", |db, rows, key, call| {
        let locks = Locks::Keys(&[(rows, key)]);
        let run = |_: &mut Transaction<'_>| {
            call();
            Ok(())
        };
        db.transact(locks, &WriteOptions::default(), run).unwrap();
    }),
    ("transact on all", |db, rows, key, call| {
        let run = |tx: &mut Transaction<'_>| {
            call();
            tx.get(rows, key).map(drop)
        };
        let options = WriteOptions::default();
        db.transact(Locks::All, &options, run).unwrap();
    }),
    ("read in transact", |db, rows, key, call| {
        let run = |tx: &mut Transaction<'_>| tx.read(rows, key, |_| call());
        let options = WriteOptions::default();
        db.transact(Locks::All, &options, run).unwrap();
    }),
    ("get_many", |_, rows, key, call| {
        rows.get_many(&[key], |_, _| call()).unwrap();
    }),
];

fn what_would_wait_for_the_caller_is_refused(index: IndexKind) {
    for (name, closure) in WITH_LOCKS {
        within_time(name, move || {
            let (stage, ending) = Stage::open(index);
            let Stage { db, rows, keys, .. } = &stage;
            let mut within = Within {
                db,
                rows,
                keys,
                snapshot: &stage.snapshot,
                at: &stage.at,
                ending,
            };
            let mut calls = Vec::new();
            closure(db, rows, &keys[0], &mut || {
                within.read();
                within.end_reader();
                calls = within.calls_that_wait();
            });
            assert_eq!(calls.len(), 5, "{name}");
            for (call, outcome) in calls {
                let is_refused = matches!(outcome, Err(Error::Nested));
                assert!(is_refused, "{call} in {name}: {outcome:?}");
            }
            // Nothing happened, and everybody can go on.
            assert_eq!(rows.get(&keys[0]).unwrap().unwrap(), b"before");
            let put = |tx: &mut OptimisticTransaction| tx.put(rows, &keys[0], b"after");
            db.transaction(Isolation::Serializable, put).unwrap();
            let counted = ["snapshots", "open_transactions"];
            assert_eq!(counted.map(|name| statistic(db, name)), [1, 0]);
        });
    }
}

type ReadAt = fn(&KeyspaceSnapshot, &mut OptimisticTransaction, &Keyspace, &[u8], &mut dyn FnMut());

/// Reads at a snapshot and in a transaction, which hold nothing while their closures run.
const AT_SNAPSHOTS: [(&str, ReadAt); 8] = [
    ("read", |at, _, _, key, call| {
        at.read(key, |_| call()).unwrap().unwrap();
    }),
    ("get_many", |at, _, _, key, call| {
        at.get_many(&[key], |_, _| call()).unwrap();
    }),
    ("scan", |at, _, _, _, call| {
        let visit = |_: &[u8], _: Row<'_>| {
            call();
            ControlFlow::Break(())
        };
        at.scan(.., Direction::Forward, visit).unwrap();
    }),
    ("scan_up_to", |at, _, _, _, call| {
        let visit = |_: &[u8], _: Row<'_>| {
            call();
            ControlFlow::Continue(())
        };
        at.scan_up_to(.., Direction::Reverse, 1, visit).unwrap();
    }),
    ("read in a transaction", |_, tx, rows, key, call| {
        tx.read(rows, key, |_| call()).unwrap().unwrap();
    }),
    ("get_many in a transaction", |_, tx, rows, key, call| {
        tx.get_many(rows, &[key], |_, _| call()).unwrap();
    }),
    ("scan in a transaction", |_, tx, rows, _, call| {
        let visit = |_: &[u8], _: Row<'_>| {
            call();
            ControlFlow::Break(())
        };
        tx.scan(rows, .., Direction::Reverse, visit).unwrap();
    }),
    ("update in a transaction", |_, tx, rows, key, call| {
        let decide = |_: Option<Row<'_>>, _: &mut RowBuilder<'_>| {
            call();
            Action::Keep(())
        };
        tx.update(rows, key, decide).unwrap();
    }),
];

/// Writes of all kinds, of the row that is read, too.
fn write_all(db: &Db, rows: &Keyspace, keys: &[Vec<u8>; 2]) {
    rows.put(&keys[0], &[3; 9_000]).unwrap();
    rows.put(&keys[1], b"short").unwrap();
    let mut batch = db.batch();
    batch
        .put(rows, &keys[0], b"of a batch")
        .remove(rows, &keys[1]);
    batch.commit(Durability::Periodic).unwrap();
    let options = WriteOptions::default();
    let put = |tx: &mut Transaction<'_>| tx.put(rows, &keys[1], b"after");
    db.transact(Locks::All, &options, put).unwrap();
    assert_eq!(rows.delete_range(..).unwrap(), 2);
    db.checkpoint().unwrap();
    db.clear_keyspace("rows").unwrap();
    db.sweep_expired().unwrap();
}

fn closures_of_reads_at_a_snapshot_may_do_everything(index: IndexKind) {
    // Rows of the index, and rows that were replaced and removed.
    for (name, read) in AT_SNAPSHOTS {
        for (is_replaced, which) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
            within_time(name, move || {
                let (stage, ending) = Stage::open(index);
                let Stage { db, rows, keys, .. } = &stage;
                let mut tx = db.begin(Isolation::Serializable).unwrap();
                if is_replaced {
                    rows.put(&keys[0], b"replaced").unwrap();
                    rows.remove(&keys[1]).unwrap();
                }
                let mut within = Within {
                    db,
                    rows,
                    keys,
                    snapshot: &stage.snapshot,
                    at: &stage.at,
                    ending,
                };
                let mut calls = 0;
                read(&stage.at, &mut tx, rows, &keys[which], &mut || {
                    calls += 1;
                    within.read();
                    within.end_reader();
                    for (call, outcome) in within.calls_that_wait() {
                        // Somebody wrote what it wrote.
                        let is_conflict = outcome.as_ref().is_err_and(Error::is_conflict);
                        let expected = call == "commit" && is_replaced;
                        let is_right = outcome.is_ok() || (expected && is_conflict);
                        assert!(is_right, "{call} in {name}: {outcome:?}");
                    }
                    write_all(db, rows, keys);
                });
                assert_eq!((calls, rows.len()), (1, 0));
                tx.put(rows, &keys[0], b"too late").unwrap();
                assert!(tx.commit(Durability::Periodic).unwrap_err().is_conflict());
                assert_eq!(stage.at.get(&keys[0]).unwrap().unwrap(), b"before");
                assert_eq!(stage.at.get(&keys[1]).unwrap().unwrap(), [2; 10_000]);
            });
        }
    }
}
