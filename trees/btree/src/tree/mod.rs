//! The tree that the database runs: on a buffer pool, for many threads at once.
//!
//! The pages are those of [`BTree`](crate::BTree), byte for byte, and so is the code that reads
//! and changes one of them. This module is the tree above them: how threads descend through pages
//! that other threads change and that the pool evicts.
//!
//! **Readers** descend optimistically. A reader takes a version snapshot of a parent, reads the
//! child's number, takes a snapshot of the child, and then validates the parent's snapshot. So the
//! child was the right one when its snapshot was taken, and the reader needs the parent no more. A
//! lookup reads a leaf under its snapshot alone, and with it a value of up to 64 bytes. Longer
//! values, chains of overflow pages and the names of layers are read under the leaf's shared latch.
//! A scan copies the used bytes of a leaf and visits the copy without any latch.
//!
//! **Writers** descend in the same way, begin their operation, latch the leaf, and validate the
//! parent's snapshot. A writer puts or removes a record in place
//! ([`Edit`](crate::node::edit::Edit)), while optimistic readers may be reading the page. A
//! larger change is made in a copy of the page, and the lines that differ are then stored.
//!
//! **Splits** latch the node, make its right half in a new page, and only then latch the parent,
//! which gets the separator; the node becomes the left half when the parent's latch is gone.
//! Between descent and latch others may have split the leaf, or its page may be another's by now:
//! so the parent's snapshot must hold when the leaf is latched. It need not hold any more when the
//! parent is. **Widenings**, which follow when a leaf became fully dense, latch the parent of the
//! latched leaf in the same way, and then neighbours to the right.
//! **Merges** latch the parent first, if its snapshot still holds, and then the children concerned
//! from left to right. A root never changes its number: its content moves to or from the page
//! below.
//!
//! **No deadlock.** A thread that waits for a latch holds only latches of pages *above* it, or *to
//! its left* below a parent that the thread has latched exclusively. An inner node is above its
//! children, a leaf above the roots of the layers that it names and above the pages of its chains,
//! of which one at a time is latched. Splits and widenings never wait for a parent: they give up
//! where another thread has it for more than a moment. An operation begins
//! before its first latch, so a checkpoint that waits for operations never waits behind a latch.
//! The pool evicts without waiting.
//!
//! **Restarts** are values. Where bytes make no sense although the snapshot of their page holds,
//! the page is damaged, and the operation fails with that error. So a damaged page makes no
//! operation restart for ever. Operations that restart often yield, then sleep.

mod adapt;
mod chains;
mod contention;
pub(crate) mod counts;
mod descend;
mod get_many;
mod group;
mod index;
pub(crate) mod lost;
mod merge;
mod pending_frees;
mod prefetched;
mod range_frees;
mod read;
mod remove_range;
mod restructure;
mod root_digest;
mod scan;
mod scan_buffers;
mod scan_prefetch;
mod statistics;
mod value_copies;
pub(crate) mod verify;
pub(crate) mod walk;
mod write;

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hedgerow_pages::{Error, ExclusiveLatch, Operation, PageId, Pages, Pool, Stop, ViewMut};
use hedgerow_simd::Level;
use hedgerow_sync::{Counters, StripedCounter};

use self::contention::Contention;
use self::pending_frees::PendingFrees;
use self::root_digest::RootDigest;
use crate::configuration::{Adaptive, Configuration};
use crate::node::adapt::Conversions;
use crate::node::key::{CutKey, key_prefix_bytes};
use crate::node::page::{Image, node};
use crate::node::shared_overflow::KnownFreeSlots;

/// An ordered map from byte strings to byte strings on the pages of a pool, for any number of
/// threads.
///
/// A pool can have several trees. Each is known by the number of its root, which never changes,
/// and by how many keys it has; both belong to what a checkpoint keeps.
///
/// A method that fails has changed nothing, and the tree can be used further: a page that cannot
/// be read fails those operations that need it.
pub struct BTreeIndex<C = Adaptive, const PAGE: usize = 4096> {
    pool: Arc<Pool<PAGE>>,
    root: PageId,
    /// None while the root is a leaf, and a little longer.
    root_digest: OnceLock<RootDigest>,
    /// No other tree of this process has it.
    number: u64,
    /// For which processors descents of many keys are compiled.
    level: Level,
    /// Striped: one counter would be a cache line that each insertion takes from all other threads,
    /// and with it the fields beside it, which every descent reads.
    keys: StripedCounter,
    events: Counters<9>,
    /// None where leaves are not to be split for this.
    contention: Option<Contention>,
    conversions: Mutex<Conversions>,
    known_slots: Mutex<KnownFreeSlots>,
    pending_frees: PendingFrees,
    configuration: PhantomData<fn() -> C>,
}

const RESTARTS: usize = 0;
const SPLITS: usize = 1;
const MERGES: usize = 2;
const RANGE_LEAVES: usize = 3;
const CONTENTION_SPLITS: usize = 4;
const DEFERRED_SLOT_FREES: usize = 5;
const FREED_SLOT_PAGES: usize = 6;
const REMOVALS: usize = 7;
const ADAPTED_LEAVES: usize = 8;

