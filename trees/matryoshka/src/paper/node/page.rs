//! A page: 4 KiB that hold a header and 63 lines, and in a map the values of each leaf line.
//!
//! ```text
//! 0     header: lines in use 8 │ keys 2 │ root 1 │ height 1 │ fences 1 │ stale 1 │ slots 7 │ keys
//! 64    63 lines of 64 bytes
//! 4096  in maps the values, of each line as many as it has lanes
//! ```
//!
//! Lines are handed out by a bitmap and are named by slots 1 to 63. They form a B+-tree whose
//! root, separators and leaves are lines; a search touches the header and one line a level.
//! Separator `i` is at or above every key of child `i`, and below every key of child `i + 1`.
//!
//! With fence keys the header repeats the first separators and children of the root, when all of
//! them fit: a search then skips the root's line. Whatever changes the root only marks the copy
//! as stale; the next insert or removal that comes by renews it.

use std::mem::offset_of;

use hedgerow_memory::prefetch_line;
use hedgerow_simd::Kernel;

use crate::line::{Line, Unpacked};
use crate::node_key::NodeKey;
use crate::paper::strategy::Strategy;

/// The highest sub-tree: the report's is 2; narrow lines of 64-bit keys need one more when full.
pub(crate) const MOST_LEVELS: usize = 3;

/// The first line of a page.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct PageHeader<L: NodeKey> {
    /// Lines in use; bit 0 is the header itself.
    pub(crate) used: u64,
    pub(crate) keys: u16,
    pub(crate) root: u8,
    pub(crate) height: u8,
    /// Children that the fences name; 0 without fences.
    pub(crate) fenced: u8,
    pub(crate) stale: bool,
    pub(crate) fence_slots: [u8; 7],
    pub(crate) fence_keys: L::Fences,
}

/// A page with its values.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct NestedPage<L: NodeKey, V: Copy> {
    pub(crate) head: PageHeader<L>,
    pub(crate) lines: [Line<L>; 63],
    pub(crate) values: [L::Values<V>; 63],
}

// The page as it is drawn above, of both widths; a set has no values.
const _: () = {
    assert!(size_of::<PageHeader<i32>>() == 64 && size_of::<PageHeader<i64>>() == 64);
    assert!(
        offset_of!(NestedPage<i64, i64>, lines) == 64
            && offset_of!(NestedPage<i64, i64>, values) == 4096
    );
    assert!(size_of::<NestedPage<i32, ()>>() == 4096);
};

/// The way from a page's root to a leaf.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Path {
    /// The slot at each level; the leaf's stands at the page's height.
    pub(crate) slots: [u8; MOST_LEVELS + 1],
    /// Which child was taken at each inner level.
    pub(crate) index: [usize; MOST_LEVELS + 1],
}

/// Lines that a sub-tree of `leaves` leaves takes, and its height, for nodes as full as can be.
const fn lines_for(leaves: usize, fan_out: usize) -> (usize, usize) {
    let (mut lines, mut level, mut height) = (leaves, leaves, 0);
    while level > 1 {
        level = level.div_ceil(fan_out);
        lines += level;
        height += 1;
    }
    (lines, height)
}

/// The most leaves that fit into a page of so many slots.
pub(crate) const fn most_leaves(slots: usize, fan_out: usize) -> usize {
    let mut leaves = 1;
    while lines_for(leaves + 1, fan_out).0 <= slots
        && lines_for(leaves + 1, fan_out).1 <= MOST_LEVELS
    {
        leaves += 1;
    }
    leaves
}

