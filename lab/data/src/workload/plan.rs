//! How many keys and operations a workload comes to at a given size.

use super::kind::Kind;
use super::{Amount, Workload};

/// A workload's counts at a number of records and of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How many keys of the set are needed: what is loaded and what may be inserted.
    pub keys: u64,
    /// How many are loaded first.
    pub loaded: u64,
    /// Operations of the churn that follows, before the clock starts.
    pub churn: u64,
    /// Keys that have been inserted when the clock starts, by the load and the churn.
    pub known: u64,
    /// Timed operations of all threads together.
    pub operations: u64,
    /// Threads.
    pub threads: u64,
}

impl Plan {
    /// The share of one thread in the timed operations.
    #[must_use]
    pub fn operations_of(&self, thread: u64) -> u64 {
        self.operations / self.threads + u64::from(thread < self.operations % self.threads)
    }
}

impl Workload {
    /// The workload's counts at `records` records, worked on by `threads` threads.
    ///
    /// # Panics
    ///
    /// If there are no records or no threads.
    #[must_use]
    pub fn plan(&self, records: u64, threads: u64) -> Plan {
        assert!(
            records > 0 && threads > 0,
            "{records} records, {threads} threads"
        );
        let of_records = |multiple: f64| (records as f64 * multiple).round() as u64;
        let loaded = of_records(self.loaded);
        let churn = of_records(self.churn);
        let known = loaded + churn.div_ceil(2);
        let operations = match self.operations {
            _ if self.load_timed => 0,
            Amount::PerRecord(multiple) => of_records(multiple),
            Amount::Exactly(count) => count,
        };
        let keys = if self.anywhere {
            of_records(self.space).max(known).max(1)
        } else {
            known + self.most_inserts(operations, threads)
        };
        Plan {
            keys,
            loaded,
            churn,
            known,
            operations,
            threads,
        }
    }

    /// Inserts that `operations` operations will not exceed. Where kinds are drawn their number
    /// varies; six standard deviations on each thread are not seen in a lifetime.
    fn most_inserts(&self, operations: u64, threads: u64) -> u64 {
        let share = self.mix.inserting();
        if share == 0.0 {
            return 0;
        }
        if share == 1.0 {
            return operations;
        }
        let expected = operations as f64 * share;
        let spread = if self.alternating {
            0.0
        } else {
            6.0 * (expected * threads as f64).sqrt()
        };
        // One more for each thread, as shares are rounded for each.
        (expected + spread).ceil() as u64 + 2 * threads
    }

    /// Whether the workload has operations of this kind.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.mix
            .shares()
            .iter()
            .any(|(other, share)| *other == kind && *share > 0.0)
    }
}
