//! Merging underfull nodes: a page or inner node below a quarter of its capacity is merged with its
//! neighbour when both fit into three quarters of one; else the two share their entries evenly.
//!
//! A descent toward the removed key repairs the first underfull inner node on its path and
//! restarts; then it repairs the page. Each repair removes a node or leaves both well above a
//! quarter, so the descents end.

use hedgerow_simd::Kernel;
use hedgerow_sync::epoch::Guard;

use super::{DescentVisitor, Event, Events, Latched, ParentReference, Tree, VisitedInner};
use super::{retire_inner, retire_page};
use crate::served::Capacity;
use crate::served::node::inner::Inner;
use crate::served::node::node_key::{Router, SharedNodeKey};
use crate::served::node::page::Page;

/// An inner node with fewer children is underfull.
const fn underfull_children<C: Capacity>() -> usize {
    if C::FAN_OUT / 4 > 2 {
        C::FAN_OUT / 4
    } else {
        2
    }
}

/// Repairs underfull inner nodes on the path of a descent.
struct MergeUnderfull<'g, C: Capacity, L: SharedNodeKey> {
    tree: &'g Tree<C, L>,
    events: &'g Events,
    guard: &'g Guard,
}

impl<'g, C: Capacity, L: SharedNodeKey> DescentVisitor<'g, L> for MergeUnderfull<'g, C, L> {
    fn visit_inner(&mut self, visited: &VisitedInner<'_, 'g, L>) -> bool {
        match visited.above.inner {
            None if visited.inner.count() == 1 => self.collapse(visited),
            Some((parent, index)) if visited.inner.count() < underfull_children::<C>() => {
                self.merge_or_rebalance(visited, parent, index)
            }
            _ => false,
        }
    }
}

impl<'g, C: Capacity, L: SharedNodeKey> MergeUnderfull<'g, C, L> {
    /// The root has one child, which becomes the root.
    fn collapse(&self, visited: &VisitedInner<'_, 'g, L>) -> bool {
        let Some(above) = Latched::unchanged(visited.above.latch, visited.above.version) else {
            return true;
        };
        let Some(node) = Latched::unchanged(&visited.inner.version, visited.version) else {
            return true;
        };
        self.tree.replace(visited.above, visited.inner.child(0));
        visited.inner.version.mark_deleted();
        drop((node, above));
        // SAFETY: unlinked above, and deleted; no latch is held.
        unsafe { retire_inner::<L>(self.guard, visited.address) };
        true
    }

    fn merge_or_rebalance(
        &self,
        visited: &VisitedInner<'_, 'g, L>,
        parent: &'g Inner<L>,
        index: usize,
    ) -> bool {
        let Some(above_latched) = Latched::unchanged(visited.above.latch, visited.above.version)
        else {
            return true;
        };
        if parent.count() < 2 {
            // The parent is underfull itself and is repaired first; only a root can stay so.
            return false;
        }
        let first = index.saturating_sub(1);
        let both = [parent.child(first), parent.child(first + 1)];
        // SAFETY: the latched parent keeps its children linked, and siblings are of one kind.
        let [left, right] = both.map(|address| unsafe { Inner::<L>::at(address) });
        let both_latched = [&left.version, &right.version].map(Latched::linked);
        let mut separators = left.separators();
        separators.push(parent.routing.get(first));
        separators.extend(right.separators());
        let children = [left.children(), right.children()].concat();
        let build = |separators: &[L], children: &[usize]| {
            Inner::build(left.placement, separators, children, left.over_pages)
        };
        if children.len() <= (C::FAN_OUT * 3 / 4).max(3) {
            parent.merge_children(first, build(&separators, &children));
        } else {
            let cut = children.len() / 2;
            let halves = [
                build(&separators[..cut - 1], &children[..cut]),
                build(&separators[cut..], &children[cut..]),
            ];
            parent.rebalance_children(first, separators[cut - 1], halves);
        }
        left.version.mark_deleted();
        right.version.mark_deleted();
        drop((both_latched, above_latched));
        for address in both {
            // SAFETY: unlinked above, and deleted; no latch is held.
            unsafe { retire_inner::<L>(self.guard, address) };
        }
        self.events.count(Event::InnerMerge as usize);
        true
    }
}

impl<C: Capacity, L: SharedNodeKey> Tree<C, L> {
    /// A page with fewer keys is underfull.
    pub(crate) const UNDERFULL_KEYS: usize = Self::LINES * L::LEAF / 4;

    /// Repairs underfull nodes on the path to `key`.
    #[cold]
    #[inline(never)]
    pub(crate) fn shrink<'g, N: Kernel>(&'g self, key: L, events: &'g Events, guard: &'g Guard) {
        loop {
            let mut visitor = MergeUnderfull {
                tree: self,
                events,
                guard,
            };
            // A removed layer needs no repair.
            let Ok(reference) = self.find_page::<N>(key, events, &mut visitor) else {
                return;
            };
            let underfull = reference.page.keys() < Self::UNDERFULL_KEYS;
            let Some((parent, index)) = reference.above.inner.filter(|_| underfull) else {
                return;
            };
            // Again from the root: the parent may be underfull now, or the root have one child.
            self.merge_or_rebalance_pages(&reference.above, parent, index, events, guard);
        }
    }

    fn merge_or_rebalance_pages(
        &self,
        above: &ParentReference<'_, L>,
        parent: &Inner<L>,
        index: usize,
        events: &Events,
        guard: &Guard,
    ) {
        let Some(above_latched) = Latched::unchanged(above.latch, above.version) else {
            return;
        };
        if parent.count() < 2 {
            return;
        }
        let first = index.saturating_sub(1);
        let both = [parent.child(first), parent.child(first + 1)];
        // SAFETY: the latched parent keeps its children linked, and siblings are of one kind.
        let [left, right] = both.map(|address| unsafe { Page::<L>::at(address) });
        let both_latched = [&left.version, &right.version].map(Latched::linked);
        let pairs = [left.pairs(), right.pairs()].concat();
        let build = |pairs: &[(L, u64)]| Page::build_with_room(left.placement, pairs, Self::LINES);
        if pairs.len() <= Self::LINES * L::LEAF * 3 / 4 {
            parent.merge_children(first, build(&pairs));
        } else {
            let cut = pairs.len() / 2;
            let (low, high) = pairs.split_at(cut);
            let halves = [low, high].map(build);
            parent.rebalance_children(first, low[cut - 1].0, halves);
        }
        left.mark_replaced();
        right.mark_replaced();
        drop((both_latched, above_latched));
        for address in both {
            // SAFETY: unlinked above, and deleted; no latch is held.
            unsafe { retire_page::<L>(guard, address) };
        }
        events.count(Event::PageMerge as usize);
    }
}
