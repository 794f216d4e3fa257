//! Why the command failed.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why the command failed, in one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The engine refused.
    #[error("{0}")]
    Engine(#[from] hedgerow::Error),
    /// The server refused.
    #[error("{0}")]
    Server(#[from] hedgerow_server::Error),
    /// A file of the user's could not be read or written.
    #[error("could not {operation} {}: {source}", file.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Standard input or output failed.
    #[error("could not {operation}: {source}")]
    Stream {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The words were well formed but make no sense together.
    #[error("{0}")]
    Usage(String),
    /// The command ran, and its answer is bad news.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Whether the exit code is 2.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Error::Usage(_))
    }

    /// Whether the reader of our output went away, as `head` does: no failure of ours.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Stream { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Wraps a failure of standard output.
pub(crate) fn writing(source: io::Error) -> Error {
    Error::Stream {
        operation: "write the output",
        source,
    }
}

/// Wraps a failure of standard input.
pub(crate) fn reading(source: io::Error) -> Error {
    Error::Stream {
        operation: "read standard input",
        source,
    }
}
