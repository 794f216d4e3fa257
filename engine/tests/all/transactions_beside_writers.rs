//! Transactions that lock nothing beside every other kind of write: a write of what they read or
//! wrote is a conflict, whichever kind it is, and no other write is.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{
    Action, Commit, Db, Direction, Durability, Error, IndexKind, Isolation, Keyspace, Locks,
    OptimisticTransaction, Result, Timestamp, WriteOptions,
};
use hedgerow_testkit::databases::{builder_of, key_of};
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;

use crate::snapshots::statistic;

over_each_index! {
    each_write_of_what_was_read_is_a_conflict,
    each_write_of_what_was_written_is_a_conflict,
    a_row_that_appears_where_a_transaction_looked_is_a_conflict,
    writes_of_other_keys_are_no_conflict,
    who_only_reads_commits_and_so_does_who_protects_only_writes,
    a_range_counts_as_read_as_far_as_it_was_visited,
    writes_that_change_nothing_are_no_conflict,
    a_keyspace_that_was_created_since_is_empty_and_protected,
}

/// The row that others write, and the one beside it that is not there. Both are in what each of
/// [`READS`] reads.
const VICTIM: u64 = 3;
const ABSENT: u64 = 4;
/// A row that nobody reads.
const OTHER: u64 = 7;
/// So many rows more that their removal as a range closes it.
const MORE: std::ops::Range<u64> = 100..200;

/// A database, and its clock.
struct Stage {
    db: Db,
    index: IndexKind,
    now_ms: Arc<AtomicU64>,
    /// Where transactions write.
    out: Keyspace,
}

impl Stage {
    fn new(index: IndexKind) -> Stage {
        let now_ms = Arc::new(AtomicU64::new(1_000));
        let clock = Arc::clone(&now_ms);
        let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
        let builder = builder.workers(2).sweep_interval(None);
        let builder = builder.checkpoint_log_bytes(None);
        let now = Box::new(move || clock.load(Ordering::SeqCst));
        let db = builder.now(now).open("/db").unwrap();
        let out = db.keyspace("out").unwrap();
        Stage {
            db,
            index,
            now_ms,
            out,
        }
    }

    fn key(&self, number: u64) -> Vec<u8> {
        key_of(Some(self.index), format!("k{number:04}"))
    }

    /// A keyspace with the same rows each time, of which `expiring` expires at 2000.
    fn rows(&self, name: &str, expiring: u64) -> Keyspace {
        self.now_ms.store(1_000, Ordering::SeqCst);
        let rows = self.db.keyspace(name).unwrap();
        rows.remove(&self.key(ABSENT)).unwrap();
        let few = [1, 2, VICTIM, 5, 6, OTHER];
        let more = MORE.filter(|_| rows.len() != few.len() as u64 + 100);
        for number in few.into_iter().chain(more) {
            rows.put(&self.key(number), b"before").unwrap();
        }
        if few.contains(&expiring) {
            assert!(rows.expire(&self.key(expiring), 2_000).unwrap());
        }
        rows
    }

    /// A transaction reads, somebody else writes, and the transaction commits what it made of it.
    /// Nothing of that is there if it fails.
    fn run(
        &self,
        isolation: Isolation,
        read: impl FnOnce(&mut OptimisticTransaction),
        write: impl FnOnce(),
    ) -> Result<Commit> {
        let key = self.key(1);
        let mut tx = self.db.begin(isolation).unwrap();
        read(&mut tx);
        tx.put(&self.out, &key, b"of the transaction").unwrap();
        write();
        let outcome = tx.commit(Durability::Periodic);
        let is_written = self.out.remove(&key).unwrap();
        assert_eq!(is_written, outcome.is_ok());
        outcome
    }

    fn conflicts(&self) -> u64 {
        statistic(&self.db, "transaction_conflicts_total")
    }
}

