//! A test of every public call from within every closure that a public call takes: each returns. A
//! closure may run while its caller has locks. A call that would wait for these locks, or for a
//! thread that waits for them, is refused ([`Error::Nested`]); all others work.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::{
    Action, Commit, Db, Direction, Error, IndexKind, Keyspace, Locks, Result, Statistics,
    WriteOptions,
};

/// Nobody waits so long for anything but a deadlock.
const DEADLINE: Duration = Duration::from_secs(120);
const KEYS: [&[u8]; 3] = [b"key is a", b"key is b", b"key is c"];

struct Shared {
    db: Db,
    rows: Keyspace,
    written: Commit,
}

impl Shared {
    fn open(index: IndexKind) -> Shared {
        let vfs = Arc::new(hedgerow_vfs::MemoryVfs::new());
        let builder = Db::builder().index(index).workers(2).vfs(vfs);
        let builder = builder.memory_limit((index == IndexKind::BTree).then_some(2 << 20));
        let builder = builder.checkpoint_log_bytes(None).sweep_interval(None);
        let db = builder.now(Box::new(|| 1_000)).open("/db").unwrap();
        let rows = db.keyspace("rows").unwrap();
        let mut written = Commit::NOTHING;
        for key in KEYS {
            written = rows.put(key, b"value").unwrap();
        }
        db.create_keyspace("to drop").unwrap();
        db.create_keyspace("to clear").unwrap();
        Shared { db, rows, written }
    }

    /// A row that a sweep would remove.
    fn put_expired(&self) {
        let options = WriteOptions {
            expiry_ms: Some(500),
            ..WriteOptions::default()
        };
        let put = self.rows.put_with(b"expired!", b"value", &options);
        put.unwrap();
    }
}

/// Whether a call takes locks, and so what is to come of it inside a closure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CallLocks {
    /// Works everywhere.
    None,
    /// Takes locks: refused where the caller may hold some.
    Takes,
}

type Call = fn(&Shared) -> Result<()>;

fn options() -> WriteOptions {
    WriteOptions::default()
}

const READS: [(&str, Call); 25] = [
    ("read", |s| s.rows.read(b"key is a", |_| ()).map(drop)),
    ("get", |s| s.rows.get(b"key is a").map(drop)),
    ("contains", |s| s.rows.contains(b"key is b").map(drop)),
    ("version", |s| s.rows.version(b"key is a").map(drop)),
    ("get_many", |s| s.rows.get_many(&KEYS, |_, _| ())),
    ("prefetch_many", |s| {
        s.rows.prefetch_many(&KEYS);
        Ok(())
    }),
    ("get_columns", |s| {
        s.rows.get_columns(b"key is a", &[]).map(drop)
    }),
    ("range", |s| s.rows.range(..)?.try_for_each(|e| e.map(drop))),
    ("prefix", |s| {
        let mut reverse = s.rows.prefix("key is a")?.rev();
        reverse.try_for_each(|e| e.map(drop))
    }),
    ("scan", |s| {
        let visit = |_: &[u8], _: crate::Row<'_>| ControlFlow::Continue(());
        s.rows.scan(.., Direction::Reverse, visit)
    }),
    ("scan_up_to", |s| {
        let visit = |_: &[u8], _: crate::Row<'_>| ControlFlow::Break(());
        s.rows.scan_up_to(.., Direction::Forward, 2, visit)
    }),
    ("count", |s| s.rows.count(..).map(drop)),
    ("len", |s| {
        let _ = (s.rows.len(), s.rows.expiring(), s.rows.is_empty());
        Ok(())
    }),
    ("index_statistics", |s| s.rows.index_statistics().map(drop)),
    ("keyspace", |s| s.db.keyspace("rows").map(drop)),
    ("open_keyspace", |s| s.db.open_keyspace("rows").map(drop)),
    ("keyspaces", |s| {
        assert!(s.db.keyspaces().len() >= 2);
        Ok(())
    }),
    ("statistics", |s| {
        let _: Statistics = s.db.statistics();
        Ok(())
    }),
    ("health", |s| {
        let _ = (s.db.health(), s.db.not_replayed(), s.db.is_in_memory());
        Ok(())
    }),
    ("write_out", |s| s.db.write_out()),
    ("request_durable", |s| {
        s.db.request_durable(&s.written);
        let _ = s.db.is_durable(&s.written);
        Ok(())
    }),
    ("wait_durable", |s| s.db.wait_durable(&s.written)),
    ("sync", |s| s.db.sync()),
    ("verify", |s| s.db.verify().map(drop)),
    ("check_has_files", |s| s.db.engine().check_has_files()),
];

