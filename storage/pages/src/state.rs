//! The state word of a page: its latch, its version, and whether it differs from the file.
//!
//! ```text
//!  63                       16 15 14   13    12   11 10     9     8       7        0
//! ┌───────────────────────────┬─────┬──────┬────┬──┬─────┬─────┬───────┬──────────┐
//! │          version          │  0  │writer│cold│io│epoch│dirty│waiting│  latch   │
//! └───────────────────────────┴─────┴──────┴────┴──┴─────┴─────┴───────┴──────────┘
//!  latch: 0 evicted · 1 exclusive · 2 marked · 3 unlocked · 3 + n shared by n
//! ```
//!
//! A word of zeros is a page that is not in memory: so the words of pages that were never used
//! cost no memory either. *Marked* is unlocked with the clock's mark: the next round of the clock
//! evicts the page, unless somebody clears the mark by using it (vmcache, §3.2).
//!
//! **Optimistic readers** take a [snapshot](StateWord::snapshot) of the word, read the page, and
//! [validate](StateWord::validate) the snapshot: the same version, and neither exclusive nor
//! evicted. Shared latches, the mark and the flags do not invalidate a snapshot. The version grows
//! when an exclusive latch that changed bytes is released, and when the page is evicted; with 48
//! bits it does not wrap around. The fences are those of `hedgerow_sync::version`.
//!
//! **Waiters** spin and yield for a moment, then set *waiting* and park ([`Parking`]); the thread
//! that frees the latch clears the flag and wakes them. While *io* is set, a thread is reading the
//! page from the file, and waiters park at once.
//!
//! **Writer** is set by a thread that wants the exclusive latch of a page which others share, and
//! cleared when any thread gets that latch: until then nobody else shares it. Else readers whose
//! latches overlap could keep a writer waiting for ever.
//!
//! **Dirty** is set by a change of the page's content, never by a latch; *epoch* is the parity of
//! the checkpoint epoch in which that happened.
//!
//! **Cold** is set by the page's user and cleared when the page is evicted: the clock visits such a
//! page in every round, and others in every fourth.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_sync::word::Word;

use crate::parking::Parking;

const EVICTED: u64 = 0;
const EXCLUSIVE: u64 = 1;
const MARKED: u64 = 2;
const UNLOCKED: u64 = 3;
/// Latches shared by more than this many wait.
const MOST_SHARED: u64 = UNLOCKED + 200;
const LATCH: u64 = 0xff;
const WAITING: u64 = 1 << 8;
const DIRTY: u64 = 1 << 9;
const EPOCH: u64 = 1 << 10;
const IO: u64 = 1 << 11;
const COLD: u64 = 1 << 12;
const WRITER: u64 = 1 << 13;
const VERSION_UNIT: u64 = 1 << 16;
/// In a [`ReadableState`] only.
const WAITED: u64 = 1 << 14;
// A bit that is zero in the word.
const _: () = {
    let fields = LATCH | WAITING | DIRTY | EPOCH | IO | COLD | WRITER;
    assert!(WAITED & fields == 0 && WAITED < VERSION_UNIT);
};

/// Rounds of spinning, and in the last third of yielding the processor, before a waiter parks. An
/// inner node that splits is latched for some microseconds, in which all descents through it wait:
/// parking them would take two system calls for each.
const SPINS: u32 = 96;

/// A page's state as its word said when it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageState(u64);

impl PageState {
    #[inline(always)]
    fn latch(self) -> u64 {
        self.0 & LATCH
    }

    /// How often the page was changed or evicted.
    #[inline(always)]
    pub(crate) fn version(self) -> u64 {
        self.0 >> 16
    }

    /// Whether the page is not in memory.
    #[inline(always)]
    pub(crate) fn is_evicted(self) -> bool {
        self.latch() == EVICTED
    }

    /// Whether one thread has the page for itself.
    #[inline(always)]
    pub(crate) fn is_exclusive(self) -> bool {
        self.latch() == EXCLUSIVE
    }

    /// Whether the clock passed the page and no thread used it since.
    #[inline(always)]
    pub(crate) fn is_marked(self) -> bool {
        self.latch() == MARKED
    }