impl<L: NodeKey, V: Copy> NestedPage<L, V> {
    /// A page of these pairs, which ascend and are not too many.
    pub(crate) fn build<S: Strategy>(pairs: &[(L, V)], default: V) -> Self {
        let mut page = Self {
            head: PageHeader {
                used: 1,
                keys: pairs.len() as u16,
                root: 0,
                height: 0,
                fenced: 0,
                stale: true,
                fence_slots: [0; 7],
                fence_keys: L::NO_FENCES,
            },
            lines: [Line::EMPTY; 63],
            values: [L::values(default); 63],
        };
        let most = most_leaves(S::SLOTS, L::INNER + 1);
        let full = pairs.len().div_ceil(L::LEAF);
        // Three quarters full, or fuller in a page that is itself nearly full.
        let roomy = pairs.len().div_ceil(L::LEAF * 3 / 4).min(most * 4 / 5);
        let leaves = full.max(roomy).max(1);
        let mut level = Vec::with_capacity(leaves);
        let mut from = 0;
        for leaf in 0..leaves {
            let to = pairs.len() * (leaf + 1) / leaves;
            let slot = page.take_slot();
            let some = &pairs[from..to];
            *page.line_mut(slot) = Line::leaf_of(&pairs[from..], to - from);
            from = to;
            for (place, pair) in page.values_mut(slot).iter_mut().zip(some) {
                *place = pair.1;
            }
            level.push((slot, some.last().map_or(L::MAX, |pair| pair.0)));
        }
        while level.len() > 1 {
            level = page.build_level(&level);
            page.head.height += 1;
        }
        page.head.root = level[0].0;
        page.renew_fences::<S>();
        page
    }

