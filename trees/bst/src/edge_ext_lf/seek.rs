//! The traversal of updates.

use std::sync::atomic::Ordering;

use hedgerow_index::IntKey;
use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

use super::node::Node;
use super::{EdgeExtLf, FLAG, TAG};
use crate::form::Form;
use crate::tagged_link::{is_leaf, node};

/// What an update needs of the path to its leaf: the seek record of the paper (§3.2), with edges
/// where that has the nodes which they leave.
pub(super) struct Seek<'g, K, F: Form, W> {
    /// The last edge between inner nodes that was not tagged.
    pub(super) ancestor: &'g W,
    /// The link that it had: that to the successor.
    pub(super) successor: u64,
    /// The inner node over the leaf.
    pub(super) parent: &'g Node<K, F, W>,
    /// The parent's edge to the leaf.
    pub(super) edge: &'g W,
    /// The link that it had, with its marks.
    pub(super) leaf: u64,
}

impl<K, F: Form, W> Seek<'_, K, F, W> {
    /// The link to the leaf, clean.
    #[inline]
    pub(super) fn unmarked_leaf(&self) -> u64 {
        unmarked(self.leaf)
    }
}

/// A link without flag and tag.
#[inline]
pub(super) fn unmarked(link: u64) -> u64 {
    link & !(FLAG | TAG)
}

impl<K: IntKey, F: Form, W: Word + 'static> EdgeExtLf<K, F, W> {
    /// The path to the leaf where `key` is, or would be; `None` in an empty tree.
    pub(super) fn seek<'g>(&'g self, key: K, guard: &'g Guard) -> Option<Seek<'g, K, F, W>> {
        let top = self.root.load(Ordering::Acquire);
        if is_leaf(top) {
            return None;
        }
        // SAFETY: the root is reachable, and leads to an inner node.
        let parent = unsafe { node::<Node<K, F, W>>(top, guard) };
        let edge = parent.left();
        let mut seek = Seek {
            ancestor: &self.root,
            successor: top,
            parent,
            edge,
            leaf: edge.load(Ordering::Acquire),
        };
        while !is_leaf(seek.leaf) {
            if seek.leaf & TAG == 0 {
                seek.ancestor = seek.edge;
                seek.successor = seek.leaf;
            }
            // SAFETY: the link was read under the guard from a reachable node.
            seek.parent = unsafe { node::<Node<K, F, W>>(seek.leaf, guard) };
            seek.edge = seek.parent.edge(key);
            seek.leaf = seek.edge.load(Ordering::Acquire);
        }
        Some(seek)
    }
}
