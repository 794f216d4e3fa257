//! The limit on values: the same number of the user's own bytes for every way to write one.

use hedgerow::{Action, Db, Durability, Error, IndexKind, Keyspace, Locks, Result, WriteOptions};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;
use std::sync::Arc;

over_each_index! {
    every_way_to_write_a_value_has_the_same_limit,
    every_way_to_write_columns_has_the_same_limit,
    what_adds_no_bytes_has_no_limit,
    a_commit_of_several_rows_has_a_limit,
}

const LIMIT: usize = 1_000;
const KEY: &[u8] = b"some key";

/// A way to make the row of a key this value.
type Write = fn(&Db, &Keyspace, &[u8]) -> Result<()>;

const EXPIRING: WriteOptions = WriteOptions {
    expiry_ms: Some(u64::MAX),
    user_flags: 7,
    durability: None,
    wait: true,
};

fn transact(
    db: &Db,
    rows: &Keyspace,
    run: impl FnOnce(&mut hedgerow::Transaction<'_>) -> Result<()>,
) -> Result<()> {
    let locks = Locks::Keys(&[(rows, KEY)]);
    db.transact(locks, &WriteOptions::default(), run).map(drop)
}

const WRITES: [(&str, Write); 11] = [
    ("put", |_, rows, value| rows.put(KEY, value).map(drop)),
    ("put with an expiry and flags", |_, rows, value| {
        rows.put_with(KEY, value, &EXPIRING).map(drop)
    }),
    ("update", |_, rows, value| {
        let options = WriteOptions::default();
        let updated = rows.update(KEY, &options, |_, new| {
            new.set_value(value).set_expiry_ms(Some(u64::MAX));
            new.set_user_flags(7);
            Action::Put(())
        });
        updated.map(drop)
    }),
    ("update with an owned value", |_, rows, value| {
        let options = WriteOptions::default();
        let updated = rows.update(KEY, &options, |_, new| {
            new.set_value_owned(value.to_vec());
            Action::Put(())
        });
        updated.map(drop)
    }),
    ("append", |_, rows, value| {
        let (head, tail) = value.split_at(value.len() / 2);
        rows.put_with(KEY, head, &EXPIRING)?;
        let options = WriteOptions::default();
        let updated = rows.update(KEY, &options, |row, new| {
            let head = row.and_then(|row| row.value()).unwrap_or_default();
            new.set_value(&[head, tail].concat());
            Action::Put(())
        });
        updated.map(drop)
    }),
    ("compare and swap", |_, rows, value| {
        let version = rows.version(KEY)?;
        rows.compare_and_swap(KEY, version, value).map(drop)
    }),
    ("batch", |db, rows, value| {
        let mut batch = db.batch();
        batch.put(rows, KEY, value);
        batch.commit(WriteOptions::default()).map(drop)
    }),
    ("batch with an expiry and flags", |db, rows, value| {
        let mut batch = db.batch();
        batch.put_with(rows, KEY, value, &EXPIRING);
        batch.commit(WriteOptions::default()).map(drop)
    }),
    ("transaction", |db, rows, value| {
        transact(db, rows, |tx| tx.put(rows, KEY, value))
    }),
    ("transaction with an expiry and flags", |db, rows, value| {
        transact(db, rows, |tx| tx.put_with(rows, KEY, value, &EXPIRING))
    }),
    ("update in a transaction", |db, rows, value| {
        transact(db, rows, |tx| {
            tx.update(rows, KEY, |_, new| {
                new.set_value(value).set_user_flags(7);
                Action::Put(())
            })
        })
    }),
];

fn database(index: IndexKind) -> (Db, Keyspace) {
    let db = builder_of(Some(index))
        .vfs(Arc::new(MemoryVfs::new()))
        .workers(2)
        .max_value_bytes(LIMIT)
        .open("/db")
        .unwrap();
    let rows = db.keyspace("rows").unwrap();
    (db, rows)
}

fn too_long(outcome: Result<()>) -> Option<(usize, usize)> {
    match outcome {
        Err(Error::ValueTooLong { bytes, limit }) => Some((bytes, limit)),
        Err(error) => panic!("{error}"),
        Ok(()) => None,
    }
}

fn every_way_to_write_a_value_has_the_same_limit(index: IndexKind) {
    let (db, rows) = database(index);
    for (name, write) in WRITES {
        let longest = vec![b'v'; LIMIT];
        assert_eq!(too_long(write(&db, &rows, &longest)), None, "{name}");
        assert_eq!(rows.get(KEY).unwrap().as_ref(), Some(&longest), "{name}");
        assert!(rows.remove(KEY).unwrap());
        let longer = vec![b'w'; LIMIT + 1];
        let refused = too_long(write(&db, &rows, &longer));
        assert_eq!(refused, Some((LIMIT + 1, LIMIT)), "{name}");
        let found = rows.get(KEY).unwrap();
        assert!(found.is_none_or(|value| value.len() < LIMIT), "{name}");
        rows.remove(KEY).unwrap();
    }
}

/// Of columns, the names and values of all that the row is to have.
fn every_way_to_write_columns_has_the_same_limit(index: IndexKind) {
    type Write = fn(&Db, &Keyspace, &[(&[u8], &[u8])]) -> Result<()>;
    const WRITES: [(&str, Write); 3] = [
        ("put_columns", |_, rows, columns| {
            rows.put_columns(KEY, columns).map(drop)
        }),
        ("batch", |db, rows, columns| {
            let mut batch = db.batch();
            batch.put_columns(rows, KEY, columns);
            batch.commit(WriteOptions::default()).map(drop)
        }),
        ("transaction", |db, rows, columns| {
            transact(db, rows, |tx| tx.put_columns(rows, KEY, columns))
        }),
    ];
    let (db, rows) = database(index);
    for (name, write) in WRITES {
        let longest = [(&b"a"[..], &[1; 499][..]), (b"b", &[2; 499])];
        assert_eq!(too_long(write(&db, &rows, &longest)), None, "{name}");
        let refused = too_long(write(&db, &rows, &[(b"b", &[2; 500])]));
        assert_eq!(refused, Some((LIMIT + 1, LIMIT)), "{name}");
        let refused = too_long(write(&db, &rows, &[(b"c", b"")]));
        assert_eq!(refused, Some((LIMIT + 1, LIMIT)), "{name}");
        assert_eq!(too_long(write(&db, &rows, &[(b"b", b"short")])), None);
        assert!(rows.remove(KEY).unwrap());
    }
}

/// Rows that are as long as may be, or longer than a limit that was lowered since.
fn what_adds_no_bytes_has_no_limit(index: IndexKind) {
    let disk = Arc::new(MemoryVfs::new());
    let open = |limit| {
        let builder = builder_of(Some(index)).vfs(Arc::<MemoryVfs>::clone(&disk));
        builder
            .workers(1)
            .max_value_bytes(limit)
            .open("/db")
            .unwrap()
    };
    let db = open(LIMIT);
    let rows = db.keyspace("rows").unwrap();
    rows.put(KEY, &[b'v'; LIMIT]).unwrap();
    let columns = [(&b"a"[..], &[1; 499][..]), (b"b", &[2; 499])];
    rows.put_columns(b"columns!", &columns).unwrap();
    db.close().unwrap();
    drop((rows, db));
    for limit in [LIMIT, LIMIT / 2] {
        let db = open(limit);
        let rows = db.keyspace("rows").unwrap();
        for key in [KEY, b"columns!"] {
            assert!(rows.expire(key, u64::MAX).unwrap());
            assert!(rows.persist(key).unwrap());
            let flags = rows.update(key, &WriteOptions::default(), |_, new| {
                new.set_user_flags(9);
                Action::Put(())
            });
            flags.unwrap();
        }
        let locks = Locks::Keys(&[(&rows, KEY)]);
        let expired = db.transact(locks, &WriteOptions::default(), |tx| {
            tx.update(&rows, KEY, |_, new| {
                new.set_expiry_ms(Some(u64::MAX));
                Action::Put(())
            })
        });
        expired.unwrap();
        db.close().unwrap();
    }
    let db = open(LIMIT / 2);
    let rows = db.keyspace("rows").unwrap();
    assert_eq!(rows.remove_columns(b"columns!", &[b"b"]).unwrap(), 1);
    assert_eq!(rows.get(KEY).unwrap(), Some(vec![b'v'; LIMIT]));
}

fn a_commit_of_several_rows_has_a_limit(index: IndexKind) {
    const COMMIT: usize = 10 * LIMIT;
    let disk = Arc::new(MemoryVfs::new());
    let open = || {
        let builder = builder_of(Some(index)).vfs(Arc::<MemoryVfs>::clone(&disk));
        let builder = builder.workers(1).max_commit_bytes(COMMIT);
        builder.open("/db").unwrap()
    };
    let db = open();
    let rows = db.keyspace("rows").unwrap();
    let key = |n: usize| format!("key{n:05}").into_bytes();
    let log_bytes = || db.statistics().get("log_generation_bytes");
    let batch = |count: usize| {
        let mut batch = db.batch();
        for n in 0..count {
            batch.put(&rows, &key(n), &[n as u8; LIMIT]);
        }
        assert_eq!(batch.len(), count);
        batch.commit(Durability::Sync)
    };
    let check = |failed: Result<()>| {
        let Err(Error::CommitTooLarge { bytes, limit }) = &failed else {
            panic!("{failed:?}");
        };
        assert!((*bytes, *limit) > (COMMIT, COMMIT - 1), "{failed:?}");
        let said = failed.unwrap_err().to_string();
        for part in ["10000", "several batches", "max_commit_bytes"] {
            assert!(said.contains(part), "{said}");
        }
    };
    let before = log_bytes();
    check(batch(10).map(drop));
    check(batch(1_000).map(drop));
    // The limit is not for a row alone, nor for what a row was before in the same transaction.
    let transact = |count: usize, distinct: usize| {
        db.transact(Locks::All, &WriteOptions::default(), |tx| {
            (0..count).try_for_each(|n| tx.put(&rows, &key(n % distinct), &[7; LIMIT]))
        })
    };
    check(transact(10, 10).map(drop));
    assert_eq!(
        (rows.len(), log_bytes()),
        (0, before),
        "nothing was written"
    );
    transact(100, 9).unwrap();
    batch(9).unwrap();
    rows.put(b"just one", &[1; 3 * COMMIT]).unwrap();
    let mut alone = db.batch();
    alone.put(&rows, b"is alone", &[2; 3 * COMMIT]);
    alone.commit(Durability::Sync).unwrap();
    let mut removals = db.batch();
    (0..1_000).for_each(|n| {
        removals.remove(&rows, &key(n));
    });
    check(removals.commit(Durability::Sync).map(drop));
    drop(rows);
    db.close().unwrap();
    let rows = open().open_keyspace("rows").unwrap();
    assert_eq!(rows.len(), 11);
    let invalid = Db::builder().max_commit_bytes((2 << 30) + 1).open("/db");
    assert!(matches!(invalid, Err(Error::InvalidOption(_))));
}
