//! Eviction: a clock over the state words, in batches.
//!
//! The hand passes over page numbers. An unlocked page gets a mark; a page that still has its mark
//! in the next round was not used meanwhile and is evicted. The hand skips evicted pages: eight
//! words share a cache line, which the processor prefetches. Users can say of a page that it is
//! less likely to be used again soon than others ([`Pool::demote`]): a page of values serves a few
//! records, the leaf that leads to it a hundred. Where there are such pages, the hand stops at each
//! of the others in every fourth round only, so that a page that is used once in several rounds
//! stays. Without that a pool with room for all leaves many times over evicts them for values that
//! are read only once. A clean page is latched and its memory released, with that of the rest of
//! its batch. A dirty page is first written: copied aside under a shared latch that lasts as long
//! as the copy, written from there, and clean afterwards if nobody changed it meanwhile. Nothing
//! here waits for a latch.
//!
//! A full disk takes no dirty page. Then the clock evicts clean pages, of which the
//! [reserve](crate::reserve) keeps some; and in the next [`CLEAN_FIRST`] batches it evicts clean
//! pages first, so that readers do not wait for writes that fail.

use std::sync::atomic::Ordering;

use hedgerow_vfs::{WriteAt, is_disk_full};

use crate::block::{self, Block};
use crate::bookkeeping::Space;
use crate::error::Error;
use crate::install::{Installed, install};
use crate::page_id::PageId;
use crate::pool::{Pool, lock};
use crate::state::PageState;
use crate::statistics::{CLEAN_BATCHES, EVICTIONS, WASTED, WRITE_CALLS, WRITES};
use crate::table::{Entry, fan};
use crate::write_batch::{CopiedPage, EvictedBatch, WriteBatch, WrittenBlock};

/// Where some pages are cold, the hand stops at others once in so many rounds.
const ROUNDS_OF_WARM: u32 = 4;
/// With fewer cold pages than one in so many, the hand stops at all pages alike.
const FEW_COLD: usize = 32;

/// Batches that take clean pages first after the disk was found full.
pub(crate) const CLEAN_FIRST: u32 = 256;

/// Which pages may be evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victims {
    Any,
    Clean,
    Dirty,
}

/// Frees a block that could not be written.
pub(crate) fn give_unwritten(space: &mut Space, block: u32, error: &std::io::Error) {
    if is_disk_full(error) {
        space.blocks.give_unwritten(block);
    } else {
        space.blocks.give(block);
    }
}

impl<const PAGE: usize> Pool<PAGE> {
    /// Ends the use of the file, which others may open from now on: no page is read from it or
    /// written to it any more. What is in memory stays, and stays readable. To be called once
    /// nothing is changed any more, and no checkpoint is under way.
    pub fn close_file(&self) {
        // Whoever evicts holds this: what was begun ends, and what comes sees that it is closed.
        let _evictor = lock(&self.evictor);
        self.is_closed.store(true, Ordering::Release);
    }

    /// Evicts a batch of pages, unless another thread just did.
    pub(crate) fn evict_some(&self) -> Result<(), Error> {
        let mut evictor = lock(&self.evictor);
        let (mut attempts, mut failure) = (0, None);
        let mut victims = self.first_victims();
        loop {
            if self.resident.load(Ordering::Relaxed) < self.limit() {
                return Ok(());
            }
            let evicted = self.evict_batch(&mut evictor.batch, victims);
            if evicted.pages > 0 {
                return Ok(());
            }
            failure = failure.or(evicted.failure);
            if victims != Victims::Any && failure.as_ref().is_some_and(|error| self.exceed(error)) {
                return Ok(());
            }
            // A failed write is not repeated here: the next caller tries again.
            victims = match failure {
                None => Victims::Any,
                Some(_) => Victims::Clean,
            };
            attempts += 1;
            if attempts > 200 {
                let pages = self.limit() as u64;
                return Err(failure.unwrap_or(Error::OutOfMemory { pages }));
            }
            if attempts > 3 {
                std::thread::yield_now();
            }
        }
    }

    /// Evicts until this many pages would fit, as far as it can without waiting.
    pub(crate) fn evict_ahead(&self, pages: usize) {
        while self.resident.load(Ordering::Relaxed) + pages > self.limit() {
            // Threads that cannot wait evict in between. What failed here fails there, too.
            let batch = &mut lock(&self.evictor).batch;
            let victims = self.first_victims();
            let evicted = self.evict_batch(batch, victims);
            if evicted.pages == 0 || evicted.failure.is_some() {
                return;
            }
        }
    }

