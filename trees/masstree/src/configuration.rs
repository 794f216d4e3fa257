//! What is decided when a tree's type is written: shared by threads, or owned by one.
//!
//! [`SingleThreaded`] is the tree with every synchronisation taken out at compile time: no
//! latches, no version checks, no epochs. It exists for the paper's question of what
//! concurrency costs (§6.4), and for users who have one thread.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;

use hedgerow_sync::epoch;
use hedgerow_sync::word::Word;
use hedgerow_sync::{Version, VersionWord};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Concurrent {}
    impl Sealed for super::SingleThreaded {}
}

/// Compile-time choice of synchronisation.
pub trait Configuration: sealed::Sealed + Sized + 'static {
    /// Whether other threads may be in the tree.
    const CONCURRENT: bool;
    /// State that operations update on entry; not `Sync` for trees of one thread.
    type Entry: Default + Send;
    /// What keeps nodes allocated while an operation follows pointers.
    type Guard<'a>: Guard;
    /// Begins an operation that only reads.
    fn read(entry: &Self::Entry) -> Self::Guard<'_>;
    /// Begins an operation that changes the tree.
    fn write(entry: &Self::Entry) -> Self::Guard<'_>;
}

/// Keeps the memory that a running operation may read.
pub trait Guard {
    /// Frees something of `bytes` when no operation can still see it.
    ///
    /// # Safety
    ///
    /// What `release` frees is unreachable for operations that begin from now on, this
    /// operation does not use it again, and `release` may run on any thread.
    unsafe fn retire<F: FnOnce() + 'static>(&self, bytes: usize, release: F);

    /// Ends the protection of everything read so far and begins a new one.
    fn renew(&mut self);
}

/// Any number of threads: latches, versions, epochs.
#[derive(Debug)]
pub enum Concurrent {}

impl Configuration for Concurrent {
    const CONCURRENT: bool = true;
    type Entry = ();
    type Guard<'a> = epoch::Guard;

    #[inline(always)]
    fn read(_entry: &()) -> epoch::Guard {
        epoch::pin()
    }

    #[inline(always)]
    fn write(_entry: &()) -> epoch::Guard {
        epoch::pin()
    }
}

impl Guard for epoch::Guard {
    #[inline]
    unsafe fn retire<F: FnOnce() + 'static>(&self, bytes: usize, release: F) {
        // SAFETY: the caller's promise is what `epoch::retire_bytes` asks for.
        unsafe { epoch::retire_bytes(self, bytes, release) }
    }

    fn renew(&mut self) {
        epoch::repin(self);
    }
}

/// One thread, no synchronisation.
#[derive(Debug)]
pub enum SingleThreaded {}

/// Counts readers inside, or marks a writer with -1: a callback that re-enters the tree must
/// not free what the outer operation reads.
pub struct EntryGuard<'a>(&'a Cell<isize>, isize);

impl Drop for EntryGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

impl Configuration for SingleThreaded {
    const CONCURRENT: bool = false;
    type Entry = Cell<isize>;
    type Guard<'a> = EntryGuard<'a>;

    #[inline(always)]
    fn read(entry: &Cell<isize>) -> EntryGuard<'_> {
        assert!(entry.get() >= 0, "a callback re-entered its tree");
        entry.set(entry.get() + 1);
        EntryGuard(entry, 1)
    }

    #[inline(always)]
    fn write(entry: &Cell<isize>) -> EntryGuard<'_> {
        assert!(entry.get() == 0, "a callback re-entered its tree");
        entry.set(-1);
        EntryGuard(entry, -1)
    }
}

impl Guard for EntryGuard<'_> {
    #[inline(always)]
    unsafe fn retire<F: FnOnce() + 'static>(&self, _bytes: usize, release: F) {
        // Nobody else is inside (`write` saw to that), so now is late enough.
        release();
    }

    fn renew(&mut self) {}
}

/// Version protocol calls that vanish where `C` has no other threads.
pub(crate) struct Latch<C>(std::marker::PhantomData<C>);

impl<C: Configuration> Latch<C> {
    #[inline(always)]
    pub fn stable(word: &VersionWord) -> Version {
        if C::CONCURRENT {
            word.stable()
        } else {
            word.load()
        }
    }

    #[inline(always)]
    pub fn validate(word: &VersionWord, snapshot: Version) -> bool {
        !C::CONCURRENT || word.validate(snapshot)
    }

    /// Waits one round for a writer that is in the middle of a change without a mark in the
    /// version, as [`VersionWord::stable`] does for one with a mark. Takes the rounds waited so
    /// far, 0 at first, and returns them with this one.
    #[cold]
    #[inline(never)]
    pub fn pause(rounds: u32) -> u32 {
        let mut rounds = rounds;
        if C::CONCURRENT {
            <AtomicU64 as Word>::pause(&mut rounds);
        }
        rounds
    }

    #[inline(always)]
    pub fn lock(word: &VersionWord) -> Version {
        if C::CONCURRENT {
            word.lock()
        } else {
            word.load()
        }
    }

    #[inline(always)]
    pub fn unlock(word: &VersionWord) {
        if C::CONCURRENT {
            word.unlock();
        }
    }

    #[inline(always)]
    pub fn mark_inserting(word: &VersionWord) {
        if C::CONCURRENT {
            word.mark_inserting();
        }
    }

    #[inline(always)]
    pub fn mark_splitting(word: &VersionWord) {
        if C::CONCURRENT {
            word.mark_splitting();
        }
    }

    #[inline(always)]
    pub fn mark_deleted(word: &VersionWord) {
        if C::CONCURRENT {
            word.mark_deleted();
        } else {
            word.set_deleted_unshared();
        }
    }

    #[inline(always)]
    pub fn clear_root(word: &VersionWord) {
        if C::CONCURRENT {
            word.clear_root();
        } else {
            word.clear_root_unshared();
        }
    }

    pub fn new_sibling(border: bool) -> VersionWord {
        if C::CONCURRENT {
            VersionWord::new_sibling(border)
        } else {
            VersionWord::new(border, false)
        }
    }
}
