//! What differs between two keyspaces: both are read in order, page by page, side by side.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Bound;

use hedgerow::backend::BackendKeyspace;
use indicatif::ProgressBar;

use super::copied_row::{CopiedRow, PAGE_ROWS, page};
use crate::error::Result;

type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// One key that differs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// The row is in the first keyspace alone.
    First(CopiedRow),
    /// Both have a row, and not the same: that of the first.
    Both(CopiedRow),
    /// The second keyspace alone has a row under this key.
    Second(Vec<u8>),
}

impl Difference {
    pub(super) fn key(&self) -> &[u8] {
        match self {
            Difference::First(row) | Difference::Both(row) => &row.key,
            Difference::Second(key) => key,
        }
    }
}

/// The rows of a range, in order, of which a page is in memory.
struct Rows<'a, K> {
    /// `None` has no rows.
    keyspace: Option<&'a K>,
    page: VecDeque<CopiedRow>,
    lower: Bound<Vec<u8>>,
    upper: Bound<&'a [u8]>,
}

impl<'a, K: BackendKeyspace> Rows<'a, K> {
    fn new(keyspace: Option<&'a K>, (lower, upper): KeyBounds<'a>) -> Rows<'a, K> {
        Rows {
            keyspace,
            page: VecDeque::new(),
            lower: lower.map(<[u8]>::to_vec),
            upper,
        }
    }

    /// The next row that somebody can still see.
    fn peek(&mut self) -> Result<Option<&CopiedRow>> {
        loop {
            while self.page.front().is_some_and(CopiedRow::has_expired) {
                self.page.pop_front();
            }
            let (true, Some(keyspace)) = (self.page.is_empty(), self.keyspace) else {
                return Ok(self.page.front());
            };
            let lower = self.lower.as_ref().map(Vec::as_slice);
            self.page = page(keyspace, (lower, self.upper), PAGE_ROWS)?.into();
            match self.page.back() {
                Some(last) => self.lower = Bound::Excluded(last.key.clone()),
                None => self.keyspace = None,
            }
        }
    }

    fn take(&mut self) -> Option<CopiedRow> {
        self.page.pop_front()
    }

    /// Takes the next row, which is no difference if it has expired since it was looked at: the
    /// other keyspace may have been read after that.
    fn take_visible(&mut self) -> Option<CopiedRow> {
        self.take().filter(|row| !row.has_expired())
    }
}

/// The keys that differ, in order.
pub(super) struct Differences<'a, K, L> {
    first: Rows<'a, K>,
    second: Rows<'a, L>,
    /// Of the first keyspace, passed so far.
    rows: u64,
}

impl<'a, K: BackendKeyspace, L: BackendKeyspace> Differences<'a, K, L> {
    /// Between the rows of a range; a keyspace that is not there has none.
    pub(super) fn new(
        first: Option<&'a K>,
        second: Option<&'a L>,
        range: KeyBounds<'a>,
    ) -> Differences<'a, K, L> {
        Differences {
            first: Rows::new(first, range),
            second: Rows::new(second, range),
            rows: 0,
        }
    }

    /// The rows of the first keyspace that were passed.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The next one. The bar counts rows of the first keyspace.
    ///
    /// # Errors
    /// Rows cannot be read.
    pub(super) fn next(&mut self, bar: &ProgressBar) -> Result<Option<Difference>> {
        loop {
            let order = match (self.first.peek()?, self.second.peek()?) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(first), Some(second)) => first.key.cmp(&second.key),
            };
            if order != Ordering::Greater {
                self.rows += 1;
                bar.inc(1);
            }
            let found = match order {
                Ordering::Less => self.first.take_visible().map(Difference::First),
                Ordering::Greater => {
                    let row = self.second.take_visible();
                    row.map(|row| Difference::Second(row.key))
                }
                Ordering::Equal => {
                    let (first, second) = (self.first.take(), self.second.take());
                    let is_same = first == second;
                    first.filter(|_| !is_same).map(Difference::Both)
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }
}
