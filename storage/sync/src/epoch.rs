//! Epoch-based reclamation, over crossbeam-epoch.
//!
//! An operation *pins* the thread before it follows the first pointer and unpins when its
//! [`Guard`] drops. Memory that a writer unlinked is *retired*: its release runs only after
//! every thread that was pinned at that time has unpinned once. So a pointer read under a pin
//! stays valid until the pin ends, whatever writers do. Pins nest; an inner pin is cheap.
//!
//! crossbeam-epoch releases what is due only now and then when a thread pins, so a thread that
//! retires much under few long pins would retain ever more. So each thread also releases what is
//! due after every so many of its own retirements, and after every so many bytes of them: what
//! waits is bounded by what is retired under the last few pins. Who needs memory at once calls
//! [`release_due`].

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use crossbeam_epoch::{Guard, pin};

/// Retirements of a thread after which it releases what is due: a whole bag of crossbeam-epoch's,
/// of which one attempt releases several.
const RETIREMENTS_PER_RELEASE: u32 = 64;
/// Retired bytes after which a thread releases what is due, however few retirements they are: a
/// value may be as large as memory.
const RETIRED_BYTES_PER_RELEASE: usize = 1 << 20;
/// Epochs that end before what is retired now is due, and the collection that then frees it.
const RELEASES_UNTIL_DUE: usize = 3;

/// What a thread has retired.
#[derive(Debug, Clone, Copy)]
struct Retired {
    count: u32,
    bytes: usize,
}

impl Retired {
    const NOTHING: Retired = Retired { count: 0, bytes: 0 };
}

thread_local! {
    /// Retirements of this thread since it last released what is due.
    static RETIRED: Cell<Retired> = const { Cell::new(Retired::NOTHING) };
    /// What this thread does in [`begin_second_period`]. Without a destructor, so that it is there
    /// for releases while the thread ends, too.
    static STAGE: Cell<Stage> = const { Cell::new(Stage::Idle) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Pins the thread, which may run releases.
    Pinning,
    /// As `Pinning`, and a release within that pin left its closure in [`LEFT`].
    Left,
}

/// A closure that waits for its second grace period.
type Release = Box<dyn FnOnce() + Send>;

/// What releases left that ran within the pin of another release.
static LEFT: Mutex<Vec<Release>> = Mutex::new(Vec::new());

/// Runs `release` once no thread that is pinned now can still hold what it releases. Every now and
/// then runs earlier ones that are due, so `release` takes no latch that callers may hold. It pins
/// nothing: on a thread that is ending, a pin may run further releases, each a call deeper.
///
/// # Safety
///
/// What `release` frees is unreachable for threads that pin from now on, and `release` may
/// run on any thread.
#[inline]
pub unsafe fn retire<F: FnOnce() + 'static>(guard: &Guard, release: F) {
    // SAFETY: the caller's promise.
    unsafe { retire_bytes(guard, 0, release) }
}

/// As [`retire`], for what may be large: `release` frees `bytes`. However few such retirements
/// there are, what waits is bounded: by a mebibyte for each thread, and by what was retired under
/// the last few pins.
///
/// # Safety
///
/// As [`retire`].
#[inline]
pub unsafe fn retire_bytes<F: FnOnce() + 'static>(guard: &Guard, bytes: usize, release: F) {
    // SAFETY: the caller promises unreachability for new pins and that the closure may move
    // to another thread, which is what `defer_unchecked` asks for.
    unsafe { guard.defer_unchecked(release) }
    RETIRED.with(|retired| {
        let before = retired.get();
        let now = Retired {
            count: before.count + 1,
            bytes: before.bytes.saturating_add(bytes),
        };
        if now.count < RETIREMENTS_PER_RELEASE && now.bytes < RETIRED_BYTES_PER_RELEASE {
            return retired.set(now);
        }
        // Before the releases, which may retire more.
        retired.set(Retired::NOTHING);
        guard.flush();
    });
}

/// Releases some of what this thread has retired, and of what others passed on, as far as no thread
/// that is pinned may still hold it. One call releases a few bags of up to 64 retirements, and if
/// the caller is pinned itself, hardly any; so call it for as long as it helps. What `release`
/// closures ask of callers of [`retire`] holds here.
pub fn release_due() {
    for _ in 0..RELEASES_UNTIL_DUE {
        pin().flush();
    }
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
pub unsafe fn retire_after_two_grace_periods<F: FnOnce() + 'static>(guard: &Guard, release: F) {
    let release = Anywhere(release);
    // SAFETY: as the caller promises; the first grace period frees nothing.
    unsafe { retire(guard, move || begin_second_period(release)) }
}

/// A closure that may run on any thread.
struct Anywhere<F>(F);

// SAFETY: only `retire_after_two_grace_periods` makes one, whose caller promises that the closure
// may run on any thread.
unsafe impl<F> Send for Anywhere<F> {}

impl<F: FnOnce()> Anywhere<F> {
    fn run(self) {
        (self.0)()
    }
}

/// Runs after the first grace period, within a release: defers `release` for the second one.
///
/// Pins the thread, for which a thread that is ending needs a new record; the first pin of a record
/// runs releases, which may be more of these. One that runs within another's pin pins no more, or
/// the thread would need stack for each bag that is due. It leaves its closure to the other.
fn begin_second_period<F: FnOnce() + 'static>(release: Anywhere<F>) {
    if STAGE.get() != Stage::Idle {
        left().push(Box::new(move || release.run()));
        STAGE.set(Stage::Left);
        return;
    }
    STAGE.set(Stage::Pinning);
    let guard = pin();
    let all = match STAGE.replace(Stage::Idle) {
        Stage::Left => std::mem::take(&mut *left()),
        _ => Vec::new(),
    };
    for release in all {
        // SAFETY: as below; what other threads left here has had its first grace period, too.
        unsafe { guard.defer_unchecked(release) }
    }
    // Not `retire`, which may run releases, within a release.
    // SAFETY: the caller of `retire_after_two_grace_periods` promises what `defer_unchecked` asks
    // for.
    unsafe { guard.defer_unchecked(move || release.run()) }
}

fn left() -> MutexGuard<'static, Vec<Release>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the pin of `guard` and begins a new one, unless an outer guard holds the thread.
///
/// Takes the guard by unique reference: nothing read under it may be used any more.
#[inline]
pub fn repin(guard: &mut Guard) {
    guard.repin();
}
