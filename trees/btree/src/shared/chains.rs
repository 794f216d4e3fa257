//! Chains of overflow pages, under the latch of the leaf that names them.
//!
//! Nobody changes a chain: it is written before a record names it and released after none does,
//! and both happen with the leaf's exclusive latch. So whoever has any latch of the leaf can
//! follow the chain page by page.

use hedgerow_pages::{ExclusiveLatch, Operation, PageId, Pages, Pool, Result, Stop};

use super::{BTreeIndex, image};
use crate::configuration::Configuration;
use crate::overflow::pages_of;
use crate::page::{HEADER, Image, Tag, node};
use crate::tree::Chain;

/// Bytes that are reserved for a chain at once; a longer one grows.
const MOST_RESERVED: usize = 1 << 20;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// The first `len` bytes of a chain.
    pub(super) fn load_chain(&self, chain: Chain, len: usize) -> Result<Vec<u8>> {
        let pool: &Pool<PAGE> = &self.pool;
        let mut bytes = Vec::with_capacity(len.min(MOST_RESERVED));
        let mut id = PageId(chain.first);
        loop {
            let latch = self.of_chain(id, pool.shared(id))?;
            let page = node(latch.image());
            if !page.is(Tag::Overflow) {
                return Err(self.damaged(id, "is to be of a long value, but is not"));
            }
            let some = (len - bytes.len()).min(PAGE - HEADER);
            bytes.extend_from_slice(page.slice(HEADER..HEADER + some));
            if bytes.len() == len {
                return Ok(bytes);
            }
            id = PageId(page.upper_child() as u32);
        }
    }

    /// What came of latching a page of a chain, which nobody can have released.
    fn of_chain<T>(&self, id: PageId, latch: Result<T>) -> Result<T> {
        match latch {
            Err(Stop::Restart) => Err(self.damaged(id, "is of a long value, but not in use")),
            other => other,
        }
    }

    /// Writes the concatenation of `parts` and returns the first page. Leaves nothing behind when
    /// it fails.
    pub(super) fn store_chain(
        &self,
        parts: [&[u8]; 2],
        operation: &Operation<'_>,
    ) -> Result<PageId> {
        let mut written = Vec::new();
        match self.write_chain(parts, operation, &mut written) {
            Ok(()) => Ok(written[0]),
            Err(error) => {
                for id in written {
                    self.release_page(id, operation)?;
                }
                Err(error)
            }
        }
    }

    fn write_chain(
        &self,
        parts: [&[u8]; 2],
        operation: &Operation<'_>,
        written: &mut Vec<PageId>,
    ) -> Result<()> {
        let mut pool: &Pool<PAGE> = &self.pool;
        let mut page = Image::<PAGE>::zeroed();
        let mut start = |page: &mut Image<PAGE>| -> Result<(ExclusiveLatch<'_, PAGE>, usize)> {
            page.slice_mut(0..HEADER).fill(0);
            page.set_tag(Tag::Overflow);
            let latch = pool.allocate(operation)?;
            let id = pool.id(&latch);
            written.push(id);
            Ok((latch, id.0 as usize))
        };
        let (mut latch, _) = start(&mut page)?;
        let mut at = HEADER;
        for mut part in parts {
            while !part.is_empty() {
                if at == PAGE {
                    let mut following = Image::zeroed();
                    let (next, number) = start(&mut following)?;
                    page.set_upper_child(number);
                    self.store(&mut latch, &page);
                    (latch, page, at) = (next, following, HEADER);
                }
                let (now, rest) = part.split_at(part.len().min(PAGE - at));
                page.put(at, now);
                at += now.len();
                part = rest;
            }
        }
        self.store(&mut latch, &page);
        Ok(())
    }

    /// Gives back a chain that nothing names any more.
    pub(super) fn release_chain(&self, chain: Chain, operation: &Operation<'_>) -> Result<()> {
        let mut id = PageId(chain.first);
        for _ in 0..pages_of::<PAGE>(chain.len) {
            id = self.release_page(id, operation)?;
        }
        Ok(())
    }

    /// Gives back a page that nothing names any more, and returns what it names as the next.
    fn release_page(&self, id: PageId, operation: &Operation<'_>) -> Result<PageId> {
        let mut pool: &Pool<PAGE> = &self.pool;
        let latch = self.of_chain(id, pool.exclusive(id))?;
        let next = image(&latch).upper_child();
        pool.release(latch, operation)?;
        Ok(PageId(next as u32))
    }
}
