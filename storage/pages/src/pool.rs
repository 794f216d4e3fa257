//! The pool: a file of pages of which a part is in memory (vmcache).
//!
//! A page's number is its offset in one large mapping, so finding a page in memory is an addition.
//! Only the pages that are in memory have memory behind them: an evicted page's range is given
//! back to the kernel. The state words say which is which.
//!
//! ```text
//!  number ──► state word ──► in memory: mapping + number × PAGE
//!                       └──► evicted: entry (block, checksum) ──► file
//! ```
//!
//! A page that is missing is read by whoever asks for it, with its latch held, into a block aside,
//! which is verified and then copied to its place. Room in memory is claimed before, so the budget
//! holds at every moment: it covers pages, state words, entries and the pool's own buffers.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_memory::{Mapping, prefetch_line};
use hedgerow_sync::Counters;
use hedgerow_vfs::{ReadAt, Vfs, VfsFile};

use crate::block::{self, Block};
use crate::budget;
use crate::checkpoint::{Published, Saved};
use crate::evict::{Evictor, batch_pages};
use crate::frame::Frame;
use crate::operations::Operations;
use crate::overlay::Overlay;
use crate::parking::Lots;
use crate::provider::PageId;
use crate::restart::{Error, Restart, Result};
use crate::space::{Bits, Blocks};
use crate::state::{Seen, StateWord};
use crate::table::{Entries, Entry};
use crate::tender::Wishes;

/// How to open a [`Pool`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for pages and what belongs to them, in bytes: a hard limit, but for recovery on a full
    /// disk ([`Pool::exceed_budget`]).
    pub budget_bytes: u64,
    /// Address space for this many pages is reserved: no more will fit the file.
    pub most_pages: u32,
    /// The database that the file belongs to. Written when the file is created, compared when it
    /// is opened.
    pub database: u64,
    /// Change nothing in the file: pages that are changed and evicted go to a scratch file, which is
    /// gone when the pool is dropped.
    pub read_only: bool,
    /// Open a damaged file to read what is left of it: pages that are lost are errors when they
    /// are asked for.
    pub salvage: bool,
}

impl Options {
    /// A budget, room for 2²⁸ pages (a tebibyte of 4 KiB), and the database 0.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            most_pages: 1 << 28,
            database: 0,
            read_only: false,
            salvage: false,
        }
    }
}

/// Events that a pool counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PoolStatistics {
    /// Pages read from the file.
    pub reads: u64,
    /// Batches of two or more of these, whose reads were under way at once.
    pub read_batches: u64,
    /// Pages written to the file.
    pub writes: u64,
    /// Writes that this took, of the table, too: neighbours in the file go with one.
    pub write_calls: u64,
    /// Pages whose memory was given back.
    pub evictions: u64,
    /// Pages written in vain, since they were changed meanwhile.
    pub wasted_writes: u64,
    /// Batches of evictions that tried clean pages first, since the disk was full a while before.
    pub clean_first_batches: u64,
    /// Copies of pages that a checkpoint still needed when they were changed.
    pub saved: u64,
    /// Checkpoints published.
    pub checkpoints: u64,
    /// Pages in memory now.
    pub resident: u64,
    /// Of those, changed since they were written.
    pub dirty: u64,
    /// Pages in use.
    pub live: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

pub(crate) const READS: usize = 0;
pub(crate) const WRITES: usize = 1;
pub(crate) const EVICTIONS: usize = 2;
pub(crate) const WASTED: usize = 3;
pub(crate) const SAVED: usize = 4;
pub(crate) const CHECKPOINTS: usize = 5;
pub(crate) const READ_BATCHES: usize = 6;
pub(crate) const WRITE_CALLS: usize = 7;
pub(crate) const CLEAN_BATCHES: usize = 8;

/// What changes under the pool's mutex, which nobody holds while reading or writing a file.
pub(crate) struct Space {
    pub(crate) blocks: Blocks,
    /// Page numbers that can be given out again.
    pub(crate) free: Vec<PageId>,
    /// Blocks of the table whose entries changed since the last checkpoint began.
    pub(crate) changed: Bits,
    /// The checkpoint under way.
    pub(crate) collecting: Option<Collecting>,
    /// Levels of the table above level 0, as published.
    pub(crate) levels: Vec<Vec<u64>>,
}