const LOCKING: [(&str, Call); 26] = [
    ("put", |s| s.rows.put(b"key is a", b"new").map(drop)),
    ("put of another key", |s| {
        s.rows.put(b"key is z", b"new").map(drop)
    }),
    ("put_with", |s| {
        s.rows.put_with(b"key is b", b"new", &options()).map(drop)
    }),
    ("put in another keyspace", |s| {
        let other = s.db.open_keyspace("to clear")?;
        other.put(b"key is a", b"new").map(drop)
    }),
    ("remove", |s| s.rows.remove(b"key is c").map(drop)),
    ("update", |s| {
        let updated = s.rows.update(b"key is a", &options(), |_, new| {
            new.set_value(b"new");
            Action::Put(())
        });
        updated.map(drop)
    }),
    ("update that keeps the row", |s| {
        let kept = s
            .rows
            .update(b"key is a", &options(), |_, _| Action::Keep(()));
        kept.map(drop)
    }),
    ("compare_and_swap", |s| {
        let version = s.rows.version(b"key is a")?;
        s.rows
            .compare_and_swap(b"key is a", version, b"new")
            .map(drop)
    }),
    ("put_columns", |s| {
        s.rows.put_columns(b"key is d", &[(b"n", b"v")]).map(drop)
    }),
    ("remove_columns", |s| {
        s.rows.remove_columns(b"key is d", &[b"n"]).map(drop)
    }),
    ("expire", |s| s.rows.expire(b"key is a", 5_000).map(drop)),
    ("persist", |s| s.rows.persist(b"key is a").map(drop)),
    ("delete_range", |s| {
        s.rows.delete_range("key is b".."key is c").map(drop)
    }),
    ("delete_range of nothing", |s| {
        s.rows.delete_range("y".."z").map(drop)
    }),
    ("watch", |s| s.rows.watch(b"key is a").map(drop)),
    ("watch of an absent key", |s| {
        s.rows.watch(b"key is z").map(drop)
    }),
    ("batch", |s| {
        let mut batch = s.db.batch();
        batch
            .put(&s.rows, b"key is a", b"new")
            .remove(&s.rows, b"key is b");
        batch.commit(options()).map(drop)
    }),
    ("transact on keys", |s| {
        let locks = Locks::Keys(&[(&s.rows, b"key is a")]);
        let put = |tx: &mut crate::Transaction<'_>| tx.put(&s.rows, b"key is a", b"new");
        s.db.transact(locks, &options(), put).map(drop)
    }),
    ("transact on all", |s| {
        s.db.transact(Locks::All, &options(), |_| Ok(())).map(drop)
    }),
    ("create_keyspace", |s| {
        let created = s.db.create_keyspace("created").map(drop);
        let already = matches!(created, Err(Error::KeyspaceExists(_)));
        if already { Ok(()) } else { created }
    }),
    ("clear_keyspace", |s| s.db.clear_keyspace("to clear")),
    ("drop_keyspace", |s| {
        s.db.drop_keyspace("to drop")?;
        s.db.create_keyspace("to drop").map(drop)
    }),
    ("sweep_expired", |s| s.db.sweep_expired().map(drop)),
    ("checkpoint", |s| s.db.checkpoint().map(drop)),
    ("close", |s| s.db.close()),
    ("discard", |s| s.db.discard().map(drop)),
];

/// Runs `call` within the closure of some call, once.
type Within = fn(&Shared, &mut dyn FnMut());

/// Closures whose callers hold nothing that others wait for.
const LOCK_FREE: [(&str, Within); 4] = [
    ("read", |s, call| {
        s.rows.read(b"key is a", |_| call()).unwrap();
    }),
    ("scan", |s, call| {
        let visit = |_: &[u8], _: crate::Row<'_>| {
            call();
            ControlFlow::Break(())
        };
        s.rows.scan(.., Direction::Forward, visit).unwrap();
    }),
    ("scan in reverse", |s, call| {
        let visit = |_: &[u8], _: crate::Row<'_>| {
            call();
            ControlFlow::Break(())
        };
        let scanned = s.rows.scan_up_to(.., Direction::Reverse, 2, visit);
        scanned.unwrap();
    }),
    ("scan_keys", |s, call| {
        let visit = |_: &[u8]| {
            call();
            ControlFlow::Break(())
        };
        s.rows.scan_keys(.., Direction::Forward, visit).unwrap();
    }),
];

