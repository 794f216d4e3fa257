//! Page faults: pages that are not in memory are read from the file.
//!
//! The thread that asks for a missing page reads it under its latch: into a separate block, which
//! it verifies and then copies to the page's place.

use std::sync::atomic::Ordering;

use hedgerow_vfs::ReadAt;

use crate::block::{self, Block};
use crate::error::Error;
use crate::page_id::PageId;
use crate::pool::{Pool, lock};
use crate::restart::{Restart, Result};
use crate::state::PageState;
use crate::statistics::{READ_BATCHES, READS};
use crate::table::Entry;

/// Batches' worth of blocks that are kept for reads to come.
const MOST_SPARE: usize = 2;

impl<const PAGE: usize> Pool<PAGE> {
    /// Brings a page to memory that was seen evicted; returns early if another thread does.
    #[cold]
    pub(crate) fn load(&self, page: PageId, seen: PageState) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            let file = self.path.clone();
            return Err(Error::Closed { file, page }.into());
        }
        self.claim()?;
        let word = self.word(page);
        if !word.try_load(seen) {
            self.unclaim();
            return Ok(());
        }
        let entry = self.entries.get(page);
        if entry.is_none() {
            self.evicted(page);
            self.unclaim();
            return Err(Restart.into());
        }
        let mut block = Block::<PAGE>::zeroed();
        let mut read = ReadAt::new(block::offset::<PAGE>(entry.block()), &mut block.0);
        self.file.read_many(std::slice::from_mut(&mut read));
        let result = read.result;
        self.finish_load(page, entry, &block, result)
    }

    /// Puts a page that was read in its place, if it is what was written.
    fn finish_load(
        &self,
        page: PageId,
        entry: Entry,
        block: &Block<PAGE>,
        read: std::io::Result<usize>,
    ) -> Result<()> {
        let (file, offset) = (self.path.clone(), block::offset::<PAGE>(entry.block()));
        let fault = match read {
            _ if entry == Entry::LOST => Some("is lost with its part of the page table".to_owned()),
            Ok(bytes) => block.fault(bytes, entry.crc()),
            Err(source) => {
                self.evicted(page);
                self.unclaim();
                return Err(Error::PageRead {
                    file,
                    page,
                    offset,
                    source,
                }
                .into());
            }
        };
        if let Some(what) = fault {
            self.evicted(page);
            self.unclaim();
            return Err(Error::CorruptPage {
                file,
                page,
                offset,
                what,
            }
            .into());
        }
        self.frame(page).write(&block.0);
        self.counters.count(READS);
        let word = self.word(page);
        if word.unlock_exclusive(true) {
            word.wake(&self.parking);
        }
        Ok(())
    }

    /// Brings pages to memory, the reads of a batch of them at once.
    pub(crate) fn load_all(&self, pages: &[PageId]) {
        let mut rest = pages;
        while !rest.is_empty() && !self.is_closed.load(Ordering::Acquire) {
            let (wanted, looked) = self.latch_missing(rest);
            if !wanted.is_empty() {
                self.read_all(wanted);
            }
            rest = &rest[looked..];
        }
    }

    /// Latches pages that are not in memory, to bring them there: a batch of them at most, with how
    /// many pages were looked at. With the first one latched it takes only room that is free: a
    /// thread that waits for an eviction must have no page that the evicting thread waits for.
    fn latch_missing(&self, pages: &[PageId]) -> (Vec<(PageId, Entry)>, usize) {
        let used = self.used.load(Ordering::Relaxed);
        let is_missing = |&page: &PageId| {
            page.0 < used
                && self.word(page).snapshot().is_evicted()
                && !self.entries.get(page).is_none()
        };
        let missing = pages.iter().copied().filter(is_missing);
        let count = missing.take(self.batch).count();
        if count > 1 {
            self.evict_ahead(count);
        }
        let mut wanted = Vec::with_capacity(count);
        for (looked, &page) in pages.iter().enumerate() {
            if wanted.len() == self.batch {
                return (wanted, looked);
            }
            // A reader may have got the number from bytes that were changing: it may name nothing.
            if page.0 >= used {
                continue;
            }
            let seen = self.word(page).snapshot();
            if !is_missing(&page) || !seen.is_evicted() {
                continue;
            }
            let has_room = match wanted.is_empty() {
                true => self.claim().is_ok(),
                false => self.claim_free(),
            };
            if !has_room {
                // Without room for one, the others are left to those who need them.
                let looked = if wanted.is_empty() {
                    pages.len()
                } else {
                    looked
                };
                return (wanted, looked);
            }
            if self.word(page).try_load(seen) {
                wanted.push((page, self.entries.get(page)));
            } else {
                self.unclaim();
            }
        }
        (wanted, pages.len())
    }

    /// Reads pages that are latched for it.
    fn read_all(&self, wanted: Vec<(PageId, Entry)>) {
        let mut blocks = lock(&self.spare).pop().unwrap_or_default();
        if blocks.len() < wanted.len() {
            blocks.resize(self.batch, Block::zeroed());
        }
        let mut reads: Vec<ReadAt<'_>> = wanted
            .iter()
            .zip(blocks.iter_mut())
            .map(|((_, entry), block)| {
                ReadAt::new(block::offset::<PAGE>(entry.block()), &mut block.0)
            })
            .collect();
        if reads.len() > 1 {
            self.counters.count(READ_BATCHES);
        }
        self.file.read_many(&mut reads);
        let results: Vec<_> = reads.into_iter().map(|read| read.result).collect();
        for (((page, entry), block), result) in wanted.into_iter().zip(&blocks).zip(results) {
            // A thread that asks for a page that cannot be read gets the error.
            let _ = self.finish_load(page, entry, block, result);
        }
        let mut spare = lock(&self.spare);
        if spare.len() < MOST_SPARE {
            spare.push(blocks);
        }
    }
}
