//! Removing a range of keys: one commit, one record of the log, whatever the range holds.
//!
//! The record names the two ends of the range, not its keys, so it is small and atomic like that
//! of a single put. What makes this right is time: the commit holds every stripe, so its timestamp
//! is later than that of every row then in the range, and earlier than that of every row written
//! there afterwards. To replay it is to remove the rows of the range that are older.
//!
//! While the rows leave the index, other writers wait, and so do readers of single keys: with a
//! B-tree about as long as a scan of the range takes, since it is emptied a leaf at a time; with
//! other indexes as long as so many removals. Scans do not wait, and may see a part.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use hedgerow_index::{IndexError, MAX_KEY_BYTES};
use hedgerow_log::{Operation, OperationKind, Timestamp};

use crate::bounds::is_inverted;
use crate::commit::Commit;
use crate::engine::Engine;
use crate::error::Result;
use crate::expiry::ExpiryIndex;
use crate::keyspace::Keyspace;
use crate::options::WriteOptions;
use crate::row::Row;
use crate::space::{PartlyRemoved, Space};
use crate::stripes::STRIPES;
use crate::worker::Scratch;

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
        let (live, timestamp) = Scratch::with(|_| {
            let mut guard = self.stripes.lock_many((0..STRIPES as u32).collect());
            // Cannot be retired any more while we hold a stripe.
            let space = keyspace.space()?;
            let now_ms = self.now_ms();
            let mut live = 0;
            let mut shard = self.shard()?;
            // Before the first row goes: a checkpoint that sees some of them gone waits for this
            // shard, and must then find the record in an epoch that it waits for, not in a later
            // one, which a power cut may take back.
            let timestamp = shard.timestamp(guard.floor());
            let done = space.uninstall_range(&self.expiries, bounds, |key, row| {
                live += u64::from(!row.is_expired(|| now_ms));
                self.watches.removed(&space, key, row.expiry_ms());
                true
            });
            if let Ok(0) | Err(PartlyRemoved { last: None, .. }) = &done {
                drop(shard);
                return match done {
                    Ok(_) => Ok((0, None)),
                    Err(failed) => Err(failed.error.into()),
                };
            }
            // What is gone before an error is gone: the record says how far it came.
            let end = match &done {
                Ok(_) => bounds.1,
                Err(failed) => failed.last.as_deref().map_or(bounds.1, Bound::Included),
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
                Ok(_) => Ok((live, Some(timestamp))),
                Err(failed) => Err(failed.error.into()),
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
        is_own: impl Fn(&[u8]) -> bool,
    ) -> std::result::Result<(), IndexError> {
        if is_inverted(bounds.0, bounds.1) {
            return Ok(());
        }
        let is_older = |key: &[u8], row: Row<'_>| row.timestamp() < timestamp && is_own(key);
        match self.uninstall_range(expiries, bounds, is_older) {
            Ok(_) => Ok(()),
            Err(failed) => Err(failed.error),
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
