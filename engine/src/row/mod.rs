//! Rows: what an index stores under a key.
//!
//! A row is a version (its commit timestamp), a few optional attributes, and either one plain value
//! or a set of named columns (Masstree §4.7: "a version number and an array of variable-length
//! strings called columns"). It is one immutable block: a change builds a new row and the index
//! swaps the pointer, so a reader sees all of a change or nothing.
//!
//! ```text
//! u64 LE   commit timestamp (epoch, sequence)          ─ not in the log: the record has it
//! u8       flags                                       ┐
//! u64 LE   expiry, unix milliseconds   if EXPIRY       │ the "body": stored in the index,
//! u32 LE   user flags                  if USER_FLAGS   │ the log and checkpoints
//! u64 LE   chosen version              if VERSION      │
//! plain:   the value, to the end                       │
//! columns: varint count, then per column, by name:     │
//!          varint name length · varint value length ·  │
//!          name · value                                ┘
//!
//! flags:   bit 0 EXPIRY · 1 USER_FLAGS · 2 columns, not plain · 3, 4 marks · 5 VERSION · 6, 7 zero
//! ```
//!
//! A record of changed columns in the log (`PutColumns`) is the same list of columns, with each
//! value length plus one, and zero for a removed column.
//!
//! Flag bits 3 and 4 are marks, which the writer of a plain row may set (memcached's stale items).
//! Flag bits 6 and 7 are reserved. A plain row without attributes costs nine bytes.

pub(crate) mod builder;
pub(crate) mod owned;

use hedgerow_log::Timestamp;
use hedgerow_sync::varint;

pub(crate) const EXPIRY: u8 = 1 << 0;
pub(crate) const USER_FLAGS: u8 = 1 << 1;
pub(crate) const COLUMNS: u8 = 1 << 2;
/// The writer chose the row's version (memcached's cas value).
const VERSION: u8 = 1 << 5;
/// Two bits for the writer's own use.
const MARKS_SHIFT: u32 = 3;
const MARKS: u8 = 3 << MARKS_SHIFT;
const KNOWN: u8 = EXPIRY | USER_FLAGS | COLUMNS | MARKS | VERSION;
pub(crate) const TIMESTAMP_BYTES: usize = size_of::<Timestamp>();

/// What a row has before its content, at most: timestamp, flags and all attributes.
pub(crate) const MOST_HEADER_BYTES: usize =
    TIMESTAMP_BYTES + 1 + attribute_bytes(EXPIRY | USER_FLAGS | VERSION);

// The flags as they are drawn above.
const _: () = {
    assert!(EXPIRY == 1 && USER_FLAGS == 2 && COLUMNS == 4 && MARKS == 8 + 16 && VERSION == 32);
    assert!(KNOWN == 0b11_1111 && TIMESTAMP_BYTES == 8);
};

/// A row, borrowed from the index (or from an owned copy): nothing is decoded until asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    bytes: &'a [u8],
}

impl<'a> Row<'a> {
    /// `bytes` came from `write_header` and its siblings, or passed [`Row::check_body`].
    pub(crate) fn new(bytes: &'a [u8]) -> Row<'a> {
        debug_assert!(
            bytes.len() > TIMESTAMP_BYTES,
            "a row has at least its header"
        );
        Row { bytes }
    }

    fn flags(&self) -> u8 {
        self.bytes[TIMESTAMP_BYTES]
    }

    /// The commit that wrote this row: its version.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_raw(take_u64(self.bytes))
    }

    /// What tells this row from others under its key: the version that its writer chose, or else
    /// its commit timestamp as a number.
    pub fn version(&self) -> u64 {
        if self.flags() & VERSION == 0 {
            return self.timestamp().raw();
        }
        let at = TIMESTAMP_BYTES + 1 + attribute_bytes(self.flags()) - 8;
        take_u64(&self.bytes[at..])
    }

    /// When the row expires, in milliseconds since the Unix epoch; `None` for never.
    pub fn expiry_ms(&self) -> Option<u64> {
        (self.flags() & EXPIRY != 0).then(|| take_u64(&self.bytes[TIMESTAMP_BYTES + 1..]))
    }

    /// The 32 bits that the writer attached (memcached's flags); 0 if none.
    pub fn user_flags(&self) -> u32 {
        if self.flags() & USER_FLAGS == 0 {
            return 0;
        }
        let at = TIMESTAMP_BYTES + 1 + if self.flags() & EXPIRY != 0 { 8 } else { 0 };
        let b = &self.bytes[at..at + 4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }

    /// The two bits that the writer of a plain row attached; see
    /// [`RowBuilder::set_marks`](crate::RowBuilder::set_marks).
    pub fn marks(&self) -> u8 {
        (self.flags() & MARKS) >> MARKS_SHIFT
    }

    /// The plain value; `None` for a row of columns.
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        (self.flags() & COLUMNS == 0).then(|| self.content())
    }