/// A conflict on a keyspace. Whether it happened at all is judged by its caller.
fn is_conflict_on(outcome: &Result<Commit>, keyspace: &str) -> bool {
    match outcome {
        Err(error @ Error::TransactionConflict { keyspace: name, .. }) => {
            assert!(error.is_conflict() && error.to_string().contains("run it again"));
            name == keyspace
        }
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}

type Write = fn(&Stage, &Keyspace, u64);

fn options() -> WriteOptions {
    WriteOptions::default()
}

/// Writes of a key that has a row or has none.
const PUTS: [(&str, Write); 8] = [
    ("put", |s, rows, n| {
        rows.put(&s.key(n), b"after").map(drop).unwrap();
    }),
    ("the same value again", |s, rows, n| {
        rows.put(&s.key(n), b"before").map(drop).unwrap();
    }),
    ("put that expires", |s, rows, n| {
        let options = options().expiry_ms(5_000);
        rows.put_with(&s.key(n), b"after", &options).unwrap();
    }),
    ("put_columns", |s, rows, n| {
        rows.put_columns(&s.key(n), &[(b"a", b"1")]).unwrap();
    }),
    ("update", |s, rows, n| {
        let update = rows.update(&s.key(n), &options(), |_, new| {
            new.set_value(b"after");
            Action::Put(())
        });
        update.unwrap();
    }),
    ("batch", |s, rows, n| {
        let mut batch = s.db.batch();
        batch.put(&s.out, &s.key(50), b"too");
        batch.put(rows, &s.key(n), b"after");
        batch.commit(Durability::Periodic).unwrap();
    }),
    ("transact on keys", |s, rows, n| {
        let key = s.key(n);
        let locks = Locks::Keys(&[(rows, &key)]);
        let put = |tx: &mut hedgerow::Transaction<'_>| tx.put(rows, &key, b"after");
        s.db.transact(locks, &options(), put).unwrap();
    }),
    ("transaction", |s, rows, n| {
        let put = |tx: &mut OptimisticTransaction| tx.put(rows, &s.key(n), b"after");
        s.db.transaction(Isolation::Serializable, put).unwrap();
    }),
];

/// Writes of a row that is there.
const CHANGES: [(&str, Write); 9] = [
    ("expire", |s, rows, n| {
        assert!(rows.expire(&s.key(n), 9_000).unwrap());
    }),
    ("remove", |s, rows, n| {
        assert!(rows.remove(&s.key(n)).unwrap());
    }),
    ("update that removes", |s, rows, n| {
        let remove =
            |_: Option<hedgerow::Row<'_>>, _: &mut hedgerow::RowBuilder<'_>| Action::Remove(());
        rows.update(&s.key(n), &options(), remove).unwrap();
    }),
    ("batch that removes", |s, rows, n| {
        let mut batch = s.db.batch();
        batch.remove(rows, &s.key(n));
        batch.commit(Durability::Periodic).unwrap();
    }),
    ("transact that removes", |s, rows, n| {
        let remove = |tx: &mut hedgerow::Transaction<'_>| tx.remove(rows, &s.key(n));
        assert!(s.db.transact(Locks::All, &options(), remove).unwrap().0);
    }),
    ("put and remove", |s, rows, n| {
        rows.put(&s.key(n), b"soon gone").unwrap();
        assert!(rows.remove(&s.key(n)).unwrap());
    }),
    ("delete_range of one row", |s, rows, n| {
        let range = s.key(n)..=s.key(n);
        assert_eq!(rows.delete_range(range).unwrap(), 1);
    }),
    ("delete_range of many rows", |s, rows, n| {
        assert!(rows.delete_range(s.key(n)..).unwrap() > 100);
    }),
    ("sweep_expired", |s, _, _| {
        s.now_ms.store(2_000, Ordering::SeqCst);
        assert_eq!(s.db.sweep_expired().unwrap(), 1);
    }),
];

/// Writes of all rows.
const ENDS: [(&str, Write); 2] = [
    ("clear_keyspace", |s, rows, _| {
        s.db.clear_keyspace(rows.name()).unwrap();
    }),
    ("drop_keyspace", |s, rows, _| {
        s.db.drop_keyspace(rows.name()).unwrap();
    }),
];

fn all_writes() -> impl Iterator<Item = (&'static str, Write)> {
    PUTS.into_iter().chain(CHANGES).chain(ENDS)
}

type Read = fn(&mut OptimisticTransaction, &Stage, &Keyspace);

/// Reads of [`VICTIM`] and [`ABSENT`], and of no row beyond 2 and 5.
const READS: [(&str, Read); 9] = [
    ("get", |tx, s, rows| {
        assert!(tx.get(rows, &s.key(VICTIM)).unwrap().is_some());
        assert!(tx.get(rows, &s.key(ABSENT)).unwrap().is_none());
    }),
    ("contains", |tx, s, rows| {
        assert!(tx.contains(rows, &s.key(VICTIM)).unwrap());
        assert!(!tx.contains(rows, &s.key(ABSENT)).unwrap());
    }),
    ("get_many", |tx, s, rows| {
        let keys = [2, VICTIM, ABSENT].map(|n| s.key(n));
        let keys = keys.each_ref().map(Vec::as_slice);
        let mut found = [false; 3];
        let read = |i: usize, row: Option<hedgerow::Row<'_>>| found[i] = row.is_some();
        tx.get_many(rows, &keys, read).unwrap();
        assert_eq!(found, [true, true, false]);
    }),
    ("update that keeps", |tx, s, rows| {
        for n in [VICTIM, ABSENT] {
            let keep = |row: Option<hedgerow::Row<'_>>, _: &mut hedgerow::RowBuilder<'_>| {
                Action::Keep(row.is_some())
            };
            assert_eq!(tx.update(rows, &s.key(n), keep).unwrap(), n == VICTIM);
        }
    }),
    ("get_many and a removal of nothing", |tx, s, rows| {
        tx.get_many(rows, &[&s.key(VICTIM)], |_, _| ()).unwrap();
        assert!(!tx.remove(rows, &s.key(ABSENT)).unwrap());
    }),
    ("count", |tx, s, rows| {
        assert_eq!(tx.count(rows, s.key(2)..=s.key(5)).unwrap(), 3);
    }),
    ("range", |tx, s, rows| {
        let found = tx.range(rows, s.key(2)..s.key(6), Direction::Forward, 3);
        assert_eq!(found.unwrap().len(), 3);
    }),
    ("range in reverse", |tx, s, rows| {
        let range = (Bound::Unbounded, Bound::Included(s.key(5)));
        let found = tx.range(rows, range, Direction::Reverse, 2).unwrap();
        assert_eq!(found[1].key(), s.key(VICTIM));
    }),
    ("scan that breaks", |tx, s, rows| {
        let last = s.key(5);
        let visit = |key: &[u8], _: hedgerow::Row<'_>| match key == last {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        tx.scan(rows, s.key(2).., Direction::Forward, visit)
            .unwrap();
    }),
];

fn each_write_of_what_was_read_is_a_conflict(index: IndexKind) {
    let stage = Stage::new(index);
    let mut conflicts = 0;
    for (read_name, read) in READS {
        for (name, write) in all_writes() {
            let rows = stage.rows("rows", VICTIM);
            let outcome = stage.run(
                Isolation::Serializable,
                |tx| read(tx, &stage, &rows),
                || write(&stage, &rows, VICTIM),
            );
            let is_conflict = is_conflict_on(&outcome, "rows");
            assert!(is_conflict, "{name} after {read_name}");
            conflicts += 1;
        }
    }
    assert_eq!(stage.conflicts(), conflicts);
}

fn each_write_of_what_was_written_is_a_conflict(index: IndexKind) {
    let stage = Stage::new(index);
    let (put, remove): (Read, Read) = (
        |tx, s, rows| tx.put(rows, &s.key(VICTIM), b"own").unwrap(),
        |tx, s, rows| assert!(tx.remove(rows, &s.key(VICTIM)).unwrap()),
    );
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for (name, write) in all_writes() {
            for own in [put, remove] {
                let rows = stage.rows("rows", VICTIM);
                let outcome = stage.run(
                    isolation,
                    |tx| own(tx, &stage, &rows),
                    || write(&stage, &rows, VICTIM),
                );
                assert!(is_conflict_on(&outcome, "rows"), "{name}, {isolation:?}");
                let found = stage.db.keyspace("rows").unwrap().get(&stage.key(VICTIM));
                assert_ne!(found.unwrap().as_deref(), Some(&b"own"[..]));
            }
        }
    }
}

