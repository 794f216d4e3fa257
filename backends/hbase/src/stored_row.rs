//! How a row of Hedgerow lies in a row of HBase: one cell for what belongs to the whole row, one
//! for a plain value, one for each column. All are in one column family.
//!
//! ```text
//! row key = the key, byte for byte
//!
//! family h, qualifier h      the header, in every row, 37 or 45 bytes:
//!   0   u8      format: 1
//!   1   u8      bit 0: a row of columns · bits 1, 2: marks · bit 3: expires
//!               bit 4: has a chosen version · bit 5: removed
//!   2   [u8; 3] zero
//!   5   u64 BE  version: when it was written, by the writer's clock; grows with each write
//!  13   u64 BE  writer: drawn anew by each process that writes
//!  21   u64 BE  when the row expires, in milliseconds since the Unix epoch; 0 if it does not
//!  29   u32 BE  client flags
//!  33   u32 BE  zero
//!  37   u64 BE  the version that the writer chose (memcached's cas value), if it chose one
//!
//! family h, qualifier v      the value of a plain row
//! family h, qualifier c…     a column: its name behind the c
//! ```
//!
//! No two writes have the same header, as no two have the same writer and version: so a write that
//! depends on what was there is a `checkAndMutate` on this one cell, and a header that is found
//! again says that the write happened.
//!
//! Every write is checked so, also one that replaces whatever was there: else it could arrive
//! behind a write that did not see it and has a later version, and be hidden although it was
//! acknowledged.
//!
//! The timestamp of all cells of a write is its version, which is above that of the header that it
//! replaces, whatever the clocks of servers say: what HBase hides is always older.
//!
//! A row that is removed keeps a header, the *tombstone*, for an hour, from which later writes take
//! a later version: HBase's own removals would hide those of a slower clock. Then the row goes, if
//! nobody wrote it since.

use hedgerow::backend::{OwnedRow, RowAttributes};
use hedgerow::{Row, Timestamp};

use crate::cells::{column, delete_row};
use crate::clock::written_ms;
use crate::thrift2::{
    TColumn, TColumnValue, TDelete, TDeleteType, TDurability, TMutation, TPut, TResult,
    TRowMutations,
};

/// The longest key. HBase's row keys have up to 32,767 bytes, but it looks for their regions by
/// keys that have the table's name and a number, too.
pub const MAX_ROW_KEY_BYTES: usize = 32_000;

/// The one column family.
pub(crate) const FAMILY: &[u8] = b"h";
/// The qualifier of the header.
pub(crate) const HEADER: &[u8] = b"h";
/// The qualifier of a plain value.
const VALUE: &[u8] = b"v";
/// What the qualifier of a column begins with.
const COLUMN: u8 = b'c';

/// About what a cell, or the removal of one, takes in a request besides its name and value.
pub(crate) const CELL_BYTES: usize = 40;
/// The most bytes, about, of a change that writes some cells and removes others one by one: half of
/// what gateways take.
const CHANGE_BYTES: usize = 1 << 20;

const FORMAT: u8 = 1;
const IS_COLUMNS: u8 = 1 << 0;
const MARKS_SHIFT: u32 = 1;
const MARKS: u8 = 3 << MARKS_SHIFT;
const EXPIRES: u8 = 1 << 3;
const CHOSE_VERSION: u8 = 1 << 4;
const REMOVED: u8 = 1 << 5;
const KNOWN: u8 = IS_COLUMNS | MARKS | EXPIRES | CHOSE_VERSION | REMOVED;

const FLAGS_AT: usize = 1;
const VERSION_AT: usize = 5;
const WRITER_AT: usize = 13;
const EXPIRY_AT: usize = 21;
const USER_FLAGS_AT: usize = 29;
const CHOSEN_AT: usize = 37;
const LEAST_BYTES: usize = CHOSEN_AT;
const MOST_VERSION: u64 = i64::MAX as u64 / 2;
const MOST_BYTES: usize = CHOSEN_AT + 8;

