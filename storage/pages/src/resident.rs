//! All pages in memory, for one thread: a page number is an offset, a guard is a page number, and
//! nothing waits, restarts or fails but for want of numbers.
//!
//! The first pages lie in an ordinary allocation, so that a small tree takes little; from a
//! megabyte on they lie side by side in superpages. Either way a page's place is its number times
//! its size from the start: no table says where each page is, and hardly any address misses
//! the processor's buffer of translations, which with pages of 4 KiB from the standard allocator
//! was a tenth of a lookup's time among a million integers.
//!
//! To compare, pages can be told to lie elsewhere ([`Placement`]): each in a block of its own, with
//! a table of them.

use std::fmt;
use std::ptr::NonNull;

use hedgerow_memory::{BlockPool, Placement, Superpages};

use crate::error::Error;
use crate::page_id::PageId;
use crate::provider::Pages;
use crate::restart::{Restart, Result};
use crate::view::Image;

/// As much memory comes from the standard allocator.
const FEW_BYTES: usize = 1 << 20;

/// Pages in memory, for one thread at a time.
///
/// Memory grows with the pages that were ever in use at once: up to a megabyte in steps of twice as
/// much, then in those of [`Superpages::extend`] (or one by one, where each is told to lie in a
/// block of its own). It is given back when the provider is dropped.
pub struct Resident<const PAGE: usize> {
    /// The first page. It is that of `few` or of `run`, and dangling if both are empty.
    start: NonNull<Line>,
    /// Pages that there is room for.
    room: u32,
    /// Pages handed out at least once: those below are valid offsets.
    used: u32,
    free: Vec<PageId>,
    /// The memory of a small number of pages; touched through `start` alone.
    few: Vec<Line>,
    /// The memory of more.
    run: Superpages,
    /// Where each page is, if they are not side by side; `used` is 0 then.
    apart: Option<PagesApart<PAGE>>,
}

/// Pages in blocks of their own.
struct PagesApart<const PAGE: usize> {
    blocks: BlockPool,
    /// By number.
    places: Vec<NonNull<Image<PAGE>>>,
}

impl<const PAGE: usize> PagesApart<PAGE> {
    /// A page of zeros in a block of its own.
    fn add(&mut self) -> PageId {
        let number = u32::try_from(self.places.len()).ok();
        let number = number.filter(|&number| number < u32::MAX);
        let page = PageId(number.expect("all page numbers are in use"));
        let place = self.blocks.allocate().cast::<Image<PAGE>>();
        // SAFETY: the block is new, has as many bytes as an image, and is aligned to 64, since
        // that is a multiple of 64.
        unsafe { place.write_bytes(0, 1) };
        self.places.push(place);
        page
    }
}

impl<const PAGE: usize> Drop for PagesApart<PAGE> {
    fn drop(&mut self) {
        for place in &self.places {
            // SAFETY: `take` allocated it there, and no reference outlives the provider.
            unsafe { self.blocks.release(place.cast()) };
        }
    }
}

/// A line of the caches.
type Line = Image<64>;

// SAFETY: it owns the memory that `start` is of and the blocks of pages that lie apart, and what is
// there has no tie to a thread.
unsafe impl<const PAGE: usize> Send for Resident<PAGE> {}
// SAFETY: through a shared reference pages are only read, and nothing else is changed.
unsafe impl<const PAGE: usize> Sync for Resident<PAGE> {}

/// A page of a [`Resident`] that nobody gave back, as far as its owner knows.
#[derive(Clone, Copy, Debug)]
pub struct ResidentPage(PageId);

impl<const PAGE: usize> fmt::Debug for Resident<PAGE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resident")
            .field("room", &self.room)
            .field("used", &self.used)
            .field("free", &self.free.len())
            .finish_non_exhaustive()
    }
}

