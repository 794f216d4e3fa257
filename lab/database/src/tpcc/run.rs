//! What a run is.

use super::input::Mix;
use super::size::Size;

/// A run of TPC-C.
#[derive(Debug, Clone, Copy)]
pub struct Tpcc {
    /// How large the database is.
    pub size: Size,
    /// Which transactions run.
    pub mix: Mix,
    /// Threads.
    pub threads: usize,
    /// Transactions of each thread. The run ends when the first thread has done its own.
    pub transactions: u64,
    /// What random numbers are made from.
    pub seed: u64,
}
