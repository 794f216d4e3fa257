//! The page cleaner: a thread that evicts pages ahead of need and reads the prefetch queue.
//!
//! Without it a thread that needs room evicts a batch itself and waits until its dirty pages are
//! written, and a prefetch waits for its reads. With it both happen in the background, and other
//! threads evict only when it falls behind.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use crate::page_id::PageId;
use crate::pool::{Pool, lock};

/// Pages in the prefetch queue at most, where that is not [a part of memory](PARTS_OF_MEMORY).
const MOST_QUEUED: usize = 4096;
/// The prefetch queue has at most this part of the pages that there is memory for: by the time that
/// more of them were read, the first would be evicted again.
const PARTS_OF_MEMORY: usize = 8;

/// A pool's page cleaner, made by [`Pool::start_cleaner`]. Dropping it stops the thread and waits
/// for its end.
#[must_use = "the thread stops when this is dropped"]
pub struct PageCleaner<const PAGE: usize> {
    pool: Arc<Pool<PAGE>>,
    thread: Option<JoinHandle<()>>,
}

impl<const PAGE: usize> Pool<PAGE> {
    /// Starts a thread that evicts ahead of need and does [prefetches](crate::Pages::prefetch). At
    /// most one at a time.
    ///
    /// # Errors
    ///
    /// The system's error when it cannot start a thread.
    pub fn start_cleaner(self: &Arc<Self>) -> std::io::Result<PageCleaner<PAGE>> {
        let pool = Arc::clone(self);
        let thread = std::thread::Builder::new().name("hedgerow-pages".to_owned());
        let thread = thread.spawn(move || pool.run_cleaner())?;
        self.prefetch_queue
            .has_cleaner
            .store(true, Ordering::Release);
        Ok(PageCleaner {
            pool: Arc::clone(self),
            thread: Some(thread),
        })
    }

    /// Wakes the cleaner, if there is one, when `resident` pages in memory leave too little room.
    #[inline]
    pub(crate) fn wake_cleaner(&self, resident: usize) {
        let queue = &self.prefetch_queue;
        if resident + self.reserve() < self.limit()
            || !queue.has_cleaner.load(Ordering::Relaxed)
            || queue.eviction_is_requested.swap(true, Ordering::Relaxed)
        {
            return;
        }
        lock(&queue.requests).evict = true;
        queue.changed.notify_one();
    }

    /// Queues pages for the cleaner to read; false if there is none. Where these are more than it
    /// reads in time, the oldest are dropped: a prefetch is a hint, and whoever asked for them has
    /// most likely read them by now.
    pub(crate) fn queue_prefetch(&self, pages: &[PageId]) -> bool {
        if !self.prefetch_queue.has_cleaner.load(Ordering::Acquire) {
            return false;
        }
        let mut requests = lock(&self.prefetch_queue.requests);
        let most = MOST_QUEUED.min(self.limit() / PARTS_OF_MEMORY).max(1);
        let pages = &pages[..most.min(pages.len())];
        let excess = (requests.pages.len() + pages.len()).saturating_sub(most);
        requests.pages.drain(..excess);
        requests.pages.extend(pages);
        drop(requests);
        self.prefetch_queue.changed.notify_one();
        true
    }

    fn run_cleaner(&self) {
        let mut requests = lock(&self.prefetch_queue.requests);
        loop {
            if requests.stop {
                return;
            }
            let pages = std::mem::take(&mut requests.pages);
            let evict = std::mem::take(&mut requests.evict);
            if pages.is_empty() && !evict {
                let waited = self.prefetch_queue.changed.wait(requests);
                requests = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(requests);
            self.load_all(&pages);
            if evict {
                self.prefetch_queue
                    .eviction_is_requested
                    .store(false, Ordering::Relaxed);
                self.evict_ahead(self.reserve());
            }
            requests = lock(&self.prefetch_queue.requests);
        }
    }
}

impl<const PAGE: usize> Drop for PageCleaner<PAGE> {
    fn drop(&mut self) {
        self.pool
            .prefetch_queue
            .has_cleaner
            .store(false, Ordering::Release);
        lock(&self.pool.prefetch_queue.requests).stop = true;
        self.pool.prefetch_queue.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // It panicked, and said so; the pool works without it.
        }
        lock(&self.pool.prefetch_queue.requests).stop = false;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hedgerow_vfs::{MemoryVfs, Vfs};

    use super::*;
    use crate::Options;

    /// A scan that is faster than the cleaner has read most of what it asked for by itself.
    #[test]
    fn the_queue_has_the_newest_requests_and_no_more_than_memory_has_room_for() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let options = Options::new(4 << 20);
        let pool = Pool::<4096>::open(&vfs, Path::new("/pages"), &options).unwrap();
        assert!(!pool.queue_prefetch(&[PageId(0)]), "there is no cleaner");
        pool.prefetch_queue
            .has_cleaner
            .store(true, Ordering::Release);
        let most = (pool.limit() / PARTS_OF_MEMORY) as u32;
        let ids = |from, to| (from..to).map(PageId).collect::<Vec<_>>();
        let queued = || lock(&pool.prefetch_queue.requests).pages.clone();
        for n in 0..10 * most {
            assert!(pool.queue_prefetch(&ids(n, n + 1)));
        }
        assert_eq!(queued(), ids(9 * most, 10 * most));
        // The first of those that are asked for together are needed first.
        assert!(pool.queue_prefetch(&ids(0, 2 * most)));
        assert_eq!(queued(), ids(0, most));
    }
}
