//! Of one key the later commit wins, whichever thread made it and wherever its record lies: in the
//! tree, and in what a process that is killed leaves behind.
//!
//! Timestamps grow within a log shard and within a key, not along the clock: so a thread whose
//! shard had few commits in this epoch would take small ones if nothing told it of the key's last.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow::{
    Action, Builder, Db, Direction, Durability, IndexKind, Keyspace, Locks, Timestamp, WriteOptions,
};
use hedgerow_testkit::databases::{builder_of, key_of};
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;

over_each_index! {
    a_later_commit_wins_whichever_thread_made_it,
    rows_that_many_threads_write_are_recovered_as_they_were;
    any width:
    the_empty_key_comes_and_goes,
}

const DIR: &str = "/db";

fn builder(index: IndexKind, disk: &MemoryVfs) -> Builder {
    builder_of(Some(index))
        .vfs(Arc::new(disk.clone()))
        .workers(2)
        .durability(Durability::Periodic)
        // The longest there is: commits that follow one another share an epoch.
        .flush_interval(Duration::from_millis(200))
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
}

/// The database as it is recovered when the process is killed now.
fn killed(db: &Db, index: IndexKind, disk: &MemoryVfs) -> Db {
    db.write_out().unwrap();
    builder(index, &disk.deep_clone())
        .open(Path::new(DIR))
        .unwrap()
}

/// When a row was written, its value, and its columns.
type Seen = (Timestamp, Option<Vec<u8>>, Vec<(Vec<u8>, Vec<u8>)>);

/// All rows, in whole.
fn rows(db: &Db) -> BTreeMap<Vec<u8>, Seen> {
    let mut all = BTreeMap::new();
    let keyspace = db.keyspace("rows").unwrap();
    let visit = |key: &[u8], row: hedgerow::Row<'_>| {
        let columns = row.columns();
        let columns = columns.map(|(name, value)| (name.to_vec(), value.to_vec()));
        let value = row.value().map(<[u8]>::to_vec);
        let seen = (row.timestamp(), value, columns.collect());
        all.insert(key.to_vec(), seen);
        ControlFlow::Continue(())
    };
    keyspace.scan(.., Direction::Forward, visit).unwrap();
    all
}

/// A way to write over a row, and what its value is then.
type Later = fn(&Db, &Keyspace, &[u8]) -> Option<&'static [u8]>;

const LATER: [(&str, Later); 6] = [
    ("put", |_, keyspace, key| {
        keyspace.put(key, b"later").unwrap();
        Some(b"later")
    }),
    ("remove", |_, keyspace, key| {
        assert!(keyspace.remove(key).unwrap());
        None
    }),
    ("update", |_, keyspace, key| {
        let options = WriteOptions::default();
        let updated = keyspace.update(key, &options, |old, new| {
            assert_eq!(old.unwrap().value(), Some(&b"earlier"[..]));
            new.set_value(b"updated");
            Action::Put(())
        });
        updated.unwrap();
        Some(b"updated")
    }),
    ("range", |_, keyspace, key| {
        assert_eq!(
            keyspace.delete_range(key.to_vec()..=key.to_vec()).unwrap(),
            1
        );
        None
    }),
    ("batch", |db, keyspace, key| {
        let mut batch = db.batch();
        batch.put(keyspace, key, b"batched");
        batch.put(keyspace, b"a second", b"batched");
        batch.commit(WriteOptions::default()).unwrap();
        Some(b"batched")
    }),
    ("transaction", |db, keyspace, key| {
        let locks = [(keyspace, key), (keyspace, &b"a second"[..])];
        let options = WriteOptions::default();
        db.transact(Locks::Keys(&locks), &options, |tx| {
            tx.remove(keyspace, key)?;
            tx.put(keyspace, b"a second", b"1")
        })
        .unwrap();
        None
    }),
];

fn a_later_commit_wins_whichever_thread_made_it(index: IndexKind) {
    let disk = MemoryVfs::new();
    let db = builder(index, &disk).open(Path::new(DIR)).unwrap();
    let keyspace = db.keyspace("rows").unwrap();
    let mut expected = Vec::new();
    for thread in 0..6 {
        for (name, later) in LATER {
            let key = key_of(
                Some(index),
                format!("{}/{thread}", &name[..5.min(name.len())]),
            );
            // This thread's shard is far ahead, in this epoch, of that of a thread that comes now.
            for n in 0..200_u32 {
                keyspace
                    .put(&u64::from(n).to_be_bytes(), b"earlier")
                    .unwrap();
            }
            keyspace.put(&key, b"earlier").unwrap();
            // Half of such threads have another shard.
            let value = std::thread::scope(|scope| {
                let later = scope.spawn(|| later(&db, &keyspace, &key));
                later.join().unwrap()
            });
            expected.push((key, value));
        }
    }
    let recovered = killed(&db, index, &disk);
    for db in [&db, &recovered] {
        let keyspace = db.keyspace("rows").unwrap();
        for (key, value) in &expected {
            let found = keyspace.get(key).unwrap();
            assert_eq!(found.as_deref(), *value, "{}", key.escape_ascii());
        }
    }
    assert_eq!(rows(&db), rows(&recovered));
}

fn rows_that_many_threads_write_are_recovered_as_they_were(index: IndexKind) {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 1_500;
    let disk = MemoryVfs::new();
    let db = builder(index, &disk).open(Path::new(DIR)).unwrap();
    let keyspace = db.keyspace("rows").unwrap();
    for part in 1..4 {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let keyspace = &keyspace;
                scope.spawn(move || {
                    let name = [thread as u8];
                    for round in 0..ROUNDS {
                        // Threads of different pace, so that their shards are apart.
                        if round % THREADS < thread {
                            keyspace
                                .put(&key_of(Some(index), [0, thread as u8]), b"own")
                                .unwrap();
                        }
                        let key = key_of(Some(index), [1, (round % 7) as u8]);
                        match (round + thread) % 16 {
                            0 => drop(keyspace.remove(&key).unwrap()),
                            1..4 => drop(keyspace.put(&key, &round.to_be_bytes()).unwrap()),
                            _ => {
                                let value = round.to_be_bytes();
                                keyspace.put_columns(&key, &[(&name, &value)]).unwrap();
                            }
                        }
                    }
                });
            }
        });
        let recovered = killed(&db, index, &disk);
        assert_eq!(rows(&db), rows(&recovered), "part {part}");
    }
}

fn the_empty_key_comes_and_goes(index: IndexKind) {
    let disk = MemoryVfs::new();
    let db = builder(index, &disk).open(Path::new(DIR)).unwrap();
    let keyspace = db.keyspace("rows").unwrap();
    for round in 0..20_u8 {
        keyspace.put(b"", &[round]).unwrap();
        assert!(keyspace.remove(b"").unwrap());
        if round % 2 == 0 {
            keyspace.put(b"", b"again").unwrap();
        }
        assert_eq!(rows(&db), rows(&killed(&db, index, &disk)), "round {round}");
    }
}
