//! Joining what runs low: a page or inner node below a quarter of its capacity is merged with its
//! neighbour when both fit into three quarters of one, else the two are levelled.
//!
//! A descent toward the removed key repairs the first low inner node that it passes and begins
//! again; then the page. Each repair takes a node away or leaves both well above a quarter, so the
//! descents end.

use hedgerow_simd::Kernel;
use hedgerow_sync::epoch::Guard;

use super::{Above, Event, Events, Latched, Passed, Tree, Watch};
use super::{retire_inner, retire_page};
use crate::served::Capacity;
use crate::served::node::inner::Inner;
use crate::served::node::page::Page;
use crate::served::node::routing::Router;
use crate::served::node::width::SharedLane;

/// An inner node with fewer children is low.
const fn few_children<C: Capacity>() -> usize {
    if C::FAN_OUT / 4 > 2 {
        C::FAN_OUT / 4
    } else {
        2
    }
}

/// Repairs low inner nodes that a descent passes.
struct JoinLow<'g, C: Capacity, L: SharedLane> {
    tree: &'g Tree<C, L>,
    events: &'g Events,
    guard: &'g Guard,
}

impl<'g, C: Capacity, L: SharedLane> Watch<'g, L> for JoinLow<'g, C, L> {
    fn pass(&mut self, passed: &Passed<'_, 'g, L>) -> bool {
        match passed.above.inner {
            None if passed.inner.count() == 1 => self.collapse(passed),
            Some((parent, index)) if passed.inner.count() < few_children::<C>() => {
                self.join(passed, parent, index)
            }
            _ => false,
        }
    }
}

impl<'g, C: Capacity, L: SharedLane> JoinLow<'g, C, L> {
    /// The root has one child, which becomes the root.
    fn collapse(&self, passed: &Passed<'_, 'g, L>) -> bool {
        let Some(_above) = Latched::unchanged(passed.above.latch, passed.above.version) else {
            return true;
        };
        let Some(_node) = Latched::unchanged(&passed.inner.version, passed.version) else {
            return true;
        };
        self.tree.replace(passed.above, passed.inner.child(0));
        passed.inner.version.mark_deleted();
        // SAFETY: unlinked by the line above, and deleted.
        unsafe { retire_inner::<L>(self.guard, passed.address) };
        true
    }

    fn join(&self, passed: &Passed<'_, 'g, L>, parent: &'g Inner<L>, index: usize) -> bool {
        let Some(_above) = Latched::unchanged(passed.above.latch, passed.above.version) else {
            return true;
        };
        if parent.count() < 2 {
            // The parent is low itself, and its turn comes first; only a root can be left so.
            return false;
        }
        let first = index.saturating_sub(1);
        let both = [parent.child(first), parent.child(first + 1)];
        // SAFETY: the latched parent keeps its children linked, and siblings are of one kind.
        let [left, right] = both.map(|address| unsafe { Inner::<L>::at(address) });
        let _left = Latched::linked(&left.version);
        let _right = Latched::linked(&right.version);
        let mut separators = left.separators();
        separators.push(parent.routing.get(first));
        separators.extend(right.separators());
        let children = [left.children(), right.children()].concat();
        if children.len() <= (C::FAN_OUT * 3 / 4).max(3) {
            parent.merge_children(first, Inner::build(&separators, &children, left.over_pages));
        } else {
            let cut = children.len() / 2;
            let halves = [
                Inner::build(&separators[..cut - 1], &children[..cut], left.over_pages),
                Inner::build(&separators[cut..], &children[cut..], left.over_pages),
            ];
            parent.level_children(first, separators[cut - 1], halves);
        }
        for (node, address) in [(left, both[0]), (right, both[1])] {
            node.version.mark_deleted();
            // SAFETY: unlinked above, and deleted.
            unsafe { retire_inner::<L>(self.guard, address) };
        }
        self.events.count(Event::InnerMerge as usize);
        true
    }
}

impl<C: Capacity, L: SharedLane> Tree<C, L> {
    /// A page with fewer keys is low.
    pub(crate) const FEW_KEYS: usize = Self::LINES * L::LEAF / 4;

    /// Repairs what is low on the way to `key`.
    #[cold]
    #[inline(never)]
    pub(crate) fn shrink<'g, N: Kernel>(&'g self, key: L, events: &'g Events, guard: &'g Guard) {
        loop {
            let mut watch = JoinLow {
                tree: self,
                events,
                guard,
            };
            // A layer that is gone needs no repair.
            let Ok(arrival) = self.arrive::<N>(key, events, &mut watch) else {
                return;
            };
            let low = arrival.page.keys() < Self::FEW_KEYS;
            let Some((parent, index)) = arrival.above.inner.filter(|_| low) else {
                return;
            };
            // Again from the top: the parent may be low now, or the root have one child.
            self.join_pages(&arrival.above, parent, index, events, guard);
        }
    }

    fn join_pages(
        &self,
        above: &Above<'_, L>,
        parent: &Inner<L>,
        index: usize,
        events: &Events,
        guard: &Guard,
    ) {
        let Some(_above) = Latched::unchanged(above.latch, above.version) else {
            return;
        };
        if parent.count() < 2 {
            return;
        }
        let first = index.saturating_sub(1);
        let both = [parent.child(first), parent.child(first + 1)];
        // SAFETY: the latched parent keeps its children linked, and siblings are of one kind.
        let [left, right] = both.map(|address| unsafe { Page::<L>::at(address) });
        let _left = Latched::linked(&left.version);
        let _right = Latched::linked(&right.version);
        let pairs = [left.pairs(), right.pairs()].concat();
        if pairs.len() <= Self::LINES * L::LEAF * 3 / 4 {
            parent.merge_children(first, Page::roomy(&pairs, Self::LINES));
        } else {
            let cut = pairs.len() / 2;
            let (low, high) = pairs.split_at(cut);
            let halves = [low, high].map(|half| Page::roomy(half, Self::LINES));
            parent.level_children(first, low[cut - 1].0, halves);
        }
        for (page, address) in [(left, both[0]), (right, both[1])] {
            page.mark_replaced();
            // SAFETY: unlinked above, and deleted.
            unsafe { retire_page::<L>(guard, address) };
        }
        events.count(Event::PageMerge as usize);
    }
}
