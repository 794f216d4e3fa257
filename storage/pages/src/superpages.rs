//! Superpages, for as long as all pages fit into memory.
//!
//! With memory in the kernel's pages of 4 KiB nearly each step down a large tree misses the
//! processor's buffer of translations, a sixth of a lookup's time, and each fresh page costs a
//! fault. But a superpage is taken whole with its first byte, and what is evicted must go alone. So
//! a pool asks for superpages while no page has left memory, and never again once one has: those
//! that there are the kernel splits as their pages go.
//!
//! A page's number is its place, so the first superpages hold the lowest numbers. They take three
//! quarters of the budget at most, since a pool whose budget is only half used may have its pages
//! anywhere below: what of them is not in use must not push the process beyond its limit.

use std::sync::atomic::Ordering;

use hedgerow_memory::SUPERPAGE_BYTES;

use crate::pool::Pool;

impl<const PAGE: usize> Pool<PAGE> {
    /// Asks for superpages behind the lowest numbers, if all pages of the file fit into memory.
    pub(crate) fn ask_for_superpages(&self) {
        // Smaller pages, which are for tests, are spread out: superpages would take four times
        // the budget.
        if PAGE < 4096 || self.used.load(Ordering::Relaxed) as usize > self.limit() {
            return;
        }
        let bytes = 3 * self.limit() / 4 * PAGE / SUPERPAGE_BYTES * SUPERPAGE_BYTES;
        let bytes = bytes.min(self.memory.size_bytes());
        self.memory.ask_for_superpages(0..bytes, true);
        self.superpage_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Has the kernel make no superpages any more: a page is about to leave memory.
    pub(crate) fn end_superpages(&self) {
        if self.superpage_bytes.load(Ordering::Relaxed) > 0 {
            let bytes = self.superpage_bytes.swap(0, Ordering::Relaxed);
            self.memory.ask_for_superpages(0..bytes, false);
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
        let asked = pool.superpage_bytes.load(Ordering::Relaxed);
        assert!(asked >= 8 << 20 && asked <= budget_bytes as usize * 3 / 4);
        assert_eq!(asked % SUPERPAGE_BYTES, 0);
        let mut pages = &pool;
        let fill = |pages: &mut &Pool<4096>, count| {
            for _ in 0..count {
                let operation = pages.begin();
                pages.allocate(&operation).unwrap();
            }
        };
        fill(&mut pages, pool.limit() / 2);
        assert_eq!(pool.superpage_bytes.load(Ordering::Relaxed), asked);
        fill(&mut pages, pool.limit());
        assert!(pool.statistics().evictions > 0);
        assert_eq!(pool.superpage_bytes.load(Ordering::Relaxed), 0);
        pool.checkpoint(Vec::new).unwrap();
        drop(pool);
        // What does not fit gets none from the beginning.
        assert_eq!(open().superpage_bytes.load(Ordering::Relaxed), 0);
    }
}
