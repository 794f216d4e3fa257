//! Pending frees: slots of shared overflow pages that lost their record while the page was not in
//! memory.
//!
//! An overwrite or a removal of one long value frees a slot of a shared overflow page that may be
//! anywhere in the file. Reading that page at once, and alone, would be most of the change's cost.
//! So the slot stays taken, and the tree remembers it as a *pending free*.
//!
//! When enough pages have pending frees, the tree prefetches a group of them. When as many more
//! have come together, it frees the slots of the group, and the values that follow fill these
//! slots while their pages are in memory. A page whose slots are all pending frees is released
//! without being read. A page that another operation has brought to memory is freed with its next
//! slot.
//!
//! At most 1024 pages (or a quarter of what fits the memory) have pending frees, so the file grows
//! by no more than that. A checkpoint [applies them all](BTreeIndex::apply_pending_frees) first:
//! it publishes no pending frees, and a slot that no record names would stay taken after a crash.
//! Whoever applies pending frees holds no latch but that of the shared overflow page. While the
//! disk is full, what cannot be applied stays pending.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow_pages::{Error, Operation, PageId, Pages, Pool, Result, Stop};

use super::{BTreeIndex, DEFERRED_SLOT_FREES, FREED_SLOT_PAGES};
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::page::PageNumber;
use crate::node::shared_overflow::{SlotSet, all_bits};

/// Pages with pending frees before a group of them is applied, at most.
const MOST_PENDING: usize = 1024;

/// Shared overflow pages that are read and changed together, at most.
const TOGETHER: usize = 64;

/// A shared overflow page with the slots that are to be freed.
type SlotFrees = (PageNumber, SlotSet);

/// The pending frees of a tree.
#[derive(Default)]
pub(super) struct PendingFrees {
    pending: Mutex<FreesByPage>,
    /// How many pages have pending frees, to be read without the mutex.
    len: AtomicUsize,
    /// Locked while a group is applied: a thread that finds none pending has waited for it.
    applying: Mutex<()>,
    /// After a failure, so many more pages must have pending frees before the next attempt.
    awaited: AtomicUsize,
}

#[derive(Default)]
struct FreesByPage {
    slot_pages: BTreeMap<PageNumber, SlotSet>,
    /// The pages that were prefetched.
    asked: Vec<PageNumber>,
    /// Where the search for the next group begins.
    next: PageNumber,
}

impl PendingFrees {
    fn pending(&self) -> MutexGuard<'_, FreesByPage> {
        // Each change leaves them whole.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the set of pending frees.
    fn change<R>(&self, change: impl FnOnce(&mut FreesByPage) -> R) -> R {
        let mut pending = self.pending();
        let result = change(&mut pending);
        self.len.store(pending.slot_pages.len(), Ordering::Relaxed);
        result
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The right to apply pending frees.
    fn applying(&self) -> MutexGuard<'_, ()> {
        self.applying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the pending frees of a page: the bits of its slots.
    fn take(&self, slot_page: PageNumber) -> u16 {
        if self.len() == 0 {
            return 0;
        }
        let taken = self.change(|pending| pending.slot_pages.remove(&slot_page));
        taken.map_or(0, |slots| slots.bits)
    }
}

impl FreesByPage {
    /// Adds pending frees of a page. True if all of its slots are pending now; they are then
    /// removed from the set.
    fn add(&mut self, slot_page: PageNumber, slots: SlotSet) -> bool {
        let pending = self.slot_pages.entry(slot_page).or_insert(slots);
        pending.bits |= slots.bits;
        let is_whole = pending.is_whole();
        if is_whole {
            self.slot_pages.remove(&slot_page);
        }
        is_whole
    }

    /// Takes the frees of the prefetched pages, and chooses the pages to prefetch now.
    fn next_group(&mut self, most: usize) -> (Vec<SlotFrees>, Vec<PageId>) {
        let asked = std::mem::take(&mut self.asked);
        let take = |slot_page| {
            self.slot_pages
                .remove(&slot_page)
                .map(|frees| (slot_page, frees))
        };
        let taken = asked.into_iter().filter_map(take).collect();
        let behind = self.slot_pages.range(self.next..).chain(&self.slot_pages);
        let most = most.min(self.slot_pages.len());
        self.asked = behind.map(|(&slot_page, _)| slot_page).take(most).collect();
        self.next = self.asked.last().map_or(0, |&last| last.saturating_add(1));
        (taken, self.asked.iter().copied().map(PageId).collect())
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// How many pages may have pending frees before a group is applied, and how large a group is.
    fn most_pending(&self) -> (usize, usize) {
        let most = (self.pool.limit() / 4).min(MOST_PENDING);
        (most, TOGETHER.min(most / 2).max(1))
    }

    /// Frees the slot of a chain now if its page is in memory; else adds a pending free.
    pub(super) fn free_slot_or_defer<'p>(
        &'p self,
        chain: &Chain,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let (class, bit) = (chain.class, chain.slot_bit());
        let is_at_hand = self.pool.is_resident(PageId(chain.slot_page));
        // So many are left only where the disk is full.
        let is_full = self.pending_frees.len() >= 2 * self.most_pending().0;
        if is_at_hand || is_full || bit & all_bits(class) == 0 {
            let bits = bit | self.pending_frees.take(chain.slot_page);
            let slots = SlotSet {
                bits,
                ..SlotSet::empty(class)
            };
            let freed = self.free_slots(chain.slot_page, slots, operation);
            return match freed {
                Err(Stop::Failed(error)) if !is_corrupt(&error) => {
                    self.defer_again(std::iter::once((chain.slot_page, slots)), operation);
                    Ok(())
                }
                freed => freed,
            };
        }
        self.events.count(DEFERRED_SLOT_FREES);
        let slots = SlotSet {
            bits: bit,
            ..SlotSet::empty(class)
        };
        if self
            .pending_frees
            .change(|pending| pending.add(chain.slot_page, slots))
        {
            self.release_slot_page(class, chain.slot_page, operation)?;
        }
        Ok(())
    }

