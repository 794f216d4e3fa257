//! Epoch-based reclamation, over crossbeam-epoch.
//!
//! An operation *pins* the thread before it follows the first pointer and unpins when its
//! [`Guard`] drops. Memory that a writer unlinked is *retired*: its release runs only after
//! every thread that was pinned at that time has unpinned once. So a pointer read under a pin
//! stays valid until the pin ends, whatever writers do. Pins nest; an inner pin is cheap.

pub use crossbeam_epoch::{Guard, pin};

/// Runs `release` once no thread that is pinned now can still hold what it releases.
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
}

/// Ends the pin of `guard` and begins a new one, unless an outer guard holds the thread.
///
/// Takes the guard by unique reference: nothing read under it may be used any more.
#[inline]
pub fn repin(guard: &mut Guard) {
    guard.repin();
}
