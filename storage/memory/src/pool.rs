//! The pools: a magazine of free slots per thread and pool, a central store per pool.
//!
//! There is one pool for each size class ([`class`](crate::class)) and one for each
//! [`Kind`] of blocks. A thread has the magazines of all classes in one block, so that the class is
//! an index; those of kinds are made when the thread first uses the kind.

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::central::{self, Central, Slot};
use crate::class;
use crate::class_report::ClassReport;
use crate::kind;
use crate::magazine::{self, Depot, Magazine};
use crate::region;
use crate::system;

pub(crate) use crate::kind::{Kind, kind};

const CAPACITIES: [u8; class::COUNT] = {
    let mut capacities = [0; class::COUNT];
    let mut class = 0;
    while class < class::COUNT {
        capacities[class] = magazine::capacity(class::slot_bytes(class));
        class += 1;
    }
    capacities
};

static CENTRALS: [Mutex<Central>; class::COUNT] =
    [const { Mutex::new(Central::EMPTY) }; class::COUNT];

fn class_depot(class: usize) -> Depot {
    Depot {
        central: &CENTRALS[class],
        slot_bytes: class::slot_bytes(class),
        capacity: CAPACITIES[class],
    }
}

/// A thread's magazines. Only the owning thread touches their slots.
struct Magazines {
    classes: [Magazine; class::COUNT],
    /// By the kind's number, as far as the thread has used kinds; null for those it has not.
    /// The owner alone changes the list, under the registry's mutex; others read it under that.
    kinds: UnsafeCell<Vec<*const Magazine>>,
}

/// A pointer to a thread's magazines in the registry of all threads'.
struct Registered(NonNull<Magazines>);

// SAFETY: other threads reach the magazines only through the registry's mutex and read only
// their atomic lengths and the list of kinds, which the owner changes under that mutex; the owner
// unregisters under it before it frees them.
unsafe impl Send for Registered {}

static THREADS: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

fn threads() -> MutexGuard<'static, Vec<Registered>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// This thread's magazines, or null before its first block and after its exit began.
    static MAGAZINES: Cell<*const Magazines> = const { Cell::new(ptr::null()) };
    /// Frees the magazines when the thread ends. Apart from the pointer, so that the fast
    /// path needs no check whether a destructor ran.
    static OWNER: Owner = const { Owner };
}

struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        let Some(magazines) = NonNull::new(MAGAZINES.replace(ptr::null()).cast_mut()) else {
            return;
        };
        // Held until the slots are in the central stores, so that a report finds each of them once.
        let mut threads = threads();
        threads.retain(|registered| registered.0 != magazines);
        // SAFETY: made by `Box` in `this_thread` for this thread; its thread-local pointer was
        // just cleared and its registration removed, so this is the only one left.
        let magazines = unsafe { Box::from_raw(magazines.as_ptr()) };
        for (class, magazine) in magazines.classes.iter().enumerate() {
            magazine.drain(class_depot(class), magazine.len());
        }
        for (kind, magazine) in kind::all().into_iter().zip(magazines.kinds.into_inner()) {
            if let Some(magazine) = NonNull::new(magazine.cast_mut()) {
                // SAFETY: made by `Box` in `of_kind`; the list just read has its only pointer.
                let magazine = unsafe { Box::from_raw(magazine.as_ptr()) };
                magazine.drain(kind.depot(), magazine.len());
            }
        }
    }
}

impl Magazines {
    /// The thread's magazine of a kind, if it has used the kind. For the owner alone.
    #[inline]
    fn used_kind(&self, kind: &Kind) -> Option<&Magazine> {
        // SAFETY: only the owning thread runs this, and it alone changes the list.
        let kinds = unsafe { &*self.kinds.get() };
        let magazine = *kinds.get(kind.number())?;
        // SAFETY: null or a magazine that lives as long as `self`.
        unsafe { magazine.as_ref() }
    }

