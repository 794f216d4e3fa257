//! Reads of rows as they are stored: of one row, in a call with others that are read at the same
//! time, and of the headers of many.

use std::time::Instant;

use hedgerow::Result;

use crate::at_once::at_once;
use crate::calls::Calls;
use crate::cells::{column, get};
use crate::clock::now_ms;
use crate::failure;
use crate::keyspace::{Found, HbaseKeyspace};
use crate::stored_row::{self, FAMILY, HEADER, RowState};
use crate::thrift2::{TGet, TResult};

/// The part of a read's time that it waits at most for a call with others.
const QUEUE_PART: u32 = 4;
/// The part of a request's time that its rows are read together for, before each row is asked for
/// by itself. It is longer than a joined read of rows: where HBase is slow, asking for each of many
/// rows is slower.
const TOGETHER_PART: u32 = 4;
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

/// The cells of a row, or why they could not be read.
pub(crate) type Cells = crate::error::Result<TResult>;

/// Until when a request with this deadline asks for several rows in one call.
pub(crate) fn together_until(deadline: Instant) -> Instant {
    let now = Instant::now();
    now + deadline.saturating_duration_since(now) / TOGETHER_PART
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
            true => self.found(key, self.cells_alone(&HbaseKeyspace::get(key), deadline)),
            false => self.find_joined(key, deadline),
        }
    }

    fn find_joined(&self, key: &[u8], deadline: Instant) -> Result<Found> {
        let one = || self.cells_alone(&HbaseKeyspace::get(key), deadline);
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

    fn found(&self, key: &[u8], cells: Cells) -> Result<Found> {
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

    /// As [`states`](HbaseKeyspace::states), for several clients: a region that is away fails its
    /// own rows alone. A row without an answer from a call with others is asked for by itself.
    pub(crate) fn states_of_each(
        &self,
        keys: &[&[u8]],
        deadline: Instant,
    ) -> Vec<Result<Option<RowState>>> {
        let mut found = self.headers_together(keys, deadline);
        let deadline = self.cluster.shortened(deadline);
        // First tries of all rows come before what waits for regions that are away.
        self.fill(&mut found, keys, |wanted| self.try_alone(wanted, deadline));
        self.fill(&mut found, keys, |wanted| {
            Some(self.cells_alone(wanted, deadline))
        });
        let states = found.into_iter().flatten().zip(keys).map(|(cells, key)| {
            let state = stored_row::state_of(&cells.map_err(failure::of)?);
            state.map_err(|foreign| self.foreign(key, foreign))
        });
        states.collect()
    }

    /// Asks for the headers of rows that are not known to be away, in calls that leave time for
    /// asking for each by itself; `None` for rows without an answer.
    fn headers_together(&self, keys: &[&[u8]], deadline: Instant) -> Vec<Option<Cells>> {
        let is_near = |key: &&[u8]| self.away.until(key).is_none();
        let are_near: Vec<bool> = keys.iter().map(is_near).collect();
        let near = keys.iter().zip(&are_near).filter(|(_, is_near)| **is_near);
        let near: Vec<&[u8]> = near.map(|(key, _)| *key).collect();
        let most_bytes = self.cluster.options.gateways.request_limit_bytes / 2;
        let until = together_until(deadline);
        let mut rows = Vec::with_capacity(near.len());
        for some in split(&near, most_bytes) {
            let gets: Vec<TGet> = some.iter().map(|key| header(key)).collect();
            let call = |calls: &Calls<'_>| calls.get_multiple(&self.table, &gets);
            match self.cluster.try_until(self.cluster.shortened(until), call) {
                Ok(found) => rows.extend(found.into_iter().map(Some)),
                Err(_) => rows.extend(some.iter().map(|_| None)),
            }
        }
        let mut rows = rows.into_iter();
        let found = are_near.into_iter().map(|is_near| match is_near {
            true => rows.next().flatten().map(Ok),
            false => None,
        });
        found.collect()
    }

    /// Asks for each header that was not found yet by itself, several at once.
    fn fill(
        &self,
        found: &mut [Option<Cells>],
        keys: &[&[u8]],
        read: impl Fn(&TGet) -> Option<Cells> + Sync,
    ) {
        let open = (0..keys.len()).filter(|nth| found[*nth].is_none());
        let open: Vec<usize> = open.collect();
        let cells = at_once(open.len(), self.cluster.connections(), |nth| {
            read(&header(keys[open[nth]]))
        });
        for (nth, cells) in open.into_iter().zip(cells) {
            found[nth] = cells;
        }
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
