//! Batches: lookups, inserts and removals of many keys, step by step side by side.
//!
//! One lookup waits for a line of memory at each step. A group takes each step for all its keys
//! before the next, and asks for what the next step reads: the misses of a step overlap. A batch
//! of changes is sorted; each group of it first takes these steps, which brings the lines that it
//! changes, and then is applied. Of keys next to one another only the first descends: the page
//! and its upper bound are kept, and the next page is the next child of the same parent for 320
//! of 321 (the report's "sibling advance"); while a page is worked on, the next is prefetched.

use hedgerow_index::{Direction, IntIndex, IntKey};
use hedgerow_simd::{Kernel, Task};

use crate::form::{Inserted, PageForm};
use crate::lane::Lane;
use crate::strategy::Strategy;
use crate::tree::{Matryoshka, OuterPath, untag};

/// Keys that go side by side: more than a core can have under way at a time, so that it always
/// has something to wait for.
const GROUP: usize = 32;

/// A page that a batch works on, and the greatest key that belongs there.
struct Cursor<L> {
    path: OuterPath,
    bound: L,
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    /// Calls `read(i, value)` for each `keys[i]`, in order.
    pub(crate) fn look_up(&self, keys: &[K], mut read: impl FnMut(usize, Option<V>)) {
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let mut values = [None; GROUP];
            self.level.run(LookUp(self, keys, &mut values));
            for (index, &value) in values[..keys.len()].iter().enumerate() {
                read(group * GROUP + index, value);
            }
        }
    }

    /// Stores all `pairs`; returns how many keys are new. Of pairs with one key the last wins.
    /// Sorts `pairs` by key.
    pub fn insert_many(&mut self, pairs: &mut [(K, V)]) -> usize {
        // A stable sort: of equal keys the last comes last.
        pairs.sort_by_key(|pair| pair.0.encode());
        let before = self.len();
        let level = self.level;
        for group in pairs.chunks(GROUP) {
            let keys = group.iter().map(|pair| pair.0.encode());
            level.run(InsertGroup(self, keys, group));
        }
        self.len() - before
    }

    /// Removes all `keys`; returns how many were there. Sorts `keys`.
    pub fn remove_many(&mut self, keys: &mut [K]) -> usize {
        keys.sort_unstable_by_key(|key| key.encode());
        let before = self.len();
        let level = self.level;
        for group in keys.chunks(GROUP) {
            level.run(RemoveGroup(self, group));
        }
        before - self.len()
    }

    /// Takes all keys to their leaves, step by step; page and leaf of each.
    #[inline(always)]
    fn walk<N: Kernel>(
        &self,
        keys: impl ExactSizeIterator<Item = K::Encoded> + Clone,
    ) -> [(u32, u8); GROUP] {
        let mut at = [self.root; GROUP];
        for level in 0..self.height {
            for (at, key) in at.iter_mut().zip(keys.clone()) {
                let node = self.node(level, *at);
                *at = node.child(node.route::<N, S>(key));
                if level + 1 == self.height {
                    self.prefetch_page(*at);
                } else {
                    self.node(level + 1, *at).prefetch::<S>();
                }
            }
        }
        let count = keys.len();
        let mut leaves = [(0, 0); GROUP];
        for (leaf, &at) in leaves.iter_mut().zip(&at[..count]) {
            let page = untag(at);
            *leaf = (page, self.pages.get(page).enter());
        }
        for step in 0..<S::Page<K::Encoded, V, S> as PageForm<K::Encoded, V, S>>::STEPS {
            for ((page, leaf), key) in leaves.iter_mut().zip(keys.clone()) {
                *leaf = self.pages.get(*page).step::<N>(step, *leaf, key);
            }
        }
        leaves
    }

    /// The page of `key`, by way of the one before where that is near.
    #[inline(always)]
    fn seek<N: Kernel>(
        &self,
        cursor: Option<Cursor<K::Encoded>>,
        key: K::Encoded,
    ) -> Cursor<K::Encoded> {
        if let Some(mut cursor) = cursor {
            if key <= cursor.bound {
                return cursor;
            }
            if self.sibling(&cursor.path, Direction::Forward).is_some()
                && self.advance(&mut cursor.path, Direction::Forward)
            {
                cursor.bound = self.bound(&cursor.path);
                if key <= cursor.bound {
                    self.prefetch_next(&cursor.path);
                    return cursor;
                }
            }
        }
        let path = self.find_path::<N>(key);
        self.prefetch_next(&path);
        let bound = self.bound(&path);
        Cursor { path, bound }
    }

    #[inline(always)]
    fn prefetch_next(&self, path: &OuterPath) {
        if let Some(next) = self.sibling(path, Direction::Forward) {
            self.prefetch_page(next);
        }
    }

    /// A bound of the path's page: at or above all of its keys, below all behind it.
    #[inline(always)]
    fn bound(&self, path: &OuterPath) -> K::Encoded {
        for level in (0..self.height).rev() {
            let (number, index) = path.steps[level];
            let node = self.node(level, number);
            if (index as usize) < node.count() {
                return node.key(index as usize);
            }
        }
        K::Encoded::MAX
    }
}

struct LookUp<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    &'a Matryoshka<K, V, S>,
    &'a [K],
    &'a mut [Option<V>; GROUP],
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for LookUp<'_, K, V, S> {
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(tree, keys, values) = self;
        let leaves = tree.walk::<N>(keys.iter().map(|key| key.encode()));
        for ((value, &(page, leaf)), key) in values.iter_mut().zip(&leaves).zip(keys) {
            let page = tree.pages.get(page);
            let spot = page.find_in::<N>(leaf, key.encode());
            *value = spot.found.then(|| page.values(leaf)[spot.position]);
        }
    }
}

/// A group of pairs in key order, and their keys.
struct InsertGroup<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy, I>(
    &'a mut Matryoshka<K, V, S>,
    I,
    &'a [(K, V)],
);

impl<K, V, S, I> Task for InsertGroup<'_, K, V, S, I>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
    I: ExactSizeIterator<Item = K::Encoded> + Clone,
{
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(tree, keys, pairs) = self;
        tree.walk::<N>(keys);
        let mut cursor = None;
        for &(key, value) in pairs {
            let key = key.encode();
            let here = tree.seek::<N>(cursor.take(), key);
            match tree.insert_at::<N>(&here.path, key, value) {
                // Pages were cut or levelled: the path is void.
                Inserted::Full => {
                    tree.insert_from_root::<N>(key, value);
                }
                Inserted::New | Inserted::Replaced(_) => cursor = Some(here),
            }
        }
    }
}

struct RemoveGroup<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    &'a mut Matryoshka<K, V, S>,
    &'a [K],
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for RemoveGroup<'_, K, V, S> {
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(tree, keys) = self;
        tree.walk::<N>(keys.iter().map(|key| key.encode()));
        let mut cursor = None;
        for key in keys {
            let key = key.encode();
            let here = tree.seek::<N>(cursor.take(), key);
            let (_, joined) = tree.remove_at::<N>(&here.path, key);
            if !joined {
                cursor = Some(here);
            }
        }
    }
}
