//! One transaction that locks nothing: what it sees of its own writes, columns among them, and how
//! parts of it are undone.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use hedgerow::{
    Action, Db, Direction, Durability, Error, IndexKind, Isolation, Keyspace,
    OptimisticTransaction, Result, Timestamp, WriteOptions, prefix_end,
};
use hedgerow_testkit::databases::builder_of;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::snapshots::{Rows, key, open};

over_each_index! {
    own_writes_are_seen_in_every_read,
    own_rows_have_their_attributes_and_no_timestamp_yet,
    columns_are_read_written_and_removed,
    a_write_of_another_column_of_a_row_is_a_conflict,
    a_part_that_fails_is_undone_and_what_it_read_counts,
    discarded_writes_come_back_if_the_part_that_discarded_them_fails,
}

pub(crate) const BOTH: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

/// A database with small limits: of versions, and of commits.
pub(crate) fn open_small(
    index: IndexKind,
    version_bytes: usize,
    commit_bytes: usize,
) -> (Db, Keyspace) {
    let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
    let builder = builder.workers(2).sweep_interval(None);
    let builder = builder.version_memory(Some(version_bytes));
    let builder = builder.now(Box::new(|| 1_000));
    let db = builder.max_commit_bytes(commit_bytes).open("/db").unwrap();
    let rows = db.keyspace("rows").unwrap();
    (db, rows)
}

pub(crate) fn fail() -> Result<()> {
    Err(Error::NotLocked)
}

/// Keys of this number belong to others.
fn is_others(number: u64) -> bool {
    number.is_multiple_of(3)
}

const NUMBERS: u64 = 400;

fn own_writes_are_seen_in_every_read(index: IndexKind) {
    let db = open(index);
    let rows = db.keyspace("rows").unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let mut stored = Rows::new();
    for round in 0..6_u64 {
        // From none to nearly all.
        for number in (0..NUMBERS).filter(|number| number % 6 < round) {
            rows.put(&key(index, number), b"stored").unwrap();
            stored.insert(key(index, number), b"stored".to_vec());
        }
        let mut tx = db.begin(Isolation::Snapshot).unwrap();
        let mut model = stored.clone();
        for step in 0..160_u64 {
            own_write(&mut tx, &rows, &mut model, index, &mut rng);
            // Nobody in it sees this.
            let others = 3 * rng.random_range(0..NUMBERS / 3);
            match rng.random_range(0..2) {
                0 => drop(rows.put(&key(index, others), b"of others").unwrap()),
                _ => drop(rows.remove(&key(index, others)).unwrap()),
            }
            if step % 20 == 19 {
                check_reads(&tx, &rows, &model, index, &mut rng);
            }
        }
        let number = |key: &[u8]| -> u64 { str::from_utf8(&key[1..5]).unwrap().parse().unwrap() };
        let own = |key: &[u8]| !is_others(number(key));
        let present = present(&rows);
        let is_untouched = |(key, value): (&Vec<u8>, _)| stored.get(key) == Some(value);
        assert!(present.iter().filter(|(key, _)| own(key)).all(is_untouched));
        tx.commit(Durability::Periodic).unwrap();
        let expected = present.into_iter().filter(|(key, _)| !own(key));
        let written = model.into_iter().filter(|(key, _)| own(key));
        stored = expected.chain(written).collect();
        assert_eq!(self::present(&rows), stored, "round {round}");
    }
}

pub(crate) fn present(rows: &Keyspace) -> Rows {
    let present = rows.range(..).unwrap();
    present.map(|entry| entry.unwrap().to_pair()).collect()
}

