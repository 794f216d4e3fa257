//! Snapshots: the whole database as it was at one moment, for reading.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_index::{Direction, ScanRange};
use hedgerow_log::Timestamp;

use crate::api::db::Db;
use crate::api::iterate::Range;
use crate::api::keyspace::Keyspace;
use crate::error::Result;
use crate::index::bounds::{KeyRange, prefix_end};
use crate::index::space::Space;
use crate::row::Row;
use crate::versions::open::OpenSnapshot;
use crate::versions::registry::OldestSnapshot;

/// All keyspaces as they were at one moment; made by [`Db::snapshot`]. Cheap to clone and free to
/// share between threads; closed when the last clone, and the last [`KeyspaceSnapshot`] and
/// [`Range`] made of it, is dropped.
///
/// While it is open, rows that are replaced or removed stay in memory
/// ([`Builder::version_memory`](crate::Builder::version_memory)) as long as it can see them.
/// Beyond that limit, or where a write finds no memory otherwise, the oldest snapshot is ended that
/// keeps any from being freed: every read then fails with
/// [`Error::SnapshotEnded`](crate::Error::SnapshotEnded). Snapshots do not survive the database's
/// closing.
///
/// ```
/// use hedgerow::Db;
///
/// # let db = Db::builder().open_in_memory()?;
/// let trees = db.keyspace("trees")?;
/// trees.put(b"hazel", b"Corylus")?;
/// let snapshot = db.snapshot()?;
/// trees.put(b"hazel", b"Corylus avellana")?;
/// trees.put(b"holly", b"Ilex")?;
/// let then = snapshot.keyspace("trees")?;
/// assert_eq!(then.get(b"hazel")?.as_deref(), Some(&b"Corylus"[..]));
/// assert_eq!((then.count(..)?, trees.count(..)?), (1, 2));
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    open: Arc<OpenSnapshot>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("name", &self.name())
            .field("timestamp", &self.timestamp())
            .finish()
    }
}

impl Db {
    /// Opens a snapshot: it sees every commit that returned before this call, in any thread, and no
    /// later one. Takes about a microsecond, and waits for no more than the writes that are under
    /// way, or for the end of a removal of a large range.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed). [`Error::Nested`](crate::Error::Nested) inside the
    /// closure of an update, a transaction or `get_many`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.open_snapshot(None)
    }

    /// [`Db::snapshot`] with a name, which errors and statistics tell.
    ///
    /// # Errors
    /// As for that.
    pub fn snapshot_named(&self, name: &str) -> Result<Snapshot> {
        self.open_snapshot(Some(name))
    }

    /// The snapshot or transaction that has been open for longest, if any is open: the first to be
    /// ended when versions take more memory than they may, if it can see any of them.
    pub fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        self.engine().snapshots.oldest()
    }

    fn open_snapshot(&self, name: Option<&str>) -> Result<Snapshot> {
        let open = OpenSnapshot::open(self.engine(), name, false)?;
        let open = Arc::new(open);
        Ok(Snapshot { open })
    }
}

impl Snapshot {
    /// The snapshot's name: as given, or made up.
    pub fn name(&self) -> &str {
        self.open.live.name()
    }

    /// It sees commits up to this timestamp.
    pub fn timestamp(&self) -> Timestamp {
        self.open.live.moment
    }

    /// How long it has been open.
    pub fn age(&self) -> Duration {
        self.open.live.age()
    }

    /// The time at which it judges what has expired, in milliseconds since the Unix epoch: that of
    /// its opening.
    pub fn time_ms(&self) -> u64 {
        self.open.live.now_ms
    }

    /// Whether it can still be read.
    ///
    /// # Errors
    /// [`Error::SnapshotEnded`](crate::Error::SnapshotEnded), or
    /// [`Error::Closed`](crate::Error::Closed).
    pub fn check(&self) -> Result<()> {
        self.open.live.check()
    }

    /// The names of the keyspaces that there were, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.open.live.catalog.by_name.keys().cloned().collect()
    }

    /// A keyspace as it was, also if it was cleared or dropped since.
    ///
    /// # Errors
    /// [`Error::KeyspaceMissing`](crate::Error::KeyspaceMissing): there was none of this name.
    pub fn keyspace(&self, name: &str) -> Result<KeyspaceSnapshot> {
        let space = Arc::clone(self.open.live.space_named(name)?);
        Ok(self.of_space(space))
    }

    /// The keyspace of a handle as it was.
    ///
    /// # Errors
    /// As for [`Snapshot::keyspace`]. [`Error::OtherDatabase`](crate::Error::OtherDatabase): it is
    /// no handle of this database, as it is open now.
    pub fn at(&self, keyspace: &Keyspace) -> Result<KeyspaceSnapshot> {
        keyspace.check_engine(&self.open.engine)?;
        let space = Arc::clone(self.open.live.space(keyspace.handle())?);
        Ok(self.of_space(space))
    }

    fn of_space(&self, space: Arc<Space>) -> KeyspaceSnapshot {
        KeyspaceSnapshot {
            open: Arc::clone(&self.open),
            space,
        }
    }
}

