//! Merging a node into its left neighbour in three steps, each done by whoever meets it.
//!
//! An **abort** on the parent begins the merge: it names both children, and nobody changes the
//! parent until the merge is done. Then
//!
//! 1. a **remove record** freezes the node: its writers' compare-and-swaps fail from then on;
//! 2. a **merge record** on the left neighbour takes over its keys; it leads to the frozen chain;
//! 3. the parent's abort is replaced by a **delete-separator** record.
//!
//! The left neighbour of step 2 need not be the left child of the parent: that one may have split
//! without its separator having been posted. It is the node whose right neighbour is the removed
//! one, found by steps to the right from the left child. There always is one: a node without a
//! separator cannot be removed, and the left child cannot be while the abort lies on its parent. (A
//! parent's first child is never removed, except into the root: module `shrink`.)
//!
//! A thread that helps may be late with any step:
//! * Step 1: the remove record is there already. The id is not recycled while the thread is pinned.
//! * Step 2: the keys belong to a node left of or at the removed node's place: done. Or the left
//!   child is itself removed, which is possible only after step 3: done.
//! * Step 3: the abort is no longer the parent's newest record: the compare-and-swap fails.
//!
//! The remove record is in a block of its own and repeats the low key, because the frozen chain is
//! freed with the chain that has the merge record, while the id can be met until step 3 and until
//! the epoch ends after it. Nobody who meets the id follows the chain unless the left neighbour
//! still leads to the removed node.

use crate::append::{Attributes, Outcome};
use crate::configuration::Configuration;
use crate::events::Event;
use crate::mapping_table::{NodeId, ROOT};
use crate::node::draft::item_bytes;
use crate::node::record::{Body, Kind, RecordRef};
use crate::node::route::Target;
use crate::node::view::{Change, View};
use crate::planted::{PlantedBug, planted};
use crate::release::{allocate_remove, release_remove};
use crate::separators::{offset_of_separator, search_items};
use crate::tree::{BwTree, Guard, Node};

impl<C: Configuration> BwTree<C> {
    fn most_items(level: u8) -> usize {
        if level == 0 {
            C::LEAF_ITEMS
        } else {
            C::INNER_ITEMS
        }
    }

    /// Whether a node is worth merging.
    pub(crate) fn is_underfull(head: RecordRef<'_>) -> bool {
        let header = head.header();
        let size = header.size as usize;
        size * 4 < Self::most_items(header.level) || (header.level > 0 && size == 1)
    }

    /// Whether two neighbours may be merged: there is room, or one has nothing to lead to.
    fn may_merge(left: RecordRef<'_>, right: RecordRef<'_>) -> bool {
        let level = left.header().level;
        let sizes = [left.header().size as usize, right.header().size as usize];
        if sizes.iter().any(|&size| size <= usize::from(level > 0)) {
            return true;
        }
        if 4 * sizes.iter().sum::<usize>() > 3 * Self::most_items(level) {
            return false;
        }
        // Counted as a split counts them, and less than it allows: what was merged is not split.
        let mut merged = View::of(left, None);
        merged.load(right, None);
        let bytes = item_bytes(&merged.items);
        4 * bytes <= 3 * C::NODE_BYTES
    }

    /// Merges the node of a key on a level while it is underfull and has a neighbour to merge with.
    pub(crate) fn merge_underfull(&self, level: u8, key: &[u8], guard: &Guard<C>) {
        while let Some(node) = self.find(Target::At(key), level, guard) {
            if node.id == ROOT {
                return;
            }
            if node.head.kind() == Kind::Merge {
                self.rebuild(node, None, guard);
                continue;
            }
            if !Self::is_underfull(node.head) {
                return;
            }
            let Some(parent) = self.find(Target::At(key), level + 1, guard) else {
                continue;
            };
            match parent.head.kind() {
                Kind::Abort => {
                    self.complete_merge(parent, guard);
                    continue;
                }
                Kind::Merge => {
                    self.rebuild(parent, None, guard);
                    continue;
                }
                _ => {}
            }
            if !self.merge_child(parent, node, key, guard) {
                return;
            }
        }
    }

    /// One attempt to merge an underfull node. Returns whether it is worth looking again.
    fn merge_child(&self, parent: Node<'_>, node: Node<'_>, key: &[u8], guard: &Guard<C>) -> bool {
        let level = node.head.header().level;
        let view = View::of(parent.head, None);
        if view.items.len() == 1 {
            if parent.id == ROOT {
                self.shrink(parent, guard);
            } else {
                self.merge_underfull(level + 1, key, guard);
            }
            return true;
        }
        let (Ok(index) | Err(index)) = match search_items(&view.items, key) {
            Err(index) => Err(index - 1),
            found => found,
        };
        let children: Vec<NodeId> = view.items.iter().map(|item| item.value.child()).collect();
        if children[index] != node.id {
            self.counters.count(Event::HelpedSeparators as usize);
            self.post_separator(level, node.head.low(), node.id, guard);
            // A parent that stays as it is would be the same the next time.
            return !self.table.is(parent.id, parent.head.word());
        }
        let candidates = [index.checked_sub(1), Some(index)];
        for left in candidates.into_iter().flatten() {
            let Some(&removed) = children.get(left + 1) else {
                continue;
            };
            let pair = (self.node(children[left], guard), self.node(removed, guard));
            if [pair.0, pair.1]
                .iter()
                .any(|child| child.head.kind() == Kind::Remove)
            {
                // Another thread removes it, so the parent has changed since.
                return !self.table.is(parent.id, parent.head.word());
            }
            if Self::may_merge(pair.0.head, pair.1.head) {
                self.begin_merge(parent, children[left], removed, key, guard);
                return true;
            }
        }
        false
    }