    /// Whether the page is in memory and no thread has its latch.
    #[inline(always)]
    pub(crate) fn is_free(self) -> bool {
        matches!(self.latch(), MARKED | UNLOCKED)
    }

    /// Whether the page is in memory and no thread has it latched exclusively: its bytes can be
    /// read.
    #[inline(always)]
    pub(crate) fn is_readable(self) -> bool {
        self.latch() >= MARKED
    }

    /// Whether nobody can share the latch now: a thread has it for itself, or is to be next.
    #[inline(always)]
    pub(crate) fn blocks_sharing(self) -> bool {
        self.is_exclusive() || self.0 & WRITER != 0
    }

    /// Whether a thread that wants the latch for itself has to wait for others.
    #[inline(always)]
    pub(crate) fn blocks_writing(self) -> bool {
        !self.is_free() && !self.is_evicted()
    }

    /// Whether the page's content was changed since it was last written or read.
    #[inline(always)]
    pub(crate) fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// The parity of the epoch in which the page became dirty.
    #[inline(always)]
    pub(crate) fn epoch(self) -> bool {
        self.0 & EPOCH != 0
    }

    /// Whether the page is one of those that are less likely to be used again soon.
    #[inline(always)]
    pub(crate) fn is_cold(self) -> bool {
        self.0 & COLD != 0
    }

    pub(crate) fn is_io(self) -> bool {
        self.0 & IO != 0
    }

    fn with_latch(self, latch: u64) -> u64 {
        self.0 & !LATCH | latch
    }

    /// The state for an optimistic reader to keep, if the page can be read; `waited` says whether
    /// it waited for a writer.
    #[inline(always)]
    pub(crate) fn to_readable(self, waited: bool) -> Option<ReadableState> {
        if !self.is_readable() {
            return None;
        }
        let waited = if waited { WAITED } else { 0 };
        NonZeroU64::new(self.0 | waited).map(ReadableState)
    }
}

/// A state in which a page could be read, and whether its reader waited for that, in one word:
/// descents copy many, and the processor forwards whole words from its store buffer, but not what
/// was stored in other pieces than it is loaded in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadableState(NonZeroU64);

impl ReadableState {
    #[inline(always)]
    pub(crate) fn of_page(self) -> PageState {
        PageState(self.0.get() & !WAITED)
    }

    #[inline(always)]
    pub(crate) fn waited(self) -> bool {
        self.0.get() & WAITED != 0
    }
}

/// The state word itself, evicted when new.
#[repr(transparent)]
pub(crate) struct StateWord<W: Word = AtomicU64>(W);

impl<W: Word> StateWord<W> {
    /// A word of a page that is not in memory.
    pub(crate) fn new() -> Self {
        Self(W::new(EVICTED))
    }

    /// Takes a snapshot of the state. Acquire.
    #[inline(always)]
    pub(crate) fn snapshot(&self) -> PageState {
        PageState(self.0.load(Ordering::Acquire))
    }

    /// Whether what was read since `seen`, a readable state, was consistent.
    #[inline(always)]
    pub(crate) fn validate(&self, seen: PageState) -> bool {
        W::fence(Ordering::Acquire);
        let now = PageState(self.0.load(Ordering::Relaxed));
        now == seen || (now.version() == seen.version() && now.is_readable())
    }

    #[inline(always)]
    fn exchange(&self, seen: PageState, new: u64, order: Ordering) -> bool {
        let exchanged = self
            .0
            .compare_exchange_weak(seen.0, new, order, Ordering::Relaxed);
        exchanged.is_ok()
    }

    /// Changes the word by `change`, which runs again when others were faster.
    fn alter(&self, order: Ordering, change: impl Fn(PageState) -> u64) -> PageState {
        loop {
            let seen = PageState(self.0.load(Ordering::Relaxed));
            if self.exchange(seen, change(seen), order) {
                return seen;
            }
        }
    }

