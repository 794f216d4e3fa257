//! Removal: pages and inner nodes that become underfull are merged with a neighbour, once, on the
//! way up.
//!
//! A node below a quarter of its capacity is merged with its neighbour when both fit into three
//! quarters of one, else the two are rebalanced. Either leaves both well above a quarter, so that
//! the next removals and inserts find nothing to do; and each level is visited at most once, so
//! that a removal ends, whatever the neighbours hold.

use hedgerow_simd::{Kernel, Task};

use crate::node_key::MapKey;
use crate::paper::node::form::PageForm;
use crate::paper::node::outer::OuterNode;
use crate::paper::strategy::Strategy;
use crate::paper::tree::{ChangedPages, Matryoshka, OuterPath, tag, untag};

/// `remove`, for a kernel.
pub(crate) struct Remove<'a, K: MapKey, V: Copy + Default, S: Strategy>(
    pub(crate) &'a mut Matryoshka<K, V, S>,
    pub(crate) K::NodeKey,
);

impl<K: MapKey, V: Copy + Default, S: Strategy> Task for Remove<'_, K, V, S> {
    type Output = Option<V>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<V> {
        let Self(tree, key) = self;
        let page = tree.find_page::<N>(key);
        tree.remove_in::<N>(page, key, |_| ())
    }
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    /// `remove` in the page that is responsible for `key`; tells which pages are then others.
    #[inline(always)]
    pub(crate) fn remove_in<N: Kernel>(
        &mut self,
        number: u32,
        key: K::NodeKey,
        mut moved: impl FnMut(ChangedPages),
    ) -> Option<V> {
        let page = self.pages.get_mut(number);
        let before = page.tag();
        let value = page.remove::<N>(key)?;
        let retags = page.tag() != before;
        let low = page.key_count() < Self::CAPACITY / 4 && self.height > 0;
        self.len -= 1;
        if low || retags {
            let path = self.path_of(key);
            self.retag(&path);
            if low {
                moved(self.rebalance(&path));
            }
        }
        Some(value)
    }

    /// `remove` at the end of a path; and which pages were merged or rebalanced: then the path
    /// holds no more.
    #[inline(always)]
    pub(crate) fn remove_at<N: Kernel>(
        &mut self,
        path: &OuterPath,
        key: K::NodeKey,
    ) -> (Option<V>, ChangedPages) {
        let page = self.pages.get_mut(path.page);
        let before = page.tag();
        let value = page.remove::<N>(key);
        let (after, len) = (page.tag(), page.key_count());
        if value.is_none() {
            return (None, ChangedPages::None);
        }
        self.len -= 1;
        if after != before {
            self.retag(path);
        }
        let low = len < Self::CAPACITY / 4 && self.height > 0;
        let moved = if low {
            self.rebalance(path)
        } else {
            ChangedPages::None
        };
        (value, moved)
    }

    #[inline(never)]
    pub(crate) fn rebalance(&mut self, path: &OuterPath) -> ChangedPages {
        self.edge = Self::NO_EDGE;
        let (parent, index) = path.steps[self.height - 1];
        let mut moved = ChangedPages::Pages(self.rebalance_pages(parent, index as usize));
        for level in (1..self.height).rev() {
            let node = self.node(level, path.steps[level].0);
            if node.count() >= (self.most_children(level) / 4).max(1) {
                return moved;
            }
            let (parent, index) = path.steps[level - 1];
            if self.heads_at(level) {
                self.rebalance_superpages(parent, index as usize);
                moved = ChangedPages::Any;
            } else {
                self.rebalance_inner(parent, index as usize);
            }
        }
        while self.height > 0 && self.node(0, self.root).count() == 0 {
            let old = self.root;
            self.root = self.node(0, old).child(0);
            // The head of a superpage goes nowhere: the superpage holds the page that is left.
            if !self.heads_at(0) {
                self.inner.release(old);
            }
            self.height -= 1;
        }
        moved
    }

    /// Joins or levels child `index` of `parent` and its neighbour; which pages these are.
    fn rebalance_pages(&mut self, parent: u32, index: usize) -> [u32; 2] {
        let index = index.saturating_sub(1);
        let level = self.height - 1;
        let node = self.node(level, parent);
        let (left, right) = (untag(node.child(index)), untag(node.child(index + 1)));
        let mut pairs = std::mem::take(&mut self.scratch);
        pairs.clear();
        self.pages.get(left).pairs(&mut pairs);
        self.pages.get(right).pairs(&mut pairs);
        if pairs.len() <= Self::CAPACITY * 3 / 4 {
            *self.pages.get_mut(left) = S::Page::build(&pairs);
            let left_tag = tag(left, self.pages.get(left).tag());
            self.release_page(right);
            let node = self.node_mut(level, parent);
            node.remove(index);
            node.set_child(index, left_tag);
        } else {
            let (low, high) = pairs.split_at(pairs.len() / 2);
            self.rebuild_page(left, low);
            self.rebuild_page(right, high);
            self.update_parent(parent, index, [left, right], high[0].0);
        }
        self.scratch = pairs;
        [left, right]
    }

    fn rebalance_inner(&mut self, parent: u32, index: usize) {
        let node = self.inner.get(parent);
        let (mut keys, mut children) = (node.keys(), node.children().to_vec());
        let index = index.saturating_sub(1);
        let (left, right) = (children[index], children[index + 1]);
        let (low, high) = (self.inner.get(left), self.inner.get(right));
        let mut both_keys = low.keys();
        both_keys.push(keys[index]);
        both_keys.extend(high.keys());
        let both_children = [low.children(), high.children()].concat();
        if both_children.len() <= (S::FAN_OUT * 3 / 4).max(3) {
            *self.inner.get_mut(left) = OuterNode::new(&both_keys, &both_children);
            self.inner.release(right);
            keys.remove(index);
            children.remove(index + 1);
        } else {
            let cut = both_keys.len() / 2;
            let (low, high) = both_children.split_at(cut + 1);
            *self.inner.get_mut(left) = OuterNode::new(&both_keys[..cut], low);
            *self.inner.get_mut(right) = OuterNode::new(&both_keys[cut + 1..], high);
            keys[index] = both_keys[cut];
        }
        *self.inner.get_mut(parent) = OuterNode::new(&keys, &children);
    }
}
