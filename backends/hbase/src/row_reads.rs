//! Reads of rows as they are stored: of one row, in a call with others that are read at the same
//! time, and of the headers of many.

use std::time::Instant;

use hedgerow::Result;

use crate::calls::Calls;
use crate::cells::{column, get};
use crate::clock::now_ms;
use crate::failure;
use crate::keyspace::{Found, HbaseKeyspace};
use crate::stored_row::{self, FAMILY, HEADER, RowState};
use crate::thrift2::{TGet, TResult};

/// The part of a read's time that it waits at most for a call with others.
const QUEUE_PART: u32 = 4;
/// About what the read of a header takes in a request besides its key.
const GET_BYTES: usize = 40;

/// The read of a header.
fn header(key: &[u8]) -> TGet {
    TGet {
        columns: Some(vec![column(FAMILY, Some(HEADER))]),
        ..get(key)
    }
}

/// The keys of each call that reads headers, in their order: one at least, and no more than make a
/// request of so many bytes.
fn split<'a, 'k>(keys: &'a [&'k [u8]], most_bytes: usize) -> Vec<&'a [&'k [u8]]> {
    let (mut calls, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (i, key) in keys.iter().enumerate() {
        let own = key.len() + GET_BYTES;
        if i > start && bytes + own > most_bytes {
            calls.push(&keys[start..i]);
            (start, bytes) = (i, 0);
        }
        bytes += own;
    }
    if start < keys.len() {
        calls.push(&keys[start..]);
    }
    calls
}

impl HbaseKeyspace {
    /// The read of a whole row.
    pub(crate) fn get(key: &[u8]) -> TGet {
        TGet {
            columns: Some(vec![column(FAMILY, None)]),
            ..get(key)
        }
    }

    /// Reads a row as it is stored, in one call with others that are read at the same time.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Found> {
        self.find_until(key, self.cluster.deadline())
    }

    /// As [`find`](HbaseKeyspace::find), until a deadline at most.
    pub(crate) fn find_until(&self, key: &[u8], deadline: Instant) -> Result<Found> {
        // A call with others has a deadline of its own, and most of the time is for the row alone.
        let left = deadline.saturating_duration_since(Instant::now());
        let is_short = left < self.cluster.try_for() * QUEUE_PART;
        match is_short || self.away.until(key).is_some() {
            true => self.found(key, self.cells_alone(key, deadline)),
            false => self.find_joined(key, deadline),
        }
    }

    fn find_joined(&self, key: &[u8], deadline: Instant) -> Result<Found> {
        let one = || self.cells_alone(key, deadline);
        let several = |keys: &[&[u8]]| {
            let wanted: Vec<TGet> = keys.iter().map(|key| HbaseKeyspace::get(key)).collect();
            let call = |calls: &Calls<'_>| calls.get_multiple_once(&self.table, &wanted);
            self.cluster.try_read(call).ok()
        };
        let now = Instant::now();
        let queued_until = now + deadline.saturating_duration_since(now) / QUEUE_PART;
        let cells = self.reads.read(key, queued_until, one, several);
        self.found(key, cells)
    }

    fn found(&self, key: &[u8], cells: crate::error::Result<TResult>) -> Result<Found> {
        Ok(Found {
            stored: self.stored(key, cells.map_err(failure::of)?)?,
            now_ms: now_ms(),
        })
    }

    /// What is known of rows: of each key its state, if there is a row.
    pub(crate) fn states(
        &self,
        keys: &[&[u8]],
        deadline: Instant,
    ) -> Result<Vec<Result<Option<RowState>>>> {
        let most_bytes = self.cluster.options.gateways.request_limit_bytes / 2;
        let mut states = Vec::with_capacity(keys.len());
        for some in split(keys, most_bytes) {
            let gets: Vec<TGet> = some.iter().map(|key| header(key)).collect();
            let call = |calls: &Calls<'_>| calls.get_multiple(&self.table, &gets);
            let found = self.cluster.read_until(deadline, call);
            let found = found.map_err(failure::of)?;
            states.extend(found.iter().zip(some).map(|(cells, key)| {
                stored_row::state_of(cells).map_err(|foreign| self.foreign(key, foreign))
            }));
        }
        Ok(states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored_row::MAX_ROW_KEY_BYTES;
    use crate::wire::Arguments;

    #[test]
    fn calls_for_headers_fit_a_request_however_long_the_keys_are() {
        const LIMIT_BYTES: usize = 2 << 20;
        for bytes in [1, 3000, MAX_ROW_KEY_BYTES] {
            let key = vec![b'k'; bytes];
            let keys = vec![&key[..]; 1024];
            let calls = split(&keys, LIMIT_BYTES / 2);
            for keys in &calls {
                let gets: Vec<TGet> = keys.iter().map(|key| header(key)).collect();
                let call = Arguments::of("getMultiple").structures(2, &gets);
                assert!(call.finish(LIMIT_BYTES).is_ok(), "{bytes}");
            }
            assert_eq!(calls.concat(), keys);
        }
        assert!(split(&[], 100).is_empty());
        assert_eq!(split(&[b"first", b"other"], 1).len(), 2);
    }
}
