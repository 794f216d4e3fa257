//! Reading ranges: scans that borrow, and iterators that own.
//!
//! An iterator fetches rows in chunks that grow from a few to many. So it pins no epoch between two
//! calls, and pays no descent per row. Each end fetches chunks of its own, up to the position of
//! the other end.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use hedgerow_index::{Direction, IndexError, ScanRange};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::any_index::AnyIndex;
use crate::index::bounds::KeyRange;
use crate::index::space::Space;
use crate::row::Row;
use crate::versions::open::OpenSnapshot;

/// Visits the live rows of a range, at most as many as its limit, until `visit` breaks.
///
/// The index counts expired rows against its limit too. Where it met some, [`scan_behind`] makes up
/// for them.
pub(crate) fn scan(
    engine: &Engine,
    space: &Space,
    range: &ScanRange<'_>,
    visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
) -> Result<()> {
    scan_live(&space.index, range, || engine.now_ms(), visit)
}

/// What is scanned.
pub(crate) trait Scan {
    /// [`Index::scan`](hedgerow_index::Index::scan), with the closure compiled in where that pays.
    fn scan(
        &self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> std::result::Result<(), IndexError>;
}

impl Scan for AnyIndex {
    #[inline]
    fn scan(
        &self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> std::result::Result<(), IndexError> {
        AnyIndex::scan(self, range, visit)
    }
}

/// [`scan`] of an index, at a time in Unix milliseconds.
#[inline]
pub(crate) fn scan_live(
    index: &impl Scan,
    range: &ScanRange<'_>,
    now: impl Fn() -> u64,
    mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let mut now_ms = None;
    let is_limited = range.limit < usize::MAX;
    let (mut seen, mut expired, mut broke, mut last) = (0, 0, false, Vec::new());
    index.scan(range, |key, bytes| {
        seen += 1;
        let row = Row::new(bytes);
        if row.is_expired(|| *now_ms.get_or_insert_with(&now)) {
            expired += 1;
        } else if visit(key, row).is_break() {
            broke = true;
            return ControlFlow::Break(());
        }
        if expired > 0 && is_limited {
            last.clear();
            last.extend_from_slice(key);
        }
        ControlFlow::Continue(())
    })?;
    // Fewer rows than asked for: the range has no more.
    let has_ended = seen < range.limit;
    if broke || expired == 0 || has_ended {
        return Ok(());
    }
    let now_ms = now_ms.unwrap_or_else(now);
    scan_behind(index, &range.limited(expired), last, now_ms, &mut visit)
}

/// The most rows that a scan asks the index for to find a few live ones.
const MOST_ROWS_AT_ONCE: usize = 1024;

/// [`scan`] of the rows behind a key, after expired ones: it asks for twice as many rows each time,
/// so that thousands of expired rows do not cost a descent for every few of them.
#[cold]
fn scan_behind(
    index: &impl Scan,
    range: &ScanRange<'_>,
    mut last: Vec<u8>,
    now_ms: u64,
    visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let (mut wanted, mut rows) = (range.limit, range.limit);
    loop {
        rows = wanted.max((2 * rows).min(MOST_ROWS_AT_ONCE));
        let behind = std::mem::take(&mut last);
        let from = Bound::Excluded(behind.as_slice());
        let (mut seen, mut is_done) = (0, false);
        let rest = ScanRange { from, ..*range }.limited(rows);
        index.scan(&rest, |key, bytes| {
            seen += 1;
            let row = Row::new(bytes);
            if !row.is_expired(|| now_ms) {
                wanted -= 1;
                is_done = visit(key, row).is_break() || wanted == 0;
            }
            if seen == rows {
                last.extend_from_slice(key);
            }
            if is_done {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if is_done || seen < rows {
            return Ok(());
        }
    }
}

/// Visits the keys of the live rows of a range, at most as many as its limit, until `visit` breaks.
/// Where no row of the keyspace expires, the rows themselves are not touched.
pub(crate) fn scan_keys(
    engine: &Engine,
    space: &Space,
    range: &ScanRange<'_>,
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    if space.expiring() > 0 {
        return scan(engine, space, range, |key, _| visit(key));
    }
    Ok(space.index.scan(&range.keys_only(), |key, _| visit(key))?)
}

/// A key and its row, copied out of the index.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, then the row.
    bytes: Vec<u8>,
    key_bytes: usize,
}

impl Entry {
    pub(crate) fn new(key: &[u8], row: Row<'_>) -> Entry {
        let mut bytes = Vec::with_capacity(key.len() + row.size_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(row.bytes());
        Entry {
            bytes,
            key_bytes: key.len(),
        }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    /// The row.
    pub fn row(&self) -> Row<'_> {
        Row::new(&self.bytes[self.key_bytes..])
    }

    /// The plain value; `None` for a row of columns.
    pub fn value(&self) -> Option<&[u8]> {
        self.row().value()
    }

    /// The key alone.
    pub fn into_key(mut self) -> Vec<u8> {
        self.bytes.truncate(self.key_bytes);
        self.bytes
    }

    /// Copies of key and plain value (empty for a row of columns).
    pub fn to_pair(&self) -> (Vec<u8>, Vec<u8>) {
        (
            self.key().to_vec(),
            self.value().unwrap_or_default().to_vec(),
        )
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key().escape_ascii().to_string();
        f.debug_struct("Entry")
            .field("key", &key)
            .field("row", &self.row())
            .finish()
    }
}

const FIRST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 1024;
/// A chunk ends early once it holds this much.
const CHUNK_BYTES: usize = 1 << 20;

/// An iterator over the rows of a range, from both ends. See
/// [`Keyspace::range`](crate::Keyspace::range).
///
/// An item is an error where the index cannot be read; there the iteration ends, from both ends.
pub struct Range {
    source: Source,
    space: Arc<Space>,
    /// What neither end has fetched yet lies between these.
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    front: VecDeque<Entry>,
    /// Fetched from the end: the last row comes first.
    back: VecDeque<Entry>,
    exhausted: bool,
    /// Why fetching stopped; comes after what was fetched before.
    failed: Option<Error>,
    chunk: usize,
}

/// Where a [`Range`] has its rows from.
enum Source {
    /// The database as it is when a chunk is fetched.
    Present(Arc<Engine>),
    Snapshot(Arc<OpenSnapshot>),
}

impl Range {
    pub(crate) fn new(engine: Arc<Engine>, space: Arc<Space>, range: &impl KeyRange) -> Range {
        Range::of(Source::Present(engine), space, range)
    }

    /// The range as a snapshot sees it, which stays open meanwhile.
    pub(crate) fn at_snapshot(
        open: Arc<OpenSnapshot>,
        space: Arc<Space>,
        range: &impl KeyRange,
    ) -> Range {
        Range::of(Source::Snapshot(open), space, range)
    }

    fn of(source: Source, space: Arc<Space>, range: &impl KeyRange) -> Range {
        Range {
            source,
            space,
            start: range.lower().map(<[u8]>::to_vec),
            end: range.upper().map(<[u8]>::to_vec),
            front: VecDeque::new(),
            back: VecDeque::new(),
            exhausted: false,
            failed: None,
            chunk: FIRST_CHUNK,
        }
    }

    /// Fetches the next rows at one end of what is left.
    fn fetch(&mut self, direction: Direction) {
        let bounds = (as_slice(&self.start), as_slice(&self.end));
        let fetched = match direction {
            Direction::Forward => &mut self.front,
            Direction::Reverse => &mut self.back,
        };
        let mut bytes = 0;
        let mut full = false;
        let chunk = self.chunk;
        let range = ScanRange::between(bounds, direction).limited(chunk);
        let copy = |key: &[u8], row: Row<'_>| {
            let entry = Entry::new(key, row);
            bytes += entry.bytes.len();
            fetched.push_back(entry);
            full = fetched.len() == chunk || bytes >= CHUNK_BYTES;
            if full {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let scanned = match &self.source {
            Source::Present(engine) => scan(engine, &self.space, &range, copy),
            Source::Snapshot(open) => open.live.scan(&self.space, &range, copy),
        };
        if let Err(error) = scanned {
            self.failed = Some(error);
            self.exhausted = true;
            return;
        }
        self.chunk = (self.chunk * 4).min(LARGEST_CHUNK);
        match fetched.back() {
            Some(last) if full => {
                let bound = Bound::Excluded(last.key().to_vec());
                match direction {
                    Direction::Forward => self.start = bound,
                    Direction::Reverse => self.end = bound,
                }
            }
            _ => self.exhausted = true,
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Iterator for Range {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        if self.front.is_empty() && !self.exhausted {
            self.fetch(Direction::Forward);
        }
        if let Some(entry) = self.front.pop_front() {
            return Some(Ok(entry));
        }
        if let Some(error) = self.failed.take() {
            self.back.clear();
            return Some(Err(error));
        }
        self.back.pop_back().map(Ok)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        if self.back.is_empty() && !self.exhausted {
            self.fetch(Direction::Reverse);
        }
        if let Some(entry) = self.back.pop_front() {
            return Some(Ok(entry));
        }
        if let Some(error) = self.failed.take() {
            self.front.clear();
            return Some(Err(error));
        }
        self.front.pop_back().map(Ok)
    }
}

impl std::iter::FusedIterator for Range {}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (start, end) = (&self.start, &self.end);
        f.debug_struct("Range")
            .field("start", start)
            .field("end", end)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use hedgerow_index::Decision;
    use hedgerow_log::Timestamp;

    use super::*;
    use crate::IndexKind;
    use crate::row::write_header;

    /// An index that counts how often it is asked.
    struct Counted {
        index: AnyIndex,
        scans: Cell<usize>,
    }

    impl Scan for Counted {
        fn scan(
            &self,
            range: &ScanRange<'_>,
            visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        ) -> std::result::Result<(), IndexError> {
            self.scans.set(self.scans.get() + 1);
            self.index.scan(range, visit)
        }
    }

    const NOW_MS: u64 = 1_000;

    /// Rows `a` to `j`, of which the named ones have expired.
    fn rows(expired: &[u8]) -> Counted {
        let index = AnyIndex::in_memory(IndexKind::Masstree).unwrap().unwrap();
        for name in b'a'..=b'j' {
            let expiry_ms = expired.contains(&name).then_some(NOW_MS - 1);
            let timestamp = Timestamp::new(1, 1);
            let put = |_: Option<&[u8]>, new: &mut Vec<u8>| {
                write_header(new, timestamp, expiry_ms, 0, false);
                Decision::Put(())
            };
            let part = hedgerow_index::ValuePart::Head;
            index.update(&[name], part, &mut Vec::new(), put).unwrap();
        }
        let scans = Cell::new(0);
        Counted { index, scans }
    }

    #[test]
    fn an_index_is_asked_no_more_once_the_range_has_ended() {
        let bounds = (Bound::Included(&b"b"[..]), Bound::Excluded(&b"h"[..]));
        // Expired rows, limit, rows found, scans of the index.
        let cases: [(&[u8], usize, &[u8], usize); 7] = [
            (b"", 100, b"bcdefg", 1),
            (b"c", 100, b"bdefg", 1),
            (b"g", 7, b"bcdef", 1),
            (b"bcdefg", 100, b"", 1),
            (b"bcdefg", usize::MAX, b"", 1),
            // As many as asked for, some expired: there may be more.
            (b"cf", 3, b"bde", 2),
            (b"c", 6, b"bdefg", 2),
        ];
        for direction in [Direction::Forward, Direction::Reverse] {
            for (expired, limit, live, scans) in cases {
                let index = rows(expired);
                let range = ScanRange::between(bounds, direction).limited(limit);
                let mut found = Vec::new();
                let visit = |key: &[u8], _: Row<'_>| {
                    found.extend_from_slice(key);
                    ControlFlow::Continue(())
                };
                scan_live(&index, &range, || NOW_MS, visit).unwrap();
                let context = format!("{} of {limit}, {direction:?}", expired.escape_ascii());
                if direction == Direction::Reverse {
                    found.reverse();
                }
                // Backwards a limit leaves out the first rows.
                let is_whole = direction == Direction::Forward || limit >= 6;
                assert!(!is_whole || found == live, "{context}: {found:?}");
                assert_eq!(found.len(), live.len(), "{context}");
                assert_eq!(index.scans.get(), scans, "{context}");
            }
        }
    }
}
