//! Rows as they are written and read again, beside a model of HBase's cells.

use super::*;
use crate::wire::Arguments;
use hedgerow::RowBuilder;
use std::collections::BTreeMap;

/// The cells of a row, with their timestamps, as HBase would have them after writes.
type Cells = BTreeMap<Vec<u8>, (i64, Vec<u8>)>;

fn stamp(version: u64) -> Stamp {
    Stamp {
        version: Timestamp::from_raw(version),
        writer: 99,
    }
}

const DURABILITY: TDurability = TDurability::SYNC_WAL;

fn apply_put(cells: &mut Cells, put: &TPut) {
    let time = put.timestamp.unwrap();
    for cell in &put.column_values {
        let entry = cells.entry(cell.qualifier.clone()).or_default();
        if entry.0 <= time {
            *entry = (time, cell.value.clone());
        }
    }
}

fn apply(cells: &mut Cells, mutations: &TRowMutations) {
    for mutation in &mutations.mutations {
        match mutation {
            TMutation::Put(put) => apply_put(cells, put),
            TMutation::DeleteSingle(delete) => {
                for column in delete.columns.iter().flatten() {
                    let until = column.timestamp.unwrap();
                    let wanted = |qualifier: &Vec<u8>| {
                        column
                            .qualifier
                            .as_ref()
                            .is_none_or(|only| only == qualifier)
                    };
                    cells.retain(|qualifier, (time, _)| !wanted(qualifier) || *time > until);
                }
            }
        }
    }
}

fn result_of(cells: &Cells) -> TResult {
    let cells = cells.iter();
    let column_values = cells
        .map(|(q, (_, v))| cell(q.clone(), v.clone()))
        .collect();
    TResult {
        row: Some(b"key".to_vec()),
        column_values,
        stale: None,
        partial: None,
    }
}

fn read(cells: &Cells) -> Option<StoredRow> {
    decode(result_of(cells)).unwrap()
}

