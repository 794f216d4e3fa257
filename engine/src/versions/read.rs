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
        let mut chunk = Chunk::with_capacity(rows);
        let mut from = range.from.map(<[u8]>::to_vec);
        while left > 0 {
            let rest = ScanRange {
                from: from.as_ref().map(Vec::as_slice),
                ..*range
            };
            self.copy_chunk(space, &rest.limited(rows), &mut chunk)?;
            let flow = chunk.visit(range.direction, |key, row| {
                if !self.is_live(row) {
                    return ControlFlow::Continue(());
                }
                left -= 1;
                match visit(key, row) {
                    ControlFlow::Continue(()) if left > 0 => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            });
            match chunk.behind.take() {
                Some(last) if flow.is_continue() => from = Bound::Excluded(last),
                _ => return Ok(()),
            }
            rows = (rows * 4).min(LARGEST_CHUNK);
        }
        Ok(())
    }

    /// Copies the first rows of a range, about as many as its limit, in place of what a chunk has.
    fn copy_chunk(&self, space: &Space, range: &ScanRange<'_>, chunk: &mut Chunk) -> Result<()> {
        let Chunk {
            current,
            retained,
            behind,
        } = chunk;
        current.clear();
        retained.clear();
        let mut seen = 0;
        space.index.scan(range, |key, bytes| {
            seen += 1;
            if Row::new(bytes).timestamp() <= self.moment {
                current.push(key, bytes);
            }
            let is_full = seen == range.limit || current.bytes.len() >= CHUNK_BYTES;
            if is_full {
                *behind = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        if !space.versions.is_empty() {
            let seen = behind.clone();
            let to = seen.as_deref().map_or(range.to, Bound::Included);
            let covered = ScanRange { to, ..*range }.limited(usize::MAX);
            space.versions.scan(&covered, self.moment, |key, bytes| {
                retained.push(key, bytes);
                if retained.ends.len() == LARGEST_CHUNK || retained.bytes.len() >= CHUNK_BYTES {
                    // As far as both go.
                    *behind = Some(key.to_vec());
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        self.check()
    }
}

/// What a chunk makes room for at first, for each row: a short key, and a short row.
const ROW_BYTES: usize = 128;

/// Rows of a part of a range.
struct Chunk {
    /// From the index, some beyond the end of the part.
    current: CopiedRows,
    /// From the version store.
    retained: CopiedRows,
    /// The last key of the part, unless nothing is behind it.
    behind: Option<Vec<u8>>,
}

impl Chunk {
    fn with_capacity(rows: usize) -> Chunk {
        Chunk {
            current: CopiedRows {
                bytes: Vec::with_capacity(rows * ROW_BYTES),
                ends: Vec::with_capacity(rows),
            },
            retained: CopiedRows::default(),
            behind: None,
        }
    }

    /// Visits its rows in order, each key once, until `visit` breaks.
    fn visit(
        &self,
        direction: Direction,
        mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut current = self.current.iter();
        if self.retained.ends.is_empty() {
            return current.try_for_each(|(key, row)| visit(key, row));
        }
        let is_before = |a: &[u8], b: &[u8]| match direction {
            Direction::Forward => a < b,
            Direction::Reverse => a > b,
        };
        let last = self.behind.as_deref();
        let is_within = |key: &[u8]| last.is_none_or(|last| !is_before(last, key));
        let mut retained = self.retained.iter().peekable();
        for (key, row) in current {
            while let Some((key, row)) = retained.next_if(|(other, _)| is_before(other, key)) {
                visit(key, row)?;
            }
            if !is_within(key) {
                break;
            }
            // A row that was replaced after the index was read: both have it.
            retained.next_if(|(other, _)| *other == key);
            visit(key, row)?;
        }
        retained.try_for_each(|(key, row)| visit(key, row))
    }
}

/// Keys and rows, one behind the other.
#[derive(Default)]
struct CopiedRows {
    bytes: Vec<u8>,
    /// Where each key and each row ends.
    ends: Vec<(usize, usize)>,
}

impl CopiedRows {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    #[inline]
    fn push(&mut self, key: &[u8], row: &[u8]) {
        self.bytes.reserve(key.len() + row.len());
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
}
