//! Removing the keys between two bounds, a leaf at a time.
//!
//! Removing one key after the other would cost a descent and a delta record for each, and a
//! consolidation for each chain of them. Here the tree finds a leaf once, asks the caller about all
//! of its keys in the range, and replaces its chain once by a base node of what is left. Where
//! nothing is left, the empty leaf merges with a neighbour at once, whose keys need not be copied
//! for that.
//!
//! The compare-and-swap of a leaf removes all of its keys in the range together; there is no moment
//! at which the removal of the whole range happens. Others may change keys of the same leaf that
//! are not in the range, so the compare-and-swap can fail. The caller was asked about these keys
//! already and is not asked again, so the tree then removes them one by one.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, KeyBound, RangeDecision};

use crate::configuration::Configuration;
use crate::descend::Help;
use crate::epochs::Epochs;
use crate::events::Event;
use crate::mapping_table::ROOT;
use crate::node::route::Target;
use crate::node::view::View;
use crate::node::{Draft, Item, RecordRef};
use crate::tree::{BwTree, Guard, Node, WordOf};

/// Where a removal continues.
struct Position {
    key: Vec<u8>,
    inclusive: bool,
}

impl Position {
    fn of(from: Bound<&[u8]>) -> Self {
        let start = KeyBound::of(from);
        Self {
            key: start.map_or_else(Vec::new, |start| start.key.to_vec()),
            inclusive: start.is_none_or(|start| start.inclusive),
        }
    }

    /// How many items of a leaf lie before it.
    fn below(&self, items: &[Item<'_>]) -> usize {
        items.partition_point(|item| {
            let order = item.key.compare(&self.key);
            order.is_lt() || (!self.inclusive && order.is_eq())
        })
    }
}

/// What the caller decided about the items of a leaf.
struct Decided {
    /// For each item, whether it is removed.
    removed: Vec<bool>,
    /// How many are.
    count: usize,
    /// Whether the removal ends in this leaf.
    is_end: bool,
}

impl<C: Configuration> BwTree<C> {
    /// Removes the pairs between two bounds as [`hedgerow_index::Index::remove_range`] does, with
    /// `decide` compiled in. Costs a descent, a consolidation and at most a merge for each leaf.
    ///
    /// Each key is removed atomically, and the keys of a leaf usually together; the range as a
    /// whole is not. Callers keep others from changing pairs of the range meanwhile; the tree
    /// removes a pair that changed nevertheless as `decide` said of the value that it was shown.
    pub fn remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut decide: impl FnMut(&[u8], &[u8]) -> RangeDecision,
    ) {
        let end = KeyBound::of(to);
        let mut position = Position::of(from);
        loop {
            let guard = self.epochs.pin();
            let leaf = self.find_leaf(Target::At(&position.key), Help::Post, &guard);
            let view = View::of(leaf.head, None);
            let decided = decide_items(&view, &position, end, &mut decide);
            let is_end = decided.is_end;
            if decided.count > 0 {
                self.counters.count(Event::RangeLeaves as usize);
                self.remove_items(leaf, view, &decided, &guard);
            }
            match leaf.head.high() {
                Some(high) if !is_end && !is_beyond(end, high) => {
                    position = Position {
                        key: high.to_vec(),
                        inclusive: true,
                    };
                }
                _ => return,
            }
        }
    }

    /// Removes items of a leaf by one compare-and-swap, or one by one if another thread changed the
    /// leaf first.
    fn remove_items(
        &self,
        leaf: Node<'_>,
        mut view: View<'_>,
        decided: &Decided,
        guard: &Guard<C>,
    ) {
        let is_removed = |index: usize| decided.removed.get(index).is_some_and(|removed| *removed);
        let items = std::mem::take(&mut view.items);
        let (mut removed, mut left) = (Vec::with_capacity(decided.count), Vec::new());
        for (index, item) in items.into_iter().enumerate() {
            if is_removed(index) {
                removed.push(item);
            } else {
                left.push(item);
            }
        }
        let blocks = removed.iter().filter_map(|item| item.value.block());
        view.garbage.extend(blocks);
        view.items = left;
        // A leaf that shrinks is never split here: its next consolidation sees to that.
        let draft = Draft {
            level: 0,
            low: leaf.head.low(),
            high: leaf.head.high(),
            right: leaf.head.right(),
            items: &view.items,
        };
        let base = draft.build::<WordOf<C>>(self.placement, Self::delta_bytes(0));
        // SAFETY: just written, and this thread's alone.
        let base = unsafe { RecordRef::new(base) };
        if self.publish(leaf, base, &view, guard) {
            self.counters.count(Event::Consolidations as usize);
            if leaf.id != ROOT && view.items.len() * 4 < C::LEAF_ITEMS {
                self.merge_underfull(0, leaf.head.low(), guard);
            }
            return;
        }
        // SAFETY: it was not published.
        unsafe { self.release_unpublished(base) };
        for item in removed {
            self.remove(&item.key.to_vec());
        }
    }
}

fn is_beyond(end: Option<KeyBound<'_>>, key: &[u8]) -> bool {
    end.is_some_and(|end| !end.admits_before(key, Direction::Forward))
}

/// Asks the caller about the items of a leaf from a position on.
fn decide_items(
    view: &View<'_>,
    position: &Position,
    end: Option<KeyBound<'_>>,
    decide: &mut impl FnMut(&[u8], &[u8]) -> RangeDecision,
) -> Decided {
    let mut decided = Decided {
        removed: vec![false; position.below(&view.items)],
        count: 0,
        is_end: false,
    };
    let mut key = Vec::new();
    for item in &view.items[decided.removed.len()..] {
        key.clear();
        item.key.append_to(&mut key);
        let decision = if is_beyond(end, &key) {
            ControlFlow::Break(())
        } else {
            decide(&key, item.value.get())
        };
        match decision {
            ControlFlow::Break(()) => {
                decided.is_end = true;
                return decided;
            }
            ControlFlow::Continue(removed) => {
                decided.removed.push(removed);
                decided.count += usize::from(removed);
            }
        }
    }
    decided
}
