//! Splitting a node in three steps, and the growth of the root.
//!
//! 1. The upper items go into a new node, the **right neighbour**, which nobody knows yet.
//! 2. One compare-and-swap replaces the chain by a consolidated base node of the lower items, whose
//!    high key is the split key. From then on keys from the split key on belong to the new node,
//!    and whoever finds the old one goes on to the right.
//! 3. The parent gets the **separator** (module `separators`).
//!
//! The papers put a **split record** on the old items instead
//! ([`SplitRecords`](crate::SplitRecords)). As the items are at hand when a node turns out to be
//! too large, step 2 costs less without: it copies half of them.
//!
//! The root has an id that never changes. It grows by one compare-and-swap: its items go into two
//! new nodes, and it becomes an inner node above them.

use crate::append::{Attributes, split_unpublished};
use crate::configuration::Configuration;
use crate::events::Event;
use crate::mapping_table::{NONE, NodeId, ROOT};
use crate::node::item::separator;
use crate::node::record::KEYED_BYTES;
use crate::node::view::View;
use crate::node::{Draft, Item, KeyParts, Kind, RecordRef};
use crate::tree::{BwTree, Guard, Node, WordOf};
use crate::value::Stored;

/// Where a node is cut.
struct Cut {
    /// How many items stay.
    stay: usize,
    /// The first key that does not.
    separator: Vec<u8>,
}

/// The cut that leaves half of the bytes on either side; for keys that arrive in order, one that
/// leaves the left node nearly full.
fn cut(draft: &Draft<'_, '_>, at_end: bool) -> Cut {
    let items = draft.items;
    let least = if draft.level == 0 { 1 } else { 2 };
    let stay = if at_end {
        items.len() - items.len() / 16
    } else {
        let bytes = |item: &Item<'_>| 8 + item.key.len() + item.value.bytes().len();
        let half = items.iter().map(bytes).sum::<usize>() / 2;
        let mut sum = 0;
        let below = items.iter().take_while(|item| {
            sum += bytes(item);
            sum <= half
        });
        below.count()
    };
    let stay = stay.clamp(least, items.len() - least);
    let separator = if draft.level == 0 {
        separator(items[stay - 1].key, items[stay].key)
    } else {
        items[stay].key.to_vec()
    };
    Cut { stay, separator }
}

impl<C: Configuration> BwTree<C> {
    /// Replaces a chain by what the draft says, in two nodes. `at_end` says that keys arrive in
    /// order. Returns whether it did: not if another thread changed the node first.
    pub(crate) fn split(
        &self,
        node: Node<'_>,
        draft: &Draft<'_, '_>,
        view: &View<'_>,
        at_end: bool,
        guard: &Guard<C>,
    ) -> bool {
        let cut = cut(draft, at_end);
        if node.id == ROOT {
            return self.grow(node, draft, view, &cut, guard);
        }
        let right_id = self.new_node(&Draft {
            low: &cut.separator,
            items: &draft.items[cut.stay..],
            ..*draft
        });
        let left = if C::SPLIT_RECORDS {
            self.left_with_record(draft, &cut, right_id)
        } else {
            let left = Draft {
                high: Some(&cut.separator),
                right: right_id,
                items: &draft.items[..cut.stay],
                ..*draft
            };
            let left = left.build::<WordOf<C>>(self.placement, Self::delta_bytes(draft.level));
            // SAFETY: just written, and this thread's alone.
            unsafe { RecordRef::new(left) }
        };
        if !self.publish(node, left, view, guard) {
            // SAFETY: neither was published.
            unsafe {
                self.release_unpublished(left);
                self.discard_node(right_id, guard);
            }
            return false;
        }
        let event = if draft.level == 0 {
            Event::LeafSplits
        } else {
            Event::InnerSplits
        };
        self.counters.count(event as usize);
        self.post_separator(draft.level, &cut.separator, right_id, guard);
        true
    }

    /// The left node with all items, and a split record that says how many of them stay.
    fn left_with_record<'g>(
        &self,
        draft: &Draft<'_, '_>,
        cut: &Cut,
        right: NodeId,
    ) -> RecordRef<'g> {
        let split_bytes = (KEYED_BYTES + cut.separator.len()).next_multiple_of(8);
        let left =
            draft.build::<WordOf<C>>(self.placement, Self::delta_bytes(draft.level) + split_bytes);
        let attributes = Attributes {
            kind: Kind::Split,
            size: cut.stay as u32,
            right,
            offset: cut.stay as u32,
        };
        // SAFETY: just written, and this thread's alone.
        let left = unsafe { RecordRef::new(left) };
        split_unpublished::<C>(left, attributes, &cut.separator)
    }

    /// A node of its own for a draft.
    fn new_node(&self, draft: &Draft<'_, '_>) -> NodeId {
        let base = draft.build::<WordOf<C>>(self.placement, Self::delta_bytes(draft.level));
        // SAFETY: just written, and this thread's alone.
        self.add_node(unsafe { RecordRef::new(base) })
    }

    /// Frees a node that nothing ever led to.
    ///
    /// # Safety
    ///
    /// It came from [`new_node`](Self::new_node) and was not published.
    unsafe fn discard_node(&self, id: NodeId, guard: &Guard<C>) {
        let node = self.node(id, guard);
        // SAFETY: the caller's promise. The id can be used again at once, as nobody has read it.
        unsafe { self.release_unpublished(node.head) };
        self.table.recycle(id);
        self.counters.count(Event::IdsDiscarded as usize);
    }

    /// Puts the root's items into two new nodes below it.
    fn grow(
        &self,
        root: Node<'_>,
        draft: &Draft<'_, '_>,
        view: &View<'_>,
        cut: &Cut,
        guard: &Guard<C>,
    ) -> bool {
        let right = self.new_node(&Draft {
            low: &cut.separator,
            items: &draft.items[cut.stay..],
            ..*draft
        });
        let left = self.new_node(&Draft {
            high: Some(&cut.separator),
            right,
            items: &draft.items[..cut.stay],
            ..*draft
        });
        let child = |key, id| Item {
            key: KeyParts::whole(key),
            value: Stored::of_child(id),
        };
        let level = draft.level + 1;
        let above = Draft {
            level,
            low: &[],
            high: None,
            right: NONE,
            items: &[child(&[], left), child(&cut.separator, right)],
        };
        let above = above.build::<WordOf<C>>(self.placement, Self::delta_bytes(level));
        // SAFETY: just written, and this thread's alone.
        let above = unsafe { RecordRef::new(above) };
        let done = self.publish(root, above, view, guard);
        if done {
            self.counters.count(Event::RootGrowths as usize);
        } else {
            // SAFETY: none of them was published.
            unsafe {
                self.release_unpublished(above);
                self.discard_node(left, guard);
                self.discard_node(right, guard);
            }
        }
        done
    }
}
