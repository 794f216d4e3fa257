//! The tree: its way down, and how it grows.
//!
//! Children of the lowest inner level are pages, and their numbers carry the slot of the page's
//! root in six bits below: header and root are asked for together. A stale tag would cost a
//! wasted prefetch and nothing else; it is renewed whenever a root moves.

use hedgerow_index::IntKey;
use hedgerow_simd::{Kernel, Level, Task, prefetch_line};

use crate::arena::Arena;
use crate::lane::Lane;
use crate::outer::Inner;
use crate::page::{NONE, Page, Path};
use crate::strategy::{Plain, Strategy};

/// Inner levels of the outer tree, at most: enough for any number of pages at a fan-out of 4.
const MOST_HEIGHT: usize = 32;

/// Bits of a page's number that name its root.
const TAG_BITS: u32 = 6;

/// An ordered map from integers to values that are copied; with `()` it is a set.
pub struct Matryoshka<K, V, S = Plain>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    pub(crate) pages: Arena<Page<K::Encoded, V>>,
    pub(crate) inner: Arena<Inner<K::Encoded>>,
    /// A tagged page at height 0, else an inner node.
    pub(crate) root: u32,
    pub(crate) height: usize,
    pub(crate) len: usize,
    pub(crate) level: Level,
    pub(crate) strategy: std::marker::PhantomData<S>,
}

/// The way from the root to a page.
#[derive(Clone, Copy)]
pub(crate) struct OuterPath {
    /// Inner node and the child taken, from the root down.
    pub(crate) steps: [(u32, usize); MOST_HEIGHT],
    pub(crate) page: u32,
}

/// The page of a tagged number.
#[inline(always)]
pub(crate) fn untag(child: u32) -> u32 {
    child >> TAG_BITS
}

/// The number that a parent keeps for a page.
#[inline(always)]
pub(crate) fn tag(page: u32, root: u8) -> u32 {
    page << TAG_BITS | u32::from(root)
}

impl<K, V, S> Default for Matryoshka<K, V, S>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
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
            assert!(S::FAN_OUT >= 4 && S::FAN_OUT <= crate::outer::MOST_KEYS + 1);
        }
        let mut tree = Self {
            pages: Arena::new(),
            inner: Arena::new(),
            root: 0,
            height: 0,
            len: 0,
            level,
            strategy: std::marker::PhantomData,
        };
        tree.clear();
        tree
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.pages = Arena::new();
        self.inner = Arena::new();
        let page = Page::build::<S>(&[], V::default());
        self.root = tag(self.pages.allocate(&page), page.head.root);
        (self.height, self.len) = (0, 0);
    }

    /// The page that is responsible for `key`.
    #[inline(always)]
    pub(crate) fn find_page<N: Kernel>(&self, key: K::Encoded) -> u32 {
        let mut child = self.root;
        for _ in 0..self.height {
            let node = self.inner.get(child);
            child = node.child(node.route::<N>(key));
        }
        self.prefetch_page(child);
        untag(child)
    }

    /// Asks for a page's header and root.
    #[inline(always)]
    pub(crate) fn prefetch_page(&self, child: u32) {
        let page = self.pages.get(untag(child));
        prefetch_line(&raw const page.head);
        prefetch_line(page.line((child & ((1 << TAG_BITS) - 1)) as u8));
    }

    #[inline(always)]
    pub(crate) fn find_path<N: Kernel>(&self, key: K::Encoded) -> OuterPath {
        let mut path = OuterPath {
            steps: [(0, 0); MOST_HEIGHT],
            page: 0,
        };
        let mut child = self.root;
        for level in 0..self.height {
            let node = self.inner.get(child);
            let index = node.route::<N>(key);
            path.steps[level] = (child, index);
            child = node.child(index);
        }
        self.prefetch_page(child);
        path.page = untag(child);
        path
    }

    /// Keeps the parent's tag of a page in step with the page's root.
    pub(crate) fn retag(&mut self, path: &OuterPath) {
        let child = tag(path.page, self.pages.get(path.page).head.root);
        if self.height == 0 {
            self.root = child;
        } else {
            let (node, index) = path.steps[self.height - 1];
            self.inner.get_mut(node).set_child(index, child);
        }
    }

    /// Makes room in a full page: packs its lines closer together or cuts it in two.
    #[inline(never)]
    fn make_room(&mut self, path: &OuterPath, key: K::Encoded, may_repack: bool) {
        let capacity = Page::<K::Encoded, V>::capacity::<S>();
        let old = self.pages.get(path.page).head;
        let mut pairs = Vec::with_capacity(usize::from(old.keys));
        self.pages.get(path.page).pairs(&mut pairs);
        if may_repack && pairs.len() < capacity * 7 / 8 {
            self.replace_page(path.page, &pairs);
            self.retag(path);
            return;
        }
        // Ascending inserts leave full pages behind.
        let appends = old.next == NONE && pairs.last().is_some_and(|last| last.0 < key);
        let cut = if appends {
            pairs.len() * 15 / 16
        } else {
            pairs.len() / 2
        };
        let mut right = Page::build::<S>(&pairs[cut..], V::default());
        (right.head.previous, right.head.next) = (path.page, old.next);
        let number = self.pages.allocate(&right);
        if old.next != NONE {
            self.pages.get_mut(old.next).head.previous = number;
        }
        self.replace_page(path.page, &pairs[..cut]);
        self.pages.get_mut(path.page).head.next = number;
        self.retag(path);
        self.insert_child(path, pairs[cut - 1].0, tag(number, right.head.root));
    }

    /// Gives a page other pairs, and the same neighbours.
    pub(crate) fn replace_page(&mut self, page: u32, pairs: &[(K::Encoded, V)]) {
        let old = self.pages.get(page).head;
        let mut new = Page::build::<S>(pairs, V::default());
        (new.head.previous, new.head.next) = (old.previous, old.next);
        *self.pages.get_mut(page) = new;
    }

    /// Hangs `child` behind the path's page.
    fn insert_child(&mut self, path: &OuterPath, mut key: K::Encoded, mut child: u32) {
        for level in (0..self.height).rev() {
            let (number, index) = path.steps[level];
            let node = self.inner.get(number);
            let (mut keys, mut children) = (node.keys(), node.children().to_vec());
            keys.insert(index, key);
            children.insert(index + 1, child);
            if children.len() <= S::FAN_OUT {
                *self.inner.get_mut(number) = Inner::new(&keys, &children);
                return;
            }
            // Ascending inserts leave nearly full nodes behind, and never one without separators.
            let cut = if index + 1 == keys.len() {
                (keys.len() * 15 / 16).min(keys.len() - 2)
            } else {
                keys.len() / 2
            };
            key = keys[cut];
            let right = Inner::new(&keys[cut + 1..], &children[cut + 1..]);
            *self.inner.get_mut(number) = Inner::new(&keys[..cut], &children[..=cut]);
            child = self.inner.allocate(&right);
        }
        let root = Inner::new(&[key], &[self.root, child]);
        self.root = self.inner.allocate(&root);
        self.height += 1;
    }
}

