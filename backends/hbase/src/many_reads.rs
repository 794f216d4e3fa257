//! Reading many rows: each key once, in calls that a gateway has memory for.
//!
//! A gateway holds all rows of a call in memory, some of them more than once, and ends where that
//! is too much. How long rows are is known only when they are here. So the first call asks for few,
//! and each call after it for as many as fit if they are as long as those before.

use std::collections::HashMap;
use std::time::Instant;

use hedgerow::{Result, Row};

use crate::at_once::at_once;
use crate::calls::Calls;
use crate::cells::value_bytes;
use crate::clock::now_ms;
use crate::failure;
use crate::keyspace::{Found, HbaseKeyspace, ROWS_OF_ANY_LENGTH};
use crate::row_reads::{Cells, together_until};
use crate::stored_row;
use crate::thrift2::TGet;

/// The most rows of a call.
const CALL_ROWS: usize = 64;
/// About how many bytes a call asks for.
const CALL_BYTES: usize = 4 << 20;

/// A key, and all the places where it comes.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'k> {
    key: &'k [u8],
    places: Vec<usize>,
}

/// Keys in the order in which they come first.
fn distinct<'k>(keys: &[&'k [u8]]) -> Vec<Asked<'k>> {
    let mut asked: Vec<Asked<'k>> = Vec::with_capacity(keys.len());
    let mut known: HashMap<&[u8], usize> = HashMap::with_capacity(keys.len());
    for (i, &key) in keys.iter().enumerate() {
        let nth = *known.entry(key).or_insert(asked.len());
        match asked.get_mut(nth) {
            Some(asked) => asked.places.push(i),
            None => asked.push(Asked {
                key,
                places: vec![i],
            }),
        }
    }
    asked
}

/// How many rows the next call asks for, by those of the last one.
fn next_rows(rows: usize, bytes: usize) -> usize {
    let mean_bytes = bytes.div_ceil(rows.max(1)).max(1);
    (CALL_BYTES / mean_bytes).clamp(1, CALL_ROWS)
}

impl HbaseKeyspace {
    /// Looks up keys. Calls `read(i, row)` once for each `keys[i]`, in any order.
    pub(crate) fn read_many(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        let mut done = Ok(());
        self.read_each(keys, |i, outcome| match outcome {
            Ok(row) => read(i, row),
            Err(error) => done = Err(error),
        });
        done
    }

    /// As [`read_many`](HbaseKeyspace::read_many), for several clients: a region that is away fails
    /// its own rows alone. A row without an answer from a call with others is asked for by itself.
    pub(crate) fn read_each(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Result<Option<Row<'_>>>),
    ) {
        let mut asked = distinct(keys);
        asked.retain(|asked| {
            let is_possible = self.check_key(asked.key).is_ok();
            if !is_possible {
                // What no row can be named is absent.
                asked.places.iter().for_each(|&i| read(i, Ok(None)));
            }
            is_possible
        });
        let (mut open, mut deadlines) = (asked, Deadlines::of(self));
        let mut rows = self.read_together(&mut open, &mut deadlines, &mut read);
        let deadline = self.cluster.shortened(deadlines.all);
        // First tries of all rows come before what waits for regions that are away.
        let try_alone = |wanted: &TGet| self.try_alone(wanted, deadline);
        rows = self.read_alone(&mut open, rows, try_alone, &mut read);
        let until_end = |wanted: &TGet| Some(self.cells_alone(wanted, deadline));
        self.read_alone(&mut open, rows, until_end, &mut read);
    }

