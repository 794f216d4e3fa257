//! A database that was loaded once, in which transactions run slice by slice: so that two of them
//! can be compared while the machine is the same for both.

use crate::error::Result;
use crate::outcome::Outcome;
use crate::workers::Harness;

/// A loaded database of a benchmark.
pub trait Loaded {
    /// Lets each of the benchmark's threads run its transactions, with random numbers made from
    /// that seed. Slices with the same seed and from the same state do the same.
    ///
    /// # Errors
    ///
    /// That of a transaction which found what cannot be.
    fn slice(&self, seed: u64, harness: Harness) -> Result<Outcome>;

    /// Compares the database with what all slices so far did; walks all of it.
    ///
    /// # Errors
    ///
    /// [`Error::Inconsistent`](crate::Error::Inconsistent).
    fn check(&self) -> Result<()>;
}
