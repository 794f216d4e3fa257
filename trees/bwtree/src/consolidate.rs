//! Consolidation: a chain is replaced by a base node with its deltas applied, and with the change
//! that made the chain too long.
//!
//! A node that turns out to be too large is split here: its items are at hand.

use std::ptr::NonNull;

use crate::configuration::{Configuration, Consolidation};
use crate::events::Event;
use crate::node::draft::item_bytes;
use crate::node::record::FIXED_BYTES;
use crate::node::splice::Spliced;
use crate::node::view::{Change, View};
use crate::node::{Draft, Kind, RecordRef};
use crate::planted::{PlantedBug, planted};
use crate::tree::{BwTree, Guard, Node, WordOf};

/// Room that every chunk has, so that a merge or abort fits behind a consolidation.
const LEAST_DELTA_BYTES: usize = 2 * FIXED_BYTES;

impl<C: Configuration> BwTree<C> {
    /// Bytes for deltas in a chunk of a node of a level.
    pub(crate) fn delta_bytes(level: u8) -> usize {
        let bytes = if level == 0 {
            C::LEAF_DELTA_BYTES
        } else {
            C::INNER_DELTA_BYTES
        };
        bytes.max(LEAST_DELTA_BYTES)
    }

    /// Replaces a chain by a base node with a change applied; splits the node if it is too large.
    /// Returns whether it did: not if another thread changed the node first.
    pub(crate) fn rebuild(
        &self,
        node: Node<'_>,
        change: Option<&Change<'_>>,
        guard: &Guard<C>,
    ) -> bool {
        let head = match node.head.kind() {
            Kind::Insert | Kind::Update | Kind::Delete if planted(PlantedBug::DeltaLost) => {
                node.head.next()
            }
            _ => node.head,
        };
        if matches!(C::CONSOLIDATION, Consolidation::ByOffsets)
            && let Some(spliced) = Spliced::of(head, change)
            && spliced.count() <= C::LEAF_ITEMS
            && spliced.item_bytes() <= C::NODE_BYTES
        {
            let base = spliced.build::<WordOf<C>>(self.placement, Self::delta_bytes(0));
            return self.publish_consolidated(node, base, &View::default(), guard);
        }
        let view = match C::CONSOLIDATION {
            Consolidation::ByOffsets => View::of(head, change),
            Consolidation::ByReplay => View::replayed(head, change),
        };
        let header = node.head.header();
        let draft = Draft {
            level: header.level,
            low: node.head.low(),
            high: node.head.high(),
            right: node.head.right(),
            items: &view.items,
        };
        if Self::is_too_large(&draft) {
            let last = view.items.last();
            let at_end = draft.high.is_none()
                && change
                    .zip(last)
                    .is_some_and(|(c, last)| last.key.compare(c.key).is_eq());
            return self.split(node, &draft, &view, at_end, guard);
        }
        let base = draft.build::<WordOf<C>>(self.placement, Self::delta_bytes(header.level));
        self.publish_consolidated(node, base, &view, guard)
    }

    /// Replaces a node's chain by a base node that was written for it.
    fn publish_consolidated(
        &self,
        node: Node<'_>,
        base: NonNull<u8>,
        view: &View<'_>,
        guard: &Guard<C>,
    ) -> bool {
        // SAFETY: just written, and this thread's alone.
        let base = unsafe { RecordRef::new(base) };
        let done = self.publish(node, base, view, guard);
        if done {
            self.count_consolidation(node.head.header().level);
        } else {
            // SAFETY: it was not published.
            unsafe { self.release_unpublished(base) };
        }
        done
    }

    /// Counts a chain of a level that was replaced by a base node.
    pub(crate) fn count_consolidation(&self, level: u8) {
        self.counters.count(Event::Consolidations as usize);
        if level > 0 {
            self.counters.count(Event::InnerConsolidations as usize);
        }
        if matches!(C::CONSOLIDATION, Consolidation::ByReplay) {
            self.counters.count(Event::ReplayedConsolidations as usize);
        }
    }

    /// Replaces a node's chain by another one that has what the view says; on success retires what
    /// was replaced.
    pub(crate) fn publish(
        &self,
        node: Node<'_>,
        new: RecordRef<'_>,
        view: &View<'_>,
        guard: &Guard<C>,
    ) -> bool {
        if !self.replace_chain(node, new, guard) {
            self.counters.count(Event::LostConsolidations as usize);
            return false;
        }
        let deltas = node.head.header().depth;
        self.counters
            .add(Event::ConsolidatedDeltas as usize, deltas.into());
        // SAFETY: the compare-and-swap made the chain unreachable for operations that begin now,
        // and the view has the blocks that the new chain does not name.
        unsafe {
            self.retire_chain(node.head, guard);
            self.retire_blocks(&view.garbage, guard);
        }
        true
    }

    fn is_too_large(draft: &Draft<'_, '_>) -> bool {
        let (most, least) = if draft.level == 0 {
            (C::LEAF_ITEMS, 2)
        } else {
            (C::INNER_ITEMS, 4)
        };
        let count = draft.items.len();
        if count > most {
            return true;
        }
        // Only nodes with long keys or values come near: most are small by their number of items.
        count >= least && item_bytes(draft.items) > C::NODE_BYTES
    }
}
