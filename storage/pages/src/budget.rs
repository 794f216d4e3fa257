//! What the memory budget of a pool must cover at the least.

use std::path::Path;

use crate::evict::batch_pages;
use crate::pool::{LEAST_RESIDENT, Options, Pool};
use crate::restart::Error;

/// Batches' worth of buffers that a pool keeps: of the evictor, of a checkpoint, of the copies it
/// saves, and of reads.
const BUFFERS: u64 = 4;

/// State word and entry.
const BYTES_PER_NUMBER: u64 = 16;

/// What the budget covers besides pages: buffers, and words for so many page numbers.
pub(crate) fn fixed_bytes(batch_bytes: usize, numbers: u64) -> u64 {
    BUFFERS * batch_bytes as u64 + numbers * BYTES_PER_NUMBER
}

/// Whether a budget is large enough.
pub(crate) fn check(path: &Path, asked: u64, minimum: u64) -> Result<(), Error> {
    if asked >= minimum {
        return Ok(());
    }
    Err(Error::BudgetTooSmall {
        file: path.to_path_buf(),
        asked,
        minimum,
    })
}

impl<const PAGE: usize> Pool<PAGE> {
    /// Whether a file that is yet to be made could be worked with in the budget of these options.
    ///
    /// # Errors
    ///
    /// [`Error::BudgetTooSmall`].
    pub fn check_budget_of_new(path: &Path, options: &Options) -> Result<(), Error> {
        let batch = batch_pages(PAGE, options.budget_bytes);
        let minimum = fixed_bytes(batch * PAGE, 0) + LEAST_RESIDENT * PAGE as u64;
        check(path, options.budget_bytes, minimum)
    }
}
