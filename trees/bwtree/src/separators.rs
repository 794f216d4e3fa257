//! The third step of a split: the parent gets a separator for the new node.
//!
//! Whoever meets a split that the parent does not know posts the separator; posting twice is
//! harmless. But a thread may post late, when the new node was merged away long ago. It must not
//! lead anybody there. So it takes these steps:
//!
//! 1. Load the parent's chain. If it has the separator, or an abort, do nothing, or finish the
//!    merge first.
//! 2. Then see that the new node is not removed.
//! 3. Compare-and-swap the separator onto the chain of step 1.
//!
//! A node is removed only while an abort lies on the parent that has its separator (module
//! `merge`). While the chain of step 1 is the parent's, the new node has no separator and nobody
//! can begin to remove it. So if it was alive in step 2, it still is in step 3.

use crate::append::Outcome;
use crate::configuration::Configuration;
use crate::events::Event;
use crate::mapping_table::{NodeId, ROOT};
use crate::node::item::Item;
use crate::node::record::IN_BASE;
use crate::node::route::Target;
use crate::node::view::{Change, View};
use crate::node::{Kind, RecordRef};
use crate::planted::{PlantedBug, planted};
use crate::tree::{BwTree, Guard, Node};
use crate::value::Stored;

/// The index of a separator among the items of an inner node, or that at which it would be. The
/// first item, which has the node's low key, counts as lower than every key.
pub(crate) fn search_items(items: &[Item<'_>], key: &[u8]) -> Result<usize, usize> {
    match items.get(1..) {
        None => Err(items.len()),
        Some(rest) => match rest.binary_search_by(|item| item.key.compare(key)) {
            Ok(index) => Ok(index + 1),
            Err(index) => Err(index + 1),
        },
    }
}

/// Where a separator is or would be in the base node of a chain.
pub(crate) fn offset_of_separator(head: RecordRef<'_>, key: &[u8]) -> u32 {
    match head.base().search(key) {
        Ok(index) => index as u32 | IN_BASE,
        Err(index) => index as u32,
    }
}

impl<C: Configuration> BwTree<C> {
    /// Sees to it that the parent has the separator of a node of `level`, if that node is not
    /// removed.
    pub(crate) fn post_separator(&self, level: u8, separator: &[u8], id: NodeId, guard: &Guard<C>) {
        debug_assert_ne!(id, ROOT);
        while let Some(parent) = self.find(Target::At(separator), level + 1, guard) {
            match parent.head.kind() {
                Kind::Abort if !planted(PlantedBug::AbortIgnored) => {
                    self.complete_merge(parent, guard);
                    continue;
                }
                Kind::Merge => {
                    self.rebuild(parent, None, guard);
                    continue;
                }
                _ => {}
            }
            if self.post_once(parent, separator, id, guard) {
                return;
            }
        }
    }

    /// Posts a separator to a parent as it was found. Returns whether nothing is left to do.
    fn post_once(&self, parent: Node<'_>, separator: &[u8], id: NodeId, guard: &Guard<C>) -> bool {
        // A parent that was split at this separator has the node as its first child.
        if separator == parent.head.low() {
            return true;
        }
        let view = View::of(parent.head, None);
        let Err(index) = search_items(&view.items, separator) else {
            return true;
        };
        let child = self.node(id, guard);
        if child.head.kind() == Kind::Remove {
            return true;
        }
        let next = view.items.get(index).map(|item| item.key.to_vec());
        let change = Change {
            kind: Kind::InsertSeparator,
            key: separator,
            value: Stored::of_child(child.id),
            child_high: next.as_deref().or(parent.head.high()),
            offset: offset_of_separator(parent.head, separator),
            frees: 0,
        };
        let posted = self.apply(parent, &change, guard) != Outcome::Lost;
        if posted {
            self.counters.count(Event::SeparatorsPosted as usize);
        }
        posted
    }
}
