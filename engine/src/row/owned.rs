//! Rows by themselves, as a backend makes them of what it stores.

use hedgerow_log::Timestamp;

use crate::row::builder::RowBuilder;
use crate::row::{self, Row};

/// What a row has besides its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowAttributes {
    /// When the row expires, in milliseconds since the Unix epoch; `None` for never.
    pub expiry_ms: Option<u64>,
    /// 32 bits stored with the row.
    pub user_flags: u32,
    /// Two bits (0 to 3) of a plain row; see [`RowBuilder::set_marks`].
    pub marks: u8,
    /// The version that its writer chose, if that is not the one of its commit.
    pub version: Option<u64>,
}

/// A row in memory of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedRow {
    bytes: Vec<u8>,
}

impl OwnedRow {
    fn begin(timestamp: Timestamp, attributes: &RowAttributes, columns: bool) -> Vec<u8> {
        let RowAttributes {
            expiry_ms,
            user_flags,
            marks,
            version,
        } = *attributes;
        let mut bytes = Vec::new();
        row::write_header(&mut bytes, timestamp, expiry_ms, user_flags, columns);
        if let Some(version) = version {
            row::set_version(&mut bytes, version);
        }
        if !columns {
            row::set_marks(&mut bytes, marks & 3);
        }
        bytes
    }

    /// A row of one plain value that a commit of this timestamp wrote. Copies the value.
    pub fn plain(timestamp: Timestamp, attributes: &RowAttributes, value: &[u8]) -> OwnedRow {
        let mut bytes = OwnedRow::begin(timestamp, attributes, false);
        bytes.extend_from_slice(value);
        OwnedRow { bytes }
    }

    /// A row of columns, which are sorted by name and differ. Copies them.
    pub fn of_columns<'a>(
        timestamp: Timestamp,
        attributes: &RowAttributes,
        columns: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> OwnedRow {
        let mut bytes = OwnedRow::begin(timestamp, attributes, true);
        row::write_columns(&mut bytes, columns);
        OwnedRow { bytes }
    }

    /// The row that a builder has come to, as a commit of this timestamp writes it.
    pub fn built(builder: &RowBuilder<'_>, timestamp: Timestamp) -> OwnedRow {
        let (mut bytes, mut delta) = (Vec::new(), Vec::new());
        builder.build(&mut bytes, &mut delta);
        bytes[..row::TIMESTAMP_BYTES].copy_from_slice(&timestamp.raw().to_le_bytes());
        OwnedRow { bytes }
    }

    /// The row, borrowed.
    #[inline]
    pub fn row(&self) -> Row<'_> {
        Row::new(&self.bytes)
    }
}

impl std::fmt::Debug for OwnedRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.row().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_it_was_made_of() {
        let attributes = RowAttributes {
            expiry_ms: Some(7),
            user_flags: 8,
            marks: 2,
            version: Some(9),
        };
        let plain = OwnedRow::plain(Timestamp::new(3, 4), &attributes, b"value");
        let row = plain.row();
        assert_eq!(
            (row.value(), row.timestamp()),
            (Some(&b"value"[..]), Timestamp::new(3, 4))
        );
        assert_eq!((row.expiry_ms(), row.user_flags()), (Some(7), 8));
        assert_eq!((row.marks(), row.version()), (2, 9));
        let columns = [(&b"a"[..], &b"1"[..]), (b"b", b"")];
        let attributes = RowAttributes::default();
        let made = OwnedRow::of_columns(Timestamp::new(1, 1), &attributes, columns.into_iter());
        assert!(made.row().columns().eq(columns));
        assert_eq!(made.row().version(), Timestamp::new(1, 1).raw());
        let mut builder = RowBuilder::over(Some(made.row()));
        builder.set_column(b"c", b"3").remove_column(b"a");
        let built = OwnedRow::built(&builder, Timestamp::new(2, 2));
        let row = built.row();
        assert_eq!(
            (row.timestamp(), row.column_count()),
            (Timestamp::new(2, 2), 2)
        );
        assert_eq!(
            (row.column(b"a"), row.column(b"c")),
            (None, Some(&b"3"[..]))
        );
    }
}
