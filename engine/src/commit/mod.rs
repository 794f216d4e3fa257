//! The way of a write: stripe, shard, timestamp, index, log.
//!
//! ```text
//! lock the stripe(s) ─► lock the log shard ─► timestamp ─► index ─► append ─► unlock both
//! ```
//!
//! The writer keeps the shard locked while it changes the index. So a thread that locks every shard
//! once (the flusher when it closes an epoch, a checkpoint when it rotates the logs) knows that
//! earlier commits are in index and log. Everything that can fail, or that runs code of the user,
//! happens before the timestamp is taken, so a commit cannot fail half-way.

pub(crate) mod closed_ranges;
pub(crate) mod install;
pub(crate) mod key_hash;
pub(crate) mod lookup;
pub(crate) mod optimistic;
pub(crate) mod range_record;
pub(crate) mod read_set;
pub(crate) mod removals;
pub(crate) mod remove_range;
pub(crate) mod staged;
pub(crate) mod stripes;
pub(crate) mod undo;
pub(crate) mod watches;
pub(crate) mod worker;
pub(crate) mod write;
pub(crate) mod write_options;

use hedgerow_index::MAX_KEY_BYTES;
use hedgerow_log::{ShardGuard, Timestamp};
use hedgerow_sync::threads;

use crate::commit::write_options::{Durability, WriteOptions};
use crate::engine::Engine;
use crate::error::{Error, Result};

/// A write that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit {
    /// Its place in the order of commits: the version of the rows that it wrote.
    pub timestamp: Timestamp,
}

impl Commit {
    /// A commit that changed nothing: durable from the start.
    pub const NOTHING: Commit = Commit {
        timestamp: Timestamp::ZERO,
    };

    /// The epoch that must be durable for this commit to be.
    pub fn epoch(&self) -> u64 {
        self.timestamp.epoch()
    }
}

/// What the closure of an update wants done with the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<R> {
    /// Leave the row as it is; nothing is logged.
    Keep(R),
    /// Store what the closure put into its [`RowBuilder`](crate::RowBuilder).
    Put(R),
    /// Remove the row.
    Remove(R),
}

impl Engine {
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::KeyTooLong {
                bytes: key.len(),
                limit: MAX_KEY_BYTES,
            });
        }
        Ok(())
    }

    /// Refuses a value that is too long, or columns that are with their names: the one place where
    /// the limit is looked at. `bytes` are the user's own, without what a row is encoded with.
    pub(crate) fn check_value(&self, bytes: usize) -> Result<()> {
        let limit = self.options.max_value_bytes;
        if bytes > limit {
            return Err(Error::ValueTooLong { bytes, limit });
        }
        Ok(())
    }

    /// Refuses a commit that would take more in the log than one may. One of a single row has the
    /// limit of its value.
    pub(crate) fn check_commit_size(&self, bytes: usize, has_several_rows: bool) -> Result<()> {
        let limit = self.options.max_commit_bytes;
        if has_several_rows && bytes > limit {
            return Err(Error::CommitTooLarge { bytes, limit });
        }
        Ok(())
    }

    /// Locks the calling thread's log shard.
    #[inline(always)] // every write pays for a call, and for the guard's way through memory
    pub(crate) fn shard(&self) -> Result<ShardGuard<'_>> {
        let log = self.log()?;
        Ok(log.shard(threads::number() % log.shards())?)
    }

    /// As [`Engine::shard`], for a commit that only removes: also on a full disk.
    pub(crate) fn shard_for_removal(&self) -> Result<ShardGuard<'_>> {
        let log = self.log()?;
        Ok(log.shard_for_removal(threads::number() % log.shards())?)
    }

    /// Gives a commit the durability that it was asked to have.
    #[inline]
    pub(crate) fn wait_durable(
        &self,
        timestamp: Timestamp,
        options: &WriteOptions,
    ) -> Result<Commit> {
        let durability = options.durability.unwrap_or(self.options.durability);
        if durability == Durability::Sync && options.wait {
            self.log()?.wait_durable(timestamp.epoch())?;
        }
        Ok(Commit { timestamp })
    }
}
