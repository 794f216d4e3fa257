//! Ordered scans in both directions.
//!
//! A scan takes one leaf after the other. It loads the leaf's word once and visits the chain's
//! items as they then were; it goes on where that chain ended, at its high key, or in reverse below
//! its low key. So each key belongs to exactly one of the chains that are visited, whatever splits
//! and merges come in between: a key that stays is visited once.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, ScanRange};

use crate::configuration::Configuration;
use crate::descend::Help;
use crate::epochs::Epochs;
use crate::mapping_table::NONE;
use crate::node::route::Target;
use crate::node::view::View;
use crate::node::{Item, Kind, RecordRef};
use crate::planted::{PlantedBug, planted};
use crate::tree::{BwTree, Guard, Node};

/// Leaves that are visited before the scan lets go of what was retired meanwhile.
const LEAVES_PER_PIN: usize = 32;

/// Where a scan goes on.
enum Position<'k> {
    /// At a key or the one after it, forwards or in reverse.
    At(Cow<'k, [u8]>),
    /// Beyond a key, in the direction of the scan.
    Beyond(Cow<'k, [u8]>),
    /// Forwards at the first key, in reverse at the last.
    End,
}

impl<'k> Position<'k> {
    fn of(from: Bound<&'k [u8]>) -> Self {
        match from {
            Bound::Included(key) => Position::At(Cow::Borrowed(key)),
            Bound::Excluded(key) => Position::Beyond(Cow::Borrowed(key)),
            Bound::Unbounded => Position::End,
        }
    }

    fn target(&self, direction: Direction) -> Target<'_> {
        match (self, direction) {
            (Position::At(key), _) => Target::At(key),
            (Position::Beyond(key), Direction::Forward) => Target::At(key),
            (Position::Beyond(key), Direction::Reverse) => Target::Before(key),
            (Position::End, Direction::Forward) => Target::At(&[]),
            (Position::End, Direction::Reverse) => Target::Last,
        }
    }

    /// The key, and whether it is left out.
    fn bound(&self) -> Option<(&[u8], bool)> {
        match self {
            Position::At(key) => Some((key, false)),
            Position::Beyond(key) => Some((key, true)),
            Position::End => None,
        }
    }

    /// Of the items of a leaf, how many lie before the position; in reverse, how many do not lie
    /// behind it.
    fn below(&self, items: &[Item<'_>], direction: Direction) -> usize {
        let (key, with_equal) = match (self, direction) {
            (Position::End, Direction::Forward) => return 0,
            (Position::End, Direction::Reverse) => return items.len(),
            (Position::At(key), Direction::Forward) => (key, false),
            (Position::Beyond(key), Direction::Forward) => (key, true),
            (Position::At(key), Direction::Reverse) => (key, true),
            (Position::Beyond(key), Direction::Reverse) => (key, false),
        };
        items.partition_point(|item| {
            let order = item.key.compare(key);
            order.is_lt() || (with_equal && order.is_eq())
        })
    }
}

/// A scan under way.
struct Scan<'r, 'k, V> {
    range: &'r ScanRange<'k>,
    visit: V,
    /// How many pairs may still be visited.
    left: usize,
    position: Position<'k>,
    /// The key that is shown.
    key: Vec<u8>,
    /// Whether it begins with the prefix of the leaf that is visited.
    has_prefix: bool,
    /// Whether the range may end in that leaf.
    may_end: bool,
}

impl<C: Configuration> BwTree<C> {
    /// Visits the pairs of a range as [`hedgerow_index::Index::scan`] does, with `visit` compiled
    /// in.
    pub fn scan_range(
        &self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        if range.is_empty() {
            return;
        }
        let mut scan = Scan {
            range,
            visit,
            left: range.limit,
            position: Position::of(range.from),
            key: Vec::new(),
            has_prefix: false,
            may_end: true,
        };
        while scan.some_leaves(self).is_continue() {}
    }
}

impl<V: FnMut(&[u8], &[u8]) -> ControlFlow<()>> Scan<'_, '_, V> {
    /// Visits a number of leaves under one pin.
    fn some_leaves<C: Configuration>(&mut self, tree: &BwTree<C>) -> ControlFlow<()> {
        let guard = tree.epochs.pin();
        let direction = self.range.direction;
        let mut view = View::default();
        let mut leaf = tree.find_leaf(self.position.target(direction), Help::Least, &guard);
        for _ in 0..LEAVES_PER_PIN {
            tree.count_scan(leaf, &guard);
            self.visit_leaf(tree, leaf.head, &mut view)?;
            leaf = match direction {
                Direction::Forward => self.next_leaf(tree, leaf.head, &guard)?,
                Direction::Reverse => self.previous_leaf(tree, leaf.head, &guard)?,
            };
        }
        ControlFlow::Continue(())
    }

    fn visit_leaf<'g, C: Configuration>(
        &mut self,
        tree: &BwTree<C>,
        head: RecordRef<'g>,
        view: &mut View<'g>,
    ) -> ControlFlow<()> {
        if head.kind() == Kind::Merge {
            view.items.clear();
            view.garbage.clear();
            view.load(head, None);
            self.may_end = true;
            return self.visit_items(&view.items);
        }
        let position = std::mem::replace(&mut self.position, Position::End);
        self.has_prefix = false;
        let fence = match self.range.direction {
            Direction::Forward => head.high(),
            Direction::Reverse => Some(head.low()),
        };
        self.may_end = fence.is_none_or(|fence| self.range.ends_before(fence));
        let items = view.ordered(head);
        match self.range.direction {
            Direction::Forward => {
                let start = items.start(position.bound());
                if items.count_from(start) < self.left {
                    tree.prefetch_attributes(head.right());
                }
                items.forward(start, self.left, |item| self.show(&item))
            }
            Direction::Reverse => items.reverse(position.bound(), |item| self.show(&item)),
        }
    }

    fn visit_items(&mut self, items: &[Item<'_>]) -> ControlFlow<()> {
        let direction = self.range.direction;
        let below = self.position.below(items, direction);
        let mut show = |item| {
            // Prefixes are those of two base nodes.
            self.has_prefix = false;
            self.show(item)
        };
        match direction {
            Direction::Forward => items[below..].iter().try_for_each(&mut show),
            Direction::Reverse => items[..below].iter().rev().try_for_each(&mut show),
        }
    }

    #[inline]
    fn show(&mut self, item: &Item<'_>) -> ControlFlow<()> {
        let is_whole = item.key.is_whole();
        item.key
            .write_over(&mut self.key, is_whole || self.has_prefix);
        self.has_prefix = !is_whole;
        if self.may_end && self.range.ends_before(&self.key) {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        let value = if self.range.values {
            item.value.get()
        } else {
            &[]
        };
        (self.visit)(&self.key, value)?;
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn next_leaf<'g, C: Configuration>(
        &mut self,
        tree: &BwTree<C>,
        leaf: RecordRef<'g>,
        guard: &'g Guard<C>,
    ) -> ControlFlow<(), Node<'g>> {
        let Some(high) = leaf.high() else {
            return ControlFlow::Break(());
        };
        if self.range.ends_before(high) {
            return ControlFlow::Break(());
        }
        self.position = Position::At(Cow::Owned(high.to_vec()));
        let right = leaf.right();
        debug_assert_ne!(right, NONE);
        let next = tree.node(right, guard);
        if next.head.kind() != Kind::Remove {
            return ControlFlow::Continue(next);
        }
        if planted(PlantedBug::ScanSkipsMerge) {
            // SAFETY: as alive as the remove record, in a build with bugs.
            let frozen = unsafe { RecordRef::of_word(next.head.chain_word()) };
            return self.next_leaf(tree, frozen, guard);
        }
        let target = self.position.target(Direction::Forward);
        ControlFlow::Continue(tree.find_leaf(target, Help::Least, guard))
    }

    fn previous_leaf<'g, C: Configuration>(
        &mut self,
        tree: &BwTree<C>,
        leaf: RecordRef<'g>,
        guard: &'g Guard<C>,
    ) -> ControlFlow<(), Node<'g>> {
        let low = leaf.low();
        if low.is_empty() {
            return ControlFlow::Break(());
        }
        self.position = Position::Beyond(Cow::Owned(low.to_vec()));
        let target = self.position.target(Direction::Reverse);
        ControlFlow::Continue(tree.find_leaf(target, Help::Least, guard))
    }
}
