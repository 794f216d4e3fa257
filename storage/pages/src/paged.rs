//! The pool as a provider of pages: a latch on a page that is not in memory first loads it.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::frame::{Frame, FrameMut};
use crate::operations::Operation;
use crate::page_id::PageId;
use crate::pool::{Pool, lock};
use crate::provider::Pages;
use crate::restart::{Restart, Result};
use crate::state::{PageState, ReadableState};
use crate::table::{Entry, fan};
use crate::view::{Image, ViewMut};

/// Attempts at a latch by a caller that will not wait for it.
const MOST_TRIES: u32 = 64;
/// Rounds in which a writer finds others at a page before it keeps more from sharing it: most are
/// there for a moment only.
const ROUNDS_BEFORE_RESERVING: u32 = 16;

/// A version snapshot: a page of a [`Pool`] and its state as an optimistic reader took it.
#[derive(Clone, Copy, Debug)]
pub struct VersionSnapshot {
    page: PageId,
    state: ReadableState,
}

impl VersionSnapshot {
    /// Whether another thread was writing to the page when the snapshot was asked for, so that the
    /// reader waited for it.
    #[inline(always)]
    #[must_use]
    pub fn waited(&self) -> bool {
        self.state.waited()
    }

    /// The page's version: snapshots of a page with the same version are of the same bytes.
    #[inline(always)]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.state.of_page().version()
    }
}

/// A shared latch on a page of a [`Pool`].
pub struct SharedLatch<'p, const PAGE: usize> {
    pool: &'p Pool<PAGE>,
    page: PageId,
}

/// An exclusive latch on a page of a [`Pool`].
pub struct ExclusiveLatch<'p, const PAGE: usize> {
    pool: &'p Pool<PAGE>,
    page: PageId,
    changed: bool,
    /// Whether another thread had the page when this was asked for.
    waited: bool,
}

impl<const PAGE: usize> SharedLatch<'_, PAGE> {
    /// The bytes of the page.
    #[inline(always)]
    #[must_use]
    pub fn image(&self) -> &Image<PAGE> {
        // SAFETY: PAGE bytes of the mapping, aligned to 4096, any bytes are an image. The latch
        // is borrowed, and while it is held nobody writes to the page or discards it.
        unsafe { &*self.pool.place(self.page).cast() }
    }
}

impl<const PAGE: usize> ExclusiveLatch<'_, PAGE> {
    pub(crate) fn is_dirty(&self) -> bool {
        self.pool.word(self.page).snapshot().is_dirty()
    }

    /// Whether another thread had the page when this latch was asked for.
    #[inline(always)]
    #[must_use]
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// The bytes of the page.
    #[inline(always)]
    #[must_use]
    pub fn image(&self) -> &Image<PAGE> {
        // SAFETY: as for a shared latch; the only one who could write is the holder of the latch,
        // which is borrowed, and needs it mutably for that.
        unsafe { &*self.pool.place(self.page).cast() }
    }
}

impl<const PAGE: usize> Drop for SharedLatch<'_, PAGE> {
    #[inline]
    fn drop(&mut self) {
        let word = self.pool.word(self.page);
        if word.unlock_shared() {
            word.wake(&self.pool.parking);
        }
    }
}

impl<const PAGE: usize> Drop for ExclusiveLatch<'_, PAGE> {
    #[inline]
    fn drop(&mut self) {
        let word = self.pool.word(self.page);
        if word.unlock_exclusive(self.changed) {
            word.wake(&self.pool.parking);
        }
    }
}

impl<const PAGE: usize> fmt::Debug for ExclusiveLatch<'_, PAGE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exclusive latch on {}", self.page)
    }
}

impl<const PAGE: usize> fmt::Debug for SharedLatch<'_, PAGE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shared latch on {}", self.page)
    }
}

