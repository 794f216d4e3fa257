//! All pages in memory, for one thread: a page number is an offset, a guard is a page number, and
//! nothing waits, restarts or fails but for want of memory.

use hedgerow_memory::Mapping;

use crate::provider::{PageId, Pages};
use crate::restart::{Error, Restart, Result};
use crate::view::Image;

/// Address space that is asked for, until the kernel gives that much: 1 TiB, then half, …
const MOST_BYTES: usize = 1 << 40;
const LEAST_BYTES: usize = 64 << 20;

/// Pages in memory, for one thread at a time.
///
/// Memory grows with the pages that were ever in use at once and returns to the kernel when the
/// provider is dropped.
#[derive(Debug)]
pub struct Resident<const PAGE: usize> {
    memory: Mapping,
    /// Pages handed out at least once: those below are valid offsets.
    used: u32,
    free: Vec<PageId>,
}

/// A page of a [`Resident`] that nobody gave back, as far as its owner knows.
#[derive(Clone, Copy, Debug)]
pub struct ResidentPage(PageId);

impl<const PAGE: usize> Resident<PAGE> {
    /// No pages yet.
    ///
    /// # Errors
    ///
    /// [`Error::AddressSpace`] when the process may not reserve as little as 64 MiB.
    pub fn new() -> std::result::Result<Self, Error> {
        const { assert!(PAGE >= 256 && PAGE <= 65536 && PAGE.is_power_of_two()) };
        let mut bytes = MOST_BYTES;
        loop {
            match Mapping::reserve(bytes, true) {
                Ok(memory) => {
                    return Ok(Self {
                        memory,
                        used: 0,
                        free: Vec::new(),
                    });
                }
                Err(source) if bytes == LEAST_BYTES => {
                    let bytes = bytes as u64;
                    return Err(Error::AddressSpace { bytes, source });
                }
                Err(_) => bytes /= 2,
            }
        }
    }

    fn room(&self) -> u32 {
        u32::try_from(self.memory.size_bytes() / PAGE).unwrap_or(u32::MAX)
    }

    #[inline(always)]
    fn place(&self, page: PageId) -> *mut Image<PAGE> {
        assert!(page.0 < self.used, "a page that was never allocated");
        // SAFETY: pages below `used` lie within the mapping (`allocate`).
        unsafe { self.memory.start().as_ptr().add(page.0 as usize * PAGE) }.cast()
    }

    #[inline(always)]
    fn page(&self, page: PageId) -> &Image<PAGE> {
        // SAFETY: `place` is a page of the mapping, which is aligned to 4096 and so its pages to
        // 64 at least; any bytes are an image. `self` is borrowed, so no `page_mut` lives.
        unsafe { &*self.place(page) }
    }

    #[inline(always)]
    fn page_mut(&mut self, page: PageId) -> &mut Image<PAGE> {
        // SAFETY: as above, and `self` is borrowed mutably, so no other reference lives.
        unsafe { &mut *self.place(page) }
    }
}

impl<const PAGE: usize> Pages<PAGE> for Resident<PAGE> {
    type Operation = ();
    type Optimistic = ResidentPage;
    type Shared = ResidentPage;
    type Exclusive = ResidentPage;
    type Seen<'a> = &'a Image<PAGE>;
    type Change<'a> = &'a mut Image<PAGE>;

    #[inline(always)]
    fn begin(&self) {}

    fn allocate(&mut self, (): &()) -> Result<ResidentPage> {
        if let Some(page) = self.free.pop() {
            return Ok(ResidentPage(page));
        }
        if self.used == self.room() {
            let pages = u64::from(self.used);
            return Err(Error::OutOfPages { pages }.into());
        }
        self.used += 1;
        Ok(ResidentPage(PageId(self.used - 1)))
    }

    fn release(&mut self, page: ResidentPage, (): &()) -> Result<()> {
        self.free.push(page.0);
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
    fn prefetch(&self, _: &[PageId]) {}

    #[inline(always)]
    fn load_many(&self, _: &[PageId]) {}

    fn live(&self) -> usize {
        self.used as usize - self.free.len()
    }

    fn held_bytes(&self) -> usize {
        self.used as usize * PAGE
    }
}
