//! Commits of one row: put, remove, update.
//!
//! A commit's place in the order is fixed when it has its log shard. A row that was live for it may
//! have expired by then: others have seen it gone, and a commit that follows them must too. So the
//! time is asked once more under the shard, and what was decided on that row is decided again.

use std::sync::Arc;

use hedgerow_index::ValuePart;
use hedgerow_log::{Operation, OperationKind, ShardGuard, Timestamp};

use crate::commit::stripes::StripeGuard;
use crate::commit::worker::Scratch;
use crate::commit::write_options::WriteOptions;
use crate::commit::{Action, Commit};
use crate::engine::Engine;
use crate::error::Result;
use crate::index::space::Space;
use crate::row::builder::{BuiltRow, RowBuilder};
use crate::row::{self, Row, TIMESTAMP_BYTES};

/// A change of one row; the bytes of a put are in the thread's scratch.
#[derive(Clone, Copy)]
enum RowChange {
    Put(BuiltRow),
    Remove,
}

/// How often an update may decide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decides {
    Once,
    /// Again where the row has expired since.
    Again,
}

/// What [`Engine::remove_if`] removed.
pub(crate) struct RemovedRow {
    /// The commit's.
    pub(crate) timestamp: Timestamp,
    /// Whether the row had not expired by then.
    pub(crate) was_live: bool,
}

