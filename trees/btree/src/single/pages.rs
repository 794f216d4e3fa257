//! The pages of a tree for one writer, all of them in memory.

use std::convert::Infallible;

use hedgerow_memory::Placement;
use hedgerow_pages::{PageId, Pages, Resident};

use crate::node::overflow::{ReadOverflow, WriteOverflow};
use crate::node::page::{Image, PageNumber, node, node_mut};
use crate::node::shared_overflow::{self, KnownFreeSlots};
use crate::tree::walk::ReadPages;

/// Pages as nodes.
#[derive(Debug)]
pub(super) struct OwnedPages<const PAGE: usize>(Resident<PAGE>);

impl<const PAGE: usize> OwnedPages<PAGE> {
    /// No pages yet.
    pub(super) fn new(placement: Placement) -> Self {
        Self(Resident::with_placement(placement))
    }

    /// Where pages lie.
    pub(super) fn placement(&self) -> Placement {
        self.0.placement()
    }

    /// The provider of the pages.
    #[inline]
    pub(super) fn provider(&self) -> &Resident<PAGE> {
        &self.0
    }

    /// The provider of the pages, to change several of them.
    #[inline]
    pub(super) fn provider_mut(&mut self) -> &mut Resident<PAGE> {
        &mut self.0
    }

    #[inline]
    pub(super) fn allocate(&mut self) -> PageNumber {
        self.0.take().0
    }

    #[inline]
    pub(super) fn release(&mut self, page: PageNumber) {
        self.0.give(PageId(page));
    }

    #[inline(always)]
    pub(super) fn page(&self, page: PageNumber) -> &Image<PAGE> {
        node(self.0.page(PageId(page)))
    }

    #[inline(always)]
    pub(super) fn page_mut(&mut self, page: PageNumber) -> &mut Image<PAGE> {
        node_mut(self.0.page_mut(PageId(page)))
    }

    pub(super) fn live(&self) -> usize {
        Pages::live(&self.0)
    }

    pub(super) fn resident_bytes(&self) -> usize {
        Pages::resident_bytes(&self.0)
    }
}

/// The pages of one writer.
pub(super) struct Owned<'p, const PAGE: usize>(pub &'p OwnedPages<PAGE>);

impl<const PAGE: usize> ReadPages<PAGE> for Owned<'_, PAGE> {
    type Page<'a>
        = &'a Image<PAGE>
    where
        Self: 'a;

    fn read(&self, page: PageNumber) -> Result<&Image<PAGE>, String> {
        Ok(self.0.page(page))
    }
}

impl<const PAGE: usize> ReadOverflow<PAGE> for Owned<'_, PAGE> {
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
pub(super) struct OwnedOverflow<'t, const PAGE: usize> {
    pub pages: &'t mut OwnedPages<PAGE>,
    pub known_slots: &'t mut KnownFreeSlots,
    pub tree: PageNumber,
}

impl<const PAGE: usize> ReadOverflow<PAGE> for OwnedOverflow<'_, PAGE> {
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

impl<const PAGE: usize> WriteOverflow<PAGE> for OwnedOverflow<'_, PAGE> {
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
