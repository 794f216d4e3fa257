//! Slots of shared overflow pages that became vacant while their shared overflow pages were not
//! in memory.
//!
//! An overwrite, or a removal, of one long value gives back a slot of a shared overflow page that
//! is anywhere in the file. To read that shared overflow page at once, and alone, is most of what
//! such a change would cost. So the slot is noted, and stays taken until the note is settled: of
//! shared overflow pages that are noted a group at a time is asked for, and when as many more are
//! noted it has come, is changed, and its vacant slots are filled by the values that follow,
//! while it is in memory anyhow. A shared overflow page of which all slots are noted is given
//! back unseen, and one that somebody else brought to memory is settled with the next slot that
//! becomes vacant there.
//!
//! There are never many notes: up to 1024, or a quarter of what fits the memory, so that a file
//! grows by no more than that. Before a checkpoint they are all [settled](BTreeIndex::settle),
//! since what it publishes has no notes: a slot that nobody names would stay taken in what a
//! crash leaves. Who settles has no latch but the shared overflow page's. If the disk is full,
//! what cannot be settled stays noted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow_pages::{Error, Operation, PageId, Pages, Pool, Result, Stop};

use super::{BTreeIndex, NOTED_SLOTS, SETTLED_SLOT_PAGES};
use crate::chain::Chain;
use crate::configuration::Configuration;
use crate::pages::PageNumber;
use crate::shared_overflow::all_bits;

/// Shared overflow pages that are noted before some are settled, at most.
const MOST_NOTED: usize = 1024;

/// Shared overflow pages that are read and changed together, at most.
const TOGETHER: usize = 64;

/// A shared overflow page with the class and the bits of the slots that are to be vacated.
type Note = (PageNumber, (u8, u16));

/// The notes of a tree.
#[derive(Default)]
pub(super) struct Deferred {
    notes: Mutex<Notes>,
    /// How many there are, for a look without the mutex.
    len: AtomicUsize,
    /// Held while notes that were taken are settled: to who finds none there are none then.
    settling: Mutex<()>,
    /// So many more notes are awaited before some are settled again, as that failed.
    awaited: AtomicUsize,
}

#[derive(Default)]
struct Notes {
    slot_pages: BTreeMap<PageNumber, (u8, u16)>,
    /// Those that were asked for.
    asked: Vec<PageNumber>,
    /// Where to look for the next to be asked for.
    next: PageNumber,
}

impl Deferred {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // Each change leaves them whole.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change of the notes.
    fn change<R>(&self, change: impl FnOnce(&mut Notes) -> R) -> R {
        let mut notes = self.notes();
        let result = change(&mut notes);
        self.len.store(notes.slot_pages.len(), Ordering::Relaxed);
        result
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The right to settle.
    fn settling(&self) -> MutexGuard<'_, ()> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is noted of a shared overflow page: its bits.
    fn take(&self, slot_page: PageNumber) -> u16 {
        if self.len() == 0 {
            return 0;
        }
        let taken = self.change(|notes| notes.slot_pages.remove(&slot_page));
        taken.map_or(0, |(_, bits)| bits)
    }
}

impl Notes {
    /// Notes slots of a shared overflow page; true if now all of them are: it is noted no more
    /// then.
    fn add(&mut self, (slot_page, (class, bits)): Note) -> bool {
        let noted = &mut self.slot_pages.entry(slot_page).or_insert((class, 0)).1;
        *noted |= bits;
        let is_whole = *noted == all_bits(class.into());
        if is_whole {
            self.slot_pages.remove(&slot_page);
        }
        is_whole
    }

