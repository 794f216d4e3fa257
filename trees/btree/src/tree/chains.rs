//! Overflow pages of the pool, under the latch of the leaf that names them.
//!
//! The bytes of a value never change. A writer writes them before a record names them, and releases
//! them after no record does, and it has the leaf's exclusive latch in both cases. So a thread with
//! any latch of the leaf can follow the record page by page.
//!
//! Records of other leaves have slots in the same shared overflow page. So a thread latches that
//! page while it reads, fills or frees a slot, and waits for nothing else meanwhile. A page that is
//! only believed to have free slots may have become any other page. So a writer that wants to fill
//! a slot does not wait for the page: it takes the page if no other thread has it latched.

use hedgerow_pages::{ExclusiveLatch, Operation, PageId, Pages, Pool, Result, Stop};

use super::{BTreeIndex, image};
use crate::configuration::Configuration;
use crate::node::chain::{Chain, NewRecord};
use crate::node::key::CutKey;
use crate::node::layout::Payload;
use crate::node::overflow::{self, ReadOverflow, WriteOverflow};
use crate::node::page::PageNumber;
use crate::node::page::{Image, node};
use crate::node::shared_overflow::{self, KnownFreeSlots, SlotSet};

/// The pool of a tree, to be read.
struct Shared<'t, C, const PAGE: usize>(&'t BTreeIndex<C, PAGE>);

/// The pool of a tree, to be changed within an operation.
struct Within<'t, 'o, C, const PAGE: usize> {
    tree: &'t BTreeIndex<C, PAGE>,
    operation: &'o Operation<'t>,
}

impl<C: Configuration, const PAGE: usize> ReadOverflow<PAGE> for Shared<'_, C, PAGE> {
    type Error = Stop;

    fn read_page<R>(&self, page: PageNumber, read: impl FnOnce(&Image<PAGE>) -> R) -> Result<R> {
        let (pool, id): (&Pool<PAGE>, _) = (&self.0.pool, PageId(page));
        let latch = self.0.of_chain(id, pool.shared(id))?;
        // Of few records, where a leaf is of a hundred.
        pool.demote(id);
        Ok(read(node(latch.image())))
    }

    fn damaged(&self, page: PageNumber, what: &str) -> Stop {
        self.0.damaged(PageId(page), what)
    }
}

impl<C: Configuration, const PAGE: usize> ReadOverflow<PAGE> for Within<'_, '_, C, PAGE> {
    type Error = Stop;

    fn read_page<R>(&self, page: PageNumber, read: impl FnOnce(&Image<PAGE>) -> R) -> Result<R> {
        Shared(self.tree).read_page(page, read)
    }

    fn damaged(&self, page: PageNumber, what: &str) -> Stop {
        Shared(self.tree).damaged(page, what)
    }
}

impl<'t, C: Configuration, const PAGE: usize> WriteOverflow<PAGE> for Within<'t, '_, C, PAGE> {
    fn tree(&self) -> PageNumber {
        self.tree.root.0
    }

    fn add(&mut self, image: &Image<PAGE>) -> Result<PageNumber> {
        let mut pool: &'t Pool<PAGE> = &self.tree.pool;
        let mut latch = pool.allocate(self.operation)?;
        self.tree.store(&mut latch, image);
        let id = pool.id(&latch);
        pool.demote(id);
        Ok(id.0)
    }

    fn release(&mut self, page: PageNumber) -> Result<()> {
        let (pool, id): (&'t Pool<PAGE>, _) = (&self.tree.pool, PageId(page));
        let released = pool.release_by_id(id, self.operation);
        self.tree.of_chain(id, released)
    }

    fn fill(&mut self, slot_page: PageNumber, class: usize, bytes: &[u8]) -> Result<Option<usize>> {
        let mut pool: &'t Pool<PAGE> = &self.tree.pool;
        if !pool.is_resident(PageId(slot_page)) {
            self.tree.load_with_free_slots(class, slot_page);
        }
        // What cannot be read or changed is no room, and somebody else's error.
        let Ok(Some(mut latch)) = pool.try_exclusive(PageId(slot_page)) else {
            return Ok(None);
        };
        if !shared_overflow::is_shared_overflow(image(&latch), class, self.tree.root.0) {
            return Ok(None);
        }
        let Ok(mut page) = Pages::change(&mut pool, &mut latch, self.operation) else {
            return Ok(None);
        };
        Ok(shared_overflow::fill(&mut page, class, bytes))
    }

    fn free_slots(&mut self, slot_page: PageNumber, bits: u16) -> Result<bool> {
        let mut pool: &'t Pool<PAGE> = &self.tree.pool;
        let id = PageId(slot_page);
        let mut latch: ExclusiveLatch<'t, PAGE> = self.tree.of_chain(id, pool.exclusive(id))?;
        let page = image(&latch);
        let is_taken = bits != 0 && shared_overflow::taken_bits(page) & bits == bits;
        if !is_taken || !shared_overflow::is_shared_overflow(page, page.counter(), self.tree()) {
            return Err(self.damaged(
                slot_page,
                "is to be a shared overflow page of long values, but is not",
            ));
        }
        let is_last = page.count() == bits.count_ones() as usize;
        if is_last {
            pool.release(latch, self.operation)?;
        } else {
            // A slot that stayed taken would stay so for good.
            let _reserve_use = pool.allow_reserve_use();
            shared_overflow::free_slots(
                &mut Pages::change(&mut pool, &mut latch, self.operation)?,
                bits,
            );
            // Nobody need have read it before.
            pool.demote(id);
        }
        Ok(is_last)
    }

    fn known_slots<R>(&mut self, what: impl FnOnce(&mut KnownFreeSlots) -> R) -> R {
        what(&mut self.tree.known_slots())
    }
}

