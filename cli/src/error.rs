//! Why the command failed.

use std::io;
use std::path::PathBuf;

use crate::size::show_bytes;

/// Result of this crate.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why the command failed, in one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The engine refused.
    #[error("{}", of_engine(.0))]
    Engine(#[from] hedgerow::Error),
    /// The server refused.
    #[error("{}", of_server(.0))]
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
    /// What failed was printed already.
    #[error("what failed was printed before")]
    Reported,
}

/// What the engine says, with the remedies that a command line has: the engine's own words are for
/// programs, and name methods.
fn of_engine(error: &hedgerow::Error) -> String {
    use hedgerow::Error as Engine;
    match error {
        Engine::Missing { dir } => format!(
            "there is no database in {}; name another directory with --data, or make one with \
             hedgerow serve, put or load",
            dir.display()
        ),
        Engine::NotABackup { dir } => format!(
            "{} is no backup but a database that was not closed; copy it with hedgerow backup \
             --data {}, and restore the copy",
            dir.display(),
            dir.display()
        ),
        Engine::LogDir { dir, reason } => format!("--log-dir {}: {reason}", dir.display()),
        Engine::ReadOnlyDirectory { dir, source } => format!(
            "{} cannot be written ({source}); change its permissions",
            dir.display()
        ),
        Engine::KeyspaceIndex {
            keyspace,
            asked,
            found,
        } => format!(
            "keyspace {keyspace:?} has the index {found}, not {asked}; leave out --index, or dump \
             it, drop it, and load it with --index {asked}"
        ),
        Engine::KeyspaceExists(name) => format!(
            "keyspace {name:?} exists already; choose another name, or drop it with hedgerow \
             keyspace drop"
        ),
        Engine::ValueTooLong { bytes, limit } => {
            format!("the value has {bytes} bytes, the limit is {limit}; split it")
        }
        Engine::OutOfMemory {
            limit_bytes,
            share_bytes,
        } if share_bytes < limit_bytes => format!(
            "keyspaces in memory use their {} of the memory limit of {}, and pages of B-trees have \
             the rest; delete rows from them, or raise --memory",
            show_bytes(*share_bytes as u64),
            show_bytes(*limit_bytes as u64)
        ),
        Engine::OutOfMemory { limit_bytes, .. } => format!(
            "memory use is at its limit of {}; delete rows or raise --memory",
            show_bytes(*limit_bytes as u64)
        ),
        Engine::RecoveryOutOfMemory {
            limit_bytes,
            used_bytes,
        } => format!(
            "the rows do not fit into the memory limit of {}: opening stopped at {}, and nothing \
             is lost; raise --memory",
            show_bytes(*limit_bytes as u64),
            show_bytes(*used_bytes as u64)
        ),
        // Of writes that wait for space, only a server knows.
        Engine::DiskFull => "the disk is full; free some space, then run this again".to_owned(),
        Engine::Poisoned(reason) => format!(
            "the database stopped writing after a failure: {reason}; check the disk, then run this \
             again"
        ),
        other => other.to_string(),
    }
}

/// What the server says, with the flags that help.
fn of_server(error: &hedgerow_server::Error) -> String {
    use hedgerow_server::Error as Server;
    match error {
        Server::PasswordNeeded { address } => format!(
            "refusing to listen on {address} without a password, because other machines can reach \
             it; give --password, or listen on 127.0.0.1"
        ),
        Server::Database(error) => of_engine(error),
        other => other.to_string(),
    }
}

impl Error {
    /// Whether the exit code is 2.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Error::Usage(_))
    }

    /// Whether the reader of our output went away, as `head` does: no failure of ours.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        match self {
            Error::Stream { operation, source } => {
                *operation == WRITING && source.kind() == io::ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }
}

/// What is tried where nobody need read.
const WRITING: &str = "write the output";

/// Wraps a failure of standard output.
pub(crate) fn writing(source: io::Error) -> Error {
    Error::Stream {
        operation: WRITING,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_what_a_user_of_the_command_line_can_do() {
        let said = Error::from(hedgerow::Error::DiskFull).to_string();
        assert!(said.contains("disk is full"), "{said}");
        assert!(said.contains("run this again"), "{said}");
        assert!(!said.contains("by themselves"), "{said}");
    }

    #[test]
    fn a_server_that_goes_away_is_no_reader_that_has_enough() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(writing(broken()).is_broken_pipe());
        let of_server = Error::Stream {
            operation: "talk to the server",
            source: broken(),
        };
        assert!(!of_server.is_broken_pipe());
        assert!(!writing(io::ErrorKind::StorageFull.into()).is_broken_pipe());
    }
}