fn own_write(
    tx: &mut OptimisticTransaction,
    rows: &Keyspace,
    model: &mut Rows,
    index: IndexKind,
    rng: &mut StdRng,
) {
    let number = 3 * rng.random_range(0..NUMBERS / 3) + rng.random_range(1..3);
    let key = key(index, number);
    match rng.random_range(0..5) {
        0..2 => {
            let value = rng.random::<u64>().to_le_bytes();
            tx.put(rows, &key, &value).unwrap();
            model.insert(key, value.to_vec());
        }
        2..4 => {
            let removed = tx.remove(rows, &key).unwrap();
            assert_eq!(removed, model.remove(&key).is_some());
        }
        _ => {
            let before = tx.update(rows, &key, |row, new| {
                new.set_value(b"updated");
                Action::Put(row.map(|row| row.value().unwrap().to_vec()))
            });
            let after = model.insert(key, b"updated".to_vec());
            assert_eq!(before.unwrap(), after);
        }
    }
}

type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Ranges of all forms, of which some are empty or inside out.
fn some_bounds(index: IndexKind, rng: &mut StdRng) -> KeyBounds {
    let bound = |rng: &mut StdRng| {
        let key = key(index, rng.random_range(0..NUMBERS + 5));
        match rng.random_range(0..5) {
            0..2 => Bound::Included(key),
            2..4 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        }
    };
    match rng.random_range(0..8) {
        0 => {
            let prefix = format!("k0{:02}", rng.random_range(0..NUMBERS / 10));
            let end = prefix_end(prefix.as_bytes());
            (Bound::Included(prefix.into_bytes()), end)
        }
        _ => (bound(rng), bound(rng)),
    }
}

/// The rows of a range, in an order.
fn rows_within(model: &Rows, bounds: &KeyBounds, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let starts = |key: &Vec<u8>| match &bounds.0 {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let ends = |key: &Vec<u8>| match &bounds.1 {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    let within = model.iter().filter(|(key, _)| starts(key) && ends(key));
    let mut within: Vec<_> = within.map(|(k, v)| (k.clone(), v.clone())).collect();
    if direction == Direction::Reverse {
        within.reverse();
    }
    within
}

/// All kinds of reads of a transaction against what it has to see.
fn check_reads(
    tx: &OptimisticTransaction,
    rows: &Keyspace,
    model: &Rows,
    index: IndexKind,
    rng: &mut StdRng,
) {
    for limit in [0, 1, 2, 5, 17, 100, usize::MAX] {
        for direction in [Direction::Forward, Direction::Reverse] {
            let bounds = match limit {
                usize::MAX => (Bound::Unbounded, Bound::Unbounded),
                _ => some_bounds(index, rng),
            };
            let mut expected = rows_within(model, &bounds, direction);
            let count = tx.count(rows, bounds.clone()).unwrap();
            assert_eq!(count, expected.len() as u64, "{bounds:?}");
            expected.truncate(limit);
            let found = tx.range(rows, bounds.clone(), direction, limit).unwrap();
            let found: Vec<_> = found.iter().map(hedgerow::Entry::to_pair).collect();
            assert_eq!(found, expected, "{bounds:?} {direction:?} {limit}");
        }
    }
    let mut numbers: Vec<u64> = (0..60).map(|_| rng.random_range(0..NUMBERS)).collect();
    numbers.extend_from_within(..10);
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(index, *number)).collect();
    let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = vec![None; keys.len()];
    let read = |i: usize, row: Option<hedgerow::Row<'_>>| {
        let value = row.map(|row| row.value().unwrap().to_vec());
        assert!(found[i].replace(value).is_none(), "{i} was read twice");
    };
    tx.get_many(rows, &wanted, read).unwrap();
    for (key, found) in keys.iter().zip(found) {
        let name = key.escape_ascii();
        assert_eq!(found.unwrap().as_ref(), model.get(key), "{name}");
        assert_eq!(
            tx.get(rows, key).unwrap().as_ref(),
            model.get(key),
            "{name}"
        );
        assert_eq!(tx.contains(rows, key).unwrap(), model.contains_key(key));
    }
}

