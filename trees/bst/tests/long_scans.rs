//! A long scan, or a removal of many pairs, does not hold memory back. One test alone in its
//! process: pins of other tests' threads hold memory back too.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_bst::{BstIndex, EdgeExtLf, LogInt, OccAvl, OccAvl2Ret, SearchTree};
use hedgerow_index::{
    Decision, Direction, Index, IndexExt, OrderedIntMap, RangeDecision, ScanRange, ValuePart,
};
use hedgerow_sync::epoch;

/// Many times as many as a scan visits under one pin.
const KEYS: u64 = 10_000;

/// Tells whether what was retired at the first pair of a walk was released before its last one.
#[derive(Default)]
struct Walk {
    is_released: Arc<AtomicBool>,
    seen: u64,
    released_at: Option<u64>,
}

impl Walk {
    fn see_a_pair(&mut self) {
        let guard = epoch::pin();
        if self.seen == 0 {
            let is_released = Arc::clone(&self.is_released);
            guard.defer(move || is_released.store(true, Ordering::Relaxed));
        }
        guard.flush();
        self.seen += 1;
        if self.is_released.load(Ordering::Relaxed) {
            self.released_at.get_or_insert(self.seen);
        }
    }

    fn check(&self, what: &str) {
        assert_eq!(self.seen, KEYS, "{what}");
        assert!(self.released_at.is_some_and(|at| at < KEYS), "{what}");
    }
}

fn check_scans_of<T: SearchTree<u64> + OrderedIntMap<u64>>() {
    let tree = T::segregated();
    // Not in order, or the trees that do not balance were lists.
    for number in 0..KEYS {
        let key = number * 7_919 % KEYS;
        assert_eq!(tree.insert(key, key), None);
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut walk = Walk::default();
        tree.scan(Bound::Unbounded, direction, |_, _| {
            walk.see_a_pair();
            ControlFlow::Continue(())
        });
        walk.check(&format!("{}: {direction:?}", T::NAME));
    }
}

/// The same through the interface of keyspaces.
fn check_index() {
    let index = BstIndex::new();
    for number in 0..KEYS {
        let put = index.modify(
            &number.to_be_bytes(),
            ValuePart::Whole,
            &mut Vec::new(),
            |_, value| {
                value.extend_from_slice(b"a value");
                Decision::Put(())
            },
        );
        put.expect("a key of 8 bytes");
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut walk = Walk::default();
        let all = ScanRange::starting_at(Bound::Unbounded, direction);
        let visit = &mut |_: &[u8], _: &[u8]| {
            walk.see_a_pair();
            ControlFlow::Continue(())
        };
        index.scan(&all, visit).expect("in memory");
        walk.check(&format!("{direction:?}"));
    }
    let mut walk = Walk::default();
    let decide = &mut |_: &[u8], _: &[u8]| -> RangeDecision {
        walk.see_a_pair();
        ControlFlow::Continue(true)
    };
    let removal = index.remove_range(Bound::Unbounded, Bound::Unbounded, decide);
    removal.expect("in memory");
    walk.check("removal");
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    let visit = &mut |_: &[u8], _: &[u8]| -> ControlFlow<()> { panic!("a pair was left") };
    index.scan(&all, visit).expect("in memory");
}

#[test]
fn a_long_scan_lets_memory_go() {
    check_scans_of::<OccAvl<u64>>();
    check_scans_of::<OccAvl2Ret<u64>>();
    check_scans_of::<EdgeExtLf<u64>>();
    check_scans_of::<LogInt<u64>>();
    check_index();
}
