//! Why an index could not do what it was asked.
//!
//! Trees that live in memory never fail. A tree whose pages lie in a file does when a page cannot
//! be read or written, and then says in words which file, which page, and what to do.

use std::fmt;

/// What an [`IndexError`] means for whoever made the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IndexErrorKind {
    /// Bytes that should be there are damaged or missing; other keys can still be read.
    Damaged,
    /// The disk is full: trying again later can succeed.
    DiskFull,
    /// No memory is left for another page: fewer calls at once, or more memory, would help.
    OutOfMemory,
    /// A file operation failed.
    Io,
}

/// A call of an index that failed. Nothing was changed by it.
///
/// One pointer wide, so that results of calls that cannot fail cost nothing.
pub struct IndexError(Box<Inner>);

struct Inner {
    kind: IndexErrorKind,
    words: String,
}

impl IndexError {
    /// An error of a kind; `words` name the file, the page and the remedy.
    #[cold]
    #[must_use]
    pub fn new(kind: IndexErrorKind, words: impl Into<String>) -> IndexError {
        let words = words.into();
        IndexError(Box::new(Inner { kind, words }))
    }

    /// What it means.
    #[must_use]
    pub fn kind(&self) -> IndexErrorKind {
        self.0.kind
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.words)
    }
}

impl fmt::Debug for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexError({:?}: {})", self.0.kind, self.0.words)
    }
}

impl std::error::Error for IndexError {}
