//! Scanning at a snapshot: rows where they are as long as nothing was replaced there, and otherwise
//! a chunk at a time, merged with the version store.
//!
//! A row that was removed since leaves no trace in the index, so a scan of the index has to know
//! which rows of the store lie before the next key. It asks the store once for the first of them.
//! The answer holds as long as the store keeps no further version: a counter tells
//! ([`VersionStore::changes`](super::store::VersionStore::changes)). A writer keeps a version,
//! counts it, and changes the index, in this order. So who misses a row in the index sees the
//! counter changed when it looks at the next one.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, ScanRange};

use crate::commit::staged::VisitRow;
use crate::error::Result;
use crate::index::space::Space;
use crate::row::Row;
use crate::versions::live::LiveSnapshot;

const FIRST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 1024;
/// A chunk ends early once it holds this much.
const CHUNK_BYTES: usize = 1 << 20;
/// A scan that comes so far before the store changes goes on in place.
const ROWS_WORTH_IN_PLACE: usize = 64;

/// How far a scan came, and what it may still visit.
struct Progress {
    /// Where what was not visited begins.
    from: Bound<Vec<u8>>,
    /// The most rows that are still wanted.
    left: usize,
    /// How many the index is asked for: more where many of its rows are not the snapshot's.
    rows: usize,
}

impl Progress {
    fn new(range: &ScanRange<'_>) -> Progress {
        Progress {
            from: range.from.map(<[u8]>::to_vec),
            left: range.limit,
            rows: range.limit,
        }
    }

    fn rest<'a>(&'a self, range: &ScanRange<'a>) -> ScanRange<'a> {
        ScanRange {
            from: self.from.as_ref().map(Vec::as_slice),
            ..range.limited(self.rows)
        }
    }
}

/// Why a part of a scan ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The range is over, the limit reached, or the visitor wants no more.
    Done,
    /// There is more, and perhaps nothing of it was replaced.
    Passed,
    /// The store has rows there.
    Retained,
}

impl LiveSnapshot {
    /// Visits the rows that a range had, at most as many as its limit, until `visit` breaks: where
    /// they are, or copies of them where the store has some.
    pub(crate) fn scan(
        &self,
        space: &Space,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut progress = Progress::new(range);
        let mut ended = match progress.left {
            0 => Ended::Done,
            _ => Ended::Passed,
        };
        let mut chunk = None;
        while ended != Ended::Done {
            ended = match ended {
                Ended::Retained => {
                    let visit = &mut visit as &mut VisitRow<'_>;
                    let chunk = chunk.get_or_insert_with(|| Chunk::for_rows(progress.left));
                    self.scan_chunk(space, range, &mut progress, chunk, visit)?
                }
                _ => self.scan_in_place(space, range, &mut progress, &mut visit)?,
            };
        }
        Ok(())
    }

    /// Visits rows in the index as long as the store has none before them.
    #[inline]
    fn scan_in_place(
        &self,
        space: &Space,
        range: &ScanRange<'_>,
        progress: &mut Progress,
        visit: &mut impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<Ended> {
        let versions = &space.versions;
        let changes = versions.changes();
        let retained = versions.first_retained(&progress.rest(range), self.moment);
        let is_beyond = |key: &[u8]| {
            let first = retained.as_deref();
            first.is_some_and(|first| !is_before(range.direction, key, first))
        };
        self.check()?;
        let mut ended = Ended::Passed;
        let (mut seen, mut left) = (0, progress.left);
        let mut last = Vec::new();
        space.index.scan(&progress.rest(range), |key, bytes| {
            // After the row was read: see the module.
            if versions.changes() != changes || is_beyond(key) || self.check().is_err() {
                ended = Ended::Retained;
                return ControlFlow::Break(());
            }
            seen += 1;
            let row = Row::new(bytes);
            if row.timestamp() <= self.moment && self.is_live(row) {
                left -= 1;
                if visit(key, row).is_break() || left == 0 {
                    ended = Ended::Done;
                    return ControlFlow::Break(());
                }
            }
            last.clear();
            last.extend_from_slice(key);
            ControlFlow::Continue(())
        })?;
        self.check()?;
        // Did the index reach the end of the range, and is nothing of the store behind its rows?
        if ended == Ended::Passed && seen < progress.rows {
            ended = match retained.is_none() && versions.changes() == changes {
                true => Ended::Done,
                false => Ended::Retained,
            };
        }
        if ended == Ended::Retained && seen >= ROWS_WORTH_IN_PLACE && retained.is_none() {
            ended = Ended::Passed;
        }
        progress.left = left;
        progress.rows = left.max((2 * seen).min(LARGEST_CHUNK));
        if seen > 0 {
            progress.from = Bound::Excluded(last);
        }
        Ok(ended)
    }

    /// Visits the rows of the next chunk, which it copies.
    fn scan_chunk(
        &self,
        space: &Space,
        range: &ScanRange<'_>,
        progress: &mut Progress,
        chunk: &mut Chunk,
        visit: &mut VisitRow<'_>,
    ) -> Result<Ended> {
        let rest = progress.rest(range).limited(chunk.rows);
        self.copy_chunk(space, &rest, chunk)?;
        chunk.rows = (chunk.rows * 4).min(LARGEST_CHUNK);
        let left = &mut progress.left;
        let flow = chunk.visit(range.direction, |key, row| {
            if !self.is_live(row) {
                return ControlFlow::Continue(());
            }
            *left -= 1;
            match visit(key, row) {
                ControlFlow::Continue(()) if *left > 0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        });
        match chunk.behind.take() {
            Some(last) if flow.is_continue() => progress.from = Bound::Excluded(last),
            _ => return Ok(Ended::Done),
        }
        progress.rows = progress.left.max(FIRST_CHUNK);
        match chunk.retained.ends.is_empty() {
            true => Ok(Ended::Passed),
            false => Ok(Ended::Retained),
        }
    }

    /// Copies the first rows of a range, about as many as its limit, in place of what a chunk has.
    fn copy_chunk(&self, space: &Space, range: &ScanRange<'_>, chunk: &mut Chunk) -> Result<()> {
        let Chunk {
            current,
            retained,
            behind,
            ..
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

/// Whether a scan meets `a` before `b`.
#[inline]
fn is_before(direction: Direction, a: &[u8], b: &[u8]) -> bool {
    match direction {
        Direction::Forward => a < b,
        Direction::Reverse => a > b,
    }
}

/// What a chunk makes room for at first, for each row: a short key, and a short row.
const ROW_BYTES: usize = 128;

/// Rows of a part of a range.
struct Chunk {
    /// How many rows of the index the next one shall have, about.
    rows: usize,
    /// From the index, some beyond the end of the part.
    current: CopiedRows,
    /// From the version store.
    retained: CopiedRows,
    /// The last key of the part, unless nothing is behind it.
    behind: Option<Vec<u8>>,
}

impl Chunk {
    /// For a scan that wants so many rows.
    fn for_rows(wanted: usize) -> Chunk {
        let rows = match wanted {
            usize::MAX => FIRST_CHUNK,
            wanted => wanted.clamp(FIRST_CHUNK, LARGEST_CHUNK),
        };
        Chunk {
            rows,
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
        let is_before = |a: &[u8], b: &[u8]| is_before(direction, a, b);
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
