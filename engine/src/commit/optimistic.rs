//! The commit of a transaction that locked nothing: announce, validate, install.
//!
//! ```text
//! lock the stripes of the keys written ─► lock the log shard ─► timestamp ─► announce the keys
//!     ─► validate what was read ─► index, log ─► unlock all, withdraw the announcement
//! ```
//!
//! **Why that is serializable.** Let a transaction T pass its validation at time V. At V all that
//! it read is what is there, so it may have happened at V as a whole, if what happens beside it can
//! be put before or after it:
//!
//! * Another such transaction U that writes what T read announced that before it validated. If that
//!   was before V, T sees the intent, or the rows that U left, and fails. If it was after V, U
//!   comes after T; if U also reads what T writes, it sees T's intent or rows, and fails itself.
//! * A write W of a single key, or a transaction that locks its keys, announces nothing and
//!   validates nothing. Whatever it changes after V comes after T. It cannot have read what T
//!   writes, for the stripes of that are T's.
//!
//! **Why snapshots and recovery agree with that order.** T has its log shard locked since before V,
//! and so has W if it is under way. A snapshot's cut takes all shards: it has both, or T alone, or
//! neither. After a crash whole epochs are there. W could have taken its timestamp in an epoch
//! before that of T, and change something after V: then W would be there without T. So T waits,
//! once in each epoch, for the commits that were under way when the epoch began
//! ([`Log::await_guards`](hedgerow_log::Log::await_guards)), and validates after that.
//!
//! **Expiry.** Rows expire by the clock, as if somebody removed them at that time. All that T saw
//! had not expired at V, so whoever finds such a row gone comes after V. W asks the time once more,
//! too, when it has its shard, where it can be decided again. All this holds while the clock does
//! not step back.
//!
//! **First committer wins.** A key that T wrote and that somebody else wrote since T's moment is a
//! conflict, too, also under `Isolation::Snapshot`, which validates nothing else.

use std::sync::Arc;

use hedgerow_index::ValuePart;
use hedgerow_log::Timestamp;

use crate::api::optimistic::Isolation;
use crate::commit::Commit;
use crate::commit::read_set::{ReadSet, Since, conflict, name_key};
use crate::commit::staged::{StagedRows, WriteBuffer};
use crate::commit::stripes::{MultiGuard, stripe_of};
use crate::commit::worker::Scratch;
use crate::commit::write_options::WriteOptions;
use crate::engine::Engine;
use crate::error::Result;
use crate::planted::{PlantedBug, planted};
use crate::row::Row;
use crate::versions::intents::WriteSet;
use crate::versions::live::LiveSnapshot;

