//! Locks of nodes.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hedgerow_sync::word::Word;

/// A lock in a node. It protects what its tree says, not data of its own.
///
/// # Safety
///
/// Between the moment at which [`lock`](Self::lock) returns, or [`try_lock`](Self::try_lock)
/// returns `true`, and the next [`unlock`](Self::unlock), no other thread gets the same lock; and
/// who gets it next sees what was written before that `unlock`. The trees unlink and retire nodes
/// by that.
pub unsafe trait NodeLock: Send + Sync + 'static {
    /// What of its bytes are written when it is taken and given back: so many from the first on.
    const WRITTEN_BYTES: usize;

    /// An unlocked lock.
    fn new() -> Self;

    /// Waits for the lock.
    fn lock(&self);

    /// Takes the lock if nobody has it.
    fn try_lock(&self) -> bool;

    /// Gives the lock back; the caller has it.
    fn unlock(&self);
}

/// A spin lock of 4 bytes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct SpinLock(AtomicU32);

// SAFETY: who swaps 1 in for 0 has the lock, until it stores 0; acquire and release order the rest.
unsafe impl NodeLock for SpinLock {
    const WRITTEN_BYTES: usize = size_of::<Self>();

    fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn lock(&self) {
        let mut rounds = 0;
        while !self.try_lock() {
            AtomicU64::pause(&mut rounds);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0 && self.0.swap(1, Ordering::Acquire) == 0
    }

    #[inline]
    fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A spin lock in the 40 bytes that a POSIX mutex takes.
#[derive(Debug, Default)]
#[repr(C, align(8))]
pub struct MutexSizedLock {
    lock: SpinLock,
    rest: [u32; 9],
}

const _: () = assert!(size_of::<SpinLock>() == 4 && size_of::<MutexSizedLock>() == 40);

// SAFETY: it is the spin lock within.
unsafe impl NodeLock for MutexSizedLock {
    const WRITTEN_BYTES: usize = offset_of!(Self, lock) + SpinLock::WRITTEN_BYTES;

    fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn lock(&self) {
        self.lock.lock();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.lock.try_lock()
    }

    #[inline]
    fn unlock(&self) {
        self.lock.unlock();
    }
}
