//! Transactions that lock nothing: they read at a snapshot, keep their writes to themselves, and
//! find out when they commit whether somebody was in their way.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use hedgerow_index::{Direction, ScanRange};
use hedgerow_log::Timestamp;
use rand::Rng;

use crate::api::db::Db;
use crate::api::iterate::Entry;
use crate::api::keyspace::Keyspace;
use crate::commit::read_set::ReadSet;
use crate::commit::staged::{VisitRow, WriteBuffer, decide_staged};
use crate::commit::write_options::WriteOptions;
use crate::commit::{Action, Commit};
use crate::error::{Error, Result};
use crate::index::bounds::KeyRange;
use crate::index::space::Space;
use crate::planted::{PlantedBug, planted};
use crate::row::Row;
use crate::row::builder::RowBuilder;
use crate::versions::live::LiveSnapshot;
use crate::versions::open::OpenSnapshot;

/// What a transaction is protected from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// It reads at one moment, and commits only if nobody else has written since what it writes.
    /// Two transactions may each read what the other writes (*write skew*).
    Snapshot,
    /// As if all such transactions, and all other writes, happened one after the other, in an order
    /// that agrees with the clock: it commits only if everything that it read, ranges included, is
    /// still as it was. One that writes nothing commits, unless it was ended.
    #[default]
    Serializable,
}

/// A transaction that reads at a snapshot and locks nothing; made by [`Db::begin`], or by
/// [`Db::transaction`], which runs it again after a conflict.
///
/// It sees its own writes; nobody else does before the commit. A row that it wrote itself has the
/// timestamp [`Timestamp::ZERO`] until then. Dropping it discards everything. What it needs is kept
/// in memory as for a [`Snapshot`](crate::Snapshot), so keep it short.
///
/// ```
/// use hedgerow::{Db, Durability, Isolation};
///
/// # let db = Db::builder().open_in_memory()?;
/// let accounts = db.keyspace("accounts")?;
/// accounts.put(b"alice", b"70")?;
///
/// let mut tx = db.begin(Isolation::Serializable)?;
/// let alice = tx.get(&accounts, b"alice")?.unwrap();
/// tx.put(&accounts, b"bob", &alice)?;
/// accounts.put(b"alice", b"60")?; // somebody else
/// let refused = tx.commit(Durability::Periodic).unwrap_err();
/// assert!(refused.is_conflict() && !accounts.contains(b"bob")?);
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub struct OptimisticTransaction {
    open: OpenSnapshot,
    /// Where it reads.
    view: Arc<LiveSnapshot>,
    isolation: Isolation,
    reads: RefCell<ReadSet>,
    writes: WriteBuffer,
}

impl fmt::Debug for OptimisticTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptimisticTransaction")
            .field("isolation", &self.isolation)
            .field("rows_written", &self.writes.rows())
            .finish_non_exhaustive()
    }
}

/// How often [`Db::transaction`] runs a closure before it gives up.
const MOST_RUNS: u32 = 100;
/// Runs that follow at once.
const PATIENT_RUNS: u32 = 2;
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

impl Db {
    /// Begins a transaction.
    ///
    /// # Errors
    /// As for [`Db::snapshot`].
    pub fn begin(&self, isolation: Isolation) -> Result<OptimisticTransaction> {
        self.begin_named(isolation, None)
    }

    /// Begins a transaction with a name, which errors and statistics tell.
    ///
    /// # Errors
    /// As for [`Db::snapshot`].
    pub fn begin_named(
        &self,
        isolation: Isolation,
        name: Option<&str>,
    ) -> Result<OptimisticTransaction> {
        let open = OpenSnapshot::open(self.engine(), name, true)?;
        let view = Arc::clone(&open.live);
        Ok(OptimisticTransaction {
            open,
            view,
            isolation,
            reads: RefCell::default(),
            writes: WriteBuffer::default(),
        })
    }

