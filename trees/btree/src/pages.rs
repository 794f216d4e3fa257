//! Where the pages of one writer's tree live.
//!
//! A tree names pages by number and asks a [`Pages`] for their bytes. [`Resident`] keeps all of
//! them in memory. A pool, whose pages may be missing, changing or unreadable, has another trait
//! (that of `hedgerow-pages`), and another tree on it: [`BTreeIndex`](crate::BTreeIndex).

use std::convert::Infallible;
use std::ops::Deref;

use hedgerow_pages::{PageId, Resident};

use crate::overflow::{ReadOverflow, WriteOverflow};
use crate::page::{Image, node, node_mut};
use crate::shared_overflow::{self, KnownFreeSlots};

/// The number of a page.
pub type PageNumber = u32;

/// A provider of pages to one writer.
pub trait Pages<const PAGE: usize>: Default {
    /// A page of unspecified content.
    fn allocate(&mut self) -> PageNumber;
    /// Gives back a page that nothing refers to any more.
    fn release(&mut self, page: PageNumber);
    /// The bytes of a live page.
    fn page(&self, page: PageNumber) -> &Image<PAGE>;
    /// The bytes of a live page, to be changed.
    fn page_mut(&mut self, page: PageNumber) -> &mut Image<PAGE>;
    /// How many pages are live.
    fn live(&self) -> usize;
    /// Bytes held, live or not.
    fn held_bytes(&self) -> usize;
}

/// Pages to be looked at, of a tree that has them for itself or of one that shares them.
pub(crate) trait ReadPages<const PAGE: usize> {
    /// A page that is looked at.
    type Page<'a>: Deref<Target = Image<PAGE>>
    where
        Self: 'a;
    /// A page, or why it cannot be read.
    fn read(&self, page: PageNumber) -> Result<Self::Page<'_>, String>;
}

/// The pages of one writer.
pub(crate) struct Owned<'p, P>(pub &'p P);

impl<const PAGE: usize, P: Pages<PAGE>> ReadPages<PAGE> for Owned<'_, P> {
    type Page<'a>
        = &'a Image<PAGE>
    where
        Self: 'a;

    fn read(&self, page: PageNumber) -> Result<&Image<PAGE>, String> {
        Ok(self.0.page(page))
    }
}

impl<const PAGE: usize, P: Pages<PAGE>> ReadOverflow<PAGE> for Owned<'_, P> {
    type Error = Infallible;

    fn read_page<R>(
        &self,
        page: PageNumber,
        read: impl FnOnce(&Image<PAGE>) -> R,
    ) -> Result<R, Infallible> {
        Ok(read(self.0.page(page)))
    }

    fn damaged(&self, page: PageNumber, what: &str) -> Infallible {
        unreachable!("page {page} {what}, though nobody else changes it")
    }
}

/// The pages of one writer's tree, and the shared overflow pages that it knows.
pub(crate) struct OwnedOverflow<'t, P> {
    pub pages: &'t mut P,
    pub known_slots: &'t mut KnownFreeSlots,
    pub tree: PageNumber,
}

impl<const PAGE: usize, P: Pages<PAGE>> ReadOverflow<PAGE> for OwnedOverflow<'_, P> {
    type Error = Infallible;

    fn read_page<R>(
        &self,
        page: PageNumber,
        read: impl FnOnce(&Image<PAGE>) -> R,
    ) -> Result<R, Infallible> {
        Owned(&*self.pages).read_page(page, read)
    }

    fn damaged(&self, page: PageNumber, what: &str) -> Infallible {
        ReadOverflow::<PAGE>::damaged(&Owned(&*self.pages), page, what)
    }
}

impl<const PAGE: usize, P: Pages<PAGE>> WriteOverflow<PAGE> for OwnedOverflow<'_, P> {
    fn tree(&self) -> PageNumber {
        self.tree
    }

    fn add(&mut self, image: &Image<PAGE>) -> Result<PageNumber, Infallible> {
        let page = self.pages.allocate();
        self.pages.page_mut(page).clone_from(image);
        Ok(page)
    }

    fn release(&mut self, page: PageNumber) -> Result<(), Infallible> {
        self.pages.release(page);
        Ok(())
    }

    fn fill(
        &mut self,
        slot_page: PageNumber,
        class: usize,
        bytes: &[u8],
    ) -> Result<Option<usize>, Infallible> {
        Ok(shared_overflow::fill(
            self.pages.page_mut(slot_page),
            class,
            bytes,
        ))
    }

    fn free_slots(&mut self, slot_page: PageNumber, bits: u16) -> Result<bool, Infallible> {
        let page = self.pages.page_mut(slot_page);
        shared_overflow::free_slots(page, bits);
        let is_empty = page.count() == 0;
        if is_empty {
            self.pages.release(slot_page);
        }
        Ok(is_empty)
    }

    fn known_slots<R>(&mut self, what: impl FnOnce(&mut KnownFreeSlots) -> R) -> R {
        what(self.known_slots)
    }
}

impl<const PAGE: usize> Pages<PAGE> for Resident<PAGE> {
    #[inline]
    fn allocate(&mut self) -> PageNumber {
        self.take().0
    }

    #[inline]
    fn release(&mut self, page: PageNumber) {
        self.give(PageId(page));
    }

    #[inline(always)]
    fn page(&self, page: PageNumber) -> &Image<PAGE> {
        node(Resident::page(self, PageId(page)))
    }

    #[inline(always)]
    fn page_mut(&mut self, page: PageNumber) -> &mut Image<PAGE> {
        node_mut(Resident::page_mut(self, PageId(page)))
    }

    fn live(&self) -> usize {
        hedgerow_pages::Pages::live(self)
    }

    fn held_bytes(&self) -> usize {
        hedgerow_pages::Pages::held_bytes(self)
    }
}
