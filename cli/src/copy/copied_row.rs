//! A row on its way from one place to another.

use std::ops::{Bound, ControlFlow};
use std::time::{SystemTime, UNIX_EPOCH};

use hedgerow::backend::{BackendKeyspace, Put};
use hedgerow::{Direction, Row, RowBuilder};

use crate::error::Result;

/// Rows that are read, and written, together.
pub(super) const PAGE_ROWS: usize = 4096;
/// Bytes of keys and values after which a page ends.
pub(super) const PAGE_BYTES: usize = 4 << 20;

/// A row on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopiedRow {
    pub(super) key: Vec<u8>,
    content: Content,
    expiry_ms: Option<u64>,
    user_flags: u32,
    marks: u8,
    /// The version that its writer chose.
    version: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Value(Vec<u8>),
    Columns(Vec<(Vec<u8>, Vec<u8>)>),
}

impl CopiedRow {
    pub(super) fn of(key: &[u8], row: Row<'_>) -> CopiedRow {
        let content = match row.value() {
            Some(value) => Content::Value(value.to_vec()),
            None => {
                let columns = row.columns();
                Content::Columns(columns.map(|(n, v)| (n.to_vec(), v.to_vec())).collect())
            }
        };
        CopiedRow {
            key: key.to_vec(),
            content,
            expiry_ms: row.expiry_ms(),
            user_flags: row.user_flags(),
            marks: row.marks(),
            version: Some(row.version()).filter(|version| *version != row.timestamp().raw()),
        }
    }

    /// Whether nobody sees it any more.
    pub(super) fn has_expired(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.unwrap_or_default().as_millis() as u64;
        self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms)
    }

    pub(super) fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Value(value) => value.len(),
            Content::Columns(columns) => columns.iter().map(|(n, v)| n.len() + v.len()).sum(),
        };
        self.key.len() + content
    }

    /// The put that makes the row, if one can.
    pub(super) fn as_put(&self) -> Option<Put<'_>> {
        match &self.content {
            Content::Value(value) if self.marks == 0 && self.version.is_none() => Some(Put {
                key: &self.key,
                value,
                expiry_ms: self.expiry_ms,
                user_flags: self.user_flags,
            }),
            _ => None,
        }
    }

    pub(super) fn write(&self, new: &mut RowBuilder<'_>) {
        new.set_expiry_ms(self.expiry_ms)
            .set_user_flags(self.user_flags);
        match &self.content {
            Content::Value(value) => {
                new.set_value(value).set_marks(self.marks);
            }
            Content::Columns(columns) => {
                new.clear_columns();
                for (name, value) in columns {
                    new.set_column(name, value);
                }
            }
        }
        if let Some(version) = self.version {
            new.set_version(version);
        }
    }
}

/// The first rows of a range, in order, so many at most; none at its end.
pub(super) fn page<K: BackendKeyspace>(
    keyspace: &K,
    range: (Bound<&[u8]>, Bound<&[u8]>),
    most_rows: usize,
) -> Result<Vec<CopiedRow>> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    let visit = |key: &[u8], row: Row<'_>| {
        let row = CopiedRow::of(key, row);
        bytes += row.bytes();
        rows.push(row);
        match rows.len() < most_rows && bytes < PAGE_BYTES {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    keyspace.scan_up_to(range, Direction::Forward, most_rows, visit)?;
    Ok(rows)
}

/// The range behind a key, or all keys.
pub(super) fn behind(key: Option<&[u8]>) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (
        key.map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Unbounded,
    )
}