    /// Runs `run` in a transaction and commits it. After a [conflict](Error::is_conflict) it begins
    /// anew, after a pause that grows, a hundred times at most: so `run` may run several times, and
    /// should do nothing but use the transaction. If `run` fails, nothing happens.
    ///
    /// ```
    /// use hedgerow::{Db, Isolation};
    ///
    /// # let db = Db::builder().open_in_memory()?;
    /// let seats = db.keyspace("seats")?;
    /// let seat = db.transaction(Isolation::Serializable, |tx| {
    ///     let taken = tx.count(&seats, ..)?;
    ///     if taken == 100 {
    ///         return Ok(None);
    ///     }
    ///     tx.put(&seats, taken.to_string().as_bytes(), b"Ada")?;
    ///     Ok(Some(taken))
    /// })?;
    /// assert_eq!(seat, Some(0));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of `run`, or of [`OptimisticTransaction::commit`].
    pub fn transaction<R>(
        &self,
        isolation: Isolation,
        run: impl FnMut(&mut OptimisticTransaction) -> Result<R>,
    ) -> Result<R> {
        let (result, _) = self.transaction_with(isolation, &WriteOptions::default(), run)?;
        Ok(result)
    }

    /// [`Db::transaction`] with options, of which durability and waiting count; also returns the
    /// commit.
    ///
    /// # Errors
    /// As for that.
    pub fn transaction_with<R>(
        &self,
        isolation: Isolation,
        options: &WriteOptions,
        mut run: impl FnMut(&mut OptimisticTransaction) -> Result<R>,
    ) -> Result<(R, Commit)> {
        let mut runs = 0;
        let mut first = None;
        loop {
            runs += 1;
            let mut transaction = self.begin(isolation)?;
            if planted(PlantedBug::RetryReadsStale) {
                let first = first.get_or_insert_with(|| Arc::clone(&transaction.view));
                transaction.view = Arc::clone(first);
            }
            let outcome = run(&mut transaction)
                .and_then(|result| Ok((result, transaction.commit_with(options)?)));
            match outcome {
                Err(error) if error.is_conflict() && runs < MOST_RUNS => {
                    let counters = &self.engine().counters;
                    counters.transaction_retries.fetch_add(1, Ordering::Relaxed);
                    pause(runs);
                }
                outcome => return outcome,
            }
        }
    }
}

/// Waits before the next run of a transaction: by chance, so that two do not meet again.
fn pause(runs: u32) {
    if runs <= PATIENT_RUNS {
        return;
    }
    let longest = Duration::from_micros(1 << runs.min(20)).min(LONGEST_PAUSE);
    let chosen = rand::rng().random_range(0..=longest.as_micros() as u64);
    thread::sleep(Duration::from_micros(chosen));
}

impl OptimisticTransaction {
    /// What it is protected from.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// It sees commits of others up to this timestamp.
    pub fn timestamp(&self) -> Timestamp {
        self.view.moment
    }

    /// The time at which it judges what has expired, in milliseconds since the Unix epoch: that of
    /// its beginning.
    pub fn time_ms(&self) -> u64 {
        self.view.now_ms
    }

    /// How many rows it wrote or removed so far.
    pub fn rows_written(&self) -> usize {
        self.writes.rows()
    }

    /// About how many bytes of memory it takes for what it wrote and for the keys and ranges that
    /// it read.
    pub fn memory_bytes(&self) -> usize {
        self.writes.memory_bytes() + self.reads.borrow().bytes()
    }

    /// The keyspace of a handle as the transaction sees it. One that was created since is empty for
    /// it.
    fn space(&self, keyspace: &Keyspace) -> Result<Arc<Space>> {
        keyspace.check_engine(&self.open.engine)?;
        match self.view.space(keyspace.handle()) {
            Ok(space) => Ok(Arc::clone(space)),
            Err(_) => Ok(Arc::clone(&*keyspace.space()?)),
        }
    }

    /// Remembers a read, for the validation.
    fn remember(&self, add: impl FnOnce(&mut ReadSet)) -> Result<()> {
        if self.isolation != Isolation::Serializable {
            return Ok(());
        }
        let mut reads = self.reads.borrow_mut();
        add(&mut reads);
        let (bytes, limit) = (reads.bytes(), self.open.engine.snapshots.limit_bytes());
        match bytes > limit {
            true => Err(Error::TransactionTooLarge { bytes, limit }),
            false => Ok(()),
        }
    }

    /// Remembers a row that was seen, if it will expire, for the validation.
    #[inline]
    fn see(&self, space: &Arc<Space>, key: &[u8], row: Row<'_>) {
        if self.isolation == Isolation::Serializable && row.expiry_ms().is_some() {
            self.reads.borrow_mut().add_seen(space, key, row);
        }
    }

