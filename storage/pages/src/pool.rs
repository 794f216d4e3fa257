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
//! The thread that asks for a missing page claims room in memory, evicting others if need be, and
//! then reads the page under its latch. So the budget holds at every moment: it covers pages, state
//! words, entries and the pool's own buffers.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_memory::{Mapping, prefetch_line};
use hedgerow_sync::Counters;
use hedgerow_vfs::{Vfs, VfsFile};

use crate::block::{self, Block};
use crate::bookkeeping::{Published, Saved, Space};
use crate::budget::{self, LEAST_RESIDENT, batch_pages};
use crate::error::Error;
use crate::frame::Frame;
use crate::open::{OpenFile, file_and_root, write_again};
use crate::operations::Operations;
use crate::options::Options;
use crate::overlay::Overlay;
use crate::page_id::PageId;
use crate::parking::ParkingSlots;
use crate::prefetch_queue::PrefetchQueue;
use crate::state::StateWord;
use crate::statistics::{
    CHECKPOINTS, CLEAN_BATCHES, EVICTIONS, PoolStatistics, READ_BATCHES, READS, SAVED, WASTED,
    WRITE_CALLS, WRITES,
};
use crate::table::{self, Entries, Loaded};
use crate::write_batch::Evictor;

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
    /// Whether the file is somebody else's by now: see [`Pool::close_file`].
    pub(crate) is_closed: AtomicBool,
    pub(crate) path: PathBuf,
    pub(crate) parking: ParkingSlots,
    pub(crate) operations: Operations,
    /// Pages in memory, and claims to bring one there.
    pub(crate) resident: AtomicUsize,
    /// Those of them that differ from the file.
    pub(crate) dirty: AtomicUsize,
    /// Changes under way that may use up the reserve.
    pub(crate) reserve_uses: AtomicUsize,
    /// Free blocks with space beyond what the next checkpoint needs, at least.
    pub(crate) spare_backed: AtomicI64,
    /// Whether disk space can be reserved behind the file's end.
    pub(crate) can_reserve: AtomicBool,
    /// How many [`BudgetExemption`](crate::BudgetExemption) guards exist, and by how many pages the
    /// budget is exceeded.
    pub(crate) budget_exemptions: AtomicUsize,
    pub(crate) beyond: AtomicUsize,
    /// Batches of evictions to come that take clean pages first.
    pub(crate) clean_first: AtomicU32,
    pub(crate) budget_bytes: u64,
    /// Pages that are read or written together, at most.
    pub(crate) batch: usize,
    /// How many pages of the budget are [reserved](Self::reserve_memory).
    pub(crate) reserved_pages: AtomicUsize,
    /// Where the clock stands.
    pub(crate) hand: AtomicU32,
    /// Pages in memory that were called cold.
    pub(crate) cold: AtomicUsize,
    pub(crate) epoch: AtomicU64,
    pub(crate) space: Mutex<Space>,
    pub(crate) evictor: Mutex<Evictor<PAGE>>,
    /// Blocks that reads go to, kept for the next: fresh ones would cost a fault of the kernel
    /// each.
    pub(crate) spare: Mutex<Vec<Vec<Block<PAGE>>>>,
    pub(crate) saved: Mutex<Saved<PAGE>>,
    /// Held through a checkpoint.
    pub(crate) checkpointing: Mutex<Published<PAGE>>,
    pub(crate) holes: AtomicBool,
    pub(crate) counters: Counters<9>,
    pub(crate) database: u64,
    pub(crate) owner: Mutex<Vec<u8>>,
    pub(crate) prefetch_queue: PrefetchQueue,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these mutexes guard stays usable: nothing panics while it is half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool is opened with address space for no fewer pages than these: 4 GiB of 4 KiB.
const LEAST_ROOM: u32 = 1 << 20;

/// The addresses of a pool's pages, of their state words and of their entries.
struct AddressSpace {
    memory: Mapping,
    words: Mapping,
    entries: Entries,
    /// How many pages there are addresses for.
    room: u32,
}