fn a_row_that_appears_where_a_transaction_looked_is_a_conflict(index: IndexKind) {
    let stage = Stage::new(index);
    for (read_name, read) in READS {
        for (name, write) in PUTS {
            let rows = stage.rows("rows", 0);
            let outcome = stage.run(
                Isolation::Serializable,
                |tx| read(tx, &stage, &rows),
                || write(&stage, &rows, ABSENT),
            );
            let is_conflict = is_conflict_on(&outcome, "rows");
            assert!(is_conflict, "{name} after {read_name}");
        }
    }
    // A row that was there and is gone again was there, too.
    let rows = stage.rows("rows", 0);
    let outcome = stage.run(
        Isolation::Serializable,
        |tx| assert!(tx.count(&rows, ..).unwrap() > 100),
        || {
            rows.put(&stage.key(ABSENT), b"for a moment").unwrap();
            rows.remove(&stage.key(ABSENT)).unwrap();
        },
    );
    assert!(is_conflict_on(&outcome, "rows"));
}

fn writes_of_other_keys_are_no_conflict(index: IndexKind) {
    let stage = Stage::new(index);
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for (read_name, read) in READS {
            for (name, write) in PUTS.into_iter().chain(CHANGES) {
                let rows = stage.rows("rows", OTHER);
                let own = |tx: &mut OptimisticTransaction| {
                    read(tx, &stage, &rows);
                    tx.put(&rows, &stage.key(1), b"own").unwrap();
                };
                let outcome = stage.run(isolation, own, || write(&stage, &rows, OTHER));
                outcome.unwrap_or_else(|error| panic!("{name} after {read_name}: {error}"));
                let found = rows.get(&stage.key(1)).unwrap();
                assert_eq!(found.as_deref(), Some(&b"own"[..]));
            }
        }
        // The same key of another keyspace.
        for (name, write) in all_writes() {
            let rows = stage.rows("rows", 0);
            let others = stage.rows("others", VICTIM);
            let own = |tx: &mut OptimisticTransaction| {
                tx.count(&rows, ..).unwrap();
                tx.put(&rows, &stage.key(VICTIM), b"own").unwrap();
            };
            let outcome = stage.run(isolation, own, || write(&stage, &others, VICTIM));
            outcome.unwrap_or_else(|error| panic!("{name} elsewhere: {error}"));
        }
    }
    assert_eq!(stage.conflicts(), 0);
}

