//! The way of a write: stripe, shard, timestamp, index, log.
//!
//! ```text
//! lock the stripe(s) ─► lock the log shard ─► timestamp ─► index ─► append ─► unlock both
//! ```
//!
//! The shard is held while the index changes: so whoever passes through all shards (the flusher
//! closing an epoch, a checkpoint rotating the logs) knows that earlier commits are in both.
//! Everything that can fail, or that runs code of the user, happens before the timestamp: from
//! there on nothing can go wrong half-way.

use hedgerow_index::{Index, MAX_KEY_BYTES};
use hedgerow_log::{Operation, OperationKind, ShardGuard, Timestamp};
use hedgerow_sync::threads;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::row::{self, Row, TIMESTAMP_BYTES};
use crate::row_builder::{Built, RowBuilder};
use crate::space::Space;
use crate::stripes::StripeGuard;
use crate::worker::Scratch;
use crate::write_options::{Durability, WriteOptions};

/// A write that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit {
    /// Its place in the order of commits: the version of the rows that it wrote.
    pub timestamp: Timestamp,
}

impl Commit {
    /// A commit that changed nothing: durable from the start.
    pub(crate) const NOTHING: Commit = Commit {
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
    /// Store what the closure put into its [`RowBuilder`].
    Put(R),
    /// Remove the row.
    Remove(R),
}

/// A change of one row; the bytes of a put are in the thread's scratch.
#[derive(Clone, Copy)]
enum Change {
    Put(Built),
    Remove,
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

    /// Locks the calling thread's log shard.
    #[inline]
    pub(crate) fn shard(&self) -> Result<ShardGuard<'_>> {
        let log = self.log()?;
        Ok(log.shard(threads::number() % log.shards())?)
    }