impl AddressSpace {
    /// Room for `most` pages, or for half of that, and so on, but no less than for `least`: where
    /// the address space of the process is bounded (`ulimit -v`, Valgrind), files that fit are
    /// opened none the less.
    fn reserve_within(least: u32, most: u32, stride: usize) -> Result<Self, Error> {
        let mut room = most;
        loop {
            match Self::reserve(room, stride) {
                Err(Error::AddressSpace { .. }) if room > least => room = least.max(room / 2),
                outcome => return outcome,
            }
        }
    }

    /// Reserves addresses for `room` pages, `stride` bytes apart.
    fn reserve(room: u32, stride: usize) -> Result<Self, Error> {
        let refused = |bytes: usize| {
            let bytes = bytes as u64;
            move |source| Error::AddressSpace { bytes, source }
        };
        let reserve = |bytes| Mapping::reserve(bytes).map_err(refused(bytes));
        Ok(Self {
            memory: reserve(room as usize * stride)?,
            words: reserve(room as usize * 8)?,
            entries: Entries::reserve(room).map_err(refused(room as usize * 8))?,
            room,
        })
    }
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
    pub fn open(vfs: &Arc<dyn Vfs>, path: &Path, options: &Options) -> Result<Self, Error> {
        const { assert!(PAGE >= 1024 && PAGE <= 65536 && PAGE.is_power_of_two()) };
        let mut open = file_and_root::<PAGE>(vfs, path, options)?;
        if options.read_only {
            open.file = Box::new(Overlay::<PAGE>::new(vfs, open.file));
        }
        let (root, slot) = (open.root.clone(), open.slot);
        let most = options.most_pages.max(root.pages).max(1);
        let least = root.pages.saturating_mul(2).max(LEAST_ROOM).min(most);
        let addresses = AddressSpace::reserve_within(least, most, Self::STRIDE)?;
        let entries = &addresses.entries;
        let table = table::load::<PAGE>(&*open.file, path, &root, entries, options.salvage)?;
        let pool = Self::new(path, options, open, addresses, table);
        pool.check_budget()?;
        let blocks = pool.check_length(&root, options.salvage)?;
        // What is to be salvaged may have blocks in use behind the end.
        if !options.salvage {
            lock(&pool.space).blocks.cut_to(blocks);
        }
        if !options.read_only {
            write_again::<PAGE>(&*pool.file, path, &root, slot)?;
        }
        pool.ask_for_superpages();
        Ok(pool)
    }

    /// A pool with no page in memory.
    fn new(
        path: &Path,
        options: &Options,
        open: OpenFile,
        addresses: AddressSpace,
        table: Loaded,
    ) -> Self {
        let batch = batch_pages(PAGE, options.budget_bytes);
        Self {
            memory: addresses.memory,
            superpage_bytes: AtomicUsize::new(0),
            words: addresses.words,
            entries: addresses.entries,
            room: addresses.room,
            used: AtomicU32::new(open.root.pages),
            file: open.file,
            is_closed: AtomicBool::new(false),
            path: path.to_path_buf(),
            parking: ParkingSlots::new(),
            operations: Operations::default(),
            resident: AtomicUsize::new(0),
            dirty: AtomicUsize::new(0),
            reserve_uses: AtomicUsize::new(0),
            spare_backed: AtomicI64::new(0),
            can_reserve: AtomicBool::new(!options.read_only),
            budget_exemptions: AtomicUsize::new(0),
            beyond: AtomicUsize::new(0),
            clean_first: AtomicU32::new(0),
            budget_bytes: options.budget_bytes,
            batch,
            reserved_pages: AtomicUsize::new(0),
            hand: AtomicU32::new(0),
            cold: AtomicUsize::new(0),
            epoch: AtomicU64::new(open.root.epoch + 1),
            space: Mutex::new(Space::new(table)),
            evictor: Mutex::new(Evictor::new(batch)),
            spare: Mutex::default(),
            saved: Mutex::new(Saved::default()),
            checkpointing: Mutex::new(Published {
                slot: open.slot,
                refused: None,
                poisoned: None,
            }),
            holes: AtomicBool::new(true),
            counters: Counters::new(),
            database: open.root.database,
            owner: Mutex::new(open.root.owner),
            prefetch_queue: PrefetchQueue::default(),
        }
    }