fn who_only_reads_commits_and_so_does_who_protects_only_writes(index: IndexKind) {
    let stage = Stage::new(index);
    for (read_name, read) in READS {
        for (name, write) in all_writes() {
            let rows = stage.rows("rows", VICTIM);
            let mut tx = stage.db.begin(Isolation::Serializable).unwrap();
            read(&mut tx, &stage, &rows);
            write(&stage, &rows, VICTIM);
            // It sees what it saw before.
            read(&mut tx, &stage, &rows);
            let commit = tx.commit(Durability::Sync);
            let commit = commit.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(commit.timestamp, Timestamp::ZERO);

            let rows = stage.rows("rows", VICTIM);
            let outcome = stage.run(
                Isolation::Snapshot,
                |tx| read(tx, &stage, &rows),
                || write(&stage, &rows, VICTIM),
            );
            outcome.unwrap_or_else(|error| panic!("{name} after {read_name}: {error}"));
        }
    }
    assert_eq!(stage.conflicts(), 0);
}

fn a_range_counts_as_read_as_far_as_it_was_visited(index: IndexKind) {
    let stage = Stage::new(index);
    let between = |low: u64| key_of(Some(index), format!("k{low:04}+"));
    let (forward, reverse) = (Direction::Forward, Direction::Reverse);
    // Of rows 1, 2, 3, 5, 6, 7: where it starts, which way it goes, how far, who writes what, and
    // whether that is a conflict.
    let cases = [
        (stage.key(1), forward, 2, between(1), true),
        (stage.key(1), forward, 2, between(2), false),
        (stage.key(1), forward, 2, stage.key(VICTIM), false),
        (stage.key(1), forward, 2, stage.key(2), true),
        (stage.key(2), forward, 3, stage.key(1), false),
        (stage.key(5), reverse, 2, stage.key(ABSENT), true),
        (stage.key(5), reverse, 2, between(2), false),
        (stage.key(5), reverse, 2, stage.key(6), false),
        (between(5), reverse, 1, between(5), true),
        (stage.key(1), forward, 0, stage.key(1), false),
        // No row stops it.
        (stage.key(5), forward, 1_000, between(199), true),
        (stage.key(2), reverse, 1_000, stage.key(0), true),
    ];
    for (start, direction, limit, written, is_conflict) in cases {
        let rows = stage.rows("rows", 0);
        let name = format!("{} written, {direction:?}", written.escape_ascii());
        let range = match direction {
            Direction::Forward => (Bound::Included(start), Bound::Unbounded),
            Direction::Reverse => (Bound::Unbounded, Bound::Included(start)),
        };
        let outcome = stage.run(
            Isolation::Serializable,
            |tx| drop(tx.range(&rows, range, direction, limit).unwrap()),
            || assert!(rows.put(&written, b"after").is_ok()),
        );
        assert_eq!(is_conflict_on(&outcome, "rows"), is_conflict, "{name}");
        rows.delete_range(..).unwrap();
    }
    // A range without rows is one all the same.
    let rows = stage.rows("rows", 0);
    let empty = stage.key(20)..stage.key(30);
    for (written, is_conflict) in [(20, true), (25, true), (30, false), (19, false)] {
        let outcome = stage.run(
            Isolation::Serializable,
            |tx| assert_eq!(tx.count(&rows, empty.clone()).unwrap(), 0),
            || assert!(rows.put(&stage.key(written), b"new").is_ok()),
        );
        assert_eq!(is_conflict_on(&outcome, "rows"), is_conflict, "{written}");
        rows.remove(&stage.key(written)).unwrap();
    }
}

