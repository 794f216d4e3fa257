//! The last handle of a database that is dropped where closing it must not wait: within a closure
//! that a call of the same database runs, or on a thread of the database's own. It is closed all
//! the same, soon: its directory can be opened again, and everything written is there.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::{
    Action, Builder, Db, Direction, Durability, Error, IndexKind, Keyspace, Locks, WriteOptions,
};
use hedgerow_testkit::databases::builder_of;
use hedgerow_vfs::{MemoryVfs, Vfs};

const DIR: &str = "/db";
/// Nobody waits so long for anything but a deadlock.
const DEADLINE: Duration = Duration::from_secs(60);

fn builder(disk: &MemoryVfs, index: IndexKind) -> Builder {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    builder_of(Some(index)).vfs(vfs).workers(2)
}

/// An open database with a row, and a handle that outlives it.
struct Opened {
    db: Db,
    rows: Keyspace,
}

fn open(disk: &MemoryVfs, index: IndexKind) -> Opened {
    let db = builder(disk, index).open(DIR).unwrap();
    let rows = db.keyspace("rows").unwrap();
    rows.put(b"before", b"1").unwrap();
    Opened { db, rows }
}

/// Opens the database again and checks that it has these rows.
#[track_caller]
fn check_reopened(disk: &MemoryVfs, index: IndexKind, keys: &[&[u8]]) {
    let db = builder(disk, index).open(DIR).unwrap();
    let rows = db.open_keyspace("rows").unwrap();
    for key in keys {
        assert!(rows.contains(key).unwrap(), "{}", key.escape_ascii());
    }
}

/// Waits until another thread has closed the database.
#[track_caller]
fn await_closed(disk: &MemoryVfs, index: IndexKind) {
    let began = Instant::now();
    while let Err(error) = builder(disk, index).open(DIR) {
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        assert!(began.elapsed() < DEADLINE, "it is never closed");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A call with a closure that drops the database, and the row that it writes.
struct Case {
    name: &'static str,
    call: fn(Opened),
}

const BEFORE: &[u8] = b"before";

const CASES: [Case; 6] = [
    Case {
        name: "update",
        call: |Opened { db, rows }| {
            let updated = rows.update(b"within", &WriteOptions::default(), |_, new| {
                drop(db);
                new.set_value(b"2");
                Action::Put(())
            });
            updated.unwrap();
        },
    },
    Case {
        name: "update that waits for the disk",
        call: |Opened { db, rows }| {
            let updated = rows.update(b"within", &Durability::Sync.into(), |_, new| {
                drop(db);
                new.set_value(b"2");
                Action::Put(())
            });
            updated.unwrap();
        },
    },
    Case {
        name: "get_many within update",
        call: |Opened { db, rows }| {
            let mut db = Some(db);
            let updated = rows.update(b"within", &WriteOptions::default(), |_, new| {
                rows.get_many(&[BEFORE], |_, _| drop(db.take())).unwrap();
                new.set_value(b"2");
                Action::Put(())
            });
            updated.unwrap();
        },
    },
    Case {
        name: "get_many",
        call: |Opened { db, rows }| {
            rows.put(b"within", b"2").unwrap();
            let mut db = Some(db);
            rows.get_many(&[BEFORE, b"within"], |_, _| drop(db.take()))
                .unwrap();
        },
    },
    Case {
        name: "read and scan",
        call: |Opened { db, rows }| {
            rows.put(b"within", b"2").unwrap();
            let mut db = Some(db);
            rows.read(BEFORE, |_| {
                let visit = |_: &[u8], _: hedgerow::Row<'_>| {
                    drop(db.take());
                    ControlFlow::Continue(())
                };
                rows.scan(.., Direction::Forward, visit).unwrap();
            })
            .unwrap();
        },
    },
    Case {
        name: "a transaction of another database",
        call: |Opened { db, rows }| {
            rows.put(b"within", b"2").unwrap();
            let other = Db::builder().open_in_memory().unwrap();
            let run = |_: &mut hedgerow::Transaction<'_>| {
                drop(db);
                Ok(())
            };
            other
                .transact(Locks::All, &WriteOptions::default(), run)
                .unwrap();
        },
    },
];

#[test]
fn a_database_dropped_within_a_closure_is_closed_when_that_ends() {
    for index in [IndexKind::Masstree, IndexKind::BTree] {
        for case in CASES {
            println!("{index:?}: {}", case.name);
            let disk = MemoryVfs::new();
            let opened = open(&disk, index);
            let rows = opened.rows.clone();
            (case.call)(opened);
            let put = rows.put(b"after", b"3");
            assert!(matches!(put, Err(Error::Closed)), "{put:?}");
            check_reopened(&disk, index, &[BEFORE, b"within"]);
        }
    }
}

#[test]
fn a_database_dropped_within_a_closure_that_panics_is_closed() {
    let disk = MemoryVfs::new();
    let Opened { db, rows } = open(&disk, IndexKind::Masstree);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let updated = rows.update(b"within", &WriteOptions::default(), |_, _| {
            drop(db);
            if rows.name() == "rows" {
                panic!("the closure panics");
            }
            Action::Keep(())
        });
        drop(updated);
    }));
    panicked.unwrap_err();
    check_reopened(&disk, IndexKind::Masstree, &[BEFORE]);
}

#[test]
fn a_database_dropped_by_a_subscriber_is_closed_by_another_thread() {
    for index in [IndexKind::Masstree, IndexKind::BTree] {
        let disk = MemoryVfs::new();
        let Opened { db, rows } = open(&disk, index);
        let last: Arc<Mutex<Option<Db>>> = Arc::default();
        let to_drop = Arc::clone(&last);
        db.subscribe_durable(Box::new(move |_| {
            let db = to_drop.lock().unwrap().take();
            if let Some(db) = &db {
                assert!(matches!(db.close(), Err(Error::Nested)));
            }
            drop(db);
        }));
        *last.lock().unwrap() = Some(db);
        // It may be closed before this is durable, and then this says so.
        let _ = rows.put_with(b"within", b"2", &Durability::Sync.into());
        await_closed(&disk, index);
        check_reopened(&disk, index, &[BEFORE]);
    }
}

#[test]
fn a_database_dropped_by_its_own_thread_is_closed_by_another() {
    let disk = MemoryVfs::new();
    let last: Arc<Mutex<Option<Db>>> = Arc::default();
    let to_drop = Arc::clone(&last);
    let refusal: Arc<Mutex<Option<Error>>> = Arc::default();
    let refused = Arc::clone(&refusal);
    let now = move || {
        if thread::current().name() == Some("hedgerow-expiry") {
            let db = to_drop.lock().unwrap().take();
            if let Some(db) = &db {
                *refused.lock().unwrap() = db.close().err();
            }
            drop(db);
        }
        1_000
    };
    let index = IndexKind::Masstree;
    let builder = builder(&disk, index).now(Box::new(now));
    let builder = builder.sweep_interval(Some(Duration::from_millis(1)));
    let db = builder.open(DIR).unwrap();
    db.keyspace("rows").unwrap().put(BEFORE, b"1").unwrap();
    *last.lock().unwrap() = Some(db);
    await_closed(&disk, index);
    // It cannot wait for itself.
    let refusal = refusal.lock().unwrap().take();
    assert!(matches!(refusal, Some(Error::Nested)), "{refusal:?}");
    check_reopened(&disk, index, &[BEFORE]);
}
