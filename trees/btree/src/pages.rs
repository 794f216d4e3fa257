//! Where the pages of one writer's tree live.
//!
//! A tree names pages by number and asks a [`Pages`] for their bytes. [`Resident`] keeps all of
//! them in memory. A pool, whose pages may be missing, changing or unreadable, has another trait
//! (that of `hedgerow-pages`), and another tree on it: [`BTreeIndex`](crate::BTreeIndex).

use std::ops::Deref;

use crate::page::Image;

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

/// Pages per block of memory. Blocks never move, and their table is small enough to stay in the
/// first-level cache for gigabytes of pages.
const BLOCK: usize = 256;

/// All pages in memory.
#[derive(Debug, Default)]
pub struct Resident<const PAGE: usize> {
    blocks: Vec<Box<[Image<PAGE>]>>,
    /// Pages handed out at least once.
    used: usize,
    free: Vec<PageNumber>,
}

impl<const PAGE: usize> Pages<PAGE> for Resident<PAGE> {
    fn allocate(&mut self) -> PageNumber {
        if let Some(page) = self.free.pop() {
            return page;
        }
        if self.used == self.blocks.len() * BLOCK {
            self.blocks
                .push(vec![Image::zeroed(); BLOCK].into_boxed_slice());
        }
        let page = PageNumber::try_from(self.used).expect("fewer than 2^32 pages");
        self.used += 1;
        page
    }

    fn release(&mut self, page: PageNumber) {
        self.free.push(page);
    }

    #[inline(always)]
    fn page(&self, page: PageNumber) -> &Image<PAGE> {
        let page = page as usize;
        &self.blocks[page / BLOCK][page % BLOCK]
    }

    #[inline(always)]
    fn page_mut(&mut self, page: PageNumber) -> &mut Image<PAGE> {
        let page = page as usize;
        &mut self.blocks[page / BLOCK][page % BLOCK]
    }

    fn live(&self) -> usize {
        self.used - self.free.len()
    }

    fn held_bytes(&self) -> usize {
        self.blocks.len() * BLOCK * PAGE
    }
}