    /// Which pages a batch tries first: clean ones for a while after the disk was found full.
    fn first_victims(&self) -> Victims {
        let one_less = |left: u32| left.checked_sub(1);
        let left = self
            .clean_first
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        if left.is_err() {
            return Victims::Any;
        }
        self.counters.count(CLEAN_BATCHES);
        Victims::Clean
    }

    /// Remembers whether the disk had room for a batch.
    fn remember_room(&self, written: &Result<(), Error>) {
        let left = match written {
            Err(error) if error.is_disk_full() => CLEAN_FIRST,
            Ok(()) if self.clean_first.load(Ordering::Relaxed) > 0 => 0,
            _ => return,
        };
        self.clean_first.store(left, Ordering::Relaxed);
    }

    /// How many pages are evicted together: a batch, which in a small pool is a small part of it.
    fn victims(&self) -> usize {
        self.batch.min(self.limit() / 8).max(1)
    }

    /// Evicts one batch of pages.
    pub(crate) fn evict_batch(
        &self,
        batch: &mut WriteBatch<PAGE>,
        victims: Victims,
    ) -> EvictedBatch {
        if self.is_closed.load(Ordering::Acquire) {
            return EvictedBatch {
                pages: 0,
                failure: None,
            };
        }
        self.end_superpages();
        let wanted = self.victims();
        let mut clean = Vec::with_capacity(wanted);
        batch.pages.clear();
        let used = self.used.load(Ordering::Relaxed).max(1);
        let cold = self.cold.load(Ordering::Relaxed);
        let every = match cold * FEW_COLD > self.resident.load(Ordering::Relaxed) {
            true => ROUNDS_OF_WARM,
            false => 1,
        };
        // Twice round, so that a mark set on the way can be found.
        let mut steps = u64::from(used) * 2 * u64::from(every);
        while steps > 0 && clean.len() + batch.pages.len() < wanted {
            steps -= 1;
            let at = self.hand.fetch_add(1, Ordering::Relaxed);
            let page = PageId(at % used);
            let word = self.word(page);
            let seen = word.snapshot();
            // The clock visits neighbours in different rounds.
            let is_visited = (page.0 ^ (at / used)).is_multiple_of(every) || seen.is_cold();
            if seen.is_evicted() || !is_visited {
                continue;
            }
            if !seen.is_marked() {
                word.try_mark(seen);
            } else if seen.is_dirty() {
                if victims != Victims::Clean {
                    self.copy_aside(page, seen, batch);
                }
            } else if victims != Victims::Dirty && word.try_exclusive(seen) {
                clean.push(page);
            }
        }
        let failure = self.write_batch(batch).err();
        for &CopiedPage { page, version } in &batch.pages {
            let (word, now) = (self.word(page), self.word(page).snapshot());
            let same = now.version() == version && now.is_free() && !now.is_dirty();
            if same && word.try_exclusive(now) {
                clean.push(page);
            }
        }
        let pages = clean.len();
        self.discard(&mut clean);
        (0..pages).for_each(|_| self.counters.count(EVICTIONS));
        EvictedBatch { pages, failure }
    }

    /// Copies a page into a batch, if it can be latched as it was seen.
    pub(crate) fn copy_aside(&self, page: PageId, seen: PageState, batch: &mut WriteBatch<PAGE>) {
        let word = self.word(page);
        if !word.try_shared(seen) {
            return;
        }
        let index = batch.pages.len();
        if batch.blocks.len() == index {
            batch.blocks.push(Block::zeroed());
        }
        self.frame(page).read(&mut batch.blocks[index].0);
        let version = word.snapshot().version();
        batch.pages.push(CopiedPage { page, version });
        if word.unlock_shared() {
            word.wake(&self.parking);
        }
    }

    /// Writes a batch to free blocks and makes its pages clean, where they are still what was
    /// copied. Pages that could not be written stay as they are.
    pub(crate) fn write_batch(&self, batch: &WriteBatch<PAGE>) -> Result<(), Error> {
        if batch.pages.is_empty() {
            return Ok(());
        }
        let written = self.write_all(batch);
        self.remember_room(&written);
        if written.is_ok() {
            self.return_beyond(batch.pages.len());
        }
        written
    }

