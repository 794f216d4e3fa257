//! What the memory budget of a pool must cover at the least.

use std::path::Path;

use crate::error::Error;

/// The least number of pages that must fit the budget.
pub(crate) const LEAST_RESIDENT: u64 = 128;

/// Pages that are evicted, written or read together, at most.
pub(crate) const MOST_BATCH: usize = 64;
/// And at least: in a small pool the buffers for more would take the room of pages.
const LEAST_BATCH: u64 = 8;
/// Of this many pages of a budget one is for each page of a batch.
const BUDGET_PER_BATCH: u64 = 32;

/// Pages that are evicted, written or read together with this budget.
pub(crate) fn batch_pages(page_bytes: usize, budget_bytes: u64) -> usize {
    let part = budget_bytes / (BUDGET_PER_BATCH * page_bytes as u64);
    part.clamp(LEAST_BATCH, MOST_BATCH as u64) as usize
}

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
