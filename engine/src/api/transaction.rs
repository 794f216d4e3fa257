//! Transactions: several keys, one commit.
//!
//! A transaction locks the stripes of its keys first, so nobody can change a row that it reads. It
//! buffers its writes, which only it sees, and installs them as one log record at the end, while
//! readers of those keys wait. No lock stops the clock: a row that it saw may have expired when its
//! place in the order of commits is fixed. Where its closure can, it then runs again.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;

use hedgerow_index::{Direction, ScanRange, ValuePart};
use hedgerow_log::Timestamp;

use crate::api::iterate;
use crate::api::keyspace::Keyspace;
use crate::commit::lookup::SpaceRef;
use crate::commit::read_set::FirstExpiry;
use crate::commit::staged::{Staged, VisitRow, WriteBuffer, decide_staged};
use crate::commit::stripes::{MultiGuard, STRIPES, stripe_of};
use crate::commit::worker::Scratch;
use crate::commit::write_options::WriteOptions;
use crate::commit::{Action, Commit};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::bounds::KeyRange;
use crate::index::space::Space;
use crate::row::Row;
use crate::row::builder::RowBuilder;

/// What a transaction locks before it starts.
#[derive(Debug)]
pub enum Locks<'a, K = Keyspace> {
    /// These keys: only they may be written, and reads of them are stable.
    Keys(&'a [(&'a K, &'a [u8])]),
    /// Everything: any key may be written; all other writes, and reads of single keys, wait.
    All,
}

impl<K> Clone for Locks<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Locks<'_, K> {}

/// A running transaction: the argument of [`Db::transact`](crate::Db::transact)'s closure.
///
/// Its reads see its own writes. A row that it wrote itself has the timestamp
/// [`Timestamp::ZERO`] until it commits.
///
/// ```
/// use hedgerow::{Db, Locks, WriteOptions};
///
/// # let db = Db::builder().open_in_memory()?;
/// let accounts = db.keyspace("accounts")?;
/// accounts.put(b"alice", b"70")?;
/// let locks = Locks::Keys(&[(&accounts, b"alice")]);
/// let (left, _) = db.transact(locks, &WriteOptions::default(), |tx| {
///     tx.put(&accounts, b"alice", b"60")?;
///     let left = tx.get(&accounts, b"alice")?;
///     tx.rollback();
///     Ok(left)
/// })?;
/// assert_eq!(left.as_deref(), Some(&b"60"[..]));
/// assert_eq!(accounts.get(b"alice")?.as_deref(), Some(&b"70"[..]));
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub struct Transaction<'a> {
    engine: &'a Engine,
    guard: MultiGuard<'a>,
    locks_all: bool,
    writes: WriteBuffer,
    rolled_back: bool,
    now_ms: Cell<Option<u64>>,
    /// Of the rows that it saw and did not write itself.
    first_expiry: RefCell<FirstExpiry>,
}