impl<const PAGE: usize> Pool<PAGE> {
    fn check_used(&self, page: PageId) -> std::result::Result<(), Restart> {
        if page.0 < self.used.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    /// Repeats `attempt` on the state of a page in memory until it has what it wants, bringing the
    /// page there and waiting while `blocked`.
    #[inline(always)]
    fn latch<T>(
        &self,
        page: PageId,
        blocked: fn(PageState) -> bool,
        mut attempt: impl FnMut(PageState) -> Option<T>,
    ) -> Result<T> {
        self.check_used(page)?;
        let word = self.word(page);
        let mut attempts = 0;
        loop {
            let seen = word.snapshot();
            if let Some(got) = attempt(seen) {
                return Ok(got);
            }
            if seen.is_evicted() {
                self.load(page, seen)?;
            } else {
                word.wait(&self.parking, &mut attempts, blocked);
            }
        }
    }

    /// A number that is not in use, and room for its page.
    fn take_number(&self) -> Result<PageId> {
        self.claim()?;
        let mut space = lock(&self.space);
        if let Some(page) = space.free.pop() {
            return Ok(page);
        }
        let used = self.used.load(Ordering::Relaxed);
        if used == self.room {
            drop(space);
            self.unclaim();
            let pages = u64::from(used);
            return Err(Error::OutOfPages { pages }.into());
        }
        self.used.store(used + 1, Ordering::Release);
        drop(space);
        self.follow_use(used as usize + 1);
        Ok(PageId(used))
    }

    /// Takes the content of a page out of the table, as it is from now on.
    fn forget(&self, page: PageId) {
        let mut space = lock(&self.space);
        let old = self.entries.get(page);
        self.entries.set(page, Entry::NONE);
        if let Some(collecting) = &mut space.collecting {
            collecting.overrides.entry(page).or_insert(old);
        }
        if !old.is_none() {
            space.changed.set(page.0 / fan(PAGE) as u32);
            if old != Entry::LOST {
                space.blocks.give(old.block());
            }
        }
    }

    /// Gives back a page to which nothing refers any more, as [`Pages::release`] does, but by its
    /// number: a page that is not in memory is not brought there.
    ///
    /// # Errors
    ///
    /// [`Stop::Restart`](crate::Stop::Restart) says that the page is not in use.
    pub fn release_by_id<'p>(&'p self, id: PageId, operation: &Operation<'p>) -> Result<()> {
        self.check_used(id)?;
        let (word, mut attempts) = (self.word(id), 0);
        loop {
            let seen = word.snapshot();
            if seen.is_free() && word.try_exclusive(seen) {
                let latch = ExclusiveLatch {
                    pool: self,
                    page: id,
                    changed: false,
                    waited: false,
                };
                let mut pool = self;
                return Pages::release(&mut pool, latch, operation);
            }
            if !seen.is_evicted() {
                word.reserve(seen);
                word.wait(&self.parking, &mut attempts, PageState::blocks_writing);
            } else if word.try_load(seen) {
                // Latched, and without memory: what the file has of it is all there is.
                let in_use = !self.entries.get(id).is_none();
                if in_use {
                    self.forget(id);
                }
                self.evicted(id);
                if !in_use {
                    return Err(Restart.into());
                }
                lock(&self.space).free.push(id);
                return Ok(());
            }
        }
    }

    /// Whether a page that the caller has for itself, and has not changed yet, is what it was when
    /// a version snapshot was taken.
    #[must_use]
    pub fn is_unchanged(&self, page: &ExclusiveLatch<'_, PAGE>, since: &VersionSnapshot) -> bool {
        let version = self.word(page.page).snapshot().version();
        (page.page, version) == (since.page, since.version())
    }

    /// Prepares a logical change: a checkpoint that needs the page as it is gets a copy. Fails if
    /// the page is clean, too many are dirty, and the disk takes none of them.
    #[inline(always)]
    fn before_change(&self, page: PageId) -> std::result::Result<(), Error> {
        let (word, parity) = (self.word(page), self.parity());
        let seen = word.snapshot();
        if !seen.is_dirty() {
            self.count_dirty()?;
        } else if seen.epoch() != parity {
            self.save(page);
        }
        word.set_dirty(parity);
        Ok(())
    }
}

