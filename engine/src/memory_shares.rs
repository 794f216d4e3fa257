//! One limit of memory for indexes in memory and for pages.
//!
//! Without a page file, indexes in memory may have all of it. With one, the pages have what those
//! indexes leave, and a quarter at least: where an index in memory grows, the pages give up memory
//! in steps of a sixty-fourth of the limit, and what is beyond three quarters is refused, like
//! anything beyond the limit in a database without pages. They do not get it back before the
//! database is opened anew, for memory that was released is kept for rows to come.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hedgerow_sync::epoch;

use crate::disk::page_file::PageFile;
use crate::error::{Error, Result};

/// What gives memory back where it is short.
pub(crate) struct MemorySource<Release, GiveUp, Returning> {
    /// Gives back the memory of versions, and of keyspaces that are gone, which nobody can see any
    /// more.
    pub release: Release,
    /// Ends the oldest snapshot that keeps memory from being released, for so many bytes that are
    /// missing; whether there was one. Ends nobody if all of them keep less.
    pub give_up_oldest: GiveUp,
    /// Memory of versions that is on its way back, in bytes: it counts as free.
    pub returning_bytes: Returning,
}

/// Parts of the limit that move from pages to indexes in memory at once: one of so many.
const STEPS: usize = 64;

/// What indexes in memory may have of a limit.
pub(crate) struct MemoryShares {
    in_memory: AtomicUsize,
    /// Held while memory moves from the pages to indexes in memory.
    moving: Mutex<()>,
}

impl MemoryShares {
    /// The shares of a database without a page file: all for indexes in memory.
    pub(crate) fn all_in_memory() -> MemoryShares {
        MemoryShares {
            in_memory: AtomicUsize::new(usize::MAX),
            moving: Mutex::new(()),
        }
    }

    /// The most that indexes in memory can have of a limit.
    pub(crate) fn most(limit_bytes: usize, has_pages: bool) -> usize {
        match has_pages {
            true => limit_bytes - limit_bytes / 4,
            false => limit_bytes,
        }
    }

    /// What was taken from the pages for indexes in memory.
    pub(crate) fn taken(&self, has_pages: bool) -> usize {
        match has_pages {
            true => self.in_memory.load(Ordering::Relaxed),
            false => 0,
        }
    }

    /// The database has got a page file, whose pages have all of the limit now.
    pub(crate) fn give_all_to_pages(&self) {
        self.in_memory.store(0, Ordering::Relaxed);
    }

    /// Refuses what would grow indexes in memory beyond what they can have, and what `source` can
    /// give back. The caller holds no log shard.
    #[inline]
    pub(crate) fn check(
        &self,
        limit_bytes: usize,
        pages: Option<&PageFile>,
        source: &MemorySource<impl Fn() -> Result<()>, impl Fn(usize) -> bool, impl Fn() -> usize>,
    ) -> Result<()> {
        let share = self.in_memory.load(Ordering::Relaxed).min(limit_bytes);
        if hedgerow_memory::reserved_bytes() <= share {
            return Ok(());
        }
        self.check_live(limit_bytes, pages, source)
    }

    /// Allocators keep what was released for later, so what they reserve does not fall; what is in
    /// use does. Counting that takes a mutex per size class, which is for those who are near the
    /// limit.
    #[cold]
    fn check_live(
        &self,
        limit_bytes: usize,
        pages: Option<&PageFile>,
        source: &MemorySource<impl Fn() -> Result<()>, impl Fn(usize) -> bool, impl Fn() -> usize>,
    ) -> Result<()> {
        let share_bytes = match pages {
            Some(pages) => self.grow(limit_bytes, pages),
            None => limit_bytes,
        };
        if hedgerow_memory::live_bytes() <= share_bytes {
            return Ok(());
        }
        loop {
            (source.release)()?;
            // Nobody is ended for memory that is on its way back.
            let free_bytes = share_bytes.saturating_add((source.returning_bytes)());
            let used_bytes = MemoryShares::used_without_dead(share_bytes);
            if used_bytes <= free_bytes {
                return Ok(());
            }
            if !(source.give_up_oldest)(used_bytes - free_bytes) {
                return Err(Error::OutOfMemory {
                    limit_bytes,
                    share_bytes,
                });
            }
        }
    }

    /// What is in use, in bytes. Where that is more than `most_bytes`, frees what was replaced and
    /// nobody can read any more, which may wait to be freed.
    pub(crate) fn used_without_dead(most_bytes: usize) -> usize {
        loop {
            let used_bytes = hedgerow_memory::live_bytes();
            if used_bytes <= most_bytes {
                return used_bytes;
            }
            epoch::release_due();
            if hedgerow_memory::live_bytes() >= used_bytes {
                return used_bytes;
            }
        }
    }

    /// Takes memory from the pages, so that indexes in memory have what they use, as far as that is
    /// possible; what they have then.
    pub(crate) fn grow(&self, limit_bytes: usize, pages: &PageFile) -> usize {
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let share = self.in_memory.load(Ordering::Relaxed);
        // One reading beside threads that allocate may be too high, and what the pages give up is
        // gone.
        let used = hedgerow_memory::reserved_bytes().min(hedgerow_memory::reserved_bytes());
        let most = MemoryShares::most(limit_bytes, true);
        if used <= share || share >= most {
            return share;
        }
        let step = (limit_bytes / STEPS).max(1);
        let wanted = used.next_multiple_of(step).min(most) - share;
        let share = share + pages.take_memory(wanted).min(wanted);
        self.in_memory.store(share, Ordering::Relaxed);
        share
    }
}
