//! Removing a range of keys: one commit, one record of the log, whatever the range holds.
//!
//! The record names the two ends of the range, not its keys, so it is small and atomic like that
//! of a single put. What makes this right is time: the commit holds every stripe, so its timestamp
//! is later than that of every row then in the range, and earlier than that of every row written
//! there afterwards. To replay it is to remove the rows of the range that are older.
//!
//! While the rows leave the index, other writers wait, and so do readers of single keys: about as
//! long as a scan of the range and as many removals take. Scans do not wait, and may see a part.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use hedgerow_index::{Direction, Index, IndexError, MAX_KEY_BYTES};
use hedgerow_log::{Operation, OperationKind, Timestamp};

use crate::bounds::{Stop, is_inverted};
use crate::commit::Commit;
use crate::engine::Engine;
use crate::error::Result;
use crate::expiry::ExpiryIndex;
use crate::keyspace::Keyspace;
use crate::options::WriteOptions;
use crate::row::Row;
use crate::space::Space;
use crate::stripes::STRIPES;
use crate::worker::Scratch;

/// Keys that are collected, and then removed, together.
const CHUNK_KEYS: usize = 1024;
const CHUNK_BYTES: usize = 1 << 20;

pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

const OPEN: u8 = 0;
const INCLUDED: u8 = 1;
const EXCLUDED: u8 = 2;

/// A start with the same keys behind it, that is no longer than a key.
fn short_start(start: Bound<&[u8]>) -> Bound<&[u8]> {
    match start {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > MAX_KEY_BYTES => {
            Bound::Excluded(&key[..MAX_KEY_BYTES])
        }
        start => start,
    }
}

/// An end with the same keys before it, that is no longer than a key.
fn short_end(end: Bound<&[u8]>) -> Bound<&[u8]> {
    match end {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > MAX_KEY_BYTES => {
            Bound::Included(&key[..MAX_KEY_BYTES])
        }
        end => end,
    }
}

fn parts(bound: Bound<&[u8]>) -> (u8, &[u8]) {
    match bound {
        Bound::Unbounded => (OPEN, &[]),
        Bound::Included(key) => (INCLUDED, key),
        Bound::Excluded(key) => (EXCLUDED, key),
    }
}

fn bound(kind: u8, key: &[u8]) -> Option<Bound<&[u8]>> {
    match kind {
        OPEN if key.is_empty() => Some(Bound::Unbounded),
        INCLUDED => Some(Bound::Included(key)),
        EXCLUDED => Some(Bound::Excluded(key)),
        _ => None,
    }
}

/// The record's payload: what kind each end is, and the key of the upper one. That of the lower
/// one is the record's key.
fn encode_payload((start, end): Bounds<'_>) -> Vec<u8> {
    let (end_kind, end) = parts(end);
    [&[parts(start).0, end_kind], end].concat()
}

/// The ends that a record names; `None` if it makes no sense.
pub(crate) fn decode<'a>(key: &'a [u8], payload: &'a [u8]) -> Option<Bounds<'a>> {
    let (&[start_kind, end_kind], end) = payload.split_first_chunk()?;
    Some((bound(start_kind, key)?, bound(end_kind, end)?))
}

/// Keys copied out of the index, since a scan must not change what it walks.
#[derive(Default)]
struct Doomed {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    /// Where the scan stopped for want of room.
    last: Option<Vec<u8>>,
}