    /// Puts an abort on the parent and does the merge.
    fn begin_merge(
        &self,
        parent: Node<'_>,
        left: NodeId,
        removed: NodeId,
        key: &[u8],
        guard: &Guard<C>,
    ) {
        let header = parent.head.header();
        let attributes = Attributes {
            kind: Kind::Abort,
            size: header.size,
            right: parent.head.right(),
            offset: 0,
        };
        match self.append(parent, attributes, &Body::Abort { left, removed }) {
            Outcome::Appended => {
                self.counters.count(Event::Aborts as usize);
                let aborted = self.node(parent.id, guard);
                if aborted.head.kind() == Kind::Abort {
                    self.finish_merge(aborted, guard);
                }
                let above = self.node(parent.id, guard).head;
                if above.kind() != Kind::Remove && parent.id != ROOT && Self::is_underfull(above) {
                    self.merge_underfull(header.level, key, guard);
                } else if parent.id == ROOT && above.header().size == 1 {
                    self.shrink(self.node(ROOT, guard), guard);
                }
            }
            Outcome::ChunkFull => {
                self.rebuild(parent, None, guard);
            }
            _ => {}
        }
    }

    /// Does what another thread left to do of a merge whose abort is a parent's newest record.
    pub(crate) fn complete_merge(&self, parent: Node<'_>, guard: &Guard<C>) {
        self.counters.count(Event::HelpedMerges as usize);
        self.finish_merge(parent, guard);
    }

    fn finish_merge(&self, parent: Node<'_>, guard: &Guard<C>) {
        let (left, removed) = parent.head.merging();
        let removed = self.freeze(removed, left, guard);
        self.merge_chain(removed, guard);
        self.delete_separator(parent, removed, guard);
    }

    /// Step 1: a remove record on a node. Returns the node with it.
    pub(crate) fn freeze<'g>(&self, id: NodeId, into: NodeId, guard: &'g Guard<C>) -> Node<'g> {
        loop {
            let node = self.node(id, guard);
            match node.head.kind() {
                Kind::Remove => return node,
                Kind::Abort => self.complete_merge(node, guard),
                Kind::Merge => {
                    self.rebuild(node, None, guard);
                }
                _ => {
                    let head = allocate_remove(node.head, into, self.placement);
                    let id = node.id;
                    if self.table.replace(id, node.head.word(), head.word()) {
                        return Node { id, head };
                    }
                    // SAFETY: it was not published.
                    unsafe { release_remove(head.word(), self.placement) };
                }
            }
        }
    }

    /// Step 2: a merge record on the left neighbour of a removed node, unless its keys belong to
    /// another node already.
    pub(crate) fn merge_chain(&self, removed: Node<'_>, guard: &Guard<C>) {
        let key = removed.head.key();
        let mut id = removed.head.into_node();
        loop {
            let node = self.node(id, guard);
            let header = node.head.header();
            if header.kind == Kind::Remove || !Target::At(key).is_beyond(node.head.high()) {
                return;
            }
            if node.head.right() != removed.id {
                id = node.head.right();
                continue;
            }
            match header.kind {
                Kind::Abort => self.complete_merge(node, guard),
                Kind::Merge => {
                    self.rebuild(node, None, guard);
                }
                _ => self.append_merge(node, removed, guard),
            }
        }
    }

    /// Puts a merge record on a node whose right neighbour is the removed one.
    fn append_merge(&self, node: Node<'_>, removed: Node<'_>, guard: &Guard<C>) {
        let chain = removed.head.chain_word();
        // SAFETY: the node led to the removed one after the guard began, so nobody had merged it
        // before that, and its chain is retired no earlier.
        let frozen = unsafe { RecordRef::of_word(chain) };
        let attributes = Attributes {
            kind: Kind::Merge,
            size: node.head.header().size + frozen.header().size,
            right: frozen.right(),
            offset: 0,
        };
        match self.append(node, attributes, &Body::Merge { chain }) {
            Outcome::ChunkFull => {
                self.rebuild(node, None, guard);
            }
            Outcome::Appended => self.counters.count(Event::Merges as usize),
            _ => {}
        }
    }

    /// Step 3: the abort makes way for the parent without the separator.
    fn delete_separator(&self, parent: Node<'_>, removed: Node<'_>, guard: &Guard<C>) {
        let separator = removed.head.key();
        let view = View::of(parent.head, None);
        let Ok(index) = search_items(&view.items, separator) else {
            debug_assert!(false, "an abort names a child that its node does not have");
            return;
        };
        let next = view.items.get(index + 1).map(|item| item.key.to_vec());
        let change = Change {
            kind: Kind::DeleteSeparator,
            key: separator,
            value: view.items[index - 1].value,
            child_high: next.as_deref().or(parent.head.high()),
            offset: offset_of_separator(parent.head, separator),
            frees: 0,
        };
        let outcome = if planted(PlantedBug::SeparatorKept) {
            match self.rebuild(parent, None, guard) {
                true => Outcome::Consolidated,
                false => Outcome::Lost,
            }
        } else {
            self.apply(parent, &change, guard)
        };
        if outcome != Outcome::Lost {
            // SAFETY: neither parent nor left neighbour leads to the id any more, and only the
            // thread that replaced the abort comes here.
            unsafe { self.retire_id(removed.id, removed.head, guard) };
        }
    }
}
