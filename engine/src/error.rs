//! Errors, whose messages name the cause and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use hedgerow_index::{IndexError, IndexErrorKind};
use hedgerow_log::{Problem, Timestamp};

use crate::backend::capability::Unsupported;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation of the engine failed. Nothing was changed unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process (or another `Db` of this one) has the database open.
    #[error("{} is in use by another process; stop it or choose another directory", dir.display())]
    Locked {
        /// The database's directory.
        dir: PathBuf,
    },
    /// A write was asked of a database opened with `read_only`.
    #[error("the database was opened for reading only; open it without read_only to write")]
    ReadOnly,
    /// Something that needs files was asked of a database that lives in memory alone.
    #[error(
        "the database lives in memory alone and has no files; open one in a directory for that"
    )]
    InMemory,
    /// A directory for logs and checkpoints cannot be used, or is not where it was: see
    /// [`Builder::log_dirs`](crate::Builder::log_dirs).
    #[error("log directory {} (`--log-dir`, `log_dirs`): {reason}", dir.display())]
    LogDir {
        /// The directory.
        dir: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The directory cannot be written.
    #[error("{} cannot be written ({source}); change its permissions, or open it for reading only \
        (`read_only`)", dir.display())]
    ReadOnlyDirectory {
        /// The database's directory.
        dir: PathBuf,
        /// What the file layer said.
        source: io::Error,
    },
    /// There is no database here, and creating one was not asked for.
    #[error(
        "there is no database in {}; check the path, or create one by opening it for writing",
        dir.display()
    )]
    Missing {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory holds something else than a Hedgerow database.
    #[error(
        "{} is not a Hedgerow database ({reason}); choose an empty or new directory",
        dir.display()
    )]
    NotADatabase {
        /// The directory.
        dir: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Log or checkpoint files are there, but the manifest that lists them is not.
    #[error(
        "{} holds Hedgerow files but no MANIFEST: a copy or restore into it did not finish, or \
         the file was deleted; restore a backup into an empty directory", dir.display()
    )]
    HalfWritten {
        /// The directory.
        dir: PathBuf,
    },
    /// What was to be restored is a database that is open, or was when its process ended.
    #[error(
        "{} is no backup but a database that was not closed; copy it with Db::backup, and restore \
         the copy",
        dir.display()
    )]
    NotABackup {
        /// The directory.
        dir: PathBuf,
    },
    /// A directory that must be empty (of a backup or restore) is not.
    #[error("{} is not empty; choose an empty or new directory", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// A backup was asked for where the database has its own files.
    #[error("{} lies within {}, which has files of the database; choose a directory outside of it",
        dir.display(), of_database.display())]
    BackupWithin {
        /// Where the backup was to be.
        dir: PathBuf,
        /// The directory of the database, or one of its log directories.
        of_database: PathBuf,
    },
    /// Written by a newer version of this software.
    #[error("{} has format version {found}, this program reads up to {supported}; use a newer \
        program", file.display())]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// The version it says.
        found: u32,
        /// The newest version known here.
        supported: u32,
    },
    /// A keyspace has an index of a kind that this program does not know.
    #[error(
        "keyspace {keyspace:?} uses the index {index:?}, unknown to this program; use a newer \
         program"
    )]
    UnknownIndex {
        /// The keyspace.
        keyspace: String,
        /// What its catalog entry says.
        index: String,
    },
    /// A file of the database is damaged.
    #[error("{0}")]
    Corrupt(Box<Problem>),
    /// The index breaks one of its invariants: a bug, or failing memory.
    #[error(
        "the index of keyspace {keyspace:?} is inconsistent: {what}; reopen the database, which \
         rebuilds it from disk, and report this"
    )]
    IndexInvariant {
        /// The keyspace.
        keyspace: String,
        /// The violated invariant.
        what: String,
    },
    /// A keyspace exists with another index than the one asked for.
    #[error(
        "keyspace {keyspace:?} has the index {found}, not {asked}; open it without naming an \
         index, or dump it, drop it, and load it into a new one with the index {asked}"
    )]
    KeyspaceIndex {
        /// The keyspace.
        keyspace: String,
        /// What was asked for.
        asked: &'static str,
        /// What it has.
        found: &'static str,
    },
    /// A keyspace is a B-tree, and the database was opened without a page file.
    #[error(
        "keyspace {0:?} is a B-tree, but the database has no page file; put pages.hdg back, or \
         restore a backup"
    )]
    NoPageFile(String),
    /// The kernel gives no address space for the index of a keyspace.
    #[error(
        "no address space for keyspace {keyspace:?} with the index {index} ({source}); raise the \
         limit of the process (ulimit -v), or choose another index"
    )]
    AddressSpace {
        /// The keyspace.
        keyspace: String,
        /// Its index.
        index: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The page file of a database of B-trees cannot be used: why, and what to do.
    #[error("{0}")]
    PageFile(Box<str>),
    /// An index that keeps its nodes in a file could not read or write one. Other rows can be
    /// read; a write that returns this did nothing.
    #[error("{0}")]
    Index(IndexError),
    /// The key is longer than [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES).
    #[error("the key has {bytes} bytes, the limit is {limit}; use a shorter key")]
    KeyTooLong {
        /// Length of the key.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The keyspace's index stores keys of one width only, and this one has another.
    #[error(
        "the key has {bytes} bytes, and keyspace {keyspace:?}, whose index is {index}, stores keys \
         of {wanted} bytes only; use such a key, or a keyspace with another index"
    )]
    KeyWidth {
        /// Length of the key.
        bytes: usize,
        /// The width of the index's keys.
        wanted: usize,
        /// The keyspace.
        keyspace: String,
        /// The name of its index.
        index: &'static str,
    },
    /// The value (or all columns with their names) is longer than `max_value_bytes`.
    #[error(
        "the value has {bytes} bytes, the limit is {limit}; split it, or raise the limit \
         (`--max-value`, `max_value_bytes`)"
    )]
    ValueTooLong {
        /// Length of the value, or of all columns with their names.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A batch or transaction of several rows writes more than `max_commit_bytes`: recovery reads a
    /// commit as a whole, as it happened as a whole.
    #[error(
        "the commit would have {bytes} bytes or more, the limit is {limit}; write the rows in \
         several batches or transactions, or raise the limit (`--max-commit-bytes`, \
         `max_commit_bytes`)"
    )]
    CommitTooLarge {
        /// Bytes of keys and rows up to the one that was too much.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// No space is left for the log. Reads go on; writes resume by themselves with space.
    #[error("the disk is full; free some space, writes then resume by themselves")]
    DiskFull,
    /// Writing or syncing failed, so nothing more can be promised until a reopen.
    #[error("the database stopped writing after a failure: {0}; check the disk, then reopen it")]
    Poisoned(String),
    /// Recovery found records for rows of a page that cannot be read; the logs are kept for them.
    #[error(
        "no checkpoint can be taken: {records} records of the log could not be replayed, the first \
         since {first}; restore a backup, or dump the keyspace's other rows, drop it and load them"
    )]
    NotReplayed {
        /// How many records.
        records: u64,
        /// What was in the way of the first one.
        first: String,
    },
    /// The memory limit is reached. Reads and removes go on, and so do writes to B-trees.
    #[error("{}", out_of_memory(*limit_bytes, *share_bytes))]
    OutOfMemory {
        /// The limit.
        limit_bytes: usize,
        /// What keyspaces in memory may have of it: less than all where pages of B-trees have the
        /// rest.
        share_bytes: usize,
    },
    /// The rows need more memory than the limit allows, and a quarter on top. Nothing on disk was
    /// changed.
    #[error(
        "the rows do not fit into the memory limit of {limit_bytes} bytes: recovery stopped at \
         {used_bytes}, and nothing is lost; open the database with a higher memory limit \
         (`--memory`)"
    )]
    RecoveryOutOfMemory {
        /// The limit.
        limit_bytes: usize,
        /// What was in use when recovery stopped.
        used_bytes: usize,
    },
    /// A batch, a transaction or a snapshot was given the handle of a keyspace of another
    /// database, or of an earlier opening of its own. Nothing happened.
    #[error(
        "the handle of keyspace {keyspace:?} belongs to another database, or to an earlier opening \
         of this one; open the keyspace again in this one, and use that handle"
    )]
    OtherDatabase {
        /// The keyspace's name there.
        keyspace: String,
    },
    /// No keyspace of this name (any more).
    #[error("there is no keyspace {0:?}; create it, or list those that exist")]
    KeyspaceMissing(String),
    /// A keyspace of this name exists already.
    #[error("keyspace {0:?} exists already; open it, or drop it first")]
    KeyspaceExists(String),
    /// A keyspace name must have 1 to 255 bytes.
    #[error("a keyspace name must have 1 to 255 bytes, this one has {bytes}; choose another")]
    KeyspaceName {
        /// Length of the name.
        bytes: usize,
    },
    /// The backend that keeps the rows cannot do this. Nothing happened.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// The backend that keeps the rows is out of reach or refused, and nothing happened: why, and
    /// what to do.
    #[error("{0}")]
    Backend(Box<str>),
    /// The backend that keeps the rows did not answer a write, which may have happened or may yet
    /// happen: why, and what to do.
    #[error("{0}")]
    OutcomeUnknown(Box<str>),
    /// Compare-and-swap found another version than expected.
    #[error(
        "the row changed: expected version {expected:?}, found {found:?}; read it again and retry"
    )]
    Conflict {
        /// The version the caller expected (`None`: absent).
        expected: Option<Timestamp>,
        /// The version that is there.
        found: Option<Timestamp>,
    },
    /// A transaction read or wrote what another commit changed meanwhile: nothing happened, and it
    /// may succeed when it is run again ([`Db::transaction`](crate::Db::transaction) does that).
    #[error(
        "the transaction conflicts with another commit on {what} of keyspace {keyspace:?}; nothing \
         happened, run it again"
    )]
    TransactionConflict {
        /// The keyspace.
        keyspace: String,
        /// The key, or the range and a key of it.
        what: String,
    },
    /// A snapshot was ended: it was the oldest that kept memory from being freed when the rows that
    /// snapshots can see took more than they may, or a write reached the memory limit.
    #[error(
        "{name:?} was ended after {age_s} s: it was the oldest snapshot when replaced rows took \
         more than {limit_bytes} bytes, or all rows more than the memory limit; open another, keep \
         it for less time, or raise that limit (`--version-memory`, `version_memory`) or the other \
         (`--memory`, `memory_limit`)"
    )]
    SnapshotEnded {
        /// The snapshot's name.
        name: String,
        /// How old it is, in seconds.
        age_s: u64,
        /// The limit of memory for versions.
        limit_bytes: usize,
    },
    /// A transaction was ended, as [`Error::SnapshotEnded`] says of a snapshot: nothing of it
    /// happened.
    #[error(
        "{name:?} was ended after {age_s} s: it was the oldest transaction when replaced rows took \
         more than {limit_bytes} bytes, or all rows more than the memory limit; nothing of it \
         happened; make it shorter, or raise that limit (`--version-memory`, `version_memory`) or \
         the other (`--memory`, `memory_limit`)"
    )]
    TransactionTooOld {
        /// The transaction's name.
        name: String,
        /// How old it is, in seconds.
        age_s: u64,
        /// The limit.
        limit_bytes: usize,
    },
    /// A transaction read so many keys and ranges one by one that remembering them takes more
    /// memory than versions may: nothing of it happened.
    #[error(
        "the transaction remembers {bytes} bytes of keys that it read, the limit is {limit}; read \
         ranges in place of single keys, use Isolation::Snapshot, or raise the limit \
         (`--version-memory`, `version_memory`)"
    )]
    TransactionTooLarge {
        /// Bytes of what it read.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A transaction wrote a key that it had not locked.
    #[error(
        "the transaction writes a key that it did not lock; name it in Locks::Keys or use \
         Locks::All"
    )]
    NotLocked,
    /// A call that takes locks, from inside the closure of `update`, `transact` or `get_many`,
    /// whose caller may hold some.
    #[error(
        "this call takes locks and would deadlock inside the closure of an update, a transaction \
         or \
         get_many; use the closure's arguments, or call it afterwards"
    )]
    Nested,
    /// The options contradict each other or are out of range.
    #[error("invalid option: {0}")]
    InvalidOption(String),
    /// The database was closed.
    #[error("the database is closed; open it again")]
    Closed,
    /// A file operation failed.
    #[error("could not {operation} {}: {source}", file.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On which file or directory.
        file: PathBuf,
        /// What the file layer said.
        source: io::Error,
    },
}