    /// Takes the clock's mark off, if it is there: the page is in use.
    #[inline(always)]
    pub(crate) fn touch(&self, seen: PageState) {
        if seen.is_marked() {
            // If this fails somebody else changed the word, and the mark with it.
            self.exchange(seen, seen.with_latch(UNLOCKED), Ordering::Relaxed);
        }
    }

    /// Calls a page cold, until it is evicted; whether it was not before. The caller has a latch.
    pub(crate) fn set_cold(&self) -> bool {
        !self
            .alter(Ordering::Relaxed, |seen| seen.0 | COLD)
            .is_cold()
    }

    /// Sets the clock's mark; false if the page is in use.
    pub(crate) fn try_mark(&self, seen: PageState) -> bool {
        seen.latch() == UNLOCKED && self.exchange(seen, seen.with_latch(MARKED), Ordering::Relaxed)
    }

    /// Takes the exclusive latch if the word is still `seen`, a free state.
    #[inline(always)]
    pub(crate) fn try_exclusive(&self, seen: PageState) -> bool {
        debug_assert!(seen.is_free());
        let latched = seen.with_latch(EXCLUSIVE) & !WRITER;
        let taken = self.exchange(seen, latched, Ordering::Acquire);
        // A reader that sees bytes written from now on must see the latch too.
        W::fence(Ordering::Release);
        taken
    }

    /// Keeps others from sharing a latch that some share, until a thread has it for itself. The
    /// caller tries to be that thread, until it is or the page is evicted.
    pub(crate) fn reserve(&self, seen: PageState) {
        if seen.latch() > UNLOCKED && seen.0 & WRITER == 0 {
            // If this fails somebody else changed the word, and the caller looks again.
            self.exchange(seen, seen.0 | WRITER, Ordering::Relaxed);
        }
    }

    /// Takes the exclusive latch if the page is still at the version that was seen and free.
    pub(crate) fn try_upgrade(&self, seen: PageState) -> bool {
        loop {
            let now = self.snapshot();
            if now.version() != seen.version() || !now.is_free() {
                return false;
            }
            if self.try_exclusive(now) {
                return true;
            }
        }
    }

    /// Takes the exclusive latch of an evicted page, to bring its bytes to memory.
    pub(crate) fn try_load(&self, seen: PageState) -> bool {
        debug_assert!(seen.is_evicted());
        let taken = self.exchange(seen, seen.with_latch(EXCLUSIVE) | IO, Ordering::Acquire);
        W::fence(Ordering::Release);
        taken
    }

    /// Takes a shared latch if the word is still `seen` and readable, and no writer is to be next.
    #[inline(always)]
    pub(crate) fn try_shared(&self, seen: PageState) -> bool {
        if !seen.is_readable() || seen.latch() >= MOST_SHARED || seen.blocks_sharing() {
            return false;
        }
        let latch = seen.latch().max(UNLOCKED) + 1;
        self.exchange(seen, seen.with_latch(latch), Ordering::Acquire)
    }

    /// Gives the exclusive latch back; `changed` says whether bytes were written. True if there
    /// are waiters to wake.
    #[inline(always)]
    #[must_use]
    pub(crate) fn unlock_exclusive(&self, changed: bool) -> bool {
        let unit = if changed { VERSION_UNIT } else { 0 };
        let before = self.alter(Ordering::Release, |seen| {
            debug_assert!(seen.is_exclusive());
            (seen.with_latch(UNLOCKED) & !(WAITING | IO)).wrapping_add(unit)
        });
        before.0 & WAITING != 0
    }

    /// Gives a shared latch back. True if there are waiters to wake.
    #[inline(always)]
    #[must_use]
    pub(crate) fn unlock_shared(&self) -> bool {
        let before = self.alter(Ordering::Release, |seen| {
            debug_assert!(seen.latch() > UNLOCKED);
            let next = seen.0 - 1;
            if next & LATCH == UNLOCKED {
                next & !WAITING
            } else {
                next
            }
        });
        before.latch() == UNLOCKED + 1 && before.0 & WAITING != 0
    }