impl<const PAGE: usize> Default for Resident<PAGE> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const PAGE: usize> Resident<PAGE> {
    /// No pages yet, and no memory.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(PAGE >= 256 && PAGE <= 65536 && PAGE.is_power_of_two()) };
        Self {
            start: NonNull::dangling(),
            room: 0,
            used: 0,
            free: Vec::new(),
            few: Vec::new(),
            run: Superpages::new(),
            apart: None,
        }
    }

    /// No pages yet, of which each will lie there. Segregated ones are those of
    /// [`new`](Self::new), side by side in memory of the provider's own; others cost a table, in
    /// which each access looks its page up.
    #[must_use]
    pub fn with_placement(placement: Placement) -> Self {
        let mut resident = Self::new();
        if placement != Placement::Segregated {
            resident.apart = Some(PagesApart {
                blocks: BlockPool::new("page", PAGE, placement),
                places: Vec::new(),
            });
        }
        resident
    }

    /// Where its pages lie.
    #[must_use]
    pub fn placement(&self) -> Placement {
        let apart = self.apart.as_ref();
        apart.map_or(Placement::Segregated, |apart| apart.blocks.placement())
    }

    /// A number that is not in use; what is in its page is garbage. Amortized, the time of a push
    /// to a vector of pages.
    ///
    /// # Panics
    ///
    /// When all 2³² numbers are in use. Without memory the process ends, as with any collection.
    #[inline]
    pub fn take(&mut self) -> PageId {
        if let Some(page) = self.free.pop() {
            return page;
        }
        if let Some(apart) = &mut self.apart {
            return apart.add();
        }
        if self.used == self.room {
            self.grow();
        }
        self.used += 1;
        PageId(self.used - 1)
    }

    /// Gives a number back.
    #[inline]
    pub fn give(&mut self, page: PageId) {
        self.free.push(page);
    }

    /// Numbers that were handed out at least once.
    fn count(&self) -> usize {
        let apart = self.apart.as_ref().map_or(0, |apart| apart.places.len());
        self.used as usize + apart
    }

    /// Makes room for more pages, all of which may move.
    #[cold]
    fn grow(&mut self) {
        let used = self.used as usize;
        let room = (2 * used).max(1);
        let used_lines = used * PAGE / 64;
        if room * PAGE <= FEW_BYTES {
            let lines = room * PAGE / 64;
            let mut few = Vec::with_capacity(lines);
            // SAFETY: the lines of this many pages lie at `start`, and nobody has a reference to
            // any.
            let before = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), used_lines) };
            few.extend_from_slice(before);
            few.resize_with(lines, Line::zeroed);
            self.start = NonNull::new(few.as_mut_ptr()).expect("an allocation");
            self.few = few;
            self.room = room as u32;
            return;
        }
        self.run.extend((used + 1) * PAGE);
        let start = self.run.start().cast::<Line>();
        if !self.few.is_empty() {
            // SAFETY: the run is fresh, longer than the few pages, and not where they are. All of
            // it is zeros, so images.
            unsafe { start.copy_from_nonoverlapping(self.start, used_lines) };
            self.few = Vec::new();
        }
        self.start = start;
        let room = self.run.extent() / PAGE;
        self.room = u32::try_from(room).unwrap_or(u32::MAX);
        assert!(self.room > self.used, "all page numbers are in use");
    }

    #[inline(always)]
    fn place(&self, page: PageId) -> NonNull<Image<PAGE>> {
        if page.0 < self.used {
            // SAFETY: pages below `used`, which is at most `room`, lie in the memory at `start`.
            return unsafe { self.start.byte_add(page.0 as usize * PAGE).cast() };
        }
        self.place_apart(page)
    }

    /// Where a page is that is not among those side by side. Such there are only where all pages
    /// are apart, so that usual accesses pay nothing for it.
    #[cold]
    #[inline(never)]
    fn place_apart(&self, page: PageId) -> NonNull<Image<PAGE>> {
        let apart = self.apart.as_ref();
        let place = apart.and_then(|apart| apart.places.get(page.0 as usize));
        *place.expect("a page that was never allocated")
    }

    /// The bytes of a page.
    ///
    /// # Panics
    ///
    /// With a number that was never given out.
    #[inline(always)]
    #[must_use]
    pub fn page(&self, page: PageId) -> &Image<PAGE> {
        // SAFETY: `place` is a page of our memory, aligned to 64 bytes; any bytes are an image.
        // `self` is borrowed, so no `page_mut` lives, and pages do not move.
        unsafe { self.place(page).as_ref() }
    }

    /// The bytes of a page, to be changed.
    ///
    /// # Panics
    ///
    /// With a number that was never given out.
    #[inline(always)]
    pub fn page_mut(&mut self, page: PageId) -> &mut Image<PAGE> {
        // SAFETY: as above, and `self` is borrowed mutably, so no other reference lives.
        unsafe { self.place(page).as_mut() }
    }
}

