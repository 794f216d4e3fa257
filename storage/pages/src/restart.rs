//! What ends an attempt before its end: a conflict, after which one tries again, or a failure.
//!
//! Both are values. Code that reads optimistically passes [`Restart`] up with `?`; code that also
//! takes latches, or may have to read a file, passes up [`Stop`], which a `Restart` converts to.

use std::fmt;

/// Another thread was in the way, or what was read made no sense because the page was changing:
/// nothing was changed, begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart;

/// Why an attempt at an operation ended early.
#[derive(Debug)]
pub enum Stop {
    /// Begin again.
    Restart,
    /// Give up: trying again now would fail again.
    Failed(Box<Error>),
}

impl From<Restart> for Stop {
    #[inline(always)]
    fn from(_: Restart) -> Self {
        Stop::Restart
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(Box::new(error))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Restart => f.write_str("another thread was in the way; try again"),
            Stop::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Stop {}

/// Result of a step that may have to begin again.
pub type Result<T> = std::result::Result<T, Stop>;

/// What can go wrong with pages, in words that say where and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// All page numbers that there is room for are in use.
    #[error("all {pages} pages are in use; remove data, or open with room for more pages")]
    OutOfPages {
        /// How many there are.
        pages: u64,
    },
    /// The kernel did not give address space.
    #[error(
        "could not reserve {bytes} bytes of address space ({source}); raise `ulimit -v`, or ask for fewer pages"
    )]
    AddressSpace {
        /// How much was asked for.
        bytes: u64,
        /// What the kernel said.
        source: std::io::Error,
    },
}
