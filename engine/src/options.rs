//! How a database is opened, and its limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_log::LogOptions;
use hedgerow_vfs::{SystemVfs, Vfs};

use crate::commit::write_options::Durability;
use crate::disk::progress::{ProgressCallback, RecoveryProgress};
use crate::error::{Error, Result};
use crate::index::kind::IndexKind;
use crate::machine_memory::default_page_budget;

/// The clock of expiry: milliseconds since the Unix epoch.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Opens a database with options; made by [`Db::builder`](crate::Db::builder).
///
/// ```
/// use std::time::Duration;
///
/// use hedgerow::{Db, Durability, IndexKind};
///
/// # let dir = tempfile::tempdir()?;
/// let db = Db::builder()
///     .index(IndexKind::BTree)
///     .memory_limit(Some(64 << 20))
///     .durability(Durability::Sync)
///     .checkpoint_idle(Some(Duration::from_secs(5)))
///     .open(dir.path())?;
/// assert_eq!(db.keyspace("k")?.index_kind()?, IndexKind::BTree);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Builder {
    /// Of new keyspaces; `None`: see [`Builder::index`].
    pub(crate) index: Option<IndexKind>,
    pub(crate) workers: usize,
    pub(crate) durability: Durability,
    pub(crate) flush_interval: Duration,
    pub(crate) log_ahead_bytes: u32,
    pub(crate) log_reserve_bytes: u32,
    /// Where logs and checkpoints go; `None`: as the manifest says.
    pub(crate) log_dirs: Option<Vec<PathBuf>>,
    pub(crate) memory_limit: Option<usize>,
    pub(crate) version_memory: Option<usize>,
    pub(crate) max_value_bytes: usize,
    pub(crate) max_commit_bytes: usize,
    pub(crate) checkpoint_log_bytes: Option<u64>,
    pub(crate) checkpoint_idle: Option<Duration>,
    pub(crate) checkpoint_interval: Option<Duration>,
    pub(crate) keep_checkpoints: usize,
    pub(crate) sweep_interval: Option<Duration>,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) read_only: bool,
    pub(crate) create: bool,
    /// Opened for reading only: whether a page file must be whole. Otherwise lost pages are errors
    /// when a read needs them, and all others can be read.
    pub(crate) strict: bool,
    /// The database has no files: nothing is logged.
    pub(crate) in_memory: bool,
    pub(crate) progress: Option<ProgressCallback>,
    pub(crate) now: Clock,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            index: None,
            workers: default_workers(),
            durability: Durability::default(),
            flush_interval: Duration::from_millis(200),
            log_ahead_bytes: LogOptions::default().ahead_bytes,
            log_reserve_bytes: LogOptions::default().reserve_bytes,
            log_dirs: None,
            memory_limit: None,
            version_memory: None,
            max_value_bytes: 512 << 20,
            max_commit_bytes: 1 << 30,
            checkpoint_log_bytes: Some(256 << 20),
            checkpoint_idle: Some(Duration::from_secs(10)),
            checkpoint_interval: Some(Duration::from_secs(300)),
            keep_checkpoints: 2,
            sweep_interval: Some(Duration::from_millis(100)),
            vfs: Arc::new(SystemVfs),
            read_only: false,
            create: true,
            strict: false,
            in_memory: false,
            progress: None,
            now: Arc::new(system_now_ms),
        }
    }
}

/// Why a database without files has no B-trees.
pub(crate) const BTREE_IN_MEMORY: &str = "the index btree is for data larger than memory and \
                                          needs a directory; choose another index for a database \
                                          in memory";

/// Memory for versions where no limit of memory is named.
const DEFAULT_VERSION_MEMORY: usize = 256 << 20;
/// Enough for a short transaction beside a few writers.
const LEAST_VERSION_MEMORY: usize = 64 << 10;
/// The highest limit of values, in bytes ([`Builder::max_value_bytes`]): with columns of a byte
/// each a row is four times as long, and lengths have four bytes.
pub const MOST_VALUE_BYTES: usize = 1 << 30;
/// Of a commit of several rows: offsets within one have four bytes in recovery (`redo.rs`), with a
/// row more behind the limit.
const MOST_COMMIT_BYTES: usize = 2 << 30;

/// The manifest lists each, with its parts.
const MOST_CHECKPOINTS: usize = 100;

pub(crate) fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