impl<const PAGE: usize> Pages<PAGE> for Resident<PAGE> {
    const IS_SHARED: bool = false;
    type Operation = ();
    type Optimistic = ResidentPage;
    type Shared = ResidentPage;
    type Exclusive = ResidentPage;
    type Seen<'a> = &'a Image<PAGE>;
    type Change<'a> = &'a mut Image<PAGE>;

    #[inline(always)]
    fn begin(&self) {}

    fn allocate(&mut self, (): &()) -> Result<ResidentPage> {
        let pages = self.count();
        if pages == u32::MAX as usize && self.free.is_empty() {
            let pages = pages as u64;
            return Err(Error::OutOfPages { pages }.into());
        }
        Ok(ResidentPage(self.take()))
    }

    fn release(&mut self, page: ResidentPage, (): &()) -> Result<()> {
        self.give(page.0);
        Ok(())
    }

    #[inline(always)]
    fn id(&self, page: &ResidentPage) -> PageId {
        page.0
    }

    #[inline(always)]
    fn optimistic(&self, id: PageId) -> Result<ResidentPage> {
        Ok(ResidentPage(id))
    }

    #[inline(always)]
    fn seen(&self, page: &ResidentPage) -> &Image<PAGE> {
        self.page(page.0)
    }

    #[inline(always)]
    fn validate(&self, _: &ResidentPage) -> std::result::Result<(), Restart> {
        Ok(())
    }

    #[inline(always)]
    fn shared(&self, id: PageId) -> Result<ResidentPage> {
        Ok(ResidentPage(id))
    }

    #[inline(always)]
    fn exclusive(&self, id: PageId) -> Result<ResidentPage> {
        Ok(ResidentPage(id))
    }

    #[inline(always)]
    fn try_exclusive(&self, id: PageId) -> Result<Option<ResidentPage>> {
        Ok(Some(ResidentPage(id)))
    }

    #[inline(always)]
    fn upgrade(&self, page: &ResidentPage) -> std::result::Result<ResidentPage, Restart> {
        Ok(*page)
    }

    #[inline(always)]
    fn shared_image<'a>(&'a self, page: &'a ResidentPage) -> &'a Image<PAGE> {
        self.page(page.0)
    }

    #[inline(always)]
    fn image<'a>(&'a self, page: &'a ResidentPage) -> &'a Image<PAGE> {
        self.page(page.0)
    }

    #[inline(always)]
    fn change<'a>(
        &'a mut self,
        page: &'a mut ResidentPage,
        (): &(),
    ) -> Result<&'a mut Image<PAGE>> {
        Ok(self.page_mut(page.0))
    }

    #[inline(always)]
    fn touch<'a>(&'a mut self, page: &'a mut ResidentPage) -> &'a mut Image<PAGE> {
        self.page_mut(page.0)
    }

    #[inline(always)]
    fn image_mut<'a>(&'a mut self, page: &'a mut ResidentPage) -> Option<&'a mut Image<PAGE>> {
        Some(self.page_mut(page.0))
    }

    #[inline(always)]
    fn prefetch(&self, _: &[PageId]) {}

    #[inline(always)]
    fn load_many(&self, _: &[PageId]) {}

    fn live(&self) -> usize {
        self.count() - self.free.len()
    }

    fn resident_bytes(&self) -> usize {
        if let Some(apart) = &self.apart {
            return apart.places.len() * apart.blocks.block_bytes();
        }
        (64 * self.few.len()).max(self.used as usize * PAGE)
    }
}
