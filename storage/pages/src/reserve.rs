//! Pages that stay clean or missing, so that reading never needs a write to succeed.
//!
//! A page that is changed while the disk is full stays dirty, and so in memory. If all pages in
//! memory could become dirty, there would be no room to read another one. So a clean page becomes
//! dirty only while an eighth of the pool (256 pages at most) is clean or free; else other pages
//! are written first, or the change fails before it changes anything.
//!
//! Removals may use up half of the reserve ([`Pool::enforce_dirty_limit_for_removal`]), so that
//! rows can be deleted while the disk is full.
//!
//! Recovery must not fail for want of space, nor stop half-way: while it runs
//! ([`Pool::exceed_budget`]), changed pages that a full disk does not take stay in memory beside
//! the budget. They are no more than the pages that the log changes, and leave memory as the disk
//! takes them.
//!
//! Some changes may use the reserve up: those that release pages, and those that must not fail
//! half-way. They are few, and call [`Pool::allow_reserve_use`].

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;
use crate::evict::Victims;
use crate::paged::ExclusiveLatch;
use crate::pool::{Pool, lock};
use crate::restart::Result;

/// The most batches that are written before a change continues: dirty pages that other threads have
/// latched cannot be evicted, and the reserve is for the time when none can.
const MOST_BATCHES: usize = 8;

/// While this is there, changes may use up the reserve. Made by [`Pool::allow_reserve_use`].
#[must_use = "the reserve is kept again when this is dropped"]
pub struct ReserveUse<'p>(&'p AtomicUsize);

/// While this is there, a full disk makes the pool larger. Made by [`Pool::exceed_budget`].
#[must_use = "the budget is kept again when this is dropped"]
pub struct BudgetExemption<'p>(&'p AtomicUsize);

impl<const PAGE: usize> Pool<PAGE> {
    /// Lets pages of all threads exceed the budget, by those that are changed and that a full disk
    /// does not take. They stay beyond it afterwards, until they can be written. For recovery,
    /// which must not depend on space.
    pub fn exceed_budget(&self) -> BudgetExemption<'_> {
        self.budget_exemptions.fetch_add(1, Ordering::Relaxed);
        BudgetExemption(&self.budget_exemptions)
    }

    /// Makes room beyond the budget for a batch of pages, if the disk is full and that is allowed
    /// now.
    pub(crate) fn exceed(&self, failure: &Error) -> bool {
        let may = failure.is_disk_full() && self.budget_exemptions.load(Ordering::Relaxed) > 0;
        if may {
            self.beyond.fetch_add(self.batch, Ordering::Relaxed);
        }
        may
    }

    /// Takes room beyond the budget back after pages were written, which can be evicted now.
    pub(crate) fn return_beyond(&self, pages: usize) {
        if self.beyond.load(Ordering::Relaxed) == 0 {
            return;
        }
        let less = |beyond: usize| Some(beyond.saturating_sub(pages));
        // Never fails: the closure always has an answer.
        let _ = self
            .beyond
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Pages that no change touches, and that the [page cleaner](crate::PageCleaner) tries to keep
    /// free.
    pub(crate) fn reserve(&self) -> usize {
        (4 * self.batch).min(self.limit() / 8)
    }

    /// Lets changes, of all threads, use up the pages that are kept for reading while the disk is
    /// full. For changes that give pages back, and for those that must not fail half-way. Costs an
    /// addition to a shared counter.
    pub fn allow_reserve_use(&self) -> ReserveUse<'_> {
        self.reserve_uses.fetch_add(1, Ordering::Relaxed);
        ReserveUse(&self.reserve_uses)
    }

    /// Writes other dirty pages while so many are dirty that a latched page must stay clean. After
    /// that, [`Pages::change`](crate::Pages::change) of it will not fail under a [`ReserveUse`].
    ///
    /// # Errors
    ///
    /// What writing them reported, if this one must still stay clean.
    pub fn enforce_dirty_limit(&self, page: &ExclusiveLatch<'_, PAGE>) -> Result<()> {
        if !page.is_dirty() {
            self.keep_clean(self.reserve())?;
        }
        Ok(())
    }

    /// [`enforce_dirty_limit`](Self::enforce_dirty_limit) for a removal, which may use up half of
    /// what is kept for reading.
    ///
    /// # Errors
    ///
    /// As for [`enforce_dirty_limit`](Self::enforce_dirty_limit).
    pub fn enforce_dirty_limit_for_removal(&self, page: &ExclusiveLatch<'_, PAGE>) -> Result<()> {
        if !page.is_dirty() {
            self.keep_clean(self.reserve() / 2)?;
        }
        Ok(())
    }

    /// Counts a clean page as dirty, which the caller makes it then.
    #[cold]
    pub(crate) fn count_dirty(&self) -> std::result::Result<(), Error> {
        self.keep_clean(self.reserve())?;
        self.back_page()?;
        self.dirty.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a page may become dirty now while so many are to stay clean.
    fn may_dirty(&self, clean: usize) -> bool {
        self.dirty.load(Ordering::Relaxed) + clean < self.limit()
            || self.reserve_uses.load(Ordering::Relaxed) > 0
    }

    /// Writes pages if need be, so that so many are clean.
    fn keep_clean(&self, clean: usize) -> std::result::Result<(), Error> {
        for _ in 0..MOST_BATCHES {
            if self.may_dirty(clean) {
                break;
            }
            let batch = &mut lock(&self.evictor).batch;
            if self.may_dirty(clean) {
                break;
            }
            let evicted = self.evict_batch(batch, Victims::Dirty);
            if evicted.pages == 0
                && let Some(error) = evicted.failure
                && !self.exceed(&error)
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Drop for ReserveUse<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for BudgetExemption<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for BudgetExemption<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BudgetExemption")
    }
}

impl fmt::Debug for ReserveUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReserveUse")
    }
}
