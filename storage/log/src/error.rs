//! Errors, whose messages name the file, the place and the remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Damage found in a file: where, what it means and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The damaged (or missing) file.
    pub file: PathBuf,
    /// Where in the file the damage begins, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// What data it touches.
    pub affected: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem {
            file,
            offset,
            what,
            affected,
            remedy,
        } = self;
        write!(
            f,
            "{} at byte {offset}: {what}; affected: {affected}; {remedy}",
            file.display()
        )
    }
}

/// Where something is that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file.
    pub file: PathBuf,
    /// Where in it the block begins that has it, in bytes.
    pub offset: u64,
}

/// Why a log, checkpoint or manifest operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    /// A file that must be whole is not.
    #[error("{0}")]
    Corrupt(Box<Problem>),
    /// The directory holds no manifest, or a file of some other program.
    #[error("{} is not a Hedgerow file; is this the right directory?", file.display())]
    NotADatabase {
        /// The manifest that was looked for.
        file: PathBuf,
    },
    /// A file of a newer version of this software.
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
    /// The manifest is not the one that this opening of the database stored.
    #[error(
        "{} is not the one that this process stored: it opened the database as incarnation {own}, \
         and {}. Another process opened the same directory, or files were put back while it was \
         open; stop every process that has it open, keep a copy of the directory, then open it \
         again",
        file.display(),
        match found {
            Some(found) => format!("there is incarnation {found} now"),
            None => "there is none of this database now".to_owned(),
        }
    )]
    Displaced {
        /// The manifest.
        file: PathBuf,
        /// The incarnation of this opening.
        own: u32,
        /// The incarnation that the manifest names; `None` if there is none of this database.
        found: Option<u32>,
    },
    /// There is no space left for the log. Writes resume by themselves when there is.
    #[error("the disk that holds the log is full; writes resume when space is freed")]
    DiskFull,
    /// Writing or syncing the log failed; nothing more can be promised until a reopen.
    #[error("the log stopped after a failure: {0}; check the disk, then reopen the database")]
    Poisoned(String),
    /// The log was closed.
    #[error("the log is closed; open the database again")]
    Closed,
}

impl Error {
    /// Wraps an error of the file layer, saying what was tried on which file.
    pub(crate) fn io(operation: &'static str, file: &Path, source: io::Error) -> Error {
        Error::Io {
            operation,
            file: file.to_path_buf(),
            source,
        }
    }

    /// Whether the cause is a full disk.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::DiskFull => true,
            Error::Io { source, .. } => hedgerow_vfs::is_disk_full(source),
            _ => false,
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::Corrupt(Box::new(problem))
    }
}
