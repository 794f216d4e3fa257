//! What can go wrong when a real set is fetched.

use std::path::Path;

use super::sets::REAL_SETS;

/// Why a real set cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The name is none of those that exist.
    #[error("no real set is called '{0}'; there are {names}", names = real_names())]
    UnknownName(String),
    /// Neither the setting nor the user's home says where to keep files.
    #[error("no folder to keep real sets in: set HEDGEROW_LAB_CACHE or HOME")]
    NoCache,
    /// A program is missing.
    #[error(
        "{0} is not here: real sets come from Debian packages; elsewhere, take your own keys \
         with file:PATH"
    )]
    NoProgram(String),
    /// A program said no.
    #[error("{command} failed: {said}")]
    Refused {
        /// What was run.
        command: String,
        /// The end of what it wrote.
        said: String,
    },
    /// What was obtained holds no keys: its form has changed.
    #[error("{0} holds none of the keys expected; its form may have changed")]
    Nothing(String),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

fn real_names() -> String {
    REAL_SETS
        .iter()
        .map(|set| set.name)
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> FetchError {
    let path = path.display().to_string();
    move |source| FetchError::File { path, source }
}