fn writes_that_change_nothing_are_no_conflict(index: IndexKind) {
    let stage = Stage::new(index);
    let rows = stage.rows("rows", 0);
    let outcome = stage.run(
        Isolation::Serializable,
        |tx| assert!(tx.count(&rows, ..).unwrap() > 100),
        || {
            assert!(!rows.remove(&stage.key(ABSENT)).unwrap());
            let empty = stage.key(20)..stage.key(30);
            assert_eq!(rows.delete_range(empty).unwrap(), 0);
            let key = stage.key(VICTIM);
            let keep = rows.update(&key, &options(), |_, _| Action::Keep(()));
            keep.unwrap();
            assert!(rows.compare_and_swap(&key, None, b"after").is_err());
            let rolled_back = stage.db.transact(Locks::All, &options(), |tx| {
                tx.put(&rows, &key, b"after")?;
                tx.rollback();
                Ok(())
            });
            rolled_back.unwrap();
            let mut other = stage.db.begin(Isolation::Serializable).unwrap();
            other.put(&rows, &key, b"after").unwrap();
            other.rollback();
            let mut refused = stage.db.begin(Isolation::Serializable).unwrap();
            refused.put(&rows, &key, b"after").unwrap();
            refused.put(&stage.out, &stage.key(60), b"").unwrap();
            stage.out.put(&stage.key(60), b"").unwrap();
            assert!(refused.commit(Durability::Periodic).is_err());
            assert_eq!(stage.db.sweep_expired().unwrap(), 0);
            stage.db.checkpoint().unwrap();
        },
    );
    outcome.unwrap();
}

fn a_keyspace_that_was_created_since_is_empty_and_protected(index: IndexKind) {
    let stage = Stage::new(index);
    let key = stage.key(1);
    for (is_read, is_written) in [(true, false), (false, true), (true, true), (false, false)] {
        let mut tx = stage.db.begin(Isolation::Serializable).unwrap();
        let late = stage.db.create_keyspace("late").unwrap();
        if is_read {
            assert!(!tx.contains(&late, &key).unwrap());
        }
        if is_written {
            late.put(&key, b"later").unwrap();
        }
        // It goes on seeing nothing.
        if is_read {
            assert_eq!(tx.count(&late, ..).unwrap(), 0);
        }
        tx.put(&stage.out, &key, b"own").unwrap();
        tx.put(&late, &stage.key(2), b"own").unwrap();
        let outcome = tx.commit(Durability::Periodic);
        assert_eq!(is_conflict_on(&outcome, "late"), is_read && is_written);
        let rows = late.len();
        assert_eq!(rows, u64::from(is_written) + u64::from(outcome.is_ok()));
        stage.db.drop_keyspace("late").unwrap();
    }
    // One that is gone when the transaction writes it.
    let late = stage.rows("late", 0);
    let mut tx = stage.db.begin(Isolation::Snapshot).unwrap();
    stage.db.drop_keyspace("late").unwrap();
    assert!(tx.contains(&late, &key).unwrap());
    tx.put(&late, &key, b"own").unwrap();
    assert!(is_conflict_on(&tx.commit(Durability::Periodic), "late"));
}
