//! Per-thread state of the hot path: whether the thread is inside a write or a batch of reads, and
//! its buffers.

use std::cell::{Cell, RefCell};

use hedgerow_sync::threads;

use crate::commit::stripes::BatchGuard;
use crate::error::{Error, Result};

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::new()) };
}

/// Whether the calling thread is inside a write, that is, in the closure of an update or
/// transaction.
pub(crate) fn is_writing() -> bool {
    SCRATCH.with(|scratch| scratch.try_borrow_mut().is_err())
}

/// The consistency of a batch of reads: a guard that holds commits of several keys off, if there
/// is one to be had and the thread needs it.
pub(crate) enum ReadBatch<'a> {
    /// Such commits wait for the guard.
    Guarded(#[expect(dead_code, reason = "held for its drop")] BatchGuard<'a>),
    /// The thread is inside another batch, or inside a commit of its own.
    Nested,
    /// The batch must lock its stripes.
    MustLock,
}

thread_local! {
    static IN_BATCH: Cell<bool> = const { Cell::new(false) };
}

impl<'a> ReadBatch<'a> {
    pub(crate) fn enter(begin: impl FnOnce(usize) -> Option<BatchGuard<'a>>) -> ReadBatch<'a> {
        if IN_BATCH.get() || is_writing() {
            return ReadBatch::Nested;
        }
        let batch = begin(threads::number()).map_or(ReadBatch::MustLock, ReadBatch::Guarded);
        IN_BATCH.set(true);
        batch
    }

    pub(crate) fn is_nested(&self) -> bool {
        matches!(self, ReadBatch::Nested)
    }

    pub(crate) fn must_lock(&self) -> bool {
        matches!(self, ReadBatch::MustLock)
    }
}

impl Drop for ReadBatch<'_> {
    fn drop(&mut self) {
        if !matches!(self, ReadBatch::Nested) {
            IN_BATCH.set(false);
        }
    }
}

/// Whether the calling thread is inside the closure of an update, a transaction or a batch of
/// reads. Then it must wait neither for stripes nor for commits of several keys: they may be
/// waiting for it, or be its own.
pub(crate) fn must_not_wait() -> bool {
    IN_BATCH.get() || is_writing()
}

type DeferredCall = Box<dyn FnOnce()>;

thread_local! {
    static HAS_DEFERRED: Cell<bool> = const { Cell::new(false) };
    static DEFERRED: RefCell<Vec<DeferredCall>> = const { RefCell::new(Vec::new()) };
    static IN_SUBSCRIBER: Cell<bool> = const { Cell::new(false) };
}

/// Has the calling thread, which [must not wait](must_not_wait), call this as soon as it may: at
/// the end of the outermost write or batch of reads that it is in.
#[cold]
pub(crate) fn defer(call: impl FnOnce() + 'static) {
    DEFERRED.with_borrow_mut(|calls| calls.push(Box::new(call)));
    HAS_DEFERRED.set(true);
}

/// Calls what was [deferred](defer) when it is dropped, if the thread may wait then. It is made
/// before all locks, so that it is dropped after them, also while a panic unwinds.
pub(crate) struct DeferredCalls;

impl Drop for DeferredCalls {
    #[inline]
    fn drop(&mut self) {
        if HAS_DEFERRED.get() && !must_not_wait() {
            run_deferred();
        }
    }
}

#[cold]
fn run_deferred() {
    HAS_DEFERRED.set(false);
    let calls = DEFERRED.take();
    calls.into_iter().for_each(|call| call());
}

/// Runs a subscriber, on the log's thread.
pub(crate) fn notify(subscriber: impl FnOnce()) {
    /// It is over also when the subscriber panics. One may have been called by another.
    struct Over {
        was_in_subscriber: bool,
    }
    impl Drop for Over {
        fn drop(&mut self) {
            IN_SUBSCRIBER.set(self.was_in_subscriber);
        }
    }
    let _over = Over {
        was_in_subscriber: IN_SUBSCRIBER.replace(true),
    };
    subscriber();
}

/// Whether the calling thread is a log's, and inside a subscriber: nothing becomes durable before
/// that returns.
pub(crate) fn is_in_subscriber() -> bool {
    IN_SUBSCRIBER.get()
}

/// Buffers that a thread's writes use again and again.
pub(crate) struct Scratch {
    /// What the index stores: filled by its `update`.
    pub(crate) row: Vec<u8>,
    /// A row's body, built before the commit.
    pub(crate) body: Vec<u8>,
    /// The changed columns, for the log.
    pub(crate) changes: Vec<u8>,
}

const MAX_SCRATCH_BYTES: usize = 1 << 20;

impl Scratch {
    const fn new() -> Scratch {
        Scratch {
            row: Vec::new(),
            body: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Frees what is larger than a thread may keep. A write that failed may have filled any of
    /// them.
    fn shrink(&mut self) {
        for buffer in [&mut self.row, &mut self.body, &mut self.changes] {
            if buffer.capacity() > MAX_SCRATCH_BYTES {
                *buffer = Vec::new();
            }
        }
    }

    /// Runs a write with the thread's buffers. They also tell a write from inside a write (from
    /// the closure of an update or transaction), which could wait for itself forever. So could one
    /// from inside a batch of reads, for which commits of several keys wait, or which locks keys.
    #[inline]
    pub(crate) fn with<R>(write: impl FnOnce(&mut Scratch) -> Result<R>) -> Result<R> {
        if IN_BATCH.get() {
            return Err(Error::Nested);
        }
        let _deferred = DeferredCalls;
        SCRATCH.with(|scratch| {
            // That it is borrowed is all that can be wrong.
            let mut scratch = scratch.try_borrow_mut().map_err(|_| Error::Nested)?;
            let result = write(&mut scratch);
            scratch.shrink();
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_row_leaves_no_large_buffer_behind_also_if_its_write_fails() {
        let body = |scratch: &mut Scratch| scratch.body.resize(2 * MAX_SCRATCH_BYTES, 7);
        let failed: Result<()> = Scratch::with(|scratch| {
            body(scratch);
            Err(Error::Closed)
        });
        assert!(matches!(failed, Err(Error::Closed)));
        let capacity = Scratch::with(|scratch| Ok(scratch.body.capacity()));
        assert!(capacity.unwrap() <= MAX_SCRATCH_BYTES);
    }

    #[test]
    fn a_write_inside_a_write_is_refused() {
        let nested = Scratch::with(|_| Scratch::with(|_| Ok(())));
        assert!(matches!(nested, Err(Error::Nested)));
        Scratch::with(|_| Ok(())).unwrap();
    }
}
