//! The traversal of updates.

use std::sync::atomic::Ordering;

use hedgerow_index::IntKey;
use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

use super::ExtLf;
use super::node::Inner;
use crate::form::Form;
use crate::tagged_link::{is_leaf, node};

/// A node on a path, and where the path left it.
pub(super) struct Passed<'g, W> {
    /// The node's update word.
    pub(super) update: &'g W,
    /// What that was before the edge was read.
    pub(super) seen: u64,
    /// The node's edge on the path.
    pub(super) edge: &'g W,
    /// The link that it had.
    pub(super) link: u64,
}

impl<W> Clone for Passed<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Passed<'_, W> {}

impl<'g, W: Word> Passed<'g, W> {
    fn new(update: &'g W, edge: &'g W) -> Self {
        Self {
            update,
            seen: update.load(Ordering::Acquire),
            edge,
            link: edge.load(Ordering::Acquire),
        }
    }
}

/// What an update needs of the path to its leaf.
pub(super) struct Search<'g, W> {
    /// The leaf's grandparent; in an empty tree the top.
    pub(super) grandparent: Passed<'g, W>,
    /// The leaf's parent; in an empty tree the top.
    pub(super) parent: Passed<'g, W>,
    /// The link to the leaf; `None` in an empty tree.
    pub(super) leaf: Option<u64>,
}

impl<K: IntKey, F: Form, W: Word + 'static> ExtLf<K, F, W> {
    /// The path to the leaf where `key` is, or would be.
    pub(super) fn search<'g>(&'g self, key: K, guard: &'g Guard) -> Search<'g, W> {
        let mut parent = Passed::new(&self.top.update, &self.top.edge);
        let mut grandparent = parent;
        if is_leaf(parent.link) {
            let leaf = None;
            return Search {
                grandparent,
                parent,
                leaf,
            };
        }
        // SAFETY: the top is reachable, and its link, if not to nothing, is to an inner node.
        let first = unsafe { node::<Inner<K, F, W>>(parent.link, guard) };
        parent = Passed::new(first.update(), first.left());
        while !is_leaf(parent.link) {
            // SAFETY: the link was read under the guard from a reachable node.
            let inner = unsafe { node::<Inner<K, F, W>>(parent.link, guard) };
            grandparent = parent;
            parent = Passed::new(inner.update(), inner.edge(key));
        }
        Search {
            grandparent,
            parent,
            leaf: Some(parent.link),
        }
    }
}