    /// Applies a group of pending frees if there are many. The caller has no latch, and is in no
    /// operation.
    #[inline(always)]
    pub(super) fn apply_frees_if_many(&self) {
        let len = self.pending_frees.len();
        if len > 0
            && len >= self.most_pending().0 + self.pending_frees.awaited.load(Ordering::Relaxed)
        {
            self.apply_some_frees();
        }
    }

    #[cold]
    fn apply_some_frees(&self) {
        let pool: &Pool<PAGE> = &self.pool;
        // Somebody does it already.
        let Ok(_applying) = self.pending_frees.applying.try_lock() else {
            return;
        };
        let together = self.most_pending().1;
        let (taken, next) = self
            .pending_frees
            .change(|pending| pending.next_group(together));
        pool.prefetch(&next);
        // What fails is pending again.
        let _ = self.apply_frees(taken);
    }

    /// Applies all pending frees, as a checkpoint needs: it publishes the slots as taken otherwise.
    /// Reads their pages, 64 at a time. It must not be called within an operation.
    ///
    /// # Errors
    ///
    /// Why some were not applied, as the disk is full: they stay pending, and a checkpoint now
    /// would publish their slots as taken for good. Pages that cannot be read, or are damaged, stay
    /// as they are without an error.
    pub fn apply_pending_frees(&self) -> std::result::Result<(), Error> {
        let _applying = self.pending_frees.applying();
        if self.pending_frees.len() == 0 {
            return Ok(());
        }
        let bits_of_page = self.pending_frees.change(|pending| {
            pending.asked.clear();
            std::mem::take(&mut pending.slot_pages)
        });
        self.apply_frees(bits_of_page.into_iter().collect())
    }

    /// Frees slots that a removal collected. It must not be called within an operation.
    ///
    /// # Errors
    ///
    /// Why some were not freed: they are pending.
    pub(super) fn apply_collected_frees(
        &self,
        frees: Vec<SlotFrees>,
    ) -> std::result::Result<(), Error> {
        let _applying = self.pending_frees.applying();
        self.apply_frees(frees)
    }

    /// Frees slots, a group of pages at a time. The caller has the right to apply.
    fn apply_frees(&self, bits_of_page: Vec<SlotFrees>) -> std::result::Result<(), Error> {
        let pool: &Pool<PAGE> = &self.pool;
        let mut unread = Vec::new();
        let mut rest = bits_of_page.into_iter().peekable();
        while rest.peek().is_some() {
            let group: Vec<SlotFrees> = rest.by_ref().take(self.most_pending().1).collect();
            let slot_pages: Vec<PageId> = group
                .iter()
                .map(|&(slot_page, _)| PageId(slot_page))
                .collect();
            pool.load_many(&slot_pages);
            let mut group = group.into_iter();
            while let Some(frees) = group.next() {
                match self.apply_one_free(frees.0, frees.1) {
                    Err(Stop::Failed(error)) if is_unread(&error) => unread.push(frees),
                    // The shared overflow page stays as it is, and with it what it names.
                    Err(Stop::Failed(error)) if is_corrupt(&error) => {}
                    Err(Stop::Failed(error)) => {
                        let left = std::iter::once(frees).chain(group).chain(rest);
                        let awaited = &self.pending_frees.awaited;
                        let more = awaited.load(Ordering::Relaxed) + TOGETHER;
                        awaited.store(more.min(MOST_PENDING), Ordering::Relaxed);
                        self.defer_again(left.chain(unread), &pool.begin());
                        return Err(*error);
                    }
                    _ => {}
                }
            }
        }
        self.pending_frees.awaited.store(0, Ordering::Relaxed);
        if !unread.is_empty() {
            self.defer_again(unread.into_iter(), &pool.begin());
        }
        Ok(())
    }

    fn apply_one_free(&self, slot_page: PageNumber, slots: SlotSet) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let operation = pool.begin();
        // Others, who keep pages clean for those who read, go before it.
        pool.enforce_dirty_limit(&pool.exclusive(PageId(slot_page))?)?;
        self.events.count(FREED_SLOT_PAGES);
        self.free_slots(slot_page, slots, &operation)
    }

    /// Makes what could not be freed pending again.
    #[cold]
    fn defer_again<'p>(&'p self, left: impl Iterator<Item = SlotFrees>, operation: &Operation<'p>) {
        let whole: Vec<SlotFrees> = self.pending_frees.change(|pending| {
            left.filter(|&(slot_page, slots)| pending.add(slot_page, slots))
                .collect()
        });
        for (slot_page, slots) in whole {
            let _ = self.release_slot_page(slots.class.into(), slot_page, operation);
        }
    }
}

/// Whether a page is not to be had at any later time either.
fn is_corrupt(error: &Error) -> bool {
    matches!(error, Error::CorruptPage { .. })
}

/// Whether a page could not be read this time.
fn is_unread(error: &Error) -> bool {
    matches!(error, Error::PageRead { .. })
}
