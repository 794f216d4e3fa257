//! Superpages as nodes of the tree: a B+-tree of pages in 2 MiB (the report's §12.1).
//!
//! The head of a superpage is an inner node whose children are the pages of that superpage and no
//! others. With up to 511 children it reaches all pages that fit (510 of 4 KiB), so this B+-tree
//! is one level high; the report's nodes of 682 children could never be filled. A page is split,
//! rebalanced and merged within its superpage. A superpage without room is split: the upper
//! half of its pages is copied to another one. A superpage under a quarter takes in, or is
//! rebalanced with, its neighbour, by copying pages in one direction.
//!
//! **Why a removal ends**, which the report's did not: each level is visited once, from pages to
//! the root; pages only move between the two superpages that were chosen, never back; and after
//! that both hold more than a quarter, or one of them is gone.

use crate::node_key::MapKey;
use crate::paper::node::form::PageForm;
use crate::paper::node::outer::OuterNode;
use crate::paper::strategy::Strategy;
use crate::paper::tree::{Matryoshka, OuterPath, PageArena, untag};

impl<K, V, S> Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    /// Pages of a superpage, at most.
    pub(super) const SUPERPAGE: usize = {
        let each = PageArena::<K::NodeKey, V, S>::EACH as usize;
        if each < S::FAN_OUT { each } else { S::FAN_OUT }
    };

    /// Children of a node at `level` below the root, at most.
    pub(crate) fn most_children(&self, level: usize) -> usize {
        if self.heads_at(level) {
            Self::SUPERPAGE
        } else {
            S::FAN_OUT
        }
    }

    /// The superpage of a page.
    pub(crate) fn superpage_of(page: u32) -> u32 {
        PageArena::<K::NodeKey, V, S>::superpage_of(page)
    }

    /// Stores a new page, in the superpage of `beside` if superpages are nodes.
    pub(crate) fn allocate_beside(&mut self, beside: u32, page: &S::Page<K::NodeKey, V, S>) -> u32 {
        if S::SUPERPAGES {
            self.pages.allocate_in(Self::superpage_of(beside), page)
        } else {
            self.pages.allocate(page)
        }
    }

    /// Stores the first page of a tree.
    pub(crate) fn allocate_first(&mut self, page: &S::Page<K::NodeKey, V, S>) -> u32 {
        if S::SUPERPAGES {
            let superpage = self.pages.allocate_superpage();
            self.pages.allocate_in(superpage, page)
        } else {
            self.pages.allocate(page)
        }
    }

    pub(crate) fn release_page(&mut self, page: u32) {
        if S::SUPERPAGES {
            self.pages.release_in(page);
        } else {
            self.pages.release(page);
        }
    }

    /// Whether the superpage of the path's page can take no other page.
    pub(crate) fn is_full_superpage(&self, path: &OuterPath) -> bool {
        if !S::SUPERPAGES || self.height == 0 {
            return false;
        }
        let level = self.height - 1;
        self.node(level, path.steps[level].0).count() + 1 >= Self::SUPERPAGE
    }

    /// Makes a tree of one page a superpage of two: `child` is the second, in the same superpage.
    pub(crate) fn grow_superpage(&mut self, key: K::NodeKey, child: u32) {
        let superpage = Self::superpage_of(untag(self.root));
        let head = OuterNode::new(&[key], &[self.root, child]);
        self.pages.head_mut(superpage).as_mut()[0] = head;
        (self.root, self.height) = (superpage, 1);
    }

    /// Cuts the path's superpage in two; the path is void then.
    pub(crate) fn split_superpage(&mut self, path: &OuterPath, appends: bool) {
        let level = self.height - 1;
        let left = path.steps[level].0;
        let node = self.node(level, left);
        let (keys, mut children) = (node.keys(), node.children().to_vec());
        // Ascending inserts leave nearly full superpages behind, and never one without separators.
        let cut = if appends {
            keys.len() - 2
        } else {
            keys.len() / 2
        };
        let right = self.pages.allocate_superpage();
        for child in &mut children[cut + 1..] {
            *child = self.move_page(*child, right);
        }
        *self.node_mut(level, left) = OuterNode::new(&keys[..cut], &children[..=cut]);
        *self.node_mut(level, right) = OuterNode::new(&keys[cut + 1..], &children[cut + 1..]);
        self.insert_child(path, level, keys[cut], right);
    }

    /// Copies a page to a superpage, unless it is there; its tagged number.
    fn move_page(&mut self, child: u32, superpage: u32) -> u32 {
        let page = untag(child);
        if Self::superpage_of(page) == superpage {
            return child;
        }
        let copy = *self.pages.get(page);
        self.pages.release_in(page);
        crate::paper::tree::tag(self.pages.allocate_in(superpage, &copy), copy.tag())
    }

    /// Joins superpage `index` of `parent` with its neighbour, or levels the two.
    pub(crate) fn rebalance_superpages(&mut self, parent: u32, index: usize) {
        let (level, index) = (self.height - 1, index.saturating_sub(1));
        let above = self.node(level - 1, parent);
        let (left, right) = (above.child(index), above.child(index + 1));
        let separator = above.key(index);
        let (low, high) = (self.node(level, left), self.node(level, right));
        let keys = [&low.keys()[..], &[separator], &high.keys()].concat();
        let mut children = [low.children(), high.children()].concat();
        let joins = children.len() <= (Self::SUPERPAGE * 3 / 4).max(3);
        let cut = if joins { keys.len() } else { keys.len() / 2 };
        for (at, child) in children.iter_mut().enumerate() {
            *child = self.move_page(*child, if at <= cut { left } else { right });
        }
        *self.node_mut(level, left) = OuterNode::new(&keys[..cut], &children[..=cut]);
        if joins {
            self.pages.release_superpage(right);
            self.node_mut(level - 1, parent).remove(index);
        } else {
            *self.node_mut(level, right) = OuterNode::new(&keys[cut + 1..], &children[cut + 1..]);
            self.node_mut(level - 1, parent).set_key(index, keys[cut]);
        }
    }

    /// Stores a page behind all others, for a bulk load that fills superpages to seven eighths;
    /// `last` is the page before.
    pub(crate) fn allocate_behind(&mut self, last: u32, page: &S::Page<K::NodeKey, V, S>) -> u32 {
        if !S::SUPERPAGES {
            return self.pages.allocate(page);
        }
        let superpage = Self::superpage_of(last);
        let room = self.pages.nodes_in(superpage) < (Self::SUPERPAGE * 7 / 8).max(2);
        let superpage = if room {
            superpage
        } else {
            self.pages.allocate_superpage()
        };
        self.pages.allocate_in(superpage, page)
    }

    /// The superpages of a bulk load's pages: bounds and numbers.
    pub(crate) fn append_superpages(
        &mut self,
        mut pages: Vec<(K::NodeKey, u32)>,
    ) -> Vec<(K::NodeKey, u32)> {
        // A superpage of one page would have no separator: it joins the one before.
        let of = |page: &(K::NodeKey, u32)| Self::superpage_of(untag(page.1));
        if let [.., before, last] = &mut pages[..]
            && of(before) != of(last)
        {
            let alone = of(last);
            last.1 = self.move_page(last.1, of(before));
            self.pages.release_superpage(alone);
        }
        let mut superpages = Vec::new();
        for some in pages.chunk_by(|one, other| of(one) == of(other)) {
            let greatest: Vec<K::NodeKey> = some.iter().map(|page| page.0).collect();
            let children: Vec<u32> = some.iter().map(|page| page.1).collect();
            let superpage = of(&some[0]);
            let head = OuterNode::new(&greatest[..some.len() - 1], &children);
            self.pages.head_mut(superpage).as_mut()[0] = head;
            superpages.push((greatest[some.len() - 1], superpage));
        }
        superpages
    }
}
