//! Superpages, for as long as all pages fit into memory.
//!
//! With memory in the kernel's pages of 4 KiB nearly each step down a large tree misses the
//! processor's buffer of translations, and each fresh page costs a fault. But the first byte of a
//! superpage takes all of its memory, while the budget counts pages. So the pool uses superpages
//! only while every number ever in use fits the budget: then memory without a page in it does no
//! harm. A page's number is its place, so the first superpages have the lowest numbers; they take
//! three quarters of the budget at most. A pool whose pages would not fill a superpage asks for
//! none yet. Their use ends when a number is taken that does not fit, when so much memory is
//! reserved that not all numbers fit beside it, or when a page is about to be evicted. The pool
//! then asks the kernel to make no more of them, and releases memory without a page. The kernel
//! splits the existing superpages as their pages are evicted, and reclaims that memory when it
//! needs some.

use std::sync::atomic::Ordering;

use hedgerow_memory::SUPERPAGE_BYTES;

use crate::page_id::PageId;
use crate::pool::Pool;

/// Pages whose memory is given back together.
const TOGETHER: usize = 64;

impl<const PAGE: usize> Pool<PAGE> {
    /// Numbers in use from which on the pool asks for superpages: those that fill one.
    const FEWEST: usize = SUPERPAGE_BYTES / PAGE;

    /// Asks for superpages behind the lowest numbers, if all pages of the file fit into memory and
    /// they fill one.
    pub(crate) fn ask_for_superpages(&self) {
        // Smaller pages, which are for tests, are spread out: superpages would take four times
        // the budget.
        let used = self.used.load(Ordering::Relaxed) as usize;
        if PAGE < 4096 || used > self.limit() || used < Self::FEWEST {
            return;
        }
        let bytes = 3 * self.limit() / 4 * PAGE / SUPERPAGE_BYTES * SUPERPAGE_BYTES;
        let bytes = bytes.min(self.memory.size_bytes());
        self.memory.ask_for_superpages(0..bytes, true);
        self.superpage_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether a page's memory may stay when the page is given back: its number is counted among
    /// those that fit, whatever it holds.
    pub(crate) fn may_keep_memory(&self, page: PageId) -> bool {
        page.0 as usize * PAGE < self.superpage_bytes.load(Ordering::Relaxed)
    }

    /// Begins or ends superpages after a number was taken for the first time, of which so many are
    /// in use now: they begin once, and end when not all numbers fit the budget any more.
    pub(crate) fn follow_use(&self, used: usize) {
        if used == Self::FEWEST {
            self.ask_for_superpages();
        }
        self.limit_superpages();
    }

    /// Ends superpages if not all numbers in use fit the budget any more.
    pub(crate) fn limit_superpages(&self) {
        if self.used.load(Ordering::Relaxed) as usize > self.limit() {
            self.end_superpages();
        }
    }

    /// Has the kernel make no superpages any more, and gives back what no page is in.
    #[inline]
    pub(crate) fn end_superpages(&self) {
        if self.superpage_bytes.load(Ordering::Relaxed) > 0 {
            self.end_superpages_now();
        }
    }

    #[cold]
    fn end_superpages_now(&self) {
        let bytes = self.superpage_bytes.swap(0, Ordering::Relaxed);
        self.memory.ask_for_superpages(0..bytes, false);
        let numbers = (bytes / PAGE).min(self.room as usize) as u32;
        let mut unused = Vec::with_capacity(TOGETHER);
        for page in (0..numbers).map(PageId) {
            let word = self.word(page);
            let seen = word.snapshot();
            // A thread that brings the page to memory, or releases it, has it latched.
            if seen.is_evicted() && word.try_load(seen) {
                unused.push(page);
            }
            if unused.len() == TOGETHER || page.0 + 1 == numbers {
                // They were not counted.
                self.resident.fetch_add(unused.len(), Ordering::Relaxed);
                self.discard(&mut unused);
                unused.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use hedgerow_vfs::{MemoryVfs, Vfs};

    use super::*;
    use crate::{Options, Pages};

    #[test]
    fn superpages_end_with_the_first_page_that_leaves() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let (path, budget_bytes) = (Path::new("/pages"), 16 << 20);
        let open = || Pool::<4096>::open(&vfs, path, &Options::new(budget_bytes)).unwrap();
        let pool = open();
        let mut pages = &pool;
        let fill = |pages: &mut &Pool<4096>, count| {
            for _ in 0..count {
                let operation = pages.begin();
                pages.allocate(&operation).unwrap();
            }
        };
        fill(&mut pages, Pool::<4096>::FEWEST - 1);
        assert_eq!(pool.superpage_bytes.load(Ordering::Relaxed), 0);
        fill(&mut pages, 1);
        let asked = pool.superpage_bytes.load(Ordering::Relaxed);
        assert!(asked >= 8 << 20 && asked <= budget_bytes as usize * 3 / 4);
        assert_eq!(asked % SUPERPAGE_BYTES, 0);
        fill(&mut pages, pool.limit() / 2 - Pool::<4096>::FEWEST);
        assert_eq!(pool.superpage_bytes.load(Ordering::Relaxed), asked);
        fill(&mut pages, pool.limit());
        assert!(pool.statistics().evictions > 0);
        assert_eq!(pool.superpage_bytes.load(Ordering::Relaxed), 0);
        pool.checkpoint(Vec::new).unwrap();
        drop(pool);
        // What does not fit gets none from the beginning.
        assert_eq!(open().superpage_bytes.load(Ordering::Relaxed), 0);
    }

    /// Bytes of a range of this process's memory that the kernel has pages behind.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn present_bytes(pool: &Pool<4096>, bytes: usize) -> usize {
        let mut present = vec![0_u8; bytes / 4096];
        // SAFETY: the range lies within a mapping that lives, and the vector has a byte for each of
        // its pages.
        let asked = unsafe {
            let start = pool.memory.start().as_ptr();
            libc::mincore(start.cast(), bytes, present.as_mut_ptr())
        };
        assert_eq!(asked, 0);
        present.iter().filter(|&&byte| byte & 1 == 1).count() * 4096
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn memory_of_numbers_that_have_no_page_does_not_outlive_superpages() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let (path, budget_bytes) = (Path::new("/pages"), 64 << 20);
        let open = || Pool::<4096>::open(&vfs, path, &Options::new(budget_bytes)).unwrap();
        let pool = open();
        let mut pages = &pool;
        let most = pool.limit() * 7 / 8;
        for _ in 0..most {
            let operation = pages.begin();
            pages.allocate(&operation).unwrap();
        }
        pool.checkpoint(Vec::new).unwrap();
        drop(pool);
        // A page of each superpage comes to memory, and then more are taken than fit.
        let pool = open();
        let mut pages = &pool;
        for id in (0..most as u32).step_by(512).map(PageId) {
            drop(pages.shared(id).unwrap());
        }
        let all = 4 * budget_bytes as usize;
        assert!(present_bytes(&pool, all) <= budget_bytes as usize);
        for _ in 0..pool.limit() * 3 / 4 {
            let operation = pages.begin();
            let page = pages.allocate(&operation).unwrap();
            drop(page);
            assert!(pool.statistics().resident as usize <= pool.limit());
        }
        assert!(present_bytes(&pool, all) <= budget_bytes as usize);
    }
}