impl Transaction<'_> {
    fn now_ms(&self) -> u64 {
        // One moment for the whole transaction.
        let now_ms = self.now_ms.get().unwrap_or_else(|| self.engine.now_ms());
        self.now_ms.set(Some(now_ms));
        now_ms
    }

    /// Whether a stored row has not expired. One that will is remembered, for the commit.
    fn is_live(&self, space: &Arc<Space>, key: &[u8], row: Row<'_>) -> bool {
        let is_live = !row.is_expired(|| self.now_ms());
        if is_live {
            self.see(space, key, row);
        }
        is_live
    }

    /// Remembers a stored row that was seen, if it will expire.
    #[inline]
    fn see(&self, space: &Arc<Space>, key: &[u8], row: Row<'_>) {
        if row.expiry_ms().is_some() {
            self.first_expiry.borrow_mut().add(space, key, row);
        }
    }

    /// Runs `read` on the row under `key`; `None` if there is none.
    pub fn read<R>(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>> {
        self.engine.check_key(key)?;
        let space = keyspace.space_in(self.engine)?;
        if let Some(staged) = self.writes.row(space.id, key) {
            let live = staged.row.as_deref().map(Row::new);
            return Ok(live
                .filter(|row| !row.is_expired(|| self.now_ms()))
                .map(read));
        }
        let found = space.index.get(key, ValuePart::Whole, |bytes| {
            let row = Row::new(bytes);
            self.is_live(&space, key, row).then(|| read(row))
        })?;
        Ok(found.flatten())
    }

    /// The version of the committed row under `key`, and whether it is live.
    pub(crate) fn stored_version(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
    ) -> Result<Option<(Timestamp, bool)>> {
        self.engine.check_key(key)?;
        let space = keyspace.space_in(self.engine)?;
        Ok(space.index.get(key, ValuePart::Whole, |bytes| {
            let row = Row::new(bytes);
            (row.timestamp(), self.is_live(&space, key, row))
        })?)
    }

    /// A copy of the plain value under `key`.
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self
            .read(keyspace, key, |row| row.value().map(<[u8]>::to_vec))?
            .flatten())
    }

    /// Whether there is a row under `key`.
    pub fn contains(&self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        Ok(self.read(keyspace, key, |_| ())?.is_some())
    }

    /// The version of the row under `key`: compare it with one remembered from before, to know
    /// whether the key was written since (`WATCH`).
    pub fn version(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Timestamp>> {
        self.read(keyspace, key, |row| row.timestamp())
    }

    /// Stores a plain value.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(keyspace, key, value, &WriteOptions::default())
    }

    /// Stores a plain value with expiry and user flags; the durability is the transaction's.
    pub fn put_with(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        let space = self.writable(keyspace, key)?;
        // The row that is there leaves nothing behind, so that it need not be read.
        let ((), staged) = decide_staged(None, |_, new| {
            new.set_value(value)
                .set_expiry_ms(options.expiry_ms)
                .set_user_flags(options.user_flags);
            Action::Put(())
        });
        staged.map_or(Ok(()), |staged| self.stage(&space, key, staged))
    }

    /// Sets some columns; see [`Keyspace::put_columns`].
    pub fn put_columns(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        columns: &[(&[u8], &[u8])],
    ) -> Result<()> {
        self.update(keyspace, key, |_, new| {
            for (name, value) in columns {
                new.set_column(name, value);
            }
            if columns.is_empty() {
                Action::Keep(())
            } else {
                Action::Put(())
            }
        })
    }

    /// Removes a row; whether there was one.
    pub fn remove(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        self.update(keyspace, key, |row, _| Action::Remove(row.is_some()))
    }

    /// Replaces a row by what `decide` makes of it; see [`Keyspace::update`].
    ///
    /// # Errors
    /// [`Error::NotLocked`] if the key is not among the locked ones. [`Error::CommitTooLarge`], as
    /// for every write: the row stays as it was, and the transaction may continue.
    pub fn update<R>(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<R> {
        let space = self.writable(keyspace, key)?;
        let now_ms = self.now_ms();
        let stored = |decide: &mut dyn FnMut(Row<'_>)| {
            space.index.get(key, ValuePart::Whole, |bytes| {
                let row = Row::new(bytes);
                if self.is_live(&space, key, row) {
                    decide(row);
                }
            })?;
            Ok(())
        };
        let place = (space.id, key);
        let (result, staged) = self.writes.decide(place, now_ms, stored, decide)?;
        match staged {
            Some(staged) => self.stage(&space, key, staged).map(|()| result),
            None => Ok(result),
        }
    }

    /// The keyspace of a key that may be written.
    fn writable<'k>(&self, keyspace: &'k Keyspace, key: &[u8]) -> Result<SpaceRef<'k>> {
        self.engine.check_key(key)?;
        let space = keyspace.space_in(self.engine)?;
        if !self.locks_all && !self.guard.is_locked(stripe_of(space.id, key)) {
            return Err(Error::NotLocked);
        }
        // Not one of the keys that were to be locked, but of the same stripe as one.
        if self.engine.stripes.is_in_closed_range(space.id, key) {
            return Err(Error::NotLocked);
        }
        Ok(space)
    }

    fn stage(&mut self, space: &Arc<Space>, key: &[u8], staged: Staged) -> Result<()> {
        self.writes.stage(self.engine, space, key, staged)
    }

    /// Visits the rows of a range in order, the transaction's own writes included, until `visit`
    /// breaks. Stable only under [`Locks::All`].
    pub fn scan(
        &self,
        keyspace: &Keyspace,
        range: impl KeyRange,
        direction: Direction,
        mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let space = keyspace.space_in(self.engine)?;
        let bounds = (range.lower(), range.upper());
        let range = ScanRange::between(bounds, direction);
        let stored = |visit: &mut VisitRow<'_>| {
            iterate::scan_live(&space.index, &range, || self.now_ms(), visit)
        };
        let order = (bounds, direction);
        let mut see_and_visit = |key: &[u8], row: Row<'_>| {
            // A row that it wrote itself is no read.
            if row.expiry_ms().is_some() && self.writes.row(space.id, key).is_none() {
                self.see(&space, key, row);
            }
            visit(key, row)
        };
        self.writes
            .scan(space.id, order, self.now_ms(), stored, &mut see_and_visit)
    }

    /// Runs `work`. If it fails, what it wrote is undone, earlier writes stay, and the transaction
    /// may continue.
    ///
    /// # Errors
    /// That of `work`.
    ///
    /// # Examples
    ///
    /// ```
    /// use hedgerow::{Db, Locks, WriteOptions};
    ///
    /// # let db = Db::builder().open_in_memory()?;
    /// let accounts = db.keyspace("accounts")?;
    /// db.transact(Locks::All, &WriteOptions::default(), |tx| {
    ///     tx.put(&accounts, b"alice", b"70")?;
    ///     let moved = tx.nested(|tx| {
    ///         tx.put(&accounts, b"alice", b"60")?;
    ///         tx.put(&accounts, &[b'b'; 100_000], b"10")
    ///     });
    ///     assert!(moved.is_err());
    ///     Ok(())
    /// })?;
    /// assert_eq!(accounts.get(b"alice")?.as_deref(), Some(&b"70"[..]));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn nested<R, E>(
        &mut self,
        work: impl FnOnce(&mut Self) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let nested = self.writes.begin_nested();
        let done = work(self);
        self.writes.end_nested(nested, done.is_ok());
        done
    }

    /// Discards all writes, earlier and later ones; the closure may still return a result.
    pub fn rollback(&mut self) {
        self.rolled_back = true;
    }
}