    /// As [`Engine::shard`], for a commit that only removes: also on a full disk.
    pub(crate) fn shard_for_removal(&self) -> Result<ShardGuard<'_>> {
        let log = self.log()?;
        Ok(log.shard_for_removal(threads::number() % log.shards())?)
    }

    /// Stores a plain value.
    #[inline]
    pub(crate) fn put(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<Commit> {
        self.check_key(key)?;
        self.check_value(value.len())?;
        self.check_memory()?;
        let WriteOptions {
            expiry_ms,
            user_flags,
            ..
        } = *options;
        let timestamp = Scratch::with(|scratch| {
            let (space, mut stripe) = keyspace.hold(key)?;
            let mut shard = self.shard()?;
            let timestamp = shard.timestamp(stripe.floor());
            // Also if the index fails: a scan may have seen it, and no other shard may hand it out.
            stripe.commit(timestamp);
            space.install(&self.expiries, key, expiry_ms, &mut scratch.row, |new| {
                row::write_header(new, timestamp, expiry_ms, user_flags, false);
                new.extend_from_slice(value);
            })?;
            let payload = &scratch.row[TIMESTAMP_BYTES..];
            let (keyspace, kind) = (space.id, OperationKind::Put);
            shard.append(
                timestamp,
                &[Operation {
                    keyspace,
                    kind,
                    key,
                    payload,
                }],
            );
            Ok(timestamp)
        })?;
        self.settle(timestamp, options)
    }

    /// Removes a row; `None` if there was none. An expired row counts as none, and goes too.
    pub(crate) fn remove(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        options: &WriteOptions,
    ) -> Result<Option<Commit>> {
        match self.remove_if(keyspace, key, |_| true)? {
            Some((timestamp, live)) => {
                let commit = self.settle(timestamp, options)?;
                Ok(live.then_some(commit))
            }
            None => Ok(None),
        }
    }

    /// Removes a row for which `wanted` holds, without waiting for anything: the commit, and
    /// whether the row had not expired. `wanted` may look at the row's header, but at no value, which
    /// may not be there.
    pub(crate) fn remove_if(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        wanted: impl FnOnce(Row<'_>) -> bool,
    ) -> Result<Option<(Timestamp, bool)>> {
        self.check_key(key)?;
        Scratch::with(|scratch| {
            let (space, mut stripe) = keyspace.hold(key)?;
            let found = space.index.get_by_head(key, |bytes| {
                let row = Row::new(bytes);
                let live = !row.is_expired(|| self.now_ms());
                wanted(row).then_some(live)
            })?;
            let Some(live) = found.flatten() else {
                return Ok(None);
            };
            let timestamp = self.apply(&space, key, &mut stripe, Change::Remove, scratch)?;
            Ok(Some((timestamp, live)))
        })
    }

    /// Lets `decide` look at the row and build another, atomically. See [`Keyspace::update`].
    pub(crate) fn update<R>(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        options: &WriteOptions,
        decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        self.check_key(key)?;
        let (result, timestamp) = Scratch::with(|scratch| {
            let (space, mut stripe) = keyspace.hold(key)?;
            let mut pending = Some(decide);
            let stored = space.index.get(key, |bytes| {
                let row = Row::new(bytes);
                let live = (!row.is_expired(|| self.now_ms())).then_some(row);
                pending
                    .take()
                    .map(|decide| decide_on(live, decide, scratch))
            })?;
            let is_stored = stored.is_some();
            let (result, change) = match (stored.flatten(), pending) {
                (Some(decided), _) => decided,
                (None, Some(decide)) => decide_on(None, decide, scratch),
                (None, None) => unreachable!("an index that ran the closure returns its answer"),
            };
            let timestamp = match change {
                None => None,
                Some(Change::Remove) if !is_stored => None,
                Some(change) => {
                    if let Change::Put(built) = change {
                        built.adds.map_or(Ok(()), |bytes| self.check_value(bytes))?;
                        self.check_memory()?;
                    }
                    Some(self.apply(&space, key, &mut stripe, change, scratch)?)
                }
            };
            Ok((result, timestamp))
        })?;
        let commit = timestamp
            .map(|timestamp| self.settle(timestamp, options))
            .transpose()?;
        Ok((result, commit))
    }

    /// Commits one change of one row.
    fn apply(
        &self,
        space: &Space,
        key: &[u8],
        stripe: &mut StripeGuard<'_>,
        change: Change,
        scratch: &mut Scratch,
    ) -> Result<Timestamp> {
        let Scratch { row, body, changes } = scratch;
        let mut shard = match change {
            Change::Put(_) => self.shard()?,
            _ => self.shard_for_removal()?,
        };
        let timestamp = shard.timestamp(stripe.floor());
        // Also if the index fails: a scan may have seen it, and no other shard may hand it out.
        stripe.commit(timestamp);
        let (kind, payload): (_, &[u8]) = match change {
            Change::Put(built) => {
                space.install(&self.expiries, key, built.expiry_ms, row, |new| {
                    new.extend_from_slice(&timestamp.raw().to_le_bytes());
                    new.extend_from_slice(&body[TIMESTAMP_BYTES..]);
                })?;
                if built.delta {
                    (OperationKind::PutColumns, changes)
                } else {
                    (OperationKind::Put, &body[TIMESTAMP_BYTES..])
                }
            }
            Change::Remove => {
                space.uninstall(&self.expiries, &self.watches, key, row)?;
                (OperationKind::Remove, &[])
            }
        };
        let keyspace = space.id;
        shard.append(
            timestamp,
            &[Operation {
                keyspace,
                kind,
                key,
                payload,
            }],
        );
        Ok(timestamp)
    }

    /// Gives a commit the durability that it was asked to have.
    #[inline]
    pub(crate) fn settle(&self, timestamp: Timestamp, options: &WriteOptions) -> Result<Commit> {
        let durability = options.durability.unwrap_or(self.options.durability);
        if durability == Durability::Sync && options.wait {
            self.log()?.wait_durable(timestamp.epoch())?;
        }
        Ok(Commit { timestamp })
    }
}

fn decide_on<R>(
    row: Option<Row<'_>>,
    decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    scratch: &mut Scratch,
) -> (R, Option<Change>) {
    let mut builder = RowBuilder::new(row);
    match decide(row, &mut builder) {
        Action::Keep(result) => (result, None),
        Action::Remove(result) => (result, Some(Change::Remove)),
        Action::Put(result) => {
            let built = builder.build(&mut scratch.body, &mut scratch.changes);
            (result, Some(Change::Put(built)))
        }
    }
}