    /// Whether the row consists of named columns.
    pub fn is_columns(&self) -> bool {
        self.flags() & COLUMNS != 0
    }

    /// The columns in order of their names; empty for a plain row.
    pub fn columns(&self) -> Columns<'a> {
        if !self.is_columns() {
            return Columns::NONE;
        }
        let mut rest = self.content();
        let left = varint::take(&mut rest).unwrap_or(0) as usize;
        Columns { rest, left }
    }

    /// How many columns there are; 0 for a plain row.
    pub fn column_count(&self) -> usize {
        self.columns().left
    }

    /// The values of some columns, in the order in which their names stand here; `None` for one
    /// that is not there. One walk over the row, and the sorting of the names, where
    /// [`column`](Self::column) walks for each of them.
    pub fn columns_named(&self, names: &[&[u8]]) -> Vec<Option<&'a [u8]>> {
        if let [name] = names {
            return vec![self.column(name)];
        }
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_unstable_by_key(|&at| names[at]);
        let mut found = vec![None; names.len()];
        let mut columns = self.columns().peekable();
        for at in order {
            while columns.next_if(|(name, _)| *name < names[at]).is_some() {}
            // The same name may be asked for again.
            if let Some(&(name, value)) = columns.peek()
                && name == names[at]
            {
                found[at] = Some(value);
            }
        }
        found
    }

    /// The value of one column. Walks over those before it.
    pub fn column(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.columns()
            .take_while(|(n, _)| *n <= name)
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v)
    }

    /// Bytes that the row occupies in the index.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn is_expired(&self, now_ms: impl FnOnce() -> u64) -> bool {
        self.expiry_ms()
            .is_some_and(|expiry_ms| expiry_ms <= now_ms())
    }

    /// Everything but the timestamp.
    #[cfg(test)]
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.bytes[TIMESTAMP_BYTES..]
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    fn content(&self) -> &'a [u8] {
        &self.bytes[TIMESTAMP_BYTES + 1 + attribute_bytes(self.flags())..]
    }

    /// Whether `body` (from a file) is one that this code could have written.
    pub(crate) fn check_body(body: &[u8]) -> bool {
        let Some((&flags, mut rest)) = body.split_first() else {
            return false;
        };
        let attributes = attribute_bytes(flags);
        if flags & !KNOWN != 0 || rest.len() < attributes {
            return false;
        }
        rest = &rest[attributes..];
        if flags & COLUMNS == 0 {
            return true;
        }
        let Some(count) = varint::take(&mut rest) else {
            return false;
        };
        let mut columns = Columns {
            rest,
            left: count as usize,
        };
        columns.by_ref().count() as u64 == count && columns.rest.is_empty()
    }
}

impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut row = f.debug_struct("Row");
        row.field("timestamp", &self.timestamp());
        match self.value() {
            Some(value) => row.field("value", &value.escape_ascii().to_string()),
            None => row.field("columns", &self.column_count()),
        };
        row.finish_non_exhaustive()
    }
}

/// The columns of a row, in order of their names.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    rest: &'a [u8],
    left: usize,
}

impl Columns<'_> {
    pub(crate) const NONE: Columns<'static> = Columns { rest: &[], left: 0 };
}

impl<'a> Iterator for Columns<'a> {
    /// Name and value.
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let column = varint::take(&mut self.rest)
            .zip(varint::take(&mut self.rest))
            .and_then(|(name, value)| take(&mut self.rest, name).zip(take(&mut self.rest, value)));
        if column.is_none() {
            self.left = 0;
        }
        column
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

/// A changed column: its name, and its new value or `None` if it goes.
pub(crate) type ColumnChange<'a> = (&'a [u8], Option<&'a [u8]>);

/// The changed columns of a `PutColumns` record.
pub(crate) struct ColumnChanges<'a> {
    rest: &'a [u8],
    left: u64,
}

impl<'a> ColumnChanges<'a> {
    /// Decodes a payload; `None` if it is not one that `write_column_changes` made.
    pub(crate) fn decode(payload: &'a [u8]) -> Option<ColumnChanges<'a>> {
        let mut rest = payload;
        let left = varint::take(&mut rest)?;
        let mut check = ColumnChanges { rest, left };
        let whole = check.by_ref().count() as u64 == left && check.rest.is_empty();
        whole.then_some(ColumnChanges { rest, left })
    }
}

impl<'a> Iterator for ColumnChanges<'a> {
    type Item = ColumnChange<'a>;