/// Attempts that only spin in between, and those after which a thread sleeps.
const SPINNING: u32 = 6;
const YIELDING: u32 = 100;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    const KEY_PREFIX_BYTES: usize = key_prefix_bytes::<C, PAGE>();

    /// Makes an empty tree.
    ///
    /// # Errors
    ///
    /// What the pool says when it has no page to give.
    pub fn create(pool: Arc<Pool<PAGE>>) -> Result<Self, Error> {
        const { assert!(Self::KEY_PREFIX_BYTES >= 12, "the page is too small") };
        let root = {
            let mut handle = &*pool;
            let operation = handle.begin();
            let mut latch = handle.allocate(&operation).map_err(failure)?;
            let mut image = Image::<PAGE>::zeroed();
            image.start::<C>();
            Pages::touch(&mut handle, &mut latch).take_lines(0..PAGE, image.image());
            handle.id(&latch)
        };
        Ok(Self::open(pool, root, 0))
    }

    /// The tree that has this root and so many keys, as a checkpoint kept them.
    #[must_use]
    pub fn open(pool: Arc<Pool<PAGE>>, root: PageId, len: u64) -> Self {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
        let keys = StripedCounter::new();
        keys.add(len.cast_signed());
        Self {
            pool,
            root,
            root_digest: OnceLock::new(),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            level: Level::detect(),
            keys,
            events: Counters::new(),
            contention: Some(Contention::new()),
            conversions: Mutex::default(),
            known_slots: Mutex::default(),
            pending_frees: PendingFrees::default(),
            configuration: PhantomData,
        }
    }

    /// The same tree, whose leaves are not split when writers wait for them (§7.3), to measure
    /// what that brings.
    #[must_use]
    pub fn without_contention_splits(mut self) -> Self {
        self.contention = None;
        self
    }

    /// The page of the root.
    #[must_use]
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The pool that the tree's pages are in.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool<PAGE>> {
        &self.pool
    }

    /// How many keys there are. It changes within the operations that a checkpoint waits for: its
    /// `owner` sees the number that belongs to the pages.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.keys.sum()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn cut(key: &[u8]) -> CutKey<'_> {
        CutKey::at(key, Self::KEY_PREFIX_BYTES)
    }

    /// Runs an attempt until it succeeds or fails for good.
    #[inline(always)]
    fn repeat<R>(
        &self,
        mut attempt: impl FnMut() -> hedgerow_pages::Result<R>,
    ) -> Result<R, Error> {
        let mut restarts = 0;
        loop {
            match attempt() {
                Ok(result) => return Ok(result),
                Err(Stop::Restart) => self.pause(&mut restarts),
                Err(Stop::Failed(error)) => return Err(*error),
            }
        }
    }

    /// Waits a moment for the threads that made an attempt restart.
    #[cold]
    fn pause(&self, restarts: &mut u32) {
        self.events.count(RESTARTS);
        *restarts += 1;
        if *restarts < SPINNING {
            (0..1 << *restarts).for_each(|_| std::hint::spin_loop());
        } else if *restarts < YIELDING {
            std::thread::yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }

    fn known_slots(&self) -> MutexGuard<'_, KnownFreeSlots> {
        // Hints.
        self.known_slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn conversions(&self) -> MutexGuard<'_, Conversions> {
        // Counts, right after any panic.
        self.conversions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a latched page will be changed. Afterwards [`store`](Self::store) cannot fail.
    fn prepare<'p>(
        &'p self,
        latch: &mut ExclusiveLatch<'p, PAGE>,
        operation: &Operation<'p>,
    ) -> hedgerow_pages::Result<()> {
        let mut pool = &*self.pool;
        Pages::change(&mut pool, latch, operation)?;
        Ok(())
    }

    /// [`prepare`](Self::prepare) for a removal, which may use up what other changes may not when
    /// the disk is full.
    #[inline(always)]
    fn prepare_removal<'p>(
        &'p self,
        latch: &mut ExclusiveLatch<'p, PAGE>,
        operation: &Operation<'p>,
    ) -> hedgerow_pages::Result<()> {
        match self.prepare(latch, operation) {
            Err(Stop::Failed(error)) if error.is_disk_full() => {
                self.pool.enforce_dirty_limit_for_removal(latch)?;
                let _reserve_use = self.pool.allow_reserve_use();
                self.prepare(latch, operation)
            }
            prepared => prepared,
        }
    }

    /// Makes a latched page another node, but for the bytes that are unused there.
    fn store_node<'p>(&'p self, latch: &mut ExclusiveLatch<'p, PAGE>, image: &Image<PAGE>) {
        let mut pool = &*self.pool;
        let (mut page, unused) = (Pages::touch(&mut pool, latch), image.unused::<C>());
        page.take_lines(0..unused.start, image.image());
        page.take_lines(unused.end..PAGE, image.image());
    }

    /// Makes a latched page another.
    fn store<'p>(&'p self, latch: &mut ExclusiveLatch<'p, PAGE>, image: &Image<PAGE>) {
        let mut pool = &*self.pool;
        Pages::touch(&mut pool, latch).take_lines(0..PAGE, image.image());
    }
}

/// A latched page as a node.
#[inline(always)]
fn image<'l, const PAGE: usize>(latch: &'l ExclusiveLatch<'_, PAGE>) -> &'l Image<PAGE> {
    node(latch.image())
}

/// The failure behind a stop where no other thread can be the cause.
fn failure(stop: Stop) -> Error {
    match stop {
        Stop::Failed(error) => *error,
        Stop::Restart => unreachable!("nobody else knows of the page"),
    }
}

impl<C, const PAGE: usize> fmt::Debug for BTreeIndex<C, PAGE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BTreeIndex")
            .field("root", &self.root)
            .field("len", &self.keys.sum())
            .finish_non_exhaustive()
    }
}