    fn write_all(&self, batch: &WriteBatch<PAGE>) -> Result<(), Error> {
        let blocks = &batch.blocks[..batch.pages.len()];
        let written = self.write_blocks(blocks);
        let mut space = lock(&self.space);
        let mut failure = None;
        let pages = batch.pages.iter().zip(blocks);
        for (WrittenBlock { place, result }, (copied, block)) in written.into_iter().zip(pages) {
            match result {
                Ok(()) => {
                    let entry = Entry::new(place, block.crc());
                    self.install(&mut space, copied.page, copied.version, entry);
                }
                Err(error) => {
                    give_unwritten(&mut space, place, &error);
                    failure = Some(self.io("write to", error));
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes blocks to free places, which are then in use: those that come to lie side by side
    /// with one write, since what a disk does in a second is limited in number, too.
    pub(crate) fn write_blocks(&self, all: &[Block<PAGE>]) -> Vec<WrittenBlock> {
        let places: Vec<u32> = {
            let mut space = lock(&self.space);
            all.iter().map(|_| space.blocks.take()).collect()
        };
        let (mut runs, mut writes) = (Vec::new(), Vec::new());
        let mut at = 0;
        let is_next = |a: &u32, b: &u32| a + 1 == *b && size_of::<Block<PAGE>>() == PAGE;
        for run in places.chunk_by(is_next) {
            let of_run = &all[at..at + run.len()];
            let bytes = Block::bytes_of(of_run).unwrap_or(&of_run[0].0);
            writes.push(WriteAt::new(block::offset::<PAGE>(run[0]), bytes));
            runs.push(run.len());
            at += run.len();
        }
        self.file.write_many(&mut writes);
        let mut results = Vec::with_capacity(all.len());
        for (write, blocks) in writes.into_iter().zip(runs) {
            self.counters.count(WRITE_CALLS);
            let first = results.len();
            match write.result {
                // For some of them there may be room, and one bad place is no reason to keep the
                // others in memory.
                Err(_) if blocks > 1 => {
                    let singly = first..first + blocks;
                    results.extend(singly.map(|at| self.write_alone(&all[at], places[at])));
                }
                Err(error) => results.push(Err(error)),
                Ok(()) => results.extend((0..blocks).map(|_| Ok(()))),
            }
        }
        let written = places.into_iter().zip(results).zip(all);
        written
            .map(|((place, result), block)| {
                self.write_elsewhere(block, WrittenBlock { place, result })
            })
            .collect()
    }

    /// Writes a block that met a full disk to a place that has space, if there is one: the first
    /// may have been a hole of the file. Once: a disk may also be full where it had reserved space.
    fn write_elsewhere(&self, block: &Block<PAGE>, mut written: WrittenBlock) -> WrittenBlock {
        if !written.result.as_ref().is_err_and(is_disk_full) {
            return written;
        }
        {
            let mut space = lock(&self.space);
            if space.blocks.backed() == 0 {
                return written;
            }
            space.blocks.give_unwritten(written.place);
            written.place = space.blocks.take();
        }
        written.result = self.write_alone(block, written.place);
        written
    }

    /// Writes one block.
    fn write_alone(&self, block: &Block<PAGE>, place: u32) -> std::io::Result<()> {
        self.counters.count(WRITE_CALLS);
        let mut write = [WriteAt::new(block::offset::<PAGE>(place), &block.0)];
        self.file.write_many(&mut write);
        let [write] = write;
        write.result
    }

    /// Makes a written block the page's, if the page is still what was written.
    fn install(&self, space: &mut Space, page: PageId, version: u64, entry: Entry) {
        let place = self.entries.word(page);
        let installed = install(self.word(page), place, version, entry);
        let Some(Installed { old, epoch }) = installed else {
            space.blocks.give(entry.block());
            self.counters.count(WASTED);
            return;
        };
        self.dirty.fetch_sub(1, Ordering::Relaxed);
        self.counters.count(WRITES);
        if !old.is_none() && old != Entry::LOST {
            space.blocks.give(old.block());
        }
        let chunk = page.0 / fan(PAGE) as u32;
        match &mut space.collecting {
            Some(collecting) if collecting.parity == epoch => {
                collecting.changed.set(chunk);
                space.blocks.snapshot.set(entry.block());
                if old != Entry::LOST {
                    space.blocks.leave_out(old.block());
                }
            }
            Some(collecting) => {
                collecting.overrides.entry(page).or_insert(old);
                space.changed.set(chunk);
            }
            None => space.changed.set(chunk),
        }
    }
}
