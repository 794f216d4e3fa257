//! The tree's parts, and how memory leaves it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::Placement;
use hedgerow_sync::epoch::{self, Guard};

use super::node::{Node, Side, is_null, null};
use crate::form::Form;
use crate::node_pool::NodePool;
use crate::twin::{TreeWord, leaks};

/// The tree without the type of its keys, which are encoded.
pub(super) struct Core<F: Form, W: TreeWord> {
    /// The address of a node above the whole tree, which is its right subtree. No search compares
    /// its key, and nothing removes it.
    root: u64,
    pub(super) nodes: NodePool<Node<F, W>>,
    /// Operations of others that were helped.
    helps: AtomicU64,
    /// Descents that began again.
    retries: AtomicU64,
}

impl<F: Form, W: TreeWord> Core<F, W> {
    pub(super) fn new(placement: Placement) -> Self {
        let nodes = NodePool::new("edge-int-lf node", placement);
        let root = nodes.place(Node::leaf((0, 0), null(0)));
        Self {
            root: root.as_ptr() as usize as u64,
            nodes,
            helps: AtomicU64::new(0),
            retries: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn root<'g>(&self, guard: &'g Guard) -> &'g Node<F, W> {
        // SAFETY: the root is freed when the tree is dropped; users of the tree's nodes borrow it.
        unsafe { Node::at(self.root, guard) }
    }

    #[cold]
    pub(super) fn count_help(&self) {
        self.helps.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    pub(super) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Helped operations, and descents that began again.
    pub(super) fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.helps), count(&self.retries))
    }

    /// Retires a node, which the caller's compare-and-swap unlinked.
    pub(super) fn retire(&self, node: &Node<F, W>, guard: &Guard) {
        if leaks::<W>() {
            return;
        }
        // SAFETY: no link leads to the node any more, except of nodes that were unlinked before;
        // one compare-and-swap unlinks it.
        unsafe { self.nodes.retire(guard, NonNull::from(node)) };
    }
}

impl<F: Form, W: TreeWord> Drop for Core<F, W> {
    fn drop(&mut self) {
        if leaks::<W>() {
            return;
        }
        let guard = epoch::pin();
        let mut links = vec![self.root];
        while let Some(link) = links.pop() {
            if is_null(link) {
                continue;
            }
            // SAFETY: the node is linked, and each is linked once.
            let node = unsafe { Node::<F, W>::at(link, &guard) };
            links.extend([node.link(Side::Left), node.link(Side::Right)]);
            // SAFETY: nobody else uses the tree, and its links were read.
            unsafe { self.nodes.free(NonNull::from(node)) };
        }
    }
}