/// One keyspace of a [`Snapshot`]: what [`Keyspace`] has for reading, at the snapshot's moment.
///
/// Every method fails with [`Error::SnapshotEnded`](crate::Error::SnapshotEnded) once the snapshot
/// was ended, and with [`Error::Index`](crate::Error::Index) where the index cannot be read.
///
/// ```
/// # let db = hedgerow::Db::builder().open_in_memory()?;
/// let users = db.keyspace("users")?;
/// users.put_columns(b"ada", &[(b"born", b"1815")])?;
/// let snapshot = db.snapshot()?;
/// users.remove(b"ada")?;
/// let then = snapshot.at(&users)?;
/// assert_eq!(then.get_columns(b"ada", &[b"born"])?.unwrap()[0].as_deref(), Some(&b"1815"[..]));
/// assert_eq!(then.prefix("a")?.next_back().unwrap()?.key(), b"ada");
/// assert!(!users.contains(b"ada")?);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Clone)]
pub struct KeyspaceSnapshot {
    open: Arc<OpenSnapshot>,
    space: Arc<Space>,
}

impl fmt::Debug for KeyspaceSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyspaceSnapshot")
            .field("keyspace", &self.space.name)
            .field("snapshot", &self.open.live.name())
            .finish_non_exhaustive()
    }
}

impl KeyspaceSnapshot {
    /// The keyspace's name.
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// Runs `read` on the row that `key` had, without copying it; `None` if there was none. See
    /// [`Keyspace::read`].
    #[inline]
    pub fn read<R>(&self, key: &[u8], read: impl FnOnce(Row<'_>) -> R) -> Result<Option<R>> {
        self.open.engine.check_key(key)?;
        self.open.live.read(&self.space, key, read)
    }

    /// A copy of the plain value that `key` had.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.read(key, |row| row.value().map(<[u8]>::to_vec))?;
        Ok(value.flatten())
    }

    /// Whether `key` had a row.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.read(key, |_| ())?.is_some())
    }

    /// The version of the row that `key` had.
    pub fn version(&self, key: &[u8]) -> Result<Option<Timestamp>> {
        self.read(key, |row| row.timestamp())
    }

    /// Copies of the named columns, in the order asked for; `None` if there was no row.
    pub fn get_columns(&self, key: &[u8], names: &[&[u8]]) -> Result<Option<Vec<Option<Vec<u8>>>>> {
        self.read(key, |row| {
            let values = row.columns_named(names).into_iter();
            values.map(|value| value.map(<[u8]>::to_vec)).collect()
        })
    }

    /// Looks up many keys at once, overlapping their cache misses. Calls `read(i, row)` once for
    /// each `keys[i]`, in no particular order.
    pub fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<Row<'_>>)) -> Result<()> {
        for key in keys {
            self.open.engine.check_key(key)?;
        }
        self.open.live.get_many(&self.space, keys, read)
    }

    /// Iterates over a range, from both ends.
    pub fn range(&self, range: impl KeyRange) -> Result<Range> {
        self.open.live.check()?;
        let space = Arc::clone(&self.space);
        Ok(Range::at_snapshot(Arc::clone(&self.open), space, &range))
    }

    /// Iterates over the keys that begin with `prefix`, from both ends.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        let prefix = prefix.as_ref();
        self.range((Bound::Included(prefix.to_vec()), prefix_end(prefix)))
    }

    /// Visits the rows of a range in order until `visit` breaks. Rows are not copied, but where
    /// some were replaced since. `visit` should be quick, as it keeps memory from being reused; it
    /// may write this database. [`KeyspaceSnapshot::range`] is for those who take their time.
    pub fn scan(
        &self,
        range: impl KeyRange,
        direction: Direction,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_up_to(range, direction, usize::MAX, visit)
    }

    /// [`KeyspaceSnapshot::scan`] of at most `limit` rows.
    pub fn scan_up_to(
        &self,
        range: impl KeyRange,
        direction: Direction,
        limit: usize,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let range = ScanRange::between((range.lower(), range.upper()), direction).limited(limit);
        self.open.live.scan(&self.space, &range, visit)
    }

    /// How many rows there were in a range. Walks them.
    pub fn count(&self, range: impl KeyRange) -> Result<u64> {
        let mut count = 0;
        self.scan(range, Direction::Forward, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// How many rows there were. Walks them: only the present number is kept as a counter.
    pub fn len(&self) -> Result<u64> {
        self.count(..)
    }

    /// Whether there were no rows.
    pub fn is_empty(&self) -> Result<bool> {
        let mut is_empty = true;
        self.scan_up_to(.., Direction::Forward, 1, |_, _| {
            is_empty = false;
            ControlFlow::Break(())
        })?;
        Ok(is_empty)
    }
}
