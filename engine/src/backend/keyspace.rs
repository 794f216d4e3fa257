//! A keyspace as a server sees it.

use std::fmt;
use std::ops::ControlFlow;

use hedgerow_index::Direction;

use crate::api::statistics::Statistics;
use crate::commit::write_options::WriteOptions;
use crate::commit::{Action, Commit};
use crate::error::Result;
use crate::index::bounds::KeyRange;
use crate::row::Row;
use crate::row::builder::RowBuilder;

/// A put of [`BackendKeyspace::put_many`].
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// The row's key.
    pub key: &'a [u8],
    /// Its plain value, whatever was there.
    pub value: &'a [u8],
    /// When the row expires, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<u64>,
    /// 32 bits stored with the row.
    pub user_flags: u32,
}

impl<'a> Put<'a> {
    /// The put of a row that does not expire, without client flags.
    pub fn plain(key: &'a [u8], value: &'a [u8]) -> Put<'a> {
        Put {
            key,
            value,
            expiry_ms: None,
            user_flags: 0,
        }
    }
}

/// A keyspace of a [`Backend`](crate::backend::Backend): an ordered map from keys to rows. Cheap to
/// clone.
pub trait BackendKeyspace: Clone + Send + Sync + fmt::Debug + 'static {
    /// What [`watch`](BackendKeyspace::watch) returns.
    type Watch: Send + fmt::Debug;

    /// Its name.
    fn name(&self) -> &str;

    /// How many rows it has; 0 where the backend does not count them
    /// ([`Capability::Counts`](crate::backend::Capability::Counts)).
    fn row_count(&self) -> u64;

    /// How many of its rows have an expiry, where the backend counts them.
    fn expiring(&self) -> u64;

    /// The name of its index.
    ///
    /// # Errors
    /// It was dropped, or the database is closed.
    fn index_name(&self) -> Result<&'static str>;

    /// What its index counts as things happen.
    ///
    /// # Errors
    /// As for [`index_name`](BackendKeyspace::index_name).
    fn index_counters(&self) -> Result<Statistics>;

    /// The shape of its index, if a walk through it disturbs nobody.
    ///
    /// # Errors
    /// As for [`index_name`](BackendKeyspace::index_name).
    fn index_shape(&self) -> Result<Option<Statistics>>;

    /// Runs `read` on a row, if there is one.
    ///
    /// # Errors
    /// The row cannot be read.
    fn read<R>(&self, key: &[u8], read: impl FnOnce(Row<'_>) -> R) -> Result<Option<R>>;

    /// Looks up many keys. Calls `read(i, row)` once for each `keys[i]`, in any order.
    ///
    /// # Errors
    /// A row cannot be read; then `read` was called for some.
    fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<Row<'_>>)) -> Result<()>;

    /// As [`get_many`](BackendKeyspace::get_many), for keys of several clients: a row that cannot
    /// be read fails for its own keys alone. Calls `read(i, outcome)` once for each `keys[i]`, in
    /// any order.
    fn get_each(&self, keys: &[&[u8]], mut read: impl FnMut(usize, Result<Option<Row<'_>>>)) {
        let mut is_answered = vec![false; keys.len()];
        let batch = self.get_many(keys, |i, row| {
            is_answered[i] = true;
            read(i, Ok(row));
        });
        if batch.is_ok() {
            return;
        }
        for (i, key) in keys.iter().enumerate() {
            if !is_answered[i] {
                match self.read(key, |row| read(i, Ok(Some(row)))) {
                    Ok(Some(())) => {}
                    Ok(None) => read(i, Ok(None)),
                    Err(error) => read(i, Err(error)),
                }
            }
        }
    }

    /// Announces keys that are about to be read or changed.
    fn prefetch_many(&self, keys: &[&[u8]]);

    /// Stores a plain value, whatever was there.
    ///
    /// # Errors
    /// It is not stored, unless the error says that this is unknown.
    fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<Commit>;

    /// Stores plain values, in their order where keys are the same; calls `done(i, outcome)` once
    /// for each, in order. What `options` says of a single row does not count.
    fn put_many(
        &self,
        puts: &[Put<'_>],
        options: &WriteOptions,
        mut done: impl FnMut(usize, Result<Commit>),
    ) {
        for (i, put) in puts.iter().enumerate() {
            let options = WriteOptions {
                expiry_ms: put.expiry_ms,
                user_flags: put.user_flags,
                ..*options
            };
            done(i, self.put_with(put.key, put.value, &options));
        }
    }

    /// Stores rows of different keys, whatever was there: `write(i, new)` makes that of `keys[i]`,
    /// in their order. For the only writer of the keyspace: a backend need not check whether others
    /// write meanwhile, and two writers can leave rows that neither wrote. The last of the commits.
    ///
    /// # Errors
    /// Some are stored, and some perhaps later. Storing all of them again mends that.
    fn load(
        &self,
        keys: &[&[u8]],
        options: &WriteOptions,
        mut write: impl FnMut(usize, &mut RowBuilder<'_>),
    ) -> Result<Option<Commit>> {
        let mut last = None;
        for (i, key) in keys.iter().enumerate() {
            let ((), commit) = self.update(key, options, |_, new| {
                write(i, new);
                Action::Put(())
            })?;
            last = last.max(commit);
        }
        Ok(last)
    }

    /// Changes a row as `decide` wants, which sees it. It is asked again when the row expired
    /// before the commit, and in a backend without locks when another writer came in between, each
    /// time with a new builder: so it begins with undoing what it did elsewhere.
    ///
    /// # Errors
    /// The row is as it was, unless the error says that this is unknown.
    fn update<R>(
        &self,
        key: &[u8],
        options: &WriteOptions,
        decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)>;

    /// Removes the rows of a range; how many.
    ///
    /// # Errors
    /// It failed; [`Capability::AtomicRanges`](crate::backend::Capability::AtomicRanges) says
    /// whether some may then be gone.
    fn delete_range_with(
        &self,
        range: impl KeyRange,
        options: &WriteOptions,
    ) -> Result<(u64, Option<Commit>)>;

    /// Visits at most `most` rows of a range, in order, until `visit` breaks.
    ///
    /// # Errors
    /// Rows cannot be read; then `visit` was called for some.
    fn scan_up_to(
        &self,
        range: impl KeyRange,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Visits the keys of a range, in order, until `visit` breaks.
    ///
    /// # Errors
    /// As for [`scan_up_to`](BackendKeyspace::scan_up_to).
    fn scan_keys(
        &self,
        range: impl KeyRange,
        direction: Direction,
        visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Counts the rows of a range.
    ///
    /// # Errors
    /// As for [`scan_up_to`](BackendKeyspace::scan_up_to).
    fn count(&self, range: impl KeyRange) -> Result<u64> {
        let mut count = 0;
        self.scan_keys(range, Direction::Forward, |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// A key drawn at random; `below` draws a number below its argument.
    ///
    /// # Errors
    /// [`Capability::RandomKeys`](crate::backend::Capability::RandomKeys); keys cannot be read.
    fn random_key(&self, below: impl FnMut(u64) -> u64) -> Result<Option<Vec<u8>>>;

    /// Remembers what a key is, to ask in a transaction whether it changed.
    ///
    /// # Errors
    /// [`Capability::Watches`](crate::backend::Capability::Watches); the row cannot be read.
    fn watch(&self, key: &[u8]) -> Result<Self::Watch>;
}
