//! Epoch-based reclamation, over crossbeam-epoch.
//!
//! An operation *pins* the thread before it follows the first pointer and unpins when its
//! [`Guard`] drops. Memory that a writer unlinked is *retired*: its release runs only after
//! every thread that was pinned at that time has unpinned once. So a pointer read under a pin
//! stays valid until the pin ends, whatever writers do. Pins nest; an inner pin is cheap.
//!
//! crossbeam-epoch releases what is due only now and then when a thread pins, so a thread that
//! retires much under few long pins would retain ever more. So each thread also releases what is
//! due after every so many of its own retirements: what waits is bounded by what is retired under
//! the last few pins.

use std::cell::Cell;

pub use crossbeam_epoch::{Guard, pin};

/// Retirements of a thread after which it releases what is due: a whole bag of crossbeam-epoch's,
/// of which one attempt releases several.
const RETIREMENTS_PER_RELEASE: u32 = 64;

thread_local! {
    /// Retirements of this thread since it last released what is due.
    static RETIRED: Cell<u32> = const { Cell::new(0) };
}

/// Runs `release` once no thread that is pinned now can still hold what it releases. Every now and
/// then runs earlier ones that are due, so `release` takes no latch that callers may hold.
///
/// # Safety
///
/// What `release` frees is unreachable for threads that pin from now on, and `release` may
/// run on any thread.
#[inline]
pub unsafe fn retire<F: FnOnce() + 'static>(guard: &Guard, release: F) {
    // SAFETY: the caller promises unreachability for new pins and that the closure may move
    // to another thread, which is what `defer_unchecked` asks for.
    unsafe { guard.defer_unchecked(release) }
    RETIRED.with(|retired| {
        let count = retired.get() + 1;
        retired.set(count % RETIREMENTS_PER_RELEASE);
        if count == RETIREMENTS_PER_RELEASE {
            guard.flush();
        }
    });
}

/// As [`retire`], but runs `release` after two grace periods, one after the other: once no thread
/// that is pinned now, and no thread that was pinned together with one of those, can still hold
/// what it frees.
///
/// That is what operations need which other threads help. A helper finds a description of an
/// operation while the thread that began it is still pinned, but perhaps after something that the
/// description names was retired. The beginner's pin outlasts the first grace period of what was
/// there when it began, and the helper's pin overlaps the beginner's, so it outlasts the second.
///
/// # Safety
///
/// As [`retire`]; and threads that pin after the first grace period find no description that names
/// what `release` frees.
#[inline]
pub unsafe fn retire_behind_helpers<F: FnOnce() + 'static>(guard: &Guard, release: F) {
    // SAFETY: as the caller promises; the first grace period frees nothing.
    unsafe {
        retire(guard, move || {
            // Not `retire`, which may run releases, within a release.
            pin().defer_unchecked(release);
        });
    }
}

/// Ends the pin of `guard` and begins a new one, unless an outer guard holds the thread.
///
/// Takes the guard by unique reference: nothing read under it may be used any more.
#[inline]
pub fn repin(guard: &mut Guard) {
    guard.repin();
}