/// How often a transaction runs at most where rows that it saw expire before its commit. All others
/// may wait for its locks meanwhile.
const MOST_RUNS: u32 = 4;

/// What rows are that a transaction saw, and that expired before its commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expired {
    /// A conflict: nothing happens.
    Conflict,
    /// What was decided on them stands.
    Stand,
}

impl Engine {
    /// Runs a transaction; see [`Db::transact`](crate::Db::transact).
    pub(crate) fn transact<R>(
        &self,
        locks: Locks<'_>,
        options: &WriteOptions,
        run: impl FnOnce(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Commit)> {
        let (result, timestamp) = self.run_once(locks, Expired::Stand, run)??;
        Ok((result, self.end_transaction(timestamp, options)?))
    }

    /// [`Engine::transact`] that runs again where a row that it saw has expired before its commit:
    /// the next run sees it gone. What the last of [`MOST_RUNS`] runs decided stands: of very many
    /// rows one may expire during each run, however often.
    pub(crate) fn transact_again<R>(
        &self,
        locks: Locks<'_>,
        options: &WriteOptions,
        mut run: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Commit)> {
        let mut runs = 1;
        let (result, timestamp) = loop {
            let expired = match runs < MOST_RUNS {
                true => Expired::Conflict,
                false => Expired::Stand,
            };
            match self.run_once(locks, expired, &mut run)? {
                Ok(done) => break done,
                Err(_) => runs += 1,
            }
        };
        Ok((result, self.end_transaction(timestamp, options)?))
    }

    fn end_transaction(&self, timestamp: Timestamp, options: &WriteOptions) -> Result<Commit> {
        match timestamp {
            Timestamp::ZERO => Ok(Commit::NOTHING),
            timestamp => self.wait_durable(timestamp, options),
        }
    }

    /// Runs a transaction and installs what it wrote: its result and timestamp, which is zero if it
    /// wrote nothing. The inner error is the conflict with a row that expired, where that is one:
    /// nothing happened.
    fn run_once<R>(
        &self,
        locks: Locks<'_>,
        expired: Expired,
        run: impl FnOnce(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<Result<(R, Timestamp)>> {
        self.make_room_for_removal();
        self.make_room_for_versions();
        Scratch::with(|scratch| {
            let mut transaction = Transaction {
                engine: self,
                guard: self.lock(locks)?,
                locks_all: matches!(locks, Locks::All),
                writes: WriteBuffer::default(),
                rolled_back: false,
                now_ms: Cell::new(None),
                first_expiry: RefCell::default(),
            };
            let result = run(&mut transaction)?;
            let Transaction {
                mut guard,
                writes,
                rolled_back,
                first_expiry,
                ..
            } = transaction;
            if rolled_back || writes.is_empty() {
                return Ok(Ok((result, Timestamp::ZERO)));
            }
            // Nobody changed what it read: it had that locked. Only time has passed.
            let first_expiry = first_expiry.into_inner();
            let buffer = &mut scratch.row;
            let committed = self.commit_writes(buffer, &mut guard, &writes, None, |_, _| {
                if expired == Expired::Conflict {
                    first_expiry.check(|| self.now_ms())?;
                }
                Ok(true)
            });
            match committed {
                Ok(timestamp) => Ok(Ok((result, timestamp))),
                Err(conflict) if conflict.is_conflict() => Ok(Err(conflict)),
                Err(error) => Err(error),
            }
        })
    }

    /// Locks the stripes of what a transaction names, while none of it is in a closed range.
    fn lock(&self, locks: Locks<'_>) -> Result<MultiGuard<'_>> {
        loop {
            let guard = self.stripes.lock_many(self.lock_order(locks)?);
            // A keyspace may have been cleared before we had the locks: its keys have other
            // stripes now. Once we hold any, that cannot happen any more.
            if !self.holds_all(&guard, locks)? {
                continue;
            }
            if !self.stripes.has_closed_ranges() || !self.overlaps_closed_range(locks)? {
                return Ok(guard);
            }
            drop(guard);
            self.stripes
                .await_closed_ranges(|| matches!(self.overlaps_closed_range(locks), Ok(true)));
        }
    }
}

impl Engine {
    /// Whether a closed range overlaps the locked keys.
    #[cold]
    fn overlaps_closed_range(&self, locks: Locks<'_>) -> Result<bool> {
        let Locks::Keys(keys) = locks else {
            return Ok(self.stripes.has_closed_ranges());
        };
        for (keyspace, key) in keys {
            let space = keyspace.space_in(self)?;
            if self.stripes.is_in_closed_range(space.id, key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the stripes of all these keys are locked, as their keyspaces are now.
    fn holds_all(&self, guard: &MultiGuard<'_>, locks: Locks<'_>) -> Result<bool> {
        let Locks::Keys(keys) = locks else {
            return Ok(true);
        };
        for (keyspace, key) in keys {
            let space = keyspace.space_in(self)?;
            if !guard.is_locked(stripe_of(space.id, key)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The stripes to lock, in the order in which all threads lock them.
    fn lock_order(&self, locks: Locks<'_>) -> Result<Vec<u32>> {
        let keys = match locks {
            Locks::All => return Ok((0..STRIPES as u32).collect()),
            Locks::Keys(keys) => keys.iter(),
        };
        let stripes = keys.map(|(keyspace, key)| {
            let space = keyspace.space_in(self)?;
            Ok(stripe_of(space.id, key))
        });
        let mut stripes = stripes.collect::<Result<Vec<u32>>>()?;
        stripes.sort_unstable();
        stripes.dedup();
        Ok(stripes)
    }
}