fn own_rows_have_their_attributes_and_no_timestamp_yet(index: IndexKind) {
    let (db, rows) = open_small(index, 1 << 20, 1 << 20);
    let (kept, expired) = (key(index, 1), key(index, 2));
    rows.put(&expired, b"stored").unwrap();
    let mut tx = db.begin(Isolation::Serializable).unwrap();
    let attributes = WriteOptions::default().expiry_ms(2_000).user_flags(77);
    tx.put_with(&rows, &kept, b"own", &attributes).unwrap();
    let seen = |row: hedgerow::Row<'_>| (row.timestamp(), row.expiry_ms(), row.user_flags());
    let own = (Timestamp::ZERO, Some(2_000), 77);
    assert_eq!(tx.read(&rows, &kept, seen).unwrap(), Some(own));
    // By the time of its beginning.
    let before = WriteOptions::default().expiry_ms(1_000);
    tx.put_with(&rows, &expired, b"own", &before).unwrap();
    assert!(!tx.contains(&rows, &expired).unwrap());
    assert_eq!(tx.count(&rows, ..).unwrap(), 1);
    let mut found = 0;
    let count = |_, row: Option<hedgerow::Row<'_>>| found += u32::from(row.is_some());
    tx.get_many(&rows, &[&expired, &kept], count).unwrap();
    assert_eq!((found, tx.rows_written()), (1, 2));
    let commit = tx.commit(Durability::Periodic).unwrap();
    let committed = (commit.timestamp, Some(2_000), 77);
    assert_eq!(rows.read(&kept, seen).unwrap(), Some(committed));
    assert!(!rows.contains(&expired).unwrap());
    assert_eq!(db.sweep_expired().unwrap(), 1);
    assert_eq!((rows.len(), rows.expiring()), (1, 1));
}

type Columns = BTreeMap<Vec<u8>, Vec<u8>>;

fn columns_of(row: hedgerow::Row<'_>) -> Columns {
    let columns = row.columns();
    columns.map(|(n, v)| (n.to_vec(), v.to_vec())).collect()
}

fn columns(pairs: &[(&str, &str)]) -> Columns {
    let pairs = pairs.iter();
    pairs.map(|(n, v)| ((*n).into(), (*v).into())).collect()
}

fn columns_are_read_written_and_removed(index: IndexKind) {
    let db = open(index);
    let rows = db.keyspace("rows").unwrap();
    let (ada, bob) = (key(index, 1), key(index, 2));
    rows.put_columns(&ada, &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
        .unwrap();
    for isolation in BOTH {
        let before = rows.read(&ada, columns_of).unwrap();
        let mut tx = db.begin(isolation).unwrap();
        tx.put_columns(&rows, &ada, &[(b"b", b"22"), (b"d", b"4")])
            .unwrap();
        tx.put_columns(&rows, &bob, &[(b"x", b"9")]).unwrap();
        tx.put_columns(&rows, &bob, &[]).unwrap();
        let expected = columns(&[("a", "1"), ("b", "22"), ("c", "3"), ("d", "4")]);
        assert_eq!(tx.read(&rows, &ada, columns_of).unwrap(), Some(expected));
        let removed = tx.update(&rows, &ada, |_, new| {
            new.remove_column(b"c").set_column(b"a", b"11");
            Action::Put(())
        });
        removed.unwrap();
        let expected = columns(&[("a", "11"), ("b", "22"), ("d", "4")]);
        let read = |key: &[u8]| tx.read(&rows, key, columns_of).unwrap();
        assert_eq!(read(&ada).as_ref(), Some(&expected));
        assert_eq!(read(&bob), Some(columns(&[("x", "9")])));
        let mut scanned = Vec::new();
        let visit = |_: &[u8], row: hedgerow::Row<'_>| {
            scanned.push(columns_of(row));
            ControlFlow::Continue(())
        };
        tx.scan(&rows, .., Direction::Reverse, visit).unwrap();
        assert_eq!(scanned, [columns(&[("x", "9")]), expected.clone()]);
        // A row of columns has no plain value.
        assert_eq!(tx.get(&rows, &ada).unwrap(), None);
        assert_eq!(rows.read(&ada, columns_of).unwrap(), before);
        assert!(!rows.contains(&bob).unwrap());
        tx.commit(Durability::Periodic).unwrap();
        assert_eq!(rows.read(&ada, columns_of).unwrap(), Some(expected));
        assert!(rows.remove(&bob).unwrap());
        rows.put_columns(&ada, &[(b"b", b"2"), (b"c", b"3"), (b"a", b"1")])
            .unwrap();
    }
}