    /// Ends an exclusive latch with the page out of memory and clean. True if there are waiters.
    #[must_use]
    pub(crate) fn evict(&self) -> bool {
        let before = self.alter(Ordering::Release, |seen| {
            debug_assert!(seen.is_exclusive());
            let flags = LATCH | WAITING | WRITER | DIRTY | EPOCH | IO | COLD;
            (seen.0 & !flags | EVICTED).wrapping_add(VERSION_UNIT)
        });
        before.0 & WAITING != 0
    }

    /// Says that the page's content differs from the file since an epoch of this parity. The
    /// caller has the exclusive latch.
    #[inline(always)]
    pub(crate) fn set_dirty(&self, epoch: bool) {
        let parity = if epoch { EPOCH } else { 0 };
        let seen = PageState(self.0.load(Ordering::Relaxed));
        if seen.0 & (DIRTY | EPOCH) != DIRTY | parity {
            self.alter(Ordering::Relaxed, |seen| seen.0 & !EPOCH | DIRTY | parity);
        }
    }

    /// Says that the file has the content that the page had at a version. If the page still has
    /// it, the page is clean now, and the state that it was in is returned: its
    /// [epoch](PageState::epoch) says which checkpoint the content belongs to. An epoch that was
    /// read earlier does not: a checkpoint that is abandoned moves pages to the next epoch without
    /// a new version.
    pub(crate) fn try_clean(&self, version: u64) -> Option<PageState> {
        loop {
            let now = self.snapshot();
            let same = now.version() == version && now.is_dirty();
            if !same || !now.is_readable() {
                return None;
            }
            if self.exchange(now, now.0 & !(DIRTY | EPOCH), Ordering::Release) {
                return Some(now);
            }
        }
    }

    /// Calls a page that is dirty since the other epoch dirty since the epoch of this parity.
    pub(crate) fn adopt(&self, epoch: bool) {
        let parity = if epoch { EPOCH } else { 0 };
        self.alter(Ordering::Relaxed, |seen| {
            if seen.is_dirty() {
                seen.0 & !EPOCH | parity
            } else {
                seen.0
            }
        });
    }

    /// Waits a round while `blocked`: spins at first, then parks until the latch changes hands.
    /// `attempts` counts the rounds of this wait and starts at 0.
    #[cold]
    pub(crate) fn wait(
        &self,
        parking: &impl Parking,
        attempts: &mut u32,
        blocked: fn(PageState) -> bool,
    ) {
        let seen = self.snapshot();
        if !blocked(seen) {
            return;
        }
        if *attempts < SPINS && !seen.is_io() {
            W::pause(attempts);
            return;
        }
        if seen.0 & WAITING == 0 && !self.exchange(seen, seen.0 | WAITING, Ordering::Relaxed) {
            return;
        }
        parking.park(std::ptr::from_ref(self).addr(), || {
            let now = self.snapshot();
            now.0 & WAITING != 0 && blocked(now)
        });
    }

    /// Wakes those who wait for this page.
    #[cold]
    pub(crate) fn wake(&self, parking: &impl Parking) {
        parking.unpark(std::ptr::from_ref(self).addr());
    }
}

