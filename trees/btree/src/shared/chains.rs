//! Overflow pages of the shared tree, under the latch of the leaf that names them.
//!
//! Nobody changes the bytes of a value: they are written before a record names them and given back
//! after none does, and both happen with the leaf's exclusive latch. So whoever has any latch of
//! the leaf can follow the record page by page. A rack is shared with records of other leaves: it
//! has a latch for the moment in which a slot is read, filled or vacated, and whoever has that waits
//! for nothing else. A rack to be filled was met before and may be any page by now; so it is not
//! waited for, but taken if nobody has it.

use hedgerow_pages::{ExclusiveLatch, Operation, PageId, Pages, Pool, Result, Stop};

use super::{BTreeIndex, image};
use crate::chain::{Chain, Made};
use crate::configuration::Configuration;
use crate::overflow::{self, Keep, Look};
use crate::page::{Image, node};
use crate::pages::PageNumber;
use crate::rack::{self, Racks};
use crate::slotted::Payload;
use crate::tree::Cut;

/// The pool of a tree, to be read.
struct Shared<'t, C, const PAGE: usize>(&'t BTreeIndex<C, PAGE>);

/// The pool of a tree, to be changed within an operation.
struct Within<'t, 'o, C, const PAGE: usize> {
    tree: &'t BTreeIndex<C, PAGE>,
    operation: &'o Operation<'t>,
}

impl<C: Configuration, const PAGE: usize> Look<PAGE> for Shared<'_, C, PAGE> {
    type Error = Stop;

    fn look<R>(&self, page: PageNumber, look: impl FnOnce(&Image<PAGE>) -> R) -> Result<R> {
        let (pool, id): (&Pool<PAGE>, _) = (&self.0.pool, PageId(page));
        let latch = self.0.of_chain(id, pool.shared(id))?;
        // Of few records, where a leaf is of a hundred.
        pool.demote(id);
        Ok(look(node(latch.image())))
    }

    fn damaged(&self, page: PageNumber, what: &str) -> Stop {
        self.0.damaged(PageId(page), what)
    }
}

impl<C: Configuration, const PAGE: usize> Look<PAGE> for Within<'_, '_, C, PAGE> {
    type Error = Stop;

    fn look<R>(&self, page: PageNumber, look: impl FnOnce(&Image<PAGE>) -> R) -> Result<R> {
        Shared(self.tree).look(page, look)
    }

    fn damaged(&self, page: PageNumber, what: &str) -> Stop {
        Shared(self.tree).damaged(page, what)
    }
}

impl<'t, C: Configuration, const PAGE: usize> Keep<PAGE> for Within<'t, '_, C, PAGE> {
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
        let released = pool.release_unseen(id, self.operation);
        self.tree.of_chain(id, released)
    }

    fn fill(&mut self, rack: PageNumber, class: usize, bytes: &[u8]) -> Result<Option<usize>> {
        let mut pool: &'t Pool<PAGE> = &self.tree.pool;
        if !pool.is_resident(PageId(rack)) {
            self.tree.load_vacant(class, rack);
        }
        // What cannot be read or changed is no room, and somebody else's error.
        let Ok(Some(mut latch)) = pool.try_exclusive(PageId(rack)) else {
            return Ok(None);
        };
        if !rack::is_rack(image(&latch), class, self.tree.root.0) {
            return Ok(None);
        }
        let Ok(mut page) = Pages::change(&mut pool, &mut latch, self.operation) else {
            return Ok(None);
        };
        Ok(rack::fill(&mut page, class, bytes))
    }

    fn vacate(&mut self, rack: PageNumber, bits: u16) -> Result<bool> {
        let mut pool: &'t Pool<PAGE> = &self.tree.pool;
        let id = PageId(rack);
        let mut latch: ExclusiveLatch<'t, PAGE> = self.tree.of_chain(id, pool.exclusive(id))?;
        let page = image(&latch);
        let is_taken = bits != 0 && rack::taken_bits(page) & bits == bits;
        if !is_taken || !rack::is_rack(page, page.counter(), self.tree()) {
            return Err(self.damaged(rack, "is to be a rack of long values, but is not"));
        }
        let is_last = page.count() == bits.count_ones() as usize;
        if is_last {
            pool.release(latch, self.operation)?;
        } else {
            // A slot that stayed taken would stay so for good.
            let _spending = pool.spend_reserve();
            rack::vacate(
                &mut Pages::change(&mut pool, &mut latch, self.operation)?,
                bits,
            );
            // Nobody need have read it before.
            pool.demote(id);
        }
        Ok(is_last)
    }

    fn racks<R>(&mut self, what: impl FnOnce(&mut Racks) -> R) -> R {
        what(&mut self.tree.racks())
    }
}

/// Racks with vacant slots that are read together, at most.
const VACANT_TOGETHER: usize = 64;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Reads a rack that is to be filled, and with it those that will be filled after it.
    #[cold]
    fn load_vacant(&self, class: usize, rack: PageNumber) {
        let pool: &Pool<PAGE> = &self.pool;
        let most = VACANT_TOGETHER.min(pool.limit() / 8);
        let mut racks = vec![PageId(rack)];
        let others = most.saturating_sub(1);
        racks.extend(self.racks().next(class).take(others).copied().map(PageId));
        if racks.len() > 1 {
            pool.load_many(&racks);
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
        cut: Cut<'_>,
        value: &[u8],
        operation: &Operation<'p>,
    ) -> Result<Made> {
        let mut within = self.within(operation);
        overflow::store(&mut within, chain, cut, value)
    }

    fn within<'p, 'o>(&'p self, operation: &'o Operation<'p>) -> Within<'p, 'o, C, PAGE> {
        Within {
            tree: self,
            operation,
        }
    }

    /// Gives back what a record named that is gone; its slot of a rack [maybe later](super::deferred).
    pub(super) fn release_chain<'p>(
        &'p self,
        chain: &Chain,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let vacated = match chain.class {
            0 => Ok(()),
            _ => self.vacate_or_note(chain, operation),
        };
        vacated.and(self.release_pages(chain, operation))
    }

    /// As [`release_chain`](Self::release_chain), but not the slot of a rack.
    pub(super) fn release_pages<'p>(
        &'p self,
        chain: &Chain,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut within = self.within(operation);
        overflow::release_pages(&mut within, chain)
    }

    /// Gives a rack back without looking at it, of which nobody names a slot any more.
    pub(super) fn release_rack<'p>(
        &'p self,
        class: usize,
        rack: PageNumber,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut within = self.within(operation);
        within.release(rack)?;
        self.racks().forget(class, rack);
        Ok(())
    }

    /// Makes slots of a rack vacant.
    pub(super) fn vacate<'p>(
        &'p self,
        class: usize,
        (rack, bits): (PageNumber, u16),
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut within = self.within(operation);
        overflow::vacate(&mut within, class, rack, bits)
    }
}