// The header as it is drawn above.
const _: () = {
    assert!(VERSION_AT == FLAGS_AT + 1 + 3 && WRITER_AT == VERSION_AT + 8);
    assert!(EXPIRY_AT == WRITER_AT + 8 && USER_FLAGS_AT == EXPIRY_AT + 8);
    assert!(CHOSEN_AT == USER_FLAGS_AT + 4 + 4 && MOST_BYTES == 45);
    assert!(KNOWN == 0b11_1111);
};

/// Who writes, and when: what makes a header unlike any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) version: Timestamp,
    pub(crate) writer: u64,
}

/// Why the cells of a row are none that Hedgerow wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign(pub(crate) &'static str);

/// A row as it is stored.
#[derive(Debug)]
pub(crate) struct StoredRow {
    /// The header cell, to be compared.
    pub(crate) header: Vec<u8>,
    pub(crate) version: Timestamp,
    /// What the header says the row is; `None` if it is a tombstone.
    row: Option<OwnedRow>,
    /// The qualifiers of all cells but the header, sorted: also those of a row that has expired.
    qualifiers: Vec<Vec<u8>>,
}

impl StoredRow {
    /// The row, unless it is removed or has expired.
    pub(crate) fn live(&self, now_ms: u64) -> Option<Row<'_>> {
        let row = self.row.as_ref().map(OwnedRow::row);
        row.filter(|row| row.expiry_ms().is_none_or(|at| at > now_ms))
    }
}

/// What a header alone says of its row.
#[derive(Clone, Debug)]
pub(crate) struct RowState {
    /// The header cell, to be compared.
    pub(crate) header: Vec<u8>,
    pub(crate) version: Timestamp,
    is_removed: bool,
    is_columns: bool,
    expiry_ms: Option<u64>,
}

impl RowState {
    /// Whether the row is neither removed nor expired.
    pub(crate) fn is_live(&self, now_ms: u64) -> bool {
        !self.is_removed && self.expiry_ms.is_none_or(|at| at > now_ms)
    }

    pub(crate) fn is_tombstone(&self) -> bool {
        self.is_removed
    }

    /// Whether the row has been dead for so long that it can go.
    pub(crate) fn is_due(&self, now_ms: u64, kept_ms: u64) -> bool {
        let written_ms = written_ms(self.version);
        let died_ms = match (self.is_removed, self.expiry_ms) {
            (true, _) => written_ms,
            (false, Some(expiry_ms)) => expiry_ms.max(written_ms),
            (false, None) => return false,
        };
        died_ms.saturating_add(kept_ms) <= now_ms
    }
}

fn take_u64(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(number)
}

/// What a header says: when the row was written, its attributes, and whether it has columns.
struct Header {
    version: Timestamp,
    attributes: RowAttributes,
    is_columns: bool,
    is_removed: bool,
}

impl Header {
    fn decode(bytes: &[u8]) -> Result<Header, Foreign> {
        if bytes.len() < LEAST_BYTES || bytes[0] != FORMAT || bytes[FLAGS_AT] & !KNOWN != 0 {
            return Err(Foreign("its header is none that this program knows"));
        }
        let flags = bytes[FLAGS_AT];
        let chosen = flags & CHOSE_VERSION != 0;
        if bytes.len() != if chosen { MOST_BYTES } else { LEAST_BYTES } {
            return Err(Foreign("its header has a wrong length"));
        }
        // No clock comes to it, and HBase's timestamps end there.
        if take_u64(bytes, VERSION_AT) > MOST_VERSION {
            return Err(Foreign("its version is none"));
        }
        let mut user_flags = [0; 4];
        user_flags.copy_from_slice(&bytes[USER_FLAGS_AT..USER_FLAGS_AT + 4]);
        Ok(Header {
            version: Timestamp::from_raw(take_u64(bytes, VERSION_AT)),
            attributes: RowAttributes {
                expiry_ms: (flags & EXPIRES != 0).then(|| take_u64(bytes, EXPIRY_AT)),
                user_flags: u32::from_be_bytes(user_flags),
                marks: (flags & MARKS) >> MARKS_SHIFT,
                version: chosen.then(|| take_u64(bytes, CHOSEN_AT)),
            },
            is_columns: flags & IS_COLUMNS != 0,
            is_removed: flags & REMOVED != 0,
        })
    }
}