impl Engine {
    /// Commits what a transaction wrote, which read at a snapshot: all or nothing.
    ///
    /// # Errors
    /// [`Error::TransactionConflict`](crate::Error::TransactionConflict),
    /// [`Error::TransactionTooOld`](crate::Error::TransactionTooOld), or the commit is impossible:
    /// nothing happened. As for [`Keyspace::put_with`](crate::Keyspace::put_with) otherwise.
    pub(crate) fn commit_optimistic(
        &self,
        live: &LiveSnapshot,
        isolation: Isolation,
        reads: &ReadSet,
        writes: &WriteBuffer,
        options: &WriteOptions,
    ) -> Result<Commit> {
        self.make_room_for_removal();
        self.make_room_for_versions();
        let timestamp = Scratch::with(|scratch| {
            let mut guard = self.lock_written(writes);
            let mut awaited = None;
            let mut announced = None;
            let validate = |locked: &MultiGuard<'_>, timestamp: Timestamp| {
                let epoch = timestamp.epoch();
                let is_awaited =
                    self.intents.is_awaited(epoch) || planted(PlantedBug::GuardsNotAwaited);
                if !reads.is_empty() && !is_awaited {
                    if awaited.is_none_or(|awaited| awaited < epoch) {
                        // Commits of the log's own epoch may still begin, whatever stripes say.
                        awaited = Some(epoch.min(self.log()?.epoch()));
                        return Ok(false);
                    }
                    self.intents.set_awaited(epoch);
                }
                // Whoever begins now sees this commit, for its cut waits for the shard.
                let has_others = self.snapshots.lists.has_other_transactions();
                let is_alone = !has_others && self.intents.is_empty();
                let others = match is_alone {
                    true => Vec::new(),
                    false => announced
                        .get_or_insert_with(|| self.intents.announce(Arc::new(write_set(writes))))
                        .others(),
                };
                let since = Since {
                    locked,
                    moment: live.moment,
                };
                reads.validate(since, &others, || self.now_ms())?;
                check_written(writes, since)?;
                if isolation == Isolation::Snapshot {
                    self.check_expired(writes, live.now_ms)?;
                }
                // Only now is it known that the versions that were asked for were there.
                live.begin_install()?;
                if planted(PlantedBug::IntentsAfterValidation) {
                    std::thread::yield_now();
                }
                Ok(true)
            };
            let own = Some(live.moment);
            self.commit_writes(&mut scratch.row, &mut guard, writes, own, validate)
        })?;
        self.wait_durable(timestamp, options)
    }

    /// Whether no row of the keys that were written has expired since the transaction began: one
    /// that nobody has swept yet counts, too. Their stripes are locked. A serializable
    /// transaction asks for the rows that it saw instead ([`ReadSet::validate`]).
    fn check_expired(&self, writes: &WriteBuffer, began_ms: u64) -> Result<()> {
        for StagedRows { space, rows } in writes.keyspaces() {
            if space.expiring() == 0 {
                continue;
            }
            for key in rows.keys() {
                let expiry_ms = space
                    .index
                    .get(key, ValuePart::Head, |bytes| Row::new(bytes).expiry_ms())?;
                let expired = |at_ms| at_ms > began_ms && at_ms <= self.now_ms();
                if expiry_ms.flatten().is_some_and(expired) {
                    let what = format!("{}, which expired", name_key(key));
                    return Err(conflict(space, what));
                }
            }
        }
        Ok(())
    }

    /// Locks the stripes of all keys that were written, while none of them is in a closed range.
    fn lock_written(&self, writes: &WriteBuffer) -> MultiGuard<'_> {
        let keys = || {
            let keyspaces = writes.keyspaces();
            keyspaces.flat_map(|staged| staged.rows.keys().map(|key| (staged.space.id, key)))
        };
        let mut stripes: Vec<u32> = keys().map(|(id, key)| stripe_of(id, key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let is_closed = || {
            self.stripes.has_closed_ranges()
                && keys().any(|(id, key)| self.stripes.is_in_closed_range(id, key))
        };
        loop {
            let guard = self.stripes.lock_many(stripes.clone());
            if !is_closed() {
                return guard;
            }
            drop(guard);
            self.stripes.await_closed_ranges(is_closed);
        }
    }
}

/// The keys that were written.
fn write_set(writes: &WriteBuffer) -> WriteSet {
    if planted(PlantedBug::IntentsAfterValidation) {
        return WriteSet::new();
    }
    let keyspaces = writes.keyspaces().map(|StagedRows { space, rows }| {
        let keys = rows.keys().map(|key| key.as_slice().into());
        (space.id, keys.collect())
    });
    keyspaces.collect()
}

/// Whether nobody else wrote those keys since then. Their stripes are locked.
fn check_written(writes: &WriteBuffer, since: Since<'_>) -> Result<()> {
    for StagedRows { space, rows } in writes.keyspaces() {
        if space.is_retired() {
            return Err(conflict(space, "all keys, which were cleared".to_owned()));
        }
        let mut keys = rows.keys();
        if let Some(key) = keys.find(|key| since.is_written(space, key)) {
            return Err(conflict(space, name_key(key)));
        }
    }
    Ok(())
}