    fn next(&mut self) -> Option<ColumnChange<'a>> {
        self.left = self.left.checked_sub(1)?;
        let name_bytes = varint::take(&mut self.rest)?;
        let value_bytes = varint::take(&mut self.rest)?;
        let name = take(&mut self.rest, name_bytes)?;
        match value_bytes.checked_sub(1) {
            None => Some((name, None)),
            Some(bytes) => Some((name, Some(take(&mut self.rest, bytes)?))),
        }
    }
}

/// Appends the payload of a `PutColumns` record.
pub(crate) fn write_column_changes<'a>(
    out: &mut Vec<u8>,
    changes: impl ExactSizeIterator<Item = ColumnChange<'a>>,
) {
    varint::push(out, changes.len() as u64);
    for (name, value) in changes {
        varint::push(out, name.len() as u64);
        varint::push(out, value.map_or(0, |value| value.len() as u64 + 1));
        out.extend_from_slice(name);
        out.extend_from_slice(value.unwrap_or_default());
    }
}

/// Appends the start of a row: timestamp, flags and attributes.
#[inline]
pub(crate) fn write_header(
    out: &mut Vec<u8>,
    timestamp: Timestamp,
    expiry_ms: Option<u64>,
    user_flags: u32,
    columns: bool,
) {
    let mut flags = 0;
    if expiry_ms.is_some() {
        flags |= EXPIRY;
    }
    if user_flags != 0 {
        flags |= USER_FLAGS;
    }
    if columns {
        flags |= COLUMNS;
    }
    let mut start = [0; TIMESTAMP_BYTES + 1];
    start[..TIMESTAMP_BYTES].copy_from_slice(&timestamp.raw().to_le_bytes());
    start[TIMESTAMP_BYTES] = flags;
    out.extend_from_slice(&start);
    if let Some(expiry_ms) = expiry_ms {
        out.extend_from_slice(&expiry_ms.to_le_bytes());
    }
    if user_flags != 0 {
        out.extend_from_slice(&user_flags.to_le_bytes());
    }
}

const fn has(flags: u8, flag: u8) -> usize {
    if flags & flag != 0 { 1 } else { 0 }
}

/// How many bytes the attributes that these flags announce take.
#[inline]
const fn attribute_bytes(flags: u8) -> usize {
    8 * has(flags, EXPIRY) + 4 * has(flags, USER_FLAGS) + 8 * has(flags, VERSION)
}

/// Attaches a chosen version to a row of which only the header is written.
pub(crate) fn set_version(row: &mut Vec<u8>, version: u64) {
    debug_assert_eq!(
        row.len(),
        TIMESTAMP_BYTES + 1 + attribute_bytes(row[TIMESTAMP_BYTES])
    );
    row[TIMESTAMP_BYTES] |= VERSION;
    row.extend_from_slice(&version.to_le_bytes());
}

/// Attaches marks to a plain row.
pub(crate) fn set_marks(row: &mut [u8], marks: u8) {
    row[TIMESTAMP_BYTES] |= (marks << MARKS_SHIFT) & MARKS;
}

/// Appends columns that are sorted by name and distinct.
pub(crate) fn write_columns<'a>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) {
    varint::push(out, columns.clone().count() as u64);
    for (name, value) in columns {
        varint::push(out, name.len() as u64);
        varint::push(out, value.len() as u64);
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
}

/// The columns of `base` with `changes` (sorted by name, distinct) laid over them.
pub(crate) fn merge_columns<'a>(
    base: Columns<'a>,
    changes: impl Iterator<Item = ColumnChange<'a>>,
) -> Vec<(&'a [u8], &'a [u8])> {
    let mut merged = Vec::with_capacity(base.left);
    let mut base = base.peekable();
    for (name, value) in changes {
        while let Some(column) = base.next_if(|(n, _)| *n < name) {
            merged.push(column);
        }
        base.next_if(|(n, _)| *n == name);
        merged.extend(value.map(|value| (name, value)));
    }
    merged.extend(base);
    merged
}

