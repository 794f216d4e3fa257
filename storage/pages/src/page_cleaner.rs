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

/// Prefetches that wait at most: what is beyond is forgotten, being a wish only.
const MOST_WISHES: usize = 4096;

/// A pool's page cleaner; the thread stops when this is dropped, which waits for its end. Made by [`Pool::start_cleaner`].
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
        self.wishes.has_cleaner.store(true, Ordering::Release);
        Ok(PageCleaner {
            pool: Arc::clone(self),
            thread: Some(thread),
        })
    }

    /// Wakes the cleaner, if there is one, when `resident` pages in memory leave too little room.
    #[inline]
    pub(crate) fn wake_cleaner(&self, resident: usize) {
        let wishes = &self.wishes;
        if resident + self.reserve() < self.limit()
            || !wishes.has_cleaner.load(Ordering::Relaxed)
            || wishes.told.swap(true, Ordering::Relaxed)
        {
            return;
        }
        lock(&wishes.queue).scarce = true;
        wishes.moved.notify_one();
    }

    /// Leaves pages for the cleaner to fetch; false if there is none.
    pub(crate) fn wish(&self, pages: &[PageId]) -> bool {
        if !self.wishes.has_cleaner.load(Ordering::Acquire) {
            return false;
        }
        let mut queue = lock(&self.wishes.queue);
        let room = MOST_WISHES - queue.pages.len();
        queue.pages.extend(pages.iter().take(room));
        drop(queue);
        self.wishes.moved.notify_one();
        true
    }

    fn run_cleaner(&self) {
        let mut queue = lock(&self.wishes.queue);
        loop {
            if queue.stop {
                return;
            }
            let pages = std::mem::take(&mut queue.pages);
            let scarce = std::mem::take(&mut queue.scarce);
            if pages.is_empty() && !scarce {
                let waited = self.wishes.moved.wait(queue);
                queue = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(queue);
            self.load_all(&pages);
            if scarce {
                self.wishes.told.store(false, Ordering::Relaxed);
                self.evict_ahead(self.reserve());
            }
            queue = lock(&self.wishes.queue);
        }
    }
}

impl<const PAGE: usize> Drop for PageCleaner<PAGE> {
    fn drop(&mut self) {
        self.pool.wishes.has_cleaner.store(false, Ordering::Release);
        lock(&self.pool.wishes.queue).stop = true;
        self.pool.wishes.moved.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // It panicked, and said so; the pool works without it.
        }
        lock(&self.pool.wishes.queue).stop = false;
    }
}
