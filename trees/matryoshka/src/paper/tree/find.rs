//! The descent from the root to a page, and the lookups that end there.
//!
//! A lookup that waits for memory overlaps with the next only as far as the processor looks ahead,
//! a few hundred instructions: so a lookup should have few, and no branch that depends on its key.
//! A search by order therefore looks into the leaf that is responsible for the key, and only when
//! nothing is found in its page is repeated as a scan, which records its path.

use hedgerow_simd::{Kernel, Task};

use crate::node_key::MapKey;
use crate::paper::node::form::{KeyPosition, PageForm};
use crate::paper::strategy::Strategy;
use crate::paper::tree::{MOST_HEIGHT, Matryoshka, OuterPath, TAG_MASK, untag};

impl<K, V, S> Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    /// The page that is responsible for `key`.
    #[inline(always)]
    pub(crate) fn find_page<N: Kernel>(&self, key: K::NodeKey) -> u32 {
        let mut child = self.root;
        for level in 0..self.height {
            let node = self.node(level, child);
            child = node.child(node.route::<N, S>(key));
        }
        self.prefetch_tagged(child);
        untag(child)
    }

    /// Prefetches the lines of a page that a search reads first.
    #[inline(always)]
    pub(crate) fn prefetch_page(&self, child: u32) {
        let page = self.pages.get(untag(child));
        page.prefetch(child & TAG_MASK);
    }

    /// As `prefetch_page`, for a page that is read next: where the tag says nothing, what is asked
    /// for would be no more than what that reads first.
    #[inline(always)]
    fn prefetch_tagged(&self, child: u32) {
        if <S::Page<K::NodeKey, V, S> as PageForm<K::NodeKey, V, S>>::TAGGED {
            self.prefetch_page(child);
        }
    }

    #[inline(always)]
    pub(crate) fn find_path<N: Kernel>(&self, key: K::NodeKey) -> OuterPath {
        let mut path = OuterPath {
            steps: [(0, 0); MOST_HEIGHT],
            page: 0,
        };
        let mut child = self.root;
        for level in 0..self.height {
            let node = self.node(level, child);
            let index = node.route::<N, S>(key);
            path.steps[level] = (child, index as u32);
            child = node.child(index);
        }
        self.prefetch_tagged(child);
        path.page = untag(child);
        path
    }

    /// The way from the root to the page of `key`, for the few changes that go beyond that page:
    /// the others do not note where they came by.
    #[cold]
    #[inline(never)]
    pub(crate) fn path_of(&self, key: K::NodeKey) -> OuterPath {
        self.level.run(FindPath(self, key))
    }
}

/// `get`, for a kernel.
pub(crate) struct Get<'a, K: MapKey, V: Copy + Default, S: Strategy>(
    pub(crate) &'a Matryoshka<K, V, S>,
    pub(crate) K::NodeKey,
);

impl<K: MapKey, V: Copy + Default, S: Strategy> Task for Get<'_, K, V, S> {
    type Output = Option<V>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<V> {
        let Self(tree, key) = self;
        tree.pages.get(tree.find_page::<N>(key)).get::<N>(key)
    }
}

/// `find_path`, for a kernel.
struct FindPath<'a, K: MapKey, V: Copy + Default, S: Strategy>(&'a Matryoshka<K, V, S>, K::NodeKey);

impl<K: MapKey, V: Copy + Default, S: Strategy> Task for FindPath<'_, K, V, S> {
    type Output = OuterPath;

    #[inline(always)]
    fn run<N: Kernel>(self) -> OuterPath {
        self.0.find_path::<N>(self.1)
    }
}

/// The greatest pair at or below a key, for a kernel; `None` when it is in another leaf than the
/// key would be, or nowhere.
pub(crate) struct Floor<'a, K: MapKey, V: Copy + Default, S: Strategy>(
    pub(crate) &'a Matryoshka<K, V, S>,
    pub(crate) K::NodeKey,
);

impl<K: MapKey, V: Copy + Default, S: Strategy> Task for Floor<'_, K, V, S> {
    type Output = Option<(K::NodeKey, V)>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<(K::NodeKey, V)> {
        let Self(tree, key) = self;
        tree.pages.get(tree.find_page::<N>(key)).floor::<N>(key)
    }
}

/// As `Floor`, for the least pair at or above a key.
pub(crate) struct Ceiling<'a, K: MapKey, V: Copy + Default, S: Strategy>(
    pub(crate) &'a Matryoshka<K, V, S>,
    pub(crate) K::NodeKey,
);

impl<K: MapKey, V: Copy + Default, S: Strategy> Task for Ceiling<'_, K, V, S> {
    type Output = Option<(K::NodeKey, V)>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<(K::NodeKey, V)> {
        let Self(tree, key) = self;
        tree.pages.get(tree.find_page::<N>(key)).ceiling::<N>(key)
    }
}

/// Finds where a key is or would be.
pub(crate) struct Locate<'a, K: MapKey, V: Copy + Default, S: Strategy>(
    pub(crate) &'a Matryoshka<K, V, S>,
    pub(crate) K::NodeKey,
);

impl<K: MapKey, V: Copy + Default, S: Strategy> Task for Locate<'_, K, V, S> {
    type Output = (OuterPath, KeyPosition);

    #[inline(always)]
    fn run<N: Kernel>(self) -> (OuterPath, KeyPosition) {
        let Self(tree, key) = self;
        let path = tree.find_path::<N>(key);
        (path, tree.pages.get(path.page).find::<N>(key))
    }
}
