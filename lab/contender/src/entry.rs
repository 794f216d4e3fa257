//! The registry's line about a contender.

/// What a contender promises its users. An experiment asks only those that promise what it
/// needs, and a report says what each left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Promises {
    /// Keys come back in order: scans and predecessor searches.
    pub ordered: bool,
    /// Any number of threads read and write at once through a shared reference.
    pub concurrent: bool,
    /// What was acknowledged survives a crash of the process.
    pub durable: bool,
    /// Keys of any length up to the limit; else of one length only.
    pub variable_keys: bool,
    /// The longest key in bytes, where there is a limit that matters. Where keys have one length
    /// only, that is it; 8 if nothing is said.
    pub longest_key: Option<usize>,
    /// It is a set: it holds keys alone, and what it answers for one is
    /// [`value_of`](crate::value_of) it, whatever was stored.
    pub keys_only: bool,
}

/// Who a contender is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name on the command line and in reports, such as `masstree crate`.
    pub name: &'static str,
    /// The version measured, as its source numbers it.
    pub version: String,
    /// Where it comes from: `Hedgerow`, `crate`, `Debian package libjudy-dev`.
    pub origin: &'static str,
    /// What it promises.
    pub promises: Promises,
}

/// A contender that cannot run here: reports print it as a skipped row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}; to have it: {remedy}")]
pub struct Unavailable {
    /// What is missing.
    pub why: String,
    /// The command that installs it.
    pub remedy: String,
}
