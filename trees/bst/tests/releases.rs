//! A release, which may be anyone's, does not run while a tree has nodes locked. Alone in its
//! process, so that releases are due at each retirement that looks for them.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use hedgerow_bst::{
    Citrus, Form, FromRoot, LogInt, NodeLock, OccAvl, SearchFieldsFirst, SearchTree, SpinLock,
    Unpadded,
};
use hedgerow_sync::epoch;

const ROUNDS: u64 = 2_000;
/// Most probes of a round, and one.
const PROBES: u64 = 37;

thread_local! {
    /// Nodes that this thread has locked.
    static LOCKED: Cell<usize> = const { Cell::new(0) };
}

static RELEASED: AtomicUsize = AtomicUsize::new(0);
static RELEASED_UNDER_LOCKS: AtomicUsize = AtomicUsize::new(0);

/// A spin lock that counts.
struct CountedLock(SpinLock);

// SAFETY: it is the spin lock within.
unsafe impl NodeLock for CountedLock {
    const WRITTEN_BYTES: usize = SpinLock::WRITTEN_BYTES;

    fn new() -> Self {
        Self(SpinLock::new())
    }

    fn lock(&self) {
        self.0.lock();
        LOCKED.set(LOCKED.get() + 1);
    }

    fn try_lock(&self) -> bool {
        let locked = self.0.try_lock();
        LOCKED.set(LOCKED.get() + usize::from(locked));
        locked
    }

    fn unlock(&self) {
        LOCKED.set(LOCKED.get() - 1);
        self.0.unlock();
    }
}

struct Counted;

impl Form for Counted {
    type Lock = CountedLock;
    type Line = Unpadded;
    type Order = SearchFieldsFirst;
    const LIGHT_LOOKUPS: bool = true;
}

/// Retires what notes whether the thread that releases it has nodes locked.
fn retire_probe() {
    let release = || {
        RELEASED.fetch_add(1, Ordering::Relaxed);
        let is_locked = usize::from(LOCKED.get() > 0);
        RELEASED_UNDER_LOCKS.fetch_add(is_locked, Ordering::Relaxed);
    };
    // SAFETY: nothing is freed.
    unsafe { epoch::retire(&epoch::pin(), release) };
}

/// Removes nodes with two children, with one and with none, beside probes.
fn check<T: SearchTree<u64>>() {
    let tree = T::segregated();
    let releases = [&RELEASED, &RELEASED_UNDER_LOCKS].map(|count| count.load(Ordering::Relaxed));
    for round in 0..ROUNDS {
        for key in [20, 10, 30, 25, 35] {
            assert_eq!(tree.insert(key, round), None);
        }
        // Not always as many, so that each retirement of a tree looks for releases some time.
        for _ in 0..round % PROBES {
            retire_probe();
        }
        for key in [20, 30, 25, 35, 10] {
            assert_eq!(tree.remove(key), Some(round));
        }
    }
    assert_eq!(LOCKED.get(), 0, "{}: nodes are locked", T::NAME);
    assert!(
        RELEASED.load(Ordering::Relaxed) > releases[0],
        "nothing was released"
    );
    let under_locks = RELEASED_UNDER_LOCKS.load(Ordering::Relaxed) - releases[1];
    assert_eq!(under_locks, 0, "{}: released under locks", T::NAME);
}

#[test]
fn releases_run_without_locks() {
    check::<OccAvl<u64, Counted>>();
    check::<OccAvl<u64, Counted, FromRoot>>();
    check::<LogInt<u64, Counted>>();
    check::<Citrus<u64, Counted>>();
}