    /// Inner nodes above `level`, which is of slots and their greatest keys.
    fn build_level(&mut self, level: &[(u8, L)]) -> Vec<(u8, L)> {
        let nodes = level.len().div_ceil(L::INNER + 1);
        let mut above = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let (from, to) = (level.len() * node / nodes, level.len() * (node + 1) / nodes);
            let some = &level[from..to];
            let slot = self.take_slot();
            let line = self.line_mut(slot);
            *line = Line::EMPTY;
            line.set_count(some.len() - 1);
            for (index, &(child, greatest)) in some.iter().enumerate() {
                line.set_child(index, child);
                if index + 1 < some.len() {
                    line.set_separator(index, greatest);
                }
            }
            above.push((slot, some[some.len() - 1].1));
        }
        above
    }

    #[inline(always)]
    pub(crate) fn line(&self, slot: u8) -> &Line<L> {
        &self.lines[usize::from(slot.wrapping_sub(1) & 63).min(62)]
    }

    #[inline(always)]
    pub(crate) fn line_mut(&mut self, slot: u8) -> &mut Line<L> {
        &mut self.lines[usize::from(slot.wrapping_sub(1) & 63).min(62)]
    }

    #[inline(always)]
    pub(crate) fn values(&self, slot: u8) -> &[V] {
        self.values[usize::from(slot.wrapping_sub(1) & 63).min(62)].as_ref()
    }

    #[inline(always)]
    pub(crate) fn values_mut(&mut self, slot: u8) -> &mut [V] {
        self.values[usize::from(slot.wrapping_sub(1) & 63).min(62)].as_mut()
    }

    fn take_slot(&mut self) -> u8 {
        let slot = (!self.head.used).trailing_zeros() as u8;
        self.head.used |= 1 << slot;
        slot
    }

    fn free_slots<S: Strategy>(&self) -> usize {
        S::SLOTS + 1 - self.head.used.count_ones() as usize
    }

    fn give_slot(&mut self, slot: u8) {
        self.head.used &= !(1 << slot);
    }

    /// Copies the root's separators into the header, when they fit there.
    pub(crate) fn renew_fences<S: Strategy>(&mut self) {
        self.head.stale = false;
        self.head.fenced = 0;
        if !S::has_fences() || self.head.height == 0 {
            return;
        }
        let root = self.line(self.head.root).unpack();
        if root.count <= L::FENCES {
            self.head.fence_keys = L::NO_FENCES;
            self.head.fence_keys.as_mut()[..root.count].copy_from_slice(&root.keys[..root.count]);
            self.head.fence_slots[..=root.count].copy_from_slice(&root.children[..=root.count]);
            self.head.fenced = root.count as u8 + 1;
        }
    }

    /// The root changed: the fences are stale.
    fn root_changed(&mut self) {
        self.head.stale = true;
        self.head.fenced = 0;
    }

    /// The way to the leaf that is responsible for `key`.
    #[inline(always)]
    pub(crate) fn path<N: Kernel, S: Strategy>(&self, key: L) -> Path {
        let height = usize::from(self.head.height).min(MOST_LEVELS);
        let mut path = Path::default();
        path.slots[0] = self.head.root;
        let mut level = 0;
        if S::has_fences() && self.head.fenced > 0 {
            let slots = &self.head.fence_slots;
            let all = slots.iter().take(usize::from(self.head.fenced));
            for &slot in all.filter(|_| S::MASS_PREFETCH) {
                prefetch_line(self.line(slot));
            }
            let below = self.head.fence_keys.as_ref().iter();
            path.index[0] = below.map(|&fence| usize::from(fence < key)).sum();
            path.slots[1] = slots[path.index[0] % 7];
            if !S::MASS_PREFETCH {
                prefetch_line(self.line(path.slots[1]));
            }
            level = 1;
        }
        while level < height {
            let line = self.line(path.slots[level]);
            path.index[level] = line.route::<N>(key);
            path.slots[level + 1] = line.child(path.index[level]);
            level += 1;
        }
        path
    }

    /// The leaf of a path.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, path: &Path) -> u8 {
        path.slots[usize::from(self.head.height).min(MOST_LEVELS)]
    }

    /// Puts a new key at `position` of the leaf of `path`; false when the page has no room.
    #[inline(always)]
    pub(crate) fn insert<S: Strategy>(
        &mut self,
        path: &Path,
        position: usize,
        key: L,
        value: V,
    ) -> bool {
        let slot = self.leaf_of(path);
        let count = self.line(slot).count();
        if count < L::LEAF {
            self.insert_at(slot, position, key, value);
            self.head.keys += 1;
            return true;
        }
        self.split_leaf::<S>(path, position, key, value)
    }

    #[inline(always)]
    fn insert_at(&mut self, slot: u8, position: usize, key: L, value: V) {
        self.line_mut(slot).leaf_insert(position, key);
        let values = &mut self.values[usize::from(slot.wrapping_sub(1) & 63).min(62)];
        L::push_value(values, position, value);
    }

    #[inline(never)]
    fn split_leaf<S: Strategy>(&mut self, path: &Path, at: usize, key: L, value: V) -> bool {
        let height = usize::from(self.head.height);
        let full = |level: &usize| self.line(path.slots[*level]).count() == L::INNER;
        let full_above = (0..height).rev().take_while(full).count();
        let grows = full_above == height;
        if self.free_slots::<S>() < 1 + full_above + usize::from(grows)
            || (grows && height == MOST_LEVELS)
        {
            return false;
        }
        let left = self.leaf_of(path);
        let count = self.line(left).count();
        let last =
            (0..height).all(|level| path.index[level] == self.line(path.slots[level]).count());
        // Ascending inserts leave full leaves behind.
        let cut = if last && at == count {
            count
        } else {
            count.div_ceil(2)
        };
        let right = self.take_slot();
        let values = self.values[usize::from(left) - 1];
        *self.line_mut(right) = self.line_mut(left).split_leaf(cut);
        self.values_mut(right)[..count - cut].copy_from_slice(&values.as_ref()[cut..count]);
        if at <= cut && cut < count {
            self.insert_at(left, at, key, value);
        } else {
            self.insert_at(right, at - cut, key, value);
        }
        self.head.keys += 1;
        let separator = self.line(left).leaf_keys().last().copied();
        self.insert_child(path, separator.unwrap_or(key), right);
        true
    }

    /// Inserts `child` after the path's child at the lowest inner level; there are slots enough.
    fn insert_child(&mut self, path: &Path, mut key: L, mut child: u8) {
        for level in (0..usize::from(self.head.height)).rev() {
            if level == 0 {
                self.root_changed();
            }
            let slot = path.slots[level];
            let line = self.line_mut(slot);
            if line.count() < L::INNER {
                line.inner_insert(path.index[level], key, child);
                return;
            }
            let mut node = line.unpack();
            node.insert(path.index[level], key, child);
            let cut = node.count / 2;
            let right = self.take_slot();
            *self.line_mut(slot) = node.pack(0, cut);
            *self.line_mut(right) = node.pack(cut + 1, node.count - cut - 1);
            (key, child) = (node.keys[cut], right);
        }
        let mut root = Line::<L>::EMPTY.unpack();
        root.children[0] = self.head.root;
        root.insert(0, key, child);
        self.head.root = self.take_slot();
        *self.line_mut(self.head.root) = root.pack(0, 1);
        self.head.height += 1;
        self.root_changed();
    }

    /// Removes the key at `position` of the path's leaf; merges lines that are less than half full.
    #[inline(always)]
    pub(crate) fn remove(&mut self, path: &Path, position: usize) {
        let slot = self.leaf_of(path);
        let count = self.line(slot).count();
        self.line_mut(slot).leaf_remove(position);
        let values = &mut self.values[usize::from(slot.wrapping_sub(1) & 63).min(62)];
        L::pull_value(values, position);
        self.head.keys -= 1;
        if count - 1 < L::LEAF / 2 && self.head.height > 0 {
            self.rebalance(path);
        }
    }

    #[inline(never)]
    fn rebalance(&mut self, path: &Path) {
        let height = usize::from(self.head.height);
        if !self.rebalance_leaves(path.slots[height - 1], path.index[height - 1]) {
            if height == 1 {
                self.root_changed();
            }
            return;
        }
        for level in (1..height).rev() {
            if self.line(path.slots[level]).count() >= L::INNER / 2 {
                break;
            }
            if level == 1 {
                self.root_changed();
            }
            if !self.rebalance_inner(path.slots[level - 1], path.index[level - 1]) {
                break;
            }
        }
        if height == 1 {
            self.root_changed();
        }
        while self.head.height > 0 && self.line(self.head.root).count() == 0 {
            let old = self.head.root;
            self.head.root = self.line(old).child(0);
            self.head.height -= 1;
            self.give_slot(old);
            self.root_changed();
        }
    }

    /// Merges child `index` of `parent` with its neighbour, or levels the two; whether a child
    /// went away.
    fn rebalance_leaves(&mut self, parent: u8, index: usize) -> bool {
        let mut node: Unpacked<L> = self.line(parent).unpack();
        let index = index.saturating_sub(1);
        let (left, right) = (node.children[index], node.children[index + 1]);
        let mut pairs = Vec::with_capacity(2 * L::LEAF);
        self.pairs_of(left, &mut pairs);
        self.pairs_of(right, &mut pairs);
        let merges = pairs.len() <= L::LEAF;
        let cut = if merges { pairs.len() } else { pairs.len() / 2 };
        self.set_leaf(left, &pairs[..cut]);
        if merges {
            node.remove(index);
            self.give_slot(right);
        } else {
            self.set_leaf(right, &pairs[cut..]);
            node.keys[index] = pairs[cut - 1].0;
        }
        *self.line_mut(parent) = node.pack(0, node.count);
        merges
    }

    fn set_leaf(&mut self, slot: u8, pairs: &[(L, V)]) {
        *self.line_mut(slot) = Line::leaf(pairs.iter().map(|pair| pair.0));
        for (place, pair) in self.values_mut(slot).iter_mut().zip(pairs) {
            *place = pair.1;
        }
    }

    fn pairs_of(&self, slot: u8, pairs: &mut Vec<(L, V)>) {
        let keys = self.line(slot).leaf_keys().iter().copied();
        pairs.extend(keys.zip(self.values(slot).iter().copied()));
    }

    /// As `rebalance_leaves`, for inner nodes.
    fn rebalance_inner(&mut self, parent: u8, index: usize) -> bool {
        let mut node: Unpacked<L> = self.line(parent).unpack();
        let index = index.saturating_sub(1);
        let (left, right) = (node.children[index], node.children[index + 1]);
        let mut both = self.line(left).unpack();
        both.append(node.keys[index], &self.line(right).unpack());
        let merges = both.count <= L::INNER;
        if merges {
            *self.line_mut(left) = both.pack(0, both.count);
            node.remove(index);
            self.give_slot(right);
        } else {
            let cut = both.count / 2;
            *self.line_mut(left) = both.pack(0, cut);
            *self.line_mut(right) = both.pack(cut + 1, both.count - cut - 1);
            node.keys[index] = both.keys[cut];
        }
        *self.line_mut(parent) = node.pack(0, node.count);
        merges
    }

    /// The slots of all leaves in key order.
    pub(crate) fn leaves(&self) -> ([u8; 64], usize) {
        let mut level = [0; 64];
        level[0] = self.head.root;
        let mut len = 1;
        for _ in 0..self.head.height {
            let mut below = [0; 64];
            let mut count = 0;
            for &slot in &level[..len] {
                let line = self.line(slot);
                for child in 0..=line.count() {
                    below[count] = line.child(child);
                    count += 1;
                }
            }
            (level, len) = (below, count);
        }
        (level, len)
    }
}
