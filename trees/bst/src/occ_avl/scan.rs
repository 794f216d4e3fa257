//! Scans: searches for a bound that remember where they turned back, and go on from there.
//!
//! A scan descends towards its bound, validated like every search, and remembers the nodes at which
//! it turned to the side that the scan comes from, each with its version. At an empty link of a
//! valid node no key lies between the node and the node remembered last, the *candidate*: ranges
//! that grew meanwhile only took candidates away that were unlinked. If the candidate still has its
//! version, it is the next node in order; the scan shows its word, if it has one, and descends on
//! its other side. If a version has changed, the scan descends from the root again, beyond the last
//! key that it passed.
//!
//! So a key that is there throughout the scan is shown: the scan passes it by only at a moment at
//! which it is not there. Bounds move one way only, so no key is shown twice.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, IntKey, OrderedIntMap};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::node::Side;
use super::search::{Step, Stop, step_by};
use super::{OccAvl, RETRIES, Validation};
use crate::form::Form;
use crate::planted::{PlantedBug, planted};

/// Nodes that a scan remembers; there are fewer on a path, unless much of the tree is unbalanced.
const REMEMBERED: usize = 64;

/// Pairs that a scan shows before it lets the epochs go on.
const PAIRS_PER_PIN: usize = 256;

/// The nodes at which a scan turned back, the last [`REMEMBERED`] of them.
struct Candidates<'g, K: IntKey, F: Form, W: Word> {
    stops: [Option<Stop<'g, K, F, W>>; REMEMBERED],
    count: usize,
}

impl<'g, K: IntKey, F: Form, W: Word + 'static> Candidates<'g, K, F, W> {
    fn new() -> Self {
        Self {
            stops: [None; REMEMBERED],
            count: 0,
        }
    }

    fn push(&mut self, stop: Stop<'g, K, F, W>) {
        self.stops[self.count % REMEMBERED] = Some(stop);
        self.count += 1;
    }

    /// The last one: `None` when there is none left, `Some(None)` when it was forgotten.
    fn pop(&mut self) -> Option<Option<Stop<'g, K, F, W>>> {
        self.count = self.count.checked_sub(1)?;
        Some(self.stops[self.count % REMEMBERED].take())
    }

    /// Goes down from `at` to an empty link that is next to the first key within the scan; says
    /// whether it came there.
    fn descend(
        &mut self,
        mut at: Stop<'g, K, F, W>,
        ahead: Side,
        is_within: impl Fn(K::Encoded) -> bool,
        guard: &'g Guard,
    ) -> bool {
        let choose = |key| match is_within(key) {
            true => Some(ahead.other()),
            false => Some(ahead),
        };
        loop {
            match step_by(at, choose, guard) {
                Step::Into(next) => {
                    if next.side != ahead {
                        self.push(Stop {
                            side: ahead,
                            ..next
                        });
                    }
                    at = next;
                }
                Step::Absent => return true,
                Step::Invalid | Step::Found(_) => {
                    return planted(PlantedBug::OccAvlScanStepNotValidated);
                }
            }
        }
    }
}

/// Whether a scan from there shows the key `at`.
fn is_within<E: Ord>(from: &Bound<E>, ahead: Side, at: &E) -> bool {
    match (from, ahead) {
        (Bound::Unbounded, _) => true,
        (Bound::Included(from), Side::Right) => at >= from,
        (Bound::Included(from), Side::Left) => at <= from,
        (Bound::Excluded(from), Side::Right) => at > from,
        (Bound::Excluded(from), Side::Left) => at < from,
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> OccAvl<K, F, V, W> {
    /// Shows pairs under one pin: breaks when the scan is over, else says from where to go on.
    fn scan_pinned<'g>(
        &'g self,
        mut from: Bound<K::Encoded>,
        ahead: Side,
        guard: &'g Guard,
        visit: &mut impl FnMut(K, u64) -> ControlFlow<()>,
    ) -> ControlFlow<(), Bound<K::Encoded>> {
        let mut candidates = Candidates::new();
        let mut at = self.top(guard);
        let mut shown = 0;
        loop {
            let within = |key| is_within(&from, ahead, &key);
            if !candidates.descend(at, ahead, within, guard) {
                self.counters.count(RETRIES);
                return ControlFlow::Continue(from);
            }
            let Some(next) = candidates.pop() else {
                return ControlFlow::Break(());
            };
            let unchecked = planted(PlantedBug::OccAvlScanNotValidated);
            let Some(next) = next.filter(|next| unchecked || next.is_valid()) else {
                self.counters.count(RETRIES);
                return ControlFlow::Continue(from);
            };
            from = Bound::Excluded(next.node.key());
            if let Some(word) = next.node.word() {
                visit(K::decode(next.node.key()), word)?;
                shown += 1;
            }
            if shown == PAIRS_PER_PIN {
                return ControlFlow::Continue(from);
            }
            at = next;
        }
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> OrderedIntMap<K> for OccAvl<K, F, V, W> {
    fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        mut visit: impl FnMut(K, u64) -> ControlFlow<()>,
    ) {
        let ahead = match direction {
            Direction::Forward => Side::Right,
            Direction::Reverse => Side::Left,
        };
        let mut from = from.map(K::encode);
        loop {
            let guard = epoch::pin();
            match self.scan_pinned(from, ahead, &guard, &mut visit) {
                ControlFlow::Continue(next) => from = next,
                ControlFlow::Break(()) => return,
            }
        }
    }
}
