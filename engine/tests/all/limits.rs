//! The limit on values: the same number of the user's own bytes for every way to write one.

use hedgerow::{Action, Db, Error, IndexKind, Keyspace, Locks, Result, WriteOptions};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;
use std::sync::Arc;

over_each_index! {
    every_way_to_write_a_value_has_the_same_limit,
    every_way_to_write_columns_has_the_same_limit,
    what_adds_no_bytes_has_no_limit,
}

const LIMIT: usize = 1_000;
const KEY: &[u8] = b"key";

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
    rows.put_columns(b"columns", &columns).unwrap();
    db.close().unwrap();
    drop((rows, db));
    for limit in [LIMIT, LIMIT / 2] {
        let db = open(limit);
        let rows = db.keyspace("rows").unwrap();
        for key in [KEY, b"columns"] {
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
    assert_eq!(rows.remove_columns(b"columns", &[b"b"]).unwrap(), 1);
    assert_eq!(rows.get(KEY).unwrap(), Some(vec![b'v'; LIMIT]));
}