    /// Takes those that were asked for, and says which others to ask for now.
    fn turn(&mut self, most: usize) -> (Vec<Note>, Vec<PageId>) {
        let asked = std::mem::take(&mut self.asked);
        let take = |slot_page| {
            self.slot_pages
                .remove(&slot_page)
                .map(|note| (slot_page, note))
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
    /// How many shared overflow pages are noted before some are settled, and how many are settled
    /// together.
    fn most_noted(&self) -> (usize, usize) {
        let most = (self.pool.limit() / 4).min(MOST_NOTED);
        (most, TOGETHER.min(most / 2).max(1))
    }

    /// Vacates the slot of a chain now if its shared overflow page is in memory; else notes it.
    pub(super) fn vacate_or_note<'p>(
        &'p self,
        chain: &Chain,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let (class, bit) = (chain.class, chain.slot_bit());
        let is_at_hand = self.pool.is_resident(PageId(chain.slot_page));
        // Where so many could not be settled, the disk is full.
        let is_full = self.deferred.len() >= 2 * self.most_noted().0;
        if is_at_hand || is_full || bit & all_bits(class) == 0 {
            let bits = bit | self.deferred.take(chain.slot_page);
            let vacated = self.vacate(class, (chain.slot_page, bits), operation);
            return match vacated {
                Err(Stop::Failed(error)) if !is_corrupt(&error) => {
                    self.note_again(std::iter::once((chain.slot_page, (class as u8, bits))));
                    Ok(())
                }
                vacated => vacated,
            };
        }
        self.events.count(NOTED_SLOTS);
        let note = (chain.slot_page, (class as u8, bit));
        if self.deferred.change(|notes| notes.add(note)) {
            self.release_slot_page(class, chain.slot_page, operation)?;
        }
        Ok(())
    }

    /// Settles some notes if there are many. The caller has no latch, and is in no operation.
    #[inline(always)]
    pub(super) fn settle_if_many(&self) {
        let len = self.deferred.len();
        if len > 0 && len >= self.most_noted().0 + self.deferred.awaited.load(Ordering::Relaxed) {
            self.settle_some();
        }
    }

    #[cold]
    fn settle_some(&self) {
        let pool: &Pool<PAGE> = &self.pool;
        // Somebody does it already.
        let Ok(_settling) = self.deferred.settling.try_lock() else {
            return;
        };
        let together = self.most_noted().1;
        let (taken, next) = self.deferred.change(|notes| notes.turn(together));
        pool.prefetch(&next);
        // What is left is noted again.
        let _ = self.settle_all(taken);
    }

    /// Makes all slots vacant that became so and could not be made so at once, since their shared
    /// overflow pages were not in memory: for a checkpoint, which publishes a slot as taken that
    /// is only noted. Reads shared overflow pages, 64 at a time. It must not be called within an
    /// operation.
    ///
    /// # Errors
    ///
    /// Why not all were made vacant, as the disk is full: they stay noted, and a checkpoint now
    /// would publish them as taken for good. Shared overflow pages that cannot be read, or are
    /// damaged, stay as they are without an error.
    pub fn settle(&self) -> std::result::Result<(), Error> {
        let _settling = self.deferred.settling();
        if self.deferred.len() == 0 {
            return Ok(());
        }
        let noted = self.deferred.change(|notes| {
            notes.asked.clear();
            std::mem::take(&mut notes.slot_pages)
        });
        self.settle_all(noted.into_iter().collect())
    }

    /// Settles notes, a group at a time. The caller has the right to settle.
    fn settle_all(&self, noted: Vec<Note>) -> std::result::Result<(), Error> {
        let pool: &Pool<PAGE> = &self.pool;
        let mut unread = Vec::new();
        let mut rest = noted.into_iter().peekable();
        while rest.peek().is_some() {
            let group: Vec<Note> = rest.by_ref().take(self.most_noted().1).collect();
            let slot_pages: Vec<PageId> = group
                .iter()
                .map(|&(slot_page, _)| PageId(slot_page))
                .collect();
            pool.load_many(&slot_pages);
            let mut group = group.into_iter();
            while let Some(note) = group.next() {
                match self.settle_one(note) {
                    Err(Stop::Failed(error)) if is_unread(&error) => unread.push(note),
                    // The shared overflow page stays as it is, and with it what it names.
                    Err(Stop::Failed(error)) if is_corrupt(&error) => {}
                    Err(Stop::Failed(error)) => {
                        let left = std::iter::once(note).chain(group).chain(rest);
                        let awaited = &self.deferred.awaited;
                        let more = awaited.load(Ordering::Relaxed) + TOGETHER;
                        awaited.store(more.min(MOST_NOTED), Ordering::Relaxed);
                        self.note_again(left.chain(unread));
                        return Err(*error);
                    }
                    _ => {}
                }
            }
        }
        self.deferred.awaited.store(0, Ordering::Relaxed);
        if !unread.is_empty() {
            self.note_again(unread.into_iter());
        }
        Ok(())
    }

    fn settle_one(&self, (slot_page, (class, bits)): Note) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let operation = pool.begin();
        // Others, who keep pages clean for those who read, go before it.
        pool.afford_change(&pool.exclusive(PageId(slot_page))?)?;
        self.events.count(SETTLED_SLOT_PAGES);
        self.vacate(class.into(), (slot_page, bits), &operation)
    }

    /// Notes again what could not be settled.
    #[cold]
    fn note_again(&self, left: impl Iterator<Item = Note>) {
        let whole: Vec<Note> = self
            .deferred
            .change(|notes| left.filter(|&note| notes.add(note)).collect());
        for (slot_page, (class, _)) in whole {
            let operation = (&&*self.pool).begin();
            let _ = self.release_slot_page(class.into(), slot_page, &operation);
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