impl Doomed {
    /// Takes the next of the keys between two bounds for which `wanted` holds.
    fn fill(
        &mut self,
        space: &Space,
        (start, end): Bounds<'_>,
        mut wanted: impl FnMut(&[u8], Row<'_>) -> bool,
    ) -> std::result::Result<(), IndexError> {
        self.bytes.clear();
        self.lengths.clear();
        let after = self.last.take();
        let from = after.as_deref().map_or(start, Bound::Excluded);
        let stop = Stop::new((start, end), Direction::Forward);
        let mut last = None;
        space.index.scan(from, Direction::Forward, |key, row| {
            if stop.is_passed_by(key) {
                return ControlFlow::Break(());
            }
            if wanted(key, Row::new(row)) {
                self.bytes.extend_from_slice(key);
                self.lengths.push(key.len());
            }
            if self.lengths.len() == CHUNK_KEYS || self.bytes.len() >= CHUNK_BYTES {
                last = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        self.last = last;
        Ok(())
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lengths.iter().map(move |&length| {
            let (key, left) = rest.split_at(length);
            rest = left;
            key
        })
    }

    /// Whether keys may follow those that were taken.
    fn has_more(&self) -> bool {
        self.last.is_some()
    }
}

impl Engine {
    /// Removes all rows between two bounds at once; how many had not expired, and the commit if
    /// there were any rows.
    pub(crate) fn remove_range(
        &self,
        keyspace: &Keyspace,
        (start, end): Bounds<'_>,
        options: &WriteOptions,
    ) -> Result<(u64, Option<Commit>)> {
        let bounds = (short_start(start), short_end(end));
        if is_inverted(bounds.0, bounds.1) {
            return Ok((0, None));
        }
        let (live, timestamp) = Scratch::with(|scratch| {
            let mut guard = self.stripes.lock_many((0..STRIPES as u32).collect());
            // Cannot be retired any more while we hold a stripe.
            let space = keyspace.space()?;
            let now_ms = self.now_ms();
            let mut live = 0;
            let mut count = |_: &[u8], row: Row<'_>| {
                live += u64::from(!row.is_expired(|| now_ms));
                true
            };
            let mut doomed = Doomed::default();
            doomed.fill(&space, bounds, &mut count)?;
            if doomed.lengths.is_empty() {
                return Ok((0, None));
            }
            let mut shard = self.shard()?;
            let timestamp = shard.timestamp(guard.floor());
            let done = loop {
                let gone = doomed.keys().try_for_each(|key| {
                    space
                        .uninstall(&self.expiries, &self.watches, key, &mut scratch.row)
                        .map_err(|error| (Bound::Excluded(key.to_vec()), error))
                });
                if gone.is_err() || !doomed.has_more() {
                    break gone;
                }
                let last = doomed
                    .last
                    .clone()
                    .map_or(Bound::Unbounded, Bound::Included);
                if let Err(error) = doomed.fill(&space, bounds, &mut count) {
                    break Err((last, error));
                }
            };
            // What is gone before an error is gone: the record says how far it came.
            let end = match &done {
                Ok(()) => bounds.1,
                Err((end, _)) => end.as_ref().map(Vec::as_slice),
            };
            let bounds = (bounds.0, end);
            let (_, key) = parts(bounds.0);
            let payload = &encode_payload(bounds);
            let (keyspace, kind) = (space.id, OperationKind::RemoveRange);
            shard.append(
                timestamp,
                &[Operation {
                    keyspace,
                    kind,
                    key,
                    payload,
                }],
            );
            drop(shard);
            guard.commit(timestamp);
            let commits = &self.counters.multi_commits;
            commits.fetch_add(1, Ordering::Relaxed);
            match done {
                Ok(()) => Ok((live, Some(timestamp))),
                Err((_, error)) => Err(error.into()),
            }
        })?;
        let commit = timestamp
            .map(|timestamp| self.settle(timestamp, options))
            .transpose()?;
        Ok((live, commit))
    }
}

impl Space {
    /// Recovery: removes the rows between two bounds that are older than the removal and that
    /// `is_own` says are this thread's.
    pub(crate) fn replay_remove_range(
        &self,
        expiries: &ExpiryIndex,
        bounds: Bounds<'_>,
        timestamp: Timestamp,
        buffer: &mut Vec<u8>,
        is_own: impl Fn(&[u8]) -> bool,
    ) -> std::result::Result<(), IndexError> {
        if is_inverted(bounds.0, bounds.1) {
            return Ok(());
        }
        let mut doomed = Doomed::default();
        loop {
            let filled = doomed.fill(self, bounds, |key, row| {
                is_own(key) && row.timestamp() < timestamp
            });
            // Also those before what could not be read.
            for key in doomed.keys() {
                self.replay_remove(expiries, key, timestamp, buffer)?;
            }
            filled?;
            if !doomed.has_more() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_come_back_from_their_record_and_nonsense_does_not() {
        let all = [
            Bound::Unbounded,
            Bound::Included(&b"key"[..]),
            Bound::Excluded(b"key"),
            Bound::Included(b""),
        ];
        for start in all {
            for end in all {
                let payload = encode_payload((start, end));
                assert_eq!(decode(parts(start).1, &payload), Some((start, end)));
            }
        }
        for (key, payload) in [
            (&b""[..], &b""[..]),
            (b"", &[1]),
            (b"", &[1, 3]),
            (b"k", &[0, 0]),
        ] {
            assert_eq!(decode(key, payload), None);
        }
    }

    #[test]
    fn bounds_beyond_the_longest_key_hold_the_same_keys() {
        let longest = vec![b'k'; MAX_KEY_BYTES];
        let longer = [longest.as_slice(), b"x"].concat();
        assert_eq!(
            short_start(Bound::Included(&longer)),
            Bound::Excluded(&longest[..])
        );
        assert_eq!(
            short_end(Bound::Excluded(&longer)),
            Bound::Included(&longest[..])
        );
        assert_eq!(
            short_end(Bound::Excluded(&longest)),
            Bound::Excluded(&longest[..])
        );
    }
}
