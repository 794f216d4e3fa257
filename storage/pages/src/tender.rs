//! A thread that keeps room free ahead of need and fetches what was asked for ahead of use.
//!
//! Without it whoever needs room evicts a batch itself, and waits for its dirty pages to be
//! written; and prefetching waits for its reads. With it both happen beside, and threads only do
//! so themselves when it falls behind.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use crate::page_id::PageId;
use crate::pool::{Pool, lock};

/// Prefetches that wait at most: what is beyond is forgotten, being a wish only.
const MOST_WISHES: usize = 4096;

/// The thread behind a pool; stops when dropped. Made by [`Pool::tend`].
#[must_use = "the thread stops when this is dropped"]
pub struct Tender<const PAGE: usize> {
    pool: Arc<Pool<PAGE>>,
    thread: Option<JoinHandle<()>>,
}

impl<const PAGE: usize> Pool<PAGE> {
    /// Starts a thread that evicts ahead of need and does [prefetches](crate::Pages::prefetch).
    ///
    /// # Errors
    ///
    /// What the system says when it has no thread to give.
    pub fn tend(self: &Arc<Self>) -> std::io::Result<Tender<PAGE>> {
        let pool = Arc::clone(self);
        let thread = std::thread::Builder::new().name("hedgerow-pages".to_owned());
        let thread = thread.spawn(move || pool.run_tender())?;
        self.wishes.tended.store(true, Ordering::Release);
        Ok(Tender {
            pool: Arc::clone(self),
            thread: Some(thread),
        })
    }

    /// Tells the tender, if there is one, that this many pages were in memory.
    #[inline]
    pub(crate) fn tell(&self, resident: usize) {
        let wishes = &self.wishes;
        if resident + self.reserve() < self.limit()
            || !wishes.tended.load(Ordering::Relaxed)
            || wishes.told.swap(true, Ordering::Relaxed)
        {
            return;
        }
        lock(&wishes.queue).scarce = true;
        wishes.moved.notify_one();
    }

    /// Leaves pages for the tender to fetch; false if there is none.
    pub(crate) fn wish(&self, pages: &[PageId]) -> bool {
        if !self.wishes.tended.load(Ordering::Acquire) {
            return false;
        }
        let mut queue = lock(&self.wishes.queue);
        let room = MOST_WISHES - queue.pages.len();
        queue.pages.extend(pages.iter().take(room));
        drop(queue);
        self.wishes.moved.notify_one();
        true
    }

    fn run_tender(&self) {
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

impl<const PAGE: usize> Drop for Tender<PAGE> {
    fn drop(&mut self) {
        self.pool.wishes.tended.store(false, Ordering::Release);
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
