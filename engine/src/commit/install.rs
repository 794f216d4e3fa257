//! The end of every commit of several rows: one timestamp, all rows in the indexes, one record.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use hedgerow_log::Timestamp;

use crate::commit::staged::{StagedRows, WriteBuffer};
use crate::commit::stripes::MultiGuard;
use crate::commit::undo::Undo;
use crate::disk::ahead::ReadAhead;
use crate::engine::Engine;
use crate::error::Result;
use crate::planted::{PlantedBug, planted};
use crate::row::{Row, TIMESTAMP_BYTES};
use crate::versions::lists::Retention;

impl Engine {
    /// Installs what a transaction wrote, as one commit. The caller has the stripes of all keys
    /// locked. `validate` runs when the commit has its log shard and its timestamp, and gets the
    /// locked stripes. Where it returns false, it runs again with another timestamp, after all
    /// commits that were under way. Its error is that of the commit, of which nothing has happened
    /// then. `own` is the moment of the transaction's snapshot, which it needs no more.
    /// `buffer` is the thread's for rows.
    pub(crate) fn commit_writes(
        &self,
        buffer: &mut Vec<u8>,
        guard: &mut MultiGuard<'_>,
        writes: &WriteBuffer,
        own: Option<Timestamp>,
        mut validate: impl FnMut(&MultiGuard<'_>, Timestamp) -> Result<bool>,
    ) -> Result<Timestamp> {
        let mut operations = Vec::with_capacity(writes.rows());
        let mut only_removes = true;
        for StagedRows { space, rows } in writes.keyspaces() {
            only_removes &= rows.values().all(|row| row.row.is_none());
            operations.extend(rows.iter().map(|(key, row)| row.operation(space.id, key)));
        }
        let (mut shard, timestamp) = loop {
            let mut shard = match only_removes {
                false => self.shard()?,
                true => self.shard_for_removal()?,
            };
            let timestamp = guard.take_timestamp(&mut shard);
            if validate(guard, timestamp)? {
                break (shard, timestamp);
            }
            drop(shard);
            let log = self.log()?;
            if log.epoch() < timestamp.epoch() {
                // A stripe has had all numbers of the log's epoch. In memory alone nothing but a
                // request ends that.
                log.request_durable(log.epoch());
                thread::sleep(Duration::from_millis(1));
            }
            log.await_guards();
        };
        let retention = self.snapshots.lists.retention(timestamp, own);
        self.install_writes(buffer, writes, timestamp, retention)?;
        let timestamp = if planted(PlantedBug::BatchSplit) && operations.len() > 1 {
            shard.append(timestamp, &operations[..1]);
            drop(shard);
            self.log()?.wait_durable(timestamp.epoch())?;
            let mut shard = self.shard()?;
            let timestamp = shard.timestamp(timestamp);
            shard.append(timestamp, &operations[1..]);
            timestamp
        } else {
            shard.append(timestamp, &operations);
            drop(shard);
            timestamp
        };
        guard.commit(timestamp);
        self.counters.multi_commits.fetch_add(1, Ordering::Relaxed);
        Ok(timestamp)
    }

    /// Applies all changes to the indexes, or none.
    fn install_writes(
        &self,
        buffer: &mut Vec<u8>,
        writes: &WriteBuffer,
        timestamp: Timestamp,
        retention: Option<Retention<'_>>,
    ) -> Result<()> {
        let mut undo = Undo::default();
        let (expiries, watches) = (&self.expiries, &self.watches);
        // What can fail comes first. A row in memory is never taken back, since a checkpoint that
        // scans its keyspace may have copied it meanwhile.
        let is_in_pages = |staged: &&StagedRows| staged.space.kind.is_in_pages();
        let in_pages = writes.keyspaces().filter(is_in_pages);
        let in_memory = writes.keyspaces().filter(|staged| !is_in_pages(staged));
        let mut left = writes.rows();
        for StagedRows { space, rows } in in_pages.chain(in_memory) {
            let keys = rows.keys().map(Vec::as_slice);
            let mut ahead = ReadAhead::new(space, self.pages(), keys, rows.len());
            for (key, staged) in rows {
                if let Some(ahead) = &mut ahead {
                    ahead.step();
                }
                left -= 1;
                if retention.is_some() {
                    self.snapshots.keep_limit();
                }
                // Nothing comes after the last row that could undo it.
                let remembered = match left {
                    0 => Ok(()),
                    _ => undo.remember(space, key),
                };
                let installed = remembered.and_then(|()| match &staged.row {
                    None => space.remove_row(expiries, watches, retention, key, buffer),
                    Some(row) => {
                        let expiry_ms = Row::new(row).expiry_ms();
                        space.install(expiries, retention, key, expiry_ms, buffer, |new| {
                            new.extend_from_slice(&timestamp.raw().to_le_bytes());
                            new.extend_from_slice(&row[TIMESTAMP_BYTES..]);
                        })
                    }
                });
                if let Err(error) = installed {
                    // The shard is held: neither a checkpoint nor the log has seen any of it.
                    return Err(match undo.run(self) {
                        Ok(()) => error.into(),
                        Err(second) => self.poison_partial_commit(second),
                    });
                }
            }
        }
        Ok(())
    }
}