impl<'p, const PAGE: usize> Pages<PAGE> for &'p Pool<PAGE> {
    const IS_SHARED: bool = true;
    type Operation = Operation<'p>;
    type Optimistic = VersionSnapshot;
    type Shared = SharedLatch<'p, PAGE>;
    type Exclusive = ExclusiveLatch<'p, PAGE>;
    type Seen<'a>
        = Frame<'a, PAGE>
    where
        Self: 'a;
    type Change<'a>
        = FrameMut<'a, PAGE>
    where
        Self: 'a;

    #[inline]
    fn begin(&self) -> Operation<'p> {
        self.operations.begin()
    }

    fn allocate(&mut self, _: &Operation<'p>) -> Result<ExclusiveLatch<'p, PAGE>> {
        let pool: &'p Pool<PAGE> = self;
        pool.count_dirty()?;
        let page = pool.take_number().inspect_err(|_| {
            pool.dirty.fetch_sub(1, Ordering::Relaxed);
            pool.spare_backed.fetch_add(1, Ordering::Relaxed);
        })?;
        let word = pool.word(page);
        let mut attempts = 0;
        loop {
            // A reader with an old reference may hold it for the moment that it takes to see that
            // the page is not in use.
            let seen = word.snapshot();
            if seen.is_evicted() && word.try_load(seen) {
                break;
            }
            word.wait(&pool.parking, &mut attempts, |seen| !seen.is_evicted());
        }
        word.set_dirty(pool.parity());
        let mut latch = ExclusiveLatch {
            pool,
            page,
            changed: true,
            waited: false,
        };
        // The caller compares lines when it fills the page. Were that the first access, the system
        // would map its page of zeros for the comparison, and copy it for the store: two faults,
        // not one.
        self.touch(&mut latch).put_u64(0, 0);
        Ok(latch)
    }

    fn release(&mut self, page: ExclusiveLatch<'p, PAGE>, _: &Operation<'p>) -> Result<()> {
        let number = page.page;
        let seen = self.word(number).snapshot();
        if seen.is_dirty() && seen.epoch() != self.parity() {
            self.save(number);
        }
        self.forget(number);
        // Ends the latch.
        std::mem::forget(page);
        if self.may_keep_memory(number) {
            self.evicted(number);
            self.unclaim();
        } else {
            self.discard(&mut [number]);
        }
        lock(&self.space).free.push(number);
        Ok(())
    }

    #[inline(always)]
    fn id(&self, page: &ExclusiveLatch<'p, PAGE>) -> PageId {
        page.page
    }

    #[inline]
    fn optimistic(&self, id: PageId) -> Result<VersionSnapshot> {
        let mut waited = false;
        self.latch(id, PageState::is_exclusive, |seen| {
            if let Some(state) = seen.to_readable(waited) {
                self.word(id).touch(seen);
                return Some(VersionSnapshot { page: id, state });
            }
            // A thread that brings it to memory does not contend for it.
            waited |= seen.is_exclusive() && !seen.is_io();
            None
        })
    }

    #[inline(always)]
    fn seen(&self, page: &VersionSnapshot) -> Frame<'_, PAGE> {
        self.frame(page.page)
    }

    #[inline(always)]
    fn validate(&self, page: &VersionSnapshot) -> std::result::Result<(), Restart> {
        if self.word(page.page).validate(page.state.of_page()) {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    #[inline]
    fn shared(&self, id: PageId) -> Result<SharedLatch<'p, PAGE>> {
        let pool: &'p Pool<PAGE> = self;
        pool.latch(id, PageState::blocks_sharing, |seen| {
            let latched = pool.word(id).try_shared(seen);
            latched.then(|| SharedLatch { pool, page: id })
        })
    }

    #[inline]
    fn exclusive(&self, id: PageId) -> Result<ExclusiveLatch<'p, PAGE>> {
        let pool: &'p Pool<PAGE> = self;
        let mut rounds = 0;
        pool.latch(id, PageState::blocks_writing, |seen| {
            if seen.is_free() && pool.word(id).try_exclusive(seen) {
                return Some(ExclusiveLatch {
                    pool,
                    page: id,
                    changed: false,
                    waited: rounds > 0,
                });
            }
            if seen.blocks_writing() {
                rounds += 1;
                if rounds > ROUNDS_BEFORE_RESERVING {
                    pool.word(id).reserve(seen);
                }
            }
            None
        })
    }

    fn try_exclusive(&self, id: PageId) -> Result<Option<ExclusiveLatch<'p, PAGE>>> {
        let pool: &'p Pool<PAGE> = self;
        pool.check_used(id)?;
        let word = pool.word(id);
        for _ in 0..MOST_TRIES {
            let seen = word.snapshot();
            if seen.is_evicted() {
                pool.load(id, seen)?;
            } else if seen.is_free() && word.try_exclusive(seen) {
                return Ok(Some(ExclusiveLatch {
                    pool,
                    page: id,
                    changed: false,
                    waited: false,
                }));
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(None)
    }

    #[inline]
    fn upgrade(
        &self,
        page: &VersionSnapshot,
    ) -> std::result::Result<ExclusiveLatch<'p, PAGE>, Restart> {
        let pool: &'p Pool<PAGE> = self;
        if !pool.word(page.page).try_upgrade(page.state.of_page()) {
            return Err(Restart);
        }
        Ok(ExclusiveLatch {
            pool,
            page: page.page,
            changed: false,
            waited: false,
        })
    }

    #[inline(always)]
    fn shared_image<'a>(&'a self, page: &'a SharedLatch<'p, PAGE>) -> &'a Image<PAGE> {
        page.image()
    }

    #[inline(always)]
    fn image<'a>(&'a self, page: &'a ExclusiveLatch<'p, PAGE>) -> &'a Image<PAGE> {
        page.image()
    }

    #[inline(always)]
    fn change<'a>(
        &'a mut self,
        page: &'a mut ExclusiveLatch<'p, PAGE>,
        _: &Operation<'p>,
    ) -> Result<FrameMut<'a, PAGE>> {
        page.pool.before_change(page.page)?;
        Ok(self.touch(page))
    }

    #[inline(always)]
    fn touch<'a>(&'a mut self, page: &'a mut ExclusiveLatch<'p, PAGE>) -> FrameMut<'a, PAGE> {
        page.changed = true;
        // SAFETY: pages are aligned to 4096. The exclusive latch is borrowed mutably: while the
        // result lives nobody writes, discards or has a plain reference; readers use frames.
        unsafe { FrameMut::new(page.pool.frame(page.page)) }
    }

    fn image_mut<'a>(
        &'a mut self,
        _: &'a mut ExclusiveLatch<'p, PAGE>,
    ) -> Option<&'a mut Image<PAGE>> {
        None
    }

    /// Does not wait if the pool has a [`PageCleaner`](crate::PageCleaner).
    fn prefetch(&self, ids: &[PageId]) {
        let used = self.used.load(Ordering::Relaxed);
        let missing = |id: &PageId| id.0 < used && self.word(*id).snapshot().is_evicted();
        let ids: Vec<PageId> = ids.iter().copied().filter(missing).collect();
        if !ids.is_empty() && !self.queue_prefetch(&ids) {
            self.load_all(&ids);
        }
    }

    fn load_many(&self, ids: &[PageId]) {
        self.load_all(ids);
    }

    fn live(&self) -> usize {
        (self.numbers() - lock(&self.space).free.len() as u64) as usize
    }

    fn resident_bytes(&self) -> usize {
        self.resident.load(Ordering::Relaxed) * PAGE
    }
}
