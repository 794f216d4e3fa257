//! The tree: its way down, and how it grows.
//!
//! Children of the lowest inner level are pages, and their numbers carry six bits that the page
//! chose (the slot of its root): header and root are prefetched together. A stale tag would cost
//! a wasted prefetch and nothing else; it is renewed whenever a root moves.

mod batch;
mod find;
mod index;
mod shrink;
mod superpage;
mod verify;

use hedgerow_index::Direction;
use hedgerow_simd::{Kernel, Level, Task};

use crate::node_key::{KeyWidth, MapKey};
use crate::paper::node::arena::Arena;
use crate::paper::node::form::{Inserted, PageForm};
use crate::paper::node::outer::{MOST_CHILDREN, OuterNode};
use crate::paper::strategy::Strategy;
use crate::paper::variants::Flat;

/// Inner levels of the outer tree, at most: more than any number of pages needs, also at the
/// smallest fan-out that tests choose.
pub(crate) const MOST_HEIGHT: usize = 20;

/// Bits of a page's number that the page chose.
const TAG_BITS: u32 = 6;

/// Those bits.
pub(crate) const TAG_MASK: u32 = (1 << TAG_BITS) - 1;

/// Where a strategy's pages lie.
pub(crate) type PageArena<L, V, S> =
    Arena<<S as Strategy>::Page<L, V, S>, <S as Strategy>::Head<L>>;

/// An ordered map from integers to values that are copied; with `()` it is a set.
pub struct Matryoshka<K, V, S = Flat>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    pub(crate) pages: PageArena<K::NodeKey, V, S>,
    pub(crate) inner: Arena<OuterNode<K::NodeKey>>,
    /// A tagged page at height 0, else an inner node.
    pub(crate) root: u32,
    pub(crate) height: usize,
    pub(crate) len: usize,
    /// Keys above the first belong to the last page, which is the second: ascending inserts need no
    /// way from the root. The greatest integer, which no key is above, when that is not known.
    pub(crate) edge: (K::NodeKey, u32),
    pub(crate) level: Level,
    /// Room for the pairs of pages that are split, merged or rebalanced.
    pub(crate) scratch: Vec<(K::NodeKey, V)>,
}

/// The way from the root to a page.
#[derive(Clone, Copy)]
pub(crate) struct OuterPath {
    /// Inner node and the child taken, from the root down.
    pub(crate) steps: [(u32, u32); MOST_HEIGHT],
    pub(crate) page: u32,
}

/// Pages whose ranges of keys a change moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangedPages {
    /// None.
    None,
    /// These; perhaps one twice.
    Pages([u32; 2]),
    /// Perhaps any.
    Any,
}

/// The page of a tagged number.
#[inline(always)]
pub(crate) fn untag(child: u32) -> u32 {
    child >> TAG_BITS
}

/// The number that a parent keeps for a page.
#[inline(always)]
pub(crate) fn tag(page: u32, tag: u32) -> u32 {
    page << TAG_BITS | tag
}

