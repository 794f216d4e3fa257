//! Removing a range of keys: one commit, one record of the log, however many rows the range has.
//! The record names the two ends of the range, not its keys, so it is small and atomic like that of
//! a single put. Timestamps make this correct: the commit's timestamp is taken under every stripe,
//! so it is later than that of every row then in the range, and earlier than that of every row
//! written there afterwards. Replay removes the rows of the range that are older. The commit
//! removes the first rows while it has all stripes locked, and those are often all. If there are
//! more, it unlocks the stripes, and only the range stays closed to writers and to readers of
//! single keys ([`removals`](crate::commit::removals)) until the last row is removed. A B-tree or
//! Bw-tree is emptied a leaf at a time, which takes about as long as a scan of the range; with
//! other indexes it takes as long as so many removals. Scans do not wait, and may see a part of the
//! rows.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_index::{IndexError, is_inverted};
use hedgerow_log::{Health, Operation, OperationKind, ShardGuard, Timestamp};
use hedgerow_sync::threads;

use crate::commit::Commit;
use crate::commit::lookup::SpaceRef;
use crate::commit::range_record;
use crate::commit::stripes::{MultiGuard, STRIPES};
use crate::commit::worker::Scratch;
use crate::commit::write_options::WriteOptions;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::bounds::Bounds;
use crate::index::space::Space;
use crate::versions::lists::Retention;

impl Engine {
    /// Removes all rows between two bounds at once; how many had not expired, and the commit if
    /// there were any rows.
    pub(crate) fn remove_range(
        &self,
        handle: &Arc<Space>,
        (start, end): Bounds<'_>,
        options: &WriteOptions,
    ) -> Result<(u64, Option<Commit>)> {
        let bounds = (
            range_record::short_start(start),
            range_record::short_end(end),
        );
        if is_inverted(bounds.0, bounds.1) {
            return Ok((0, None));
        }
        self.make_room_for_removal();
        let (live, timestamp) = Scratch::with(|_| {
            // A checkpoint that saw some of the rows gone would need the record: it waits.
            let _under_way = self.removals.begin();
            let (guard, space) = self.close_range(handle, bounds)?;
            // The log says whether it accepts the commit before the first row is removed.
            let (log, mut shard) = (self.log()?, self.shard_for_removal()?);
            // Snapshots that see the rows were opened before this time, all others will be after
            // the commit's own: they wait for the removal.
            let begun = shard.timestamp(guard.floor());
            let mut removal = Removal {
                space: &space,
                live: 0,
                rows: 0,
                now_ms: self.now_ms(),
                last: None,
                retention: self.snapshots.lists.retention(begun, None),
            };
            let failed = match removal.take(self, bounds, MOST_UNDER_STRIPES) {
                Ok(true) => None,
                Err(error) => Some(error),
                Ok(false) => {
                    drop(shard);
                    let closed = self.stripes.close_range(&guard, space.id, bounds);
                    drop(guard);
                    let failed = removal.take(self, bounds, u64::MAX).err();
                    // No writer was in the range meanwhile, and no batch of reads.
                    let guard = self.stripes.lock_all_beside_batches();
                    let shard = log.shard_for_applied_changes(threads::number() % log.shards());
                    let timestamp = removal.append(guard, shard, bounds, failed.is_some());
                    drop(closed);
                    // The log may have failed while rows went: then their record is lost.
                    if let Health::Poisoned(reason) = log.health() {
                        return Err(Error::Poisoned(reason));
                    }
                    return Ok((removal.live, self.removed(timestamp, failed)?));
                }
            };
            if removal.rows == 0 {
                return failed.map_or(Ok((0, None)), |error| Err(error.into()));
            }
            let timestamp = removal.append(guard, shard, bounds, failed.is_some());
            Ok((removal.live, self.removed(timestamp, failed)?))
        })?;
        let commit = timestamp
            .map(|timestamp| self.wait_durable(timestamp, options))
            .transpose()?;
        Ok((live, commit))
    }

    /// Locks all stripes while no range is closed that overlaps this one.
    fn close_range<'a>(
        &'a self,
        handle: &'a Arc<Space>,
        bounds: Bounds<'_>,
    ) -> Result<(MultiGuard<'a>, SpaceRef<'a>)> {
        loop {
            let guard = self.stripes.lock_many((0..STRIPES as u32).collect());
            // Cannot be retired any more while the removal is under way.
            let space = self.current(handle)?;
            let overlaps = || self.stripes.overlaps_closed_range(space.id, bounds);
            if !overlaps() {
                return Ok((guard, space));
            }
            drop(guard);
            self.stripes.await_closed_ranges(overlaps);
        }
    }

    /// What comes of a removal whose record is in the log.
    fn removed(
        &self,
        timestamp: Timestamp,
        failed: Option<IndexError>,
    ) -> Result<Option<Timestamp>> {
        let commits = &self.counters.multi_commits;
        commits.fetch_add(1, Ordering::Relaxed);
        match failed {
            None => Ok(Some(timestamp)),
            Some(error) => Err(error.into()),
        }
    }
}

/// Rows that go under all stripes: more of them take longer than to stop all writers once more.
const MOST_UNDER_STRIPES: u64 = 64;

/// A removal of a range under way.
struct Removal<'a> {
    space: &'a Space,
    /// Rows that went, and those of them that had not expired.
    rows: u64,
    live: u64,
    now_ms: u64,
    /// The last row that went.
    last: Option<Vec<u8>>,
    /// For snapshots.
    retention: Option<Retention<'a>>,
}

impl Removal<'_> {
    /// Takes rows out of the index, so many at most: whether those are all.
    fn take(
        &mut self,
        engine: &Engine,
        (start, end): Bounds<'_>,
        most: u64,
    ) -> std::result::Result<bool, IndexError> {
        let (space, now_ms, live) = (self.space, self.now_ms, &mut self.live);
        let last = self.last.take();
        let from = last.as_deref().map_or(start, Bound::Excluded);
        let mut left = most;
        let retention = self.retention;
        let took = space.remove_rows(&engine.expiries, retention, (from, end), |key, row| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            if retention.is_some() {
                engine.snapshots.keep_limit();
            }
            left -= 1;
            *live += u64::from(!row.is_expired(|| now_ms));
            engine.watches.removed(&space.name, key, row.timestamp());
            ControlFlow::Continue(true)
        });
        self.rows += took.rows;
        self.last = took.last.or(last);
        took.failed.map_or(Ok(took.is_all), Err)
    }

    /// Appends the record, and has the stripes know its time.
    fn append(
        &self,
        mut guard: MultiGuard<'_>,
        mut shard: ShardGuard<'_>,
        bounds: Bounds<'_>,
        failed: bool,
    ) -> Timestamp {
        let timestamp = shard.timestamp(guard.floor());
        // What is gone before an error is gone: the record says how far it came.
        let end = match (failed, &self.last) {
            (true, Some(last)) => Bound::Included(last.as_slice()),
            _ => bounds.1,
        };
        let key = range_record::key(bounds.0);
        let operation = Operation {
            keyspace: self.space.id,
            kind: OperationKind::RemoveRange,
            key,
            payload: &range_record::payload((bounds.0, end)),
        };
        shard.append(timestamp, &[operation]);
        drop(shard);
        guard.commit(timestamp);
        timestamp
    }
}
