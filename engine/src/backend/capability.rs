//! What a backend can be unable to do.

use std::fmt;

/// Something that the embedded engine can do, and another backend may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Reading and changing several rows as one: `MULTI` … `EXEC`, `RENAME`, `MSETNX`.
    SeveralRows,
    /// Transactions whose commands answer one by one: `BEGIN` … `COMMIT`.
    InteractiveTransactions,
    /// Reading the whole database as it was at one moment: `SNAPSHOT`, `WITH`.
    Snapshots,
    /// Knowing whether a key changed: `WATCH`.
    Watches,
    /// Removing a range as one: who reads sees all of it or nothing. Without this, `DELRANGE` and
    /// `FLUSHDB` remove row after row.
    AtomicRanges,
    /// Writing everything to where it is found quickly after a restart: `SAVE`, `BGSAVE`.
    Checkpoints,
    /// Copying the database into a directory while it is in use: `BACKUP`.
    Backups,
    /// Drawing keys, each as likely as any other: `RANDOMKEY`.
    RandomKeys,
    /// Knowing how many rows there are: `DBSIZE` is exact.
    Counts,
}

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 9] = [
        Capability::SeveralRows,
        Capability::InteractiveTransactions,
        Capability::Snapshots,
        Capability::Watches,
        Capability::AtomicRanges,
        Capability::Checkpoints,
        Capability::Backups,
        Capability::RandomKeys,
        Capability::Counts,
    ];

    /// Its name in statistics, of lower-case letters and underscores.
    pub fn name(self) -> &'static str {
        match self {
            Capability::SeveralRows => "several_rows",
            Capability::InteractiveTransactions => "interactive_transactions",
            Capability::Snapshots => "snapshots",
            Capability::Watches => "watches",
            Capability::AtomicRanges => "atomic_ranges",
            Capability::Checkpoints => "checkpoints",
            Capability::Backups => "backups",
            Capability::RandomKeys => "random_keys",
            Capability::Counts => "counts",
        }
    }
}

impl fmt::Display for Capability {
    /// What clients call it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::SeveralRows => "a commit of several rows",
            Capability::InteractiveTransactions => "BEGIN",
            Capability::Snapshots => "SNAPSHOT",
            Capability::Watches => "WATCH",
            Capability::AtomicRanges => "the removal of a range at once",
            Capability::Checkpoints => "SAVE",
            Capability::Backups => "BACKUP",
            Capability::RandomKeys => "RANDOMKEY",
            Capability::Counts => "an exact count of rows",
        })
    }
}

/// What a backend was asked for and cannot do. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What was asked for.
    pub capability: Capability,
    /// Why the backend cannot do it.
    pub because: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.capability, self.because)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_lower_case_letters_and_differ() {
        let mut names: Vec<_> = Capability::ALL.iter().map(|all| all.name()).collect();
        let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(names.iter().all(|name| name.chars().all(is_plain)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Capability::ALL.len());
    }
}
