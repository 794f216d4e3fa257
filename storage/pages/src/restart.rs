//! What ends an attempt early: a conflict, after which the operation begins again, or a failure.
//!
//! Both are values. Code that reads optimistically passes [`Restart`] up with `?`; code that also
//! takes latches, or may have to read a file, passes up [`Stop`], which a `Restart` converts to.

use std::fmt;

use crate::error::Error;

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
