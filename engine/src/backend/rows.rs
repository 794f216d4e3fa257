//! How rows are read and changed inside transactions and at snapshots of a backend.

use std::ops::ControlFlow;
use std::time::Duration;

use hedgerow_index::Direction;

use crate::backend::keyspace::BackendKeyspace;
use crate::commit::write_options::WriteOptions;
use crate::commit::{Action, Commit};
use crate::error::Result;
use crate::index::bounds::KeyRange;
use crate::row::Row;
use crate::row::builder::RowBuilder;

/// Reads rows of keyspaces `K`.
pub trait ReadRows<K: BackendKeyspace> {
    /// Runs `read` on a row, if there is one.
    ///
    /// # Errors
    /// The row cannot be read.
    fn read<R>(
        &self,
        keyspace: &K,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>>;

    /// Visits the rows of a range, in order, until `visit` breaks. `most` is a hint: no more are
    /// wanted.
    ///
    /// # Errors
    /// Rows cannot be read; then `visit` was called for some.
    fn scan(
        &self,
        keyspace: &K,
        range: impl KeyRange,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()>;
}

/// Stages changes of rows, and reads what it staged.
pub trait ChangeRows<K: BackendKeyspace>: ReadRows<K> + Sized {
    /// Stages a plain value, whatever was there.
    ///
    /// # Errors
    /// Key or value are too long, or the key is not among those that it may write.
    fn put_with(
        &mut self,
        keyspace: &K,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()>;

    /// Stages what `decide` wants of a row. Asks it once.
    ///
    /// # Errors
    /// As for [`put_with`](ChangeRows::put_with); the row cannot be read.
    fn update<R>(
        &mut self,
        keyspace: &K,
        key: &[u8],
        decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<R>;

    /// Runs `work`, and forgets what that staged if it fails.
    ///
    /// # Errors
    /// Those of `work`.
    fn nested<R, E>(
        &mut self,
        work: impl FnOnce(&mut Self) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E>;
}

/// A transaction that knew its keys when it began.
pub trait LockingTransaction<K: BackendKeyspace>: ChangeRows<K> {
    /// Whether a key was changed since it was watched.
    ///
    /// # Errors
    /// The row cannot be read.
    fn changed_since(&self, keyspace: &K, key: &[u8], watch: &K::Watch) -> Result<bool>;

    /// Has it write nothing when it ends.
    fn rollback(&mut self);
}

/// A transaction that reads at a snapshot, and is open between the requests of a client.
pub trait InteractiveTransaction<K: BackendKeyspace>: ChangeRows<K> + Send + 'static {
    /// About how many bytes what it wrote and read takes.
    fn memory_bytes(&self) -> usize;

    /// The moment at which it reads, in milliseconds since the Unix epoch.
    fn time_ms(&self) -> u64;

    /// Commits what it staged.
    ///
    /// # Errors
    /// Somebody else was in its way: it wrote nothing.
    fn commit_with(self, options: &WriteOptions) -> Result<Commit>;
}

/// All keyspaces as they were at one moment. Cheap to clone; the last clone closes it.
pub trait SnapshotReads<K: BackendKeyspace>: ReadRows<K> + Clone + Send + Sync + 'static {
    /// Its moment, in milliseconds since the Unix epoch.
    fn time_ms(&self) -> u64;

    /// How long it has been open.
    fn age(&self) -> Duration;
}