/// Closures whose callers hold locks, or have commits wait for them.
const WITH_LOCKS: [(&str, Within); 9] = [
    ("get_many", |s, call| {
        let first = |i: usize, _: Option<crate::Row<'_>>| {
            if i == 0 {
                call();
            }
        };
        s.rows.get_many(&KEYS, first).unwrap();
    }),
    ("get_many that locks", get_many_that_locks),
    ("update", |s, call| {
        let decide = |_: Option<crate::Row<'_>>, _: &mut crate::RowBuilder<'_>| {
            call();
            Action::Keep(())
        };
        s.rows.update(b"key is a", &options(), decide).unwrap();
    }),
    ("update of an absent row", |s, call| {
        let decide = |_: Option<crate::Row<'_>>, new: &mut crate::RowBuilder<'_>| {
            call();
            new.set_value(b"value");
            Action::Put(())
        };
        s.rows.update(b"absent!!", &options(), decide).unwrap();
        s.rows.remove(b"absent!!").unwrap();
    }),
    ("transact on keys", |s, call| {
        let locks = Locks::Keys(&[(&s.rows, b"key is a"), (&s.rows, b"key is b")]);
        let run = |_: &mut crate::Transaction<'_>| {
            call();
            Ok(())
        };
        s.db.transact(locks, &options(), run).unwrap();
    }),
    ("transact on all", |s, call| {
        let run = |tx: &mut crate::Transaction<'_>| {
            call();
            tx.put(&s.rows, b"key is a", b"value")
        };
        s.db.transact(Locks::All, &options(), run).unwrap();
    }),
    ("read in a transaction", |s, call| {
        let run = |tx: &mut crate::Transaction<'_>| tx.read(&s.rows, b"key is a", |_| call());
        s.db.transact(Locks::All, &options(), run).unwrap();
    }),
    ("scan in a transaction", |s, call| {
        let run = |tx: &mut crate::Transaction<'_>| {
            let visit = |_: &[u8], _: crate::Row<'_>| {
                call();
                ControlFlow::Break(())
            };
            tx.scan(&s.rows, .., Direction::Forward, visit)
        };
        s.db.transact(Locks::All, &options(), run).unwrap();
    }),
    ("update in a transaction", |s, call| {
        let run = |tx: &mut crate::Transaction<'_>| {
            tx.update(&s.rows, b"key is a", |_, _| {
                call();
                Action::Keep(())
            })
        };
        s.db.transact(Locks::All, &options(), run).unwrap();
    }),
];

/// A batch of reads that finds no moment without commits of several keys, and so locks its keys.
fn get_many_that_locks(s: &Shared, call: &mut dyn FnMut()) {
    let multi = &s.db.engine().stripes.multi;
    let (begun, begins) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let run = |_: &mut crate::Transaction<'_>| {
                begun.send(()).unwrap();
                // The batch counts as a second one when it begins to lock.
                while multi.load(Ordering::SeqCst) < 2 {
                    thread::yield_now();
                }
                Ok(())
            };
            s.db.transact(Locks::All, &options(), run).unwrap();
        });
        begins.recv().unwrap();
        let first = |i: usize, _: Option<crate::Row<'_>>| {
            if i == 0 {
                call();
            }
        };
        s.rows.get_many(&KEYS, first).unwrap();
    });
}

/// Runs one pair on a thread of its own; what the call returned.
fn run(shared: &Arc<Shared>, names: &str, within: Within, call: Call) -> Result<()> {
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::clone(shared);
    let thread = thread::spawn(move || {
        let mut outcome = None;
        within(&shared, &mut || outcome = Some(call(&shared)));
        let _ = sender.send(());
        outcome.expect("the closure was called")
    });
    match receiver.recv_timeout(DEADLINE) {
        // The thread, which may have panicked, says more.
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        },
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{names}: hangs"),
    }
}

fn check(index: IndexKind, within: (&str, Within), locks: CallLocks, calls: &[(&str, Call)]) {
    let caller_locks = WITH_LOCKS.iter().any(|(name, _)| *name == within.0)
        && !LOCK_FREE.iter().any(|(name, _)| *name == within.0);
    let mut shared = Arc::new(Shared::open(index));
    for (name, call) in calls {
        let names = format!("{index:?}: {name} in {}", within.0);
        shared.put_expired();
        let outcome = run(&shared, &names, within.1, *call);
        match outcome {
            Err(Error::Nested) if caller_locks && locks == CallLocks::Takes => {}
            Ok(()) if !caller_locks || locks == CallLocks::None => {}
            outcome => panic!("{names}: {outcome:?}"),
        }
        if !caller_locks && locks == CallLocks::Takes {
            shared = Arc::new(Shared::open(index));
        }
        // Whatever came of it, everybody can go on.
        let options = options();
        let after = |s: &Shared| s.db.transact(Locks::All, &options, |_| Ok(()));
        after(&shared).unwrap_or_else(|error| panic!("after {names}: {error}"));
    }
}

fn check_all(index: IndexKind) {
    for within in LOCK_FREE.into_iter().chain(WITH_LOCKS) {
        check(index, within, CallLocks::None, &READS);
        check(index, within, CallLocks::Takes, &LOCKING);
    }
}

#[test]
fn every_call_within_every_closure_returns_over_masstree() {
    check_all(IndexKind::Masstree);
}

#[test]
fn every_call_within_every_closure_returns_over_matryoshka() {
    check_all(IndexKind::Matryoshka);
}

#[test]
fn every_call_within_every_closure_returns_over_bwtree() {
    check_all(IndexKind::BwTree);
}

#[test]
fn every_call_within_every_closure_returns_over_bst() {
    check_all(IndexKind::Bst);
}

#[test]
fn every_call_within_every_closure_returns_over_btree() {
    check_all(IndexKind::BTree);
}

#[test]
fn every_call_within_every_closure_returns_over_locked_map() {
    check_all(IndexKind::LockedMap);
}
