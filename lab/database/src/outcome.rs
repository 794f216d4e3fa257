//! What a run came to.

/// Kinds of transactions that a run tells apart at the most.
pub const MOST_KINDS: usize = 5;

/// Transactions of a kind. Times are those of one in sixteen, for all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KindOutcome {
    /// Transactions that ended, by a commit or as their input told them to.
    pub ended: u64,
    /// From their begins to their ends, tries that aborted included.
    pub seconds: f64,
    /// Of these, how many the indexes took.
    pub index_seconds: f64,
}

impl KindOutcome {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ended: self.ended + other.ended,
            seconds: self.seconds + other.seconds,
            index_seconds: self.index_seconds + other.index_seconds,
        }
    }

    /// Microseconds of a transaction that the indexes took, and others.
    #[must_use]
    pub fn each_us(&self) -> [f64; 2] {
        let rest = (self.seconds - self.index_seconds).max(0.0);
        [self.index_seconds, rest].map(|seconds| seconds * 1e6 / self.ended.max(1) as f64)
    }
}

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
    /// By kinds, which workloads number: TPC-C as
    /// [`TRANSACTIONS`](crate::tpcc::TRANSACTIONS) does, others have one kind.
    pub kinds: [KindOutcome; MOST_KINDS],
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