fn a_write_of_another_column_of_a_row_is_a_conflict(index: IndexKind) {
    let db = open(index);
    let rows = db.keyspace("rows").unwrap();
    let (ada, bob) = (key(index, 1), key(index, 2));
    let others: [fn(&Keyspace, &[u8]); 2] = [
        |rows, key| assert!(rows.put_columns(key, &[(b"b", b"20")]).unwrap().is_some()),
        |rows, key| assert_eq!(rows.remove_columns(key, &[b"b"]).unwrap(), 1),
    ];
    for (isolation, write) in BOTH
        .into_iter()
        .flat_map(|i| others.map(|write| (i, write)))
    {
        let fresh: [(&[u8], &[u8]); 2] = [(b"a", b"1"), (b"b", b"2")];
        rows.put_columns(&ada, &fresh).unwrap();
        let mut tx = db.begin(isolation).unwrap();
        tx.put_columns(&rows, &ada, &[(b"a", b"10")]).unwrap();
        write(&rows, &ada);
        let refused = tx.commit(Durability::Periodic).unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
        let a = rows.get_columns(&ada, &[b"a"]).unwrap().unwrap();
        assert_eq!(a[0].as_deref(), Some(&b"1"[..]));
        // One column is read, and another row written.
        rows.put_columns(&ada, &fresh).unwrap();
        let mut tx = db.begin(isolation).unwrap();
        let a = tx.read(&rows, &ada, |row| row.column(b"a").map(<[u8]>::to_vec));
        assert_eq!(a.unwrap().unwrap().unwrap(), b"1");
        tx.put_columns(&rows, &bob, &[(b"a", b"1")]).unwrap();
        write(&rows, &ada);
        let outcome = tx.commit(Durability::Periodic);
        let is_serializable = isolation == Isolation::Serializable;
        assert_eq!(outcome.is_err_and(|e| e.is_conflict()), is_serializable);
    }
}

/// Parts that fail and parts that do not, one within the other.
fn parts(tx: &mut OptimisticTransaction, rows: &Keyspace, key: impl Fn(u64) -> Vec<u8>) {
    tx.put(rows, &key(1), b"before").unwrap();
    let done = tx.nested(|tx| {
        tx.put(rows, &key(1), b"within")?;
        let inner = tx.nested(|tx| {
            tx.put(rows, &key(1), b"innermost")?;
            assert!(tx.remove(rows, &key(0))?);
            tx.put(rows, &key(3), &[7; 3_000])?;
            assert_eq!(tx.count(rows, ..)?, 2);
            fail()
        });
        assert!(matches!(inner, Err(Error::NotLocked)));
        assert_eq!(tx.get(rows, &key(1))?.as_deref(), Some(&b"within"[..]));
        assert_eq!(tx.get(rows, &key(0))?.as_deref(), Some(&b"stored"[..]));
        // What was undone counts no more.
        tx.put(rows, &key(4), &[8; 3_000])
    });
    done.unwrap();
    let outer = tx.nested(|tx| {
        tx.nested(|tx| tx.put(rows, &key(5), b"done"))?;
        assert!(tx.remove(rows, &key(1))?);
        tx.put(rows, &key(4), b"short")?;
        fail()
    });
    assert!(outer.is_err());
    assert!(!tx.contains(rows, &key(5)).unwrap());
    tx.put(rows, &key(9), b"after").unwrap();
    assert_eq!(tx.rows_written(), 3);
}

