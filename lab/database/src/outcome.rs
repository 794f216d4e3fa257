//! What a run came to.

/// Counts and times of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Threads that ran transactions.
    pub threads: usize,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that ended as their input told them to, by a rollback.
    pub rolled_back: u64,
    /// How often a transaction met another's lock, was undone, and began again.
    pub aborts: u64,
    /// Searches, insertions and removals in indexes.
    pub index_operations: u64,
    /// From the first transaction's begin to the last one's end.
    pub seconds: f64,
    /// Of the threads' seconds, how many the indexes took; the rest is database time.
    pub index_seconds: f64,
}

impl Outcome {
    /// Seconds of all threads together.
    #[must_use]
    pub fn thread_seconds(&self) -> f64 {
        self.seconds * self.threads as f64
    }

    /// Seconds of all threads that were not the indexes' ("dbx time").
    #[must_use]
    pub fn database_seconds(&self) -> f64 {
        (self.thread_seconds() - self.index_seconds).max(0.0)
    }

    /// Committed transactions a second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.committed as f64 / self.seconds.max(1e-9)
    }

    /// Seconds of the threads as microseconds a committed transaction.
    #[must_use]
    pub fn each_us(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.committed.max(1) as f64
    }
}
