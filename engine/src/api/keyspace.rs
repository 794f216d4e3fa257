//! A keyspace: a named, ordered map from keys to rows. Most users call nothing else.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use hedgerow_index::{Direction, ScanRange, ValuePart};
use hedgerow_log::Timestamp;

use crate::api::iterate::{self, Range};
use crate::commit::lookup::SpaceRef;
use crate::commit::stripes::{self, StripeGuard};
use crate::commit::worker;
use crate::commit::write_options::WriteOptions;
use crate::commit::{Action, Commit};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::bounds::{KeyRange, prefix_end};
use crate::index::space::Space;
use crate::row::Row;
use crate::row::builder::RowBuilder;

/// A named, ordered map from keys (up to 64 KiB of any bytes) to rows.
///
/// Cheap to clone and free to share between threads. The handle follows its *name*: after
/// [`Db::clear_keyspace`](crate::Db::clear_keyspace) it shows the new, empty contents; after a drop
/// its operations return [`Error::KeyspaceMissing`] until a keyspace of that name is created again.
///
/// Each operation on one key is atomic, and sees batches and transactions whole: a reader of one
/// key of a batch finds all its others.
///
/// ```
/// use hedgerow::{Db, WriteOptions};
///
/// # let db = Db::builder().open_in_memory()?;
/// let birds = db.keyspace("birds")?;
/// birds.put(b"robin", b"Erithacus rubecula")?;
/// birds.put_with(b"swift", b"Apus apus", &WriteOptions::default().user_flags(7))?;
/// assert_eq!(birds.read(b"swift", |row| row.user_flags())?, Some(7));
///
/// let keys: Vec<Vec<u8>> = birds
///     .range("r".."s")?
///     .map(|entry| entry.map(|entry| entry.into_key()))
///     .collect::<Result<_, _>>()?;
/// assert_eq!(keys, [b"robin"]);
/// assert!(birds.remove(b"robin")?);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) engine: Arc<Engine>,
    space: Arc<Space>,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.space.name)
            .finish_non_exhaustive()
    }
}

impl Keyspace {
    pub(crate) fn new(engine: Arc<Engine>, space: Arc<Space>) -> Keyspace {
        Keyspace { engine, space }
    }

    /// The keyspace's name.
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// What the handle has, which may have been cleared or dropped since.
    pub(crate) fn handle(&self) -> &Arc<Space> {
        &self.space
    }

