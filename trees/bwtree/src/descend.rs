//! From the root to the node of a key, on any level.
//!
//! A descent trusts what it reads of each chain: a chain does not change, and the word that names
//! it is loaded once. It checks the high key. If its key lies beyond, the node was split and the
//! parent does not know yet, so the descent goes to the right neighbour; a writer first posts the
//! missing separator (**help-along**). A node that is frozen by a remove record sends the descent
//! to the node that takes its keys, after the descent has seen to it that it has them.

use hedgerow_memory::prefetch_line;

use crate::configuration::Configuration;
use crate::events::Event;
use crate::mapping_table::{Entries, NONE, NodeId, ROOT};
use crate::node::base::prefetch_base;
use crate::node::record::{BEFORE_BASE_BYTES, LINE_BYTES};
use crate::node::route::Target;
use crate::node::{Kind, RecordRef};
use crate::tree::{BwTree, Guard, Node};

/// Whether a descent does what others left undone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Help {
    /// Only where it cannot go on otherwise.
    Least,
    /// Posts separators that parents lack.
    Post,
}

impl Node<'_> {
    /// Whether a target lies beyond the node, or the node is frozen.
    #[inline(always)]
    fn is_left_of(&self, target: Target<'_>) -> bool {
        self.head.kind() == Kind::Remove || target.is_beyond(self.head.high())
    }

    /// Asks for the line in front of the newest record, where the next one is written.
    #[inline(always)]
    fn prefetch_room(&self) {
        prefetch_line(self.head.address().as_ptr().wrapping_sub(LINE_BYTES));
    }
}

impl<C: Configuration> BwTree<C> {
    /// The leaf of a target.
    #[inline]
    pub(crate) fn find_leaf<'g>(
        &self,
        target: Target<'_>,
        help: Help,
        guard: &'g Guard<C>,
    ) -> Node<'g> {
        let mut start = ROOT;
        if let Target::At(key) = target {
            let node = self.descend_base_nodes(key, guard);
            if node.head.header().level == 0 && !node.is_left_of(target) {
                if help == Help::Post {
                    node.prefetch_room();
                }
                return node;
            }
            start = node.id;
        }
        loop {
            if let Some(node) = self.find_from(start, target, 0, help, guard) {
                return node;
            }
            start = ROOT;
        }
    }

    /// Descends towards a key for as long as inner nodes are base nodes without deltas that have
    /// the key: the usual way to a leaf. Returns the leaf, or the node where it is not so.
    #[inline(always)]
    fn descend_base_nodes<'g>(&self, key: &[u8], guard: &'g Guard<C>) -> Node<'g> {
        let mut id = ROOT;
        loop {
            let node = self.node(id, guard);
            let header = node.head.header();
            if header.kind != Kind::Base || header.level == 0 {
                return node;
            }
            let base = node.head.base();
            if Target::At(key).is_beyond(base.high()) {
                return node;
            }
            let (Ok(index) | Err(index)) = match base.search_level(key, 1) {
                Err(index) => Err(index - 1),
                found => found,
            };
            id = base.child(index);
            self.prefetch_child(id, header.level);
        }
    }

    /// The node of a target on a level; `None` if the tree is not that high.
    pub(crate) fn find<'g>(
        &self,
        target: Target<'_>,
        level: u8,
        guard: &'g Guard<C>,
    ) -> Option<Node<'g>> {
        self.find_from(ROOT, target, level, Help::Post, guard)
    }

    /// As [`find`](Self::find), from a node on that is not to the right of the target's path.
    #[inline]
    pub(crate) fn find_from<'g>(
        &self,
        start: NodeId,
        target: Target<'_>,
        level: u8,
        help: Help,
        guard: &'g Guard<C>,
    ) -> Option<Node<'g>> {
        let mut id = start;
        loop {
            let node = self.node(id, guard);
            let header = node.head.header();
            if header.kind == Kind::Remove {
                id = self.leave_removed(node, guard);
                continue;
            }
            let high = node.head.high();
            if target.is_beyond(high) {
                let right = node.head.right();
                debug_assert_ne!(right, NONE);
                self.counters.count(Event::RightSteps as usize);
                if help == Help::Post
                    && let Some(separator) = high
                {
                    self.counters.count(Event::HelpedSeparators as usize);
                    self.post_separator(header.level, separator, right, guard);
                }
                id = right;
                continue;
            }
            if header.level == level {
                return Some(node);
            }
            if header.level < level {
                return None;
            }
            id = node.head.child_of(target);
            self.prefetch_child(id, header.level);
        }
    }

    /// Asks for what a search reads first of a child of a node of a level.
    #[inline(always)]
    fn prefetch_child(&self, id: NodeId, parent_level: u8) {
        let word = self.base_word(id);
        if parent_level == 1 {
            prefetch_base(word, const { Self::base_lines(0) });
        } else {
            prefetch_base(word, const { Self::base_lines(1) });
        }
    }

    /// Asks for a node's entry in the mapping table. Without one, the entry lies beside the base
    /// node, of which so many lines are asked for at the same time.
    #[inline(always)]
    pub(crate) fn prefetch_entry(&self, id: NodeId, lines: usize) {
        match C::Entries::DIRECT {
            true => prefetch_base(self.base_word(id), lines),
            false => prefetch_line(self.table.address(id)),
        }
    }

    /// A word that says where a node's base node lies, to prefetch it.
    #[inline(always)]
    fn base_word(&self, id: NodeId) -> u64 {
        match C::Entries::DIRECT {
            true => self.table.address(id).addr() as u64 + BEFORE_BASE_BYTES as u64,
            false => self.table.load(id),
        }
    }

    /// Asks for what a scan reads first of a leaf that it comes to soon: its newest record, and the
    /// attributes and fences of its base node.
    #[inline]
    pub(crate) fn prefetch_attributes(&self, id: NodeId) {
        let word = self.base_word(id);
        prefetch_line(RecordRef::address_of_word(word));
        prefetch_base(word, 2);
    }

    /// Cache lines of attributes, fences, heads and children of a node that is three quarters full.
    pub(crate) const fn base_lines(level: u8) -> usize {
        let bytes = if level == 0 {
            4 * C::LEAF_ITEMS
        } else {
            8 * C::INNER_ITEMS
        };
        2 + (bytes * 3 / 4) / LINE_BYTES
    }

    /// The node at which to go on from a removed one, which has its keys by now.
    #[cold]
    fn leave_removed(&self, node: Node<'_>, guard: &Guard<C>) -> NodeId {
        self.counters.count(Event::RemovedMet as usize);
        let into = node.head.into_node();
        if into == ROOT {
            self.finish_shrink(node, guard);
        } else {
            self.merge_chain(node, guard);
        }
        into
    }
}
