//! Building the next version of a row from the present one.

use std::collections::BTreeMap;

use hedgerow_log::Timestamp;

use crate::row::{self, Row};

/// The next version of a row, as the closure of [`Keyspace::update`](crate::Keyspace::update)
/// makes it.
///
/// It starts as the present row: with its content, expiry and user flags (an absent row starts
/// as an empty plain value without either). What is not set stays.
#[derive(Debug)]
pub struct RowBuilder<'a> {
    base: Option<Row<'a>>,
    expiry_ms: Option<u64>,
    user_flags: u32,
    marks: u8,
    version: Option<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Unchanged,
    Value(Vec<u8>),
    /// Columns laid over the base's, or instead of them.
    Columns {
        changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        over_base: bool,
    },
}

/// A built row.
#[derive(Clone, Copy)]
pub(crate) struct BuiltRow {
    pub(crate) expiry_ms: Option<u64>,
    /// Whether the log needs only the changed columns.
    pub(crate) delta: bool,
    /// The length of the value, or of all columns with their names, if that may be more than the
    /// row had before.
    pub(crate) adds: Option<usize>,
    /// Whether it is longer than the row that it replaces.
    pub(crate) grows: bool,
}

impl<'a> RowBuilder<'a> {
    /// For the next version of a row, or of one that is not there.
    pub fn over(base: Option<Row<'a>>) -> RowBuilder<'a> {
        RowBuilder::new(base)
    }

    pub(crate) fn new(base: Option<Row<'a>>) -> RowBuilder<'a> {
        RowBuilder {
            base,
            expiry_ms: base.and_then(|row| row.expiry_ms()),
            user_flags: base.map_or(0, |row| row.user_flags()),
            marks: base.map_or(0, |row| row.marks()),
            version: None,
            content: Content::Unchanged,
        }
    }

    /// Makes the row a plain value without marks, whatever it was.
    pub fn set_value(&mut self, value: &[u8]) -> &mut Self {
        self.marks = 0;
        self.content = Content::Value(value.to_vec());
        self
    }

    /// Makes the row the plain value `value` without copying it.
    pub fn set_value_owned(&mut self, value: Vec<u8>) -> &mut Self {
        self.marks = 0;
        self.content = Content::Value(value);
        self
    }

    /// Sets one column. A plain row becomes a row of columns and loses its value.
    pub fn set_column(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        self.columns().insert(name.to_vec(), Some(value.to_vec()));
        self
    }

    /// Removes one column. A plain row becomes a row of columns and loses its value.
    pub fn remove_column(&mut self, name: &[u8]) -> &mut Self {
        self.columns().insert(name.to_vec(), None);
        self
    }

    /// Makes the row one of no columns, whatever it was.
    pub fn clear_columns(&mut self) -> &mut Self {
        self.content = Content::Columns {
            changes: BTreeMap::new(),
            over_base: false,
        };
        self
    }

    /// Sets when the row expires, in milliseconds since the Unix epoch; `None` for never.
    pub fn set_expiry_ms(&mut self, expiry_ms: Option<u64>) -> &mut Self {
        self.expiry_ms = expiry_ms;
        self
    }

    /// Sets the 32 bits that go with the row.
    pub fn set_user_flags(&mut self, user_flags: u32) -> &mut Self {
        self.user_flags = user_flags;
        self
    }

    /// Sets two bits (0 to 3) that go with a plain row until its next value: memcached's marks of
    /// stale items. Rows of columns have none.
    pub fn set_marks(&mut self, marks: u8) -> &mut Self {
        self.marks = marks;
        self
    }

    /// Chooses what [`Row::version`] of the new row is. Without it that is the commit's timestamp:
    /// a choice is not kept by later changes.
    pub fn set_version(&mut self, version: u64) -> &mut Self {
        self.version = Some(version);
        self
    }

    fn columns(&mut self) -> &mut BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        if !matches!(self.content, Content::Columns { .. }) {
            let unchanged = matches!(self.content, Content::Unchanged);
            let over_base = unchanged && self.base.is_some_and(|row| row.is_columns());
            self.content = Content::Columns {
                changes: BTreeMap::new(),
                over_base,
            };
        }
        match &mut self.content {
            Content::Columns { changes, .. } => changes,
            _ => unreachable!("the content was just made columns"),
        }
    }

    /// Writes the row (with no timestamp yet) into `row`, and what the log needs of its columns
    /// into `delta` if that is less.
    pub(crate) fn build(&self, row: &mut Vec<u8>, delta: &mut Vec<u8>) -> BuiltRow {
        row.clear();
        let RowBuilder {
            expiry_ms,
            user_flags,
            ..
        } = *self;
        let header = |row: &mut Vec<u8>, columns| {
            row::write_header(row, Timestamp::ZERO, expiry_ms, user_flags, columns);
            if let Some(version) = self.version {
                row::set_version(row, version);
            }
        };
        let mut built = BuiltRow {
            expiry_ms,
            delta: false,
            adds: None,
            grows: false,
        };
        match &self.content {
            Content::Value(value) => {
                row.reserve(row::MOST_HEADER_BYTES + value.len());
                header(row, false);
                row::set_marks(row, self.marks);
                row.extend_from_slice(value);
                built.adds = Some(value.len());
            }
            Content::Unchanged => match self.base {
                Some(base) if base.is_columns() => {
                    header(row, true);
                    row::write_columns(row, base.columns());
                }
                base => {
                    header(row, false);
                    row::set_marks(row, self.marks);
                    row.extend_from_slice(base.and_then(|base| base.value()).unwrap_or_default());
                }
            },
            Content::Columns { changes, over_base } => {
                let base = self.base.filter(|_| *over_base);
                let changed = changes.iter().map(|(n, v)| (n.as_slice(), v.as_deref()));
                header(row, true);
                match base {
                    Some(base) => {
                        let merged = row::merge_columns(base.columns(), changed.clone());
                        let bytes = column_bytes(merged.iter().copied());
                        built.adds = (bytes > column_bytes(base.columns())).then_some(bytes);
                        row::write_columns(row, merged.into_iter());
                        if self.keeps_attributes(base) {
                            delta.clear();
                            row::write_column_changes(delta, changed);
                            built.delta = delta.len() < row.len() - row::TIMESTAMP_BYTES;
                        }
                    }
                    None => {
                        let set = changed.filter_map(|(name, value)| Some((name, value?)));
                        built.adds = Some(column_bytes(set.clone()));
                        row::write_columns(row, set);
                    }
                }
            }
        }
        built.grows = row.len() > self.base.map_or(0, |base| base.size_bytes());
        built
    }

    fn keeps_attributes(&self, base: Row<'_>) -> bool {
        self.expiry_ms == base.expiry_ms()
            && self.user_flags == base.user_flags()
            && self.version.is_none()
            && base.version() == base.timestamp().raw()
    }
}

/// Bytes of columns with their names.
fn column_bytes<'a>(columns: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> usize {
    columns.map(|(name, value)| name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(base: Option<&[u8]>, edit: impl FnOnce(&mut RowBuilder<'_>)) -> (Vec<u8>, bool) {
        let mut builder = RowBuilder::new(base.map(Row::new));
        edit(&mut builder);
        let (mut row, mut delta) = (vec![1, 2, 3], vec![4]);
        let built = builder.build(&mut row, &mut delta);
        assert!(Row::check_body(&row[row::TIMESTAMP_BYTES..]));
        (row, built.delta)
    }

    #[test]
    fn what_is_not_set_stays() {
        let (first, _) = build(None, |row| {
            row.set_value(b"v").set_expiry_ms(Some(5)).set_user_flags(6);
        });
        let (second, delta) = build(Some(&first), |row| {
            row.set_value(b"w");
        });
        let row = Row::new(&second);
        assert_eq!(
            (row.value(), row.expiry_ms(), row.user_flags()),
            (Some(&b"w"[..]), Some(5), 6)
        );
        assert!(!delta);
        let (marked, _) = build(Some(&second), |row| {
            row.set_marks(3);
        });
        let (kept, _) = build(Some(&marked), |row| {
            row.set_expiry_ms(Some(7));
        });
        assert_eq!(
            (Row::new(&kept).marks(), Row::new(&kept).expiry_ms()),
            (3, Some(7))
        );
        let (fresh, _) = build(Some(&kept), |row| {
            row.set_value(b"w");
        });
        assert_eq!(Row::new(&fresh).marks(), 0, "a new value has none");
        let (columns, _) = build(Some(&kept), |row| {
            row.set_column(b"a", b"b");
        });
        assert_eq!(Row::new(&columns).marks(), 0);
        let (third, _) = build(Some(&second), |row| {
            row.set_expiry_ms(None);
        });
        assert_eq!(Row::new(&third).value(), Some(&b"w"[..]));
        assert_eq!(Row::new(&build(None, |_| ()).0).value(), Some(&b""[..]));
    }

    #[test]
    fn a_chosen_version_lasts_until_the_next_change() {
        let (chosen, _) = build(None, |row| {
            row.set_value(b"v").set_expiry_ms(Some(5)).set_version(77);
        });
        let row = Row::new(&chosen);
        assert_eq!((row.version(), row.value()), (77, Some(&b"v"[..])));
        let (next, _) = build(Some(&chosen), |row| {
            row.set_expiry_ms(None);
        });
        let row = Row::new(&next);
        assert_eq!((row.version(), row.value()), (0, Some(&b"v"[..])));
        let (columns, delta) = build(
            Some(
                &build(None, |row| {
                    row.set_column(b"a", b"b").set_version(8);
                })
                .0,
            ),
            |row| {
                row.set_column(b"c", b"d");
            },
        );
        assert_eq!((Row::new(&columns).version(), delta), (0, false));
        assert_eq!(Row::new(&columns).column_count(), 2);
    }

    #[test]
    fn columns_change_one_by_one_and_log_only_what_changed() {
        let (first, delta) = build(None, |row| {
            row.set_column(b"b", b"22222222")
                .set_column(b"a", b"11111111");
        });
        assert!(!delta);
        let (second, delta) = build(Some(&first), |row| {
            row.set_column(b"c", b"3").remove_column(b"zz");
        });
        assert!(delta);
        let names: Vec<_> = Row::new(&second).columns().map(|(name, _)| name).collect();
        assert_eq!(names, [b"a", b"b", b"c"]);
        let (_, delta) = build(Some(&second), |row| {
            row.set_column(b"c", b"4").set_user_flags(1);
        });
        assert!(!delta, "flags are not in a record of columns");
        let (plain, _) = build(Some(&second), |row| {
            row.set_value(b"plain");
        });
        let (again, delta) = build(Some(&plain), |row| {
            row.set_column(b"x", b"y");
        });
        assert_eq!((Row::new(&again).column_count(), delta), (1, false));
        let (cleared, _) = build(Some(&second), |row| {
            row.clear_columns();
        });
        assert_eq!(Row::new(&cleared).column_count(), 0);
    }
}
