//! A database: what concerns all keyspaces, and closing.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use hedgerow_log::{Health, Log, Progress};

use crate::api::batch::Batch;
use crate::api::keyspace::Keyspace;
use crate::api::keyspace_options::KeyspaceOptions;
use crate::api::transaction::{Locks, Transaction};
use crate::background;
use crate::commit::Commit;
use crate::commit::worker;
use crate::commit::write_options::WriteOptions;
use crate::disk::backup::{BackupReport, CheckReport, remove_database};
use crate::disk::checkpoint::CheckpointReport;
use crate::disk::directory::LOCK_FILE;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::kind::IndexKind;
use crate::options::Builder;

/// An open database: a directory with named, ordered keyspaces.
///
/// Share it between threads by reference or in an `Arc`. Dropping it closes it; [`Db::close`] does
/// so and returns errors. Dropped within the closure of an update, a transaction or `get_many`, it
/// is closed when the outermost of these returns.
///
/// ```
/// use hedgerow::{Db, Durability, WriteOptions};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// let db = Db::open(path)?;
/// let trees = db.keyspace("trees")?;
/// trees.put(b"hazel", b"Corylus avellana")?;
/// trees.put_with(b"holly", b"Ilex", &Durability::Sync.into())?;
/// assert_eq!(trees.get(b"hazel")?.as_deref(), Some(&b"Corylus avellana"[..]));
/// for entry in trees.prefix("h")? {
///     let entry = entry?;
///     println!("{}: {:?}", entry.key().escape_ascii(), entry.value());
/// }
/// db.close()?;
///
/// let db = Db::open(path)?;
/// assert_eq!(db.keyspace("trees")?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Db {
    engine: Arc<Engine>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("dir", &self.engine.dir)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in `dir` with default options, creating it if there is none.
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Db::builder().open(dir)
    }

    /// Options for opening.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Starts the threads of a database that was recovered.
    pub(crate) fn start(engine: Engine) -> Result<Db> {
        let db = Db {
            engine: Arc::new(engine),
            threads: Mutex::default(),
        };
        if db.engine.log.is_some() {
            let threads = background::start(&db.engine).map_err(|error| {
                let operation = "start background threads for";
                Error::io(operation, &db.engine.dir, error)
            })?;
            *db.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        }
        Ok(db)
    }

    /// The keyspace of this name, created if there is none (unless the database was opened for
    /// reading only).
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.keyspace_with(name, KeyspaceOptions::default())
    }

    /// The keyspace of this name, created with these options if there is none.
    ///
    /// # Errors
    /// [`Error::KeyspaceIndex`]: it exists, with another index. As for
    /// [`Db::create_keyspace_with`] if it has to be created.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let space = match self.engine.find_keyspace(name) {
            Some(space) => space,
            None => self.engine.create_keyspace(name, options, true)?,
        };
        options.check(&space)?;
        Ok(Keyspace::new(Arc::clone(&self.engine), space))
    }

    /// Creates a keyspace with the [default index](Db::default_index), durably.
    ///
    /// # Errors
    /// As for [`Db::create_keyspace_with`].
    pub fn create_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.create_keyspace_with(name, KeyspaceOptions::default())
    }

    /// Creates a keyspace, durably.
    ///
    /// # Errors
    /// [`Error::KeyspaceExists`], [`Error::KeyspaceName`], [`Error::InvalidOption`],
    /// or the manifest could not be stored.
    pub fn create_keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let space = self.engine.create_keyspace(name, options, false)?;
        Ok(Keyspace::new(Arc::clone(&self.engine), space))
    }

    /// The index of keyspaces that are created without naming one: see [`Builder::index`].
    pub fn default_index(&self) -> IndexKind {
        self.engine.kind
    }

    /// The keyspace of this name.
    ///
    /// # Errors
    /// [`Error::KeyspaceMissing`].
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        let space = self.engine.find_keyspace(name);
        let space = space.ok_or_else(|| Error::KeyspaceMissing(name.to_owned()))?;
        Ok(Keyspace::new(Arc::clone(&self.engine), space))
    }

    /// The directories besides its own that new logs and checkpoints go to: see
    /// [`Builder::log_dirs`].
    pub fn log_dirs(&self) -> Vec<PathBuf> {
        let dirs = self.engine.log_dirs.iter();
        dirs.map(|(_, path)| path.clone()).collect()
    }

    /// The names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.engine.catalog().by_name.keys().cloned().collect()
    }

    /// Removes a keyspace with all its rows, durably and at once.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.engine.drop_keyspace(name)
    }

    /// Removes all rows of a keyspace, durably and at once. Handles stay good.
    pub fn clear_keyspace(&self, name: &str) -> Result<()> {
        self.engine.clear_keyspace(name, || ())
    }

    /// Begins a batch: several writes, one commit.
    ///
    /// ```
    /// # use hedgerow::{Db, Durability};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path())?;
    /// let accounts = db.keyspace("accounts")?;
    /// let mut batch = db.batch();
    /// batch.put(&accounts, b"alice", b"70").put(&accounts, b"bob", b"30");
    /// batch.commit(Durability::Sync)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(&self.engine))
    }

    /// Locks what `locks` names, calls `run`, and commits its writes as one: atomic for readers and
    /// for recovery. If `run` returns an error (or calls [`Transaction::rollback`]), nothing
    /// happens.
    ///
    /// Writers of the locked keys wait meanwhile, so be quick. Inside, use the transaction for
    /// reading and writing; other calls that take locks are refused ([`Error::Nested`]), and so is
    /// the handle of a keyspace of another database or opening ([`Error::OtherDatabase`]).
    ///
    /// # Errors
    /// That of `run`, and those of [`Keyspace::put_with`].
    ///
    /// ```
    /// # use hedgerow::{Db, Locks, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path())?;
    /// # let names = db.keyspace("names")?;
    /// # names.put(b"old", b"value")?;
    /// let locks = [(&names, &b"old"[..]), (&names, &b"new"[..])];
    /// let (moved, _) = db.transact(Locks::Keys(&locks), &WriteOptions::default(), |tx| {
    ///     let Some(value) = tx.get(&names, b"old")? else { return Ok(false) };
    ///     tx.put(&names, b"new", &value)?;
    ///     tx.remove(&names, b"old")?;
    ///     Ok(true)
    /// })?;
    /// assert!(moved && !names.contains(b"old")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transact<R>(
        &self,
        locks: Locks<'_>,
        options: &WriteOptions,
        run: impl FnOnce(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Commit)> {
        self.engine.transact(locks, options, run)
    }

    /// Takes a checkpoint now, beside running writers: recovery starts from it, and the log
    /// before it is removed.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        self.engine.checkpoint()
    }

    /// Copies the database into an empty (or new) directory while it is in use. The copy holds
    /// the state of one moment during the call and can be opened or restored.
    ///
    /// Of a database that was opened for reading only, its files are copied as they are.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::Corrupt`], [`Error::InMemory`], [`Error::Closed`], or a
    /// failing file system. [`Error::ReadOnly`]: it was opened for reading only, and it was not
    /// closed before, or somebody else has opened it for writing. There is no copy then.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        self.engine.backup(dir.as_ref())
    }

    /// Copies a backup (or a closed database) into an empty or new directory, verifying it.
    pub fn restore(backup: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<BackupReport> {
        Db::builder().restore(backup, dir)
    }

    /// Verifies every file of a closed database, changing nothing, and lists all that is wrong.
    pub fn check(dir: impl AsRef<Path>) -> Result<CheckReport> {
        Db::builder().check(dir)
    }

    /// Whether the database lives in memory alone; see [`Builder::open_in_memory`].
    pub fn is_in_memory(&self) -> bool {
        self.engine.options.in_memory
    }

    /// Every commit of this epoch or an earlier one is durable.
    pub fn durable_epoch(&self) -> u64 {
        self.engine
            .log
            .as_ref()
            .map_or(u64::MAX, |log| log.durable_epoch())
    }

    /// Whether a commit is durable.
    pub fn is_durable(&self, commit: &Commit) -> bool {
        self.durable_epoch() >= commit.epoch()
    }

    /// Asks that everything up to `commit` becomes durable as soon as possible; does not block.
    pub fn request_durable(&self, commit: &Commit) {
        if let Some(log) = &self.engine.log {
            log.request_durable(commit.epoch());
        }
    }

    /// Hands everything committed so far, by all threads, over to the operating system: it survives
    /// the death of this process, though not of the machine. Costs about a microsecond and no
    /// sync. A server calls it before it replies, so that nothing acknowledged is lost to a kill.
    pub fn write_out(&self) -> Result<()> {
        match &self.engine.log {
            Some(log) => Ok(log.write_out()?),
            None => Ok(()),
        }
    }

    /// Whether a commit is durable, without waiting: for a server that delays a reply until it is.
    /// Requests nothing (see [`Db::request_durable`]) and costs a load if it is.
    ///
    /// # Errors
    /// [`Error::DiskFull`]: it was accepted and is visible, but cannot become durable before space
    /// is freed. [`Error::Poisoned`], [`Error::Closed`]: it never will. Subscribers
    /// ([`Db::subscribe_durable`]) are called when the answer may have changed.
    pub fn poll_durable(&self, commit: &Commit) -> Result<bool> {
        let Some(log) = &self.engine.log else {
            return Ok(true);
        };
        match (log.poll_durable(commit.epoch())?, self.engine.broken.get()) {
            (false, Some(reason)) => Err(Error::Poisoned(reason.clone())),
            (is_durable, _) => Ok(is_durable),
        }
    }

    /// Blocks until everything up to `commit` is durable.
    pub fn wait_durable(&self, commit: &Commit) -> Result<()> {
        match &self.engine.log {
            Some(log) => Ok(log.wait_durable(commit.epoch())?),
            None => Ok(()),
        }
    }

    /// Blocks until everything committed before is durable.
    pub fn sync(&self) -> Result<()> {
        match &self.engine.log {
            // Timestamps run ahead of the epoch by one at most.
            Some(log) => Ok(log.wait_durable(log.epoch() + 1)?),
            None => Ok(()),
        }
    }

    /// Calls `subscriber` after each advance of the durable epoch and each change of health, from
    /// the log's thread: it must be quick and must not block.
    pub fn subscribe_durable(&self, subscriber: Box<dyn Fn(Progress) + Send + Sync>) {
        if let Some(log) = &self.engine.log {
            log.subscribe(Box::new(move |progress| {
                worker::notify(|| subscriber(progress));
            }));
        }
    }

    /// How the log is doing.
    pub fn health(&self) -> Health {
        match (self.engine.broken.get(), &self.engine.log) {
            (Some(reason), _) => Health::Poisoned(reason.clone()),
            (None, Some(log)) => log.health(),
            (None, None) => Health::Healthy,
        }
    }

    /// Why recovery could not replay a part of the log: once for each page of a page file that
    /// cannot be read, with the keys concerned. Nearly always empty. Otherwise other rows are
    /// there and can be written, but no checkpoint is taken ([`Error::NotReplayed`]).
    pub fn not_replayed(&self) -> Vec<String> {
        self.engine.lost.reasons()
    }

    /// What was wrong with the newest checkpoints, where the opening found them damaged and
    /// recovered from an older one: once for each, with its file. Nearly always empty. Otherwise
    /// everything is there all the same, and the next checkpoint, which a database that takes them
    /// by itself takes at once, replaces them.
    pub fn damaged_checkpoints(&self) -> Vec<String> {
        self.engine.damaged.clone()
    }

    /// Removes rows that have expired now, as the background thread does; how many.
    ///
    /// # Errors
    /// [`Error::Index`] where rows cannot be removed as a page cannot be read: why, for the first
    /// of them. All others were removed all the same; `expired_rows_unreadable` among the
    /// [`statistics`](Self::statistics) says how many stay. As for [`Keyspace::put_with`]
    /// otherwise. [`Error::Nested`] inside the closure of an update, a transaction or `get_many`.
    pub fn sweep_expired(&self) -> Result<u64> {
        background::sweep(&self.engine)
    }

    /// Flushes everything and closes the database. Handles that are still around can go on
    /// reading what is in memory; writes through them return [`Error::Closed`].
    ///
    /// # Errors
    /// Not everything could be made durable: what was acknowledged as durable still is. The
    /// database is closed all the same. Calling it again does nothing. [`Error::Nested`] inside the
    /// closure of an update, a transaction or `get_many`, inside a subscriber
    /// ([`Db::subscribe_durable`]), and on a thread of the database's own, such as one that asks
    /// for the [time](crate::Builder::now): then nothing happens.
    pub fn close(&self) -> Result<()> {
        self.check_can_wait()?;
        close_engine(&self.engine, || self.take_threads())
    }

    /// Closes the database, and removes it again if this opening made it, no row is in it, and
    /// its logs are in its own directory: for a program that fails before it has stored anything.
    /// Returns whether the files were removed; the directory stays. A database that somebody else
    /// closes, or that was opened for reading only, stays as it is, and so does one that another
    /// opening has taken over, where locks keep nobody out.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = hedgerow::Db::open(dir.path())?;
    /// db.keyspace("rows")?;
    /// assert!(db.discard()?);
    /// assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::close`], if the database stays.
    pub fn discard(&self) -> Result<bool> {
        self.check_can_wait()?;
        let engine = &self.engine;
        if !engine.is_new || !engine.log_dirs.is_empty() || self.is_in_memory() {
            return self.close().map(|()| false);
        }
        // While somebody else closes it, rows may still come.
        if !begin_to_close(engine) {
            return Ok(false);
        }
        // Closing would let others in, who must find no database that is about to go.
        let locks = std::mem::take(&mut *engine.locks());
        let closed = finish_closing(engine, || self.take_threads());
        // Nothing is written any more, by this opening.
        let has_rows = engine.spaces().iter().any(|space| space.len() > 0);
        let in_place = engine.check_manifest();
        if has_rows || in_place.is_err() {
            return closed.and(in_place).map(|()| false);
        }
        let vfs = &*engine.options.vfs;
        remove_database(vfs, &engine.dir);
        let _ = vfs.remove(&engine.dir.join(LOCK_FILE));
        let _ = vfs.sync_dir(&engine.dir);
        drop(locks);
        Ok(true)
    }

    /// Fails where closing would wait for the caller's own locks, or for the caller.
    fn check_can_wait(&self) -> Result<()> {
        match worker::must_not_wait() || worker::is_in_subscriber() || self.is_own_thread() {
            true => Err(Error::Nested),
            false => Ok(()),
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_threads(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.threads())
    }

    /// Whether the caller is one of the database's own threads.
    fn is_own_thread(&self) -> bool {
        let current = thread::current().id();
        let threads = self.threads();
        threads.iter().any(|own| own.thread().id() == current)
    }
}

impl Drop for Db {
    /// Closes the database, if it is not closed. Within a closure that cannot wait for that, it is
    /// closed as soon as the outermost closure has ended; on a thread of the database's own, by
    /// another thread.
    fn drop(&mut self) {
        if self.engine.is_closed() {
            return;
        }
        let is_own_thread = self.is_own_thread();
        let (engine, threads) = (Arc::clone(&self.engine), self.take_threads());
        // Callers that want the error call `close`.
        let close = move || drop(close_engine(&engine, || threads));
        if is_own_thread || worker::is_in_subscriber() {
            let closer = thread::Builder::new().name("hedgerow-close".into());
            if let Err(error) = closer.spawn(close) {
                tracing::error!(%error, "a database stays open: no thread could be started");
            }
        } else if worker::must_not_wait() {
            worker::defer(close);
        } else {
            close();
        }
    }
}

/// Closes a database; see [`Db::close`]. Its threads are taken by the one who closes it: who comes
/// too late does not take away what is to be awaited.
fn close_engine(engine: &Engine, take_threads: impl FnOnce() -> Vec<JoinHandle<()>>) -> Result<()> {
    match begin_to_close(engine) {
        true => finish_closing(engine, take_threads),
        false => Ok(()),
    }
}

/// Whether the caller is the one who closes it.
fn begin_to_close(engine: &Engine) -> bool {
    !engine.closed.swap(true, Ordering::AcqRel)
}

fn finish_closing(
    engine: &Engine,
    take_threads: impl FnOnce() -> Vec<JoinHandle<()>>,
) -> Result<()> {
    engine.wakeup.stop();
    for thread in take_threads() {
        // A panic there was printed when it happened, and closing goes on.
        let _ = thread.join();
    }
    engine.end_snapshots();
    let _exclusive = engine.checkpointing();
    engine.last_checkpoint();
    let result = match &engine.log {
        Some(log) => close_log(engine, log),
        None => Ok(()),
    };
    if let Some(pages) = engine.pages() {
        pages.stop();
    }
    engine.locks().clear();
    result
}

fn close_log(engine: &Engine, log: &Log) -> Result<()> {
    let end = {
        // A removal that is under way ends, and with it in the log. Whoever makes, clears or drops
        // a keyspace waits for that with the manifest: so the manifest comes after.
        let _no_removals = engine.removals.exclude();
        log.close()?
    };
    let mut manifest = engine.manifest();
    manifest.record_end(end);
    manifest.clean_shutdown = true;
    engine.replace_manifest(&mut manifest)
}