/// The header that a removal leaves behind.
fn tombstone(stamp: Stamp) -> Vec<u8> {
    let mut bytes = vec![0; LEAST_BYTES];
    (bytes[0], bytes[FLAGS_AT]) = (FORMAT, REMOVED);
    bytes[VERSION_AT..WRITER_AT].copy_from_slice(&stamp.version.raw().to_be_bytes());
    bytes[WRITER_AT..EXPIRY_AT].copy_from_slice(&stamp.writer.to_be_bytes());
    bytes
}

/// The header of a row that a write makes.
fn header(row: Row<'_>, stamp: Stamp) -> Vec<u8> {
    let mut flags = row.marks() << MARKS_SHIFT;
    if row.is_columns() {
        flags |= IS_COLUMNS;
    }
    if row.expiry_ms().is_some() {
        flags |= EXPIRES;
    }
    let chosen = Some(row.version()).filter(|version| *version != row.timestamp().raw());
    if chosen.is_some() {
        flags |= CHOSE_VERSION;
    }
    let mut bytes = Vec::with_capacity(MOST_BYTES);
    bytes.extend_from_slice(&[FORMAT, flags, 0, 0, 0]);
    bytes.extend_from_slice(&stamp.version.raw().to_be_bytes());
    bytes.extend_from_slice(&stamp.writer.to_be_bytes());
    bytes.extend_from_slice(&row.expiry_ms().unwrap_or(0).to_be_bytes());
    bytes.extend_from_slice(&row.user_flags().to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    if let Some(version) = chosen {
        bytes.extend_from_slice(&version.to_be_bytes());
    }
    bytes
}

/// Makes a row of what HBase answered; `None` if there is none.
pub(crate) fn decode(cells: TResult) -> Result<Option<StoredRow>, Foreign> {
    let mut cells = cells.column_values;
    cells.retain(|cell| cell.family == FAMILY);
    let Some(at) = cells.iter().position(|cell| cell.qualifier == HEADER) else {
        return match cells.is_empty() {
            true => Ok(None),
            false => Err(Foreign("it has cells but no header")),
        };
    };
    let header_cell = cells.swap_remove(at).value;
    let header = Header::decode(&header_cell)?;
    cells.sort_unstable_by(|a, b| a.qualifier.cmp(&b.qualifier));
    let row = if header.is_removed {
        None
    } else if header.is_columns {
        let columns: Vec<(&[u8], &[u8])> = cells
            .iter()
            .filter(|cell| cell.qualifier.first() == Some(&COLUMN))
            .map(|cell| (&cell.qualifier[1..], cell.value.as_slice()))
            .collect();
        let columns = columns.into_iter();
        Some(OwnedRow::of_columns(
            header.version,
            &header.attributes,
            columns,
        ))
    } else {
        let value = cells.iter().find(|cell| cell.qualifier == VALUE);
        let value = value.map_or(&[][..], |cell| &cell.value);
        Some(OwnedRow::plain(header.version, &header.attributes, value))
    };
    Ok(Some(StoredRow {
        header: header_cell,
        version: header.version,
        row,
        qualifiers: cells.into_iter().map(|cell| cell.qualifier).collect(),
    }))
}

/// What is known of a row of which only the header was read; `None` if there is none.
pub(crate) fn state_of(cells: &TResult) -> Result<Option<RowState>, Foreign> {
    let mut cells = cells.column_values.iter();
    let Some(cell) = cells.find(|cell| cell.qualifier == HEADER) else {
        return Ok(None);
    };
    let header = Header::decode(&cell.value)?;
    Ok(Some(RowState {
        header: cell.value.clone(),
        version: header.version,
        is_removed: header.is_removed,
        is_columns: header.is_columns,
        expiry_ms: header.attributes.expiry_ms,
    }))
}

/// The timestamp of cells of a version.
fn cell_time(version: Timestamp) -> i64 {
    i64::try_from(version.raw()).unwrap_or(i64::MAX)
}

pub(crate) fn cell(qualifier: Vec<u8>, value: Vec<u8>) -> TColumnValue {
    TColumnValue {
        family: FAMILY.to_vec(),
        qualifier,
        value,
        timestamp: None,
        tags: None,
        type_: None,
    }
}

pub(crate) fn put(
    key: &[u8],
    cells: Vec<TColumnValue>,
    version: Timestamp,
    durability: &TDurability,
) -> TPut {
    TPut {
        row: key.to_vec(),
        column_values: cells,
        timestamp: Some(cell_time(version)),
        attributes: None,
        durability: Some(*durability),
        cell_visibility: None,
    }
}

fn column_qualifier(name: &[u8]) -> Vec<u8> {
    let mut qualifier = Vec::with_capacity(1 + name.len());
    qualifier.push(COLUMN);
    qualifier.extend_from_slice(name);
    qualifier
}

/// What a checked write does, and the header that it leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct CheckedWrite {
    /// The header that must be there; none where there must be no row.
    pub(crate) expected: Option<Vec<u8>>,
    pub(crate) mutations: TRowMutations,
    pub(crate) header: Vec<u8>,
    pub(crate) version: Timestamp,
}

