//! Making room: pages that are full grow or are cut in two, and inner nodes before them.
//!
//! Full inner nodes are split on the way down, so that the parent of a full page always has room:
//! a split latches one parent and one child, and never climbs.

use hedgerow_simd::Kernel;
use hedgerow_sync::epoch::Guard;

use super::{
    DescentVisitor, Event, Events, Latched, LayerRemoved, PageReference, Tree, VisitedInner,
};
use super::{retire_inner, retire_page};
use crate::served::Capacity;
use crate::served::node::inner::Inner;
use crate::served::node::node_key::SharedNodeKey;
use crate::served::node::page::Page;

/// Splits the full inner nodes that a descent passes.
struct SplitFull<'g, C: Capacity, L: SharedNodeKey> {
    tree: &'g Tree<C, L>,
    events: &'g Events,
    guard: &'g Guard,
    /// Whether every node visited was taken at its right edge.
    rightmost: bool,
}

impl<'g, C: Capacity, L: SharedNodeKey> DescentVisitor<'g, L> for SplitFull<'g, C, L> {
    fn begin(&mut self) {
        self.rightmost = true;
    }

    fn visit_inner(&mut self, visited: &VisitedInner<'_, 'g, L>) -> bool {
        let inner = visited.inner;
        self.rightmost &= visited.index + 1 == inner.count();
        if inner.count() < C::FAN_OUT {
            return false;
        }
        let Some(above) = Latched::unchanged(visited.above.latch, visited.above.version) else {
            return true;
        };
        let Some(node) = Latched::unchanged(&inner.version, visited.version) else {
            return true;
        };
        let (separators, children) = (inner.separators(), inner.children());
        // Ascending inserts leave nearly full nodes behind.
        let count = children.len();
        let cut = if self.rightmost {
            (count * 15 / 16).min(count - 2)
        } else {
            count / 2
        };
        let (placement, over_pages) = (inner.placement, inner.over_pages);
        let build = |separators: &[L], children: &[usize]| {
            Inner::build(placement, separators, children, over_pages)
        };
        let halves = [
            build(&separators[..cut - 1], &children[..cut]),
            build(&separators[cut..], &children[cut..]),
        ];
        self.tree
            .replace_by_two(visited.above, separators[cut - 1], halves, placement, false);
        inner.version.mark_deleted();
        drop((node, above));
        // SAFETY: unlinked above, and deleted; no latch is held.
        unsafe { retire_inner::<L>(self.guard, visited.address) };
        self.events.count(Event::InnerSplit as usize);
        true
    }
}

impl<C: Capacity, L: SharedNodeKey> Tree<C, L> {
    /// Makes room for `key`, unless another thread has meanwhile.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room<'g, N: Kernel>(
        &'g self,
        key: L,
        events: &'g Events,
        guard: &'g Guard,
    ) -> Result<(), LayerRemoved> {
        loop {
            let mut visitor = SplitFull {
                tree: self,
                events,
                guard,
                rightmost: true,
            };
            let reference = self.find_page::<N>(key, events, &mut visitor)?;
            if self.replace_full::<N>(key, &reference, visitor.rightmost, events, guard) {
                return Ok(());
            }
            events.count(Event::Retry as usize);
        }
    }

    /// False when something changed meanwhile.
    fn replace_full<N: Kernel>(
        &self,
        key: L,
        reference: &PageReference<'_, L>,
        rightmost: bool,
        events: &Events,
        guard: &Guard,
    ) -> bool {
        let PageReference {
            page,
            address,
            version,
            above,
        } = *reference;
        let Some(above_latched) = Latched::unchanged(above.latch, above.version) else {
            return false;
        };
        let Some(page_latched) = Latched::unchanged(&page.version, version) else {
            return false;
        };
        if page.has_room(&page.find::<N>(key)) {
            return true;
        }
        let (placement, pairs) = (page.placement, page.pairs());
        if page.can_grow(Self::LINES) {
            let larger = Page::build(placement, &pairs, page.lines(), Self::LINES);
            self.replace(&above, larger);
            events.count(Event::PageGrowth as usize);
        } else {
            let appends = rightmost && pairs[pairs.len() - 1].0 < key;
            // Ascending inserts leave full pages behind.
            let (cut, left) = if appends {
                let cut = pairs.len() - L::LEAF;
                (cut, Page::build(placement, &pairs[..cut], 1, Self::LINES))
            } else {
                let cut = pairs.len() / 2;
                (
                    cut,
                    Page::build_with_room(placement, &pairs[..cut], Self::LINES),
                )
            };
            let right = Page::build_with_room(placement, &pairs[cut..], Self::LINES);
            self.replace_by_two(&above, pairs[cut - 1].0, [left, right], placement, true);
            events.count(Event::PageSplit as usize);
        }
        page.mark_replaced();
        drop((page_latched, above_latched));
        // SAFETY: unlinked above, and deleted; no latch is held.
        unsafe { retire_page::<L>(guard, address) };
        true
    }
}
