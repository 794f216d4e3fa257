//! Ordered reads, along the list.
//!
//! Forward, each node leads to the one that followed it at a moment of the scan: now, if the node
//! is in the list, or when it was removed. So no key that stays is skipped, whatever becomes of the
//! node that the scan is at, and keys ascend. Backward, a node's *pred* may be late, or lead to a
//! removed node. So the scan takes it as a hint, and looks from there for the last node below the
//! key that it comes from.
//!
//! A long scan under one pin would hold memory back, so every [`NODES_PER_PIN`] nodes it pins anew.
//! Then it has no node to go on from, but the key of the last one. It begins again as a scan from
//! behind that key does, which the list answers even if the key was removed meanwhile.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, IntKey, OrderedIntMap};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::{Limit, LogInt, Node};
use crate::form::Form;

/// Nodes that a scan passes before it lets the epochs go on.
const NODES_PER_PIN: usize = 256;

impl<K: IntKey, F: Form, W: Word + 'static> OrderedIntMap<K> for LogInt<K, F, W> {
    fn scan(
        &self,
        mut from: Bound<K>,
        direction: Direction,
        mut visit: impl FnMut(K, u64) -> ControlFlow<()>,
    ) {
        loop {
            let guard = epoch::pin();
            let passed = match direction {
                Direction::Forward => self.scan_forward(from, &guard, &mut visit),
                Direction::Reverse => self.scan_reverse(from, &guard, &mut visit),
            };
            match passed {
                ControlFlow::Continue(next) => from = next,
                ControlFlow::Break(()) => return,
            }
        }
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> LogInt<K, F, W> {
    /// Visits pairs under one pin: breaks when the scan is over, else says from where to go on.
    fn scan_forward(
        &self,
        mut from: Bound<K>,
        guard: &Guard,
        visit: &mut impl FnMut(K, u64) -> ControlFlow<()>,
    ) -> ControlFlow<(), Bound<K>> {
        let mut node = match from {
            Bound::Included(key) => self.around(self.descend(key, guard).0, Limit::Below(key)).1,
            Bound::Excluded(key) => self.around(self.descend(key, guard).0, Limit::At(key)).1,
            Bound::Unbounded => self.least(guard).succ(),
        };
        for _ in 0..NODES_PER_PIN {
            let Some(key) = self.key(node) else {
                return ControlFlow::Break(());
            };
            visit_present(node, key, visit)?;
            from = Bound::Excluded(key);
            node = node.succ();
        }
        ControlFlow::Continue(from)
    }

    /// As [`scan_forward`](Self::scan_forward), the other way.
    fn scan_reverse(
        &self,
        mut from: Bound<K>,
        guard: &Guard,
        visit: &mut impl FnMut(K, u64) -> ControlFlow<()>,
    ) -> ControlFlow<(), Bound<K>> {
        let mut node = match from {
            Bound::Included(key) => self.around(self.descend(key, guard).0, Limit::At(key)).0,
            Bound::Excluded(key) => self.around(self.descend(key, guard).0, Limit::Below(key)).0,
            Bound::Unbounded => self.around(self.greatest(guard), Limit::End).0,
        };
        for _ in 0..NODES_PER_PIN {
            let Some(key) = self.key(node) else {
                return ControlFlow::Break(());
            };
            visit_present(node, key, visit)?;
            from = Bound::Excluded(key);
            node = self.around(node, Limit::Below(key)).0;
        }
        ControlFlow::Continue(from)
    }
}

/// Visits the node unless it was removed.
fn visit_present<K: IntKey, F: Form, W: Word>(
    node: &Node<K, F, W>,
    key: K,
    visit: &mut impl FnMut(K, u64) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match node.is_removed() {
        true => ControlFlow::Continue(()),
        false => visit(key, node.search().word),
    }
}