/// The table that a checkpoint will publish, as it differs from the one now.
pub(crate) struct Collecting {
    /// The parity of the epoch that is being collected.
    pub(crate) parity: bool,
    pub(crate) epoch: u64,
    pub(crate) overrides: HashMap<PageId, Entry>,
    /// Blocks of the table to be written.
    pub(crate) changed: Bits,
    /// Why the checkpoint must be given up.
    pub(crate) failed: Option<Error>,
}

/// A file of pages, and those of them that are in memory. Shared by threads; `&Pool` is a
/// [`Pages`](crate::Pages).
///
/// Dropping a pool forgets what was changed since the last [`checkpoint`](Self::checkpoint): that
/// is what a log is for.
pub struct Pool<const PAGE: usize> {
    pub(crate) memory: Mapping,
    /// As much from the start of it the kernel was asked to back by superpages.
    pub(crate) superpage_bytes: AtomicUsize,
    words: Mapping,
    pub(crate) entries: Entries,
    pub(crate) room: u32,
    /// Pages with a number below this one were in use at some time.
    pub(crate) used: AtomicU32,
    pub(crate) file: Box<dyn VfsFile>,
    pub(crate) path: PathBuf,
    pub(crate) parking: Lots,
    pub(crate) operations: Operations,
    /// Pages in memory, and claims to bring one there.
    pub(crate) resident: AtomicUsize,
    /// Those of them that differ from the file.
    pub(crate) dirty: AtomicUsize,
    /// Changes under way that may use up the reserve.
    pub(crate) spending: AtomicUsize,
    /// Those who may exceed the budget on a full disk, and by how many pages it is exceeded.
    pub(crate) exceeding: AtomicUsize,
    pub(crate) beyond: AtomicUsize,
    /// Batches of evictions to come that take clean pages first.
    pub(crate) clean_first: AtomicU32,
    pub(crate) budget_bytes: u64,
    /// Pages that are read or written together, at most.
    pub(crate) batch: usize,
    /// Pages' worth of the budget that is [lent](Self::lend).
    pub(crate) lent: AtomicUsize,
    /// Where the clock stands.
    pub(crate) hand: AtomicU32,
    /// Pages in memory that were called cold.
    pub(crate) cold: AtomicUsize,
    pub(crate) epoch: AtomicU64,
    pub(crate) space: Mutex<Space>,
    pub(crate) evictor: Mutex<Evictor<PAGE>>,
    /// Blocks that reads go to, kept for the next: fresh ones would cost a fault of the kernel each.
    spare: Mutex<Vec<Vec<Block<PAGE>>>>,
    pub(crate) saved: Mutex<Saved<PAGE>>,
    /// Held through a checkpoint.
    pub(crate) checkpointing: Mutex<Published>,
    pub(crate) holes: AtomicBool,
    pub(crate) counters: Counters<9>,
    pub(crate) database: u64,
    pub(crate) owner: Mutex<Vec<u8>>,
    pub(crate) wishes: Wishes,
}

/// The least number of pages that must fit the budget.
pub(crate) const LEAST_RESIDENT: u64 = 128;

