//! Removal: pages and inner nodes that run low are joined with a neighbour, once, on the way up.
//!
//! A node below a quarter of its capacity is merged with its neighbour when both fit into three
//! quarters of one, else the two are levelled. Either leaves both well above a quarter, so that
//! the next removals and inserts find nothing to do; and each level is visited at most once, so
//! that a removal ends, whatever the neighbours hold.

use hedgerow_index::IntKey;
use hedgerow_simd::{Kernel, Task};

use crate::lane::Lane;
use crate::outer::Inner;
use crate::page::{NONE, Page};
use crate::strategy::Strategy;
use crate::tree::{Matryoshka, OuterPath, tag, untag};

/// `remove`, for a kernel.
pub(crate) struct Remove<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    pub(crate) &'a mut Matryoshka<K, V, S>,
    pub(crate) K::Encoded,
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for Remove<'_, K, V, S> {
    type Output = Option<V>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<V> {
        let Self(tree, key) = self;
        let outer = tree.find_path::<N>(key);
        let page = tree.pages.get_mut(outer.page);
        if S::FENCES && page.head.stale {
            page.renew_fences::<S>();
        }
        let root = page.head.root;
        let path = page.path::<N, S>(key);
        let slot = page.leaf_of(&path);
        let line = page.line(slot);
        let position = line.leaf_rank::<N>(key);
        if line.leaf_keys().get(position) != Some(&key) {
            return None;
        }
        let value = page.values(slot)[position];
        page.remove(&path, position);
        tree.len -= 1;
        let head = &page.head;
        let low = usize::from(head.keys) < Page::<K::Encoded, V>::capacity::<S>() / 4;
        if head.root != root {
            tree.retag(&outer);
        }
        if low && tree.height > 0 {
            tree.rebalance(&outer);
        }
        Some(value)
    }
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    #[inline(never)]
    fn rebalance(&mut self, path: &OuterPath) {
        let (parent, index) = path.steps[self.height - 1];
        self.rebalance_pages(parent, index);
        for level in (1..self.height).rev() {
            let node = self.inner.get(path.steps[level].0);
            if node.count() >= (S::FAN_OUT / 4).max(1) {
                return;
            }
            let (parent, index) = path.steps[level - 1];
            self.rebalance_inner(parent, index);
        }
        while self.height > 0 && self.inner.get(self.root).count() == 0 {
            let old = self.root;
            self.root = self.inner.get(old).child(0);
            self.inner.release(old);
            self.height -= 1;
        }
    }

    fn rebalance_pages(&mut self, parent: u32, index: usize) {
        let node = self.inner.get(parent);
        let (mut keys, mut children) = (node.keys(), node.children().to_vec());
        let index = index.saturating_sub(1);
        let (left, right) = (untag(children[index]), untag(children[index + 1]));
        let mut pairs = Vec::new();
        self.pages.get(left).pairs(&mut pairs);
        self.pages.get(right).pairs(&mut pairs);
        if pairs.len() <= Page::<K::Encoded, V>::capacity::<S>() * 3 / 4 {
            let next = self.pages.get(right).head.next;
            self.replace_page(left, &pairs);
            self.pages.get_mut(left).head.next = next;
            if next != NONE {
                self.pages.get_mut(next).head.previous = left;
            }
            self.pages.release(right);
            keys.remove(index);
            children.remove(index + 1);
        } else {
            let (low, high) = pairs.split_at(pairs.len() / 2);
            self.replace_page(left, low);
            self.replace_page(right, high);
            keys[index] = low[low.len() - 1].0;
            children[index + 1] = tag(right, self.pages.get(right).head.root);
        }
        children[index] = tag(left, self.pages.get(left).head.root);
        *self.inner.get_mut(parent) = Inner::new(&keys, &children);
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
            *self.inner.get_mut(left) = Inner::new(&both_keys, &both_children);
            self.inner.release(right);
            keys.remove(index);
            children.remove(index + 1);
        } else {
            let cut = both_keys.len() / 2;
            let (low, high) = both_children.split_at(cut + 1);
            *self.inner.get_mut(left) = Inner::new(&both_keys[..cut], low);
            *self.inner.get_mut(right) = Inner::new(&both_keys[cut + 1..], high);
            keys[index] = both_keys[cut];
        }
        *self.inner.get_mut(parent) = Inner::new(&keys, &children);
    }
}