impl<W: Word> Default for StateWord<W> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded() -> StateWord {
        let word = StateWord::new();
        assert!(word.try_load(word.snapshot()));
        assert!(!word.unlock_exclusive(true));
        word
    }

    #[test]
    fn sharing_and_marks_do_not_invalidate_snapshots_but_changes_do() {
        let word = loaded();
        let seen = word.snapshot();
        assert!(word.try_shared(word.snapshot()) && word.try_shared(word.snapshot()));
        assert!(word.validate(seen));
        assert!(!word.unlock_shared() && !word.unlock_shared());
        assert!(word.try_mark(word.snapshot()) && word.validate(seen));
        assert!(word.try_upgrade(seen));
        assert!(!word.validate(seen), "a writer is at work");
        assert!(!word.unlock_exclusive(false));
        assert!(word.validate(seen), "it changed nothing");
        assert!(word.try_upgrade(seen) && !word.unlock_exclusive(true));
        assert!(!word.validate(seen));
    }

    #[test]
    fn what_a_reader_keeps_is_the_state_and_whether_it_waited() {
        let word = loaded();
        for waited in [false, true] {
            let seen = word
                .snapshot()
                .to_readable(waited)
                .expect("a readable page");
            assert_eq!((seen.of_page(), seen.waited()), (word.snapshot(), waited));
            assert!(word.validate(seen.of_page()));
        }
        assert!(word.try_exclusive(word.snapshot()));
        assert!(
            word.snapshot().to_readable(false).is_none(),
            "a writer is at work"
        );
        assert!(
            StateWord::<AtomicU64>::new()
                .snapshot()
                .to_readable(false)
                .is_none()
        );
    }

    #[test]
    fn a_writer_that_waits_is_next() {
        let word = loaded();
        word.reserve(word.snapshot());
        assert!(!word.snapshot().blocks_sharing(), "nobody is in its way");
        let seen = word.snapshot();
        assert!(word.try_shared(word.snapshot()) && word.try_shared(word.snapshot()));
        word.reserve(word.snapshot());
        assert!(
            !word.try_shared(word.snapshot()),
            "those that are there go first"
        );
        assert!(word.validate(seen), "readers without latches do not mind");
        assert!(!word.unlock_shared() && !word.unlock_shared());
        assert!(!word.try_shared(word.snapshot()) && word.snapshot().is_free());
        assert!(word.try_mark(word.snapshot()) && !word.try_shared(word.snapshot()));
        assert!(word.try_exclusive(word.snapshot()));
        assert!(!word.unlock_exclusive(true));
        assert!(word.try_shared(word.snapshot()), "it was");
        word.reserve(word.snapshot());
        assert!(!word.unlock_shared());
        assert!(word.try_exclusive(word.snapshot()) && !word.evict());
        assert!(word.try_load(word.snapshot()) && !word.unlock_exclusive(true));
        assert!(word.try_shared(word.snapshot()));
    }

    #[test]
    fn an_evicted_page_invalidates_and_comes_back_clean() {
        let word = loaded();
        let seen = word.snapshot();
        assert!(word.try_exclusive(seen));
        word.set_dirty(true);
        assert!(word.snapshot().is_dirty() && word.snapshot().epoch());
        assert!(!word.evict());
        assert!(
            !word.validate(seen) && word.snapshot().is_evicted() && !word.snapshot().is_dirty()
        );
        assert!(word.try_load(word.snapshot()) && !word.unlock_exclusive(true));
        assert!(!word.snapshot().is_dirty() && !word.validate(seen));
        assert!(word.try_mark(word.snapshot()) && word.snapshot().is_marked());
        word.touch(word.snapshot());
        assert!(!word.snapshot().is_marked());
    }

    #[test]
    fn a_cold_page_is_so_until_it_is_evicted() {
        let word = loaded();
        let seen = word.snapshot();
        assert!(word.set_cold() && !word.set_cold());
        assert!(word.snapshot().is_cold() && word.validate(seen));
        assert!(word.try_upgrade(seen) && !word.unlock_exclusive(true));
        assert!(word.snapshot().is_cold());
        assert!(word.try_exclusive(word.snapshot()) && !word.evict());
        assert!(!word.snapshot().is_cold());
    }

    #[test]
    fn cleaning_needs_the_version_that_was_written() {
        let word = loaded();
        assert!(word.try_exclusive(word.snapshot()));
        word.set_dirty(false);
        assert!(!word.unlock_exclusive(true));
        let written = word.snapshot();
        assert!(word.try_upgrade(written) && word.try_clean(written.version()).is_none());
        assert!(!word.unlock_exclusive(true));
        let cleaned = word.try_clean(written.version());
        assert!(cleaned.is_none(), "it was changed meanwhile");
        let written = word.snapshot();
        assert!(word.try_shared(word.snapshot()), "readers do not matter");
        word.adopt(true);
        assert!(word.snapshot().epoch() && !written.epoch());
        let cleaned = word.try_clean(written.version()).unwrap();
        assert!(cleaned.epoch() && !word.snapshot().is_dirty());
        word.adopt(true);
        assert!(!word.snapshot().epoch());
    }
}