fn take_u64(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

fn take<'a>(rest: &mut &'a [u8], bytes: u64) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(usize::try_from(bytes).ok()?)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TS: Timestamp = Timestamp::new(5, 9);

    fn row(expiry_ms: Option<u64>, user_flags: u32, columns: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        write_header(&mut out, TS, expiry_ms, user_flags, true);
        write_columns(&mut out, columns.iter().copied());
        out
    }

    #[test]
    fn a_plain_row_costs_nine_bytes_more_than_its_value() {
        let out = plain_row();
        let row = Row::new(&out);
        assert_eq!((row.size_bytes(), row.timestamp()), (14, TS));
        assert_eq!(
            (row.value(), row.expiry_ms(), row.user_flags()),
            (Some(&b"value"[..]), None, 0)
        );
        assert!(!row.is_columns() && row.columns().next().is_none());
        assert!(Row::check_body(row.body()));
    }

    #[test]
    fn columns_are_found_together_as_one_by_one() {
        let bytes = row(
            None,
            0,
            &[(b"", b"e"), (b"a", b"1"), (b"ab", b"2"), (b"c", b"3")],
        );
        let row = Row::new(&bytes);
        let names: [&[u8]; 8] = [b"c", b"a", b"", b"aa", b"ab", b"d", b"a", b"c"];
        let one_by_one = names.map(|name| row.column(name));
        assert_eq!(row.columns_named(&names), one_by_one);
        assert_eq!(row.columns_named(&[]), []);
        let plain = plain_row();
        assert_eq!(Row::new(&plain).columns_named(&names), [None; 8]);
    }

    fn plain_row() -> Vec<u8> {
        let mut out = Vec::new();
        write_header(&mut out, TS, None, 0, false);
        out.extend_from_slice(b"value");
        out
    }

    #[test]
    fn attributes_and_columns_come_back() {
        let long = vec![b'x'; 300];
        let bytes = row(
            Some(77),
            0xdead_beef,
            &[(b"", b"e"), (b"a", &long), (b"b", b"")],
        );
        let row = Row::new(&bytes);
        assert_eq!(
            (row.expiry_ms(), row.user_flags(), row.value()),
            (Some(77), 0xdead_beef, None)
        );
        assert_eq!(row.column_count(), 3);
        assert_eq!(row.column(b"a"), Some(&long[..]));
        assert_eq!(
            (row.column(b""), row.column(b"b")),
            (Some(&b"e"[..]), Some(&b""[..]))
        );
        assert_eq!((row.column(b"aa"), row.column(b"c")), (None, None));
        assert!(Row::check_body(row.body()));
        assert!(row.is_expired(|| 77) && !row.is_expired(|| 76));
    }

    #[test]
    fn a_chosen_version_stands_behind_the_other_attributes() {
        for (expiry_ms, user_flags) in [(None, 0), (Some(9), 0), (None, 7), (Some(9), 7)] {
            let mut bytes = Vec::new();
            write_header(&mut bytes, TS, expiry_ms, user_flags, false);
            let plain = [bytes.as_slice(), b"value"].concat();
            assert_eq!(Row::new(&plain).version(), TS.raw());
            set_version(&mut bytes, 973);
            bytes.extend_from_slice(b"value");
            let row = Row::new(&bytes);
            assert_eq!((row.version(), row.timestamp()), (973, TS));
            assert_eq!((row.expiry_ms(), row.user_flags()), (expiry_ms, user_flags));
            assert_eq!(row.value(), Some(&b"value"[..]));
            assert!(Row::check_body(row.body()));
            assert!(!Row::check_body(&row.body()[..8]), "cut within the version");
        }
    }

    #[test]
    fn bodies_that_are_cut_or_unknown_are_refused() {
        let bytes = row(Some(1), 2, &[(b"name", b"value"), (b"other", b"")]);
        let body = &bytes[TIMESTAMP_BYTES..];
        for end in 0..body.len() {
            assert!(!Row::check_body(&body[..end]), "cut at {end}");
        }
        let mut unknown = body.to_vec();
        unknown[0] |= 1 << 6;
        assert!(!Row::check_body(&unknown));
    }

    #[test]
    fn column_changes_merge_over_a_row() {
        let bytes = row(None, 0, &[(b"a", b"1"), (b"c", b"3"), (b"d", b"4")]);
        let changes: [ColumnChange<'_>; 4] = [
            (b"0", None),
            (b"a", Some(b"one")),
            (b"b", Some(b"")),
            (b"d", None),
        ];
        let mut payload = Vec::new();
        write_column_changes(&mut payload, changes.iter().copied());
        let decoded: Vec<_> = ColumnChanges::decode(&payload).unwrap().collect();
        assert_eq!(decoded, changes);
        for end in 0..payload.len() {
            assert!(
                ColumnChanges::decode(&payload[..end]).is_none(),
                "cut at {end}"
            );
        }
        let merged = merge_columns(Row::new(&bytes).columns(), decoded.into_iter());
        let expected: [(&[u8], &[u8]); 3] = [(b"a", b"one"), (b"b", b""), (b"c", b"3")];
        assert_eq!(merged, expected);
    }
}