    /// Whether a file that is yet to be made could be worked with in the budget of these options.
    ///
    /// # Errors
    ///
    /// [`Error::BudgetTooSmall`].
    pub fn check_budget_of_new(path: &Path, options: &Options) -> Result<(), Error> {
        let batch = batch_pages(PAGE, options.budget_bytes);
        let minimum = budget::fixed_bytes(batch * PAGE, 0) + LEAST_RESIDENT * PAGE as u64;
        budget::check(path, options.budget_bytes, minimum)
    }

    fn check_budget(&self) -> Result<(), Error> {
        let minimum = self.fixed_bytes() + LEAST_RESIDENT * PAGE as u64;
        budget::check(&self.path, self.budget_bytes, minimum)
    }

    /// Checks that the file is as long as its pages need; how many whole blocks it has.
    fn check_length(&self, root: &crate::root::Root, salvage: bool) -> Result<u32, Error> {
        let found = self.file.len().map_err(|e| self.io("measure", e))?;
        let expected = block::offset::<PAGE>(root.blocks);
        let blocks = u32::try_from(found / PAGE as u64).unwrap_or(u32::MAX);
        if salvage || found >= expected {
            return Ok(blocks);
        }
        let missing = |&page: &PageId| {
            let entry = self.entries.get(page);
            !entry.is_none() && block::offset::<PAGE>(entry.block() + 1) > found
        };
        match (0..root.pages).map(PageId).find(missing) {
            None => Ok(blocks),
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
        let limit = self.limit_beside(self.reserved_pages.load(Ordering::Relaxed));
        limit + self.beyond.load(Ordering::Relaxed)
    }

    /// How many pages may be in memory while so many pages are reserved for something else.
    pub(crate) fn limit_beside(&self, reserved: usize) -> usize {
        let pages = self.budget_bytes.saturating_sub(self.fixed_bytes()) / PAGE as u64;
        let pages = pages.saturating_sub(reserved as u64);
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

    /// Prefetches the lines where bytes of a page are, and its state, without a look at either: for
    /// a page of which the caller is about to take a [snapshot](crate::Pages::optimistic) or a
    /// latch, so that all arrive after one latency. A hint: the page need neither exist nor be in
    /// memory.
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
        let seen = word.snapshot();
        // While a page is latched exclusively, only the thread with the latch marks it clean or
        // cold.
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
    pub(crate) fn claim(&self) -> Result<(), Error> {
        loop {
            let claimed = self.resident.fetch_add(1, Ordering::Relaxed);
            if claimed < self.limit() {
                self.wake_cleaner(claimed);
                return Ok(());
            }
            self.resident.fetch_sub(1, Ordering::Relaxed);
            self.evict_some()?;
        }
    }

    /// Claims room for a page if there is some without evicting another.
    pub(crate) fn claim_free(&self) -> bool {
        let claimed = self.resident.fetch_add(1, Ordering::Relaxed);
        let has_room = claimed < self.limit();
        if has_room {
            self.wake_cleaner(claimed);
        } else {
            self.unclaim();
        }
        has_room
    }

    /// Calls a page, which the caller has latched, cold until it is evicted: it is less likely than
    /// others to be used again soon. When memory is scarce, the clock visits it four times as
    /// often. Costs a load of the page's state, and a change of it the first time.
    pub fn demote(&self, page: PageId) {
        let word = self.word(page);
        if !word.snapshot().is_cold() && word.set_cold() {
            self.cold.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether some page may be out of memory, so that asking for several together can help. Cheap,
    /// and wrongly true while numbers are free.
    #[must_use]
    pub fn may_miss(&self) -> bool {
        self.resident.load(Ordering::Relaxed) < self.used.load(Ordering::Relaxed) as usize
    }

    /// Whether a page is in memory now, or on its way there, so that it is not worth while to put
    /// its use off. A hint, and cheap.
    #[must_use]
    pub fn is_resident(&self, page: PageId) -> bool {
        page.0 < self.used.load(Ordering::Relaxed) && !self.word(page).snapshot().is_evicted()
    }

    pub(crate) fn unclaim(&self) {
        self.resident.fetch_sub(1, Ordering::Relaxed);
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