/// `get`, for a kernel.
pub(crate) struct Get<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    pub(crate) &'a Matryoshka<K, V, S>,
    pub(crate) K::Encoded,
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for Get<'_, K, V, S> {
    type Output = Option<V>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<V> {
        let Self(tree, key) = self;
        let page = tree.pages.get(tree.find_page::<N>(key));
        let path = page.path::<N, S>(key);
        let slot = page.leaf_of(&path);
        let values = page.values(slot);
        prefetch_line(values.as_ptr());
        let line = page.line(slot);
        let position = line.leaf_rank::<N>(key);
        (line.leaf_keys().get(position) == Some(&key)).then(|| values[position])
    }
}

/// Where a key is or belongs.
pub(crate) struct Place {
    pub(crate) page: u32,
    pub(crate) slot: u8,
    pub(crate) position: usize,
}

/// Finds a key's place.
pub(crate) struct Locate<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    pub(crate) &'a Matryoshka<K, V, S>,
    pub(crate) K::Encoded,
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for Locate<'_, K, V, S> {
    type Output = Place;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Place {
        let Self(tree, key) = self;
        let number = tree.find_page::<N>(key);
        let page = tree.pages.get(number);
        let slot = page.leaf_of(&page.path::<N, S>(key));
        Place {
            page: number,
            slot,
            position: page.line(slot).leaf_rank::<N>(key),
        }
    }
}

/// `insert`, for a kernel.
pub(crate) struct Insert<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    pub(crate) &'a mut Matryoshka<K, V, S>,
    pub(crate) K::Encoded,
    pub(crate) V,
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for Insert<'_, K, V, S> {
    type Output = Option<V>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<V> {
        let Self(tree, key, value) = self;
        let mut may_repack = true;
        loop {
            let outer = tree.find_path::<N>(key);
            let page = tree.pages.get_mut(outer.page);
            if S::FENCES && page.head.stale {
                page.renew_fences::<S>();
            }
            let root = page.head.root;
            let path: Path = page.path::<N, S>(key);
            let slot = page.leaf_of(&path);
            let line = page.line(slot);
            let position = line.leaf_rank::<N>(key);
            if line.leaf_keys().get(position) == Some(&key) {
                let place = &mut page.values_mut(slot)[position];
                return Some(std::mem::replace(place, value));
            }
            if page.insert::<S>(&path, position, key, value) {
                tree.len += 1;
                if page.head.root != root {
                    tree.retag(&outer);
                }
                return None;
            }
            tree.make_room(&outer, key, may_repack);
            may_repack = false;
        }
    }
}
