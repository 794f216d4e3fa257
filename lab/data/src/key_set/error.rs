//! What can go wrong with a key set.

use super::family::KeySet;

/// The longest line that is taken for a key, in bytes. Without a bound, a file that is no list
/// of keys would be read into memory as one.
pub const LONGEST_LINE_BYTES: usize = 64 * 1024;

/// Why a key set cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// The name is none of those that exist.
    #[error("no key set is called '{0}'; there are {names}", names = KeySet::NAMES.join(", "))]
    UnknownName(String),
    /// The number behind the colon does not fit.
    #[error("'{name}' needs {expected}")]
    BadParameter {
        /// What was asked for.
        name: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The set has fewer keys than were asked for.
    #[error("key set {set} has only {available} keys, {asked} were asked for")]
    TooFew {
        /// The set's name.
        set: String,
        /// How many keys it has.
        available: u64,
        /// How many were wanted.
        asked: u64,
    },
    /// A real set is not on this machine.
    #[error("key set {set} is not here; `hedgerow-lab fetch` obtains real key sets")]
    NotFetched {
        /// The set's name.
        set: String,
    },
    /// A file holds no key.
    #[error("{0} holds no keys (a key is a line that is not empty)")]
    Empty(String),
    /// A line is longer than any key can be.
    #[error("{file}: line {line} is longer than {LONGEST_LINE_BYTES} bytes; is it a list of keys?")]
    LongLine {
        /// Where.
        file: String,
        /// The line's number, from 1.
        line: u64,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// Which.
        file: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
}