/// Batches' worth of blocks that are kept for reads to come.
const MOST_SPARE: usize = 2;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these mutexes guard stays usable: nothing panics while it is half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<const PAGE: usize> Pool<PAGE> {
    /// Bytes from page to page in the mapping. The kernel gives memory back in its own pages, so
    /// smaller ones, which are for tests, are spread out; the budget counts `PAGE` bytes of each.
    const STRIDE: usize = if PAGE < 4096 { 4096 } else { PAGE };

    /// Opens a page file, or creates it if there is none.
    ///
    /// # Errors
    ///
    /// [`Error`] says what is wrong with the file, the budget or the machine.
    pub fn open(
        vfs: &Arc<dyn Vfs>,
        path: &Path,
        options: &Options,
    ) -> std::result::Result<Self, Error> {
        const { assert!(PAGE >= 1024 && PAGE <= 65536 && PAGE.is_power_of_two()) };
        let (mut file, root, slot) = crate::open::file_and_root::<PAGE>(vfs, path, options)?;
        if options.read_only {
            file = Box::new(Overlay::<PAGE>::new(vfs, file));
        }
        let room = options.most_pages.max(root.pages).max(1);
        let reserve = |bytes: usize| {
            Mapping::reserve(bytes).map_err(|source| Error::AddressSpace {
                bytes: bytes as u64,
                source,
            })
        };
        let memory = reserve(room as usize * Self::STRIDE)?;
        let words = reserve(room as usize * 8)?;
        let entries = Entries::reserve(room).map_err(|source| Error::AddressSpace {
            bytes: u64::from(room) * 8,
            source,
        })?;
        let loaded = crate::table::load::<PAGE>(&*file, path, &root, &entries, options.salvage)?;
        let batch = batch_pages(PAGE, options.budget_bytes);
        let pool = Self {
            memory,
            superpage_bytes: AtomicUsize::new(0),
            words,
            entries,
            room,
            used: AtomicU32::new(root.pages),
            file,
            path: path.to_path_buf(),
            parking: Lots::new(),
            operations: Operations::default(),
            resident: AtomicUsize::new(0),
            dirty: AtomicUsize::new(0),
            spending: AtomicUsize::new(0),
            exceeding: AtomicUsize::new(0),
            beyond: AtomicUsize::new(0),
            clean_first: AtomicU32::new(0),
            budget_bytes: options.budget_bytes,
            batch,
            lent: AtomicUsize::new(0),
            hand: AtomicU32::new(0),
            cold: AtomicUsize::new(0),
            epoch: AtomicU64::new(root.epoch + 1),
            space: Mutex::new(Space {
                blocks: loaded.blocks,
                free: loaded.free,
                changed: Bits::default(),
                collecting: None,
                levels: loaded.levels,
            }),
            evictor: Mutex::new(Evictor::new(batch)),
            spare: Mutex::default(),
            saved: Mutex::new(Saved::default()),
            checkpointing: Mutex::new(Published {
                slot,
                poisoned: None,
            }),
            holes: AtomicBool::new(true),
            counters: Counters::new(),
            database: root.database,
            owner: Mutex::new(root.owner.clone()),
            wishes: Wishes::default(),
        };
        pool.check_budget()?;
        pool.check_length(&root, options.salvage)?;
        if !options.read_only {
            crate::open::write_again::<PAGE>(&*pool.file, path, &root, slot)?;
        }
        pool.ask_for_superpages();
        Ok(pool)
    }

    fn check_budget(&self) -> std::result::Result<(), Error> {
        let minimum = self.fixed_bytes() + LEAST_RESIDENT * PAGE as u64;
        budget::check(&self.path, self.budget_bytes, minimum)
    }

    fn check_length(
        &self,
        root: &crate::root::Root,
        salvage: bool,
    ) -> std::result::Result<(), Error> {
        let found = self.file.len().map_err(|e| self.io("measure", e))?;
        let expected = block::offset::<PAGE>(root.blocks);
        if salvage || found >= expected {
            return Ok(());
        }
        let missing = |&page: &PageId| {
            let entry = self.entries.get(page);
            !entry.is_none() && block::offset::<PAGE>(entry.block() + 1) > found
        };
        match (0..root.pages).map(PageId).find(missing) {
            None => Ok(()),
            Some(page) => Err(Error::Truncated {
                file: self.path.clone(),
                found,
                expected,
                page,
            }),
        }
    }

    pub(crate) fn io(&self, operation: &'static str, source: std::io::Error) -> Error {
        let file = self.path.clone();
        Error::Io {
            operation,
            file,
            source,
        }
    }

    /// The error of a page that has its checksum, and yet makes no sense to the tree it is of.
    #[must_use]
    pub fn damaged(&self, page: PageId, what: &str) -> Error {
        let entry = self.entries.get(page);
        let at = if entry.is_none() { 0 } else { entry.block() };
        Error::CorruptPage {
            file: self.path.clone(),
            page,
            offset: block::offset::<PAGE>(at),
            what: what.to_owned(),
        }
    }

    pub(crate) fn numbers(&self) -> u64 {
        u64::from(self.used.load(Ordering::Relaxed))
    }

    /// What the budget covers besides pages.
    fn fixed_bytes(&self) -> u64 {
        budget::fixed_bytes(self.batch * PAGE, self.numbers())
    }

    /// How many pages may be in memory now.
    #[must_use]
    pub fn limit(&self) -> usize {
        let limit = self.limit_beside(self.lent.load(Ordering::Relaxed));
        limit + self.beyond.load(Ordering::Relaxed)
    }

    /// How many pages may be in memory while so many pages' worth is lent.
    pub(crate) fn limit_beside(&self, lent: usize) -> usize {
        let pages = self.budget_bytes.saturating_sub(self.fixed_bytes()) / PAGE as u64;
        let pages = pages.saturating_sub(lent as u64);
        usize::try_from(pages.max(LEAST_RESIDENT / 2)).unwrap_or(usize::MAX)
    }

    #[inline(always)]
    pub(crate) fn word(&self, page: PageId) -> &StateWord {
        assert!(page.0 < self.room);
        // SAFETY: within the mapping of `room` words, aligned; zeros are an evicted page's word,
        // and the mapping is only used as state words.
        unsafe {
            &*self
                .words
                .start()
                .as_ptr()
                .cast::<StateWord>()
                .add(page.0 as usize)
        }
    }

    #[inline(always)]
    pub(crate) fn place(&self, page: PageId) -> *mut u8 {
        assert!(page.0 < self.room);
        // SAFETY: within the mapping of `room` pages.
        unsafe {
            self.memory
                .start()
                .as_ptr()
                .add(page.0 as usize * Self::STRIDE)
        }
    }

    #[inline(always)]
    pub(crate) fn frame(&self, page: PageId) -> Frame<'_, PAGE> {
        let words = self.place(page).cast::<AtomicU64>();
        // SAFETY: PAGE bytes of the mapping, aligned. Who writes to them otherwise than through
        // a frame is the kernel, in `discard`, and then a load sees the old bytes or zeros.
        Frame::new(unsafe { std::slice::from_raw_parts(words, PAGE / 8) })
    }

    /// Asks for the lines where bytes of a page are and for its state, without a look at either: for
    /// one that is about to be [noted](crate::Pages::optimistic) or latched, so that all arrive after
    /// one latency. A hint: whether there is such a page, and whether it is in memory, matters not.
    #[inline(always)]
    pub fn prefetch_lines(&self, page: PageId, bytes: Range<usize>) {
        let start = self.memory.start().as_ptr();
        let page_start = start.wrapping_add(page.0 as usize * Self::STRIDE);
        for at in bytes.step_by(64) {
            prefetch_line(page_start.wrapping_add(at));
        }
        let words = self.words.start().as_ptr().cast::<u64>();
        prefetch_line(words.wrapping_add(page.0 as usize));
    }

    /// Gives the memory of pages back, which the caller has latched exclusively, and says so.
    /// Sorts them, to give neighbours back at once.
    pub(crate) fn discard(&self, pages: &mut [PageId]) {
        pages.sort_unstable();
        let of_run = |run: &[PageId]| {
            let start = run[0].0 as usize * Self::STRIDE;
            start..start + run.len() * Self::STRIDE
        };
        let runs = pages.chunk_by(|a, b| a.0 + 1 == b.0);
        let ranges: Vec<_> = runs.map(of_run).collect();
        // SAFETY: all pages are latched exclusively by the caller, who uses them no more; others
        // may only look at them through frames, atomically.
        unsafe { self.memory.discard_all(&ranges) };
        for &page in pages.iter() {
            self.evicted(page);
        }
        self.resident.fetch_sub(pages.len(), Ordering::Relaxed);
    }

    /// Ends the exclusive latch of a page that has no memory (any more).
    pub(crate) fn evicted(&self, page: PageId) {
        let word = self.word(page);
        let seen = word.note();
        // Nobody cleans a page that is latched exclusively, or calls it cold but its holder.
        if seen.is_dirty() {
            self.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        if seen.is_cold() {
            self.cold.fetch_sub(1, Ordering::Relaxed);
        }
        if word.evict() {
            word.wake(&self.parking);
        }
    }

    /// Claims room for a page in memory, evicting others if need be.
    pub(crate) fn claim(&self) -> std::result::Result<(), Error> {
        loop {
            let claimed = self.resident.fetch_add(1, Ordering::Relaxed);
            if claimed < self.limit() {
                self.tell(claimed);
                return Ok(());
            }
            self.resident.fetch_sub(1, Ordering::Relaxed);
            self.evict_some()?;
        }
    }

    /// Claims room for a page if there is some without evicting another.
    fn claim_free(&self) -> bool {
        let claimed = self.resident.fetch_add(1, Ordering::Relaxed);
        let has_room = claimed < self.limit();
        if has_room {
            self.tell(claimed);
        } else {
            self.unclaim();
        }
        has_room
    }

    /// Says that a page, of which the caller has a latch, is less likely to be used again soon than
    /// those of which nobody says so, until it is evicted. When memory is scarce it is looked at four
    /// times as often. Costs a look at the page's state, and a change of it the first time.
    pub fn demote(&self, page: PageId) {
        let word = self.word(page);
        if !word.note().is_cold() && word.set_cold() {
            self.cold.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether some page may be out of memory, so that asking for several together can help. Cheap,
    /// and wrongly true while numbers are free.
    #[must_use]
    pub fn may_miss(&self) -> bool {
        self.resident.load(Ordering::Relaxed) < self.used.load(Ordering::Relaxed) as usize
    }

    /// Whether a page is in memory now, or on its way there, so that it is not worth while to put its
    /// use off. A hint, and cheap.
    #[must_use]
    pub fn is_resident(&self, page: PageId) -> bool {
        page.0 < self.used.load(Ordering::Relaxed) && !self.word(page).note().is_evicted()
    }

    pub(crate) fn unclaim(&self) {
        self.resident.fetch_sub(1, Ordering::Relaxed);
    }

    /// Brings a page to memory that was seen evicted; returns early if another thread does.
    #[cold]
    pub(crate) fn load(&self, page: PageId, seen: Seen) -> Result<()> {
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
        while !rest.is_empty() {
            let (wanted, looked) = self.latch_missing(rest);
            if !wanted.is_empty() {
                self.read_all(wanted);
            }
            rest = &rest[looked..];
        }
    }

    /// Latches pages that are not in memory, to bring them there: a batch of them at most, with how
    /// many pages were looked at. Once there is one, it takes only room that is free: whoever waits
    /// for others to be evicted must have no page that those wait for.
    fn latch_missing(&self, pages: &[PageId]) -> (Vec<(PageId, Entry)>, usize) {
        let used = self.used.load(Ordering::Relaxed);
        let is_missing = |&page: &PageId| {
            page.0 < used
                && self.word(page).note().is_evicted()
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
            let seen = self.word(page).note();
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
            // Whoever asks for a page that cannot be read gets the error.
            let _ = self.finish_load(page, entry, block, result);
        }
        let mut spare = lock(&self.spare);
        if spare.len() < MOST_SPARE {
            spare.push(blocks);
        }
    }

    /// The bytes that the owner gave to the root with the last checkpoint (or found there).
    #[must_use]
    pub fn owner(&self) -> Vec<u8> {
        lock(&self.owner).clone()
    }

    /// What happened so far, and how things stand.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        let space = lock(&self.space);
        PoolStatistics {
            dirty: self.dirty.load(Ordering::Relaxed) as u64,
            reads: self.counters.sum(READS),
            read_batches: self.counters.sum(READ_BATCHES),
            writes: self.counters.sum(WRITES),
            write_calls: self.counters.sum(WRITE_CALLS),
            evictions: self.counters.sum(EVICTIONS),
            wasted_writes: self.counters.sum(WASTED),
            clean_first_batches: self.counters.sum(CLEAN_BATCHES),
            saved: self.counters.sum(SAVED),
            checkpoints: self.counters.sum(CHECKPOINTS),
            resident: self.resident.load(Ordering::Relaxed) as u64,
            live: self.numbers() - space.free.len() as u64,
            file_bytes: block::offset::<PAGE>(space.blocks.end),
        }
    }
}