    /// The thread's magazine of a kind. For the owner alone.
    fn of_kind(&self, kind: &Kind) -> &Magazine {
        if let Some(magazine) = self.used_kind(kind) {
            return magazine;
        }
        let magazine: &Magazine = Box::leak(Box::new(Magazine::new()));
        let _threads = threads();
        // SAFETY: only the owning thread runs this, and it has no other reference into the list;
        // other threads read the list under the mutex that is held.
        let kinds = unsafe { &mut *self.kinds.get() };
        if kinds.len() <= kind.number() {
            kinds.resize(kind.number() + 1, ptr::null());
        }
        kinds[kind.number()] = magazine;
        magazine
    }
}

/// This thread's magazines if it has any: not before its first block, and not while it is ending.
#[inline]
fn magazines() -> Option<&'static Magazines> {
    // SAFETY: non-null means registered by this thread and not yet freed by its `Owner`; callers,
    // all in this module, let go of the reference before they return to code that could end the
    // thread.
    unsafe { MAGAZINES.get().as_ref() }
}

/// A block from the pool of its size class, or from the standard allocator when it is large.
#[inline]
pub(crate) fn allocate(size_bytes: usize) -> Option<NonNull<u8>> {
    if size_bytes > class::LARGEST_BYTES {
        return system::allocate(size_bytes);
    }
    let class = class::of(size_bytes);
    if let Some(magazines) = magazines()
        && let Some(slot) = magazines.classes[class].pop()
    {
        return Some(slot.0);
    }
    refill(class)
}

/// Gives a block of [`allocate`] back.
///
/// # Safety
///
/// As for [`crate::release`].
#[inline]
pub(crate) unsafe fn release(block: NonNull<u8>, size_bytes: usize) {
    if size_bytes > class::LARGEST_BYTES {
        // SAFETY: `allocate` sent this size to the same allocator; the rest is the caller's
        // promise.
        return unsafe { system::release(block, size_bytes) };
    }
    let class = class::of(size_bytes);
    // SAFETY: the block is this class's slot size long and nobody uses it any more.
    unsafe { mark_released(block, class::slot_bytes(class)) };
    if let Some(magazines) = magazines() {
        let magazine = &magazines.classes[class];
        if magazine.has_room(CAPACITIES[class]) {
            return magazine.push(Slot(block));
        }
    }
    release_slowly(Slot(block), class);
}

/// A block from the pool of its kind.
#[inline]
pub(crate) fn allocate_kind(kind: &'static Kind) -> Option<NonNull<u8>> {
    if let Some(magazines) = magazines()
        && let Some(magazine) = magazines.used_kind(kind)
        && let Some(slot) = magazine.pop()
    {
        return Some(slot.0);
    }
    refill_kind(kind)
}

/// Gives a block of [`allocate_kind`] back.
///
/// # Safety
///
/// The block came from there for the same kind, and nobody uses it any more.
#[inline]
pub(crate) unsafe fn release_kind(kind: &'static Kind, block: NonNull<u8>) {
    // SAFETY: the block is a slot of this kind and nobody uses it any more.
    unsafe { mark_released(block, kind.slot_bytes()) };
    if let Some(magazines) = magazines()
        && let Some(magazine) = magazines.used_kind(kind)
        && magazine.has_room(kind.capacity())
    {
        return magazine.push(Slot(block));
    }
    release_kind_slowly(Slot(block), kind);
}

/// In debug builds fills a released block by a pattern, which makes a use after release show
/// itself.
///
/// # Safety
///
/// The block has this size, and nobody uses it any more.
#[inline]
unsafe fn mark_released(block: NonNull<u8>, slot_bytes: usize) {
    if cfg!(debug_assertions) {
        assert!(
            (block.as_ptr() as usize).is_multiple_of(8),
            "released pointer is no block"
        );
        // SAFETY: as promised by the caller.
        unsafe { block.as_ptr().write_bytes(0xDD, slot_bytes) };
    }
}

#[cold]
#[inline(never)]
fn refill(class: usize) -> Option<NonNull<u8>> {
    class_depot(class).refill(this_thread().map(|magazines| &magazines.classes[class]))
}

#[cold]
#[inline(never)]
fn release_slowly(slot: Slot, class: usize) {
    let magazine = this_thread().map(|magazines| &magazines.classes[class]);
    class_depot(class).take_back(slot, magazine);
}