    /// What the keyspace is now; see [`Engine::current`].
    #[inline]
    pub(crate) fn space(&self) -> Result<SpaceRef<'_>> {
        self.engine.current(&self.space)
    }

    /// What the keyspace is now, for a batch or a transaction of a database.
    ///
    /// # Errors
    /// [`Error::OtherDatabase`] if it is not a keyspace of that database, as it is open now;
    /// [`Error::KeyspaceMissing`] if it was dropped.
    #[inline]
    pub(crate) fn space_in(&self, engine: &Engine) -> Result<SpaceRef<'_>> {
        self.check_engine(engine)?;
        self.space()
    }

    /// Refuses a handle of another database, or of another opening: identifiers of keyspaces, and
    /// their stripes, mean something else there.
    ///
    /// # Errors
    /// [`Error::OtherDatabase`].
    #[inline]
    pub(crate) fn check_engine(&self, engine: &Engine) -> Result<()> {
        match std::ptr::eq(&*self.engine, engine) {
            true => Ok(()),
            false => Err(Error::OtherDatabase {
                keyspace: self.space.name.clone(),
            }),
        }
    }

    /// Locks a key's stripe; see [`Engine::lock_key`].
    #[inline]
    pub(crate) fn lock_key(&self, key: &[u8]) -> Result<(SpaceRef<'_>, StripeGuard<'_>)> {
        self.engine.lock_key(&self.space, key)
    }

    /// Waits out a commit of several keys to which this one may belong.
    #[inline]
    fn await_commit(&self, space: &Space, key: &[u8]) {
        if self.engine.stripes.has_multi() && !worker::must_not_wait() {
            self.engine.stripes.await_multi(space.id, key);
        }
    }

    /// Runs `read` on the row under `key`, without copying it; `None` if there is none. Keep it
    /// short: rows that other threads remove or replace meanwhile stay in memory until it returns.
    /// It may use this database in any way.
    #[inline]
    pub fn read<R>(&self, key: &[u8], read: impl FnOnce(Row<'_>) -> R) -> Result<Option<R>> {
        self.engine.check_key(key)?;
        let space = self.space()?;
        self.await_commit(&space, key);
        let found = space.index.get(key, ValuePart::Whole, |bytes| {
            let row = Row::new(bytes);
            (!row.is_expired(|| self.engine.now_ms())).then(|| read(row))
        })?;
        Ok(found.flatten())
    }

    /// A copy of the plain value under `key`; `None` if there is none or the row has columns.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self
            .read(key, |row| row.value().map(<[u8]>::to_vec))?
            .flatten())
    }

    /// Whether there is a row under `key`.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.read(key, |_| ())?.is_some())
    }

    /// The version of the row under `key`: the timestamp of the commit that wrote it.
    pub fn version(&self, key: &[u8]) -> Result<Option<Timestamp>> {
        self.read(key, |row| row.timestamp())
    }

    /// Looks up many keys at once, overlapping their cache misses: several times faster than one by
    /// one. Calls `read(i, row)` once for each `keys[i]`, in no particular order.
    ///
    /// The batch sees each commit of several keys whole or not at all; against commits of single
    /// keys it is no snapshot (for that use [`Db::transact`](crate::Db::transact)). `read` must be
    /// short: such commits wait for it. It may read this database, but calls that take locks are
    /// refused ([`Error::Nested`]).
    pub fn get_many(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        for key in keys {
            self.engine.check_key(key)?;
        }
        let _deferred = worker::DeferredCalls;
        let stripes = &self.engine.stripes;
        let (space, _batch, _stripes) = loop {
            let space = self.space()?;
            let batch = worker::ReadBatch::enter(|worker| stripes.begin_batch(worker));
            let locked = batch.must_lock().then(|| {
                let stripe_of = |key: &&[u8]| stripes::stripe_of(space.id, key);
                let mut locked: Vec<u32> = keys.iter().map(stripe_of).collect();
                locked.sort_unstable();
                locked.dedup();
                stripes.lock_many(locked)
            });
            // Keyspaces retire under all stripes: not any more while the batch lasts.
            if space.is_retired() {
                continue;
            }
            let is_in_closed_range = |key: &&[u8]| stripes.is_in_closed_range(space.id, key);
            if batch.is_nested()
                || !stripes.has_closed_ranges()
                || !keys.iter().any(is_in_closed_range)
            {
                break (space, batch, locked);
            }
            drop((batch, locked));
            self.engine.await_closed_ranges(&space, keys);
        };
        let mut now_ms = None;
        space.index.get_many(keys, |i, bytes| {
            let now_ms = || *now_ms.get_or_insert_with(|| self.engine.now_ms());
            read(i, bytes.map(Row::new).filter(|row| !row.is_expired(now_ms)));
        })?;
        Ok(())
    }

    /// Prefetches what writes of `keys` will touch, overlapping their cache misses. A hint.
    pub fn prefetch_many(&self, keys: &[&[u8]]) {
        if let Ok(space) = self.space() {
            space.index.as_dyn().prefetch_many(keys);
        }
    }

    /// Stores a plain value, whatever was there, with the database's default durability.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Commit> {
        self.engine
            .put(&self.space, key, value, &WriteOptions::default())
    }

    /// Stores a plain value with options. A row that was there is replaced as a whole: its
    /// expiry and user flags too.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::OutOfMemory`],
    /// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Closed`], [`Error::ReadOnly`]: nothing
    /// was written. Only while waiting for [`Durability::Sync`](crate::Durability::Sync),
    /// `DiskFull`, `Poisoned` and `Closed` mean that the write is visible, but not known to be
    /// durable.
    pub fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<Commit> {
        self.engine.put(&self.space, key, value, options)
    }

    /// Removes a row; whether there was one.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.remove_with(key, &WriteOptions::default())?.is_some())
    }

    /// Removes a row with options; `None` if there was none.
    pub fn remove_with(&self, key: &[u8], options: &WriteOptions) -> Result<Option<Commit>> {
        self.engine.remove(&self.space, key, options)
    }

    /// Replaces one row by what `decide` makes of it, atomically: no other write of the key
    /// comes between. The primitive behind counters, columns, and compare-and-swap.
    ///
    /// `decide` gets the present row (`None` if absent or expired) and a builder that starts as
    /// that row. It may read this database, but must not write it ([`Error::Nested`]). Of the
    /// options, durability and waiting count; expiry and flags are the builder's. It runs once: a
    /// row that expires between its call and the commit counts as present.
    ///
    /// ```
    /// # use hedgerow::{Action, Db, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path())?;
    /// # let counters = db.keyspace("counters")?;
    /// let (before, commit) = counters.update(b"hits", &WriteOptions::default(), |row, new| {
    ///     let value = row.and_then(|row| row.value()).unwrap_or(b"0");
    ///     let hits: u64 = std::str::from_utf8(value).unwrap().parse().unwrap();
    ///     new.set_value((hits + 1).to_string().as_bytes());
    ///     Action::Put(hits)
    /// })?;
    /// assert_eq!(before, 0);
    /// assert_eq!(counters.version(b"hits")?, commit.map(|commit| commit.timestamp));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update<R>(
        &self,
        key: &[u8],
        options: &WriteOptions,
        decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        self.engine.update(&self.space, key, options, decide)
    }

    /// [`Keyspace::update`] whose `decide` runs again where the row has expired before the commit.
    pub(crate) fn update_again<R>(
        &self,
        key: &[u8],
        options: &WriteOptions,
        decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        self.engine.update_again(&self.space, key, options, decide)
    }

    /// Stores a plain value if the row's version is still `expected` (`None`: absent).
    ///
    /// # Errors
    /// [`Error::Conflict`] with the version found; nothing was written then.
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<Timestamp>,
        value: &[u8],
    ) -> Result<Commit> {
        let (outcome, commit) = self.update_again(key, &WriteOptions::default(), |row, new| {
            let found = row.map(|row| row.timestamp());
            if found != expected {
                return Action::Keep(Err(Error::Conflict { expected, found }));
            }
            new.set_value(value).set_expiry_ms(None).set_user_flags(0);
            Action::Put(Ok(()))
        })?;
        outcome.map(|()| commit.unwrap_or(Commit::NOTHING))
    }

    /// Copies of the named columns, in the order asked for; `None` if there is no row.
    pub fn get_columns(&self, key: &[u8], names: &[&[u8]]) -> Result<Option<Vec<Option<Vec<u8>>>>> {
        self.read(key, |row| {
            let values = row.columns_named(names);
            values
                .iter()
                .map(|value| value.map(<[u8]>::to_vec))
                .collect()
        })
    }

    /// Sets some columns of a row, atomically: a reader sees all of them changed or none. The
    /// others stay, and so do expiry and flags. A plain row becomes one of columns; an absent
    /// one is created. The log gets only what changed.
    pub fn put_columns(&self, key: &[u8], columns: &[(&[u8], &[u8])]) -> Result<Option<Commit>> {
        if columns.is_empty() {
            return Ok(None);
        }
        let ((), commit) = self.update_again(key, &WriteOptions::default(), |_, new| {
            for (name, value) in columns {
                new.set_column(name, value);
            }
            Action::Put(())
        })?;
        Ok(commit)
    }

    /// Removes some columns of a row, atomically, and returns how many of them there were. A row
    /// without columns left is removed.
    pub fn remove_columns(&self, key: &[u8], names: &[&[u8]]) -> Result<usize> {
        let (removed, _) = self.update_again(key, &WriteOptions::default(), |row, new| {
            let Some(row) = row.filter(|row| row.is_columns()) else {
                return Action::Keep(0);
            };
            let mut names = names.to_vec();
            names.sort_unstable();
            names.dedup();
            let mut present = row.columns_named(&names).into_iter();
            names.retain(|_| present.next().flatten().is_some());
            if names.is_empty() {
                return Action::Keep(0);
            }
            if names.len() == row.column_count() {
                return Action::Remove(names.len());
            }
            for name in &names {
                new.remove_column(name);
            }
            Action::Put(names.len())
        })?;
        Ok(removed)
    }

    /// Sets when a row expires, in milliseconds since the Unix epoch; whether there is a row.
    pub fn expire(&self, key: &[u8], expiry_ms: u64) -> Result<bool> {
        self.set_expiry(key, Some(expiry_ms))
    }

    /// Removes a row's expiry; whether there is a row that had one.
    pub fn persist(&self, key: &[u8]) -> Result<bool> {
        self.set_expiry(key, None)
    }

    fn set_expiry(&self, key: &[u8], expiry_ms: Option<u64>) -> Result<bool> {
        let (done, _) = self.update_again(key, &WriteOptions::default(), |row, new| match row {
            None => Action::Keep(false),
            Some(row) if row.expiry_ms() == expiry_ms => Action::Keep(expiry_ms.is_some()),
            Some(_) => {
                new.set_expiry_ms(expiry_ms);
                Action::Put(true)
            }
        })?;
        Ok(done)
    }

    /// Iterates over a range in both directions. Each row is read whole, but the iteration as a
    /// whole is no snapshot: it may see concurrent writes or not. A row that stays is seen exactly
    /// once. An item is an error where rows cannot be read, and the last.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = hedgerow::Db::open(dir.path())?;
    /// # let trees = db.keyspace("trees")?;
    /// for name in ["hazel", "hawthorn", "holly"] {
    ///     trees.put(name.as_bytes(), b"")?;
    /// }
    /// let rows = trees.range("hawthorn".."holly")?;
    /// let names = rows.map(|entry| Ok(entry?.into_key())).collect::<hedgerow::Result<Vec<_>>>()?;
    /// assert_eq!(names, [b"hawthorn".to_vec(), b"hazel".to_vec()]);
    /// assert_eq!(trees.range(..)?.next_back().unwrap()?.key(), b"holly");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Result<Range> {
        let space = Arc::clone(&*self.space()?);
        Ok(Range::new(Arc::clone(&self.engine), space, &range))
    }

    /// Iterates over the keys that begin with `prefix`, in both directions.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        let prefix = prefix.as_ref();
        self.range((
            std::ops::Bound::Included(prefix.to_vec()),
            prefix_end(prefix),
        ))
    }

    /// Visits the rows of a range in order, without copying them, until `visit` breaks. It must
    /// be quick and must not write this database.
    pub fn scan(
        &self,
        range: impl KeyRange,
        direction: Direction,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_up_to(range, direction, usize::MAX, visit)
    }

    /// [`Keyspace::scan`] of at most `limit` rows. Of rows that are not in memory as many are read
    /// at once, and hardly more.
    pub fn scan_up_to(
        &self,
        range: impl KeyRange,
        direction: Direction,
        limit: usize,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let space = self.space()?;
        let range = ScanRange::between((range.lower(), range.upper()), direction).limited(limit);
        iterate::scan(&self.engine, &space, &range, visit)
    }

    /// Visits the keys of a range in order until `visit` breaks; see [`Keyspace::scan`]. Cheaper
    /// than that, since the rows stay untouched unless some row of the keyspace has an expiry.
    pub fn scan_keys(
        &self,
        range: impl KeyRange,
        direction: Direction,
        visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let space = self.space()?;
        let range = ScanRange::between((range.lower(), range.upper()), direction);
        iterate::scan_keys(&self.engine, &space, &range, visit)
    }

    /// How many rows there are in a range. Walks them.
    pub fn count(&self, range: impl KeyRange) -> Result<u64> {
        let mut count = 0;
        self.scan_keys(range, Direction::Forward, |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Removes all rows of a range at once and returns how many there were: one commit and one
    /// record of the log, so that after a crash all of them are gone or none. Durable like a single
    /// write.
    ///
    /// Writers of keys of the range, and reads of single keys in it, wait until the rows are
    /// removed from the index, about as long as scanning and removing them takes; so do a
    /// checkpoint and transactions on all keys. Scans do not wait, and may miss a part of the rows.
    /// Writes and reads of other keys wait for a moment at the beginning and the end. Clearing a
    /// keyspace ([`Db::clear_keyspace`](crate::Db::clear_keyspace)) does not depend on its size.
    ///
    /// # Errors
    /// As for [`Keyspace::put_with`]. After [`Error::Index`] the rows before the one that could not
    /// be read are gone, and the others are there.
    pub fn delete_range(&self, range: impl KeyRange) -> Result<u64> {
        let (removed, _) = self.delete_range_with(range, &WriteOptions::default())?;
        Ok(removed)
    }

    /// [`Keyspace::delete_range`] with options, of which durability and waiting count; also
    /// returns the commit, `None` if the range had no rows.
    pub fn delete_range_with(
        &self,
        range: impl KeyRange,
        options: &WriteOptions,
    ) -> Result<(u64, Option<Commit>)> {
        self.engine
            .remove_range(&self.space, (range.lower(), range.upper()), options)
    }

    /// How many rows there are, kept as a counter: costs nothing. Rows that have expired count
    /// until they are swept.
    pub fn len(&self) -> u64 {
        self.space().map_or(0, |space| space.len())
    }

    /// How many of the rows have an expiry, kept as a counter. Costs nothing.
    pub fn expiring(&self) -> u64 {
        self.space().map_or(0, |space| space.expiring())
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
