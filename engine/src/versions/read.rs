//! Reading at a snapshot: the index first, then the version store.
//!
//! The order matters. A writer keeps the row that it replaces before it changes the index. So a
//! reader that finds a younger row in the index, or none, finds in the store what it missed; a
//! reader that asked the store first could miss the row in both.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, ScanRange, ValuePart};

use crate::error::Result;
use crate::index::space::Space;
use crate::planted::{PlantedBug, planted};
use crate::row::Row;
use crate::versions::chain::AtMoment;
use crate::versions::live::LiveSnapshot;

const FIRST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 1024;
/// A chunk ends early once it holds this much.
const CHUNK_BYTES: usize = 1 << 20;

impl LiveSnapshot {
    /// Whether a row had not expired at the snapshot's time.
    fn is_live(&self, row: Row<'_>) -> bool {
        !row.is_expired(|| match planted(PlantedBug::SnapshotExpiresLate) {
            true => self.now_ms + self.age().as_millis() as u64,
            false => self.now_ms,
        })
    }

    /// What the store has of a key, for a reader that has asked the index.
    fn read_retained<R>(
        &self,
        space: &Space,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Option<R> {
        if space.versions.is_empty() {
            return None;
        }
        space.versions.at(key, self.moment, |at| match at {
            AtMoment::Row(bytes) => {
                let row = Row::new(bytes);
                self.is_live(row).then(|| read(row))
            }
            AtMoment::Absent | AtMoment::Unknown => None,
        })
    }

    /// Runs `read` on the row that `key` had; `None` if there was none.
    ///
    /// # Errors
    /// The index cannot be read, or the snapshot was [ended](LiveSnapshot::check).
    #[inline]
    pub(crate) fn read<R>(
        &self,
        space: &Space,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut pending = Some(read);
        let found = space.index.get(key, ValuePart::Whole, |bytes| {
            let row = Row::new(bytes);
            if row.timestamp() > self.moment {
                return None;
            }
            let read = pending.take().filter(|_| self.is_live(row));
            Some(read.map(|read| read(row)))
        })?;
        let answer = match (found.flatten(), pending) {
            (Some(answer), _) => answer,
            (None, Some(read)) => self.read_retained(space, key, read),
            (None, None) => None,
        };
        self.check().map(|()| answer)
    }

    /// Calls `read(i, row)` once for each `keys[i]`, in no particular order; the lookups in the
    /// index overlap.
    pub(crate) fn get_many(
        &self,
        space: &Space,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        let mut others = Vec::new();
        space.index.get_many(keys, |i, bytes| {
            let row = bytes.map(Row::new);
            match row.filter(|row| row.timestamp() <= self.moment) {
                Some(row) => read(i, Some(row).filter(|row| self.is_live(*row))),
                None => others.push(i),
            }
        })?;
        for i in others {
            let mut was_read = false;
            self.read_retained(space, keys[i], |row| {
                was_read = true;
                read(i, Some(row));
            });
            if !was_read {
                read(i, None);
            }
        }
        self.check()
    }

    /// Visits the rows that a range had, at most as many as its limit, until `visit` breaks. Copies
    /// them, a chunk at a time.
    pub(crate) fn scan(
        &self,
        space: &Space,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut left = range.limit;
        let mut rows = match left {
            usize::MAX => FIRST_CHUNK,
            limit => limit.clamp(FIRST_CHUNK, LARGEST_CHUNK),
        };
        let mut from = range.from.map(<[u8]>::to_vec);
        while left > 0 {
            let rest = ScanRange {
                from: from.as_ref().map(Vec::as_slice),
                ..*range
            };
            let chunk = self.copy_chunk(space, &rest.limited(rows))?;
            for (key, row) in chunk.rows.iter() {
                if self.is_live(row) {
                    left -= 1;
                    if visit(key, row).is_break() || left == 0 {
                        return Ok(());
                    }
                }
            }
            match chunk.behind {
                None => return Ok(()),
                Some(last) => from = Bound::Excluded(last),
            }
            rows = (rows * 4).min(LARGEST_CHUNK);
        }
        Ok(())
    }

    /// Copies the first rows of a range, about as many as its limit.
    fn copy_chunk(&self, space: &Space, range: &ScanRange<'_>) -> Result<Chunk> {
        let mut current = CopiedRows::default();
        let mut last = None;
        let mut seen = 0;
        space.index.scan(range, |key, bytes| {
            seen += 1;
            if Row::new(bytes).timestamp() <= self.moment {
                current.push(key, bytes);
            }
            let is_full = seen == range.limit || current.bytes.len() >= CHUNK_BYTES;
            if is_full {
                last = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let mut kept = CopiedRows::default();
        if !space.versions.is_empty() {
            let seen = last.clone();
            let to = seen.as_deref().map_or(range.to, Bound::Included);
            let covered = ScanRange { to, ..*range }.limited(usize::MAX);
            space.versions.scan(&covered, self.moment, |key, bytes| {
                kept.push(key, bytes);
                if kept.ends.len() == LARGEST_CHUNK || kept.bytes.len() >= CHUNK_BYTES {
                    // As far as both go.
                    last = Some(key.to_vec());
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        self.check()?;
        let rows = match kept.ends.is_empty() {
            true => current,
            false => current.merge(&kept, range.direction, last.as_deref()),
        };
        Ok(Chunk { rows, behind: last })
    }
}

/// Rows of a part of a range.
struct Chunk {
    rows: CopiedRows,
    /// The last key of the part, unless nothing is behind it.
    behind: Option<Vec<u8>>,
}

/// Keys and rows, one behind the other.
#[derive(Default)]
struct CopiedRows {
    bytes: Vec<u8>,
    /// Where each key and each row ends.
    ends: Vec<(usize, usize)>,
}

impl CopiedRows {
    fn push(&mut self, key: &[u8], row: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], Row<'_>)> {
        let mut from = 0;
        self.ends.iter().map(move |&(key_end, end)| {
            let key = &self.bytes[from..key_end];
            from = end;
            (key, Row::new(&self.bytes[key_end..end]))
        })
    }

    /// These rows and others, each key once, up to a last key.
    fn merge(&self, others: &CopiedRows, direction: Direction, last: Option<&[u8]>) -> CopiedRows {
        let is_before = |a: &[u8], b: &[u8]| match direction {
            Direction::Forward => a < b,
            Direction::Reverse => a > b,
        };
        let mut merged = CopiedRows::default();
        let mut others = others.iter().peekable();
        let is_behind = |key: &[u8]| last.is_some_and(|last| is_before(last, key));
        for (key, row) in self.iter() {
            while let Some((key, row)) = others.next_if(|(other, _)| is_before(other, key)) {
                merged.push(key, row.bytes());
            }
            // A row that was replaced after the index was read: both have it.
            others.next_if(|(other, _)| *other == key);
            if !is_behind(key) {
                merged.push(key, row.bytes());
            }
        }
        others.for_each(|(key, row)| merged.push(key, row.bytes()));
        merged
    }
}
