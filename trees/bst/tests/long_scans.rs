//! A long scan does not hold memory back. Alone in its process: pins of other tests' threads would.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_bst::{EdgeExtLf, LogInt, OccAvl, OccAvl2Ret, SearchTree};
use hedgerow_index::{Direction, OrderedIntMap};
use hedgerow_sync::epoch;

/// Many times as many as a scan visits under one pin.
const KEYS: u64 = 10_000;

/// Whether what is retired at the first pair of a scan is released before its last one.
fn releases_meanwhile<T: OrderedIntMap<u64>>(tree: &T, direction: Direction) -> bool {
    let is_released = Arc::new(AtomicBool::new(false));
    let mut seen = 0;
    let mut released_at = None;
    tree.scan(Bound::Unbounded, direction, |_, _| {
        let guard = epoch::pin();
        if seen == 0 {
            let is_released = Arc::clone(&is_released);
            // SAFETY: the flag is shared by reference count.
            unsafe { epoch::retire(&guard, move || is_released.store(true, Ordering::Relaxed)) };
        }
        guard.flush();
        seen += 1;
        if is_released.load(Ordering::Relaxed) {
            released_at.get_or_insert(seen);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(seen, KEYS);
    released_at.is_some_and(|at| at < KEYS)
}

fn check<T: SearchTree<u64> + OrderedIntMap<u64>>() {
    let tree = T::segregated();
    // Not in order, or the trees that do not balance were lists.
    for number in 0..KEYS {
        let key = number * 7_919 % KEYS;
        assert_eq!(tree.insert(key, key), None);
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let releases = releases_meanwhile(&tree, direction);
        assert!(releases, "{}: {direction:?}", T::NAME);
    }
}

#[test]
fn a_long_scan_lets_memory_go() {
    check::<OccAvl<u64>>();
    check::<OccAvl2Ret<u64>>();
    check::<EdgeExtLf<u64>>();
    check::<LogInt<u64>>();
}