#[cold]
#[inline(never)]
fn refill_kind(kind: &'static Kind) -> Option<NonNull<u8>> {
    kind.depot()
        .refill(this_thread().map(|magazines| magazines.of_kind(kind)))
}

#[cold]
#[inline(never)]
fn release_kind_slowly(slot: Slot, kind: &'static Kind) {
    let magazine = this_thread().map(|magazines| magazines.of_kind(kind));
    kind.depot().take_back(slot, magazine);
}

/// This thread's magazines, made on first use; `None` once the thread's exit has begun.
fn this_thread() -> Option<&'static Magazines> {
    if MAGAZINES.get().is_null() {
        OWNER.try_with(|_| ()).ok()?;
        let empty = Box::new(Magazines {
            classes: [const { Magazine::new() }; class::COUNT],
            kinds: UnsafeCell::new(Vec::new()),
        });
        let leaked = NonNull::from(Box::leak(empty));
        threads().push(Registered(leaked));
        MAGAZINES.set(leaked.as_ptr());
    }
    magazines()
}

/// Bytes of chunks that pools own, plus live large blocks.
pub(crate) fn reserved_bytes() -> usize {
    central::reserved_bytes() + system::live_bytes()
}

/// Bytes of slots that are handed out, plus live large blocks. Takes each pool's mutex in turn and
/// visits no slots.
pub(crate) fn live_bytes() -> usize {
    let kinds = kind::all();
    // Held until all pools are read: a thread that ends moves no slots meanwhile.
    let threads = threads();
    let cached = Cached::count(&threads, kinds.len());
    let of_class = |class: usize| {
        let depot = class_depot(class);
        depot.central().live(cached.classes[class]) * depot.slot_bytes
    };
    let of_kind = |kind: &'static Kind| {
        let depot = kind.depot();
        depot.central().live(cached.kinds[kind.number()]) * depot.slot_bytes
    };
    let classes: usize = (0..class::COUNT).map(of_class).sum();
    let kinds: usize = kinds.into_iter().map(of_kind).sum();
    classes + kinds + system::live_bytes()
}

/// What each used pool holds, size classes first, and the address space mapped.
pub(crate) fn classes() -> (Vec<ClassReport>, usize) {
    let kinds = kind::all();
    // Held until all pools are read: a thread that ends moves no slots meanwhile.
    let threads = threads();
    let cached = Cached::count(&threads, kinds.len());
    let of_class = |class: usize| {
        let depot = class_depot(class);
        let cached = cached.classes[class];
        depot.central().report(None, depot.slot_bytes, cached)
    };
    let of_kind = |kind: &'static Kind| {
        let (depot, cached) = (kind.depot(), cached.kinds[kind.number()]);
        let name = Some(kind.name());
        depot.central().report(name, depot.slot_bytes, cached)
    };
    let classes = (0..class::COUNT).filter_map(of_class);
    let reports = classes.chain(kinds.into_iter().filter_map(of_kind));
    (reports.collect(), region::mapped_bytes())
}

/// Free slots in all threads' magazines, by pool.
struct Cached {
    classes: [usize; class::COUNT],
    kinds: Vec<usize>,
}

impl Cached {
    /// Those of registered threads; the caller holds the registry's mutex.
    fn count(threads: &[Registered], kinds: usize) -> Self {
        let mut cached = Self {
            classes: [0; class::COUNT],
            kinds: vec![0; kinds],
        };
        for registered in threads {
            // SAFETY: registered magazines are freed only after they left the registry, whose
            // mutex is held; only their atomic lengths are read, and the list of kinds, which
            // changes under that mutex.
            let (magazines, of_kinds) = unsafe {
                let magazines = registered.0.as_ref();
                (magazines, &*magazines.kinds.get())
            };
            for (sum, magazine) in cached.classes.iter_mut().zip(&magazines.classes) {
                *sum += magazine.len();
            }
            for (sum, magazine) in cached.kinds.iter_mut().zip(of_kinds) {
                // SAFETY: null, or a magazine that is freed after its thread unregistered.
                *sum += unsafe { magazine.as_ref() }.map_or(0, Magazine::len);
            }
        }
        cached
    }
}