fn system_now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Builder {
    /// The index of keyspaces that are created from now on and name none themselves
    /// ([`KeyspaceOptions`](crate::KeyspaceOptions)). Existing ones keep theirs. Default: the
    /// B-tree where all keyspaces are B-trees, Masstree in any other database.
    pub fn index(mut self, index: IndexKind) -> Self {
        self.index = Some(index);
        self
    }

    /// Log shards, and threads that recovery and checkpoints use: about one per writing thread.
    /// Default: the number of cores.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// The durability of writes that name none. Default: [`Durability::Periodic`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The longest time before a commit's sync begins without a request for it: at most 200 ms, the
    /// default.
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.flush_interval = interval;
        self
    }

    /// How much memory the data may take, in bytes. Default: no limit; for B-trees half of the
    /// machine's memory, or of what the control groups of this process (of a container or service)
    /// allow it, and 256 MiB where the system does not say.
    ///
    /// For an index in memory it is the memory beyond which puts are refused, compared with what
    /// all tree nodes and values of this process occupy. For [`IndexKind::BTree`] nothing is
    /// refused: it is the most memory that pages, and what the pool needs besides, take at any
    /// moment; other pages are in the file alone. At least about 1 MiB.
    ///
    /// Opening a database is allowed a quarter more, since recovery packs rows otherwise than the
    /// writes that made them: what fitted once can be opened again. Beyond that it is
    /// [`Error::RecoveryOutOfMemory`](crate::Error::RecoveryOutOfMemory). A database that was
    /// opened above its limit serves reads and removals, and refuses puts until it is below.
    pub fn memory_limit(mut self, bytes: Option<usize>) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// How much memory the rows may take that were replaced or removed while a
    /// [snapshot](crate::Db::snapshot) or transaction can see them, in bytes. Beyond it the oldest
    /// that sees any of them is ended, whose next call says so; writers go on. It is a part of
    /// [`memory_limit`](Self::memory_limit). Default (`None`): an eighth of that, or 256 MiB
    /// without one; never less than 64 KiB.
    pub fn version_memory(mut self, bytes: Option<usize>) -> Self {
        self.version_memory = bytes;
        self
    }

    /// The most zeros that are written ahead of a log file at once, in bytes, where commits wait
    /// for their sync. Such a sync takes two thirds of the time, and the log's bytes are written
    /// twice; 0 where bytes written matter more. Default: 64 KiB.
    pub fn log_ahead_bytes(mut self, bytes: u32) -> Self {
        self.log_ahead_bytes = bytes;
        self
    }

    /// Disk space that the log of each worker has reserved, where the file system can do that: on a
    /// full disk it takes removals, and lets the database be opened. Default: 1 MiB.
    pub fn log_reserve_bytes(mut self, bytes: u32) -> Self {
        self.log_reserve_bytes = bytes;
        self
    }

    /// The directories that logs and checkpoints go to from this opening on, best on disks of their
    /// own: the log of worker *i* to the *i*-th of them, in turns, and so the parts of checkpoints.
    /// Each is made if it is missing, in a folder that is there; otherwise it is empty, or one of
    /// this database. None of them may be within another or the data folder. No directory at all
    /// means the data folder. Default: those that the database has.
    ///
    /// A directory that is left out is read as long as something in it is needed, until the next
    /// checkpoint. One that was moved is recognised where it is named.
    ///
    /// ```
    /// # let temporary = tempfile::tempdir()?;
    /// # let dir = temporary.path();
    /// use hedgerow::Db;
    ///
    /// let disks = [dir.join("disk1"), dir.join("disk2")];
    /// let db = Db::builder().log_dirs(&disks).open(dir.join("data"))?;
    /// db.keyspace("k")?.put(b"key", b"value")?;
    /// db.close()?;
    /// // They are found again.
    /// let db = Db::open(dir.join("data"))?;
    /// assert_eq!(db.log_dirs().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn log_dirs<P: Into<PathBuf>>(mut self, dirs: impl IntoIterator<Item = P>) -> Self {
        self.log_dirs = Some(dirs.into_iter().map(Into::into).collect());
        self
    }

    /// The longest row in bytes: the value, or all columns with their names. Every call counts
    /// these alone, without expiry, flags or other parts of a row. Default: 512 MiB; at most 1 GiB.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// The most that a batch or transaction of several rows may write, in bytes of their keys and
    /// rows and some 32 for each; one row has [`max_value_bytes`](Self::max_value_bytes). Until a
    /// commit is on the disk it is in memory about three times (the caller's operations, the new
    /// rows, the log's record), and recovery reads it as a whole, once for each worker. Default: 1
    /// GiB; at most 2 GiB, for recovery counts with 32 bits within a commit.
    pub fn max_commit_bytes(mut self, bytes: usize) -> Self {
        self.max_commit_bytes = bytes;
        self
    }

    /// Log bytes after which a checkpoint is taken by itself; `None` for only when asked.
    /// The log may always grow to the size of the last checkpoint. A database with B-trees also
    /// takes one when 64 MiB and two thirds of its file are dead, and for the reasons below.
    /// Default: 256 MiB.
    pub fn checkpoint_log_bytes(mut self, bytes: Option<u64>) -> Self {
        self.checkpoint_log_bytes = bytes;
        self
    }

    /// After how long without a write a database of B-trees takes a checkpoint, which frees the
    /// space of removed rows; `None` for never for this reason, as if
    /// [`checkpoint_log_bytes`](Self::checkpoint_log_bytes) is `None`. Default: 10 s.
    pub fn checkpoint_idle(mut self, idle: Option<Duration>) -> Self {
        self.checkpoint_idle = idle;
        self
    }

    /// How long after the first commit that the last checkpoint lacks a database with B-trees takes
    /// one; `None` as for [`checkpoint_idle`](Self::checkpoint_idle). Default: 5 minutes.
    pub fn checkpoint_interval(mut self, interval: Option<Duration>) -> Self {
        self.checkpoint_interval = interval;
        self
    }

    /// How many checkpoints are kept, with all logs since the oldest: where a part of the newest is
    /// damaged, an opening recovers everything from the one before, says so
    /// ([`Db::damaged_checkpoints`](crate::Db::damaged_checkpoints)), and takes a new one. Each
    /// takes the disk space of all rows in memory, and of the logs up to the next. B-trees keep
    /// none: their pages have one state. A full disk keeps one. Default: 2; at most 100.
    pub fn keep_checkpoints(mut self, count: usize) -> Self {
        self.keep_checkpoints = count;
        self
    }

    /// How often expired rows are removed in the background; `None` for only by
    /// [`Db::sweep_expired`](crate::Db::sweep_expired). They read as absent either way. As often,
    /// up to 256 leaves of a B-tree that has lost a quarter of its keys (or a 64th, and then none
    /// for ten times as long) get the form that suits those that it has now; for `None`, splits and
    /// merges alone see to that. Default: 100 ms.
    pub fn sweep_interval(mut self, interval: Option<Duration>) -> Self {
        self.sweep_interval = interval;
        self
    }

    /// The file layer. Default: the operating system's.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use hedgerow::Db;
    /// use hedgerow::vfs::{MemoryVfs, Vfs};
    ///
    /// let files: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    /// let db = Db::builder().vfs(Arc::clone(&files)).open("/db")?;
    /// db.keyspace("k")?.put(b"a", b"1")?;
    /// db.close()?;
    /// let db = Db::builder().vfs(files).open("/db")?;
    /// assert_eq!(db.keyspace("k")?.get(b"a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn vfs(mut self, vfs: Arc<dyn Vfs>) -> Self {
        self.vfs = vfs;
        self
    }

    /// Opens for reading only: recovers into memory and changes nothing on disk. Of B-trees, pages
    /// that the logs change stay in memory, beside what [`Builder::memory_limit`] allows the
    /// others. A damaged page file opens all the same: reads of rows in lost pages are errors, and
    /// all others can be read.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether to create the database if the directory is missing or empty. Default: true.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Calls `progress` now and then, from any thread, while the database is being recovered.
    pub fn progress(mut self, progress: Box<dyn Fn(RecoveryProgress) + Send + Sync>) -> Self {
        self.progress = Some(Arc::from(progress));
        self
    }

    /// The clock for expiry, in milliseconds since the Unix epoch. Default: the system's.
    pub fn now(mut self, now: Box<dyn Fn() -> u64 + Send + Sync>) -> Self {
        self.now = Arc::from(now);
        self
    }

    /// Memory for the page file.
    pub(crate) fn page_budget(&self) -> usize {
        self.memory_limit.unwrap_or_else(default_page_budget)
    }

    /// Memory for versions that snapshots can see.
    pub(crate) fn version_budget(&self) -> usize {
        let share = || {
            self.memory_limit
                .map_or(DEFAULT_VERSION_MEMORY, |limit| limit / 8)
        };
        self.version_memory
            .unwrap_or_else(share)
            .max(LEAST_VERSION_MEMORY)
    }

    pub(crate) fn validate_log_dirs(&self) -> Result<()> {
        let mut log_dirs = self.log_dirs.iter().flatten();
        if log_dirs.any(|dir| dir.as_os_str().is_empty()) {
            let what = "log_dirs has an empty path; name directories, or none at all";
            return Err(Error::InvalidOption(what.to_owned()));
        }
        Ok(())
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let invalid = |what: &str| Err(Error::InvalidOption(what.to_owned()));
        if self.in_memory && self.index == Some(IndexKind::BTree) {
            return invalid(BTREE_IN_MEMORY);
        }
        if self.in_memory && self.log_dirs.is_some() {
            return invalid("a database in memory has no logs; leave log_dirs out");
        }
        self.validate_log_dirs()?;
        if self.workers == 0 || self.workers > 1024 {
            return invalid("workers must be between 1 and 1024");
        }
        if self.keep_checkpoints == 0 || self.keep_checkpoints > MOST_CHECKPOINTS {
            return invalid("keep_checkpoints must be between 1 and 100");
        }
        if self.flush_interval.is_zero() || self.flush_interval > Duration::from_millis(200) {
            return invalid("flush_interval must be between 1 ns and 200 ms");
        }
        if self.max_value_bytes > MOST_VALUE_BYTES {
            return invalid("max_value_bytes must be at most 1 GiB");
        }
        if self.max_commit_bytes > MOST_COMMIT_BYTES {
            return invalid("max_commit_bytes must be at most 2 GiB");
        }
        if self
            .sweep_interval
            .is_some_and(|interval| interval.is_zero())
        {
            return invalid("sweep_interval must not be zero; use None to switch it off");
        }
        Ok(())
    }
}