fn a_part_that_fails_is_undone_and_what_it_read_counts(index: IndexKind) {
    let (db, rows) = open_small(index, 1 << 20, 4_000);
    let other = db.keyspace("other").unwrap();
    let key = |number: u64| key(index, number);
    for isolation in BOTH {
        rows.delete_range(..).unwrap();
        rows.put(&key(0), b"stored").unwrap();
        let mut tx = db.begin(isolation).unwrap();
        parts(&mut tx, &rows, key);
        tx.commit(Durability::Periodic).unwrap();
        let value = |number: u64| rows.get(&key(number)).unwrap();
        assert_eq!(value(0).as_deref(), Some(&b"stored"[..]));
        assert_eq!(value(1).as_deref(), Some(&b"within"[..]));
        assert_eq!(value(4).as_deref(), Some(&[8; 3_000][..]));
        assert_eq!(value(9).as_deref(), Some(&b"after"[..]));
        assert_eq!(rows.len(), 4);
        // It was read in a part that failed.
        let mut tx = db.begin(isolation).unwrap();
        let failed = tx.nested(|tx| tx.get(&rows, &key(0)).and_then(|_| fail()));
        assert!(failed.is_err());
        tx.put(&rows, &key(1), b"own").unwrap();
        rows.put(&key(0), b"stored").unwrap();
        let is_conflict = tx.commit(Durability::Periodic).is_err();
        assert_eq!(is_conflict, isolation == Isolation::Serializable);
        // It was written in a part that failed: that is not a write, and its keyspace none that
        // was written to.
        for is_cleared in [false, true] {
            let mut tx = db.begin(isolation).unwrap();
            let failed = tx.nested(|tx| tx.put(&other, &key(1), b"own").and_then(|()| fail()));
            assert!(failed.is_err());
            tx.put(&rows, &key(1), b"own").unwrap();
            match is_cleared {
                false => drop(other.put(&key(1), b"of others").unwrap()),
                true => db.clear_keyspace("other").unwrap(),
            }
            let outcome = tx.commit(Durability::Periodic);
            outcome.unwrap_or_else(|error| panic!("cleared: {is_cleared}: {error}"));
        }
        // Nothing is left to write.
        let mut tx = db.begin(isolation).unwrap();
        let failed = tx.nested(|tx| tx.put(&rows, &key(1), b"own").and_then(|()| fail()));
        assert!(failed.is_err() && tx.rows_written() == 0);
        rows.put(&key(1), b"of others").unwrap();
        let commit = tx.commit(Durability::Periodic).unwrap();
        assert_eq!(commit.timestamp, Timestamp::ZERO);
    }
}

fn discarded_writes_come_back_if_the_part_that_discarded_them_fails(index: IndexKind) {
    let (db, rows) = open_small(index, 1 << 20, 4_000);
    let key = |number: u64| key(index, number);
    let mut tx = db.begin(Isolation::Serializable).unwrap();
    tx.put(&rows, &key(1), &[1; 3_000]).unwrap();
    tx.put(&rows, &key(2), b"before").unwrap();
    let failed = tx.nested(|tx| {
        tx.put(&rows, &key(2), b"within")?;
        tx.discard_writes();
        assert_eq!((tx.rows_written(), tx.count(&rows, ..)?), (0, 0));
        tx.put(&rows, &key(3), &[3; 3_500])?;
        fail()
    });
    assert!(matches!(failed, Err(Error::NotLocked)));
    assert_eq!((tx.rows_written(), tx.count(&rows, ..).unwrap()), (2, 2));
    let value = |tx: &OptimisticTransaction, number| tx.get(&rows, &key(number)).unwrap();
    assert_eq!(value(&tx, 1).as_deref(), Some(&[1; 3_000][..]));
    assert_eq!(value(&tx, 2).as_deref(), Some(&b"before"[..]));
    // They count as they did.
    let too_large = tx.put(&rows, &key(4), &[4; 1_000]).unwrap_err();
    assert!(matches!(too_large, Error::CommitTooLarge { .. }));
    let done = tx.nested(|tx| {
        tx.discard_writes();
        tx.put(&rows, &key(4), &[4; 3_500])
    });
    done.unwrap();
    assert_eq!((tx.rows_written(), value(&tx, 1)), (1, None));
    tx.discard_writes();
    tx.put(&rows, &key(5), &[5; 3_500]).unwrap();
    tx.commit(Durability::Periodic).unwrap();
    assert_eq!(present(&rows), Rows::from([(key(5), vec![5; 3_500])]));
}