/// The removal of all cells of a row up to a version.
fn delete_family(key: &[u8], until: Timestamp, durability: TDurability) -> TMutation {
    TMutation::DeleteSingle(TDelete {
        columns: Some(vec![TColumn {
            timestamp: Some(cell_time(until)),
            ..column(FAMILY, None)
        }]),
        delete_type: Some(TDeleteType::DELETE_FAMILY),
        durability: Some(durability),
        ..delete_row(key)
    })
}

/// The removal of cells of a row up to a version.
fn delete_cells(
    key: &[u8],
    qualifiers: &[&[u8]],
    until: Timestamp,
    durability: TDurability,
) -> TMutation {
    let columns = qualifiers.iter().map(|&qualifier| TColumn {
        timestamp: Some(cell_time(until)),
        ..column(FAMILY, Some(qualifier))
    });
    TMutation::DeleteSingle(TDelete {
        columns: Some(columns.collect()),
        delete_type: Some(TDeleteType::DELETE_COLUMNS),
        durability: Some(durability),
        ..delete_row(key)
    })
}

/// Puts a plain row in the place of one of which only the header was read.
pub(crate) fn put_plain(
    key: &[u8],
    state: Option<&RowState>,
    row: Row<'_>,
    stamp: Stamp,
    durability: TDurability,
) -> CheckedWrite {
    let value = row.value().unwrap_or_default().to_vec();
    let header = header(row, stamp);
    let cells = vec![
        cell(HEADER.to_vec(), header.clone()),
        cell(VALUE.to_vec(), value),
    ];
    let mut mutations = vec![TMutation::Put(put(key, cells, stamp.version, &durability))];
    if let Some(state) = state.filter(|state| state.is_columns) {
        mutations.push(delete_family(key, state.version, durability));
    }
    let row = key.to_vec();
    CheckedWrite {
        expected: state.map(|state| state.header.clone()),
        mutations: TRowMutations { row, mutations },
        header,
        version: stamp.version,
    }
}

/// Cells to write, and the qualifiers of the cells that stay.
struct NewCells {
    cells: Vec<TColumnValue>,
    /// Sorted.
    kept: Vec<Vec<u8>>,
}

/// The columns of a row; those that are in `live` already stay as they are.
fn new_columns(row: Row<'_>, live: Option<Row<'_>>) -> NewCells {
    let (mut cells, mut kept) = (Vec::new(), Vec::new());
    let mut old: Vec<_> = live.into_iter().flat_map(|row| row.columns()).collect();
    old.reverse();
    for (name, value) in row.columns() {
        // Both are sorted by name.
        while old.last().is_some_and(|(old, _)| *old < name) {
            old.pop();
        }
        if old.last() != Some(&(name, value)) {
            cells.push(cell(column_qualifier(name), value.to_vec()));
        }
        kept.push(column_qualifier(name));
    }
    NewCells { cells, kept }
}

