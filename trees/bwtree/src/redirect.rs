//! New nodes and replaced chains: through the mapping table, or without one by changing the links
//! to the node (module `direct_pointers`).

use crate::chunk;
use crate::configuration::Configuration;
use crate::descend::Help;
use crate::epochs::Epochs;
use crate::events::Event;
use crate::mapping_table::{Entries, NONE, NodeId, ROOT};
use crate::node::RecordRef;
use crate::node::route::Target;
use crate::node::view::View;
use crate::tree::{BwTree, Guard, Node, WordOf};

impl<C: Configuration> BwTree<C> {
    /// Gives a new node that nobody knows yet an id.
    pub(crate) fn add_node(&self, newest: RecordRef<'_>) -> NodeId {
        let header = chunk::word::<WordOf<C>>(newest.base());
        self.table.add(header, newest.word())
    }

    /// Replaces a node's chain by one in another chunk; fails if another thread changed the node.
    /// Without a mapping table, links to the node change as well.
    #[inline]
    pub(crate) fn replace_chain(
        &self,
        node: Node<'_>,
        new: RecordRef<'_>,
        guard: &Guard<C>,
    ) -> bool {
        if !C::Entries::DIRECT || node.id == ROOT {
            return self.table.replace(node.id, node.head.word(), new.word());
        }
        let id = self.add_node(new);
        let done = self.table.forward(node.id, node.head.word(), id);
        if done {
            self.redirect(node, id, guard);
        }
        done
    }

    /// Changes the links to a node whose chunk was replaced: in its parent, if that knows it
    /// already, and in its left neighbour.
    fn redirect(&self, node: Node<'_>, id: NodeId, guard: &Guard<C>) {
        let (level, low) = (node.head.header().level, node.head.low());
        let mut changed = 0;
        let find = |target, level| self.find_from(ROOT, target, level, Help::Least, guard);
        if let Some(parent) = find(Target::At(low), level + 1) {
            // SAFETY: the tree is this thread's alone, and no reference to a link is held.
            changed += unsafe { parent.head.redirect_children(node.id, id) };
        }
        if !low.is_empty()
            && let Some(left) = find(Target::Before(low), level)
            && left.head.right() == node.id
        {
            // SAFETY: as above.
            unsafe { left.head.set_right(id) };
            changed += 1;
        }
        self.counters.add(Event::Redirections as usize, changed);
    }

    /// Makes a node the right neighbour of one that was written before it.
    pub(crate) fn link_right(&self, left: NodeId, right: NodeId) {
        let guard = self.epochs.pin();
        // SAFETY: the tree is this thread's alone, and no reference to a link is held.
        unsafe { self.node(left, &guard).head.set_right(right) };
    }

    /// The words of all nodes below the root, where no table has them; the tree is at rest.
    pub(crate) fn words_below_root(&self) -> Vec<u64> {
        let mut words = Vec::new();
        if !C::Entries::DIRECT {
            return words;
        }
        let guard = self.epochs.pin();
        let mut above = self.node(ROOT, &guard);
        while above.head.header().level > 0 {
            let first = View::of(above.head, None).items[0].value.child();
            above = self.node(first, &guard);
            let mut id = first;
            while id != NONE {
                let node = self.node(id, &guard);
                words.push(node.head.word());
                id = node.head.right();
            }
        }
        words
    }
}