fn write(cells: &mut Cells, version: u64, edit: impl FnOnce(&mut RowBuilder<'_>)) -> StoredRow {
    let stored = read(cells);
    let live = stored.as_ref().and_then(|stored| stored.live(0));
    let mut builder = RowBuilder::over(live);
    edit(&mut builder);
    let stamp = stamp(version);
    let row = OwnedRow::built(&builder, stamp.version);
    let replaced = replace(b"key", stored.as_ref(), live, row.row(), stamp, DURABILITY);
    apply(cells, &replaced.mutations);
    let now = read(cells).unwrap();
    assert_eq!(now.header, replaced.header);
    assert_eq!(now.row, Some(row));
    now
}

#[test]
fn rows_are_read_as_they_were_written() {
    let mut cells = Cells::new();
    let now = write(&mut cells, 1, |new| {
        new.set_value(b"v")
            .set_expiry_ms(Some(8))
            .set_user_flags(9)
            .set_marks(2);
    });
    let row = now.live(0).unwrap();
    assert_eq!(
        (row.expiry_ms(), row.marks(), row.user_flags()),
        (Some(8), 2, 9)
    );
    assert!(now.live(8).is_none(), "it has expired");
    let now = write(&mut cells, 2, |new| {
        new.set_version(u64::MAX).set_expiry_ms(None);
    });
    let row = now.live(9).unwrap();
    assert_eq!((row.version(), row.value()), (u64::MAX, Some(&b"v"[..])));
    write(&mut cells, 3, |new| {
        new.set_column(b"", b"unnamed")
            .set_column(b"b", b"")
            .set_column(b"v", b"x");
    });
    assert!(!cells.contains_key(VALUE), "the value is gone");
    write(&mut cells, 4, |new| {
        new.remove_column(b"b").set_column(b"a", b"1");
    });
    let names: Vec<_> = cells.keys().map(Vec::as_slice).collect();
    assert_eq!(names, [&b"c"[..], b"ca", b"cv", b"h"]);
}

#[test]
fn only_cells_that_change_are_written() {
    let mut cells = Cells::new();
    let stored = write(&mut cells, 1, |new| {
        new.set_column(b"a", b"1")
            .set_column(b"b", b"2")
            .set_column(b"c", b"3");
    });
    let live = stored.live(0);
    let mut builder = RowBuilder::over(live);
    builder.set_column(b"b", b"two").remove_column(b"c");
    let row = OwnedRow::built(&builder, Timestamp::from_raw(2));
    let replaced = replace(b"key", Some(&stored), live, row.row(), stamp(2), DURABILITY);
    let mutations = &replaced.mutations.mutations[..];
    let [TMutation::Put(put), TMutation::DeleteSingle(delete)] = mutations else {
        panic!("a put and a delete");
    };
    let written: Vec<_> = put.column_values.iter().map(|c| &c.qualifier[..]).collect();
    assert_eq!(written, [&b"cb"[..], b"h"]);
    assert_eq!(delete.columns.as_ref().unwrap().len(), 1);
}

#[test]
fn a_large_hash_in_the_place_of_another_fits_a_request() {
    // As many of such names as a hash may have.
    const FIELDS: u32 = 11_000;
    let name = |i: u32| format!("{i:0100}").into_bytes();
    let mut cells = Cells::new();
    let stored = write(&mut cells, 1, |new| {
        for i in 0..FIELDS {
            new.set_column(&name(i), b"");
        }
    });
    let live = stored.live(0);
    let mut builder = RowBuilder::over(live);
    builder.clear_columns();
    // One of them stays.
    for i in FIELDS - 1..2 * FIELDS - 1 {
        builder.set_column(&name(i), b"");
    }
    let row = OwnedRow::built(&builder, Timestamp::from_raw(2));
    let replaced = replace(b"key", Some(&stored), live, row.row(), stamp(2), DURABILITY);
    let request = Arguments::of("checkAndMutate").structure(7, &replaced.mutations);
    assert!(request.finish(2 << 20).is_ok());
    apply(&mut cells, &replaced.mutations);
    assert_eq!(read(&cells).unwrap().row, Some(row));
}

#[test]
fn nothing_of_what_was_replaced_stays() {
    let mut cells = Cells::new();
    write(&mut cells, 1, |new| {
        new.set_column(b"a", b"1");
    });
    let row = OwnedRow::plain(Timestamp::from_raw(2), &RowAttributes::default(), b"plain");
    let state = state_of(&result_of(&cells)).unwrap();
    let first = put_plain(b"key", state.as_ref(), row.row(), stamp(2), DURABILITY);
    assert_eq!(first.expected, state.map(|state| state.header));
    apply(&mut cells, &first.mutations);
    let names: Vec<_> = cells.keys().map(Vec::as_slice).collect();
    assert_eq!(names, [HEADER, VALUE]);
    write(&mut cells, 3, |new| {
        new.set_column(b"b", b"2");
    });
    let names: Vec<_> = cells.keys().map(Vec::as_slice).collect();
    assert_eq!(names, [&b"cb"[..], b"h"]);
    let stored = read(&cells).unwrap();
    let removed = remove(b"key", &stored.header, stored.version, stamp(4), DURABILITY);
    apply(&mut cells, &removed.mutations);
    assert!(read(&cells).unwrap().live(0).is_none());
    assert_eq!(cells.len(), 1, "a tombstone");
    let state = state_of(&result_of(&cells)).unwrap().unwrap();
    assert!(!state.is_live(0));
    let written_ms = written_ms(state.version);
    assert!(!state.is_due(written_ms, 1) && state.is_due(written_ms + 1, 1));
    apply(&mut cells, &purge(b"key", Timestamp::from_raw(4)));
    assert!(cells.is_empty());
}

#[test]
fn cells_of_others_are_refused() {
    let result = |cells: &[(&[u8], &[u8])]| TResult {
        row: None,
        column_values: cells
            .iter()
            .map(|(q, v)| cell(q.to_vec(), v.to_vec()))
            .collect(),
        stale: None,
        partial: None,
    };
    assert!(decode(result(&[])).unwrap().is_none());
    assert!(decode(result(&[(b"v", b"x")])).is_err());
    assert!(decode(result(&[(b"h", b"")])).is_err());
    assert!(decode(result(&[(b"h", &[FORMAT; 40])])).is_err());
    let mut good = vec![0; LEAST_BYTES];
    good[0] = FORMAT;
    assert!(decode(result(&[(b"h", &good)])).unwrap().is_some());
    assert!(
        state_of(&result(&[(b"h", &good)]))
            .unwrap()
            .unwrap()
            .is_live(1)
    );
    good[FLAGS_AT] = REMOVED;
    assert!(
        !state_of(&result(&[(b"h", &good)]))
            .unwrap()
            .unwrap()
            .is_live(1)
    );
    good[FLAGS_AT] = CHOSE_VERSION;
    assert!(
        decode(result(&[(b"h", &good)])).is_err(),
        "too short for that"
    );
    good[0] = FORMAT + 1;
    assert!(decode(result(&[(b"h", &good)])).is_err());
}