/// The qualifiers of stored cells that are not kept.
fn gone_qualifiers<'s>(stored: &'s StoredRow, kept: &[Vec<u8>]) -> Vec<&'s [u8]> {
    let qualifiers = stored.qualifiers.iter();
    let gone = qualifiers.filter(|old| kept.binary_search(old).is_err());
    gone.map(Vec::as_slice).collect()
}

/// About how long a request is that writes some cells and removes others.
fn change_bytes(cells: &[TColumnValue], gone: &[&[u8]]) -> usize {
    let cells = cells.iter();
    let written = cells.map(|cell| cell.qualifier.len() + cell.value.len() + CELL_BYTES);
    let removed = gone.iter().map(|qualifier| qualifier.len() + CELL_BYTES);
    written.chain(removed).sum()
}

/// Replaces what is stored, of which `live` is what readers see, by a row: writes the cells that
/// change, removes those that go. Where that makes a long request, it removes all cells at once and
/// writes the whole row, which is not longer than a row may be.
pub(crate) fn replace(
    key: &[u8],
    stored: Option<&StoredRow>,
    live: Option<Row<'_>>,
    row: Row<'_>,
    stamp: Stamp,
    durability: TDurability,
) -> CheckedWrite {
    let header = header(row, stamp);
    let mut live = live.filter(|live| live.is_columns() && row.is_columns());
    let mut new = new_columns(row, live);
    let mut gone = match (stored, live) {
        (Some(stored), Some(_)) => gone_qualifiers(stored, &new.kept),
        _ => Vec::new(),
    };
    if !gone.is_empty() && change_bytes(&new.cells, &gone) > CHANGE_BYTES {
        (live, gone) = (None, Vec::new());
        new = new_columns(row, None);
    }
    let mut cells = new.cells;
    cells.push(cell(HEADER.to_vec(), header.clone()));
    if let Some(value) = row.value() {
        cells.push(cell(VALUE.to_vec(), value.to_vec()));
    }
    let mut mutations = vec![TMutation::Put(put(key, cells, stamp.version, &durability))];
    match (stored, live) {
        // A later value hides an earlier one.
        (Some(stored), None) if row.value().is_some() && stored.qualifiers == [VALUE] => {}
        // Nothing of it stays: what is written is later than all of it.
        (Some(stored), None) if !stored.qualifiers.is_empty() => {
            mutations.push(delete_family(key, stored.version, durability));
        }
        (Some(stored), Some(_)) if !gone.is_empty() => {
            mutations.push(delete_cells(key, &gone, stored.version, durability));
        }
        _ => {}
    }
    let row = key.to_vec();
    CheckedWrite {
        expected: stored.map(|stored| stored.header.clone()),
        mutations: TRowMutations { row, mutations },
        header,
        version: stamp.version,
    }
}

/// Removes the row of a header and a version: leaves a tombstone.
pub(crate) fn remove(
    key: &[u8],
    expected: &[u8],
    version: Timestamp,
    stamp: Stamp,
    durability: TDurability,
) -> CheckedWrite {
    let header = tombstone(stamp);
    let cells = vec![cell(HEADER.to_vec(), header.clone())];
    let mutations = vec![
        TMutation::Put(put(key, cells, stamp.version, &durability)),
        delete_family(key, version, durability),
    ];
    let row = key.to_vec();
    CheckedWrite {
        expected: Some(expected.to_vec()),
        mutations: TRowMutations { row, mutations },
        header,
        version: stamp.version,
    }
}

/// Takes away all cells of a row up to a version: a tombstone whose time is over, or a row that
/// has expired.
pub(crate) fn purge(key: &[u8], version: Timestamp) -> TRowMutations {
    TRowMutations {
        row: key.to_vec(),
        mutations: vec![delete_family(key, version, TDurability::SYNC_WAL)],
    }
}

#[cfg(test)]
mod tests;
