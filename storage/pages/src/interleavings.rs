//! The state word under shuttle: the shipping protocol, on shuttle's atomics and its sleeping
//! threads, through many interleavings. Each promise has a twin with one step left out, which
//! must fail.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_modelled::Modelled;
use shuttle::sync::atomic::AtomicU64;
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use crate::parking::Parking;
use crate::state::{PageState, StateWord};

/// One parking slot, of shuttle's making.
struct OneSlot(Mutex<()>, Condvar);

impl Parking for OneSlot {
    fn park(&self, _: usize, blocked: impl FnOnce() -> bool) {
        let slot = self.0.lock().unwrap();
        if blocked() {
            drop(self.1.wait(slot).unwrap());
        }
    }

    fn unpark(&self, _: usize) {
        let _lot = self.0.lock().unwrap();
        self.1.notify_all();
    }
}

struct Page {
    state: StateWord<Modelled>,
    slot: OneSlot,
    left: AtomicU64,
    right: AtomicU64,
}

impl Page {
    fn new() -> Arc<Page> {
        let page = Page {
            state: StateWord::new(),
            slot: OneSlot(Mutex::new(()), Condvar::new()),
            left: AtomicU64::new(10),
            right: AtomicU64::new(0),
        };
        assert!(page.state.try_load(page.state.snapshot()));
        assert!(!page.state.unlock_exclusive(true));
        Arc::new(page)
    }

    /// Takes the exclusive latch, sleeping at once where it is held.
    fn lock(&self) {
        // Past the rounds of spinning, which are the same to the model.
        let mut attempts = u32::MAX;
        loop {
            let seen = self.state.snapshot();
            if seen.is_free() && self.state.try_exclusive(seen) {
                return;
            }
            self.state.reserve(seen);
            self.state
                .wait(&self.slot, &mut attempts, PageState::blocks_writing);
        }
    }

    /// Looks at the page under a shared latch, sleeping at once where it cannot be had.
    fn share(&self, wake: bool) {
        let mut attempts = u32::MAX;
        while !self.state.try_shared(self.state.snapshot()) {
            self.state
                .wait(&self.slot, &mut attempts, PageState::blocks_sharing);
        }
        assert_eq!(self.sum(), 10, "a latched read saw half a change");
        if self.state.unlock_shared() && wake {
            self.state.wake(&self.slot);
        }
    }

    fn unlock(&self, changed: bool, wake: bool) {
        if self.state.unlock_exclusive(changed) && wake {
            self.state.wake(&self.slot);
        }
    }

    fn transfer(&self) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left - 1, Ordering::Relaxed);
        let right = self.right.load(Ordering::Relaxed);
        self.right.store(right + 1, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.left.load(Ordering::Relaxed) + self.right.load(Ordering::Relaxed)
    }
}

/// Two writers, an optimistic reader and one with a shared latch.
fn share(counted: bool, wake: bool) {
    let page = Page::new();
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let page = page.clone();
            thread::spawn(move || {
                page.lock();
                page.transfer();
                page.unlock(counted, wake);
            })
        })
        .collect();
    let seen = page.state.snapshot();
    let sum = page.sum();
    if seen.is_readable() && page.state.validate(seen) {
        assert_eq!(sum, 10, "a validated read saw half a change");
    }
    if page.state.try_shared(page.state.snapshot()) {
        assert_eq!(page.sum(), 10, "a latched read saw half a change");
        if page.state.unlock_shared() {
            page.state.wake(&page.slot);
        }
    }
    writers.into_iter().for_each(|w| w.join().unwrap());
    assert_eq!(page.right.load(Ordering::Relaxed), 2, "a lost update");
}

#[test]
fn latches_exclude_and_notes_validate() {
    shuttle::check_random(|| share(true, true), 3_000);
    shuttle::check_pct(|| share(true, true), 3_000, 3);
}

