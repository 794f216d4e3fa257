//! Ordered reads, along the list.
//!
//! Forward, each node leads to the one that followed it at a moment of the scan: now, if the node
//! is in the list, or when it was removed. So no key that stays is skipped, whatever becomes of the
//! node that the scan is at, and keys ascend. Backward, a node's *pred* may be late, or lead to a
//! removed node. So the scan takes it as a hint, and looks from there for the last node below the
//! key that it comes from.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, IntKey, OrderedIntMap};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::{Limit, LogInt, Node};
use crate::form::Form;

impl<K: IntKey, F: Form, W: Word + 'static> OrderedIntMap<K> for LogInt<K, F, W> {
    fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        mut visit: impl FnMut(K, u64) -> ControlFlow<()>,
    ) {
        let guard = epoch::pin();
        let _ = match direction {
            Direction::Forward => self.scan_forward(from, &guard, &mut visit),
            Direction::Reverse => self.scan_reverse(from, &guard, &mut visit),
        };
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> LogInt<K, F, W> {
    fn scan_forward(
        &self,
        from: Bound<K>,
        guard: &Guard,
        visit: &mut impl FnMut(K, u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut node = match from {
            Bound::Included(key) => self.around(self.descend(key, guard).0, Limit::Below(key)).1,
            Bound::Excluded(key) => self.around(self.descend(key, guard).0, Limit::At(key)).1,
            Bound::Unbounded => self.least(guard).succ(),
        };
        while let Some(key) = self.key(node) {
            visit_present(node, key, visit)?;
            node = node.succ();
        }
        ControlFlow::Continue(())
    }

    fn scan_reverse(
        &self,
        from: Bound<K>,
        guard: &Guard,
        visit: &mut impl FnMut(K, u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut node = match from {
            Bound::Included(key) => self.around(self.descend(key, guard).0, Limit::At(key)).0,
            Bound::Excluded(key) => self.around(self.descend(key, guard).0, Limit::Below(key)).0,
            Bound::Unbounded => self.around(self.greatest(guard), Limit::End).0,
        };
        while let Some(key) = self.key(node) {
            visit_present(node, key, visit)?;
            node = self.around(node, Limit::Below(key)).0;
        }
        ControlFlow::Continue(())
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
