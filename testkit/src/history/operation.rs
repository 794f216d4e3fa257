//! One operation of a history, and what a check says against one.

use std::fmt;

/// What an operation did to one register (one key), and what it answered.
///
/// Values are `u64`s so that each write can carry a value of its own: only then can a stale or
/// torn read be told from a right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A read and the value it found.
    Get {
        /// The value, `None` when the key was absent.
        found: Option<u64>,
    },
    /// An unconditional write.
    Put {
        /// The value written.
        value: u64,
    },
    /// A removal and, when known, whether the key existed.
    Remove {
        /// `None` when no answer was received.
        existed: Option<bool>,
    },
    /// An atomic read-modify-write: found one state and left another.
    Update {
        /// The state that the callback saw.
        found: Option<u64>,
        /// The state that it left.
        new: Option<u64>,
    },
    /// A compare-and-swap on the value.
    CompareAndSwap {
        /// The state that was asked for.
        expected: Option<u64>,
        /// The state to install.
        new: Option<u64>,
        /// The answer; `None` when no answer was received.
        succeeded: Option<bool>,
    },
}

/// One operation of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Index of the key in the table that the test keeps.
    pub key: usize,
    /// The thread that ran it, for messages.
    pub thread: usize,
    /// When it was called.
    pub called_ns: u64,
    /// When it returned; `None` when no answer came: it may have happened at any time after
    /// the call, or never.
    pub returned_ns: Option<u64>,
    /// What it did and answered.
    pub action: Action,
}

/// A violation, in words that a person can act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}