#[test]
#[should_panic(expected = "half a change")]
fn a_change_that_is_not_counted_is_noticed() {
    shuttle::check_random(|| share(false, true), 20_000);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_waiter_that_is_not_woken_is_noticed() {
    shuttle::check_random(|| share(true, false), 20_000);
}

/// Writers that keep readers away until it was their turn, beside readers that wait for them.
fn alternate(wake: bool) {
    let page = Page::new();
    let spawn = |is_writer: bool| {
        let page = page.clone();
        thread::spawn(move || match is_writer {
            true => {
                page.lock();
                page.transfer();
                page.unlock(true, true);
            }
            false => (0..2).for_each(|_| page.share(wake)),
        })
    };
    let threads = [false, true, true].map(spawn);
    page.share(wake);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(page.right.load(Ordering::Relaxed), 2, "a lost update");
    assert!(!page.state.snapshot().blocks_sharing(), "nobody waits");
}

#[test]
fn readers_and_writers_follow_each_other() {
    shuttle::check_random(|| alternate(true), 3_000);
    shuttle::check_pct(|| alternate(true), 3_000, 3);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_writer_that_the_last_reader_does_not_wake_is_noticed() {
    shuttle::check_random(|| alternate(false), 20_000);
}

/// The clock evicts a page and another thread brings it back, beside a reader. `count` evicts as
/// the pool does; without, the word goes back to where it was, as if nothing had happened.
fn evict(count: bool) {
    let page = Page::new();
    let clock = {
        let page = page.clone();
        thread::spawn(move || {
            if !page.state.try_mark(page.state.snapshot()) {
                return;
            }
            let seen = page.state.snapshot();
            if seen.is_marked() && page.state.try_exclusive(seen) {
                page.left.store(0, Ordering::Relaxed);
                page.right.store(0, Ordering::Relaxed);
                if !count {
                    page.left.store(10, Ordering::Relaxed);
                    assert!(!page.state.unlock_exclusive(false));
                    return;
                }
                if page.state.evict() {
                    page.state.wake(&page.slot);
                }
            }
        })
    };
    let seen = page.state.snapshot();
    page.state.touch(seen);
    if seen.is_evicted() {
        if page.state.try_load(seen) {
            page.left.store(10, Ordering::Relaxed);
            page.unlock(true, true);
        }
    } else if seen.is_readable() {
        let sum = page.sum();
        if page.state.validate(seen) {
            assert_eq!(sum, 10, "a validated read saw an evicted page");
        }
    }
    clock.join().unwrap();
}

#[test]
fn an_evicted_page_is_never_taken_for_its_content() {
    shuttle::check_random(|| evict(true), 3_000);
    shuttle::check_pct(|| evict(true), 3_000, 3);
}

#[test]
#[should_panic(expected = "saw an evicted page")]
fn an_eviction_that_is_not_counted_is_noticed() {
    shuttle::check_random(|| evict(false), 20_000);
}

/// A page is written out while a writer changes it: clean only if the file has the last change.
fn clean(counted: bool) {
    let page = Page::new();
    page.lock();
    page.state.set_dirty(false);
    page.unlock(true, true);
    let writer = {
        let page = page.clone();
        thread::spawn(move || {
            page.lock();
            page.state.set_dirty(false);
            page.left.store(11, Ordering::Relaxed);
            page.unlock(counted, true);
        })
    };
    let seen = page.state.snapshot();
    if page.state.try_shared(seen) {
        let written = page.left.load(Ordering::Relaxed);
        let seen = page.state.snapshot();
        if page.state.unlock_shared() {
            page.state.wake(&page.slot);
        }
        let cleaned = page.state.try_clean(seen.version()).is_some();
        writer.join().unwrap();
        let last = page.left.load(Ordering::Relaxed);
        assert!(
            !cleaned || page.state.snapshot().is_dirty() || written == last,
            "a lost write"
        );
    } else {
        writer.join().unwrap();
    }
}

#[test]
fn a_page_is_clean_only_if_its_last_change_was_written() {
    shuttle::check_random(|| clean(true), 3_000);
    shuttle::check_pct(|| clean(true), 3_000, 3);
}

#[test]
#[should_panic(expected = "a lost write")]
fn a_clean_page_whose_change_was_not_counted_is_noticed() {
    shuttle::check_random(|| clean(false), 20_000);
}
