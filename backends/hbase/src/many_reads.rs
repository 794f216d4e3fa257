//! Reading many rows: each key once, in calls that a gateway has memory for.
//!
//! A gateway holds all rows of a call in memory, some of them more than once, and ends where that
//! is too much. How long rows are is known only when they are here. So the first call asks for few,
//! and each call after it for as many as fit if they are as long as those before.

use std::collections::HashMap;

use hedgerow::{Result, Row};

use crate::cells::value_bytes;
use crate::clock::now_ms;
use crate::failure;
use crate::keyspace::{Found, HbaseKeyspace, ROWS_OF_ANY_LENGTH};
use crate::thrift2::TGet;

/// The most rows of a call.
const CALL_ROWS: usize = 64;
/// About how many bytes a call asks for.
const CALL_BYTES: usize = 4 << 20;

/// Keys in the order in which they come first, with all the places where they come.
fn places<'k>(keys: &[&'k [u8]]) -> Vec<(&'k [u8], Vec<usize>)> {
    let mut asked: Vec<(&[u8], Vec<usize>)> = Vec::with_capacity(keys.len());
    let mut known: HashMap<&[u8], usize> = HashMap::with_capacity(keys.len());
    for (i, &key) in keys.iter().enumerate() {
        let nth = *known.entry(key).or_insert(asked.len());
        match asked.get_mut(nth) {
            Some((_, places)) => places.push(i),
            None => asked.push((key, vec![i])),
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
        let mut asked = places(keys);
        asked.retain(|(key, places)| {
            let is_possible = self.check_key(key).is_ok();
            if !is_possible {
                // What no row can be named is absent.
                places.iter().for_each(|&i| read(i, None));
            }
            is_possible
        });
        let (mut left, mut rows) = (&asked[..], ROWS_OF_ANY_LENGTH);
        while !left.is_empty() {
            let (some, others) = left.split_at(rows.min(left.len()));
            let gets: Vec<TGet> = some.iter().map(|(key, _)| Self::get(key)).collect();
            let found = self
                .cluster
                .read(|calls| calls.get_multiple(&self.table, &gets));
            let (found, now_ms) = (found.map_err(failure::of)?, now_ms());
            rows = next_rows(some.len(), found.iter().map(value_bytes).sum());
            for ((key, places), cells) in some.iter().zip(found) {
                let stored = self.stored(key, cells)?;
                let found = Found { stored, now_ms };
                places.iter().for_each(|&i| read(i, found.live()));
            }
            left = others;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_asked_for_once() {
        let keys: [&[u8]; 5] = [b"b", b"a", b"b", b"", b"a"];
        let expected: [(&[u8], Vec<usize>); 3] =
            [(b"b", vec![0, 2]), (b"a", vec![1, 4]), (b"", vec![3])];
        assert_eq!(places(&keys), expected);
        assert!(places(&[]).is_empty());
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