impl Error {
    /// Whether it is a conflict with another commit: nothing happened, and the same may succeed
    /// when it is tried again with what is there now.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Error::Conflict { .. } | Error::TransactionConflict { .. }
        )
    }
}

fn out_of_memory(limit_bytes: usize, share_bytes: usize) -> String {
    match share_bytes < limit_bytes {
        true => format!(
            "keyspaces in memory use their {share_bytes} bytes of the memory limit of \
             {limit_bytes} bytes, and pages of B-trees have the rest; remove rows from them, or \
             raise the limit (`--memory`, `memory_limit`)"
        ),
        false => format!(
            "memory use is at its limit of {limit_bytes} bytes; remove rows, or raise the limit \
             (`--memory`, `memory_limit`)"
        ),
    }
}

impl Error {
    pub(crate) fn io(operation: &'static str, file: &Path, source: io::Error) -> Error {
        Error::Io {
            operation,
            file: file.to_path_buf(),
            source,
        }
    }
}

impl From<Unsupported> for Error {
    fn from(unsupported: Unsupported) -> Error {
        Error::Unsupported(unsupported)
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Error {
        match error.kind() {
            IndexErrorKind::DiskFull => Error::DiskFull,
            _ => Error::Index(error),
        }
    }
}

// For `?` within the engine: callers cannot name the error.
#[doc(hidden)]
impl From<hedgerow_pages::Error> for Error {
    fn from(error: hedgerow_pages::Error) -> Error {
        use hedgerow_pages::Error as Pages;
        if error.is_disk_full() {
            return Error::DiskFull;
        }
        let problem = |file: &Path, offset: u64, affected: String| {
            Error::Corrupt(Box::new(Problem {
                file: file.to_path_buf(),
                offset,
                what: error.to_string(),
                affected,
                remedy: "restore a backup".to_owned(),
            }))
        };
        match &error {
            Pages::CorruptPage {
                file, page, offset, ..
            } => problem(file, *offset, format!("the rows of {page}")),
            Pages::CorruptTable {
                file,
                offset,
                pages,
                ..
            } => problem(
                file,
                *offset,
                format!("the rows of {} to {}", pages.start(), pages.end()),
            ),
            Pages::Truncated { file, found, .. } => {
                problem(file, *found, "all rows behind that".to_owned())
            }
            Pages::NotAPageFile { file, .. } => problem(file, 0, "all rows".to_owned()),
            Pages::NewerFormat {
                file,
                found,
                supported,
            } => Error::NewerFormat {
                file: file.clone(),
                found: *found,
                supported: *supported,
            },
            Pages::Poisoned(reason) => Error::Poisoned(reason.clone()),
            _ => Error::PageFile(error.to_string().into()),
        }
    }
}

// For `?` within the engine, as above.
#[doc(hidden)]
impl From<hedgerow_log::Error> for Error {
    fn from(error: hedgerow_log::Error) -> Error {
        use hedgerow_log::Error as Log;
        if error.is_disk_full() {
            return Error::DiskFull;
        }
        match error {
            Log::Io {
                operation,
                file,
                source,
            } => Error::Io {
                operation,
                file,
                source,
            },
            Log::Corrupt(problem) => Error::Corrupt(problem),
            Log::NotADatabase { file } => Error::NotADatabase {
                dir: file.parent().unwrap_or(&file).to_path_buf(),
                reason: format!("{} is missing or foreign", file.display()),
            },
            Log::NewerFormat {
                file,
                found,
                supported,
            } => Error::NewerFormat {
                file,
                found,
                supported,
            },
            Log::DiskFull => Error::DiskFull,
            Log::Poisoned(reason) => Error::Poisoned(reason),
            Log::Closed => Error::Closed,
            other => Error::Poisoned(other.to_string()),
        }
    }
}