impl<K, V, S> Default for Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    /// The most keys of a page.
    pub(crate) const CAPACITY: usize =
        <S::Page<K::NodeKey, V, S> as PageForm<K::NodeKey, V, S>>::CAPACITY;

    /// The last page is not known.
    pub(crate) const NO_EDGE: (K::NodeKey, u32) = (K::NodeKey::MAX, 0);

    /// An empty tree that searches with the best kernel of this processor.
    #[must_use]
    pub fn new() -> Self {
        Self::with_level(Level::detect())
    }

    /// An empty tree that searches with this kernel.
    #[must_use]
    pub fn with_level(level: Level) -> Self {
        const {
            assert!(S::SLOTS >= 5 && S::SLOTS <= 63);
            assert!(S::FAN_OUT >= 4 && S::FAN_OUT <= MOST_CHILDREN);
            assert!(
                !S::SUPERPAGES || Self::SUPERPAGE >= 4,
                "fewer than four pages of values this large fit a superpage: choose a strategy \
                 without superpages"
            );
        }
        let mut tree = Self {
            pages: Arena::new(),
            inner: Arena::new(),
            root: 0,
            height: 0,
            len: 0,
            edge: Self::NO_EDGE,
            level,
            scratch: Vec::new(),
        };
        tree.clear();
        tree
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.pages = Arena::new();
        self.inner = Arena::new();
        let page = S::Page::build(&[]);
        self.root = tag(self.allocate_first(&page), page.tag());
        (self.height, self.len, self.edge) = (0, 0, Self::NO_EDGE);
    }

    /// Whether nodes at `level` below the root are heads of superpages.
    #[inline(always)]
    pub(crate) fn heads_at(&self, level: usize) -> bool {
        S::SUPERPAGES && level + 1 == self.height
    }

    /// An inner node at `level` below the root.
    #[inline(always)]
    pub(crate) fn node(&self, level: usize, number: u32) -> &OuterNode<K::NodeKey> {
        if self.heads_at(level) {
            &self.pages.head(number).as_ref()[0]
        } else {
            self.inner.get(number)
        }
    }

    /// As `node`, to be changed.
    #[inline(always)]
    pub(crate) fn node_mut(&mut self, level: usize, number: u32) -> &mut OuterNode<K::NodeKey> {
        if self.heads_at(level) {
            &mut self.pages.head_mut(number).as_mut()[0]
        } else {
            self.inner.get_mut(number)
        }
    }

    /// Moves to the neighbouring page; false when there is none.
    pub(crate) fn advance(&self, path: &mut OuterPath, direction: Direction) -> bool {
        for level in (0..self.height).rev() {
            let (number, index) = path.steps[level];
            let next = match direction {
                Direction::Forward => index + 1,
                Direction::Reverse => index.wrapping_sub(1),
            };
            let node = self.node(level, number);
            if next as usize > node.count() {
                continue;
            }
            path.steps[level].1 = next;
            let mut child = node.child(next as usize);
            for below in level + 1..self.height {
                let node = self.node(below, child);
                let edge = match direction {
                    Direction::Forward => 0,
                    Direction::Reverse => node.count(),
                };
                path.steps[below] = (child, edge as u32);
                child = node.child(edge);
            }
            path.page = untag(child);
            return true;
        }
        false
    }

    /// The neighbour of the path's page under the same parent.
    #[inline(always)]
    pub(crate) fn sibling(&self, path: &OuterPath, direction: Direction) -> Option<u32> {
        let level = self.height.checked_sub(1)?;
        let (number, index) = path.steps[level];
        let next = match direction {
            Direction::Forward => index + 1,
            Direction::Reverse => index.wrapping_sub(1),
        };
        let node = self.node(level, number);
        (next as usize <= node.count()).then(|| node.child(next as usize))
    }

    /// Keeps the parent's tag of a page in step with the page.
    pub(crate) fn retag(&mut self, path: &OuterPath) {
        let child = tag(path.page, self.pages.get(path.page).tag());
        if self.height == 0 {
            self.root = child;
        } else {
            let (number, index) = path.steps[self.height - 1];
            let node = self.node_mut(self.height - 1, number);
            node.set_child(index as usize, child);
        }
    }

    /// Makes room for `key` in the path's page, which is full: the page is rebalanced with a
    /// neighbour that has a quarter free, or split.
    #[inline(never)]
    fn make_room(&mut self, path: &OuterPath, key: K::NodeKey) -> ChangedPages {
        self.edge = Self::NO_EDGE;
        let mut pairs = std::mem::take(&mut self.scratch);
        pairs.clear();
        self.pages.get(path.page).pairs(&mut pairs);
        let above = pairs.last().is_some_and(|last| last.0 < key);
        // Ascending inserts leave full pages behind.
        let appends = above && !self.advance(&mut path.clone(), Direction::Forward);
        let rebalanced = if appends {
            None
        } else {
            self.rebalance_with_neighbour(path, &mut pairs)
        };
        let moved = if let Some(other) = rebalanced {
            ChangedPages::Pages([path.page, other])
        } else if self.is_full_superpage(path) {
            self.split_superpage(path, appends);
            ChangedPages::Any
        } else {
            let half = if appends {
                pairs.len()
            } else {
                pairs.len() / 2
            };
            self.split(path, &pairs, half, key);
            ChangedPages::Pages([path.page; 2])
        };
        self.scratch = pairs;
        moved
    }

    /// Levels the path's page, which holds `pairs`, with the emptier of its neighbours, which it
    /// returns; `None` when both are nearly full.
    fn rebalance_with_neighbour(
        &mut self,
        path: &OuterPath,
        pairs: &mut Vec<(K::NodeKey, V)>,
    ) -> Option<u32> {
        let left = self.sibling(path, Direction::Reverse).map(untag);
        let right = self.sibling(path, Direction::Forward).map(untag);
        let len =
            |page: &Option<u32>| page.map_or(usize::MAX, |page| self.pages.get(page).key_count());
        let to_left = len(&left) < len(&right);
        let other = if to_left { left } else { right };
        if len(&other) > Self::CAPACITY * 3 / 4 {
            return None;
        }
        let other = other?;
        let (parent, index) = path.steps[self.height - 1];
        let (low, high, at);
        if to_left {
            let own = pairs.len();
            self.pages.get(other).pairs(pairs);
            pairs.rotate_left(own);
            (low, high, at) = (other, path.page, index as usize - 1);
        } else {
            self.pages.get(other).pairs(pairs);
            (low, high, at) = (path.page, other, index as usize);
        }
        let half = pairs.len() / 2;
        let (low_pairs, high_pairs) = pairs.split_at(half);
        self.rebuild_page(low, low_pairs);
        self.rebuild_page(high, high_pairs);
        self.update_parent(parent, at, [low, high], high_pairs[0].0);
        Some(other)
    }

    /// Gives a page these pairs.
    pub(crate) fn rebuild_page(&mut self, page: u32, pairs: &[(K::NodeKey, V)]) {
        *self.pages.get_mut(page) = S::Page::build(pairs);
    }

    /// Updates `parent` after its children `at` and `at + 1` were rebuilt; `key` is now the first
    /// of the second.
    pub(crate) fn update_parent(
        &mut self,
        parent: u32,
        at: usize,
        children: [u32; 2],
        key: K::NodeKey,
    ) {
        let tags = children.map(|page| tag(page, self.pages.get(page).tag()));
        let node = self.node_mut(self.height - 1, parent);
        node.set_key(at, key.before());
        node.set_child(at, tags[0]);
        node.set_child(at + 1, tags[1]);
    }

    /// Cuts the path's page, which holds `pairs`, in two, for `key`, which is above all of them if
    /// none goes into the second. The separator is the greatest that there can be, so that searches
    /// for the greatest key at or below another seldom end in a page without one.
    fn split(&mut self, path: &OuterPath, pairs: &[(K::NodeKey, V)], at: usize, key: K::NodeKey) {
        let separator = pairs.get(at).map_or(key, |pair| pair.0).before();
        let right = S::Page::build(&pairs[at..]);
        let number = self.allocate_beside(path.page, &right);
        if at == pairs.len() {
            self.edge = (separator, number);
        } else {
            *self.pages.get_mut(path.page) = S::Page::build(&pairs[..at]);
            self.retag(path);
        }
        let child = tag(number, right.tag());
        if self.height == 0 && S::SUPERPAGES {
            self.grow_superpage(separator, child);
            return;
        }
        self.insert_child(path, self.height, separator, child);
    }

    /// Inserts `child` after the path's node at level `below`.
    pub(crate) fn insert_child(
        &mut self,
        path: &OuterPath,
        below: usize,
        mut key: K::NodeKey,
        mut child: u32,
    ) {
        for level in (0..below).rev() {
            let (number, index) = (path.steps[level].0, path.steps[level].1 as usize);
            let node = self.node_mut(level, number);
            if node.count() + 1 < S::FAN_OUT {
                node.insert(index, key, child);
                return;
            }
            let (mut keys, mut children) = (node.keys(), node.children().to_vec());
            keys.insert(index, key);
            children.insert(index + 1, child);
            // Ascending inserts leave nearly full nodes behind, and never one without separators.
            let cut = if index + 1 == keys.len() {
                (keys.len() * 15 / 16).min(keys.len() - 2)
            } else {
                keys.len() / 2
            };
            key = keys[cut];
            let right = OuterNode::new(&keys[cut + 1..], &children[cut + 1..]);
            *self.inner.get_mut(number) = OuterNode::new(&keys[..cut], &children[..=cut]);
            child = self.inner.allocate(&right);
        }
        let root = OuterNode::new(&[key], &[self.root, child]);
        self.root = self.inner.allocate(&root);
        self.height += 1;
    }

    /// `insert` at the end of a path, if there is room.
    #[inline(always)]
    pub(crate) fn insert_at<N: Kernel>(
        &mut self,
        path: &OuterPath,
        key: K::NodeKey,
        value: V,
    ) -> Inserted<V> {
        self.insert_in::<N>(path.page, |_| *path, key, value)
    }

    /// `insert` into a page, if there is room; and the way there, should it be asked for.
    #[inline(always)]
    fn insert_in<N: Kernel>(
        &mut self,
        number: u32,
        path: impl FnOnce(&Self) -> OuterPath,
        key: K::NodeKey,
        value: V,
    ) -> Inserted<V> {
        let page = self.pages.get_mut(number);
        let before = page.tag();
        let inserted = page.insert::<N>(key, value);
        if page.tag() != before {
            self.retag(&path(self));
        }
        if matches!(inserted, Inserted::New) {
            self.len += 1;
        }
        inserted
    }

    /// `insert`, from the root; tells which pages are then others.
    #[inline(always)]
    pub(crate) fn insert_from_root<N: Kernel>(
        &mut self,
        key: K::NodeKey,
        value: V,
        mut moved: impl FnMut(ChangedPages),
    ) -> Option<V> {
        let way = |tree: &Self| tree.path_of(key);
        let (above, last) = self.edge;
        if above < key {
            match self.insert_in::<N>(last, way, key, value) {
                Inserted::New => return None,
                Inserted::Replaced(old) => return Some(old),
                Inserted::Full => {}
            }
        }
        loop {
            let page = self.find_page::<N>(key);
            match self.insert_in::<N>(page, way, key, value) {
                Inserted::New => return None,
                Inserted::Replaced(old) => return Some(old),
                Inserted::Full => moved(self.make_room(&self.path_of(key), key)),
            }
        }
    }
}

/// `insert`, for a kernel.
pub(crate) struct Insert<'a, K: MapKey, V: Copy + Default, S: Strategy>(
    pub(crate) &'a mut Matryoshka<K, V, S>,
    pub(crate) K::NodeKey,
    pub(crate) V,
);

impl<K: MapKey, V: Copy + Default, S: Strategy> Task for Insert<'_, K, V, S> {
    type Output = Option<V>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<V> {
        let Self(tree, key, value) = self;
        tree.insert_from_root::<N>(key, value, |_| ())
    }
}