    /// Runs `read` on the row under `key`; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::TransactionTooOld`], [`Error::TransactionTooLarge`], [`Error::OtherDatabase`]; the
    /// index cannot be read.
    pub fn read<R>(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>> {
        self.open.engine.check_key(key)?;
        let space = self.space(keyspace)?;
        if let Some(staged) = self.writes.row(space.id, key) {
            self.view.check()?;
            let row = staged.row.as_deref().map(Row::new);
            let now_ms = self.view.now_ms;
            return Ok(row.filter(|row| !row.is_expired(|| now_ms)).map(read));
        }
        self.remember(|reads| reads.add_key(&space, key))?;
        self.view.read(&space, key, |row| {
            self.see(&space, key, row);
            read(row)
        })
    }

    /// A copy of the plain value under `key`.
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::read`].
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.read(keyspace, key, |row| row.value().map(<[u8]>::to_vec))?;
        Ok(value.flatten())
    }

    /// Whether there is a row under `key`.
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::read`].
    pub fn contains(&self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        Ok(self.read(keyspace, key, |_| ())?.is_some())
    }

    /// Looks up many keys; calls `read(i, row)` once for each `keys[i]`, in no particular order.
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::read`].
    pub fn get_many(
        &self,
        keyspace: &Keyspace,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        let space = self.space(keyspace)?;
        let (mut others, mut places) = (Vec::new(), Vec::new());
        for (i, key) in keys.iter().enumerate() {
            if self.writes.row(space.id, key).is_none() {
                self.open.engine.check_key(key)?;
                self.remember(|reads| reads.add_key(&space, key))?;
                others.push(*key);
                places.push(i);
            } else if self
                .read(keyspace, key, |row| read(i, Some(row)))?
                .is_none()
            {
                read(i, None);
            }
        }
        self.view.get_many(&space, &others, |i, row| {
            if let Some(row) = row {
                self.see(&space, others[i], row);
            }
            read(places[i], row);
        })
    }

    /// Visits the rows of a range in order, its own writes among them, until `visit` breaks. What
    /// was visited counts as read: the range up to there, not single keys. `visit` should be quick,
    /// as for [`KeyspaceSnapshot::scan`](crate::KeyspaceSnapshot::scan).
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::read`].
    pub fn scan(
        &self,
        keyspace: &Keyspace,
        range: impl KeyRange,
        direction: Direction,
        mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let space = self.space(keyspace)?;
        let bounds = (range.lower(), range.upper());
        let range = ScanRange::between(bounds, direction);
        let stored = |visit: &mut VisitRow<'_>| self.view.scan(&space, &range, visit);
        let mut last = None;
        let mut visit_and_note = |key: &[u8], row: Row<'_>| {
            // A row that it wrote itself is no read.
            if row.expiry_ms().is_some() && self.writes.row(space.id, key).is_none() {
                self.see(&space, key, row);
            }
            let flow = visit(key, row);
            if flow.is_break() {
                last = Some(key.to_vec());
            }
            flow
        };
        let now_ms = self.view.now_ms;
        let order = (bounds, direction);
        let scanned = self
            .writes
            .scan(space.id, order, now_ms, stored, &mut visit_and_note);
        if let Err(error) = scanned {
            // What was visited before was read.
            self.remember(|reads| reads.add_range(&space, bounds))?;
            return Err(error);
        }
        let seen = match (last.as_deref().map(Bound::Included), direction) {
            (None, _) => bounds,
            (Some(last), Direction::Forward) => (bounds.0, last),
            (Some(last), Direction::Reverse) => (last, bounds.1),
        };
        self.remember(|reads| reads.add_range(&space, seen))
    }

    /// Copies of the first rows of a range, in order, so many at most.
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::read`].
    pub fn range(
        &self,
        keyspace: &Keyspace,
        range: impl KeyRange,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        if limit == 0 {
            return Ok(entries);
        }
        self.scan(keyspace, range, direction, |key, row| {
            entries.push(Entry::new(key, row));
            match entries.len() == limit {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(entries)
    }

    /// How many rows there are in a range. Walks them.
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::read`].
    pub fn count(&self, keyspace: &Keyspace, range: impl KeyRange) -> Result<u64> {
        let mut count = 0;
        self.scan(keyspace, range, Direction::Forward, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Stores a plain value, whatever was there.
    ///
    /// # Errors
    /// As for [`Keyspace::put_with`]: the row stays as it was, and the transaction may continue.
    /// [`Error::TransactionTooOld`]: it may not.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(keyspace, key, value, &WriteOptions::default())
    }

    /// Stores a plain value with expiry and user flags; the durability is the commit's.
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::put`].
    pub fn put_with(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.open.engine.check_key(key)?;
        self.view.check()?;
        let space = self.space(keyspace)?;
        let ((), staged) = decide_staged(None, |_, new| {
            new.set_value(value)
                .set_expiry_ms(options.expiry_ms)
                .set_user_flags(options.user_flags);
            Action::Put(())
        });
        match staged {
            Some(staged) => self.writes.stage(&self.open.engine, &space, key, staged),
            None => Ok(()),
        }
    }

    /// Sets some columns; see [`Keyspace::put_columns`]. Counts as a read of the row, too.
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::update`].
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
            match columns.is_empty() {
                true => Action::Keep(()),
                false => Action::Put(()),
            }
        })
    }

    /// Removes a row; whether there was one, which counts as a read.
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::update`].
    pub fn remove(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        self.update(keyspace, key, |row, _| match row {
            Some(_) => Action::Remove(true),
            None => Action::Keep(false),
        })
    }

    /// Replaces a row by what `decide` makes of it; see [`Keyspace::update`].
    ///
    /// # Errors
    /// As for [`OptimisticTransaction::read`] and [`OptimisticTransaction::put`].
    pub fn update<R>(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<R> {
        self.open.engine.check_key(key)?;
        self.view.check()?;
        let space = self.space(keyspace)?;
        if self.writes.row(space.id, key).is_none() {
            self.remember(|reads| reads.add_key(&space, key))?;
        }
        let stored = |decide: &mut dyn FnMut(Row<'_>)| {
            let seen = self.view.read(&space, key, |row| {
                self.see(&space, key, row);
                decide(row);
            });
            seen.map(drop)
        };
        let place = (space.id, key);
        let now_ms = self.view.now_ms;
        let (result, staged) = self.writes.decide(place, now_ms, stored, decide)?;
        match staged {
            Some(staged) => self
                .writes
                .stage(&self.open.engine, &space, key, staged)
                .map(|()| result),
            None => Ok(result),
        }
    }

    /// Runs `work`. If it fails, what it wrote is undone, earlier writes stay, and the transaction
    /// may continue. What it read still counts.
    ///
    /// # Errors
    /// That of `work`.
    pub fn nested<R, E>(
        &mut self,
        work: impl FnOnce(&mut Self) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let nested = self.writes.begin_nested();
        let done = work(self);
        self.writes.end_nested(nested, done.is_ok());
        done
    }

    /// Discards what was written so far; the transaction may continue.
    pub fn discard_writes(&mut self) {
        self.writes.clear();
    }

    /// Ends the transaction without a trace, as dropping it does.
    pub fn rollback(self) {}

    /// Commits: all writes become visible, durable and recoverable as one, or none.
    ///
    /// # Errors
    /// [`Error::TransactionConflict`]: somebody else changed what it read or wrote.
    /// [`Error::TransactionTooOld`]. In both cases, and for those of [`Keyspace::put_with`],
    /// nothing happened; only while waiting for [`Durability::Sync`](crate::Durability::Sync) may
    /// the writes be visible and not known to be durable.
    pub fn commit(self, durability: crate::Durability) -> Result<Commit> {
        self.commit_with(&durability.into())
    }

    /// [`OptimisticTransaction::commit`] with options, of which durability and waiting count.
    ///
    /// # Errors
    /// As for that.
    pub fn commit_with(self, options: &WriteOptions) -> Result<Commit> {
        let (engine, live) = (&self.open.engine, &self.open.live);
        // Running it again would be of no use, whoever was in its way.
        live.check()?;
        if self.writes.is_empty() {
            // It saw the database at its moment, and that is where it happened.
            return Ok(Commit::NOTHING);
        }
        let reads = self.reads.borrow();
        let outcome = engine.commit_optimistic(live, self.isolation, &reads, &self.writes, options);
        let counters = &engine.counters;
        match &outcome {
            Ok(_) => counters.transactions.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.is_conflict() => counters
                .transaction_conflicts
                .fetch_add(1, Ordering::Relaxed),
            Err(_) => 0,
        };
        outcome
    }
}