impl Engine {
    /// Stores a plain value.
    #[inline]
    pub(crate) fn put(
        &self,
        handle: &Arc<Space>,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<Commit> {
        self.check_key(key)?;
        self.check_value(value.len())?;
        let WriteOptions {
            expiry_ms,
            user_flags,
            ..
        } = *options;
        let timestamp = Scratch::with(|scratch| {
            let (space, mut stripe) = self.lock_key(handle, key)?;
            // Of the keyspace that the handle means now: its index may be another than it was.
            space.check_key_width(key)?;
            self.check_memory(&space)?;
            let mut shard = self.shard()?;
            let timestamp = stripe.take_timestamp(&mut shard);
            let retention = self.snapshots.lists.retention(timestamp, None);
            let (expiries, buffer) = (&self.expiries, &mut scratch.row);
            space.install(expiries, retention, key, expiry_ms, buffer, |new| {
                row::write_header(new, timestamp, expiry_ms, user_flags, false);
                new.extend_from_slice(value);
            })?;
            let payload = &scratch.row[TIMESTAMP_BYTES..];
            append(
                &mut shard,
                timestamp,
                &space,
                OperationKind::Put,
                key,
                payload,
            );
            Ok(timestamp)
        })?;
        self.wait_durable(timestamp, options)
    }

    /// Removes a row; `None` if there was none. An expired row counts as none, and is removed, too.
    pub(crate) fn remove(
        &self,
        handle: &Arc<Space>,
        key: &[u8],
        options: &WriteOptions,
    ) -> Result<Option<Commit>> {
        match self.remove_if(handle, key, |_| true)? {
            Some(removed) => {
                let commit = self.wait_durable(removed.timestamp, options)?;
                Ok(removed.was_live.then_some(commit))
            }
            None => Ok(None),
        }
    }

    /// Removes a row for which `wanted` holds, without waiting until that is durable; `None` if
    /// there is no such row. `wanted` may look at the row's header, but at no value,
    /// which may not be there.
    pub(crate) fn remove_if(
        &self,
        handle: &Arc<Space>,
        key: &[u8],
        wanted: impl FnOnce(Row<'_>) -> bool,
    ) -> Result<Option<RemovedRow>> {
        self.check_key(key)?;
        self.make_room_for_removal();
        Scratch::with(|scratch| {
            let (space, mut stripe) = self.lock_key(handle, key)?;
            let found = space.index.get(key, ValuePart::Head, |bytes| {
                let row = Row::new(bytes);
                wanted(row).then_some(row.expiry_ms())
            })?;
            let Some(expiry_ms) = found.flatten() else {
                return Ok(None);
            };
            let mut seen_expiry = expiry_ms.filter(|&at_ms| at_ms > self.now_ms());
            let mut was_live = expiry_ms.is_none() || seen_expiry.is_some();
            loop {
                let change = RowChange::Remove;
                match self.apply(&space, key, &mut stripe, change, seen_expiry, scratch)? {
                    Some(timestamp) => {
                        return Ok(Some(RemovedRow {
                            timestamp,
                            was_live,
                        }));
                    }
                    None => (seen_expiry, was_live) = (None, false),
                }
            }
        })
    }

    /// Lets `decide` look at the row and build another, atomically. See
    /// [`Keyspace::update`](crate::Keyspace::update).
    pub(crate) fn update<R>(
        &self,
        handle: &Arc<Space>,
        key: &[u8],
        options: &WriteOptions,
        decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        let mut pending = Some(decide);
        let decide = |row: Option<Row<'_>>, new: &mut RowBuilder<'_>| match pending.take() {
            Some(decide) => decide(row, new),
            None => unreachable!("it decides once"),
        };
        self.decide(handle, key, options, Decides::Once, decide)
    }

    /// [`Engine::update`] that decides again where the row has expired before the commit.
    pub(crate) fn update_again<R>(
        &self,
        handle: &Arc<Space>,
        key: &[u8],
        options: &WriteOptions,
        decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        self.decide(handle, key, options, Decides::Again, decide)
    }

    #[inline]
    fn decide<R>(
        &self,
        handle: &Arc<Space>,
        key: &[u8],
        options: &WriteOptions,
        decides: Decides,
        mut decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        self.check_key(key)?;
        self.make_room_for_removal();
        let (result, timestamp) = Scratch::with(|scratch| {
            let (space, mut stripe) = self.lock_key(handle, key)?;
            loop {
                let mut seen_expiry = None;
                let mut pending = Some(&mut decide);
                let stored = space.index.get(key, ValuePart::Whole, |bytes| {
                    let row = Row::new(bytes);
                    let live = (!row.is_expired(|| self.now_ms())).then_some(row);
                    if decides == Decides::Again {
                        seen_expiry = live.and_then(|row| row.expiry_ms());
                    }
                    pending
                        .take()
                        .map(|decide| decide_on(live, decide, scratch))
                })?;
                let is_stored = stored.is_some();
                let (result, change) = match (stored.flatten(), pending) {
                    (Some(decided), _) => decided,
                    (None, Some(decide)) => decide_on(None, decide, scratch),
                    (None, None) => {
                        unreachable!("an index that ran the closure returns its answer")
                    }
                };
                let change = match change {
                    None => return Ok((result, None)),
                    Some(RowChange::Remove) if !is_stored => return Ok((result, None)),
                    Some(change) => change,
                };
                if let RowChange::Put(built) = change {
                    space.check_key_width(key)?;
                    built.adds.map_or(Ok(()), |bytes| self.check_value(bytes))?;
                    if built.grows {
                        self.check_memory(&space)?;
                    }
                }
                let timestamp =
                    self.apply(&space, key, &mut stripe, change, seen_expiry, scratch)?;
                if timestamp.is_some() {
                    return Ok((result, timestamp));
                }
            }
        })?;
        let commit = timestamp
            .map(|timestamp| self.wait_durable(timestamp, options))
            .transpose()?;
        Ok((result, commit))
    }

    /// Commits one change of one row; `None`, and nothing happened, if the row that it was decided
    /// on had this expiry and has expired.
    fn apply(
        &self,
        space: &Space,
        key: &[u8],
        stripe: &mut StripeGuard<'_>,
        change: RowChange,
        seen_expiry: Option<u64>,
        scratch: &mut Scratch,
    ) -> Result<Option<Timestamp>> {
        let Scratch { row, body, changes } = scratch;
        let mut shard = match change {
            RowChange::Put(_) => self.shard()?,
            _ => self.shard_for_removal()?,
        };
        if seen_expiry.is_some_and(|expiry_ms| expiry_ms <= self.now_ms()) {
            return Ok(None);
        }
        let timestamp = stripe.take_timestamp(&mut shard);
        let retention = self.snapshots.lists.retention(timestamp, None);
        let (kind, payload): (_, &[u8]) = match change {
            RowChange::Put(built) => {
                space.install(
                    &self.expiries,
                    retention,
                    key,
                    built.expiry_ms,
                    row,
                    |new| {
                        new.extend_from_slice(&timestamp.raw().to_le_bytes());
                        new.extend_from_slice(&body[TIMESTAMP_BYTES..]);
                    },
                )?;
                if built.delta {
                    (OperationKind::PutColumns, changes)
                } else {
                    (OperationKind::Put, &body[TIMESTAMP_BYTES..])
                }
            }
            RowChange::Remove => {
                space.remove_row(&self.expiries, &self.watches, retention, key, row)?;
                (OperationKind::Remove, &[])
            }
        };
        append(&mut shard, timestamp, space, kind, key, payload);
        Ok(Some(timestamp))
    }
}

/// Logs a commit of one row.
#[inline]
fn append(
    shard: &mut ShardGuard<'_>,
    timestamp: Timestamp,
    space: &Space,
    kind: OperationKind,
    key: &[u8],
    payload: &[u8],
) {
    let operation = Operation {
        keyspace: space.id,
        kind,
        key,
        payload,
    };
    shard.append(timestamp, &[operation]);
}

fn decide_on<R>(
    row: Option<Row<'_>>,
    decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    scratch: &mut Scratch,
) -> (R, Option<RowChange>) {
    let mut builder = RowBuilder::new(row);
    match decide(row, &mut builder) {
        Action::Keep(result) => (result, None),
        Action::Remove(result) => (result, Some(RowChange::Remove)),
        Action::Put(result) => {
            let built = builder.build(&mut scratch.body, &mut scratch.changes);
            (result, Some(RowChange::Put(built)))
        }
    }
}