    /// Asks for rows that are not known to be away, in calls for many that leave time for asking
    /// for each by itself. Rows without an answer stay `open`. How many rows there should be in a
    /// call, by those of the last one.
    fn read_together(
        &self,
        open: &mut Vec<Asked<'_>>,
        deadlines: &mut Deadlines,
        read: &mut impl FnMut(usize, Result<Option<Row<'_>>>),
    ) -> usize {
        let mut rows = ROWS_OF_ANY_LENGTH;
        let is_away = |asked: &mut Asked<'_>| self.away.until(asked.key).is_some();
        let mut away: Vec<Asked<'_>> = open.extract_if(.., is_away).collect();
        let mut near = std::mem::take(open);
        while !near.is_empty() {
            let some: Vec<Asked<'_>> = near.drain(..rows.min(near.len())).collect();
            let gets: Vec<TGet> = some.iter().map(|asked| Self::get(asked.key)).collect();
            let call = |calls: &Calls<'_>| calls.get_multiple(&self.table, &gets);
            let until = self.cluster.shortened(deadlines.together);
            match self.cluster.try_until(until, call) {
                Ok(found) => {
                    *deadlines = Deadlines::of(self);
                    rows = next_rows(some.len(), found.iter().map(value_bytes).sum());
                    for (asked, cells) in some.iter().zip(found) {
                        self.answer(asked, Ok(cells), read);
                    }
                }
                Err(_) => open.extend(some),
            }
        }
        open.append(&mut away);
        rows
    }

    /// Asks for each open row by itself, several at once, and no more of them than a call would ask
    /// for. Those without an answer stay `open`. How many rows there should be in a call from here
    /// on.
    fn read_alone(
        &self,
        open: &mut Vec<Asked<'_>>,
        mut rows: usize,
        one: impl Fn(&TGet) -> Option<Cells> + Sync,
        read: &mut impl FnMut(usize, Result<Option<Row<'_>>>),
    ) -> usize {
        let mut left = std::mem::take(open);
        while !left.is_empty() {
            let some: Vec<Asked<'_>> = left.drain(..rows.min(left.len())).collect();
            let found = at_once(some.len(), self.cluster.connections(), |nth| {
                one(&Self::get(some[nth].key))
            });
            let read_rows = found.iter().flatten().flatten();
            rows = next_rows(some.len(), read_rows.map(value_bytes).sum());
            for (asked, cells) in some.into_iter().zip(found) {
                match cells {
                    Some(cells) => self.answer(&asked, cells, read),
                    None => open.push(asked),
                }
            }
        }
        rows
    }

    /// Passes on what was found under a key.
    fn answer(
        &self,
        asked: &Asked<'_>,
        cells: Cells,
        read: &mut impl FnMut(usize, Result<Option<Row<'_>>>),
    ) {
        let places = asked.places.iter();
        match cells.map(stored_row::decode) {
            Ok(Ok(stored)) => {
                let found = Found {
                    stored,
                    now_ms: now_ms(),
                };
                places.for_each(|&i| read(i, Ok(found.live())));
            }
            Ok(Err(foreign)) => {
                places.for_each(|&i| read(i, Err(self.foreign(asked.key, foreign))));
            }
            Err(error) => places.for_each(|&i| read(i, Err(failure::of(error.clone())))),
        }
    }
}

/// Until when rows are asked for. Both are put off by each call for several rows that succeeds.
struct Deadlines {
    /// Of all calls.
    all: Instant,
    /// Of calls for several rows.
    together: Instant,
}

impl Deadlines {
    fn of(keyspace: &HbaseKeyspace) -> Deadlines {
        let all = keyspace.cluster.deadline();
        Deadlines {
            all,
            together: together_until(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_asked_for_once() {
        let keys: [&[u8]; 5] = [b"b", b"a", b"b", b"", b"a"];
        let asked = |key, places| Asked { key, places };
        let expected = [
            asked(b"b".as_slice(), vec![0, 2]),
            asked(b"a", vec![1, 4]),
            asked(b"", vec![3]),
        ];
        assert_eq!(distinct(&keys), expected);
        assert!(distinct(&[]).is_empty());
    }

    #[test]
    fn calls_ask_for_fewer_rows_where_rows_are_long() {
        assert_eq!(next_rows(16, 0), CALL_ROWS);
        assert_eq!(next_rows(16, 16 * 100), CALL_ROWS);
        assert_eq!(next_rows(16, 16 << 20), 4);
        assert_eq!(next_rows(4, 4 * CALL_BYTES), 1);
        assert_eq!(next_rows(1, 2 * CALL_BYTES), 1);
    }
}
