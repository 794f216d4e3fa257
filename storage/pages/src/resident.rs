//! All pages in memory, for one thread: a page number is an offset, a guard is a page number, and
//! nothing waits, restarts or fails but for want of numbers.
//!
//! The first pages lie in an ordinary allocation, so that a small tree takes little; from a
//! megabyte on they lie side by side in superpages. Either way a page's place is its number times
//! its size from the start: no table says where each page is, and hardly any address misses the
//! processor's buffer of translations, which with pages of 4 KiB from the standard allocator was
//! a tenth of a lookup's time among a million integers.

use std::fmt;
use std::ptr::NonNull;

use hedgerow_memory::{SUPERPAGE_BYTES, Superpages};

use crate::error::Error;
use crate::page_id::PageId;
use crate::provider::Pages;
use crate::restart::{Restart, Result};
use crate::view::Image;

/// As much memory comes from the standard allocator.
const FEW_BYTES: usize = 1 << 20;

/// Pages in memory, for one thread at a time.
///
/// Memory grows with the pages that were ever in use at once, in steps of twice as much; of a run
/// of superpages only those are taken from the system that were written. It is given back when the
/// provider is dropped.
pub struct Resident<const PAGE: usize> {
    /// The first page. It is that of `few` or of `run`, and dangling if both are empty.
    start: NonNull<Image<PAGE>>,
    /// Pages that there is room for.
    room: u32,
    /// Pages handed out at least once: those below are valid offsets.
    used: u32,
    free: Vec<PageId>,
    /// The memory of a small number of pages; touched through `start` alone.
    few: Vec<Image<PAGE>>,
    /// The memory of more.
    run: Superpages,
}

// SAFETY: it owns the memory that `start` is of, and what is there has no tie to a thread.
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
        }
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

    /// Makes room for more pages, all of which may move.
    #[cold]
    fn grow(&mut self) {
        let used = self.used as usize;
        let room = (2 * used).max(1);
        if room * PAGE <= FEW_BYTES {
            let mut few = Vec::with_capacity(room);
            // SAFETY: this many pages lie at `start`, and nobody has a reference to any.
            few.extend_from_slice(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), used) });
            few.resize_with(room, Image::zeroed);
            self.start = NonNull::new(few.as_mut_ptr()).expect("an allocation");
            self.few = few;
            self.room = room as u32;
            return;
        }
        let superpages = (room * PAGE).div_ceil(SUPERPAGE_BYTES);
        self.run.reserve(superpages);
        let start = self.run.start().cast::<Image<PAGE>>();
        if !self.few.is_empty() {
            // SAFETY: the run is fresh, longer than the few pages, and not where they are. All of
            // it is zeros, so images.
            unsafe { start.copy_from_nonoverlapping(self.start, used) };
            self.few = Vec::new();
        }
        self.start = start;
        let room = self.run.count() * (SUPERPAGE_BYTES / PAGE);
        self.room = u32::try_from(room).unwrap_or(u32::MAX);
        assert!(self.room > self.used, "all page numbers are in use");
    }

    #[inline(always)]
    fn place(&self, page: PageId) -> NonNull<Image<PAGE>> {
        assert!(page.0 < self.used, "a page that was never allocated");
        // SAFETY: pages below `used`, which is at most `room`, lie in the memory at `start`.
        unsafe { self.start.add(page.0 as usize) }
    }

    /// The bytes of a page.
    ///
    /// # Panics
    ///
    /// With a number that was never given out.
    #[inline(always)]
    #[must_use]
    pub fn page(&self, page: PageId) -> &Image<PAGE> {
        // SAFETY: `place` is a page of our memory, aligned to 64 bytes at least; any bytes are an
        // image. `self` is borrowed, so no `page_mut` lives, and pages do not move.
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
        if self.used == u32::MAX && self.free.is_empty() {
            let pages = u64::from(self.used);
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
        self.used as usize - self.free.len()
    }

    fn resident_bytes(&self) -> usize {
        self.few.len().max(self.used as usize) * PAGE
    }
}
