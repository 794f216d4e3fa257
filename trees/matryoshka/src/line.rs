//! One node of a page's sub-tree: a cache line, as a leaf or as an inner node.

use hedgerow_simd::Kernel;

use crate::node_key::{KeyWidth, MOST_CHILDREN, NodeKey};

/// A node of 64 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line<L: KeyWidth>(pub(crate) L::Lanes);

/// An inner line unpacked, with room for one entry too many, so that it can be split.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unpacked<L: KeyWidth> {
    pub(crate) keys: [L; 2 * MOST_CHILDREN],
    pub(crate) children: [u8; 2 * MOST_CHILDREN],
    pub(crate) count: usize,
}

impl<L: KeyWidth> Line<L> {
    pub(crate) const EMPTY: Self = Self(L::EMPTY);

    /// Where keys of an inner line begin.
    const INNER_FROM: usize = 16 / size_of::<L>();

    /// Keys in the node.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        usize::from(L::byte(&self.0, 0))
    }

    #[inline(always)]
    pub(crate) fn set_count(&mut self, count: usize) {
        L::set_byte(&mut self.0, 0, count as u8);
    }

    /// The keys of a leaf.
    #[inline(always)]
    pub(crate) fn leaf_keys(&self) -> &[L] {
        &self.0.as_ref()[1..][..self.count().min(L::LEAF)]
    }

    /// The separators of an inner node.
    pub(crate) fn separators(&self) -> &[L] {
        &self.0.as_ref()[Self::INNER_FROM..][..self.count().min(L::INNER)]
    }

    #[inline(always)]
    pub(crate) fn child(&self, index: usize) -> u8 {
        L::byte(&self.0, 1 + index)
    }

    #[inline(always)]
    pub(crate) fn set_child(&mut self, index: usize, child: u8) {
        L::set_byte(&mut self.0, 1 + index, child);
    }

    #[inline(always)]
    pub(crate) fn set_separator(&mut self, index: usize, key: L) {
        self.0.as_mut()[Self::INNER_FROM + index] = key;
    }

    /// The places of all separators of an inner node.
    pub(crate) fn separators_all(&self) -> &[L] {
        &self.0.as_ref()[Self::INNER_FROM..]
    }

    /// Makes room at `position` of a leaf that is not full.
    #[inline(always)]
    pub(crate) fn leaf_insert(&mut self, position: usize, key: L) {
        L::push_in(&mut self.0, 1 + position, key);
        self.set_count(self.count() + 1);
    }

    #[inline(always)]
    pub(crate) fn leaf_remove(&mut self, position: usize) {
        L::pull_out(&mut self.0, 1 + position, L::MAX);
        self.set_count(self.count() - 1);
    }

    /// Inserts `child` after child `index` of an inner node that is not full, with `key` between
    /// them.
    #[inline(always)]
    pub(crate) fn inner_insert(&mut self, index: usize, key: L, child: u8) {
        L::push_in(&mut self.0, Self::INNER_FROM + index, key);
        L::push_byte(&mut self.0, 2 + index, child);
        self.set_count(self.count() + 1);
    }

    /// Leaves the first `cut` keys in this leaf; a leaf of the others.
    pub(crate) fn split_leaf(&mut self, cut: usize) -> Self {
        let count = self.count();
        let mut right = Self::EMPTY;
        right.0.as_mut()[1..1 + count - cut].copy_from_slice(&self.0.as_ref()[1 + cut..1 + count]);
        right.set_count(count - cut);
        self.0.as_mut()[1 + cut..].fill(L::MAX);
        self.set_count(cut);
        right
    }

    /// A leaf of the keys of the first `count` of these pairs.
    #[inline(always)]
    pub(crate) fn leaf_of<V>(pairs: &[(L, V)], count: usize) -> Self {
        let Some(whole) = pairs.get(..L::LEAF) else {
            return Self::leaf(pairs[..count].iter().map(|pair| pair.0));
        };
        // As many as fit are copied, and what is too much is written over: loops of fixed lengths.
        let mut line = Self::EMPTY;
        let lanes = &mut line.0.as_mut()[1..=L::LEAF];
        for at in 0..L::LEAF {
            lanes[at] = whole[at].0;
        }
        lanes[count..].fill(L::MAX);
        line.set_count(count);
        line
    }

    /// A leaf of these keys.
    pub(crate) fn leaf(keys: impl ExactSizeIterator<Item = L>) -> Self {
        let mut line = Self::EMPTY;
        line.set_count(keys.len());
        for (lane, key) in line.0.as_mut()[1..].iter_mut().zip(keys) {
            *lane = key;
        }
        line
    }

    pub(crate) fn unpack(&self) -> Unpacked<L> {
        let count = self.count();
        let mut keys = [L::MAX; 2 * MOST_CHILDREN];
        let mut children = [0; 2 * MOST_CHILDREN];
        keys[..count].copy_from_slice(self.separators());
        for (index, child) in children[..=count].iter_mut().enumerate() {
            *child = self.child(index);
        }
        Unpacked {
            keys,
            children,
            count,
        }
    }
}

impl<L: NodeKey> Line<L> {
    /// Keys of this leaf below `key`.
    #[inline(always)]
    pub(crate) fn leaf_rank<S: Kernel>(&self, key: L) -> usize {
        L::count::<S>(&self.0, 1, key)
    }

    /// Which child of this inner node is responsible for `key`.
    #[inline(always)]
    pub(crate) fn route<S: Kernel>(&self, key: L) -> usize {
        L::count::<S>(&self.0, Self::INNER_FROM, key)
    }

    /// Keys below `key` in a line that holds nothing else.
    #[inline(always)]
    pub(crate) fn rank<S: Kernel>(&self, key: L) -> usize {
        L::count::<S>(&self.0, 0, key)
    }
}

impl<L: KeyWidth> Unpacked<L> {
    /// The line of `count` keys from `from` on, and the child after each and before the first.
    pub(crate) fn pack(&self, from: usize, count: usize) -> Line<L> {
        let mut line = Line::<L>::EMPTY;
        let start = Line::<L>::INNER_FROM;
        line.0.as_mut()[start..start + count].copy_from_slice(&self.keys[from..from + count]);
        line.set_count(count);
        for index in 0..=count {
            L::set_byte(&mut line.0, 1 + index, self.children[from + index]);
        }
        line
    }

    /// Puts `child` behind child `index`, with `key` between them.
    pub(crate) fn insert(&mut self, index: usize, key: L, child: u8) {
        self.keys.copy_within(index..self.count, index + 1);
        self.children.copy_within(index + 1..=self.count, index + 2);
        self.keys[index] = key;
        self.children[index + 1] = child;
        self.count += 1;
    }

    /// Removes separator `index` and the child behind it.
    pub(crate) fn remove(&mut self, index: usize) {
        self.keys.copy_within(index + 1..self.count, index);
        self.children.copy_within(index + 2..=self.count, index + 1);
        self.count -= 1;
    }

    /// Appends `key` and the whole of `other`.
    pub(crate) fn append(&mut self, key: L, other: &Self) {
        let at = self.count + 1;
        self.keys[self.count] = key;
        self.keys[at..at + other.count].copy_from_slice(&other.keys[..other.count]);
        self.children[at..=at + other.count].copy_from_slice(&other.children[..=other.count]);
        self.count += 1 + other.count;
    }
}
