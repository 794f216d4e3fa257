//! Memory of a pool that its owner uses for something else for a while.
//!
//! Recovery sorts a part of the log before it touches pages, and a budget is a budget: the memory
//! for that comes out of the pool's, which has fewer pages meanwhile.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use crate::budget::LEAST_RESIDENT;
use crate::pool::Pool;

/// Memory out of a pool's budget, until it is dropped. Made by [`Pool::lend`].
#[must_use = "the pool has it back when this is dropped"]
pub struct Loan<'p, const PAGE: usize> {
    pool: &'p Pool<PAGE>,
    pages: usize,
}

impl<const PAGE: usize> Pool<PAGE> {
    /// Lends memory: as much of `bytes` as the pool can spare, which keeps a quarter of its pages,
    /// and no fewer than it needs, nor than cannot be evicted now.
    pub fn lend(&self, bytes: usize) -> Loan<'_, PAGE> {
        let mut loan = Loan {
            pool: self,
            pages: 0,
        };
        // Never fails: the closure always has an answer.
        let _ = self.lent.fetch_update(Relaxed, Relaxed, |lent| {
            let limit = self.limit_beside(lent);
            let spare = limit.saturating_sub((limit / 4).max(LEAST_RESIDENT as usize / 2));
            loan.pages = spare.min(bytes.div_ceil(PAGE));
            Some(lent + loan.pages)
        });
        self.limit_superpages();
        self.evict_ahead(0);
        let over = self.resident.load(Relaxed).saturating_sub(self.limit());
        let back = over.min(loan.pages);
        loan.pages -= back;
        self.lent.fetch_sub(back, Relaxed);
        loan
    }

    /// What is lent now, in bytes.
    pub fn lent_bytes(&self) -> usize {
        self.lent.load(Relaxed) * PAGE
    }
}

impl<const PAGE: usize> Loan<'_, PAGE> {
    /// How much it is.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pages * PAGE
    }
}

impl<const PAGE: usize> Drop for Loan<'_, PAGE> {
    fn drop(&mut self) {
        self.pool.lent.fetch_sub(self.pages, Relaxed);
    }
}

impl<const PAGE: usize> fmt::Debug for Loan<'_, PAGE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