/// Shared overflow pages with free slots that are read together, at most.
const READ_TOGETHER: usize = 64;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Reads a shared overflow page that is to be filled, and with it those that will be filled
    /// after it.
    #[cold]
    fn load_with_free_slots(&self, class: usize, slot_page: PageNumber) {
        let pool: &Pool<PAGE> = &self.pool;
        let most = READ_TOGETHER.min(pool.limit() / 8);
        let mut slot_pages = vec![PageId(slot_page)];
        let others = most.saturating_sub(1);
        slot_pages.extend(
            self.known_slots()
                .next(class)
                .take(others)
                .copied()
                .map(PageId),
        );
        if slot_pages.len() > 1 {
            pool.load_many(&slot_pages);
        }
    }

    /// The first bytes, `most` at most, of what a record names.
    pub(super) fn load_chain(&self, payload: Payload<'_>, most: usize) -> Result<Vec<u8>> {
        overflow::load(&Shared(self), payload, most)
    }

    /// Appends all of what a record names.
    #[inline]
    pub(super) fn append_chain(
        &self,
        chain: &Chain,
        payload: Payload<'_>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        overflow::append(&Shared(self), chain, payload, usize::MAX, bytes)
    }

    /// What came of latching a page of a chain, which nobody can have released.
    fn of_chain<T>(&self, id: PageId, latch: Result<T>) -> Result<T> {
        match latch {
            Err(Stop::Restart) => Err(self.damaged(id, "is of a long value, but not in use")),
            other => other,
        }
    }

    /// Writes the rest of a key and a value to overflow pages and returns the record that names
    /// them. Leaves nothing behind when it fails.
    pub(super) fn store_chain<'p>(
        &'p self,
        chain: Chain,
        cut: CutKey<'_>,
        value: &[u8],
        operation: &Operation<'p>,
    ) -> Result<NewRecord> {
        let mut within = self.within(operation);
        overflow::store(&mut within, chain, cut, value)
    }

    fn within<'p, 'o>(&'p self, operation: &'o Operation<'p>) -> Within<'p, 'o, C, PAGE> {
        Within {
            tree: self,
            operation,
        }
    }

    /// Gives back what a record named that is gone; its slot of a shared overflow page [maybe
    /// later](super::pending_frees).
    pub(super) fn release_chain<'p>(
        &'p self,
        chain: &Chain,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let freed = match chain.class {
            0 => Ok(()),
            _ => self.free_slot_or_defer(chain, operation),
        };
        freed.and(self.release_pages(chain, operation))
    }

    /// As [`release_chain`](Self::release_chain), but not the slot of a shared overflow page.
    pub(super) fn release_pages<'p>(
        &'p self,
        chain: &Chain,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut within = self.within(operation);
        overflow::release_pages(&mut within, chain)
    }

    /// Gives a shared overflow page back without looking at it, of which nobody names a slot any
    /// more.
    pub(super) fn release_slot_page<'p>(
        &'p self,
        class: usize,
        slot_page: PageNumber,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut within = self.within(operation);
        within.release(slot_page)?;
        self.known_slots().forget(class, slot_page);
        Ok(())
    }

    /// Makes slots of a shared overflow page free.
    pub(super) fn free_slots<'p>(
        &'p self,
        slot_page: PageNumber,
        slots: SlotSet,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut within = self.within(operation);
        overflow::free_slots(&mut within, slots.class.into(), slot_page, slots.bits)
    }
}
