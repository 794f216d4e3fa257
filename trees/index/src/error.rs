//! Why an index could not do what it was asked.
//!
//! Trees that live in memory never fail. A tree whose pages lie in a file does when a page cannot
//! be read or written, and then says in words which file, which page, and what to do.

use std::fmt;

/// What an [`IndexError`] means for the caller.
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
    /// The index stores keys of one width, and this one has another.
    KeyWidth,
}

/// A call of an index that failed. Nothing was changed by it.
///
/// One pointer wide, so that results of calls that cannot fail cost nothing.
pub struct IndexError(Box<Inner>);

struct Inner {
    kind: IndexErrorKind,
    words: String,
    keys: Option<KeySpan>,
}

/// A range of keys: those that a damaged part of an index would lead to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct KeySpan {
    /// No key of the span is below this one.
    pub from: Vec<u8>,
    /// The first key beyond the span; `None` if it has no end.
    pub to: Option<Vec<u8>>,
}

impl fmt::Display for KeySpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.escape_ascii();
        match &self.to {
            Some(to) => write!(
                f,
                "keys from \"{from}\" to before \"{}\"",
                to.escape_ascii()
            ),
            None => write!(f, "keys from \"{from}\" on"),
        }
    }
}

impl IndexError {
    /// An error of a kind; `words` name the file, the page and the remedy.
    #[cold]
    #[must_use]
    pub fn new(kind: IndexErrorKind, words: impl Into<String>) -> IndexError {
        let words = words.into();
        let keys = None;
        IndexError(Box::new(Inner { kind, words, keys }))
    }

    /// The same error, which also says which keys cannot be reached.
    #[cold]
    #[must_use]
    pub fn of_keys(mut self, keys: KeySpan) -> IndexError {
        self.0.words.push_str(&format!("; {keys} need it"));
        self.0.keys = Some(keys);
        self
    }

    /// Which keys cannot be reached, as far as the index knows: operations on others go on.
    #[must_use]
    pub fn keys(&self) -> Option<&KeySpan> {
        self.0.keys.as_ref()
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
