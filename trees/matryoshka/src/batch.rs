//! Batches: lookups, inserts and removals of many keys, step by step side by side.
//!
//! One lookup waits for a line of memory at each step. A group takes each step for all its keys
//! before the next, and asks for what the next step reads: the misses of a step overlap.
//!
//! A batch of changes is sorted, and each group of it takes one of two ways. Keys *all over* the
//! tree walk side by side, as lookups do, to their pages, and are changed there. *Near* keys, which
//! few pages hold, follow one another: only the first descends, the page and its upper bound are
//! kept, and the next page is the next child of the same parent for 320 of 321 (the report's
//! "sibling advance"); while a page is worked on, the next is prefetched. How it went with one
//! group decides for the next. Once pages are cut, levelled or joined, the other keys of the group
//! begin at the root.

use hedgerow_index::{Direction, IntIndex, IntKey};
use hedgerow_simd::{Kernel, Task};

use crate::form::{Inserted, PageForm};
use crate::lane::Lane;
use crate::strategy::Strategy;
use crate::tree::{Matryoshka, OuterPath, untag};

/// Keys that go side by side: more than a core can have under way at a time, so that it always
/// has something to wait for.
const GROUP: usize = 32;

/// A group of near keys descends at most so often.
const MOST_DESCENTS: usize = 4;

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
        let mut near = false;
        for group in pairs.chunks(GROUP) {
            near = level.run(InsertGroup(self, group, near));
        }
        self.len() - before
    }

    /// Removes all `keys`; returns how many were there. Sorts `keys`.
    pub fn remove_many(&mut self, keys: &mut [K]) -> usize {
        keys.sort_unstable_by_key(|key| key.encode());
        let before = self.len();
        let level = self.level;
        let mut near = false;
        for group in keys.chunks(GROUP) {
            near = level.run(RemoveGroup(self, group, near));
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

    /// The page of `key`, by way of the one before where that is near; counts what is not.
    #[inline(always)]
    fn seek<N: Kernel>(
        &self,
        cursor: Option<Cursor<K::Encoded>>,
        key: K::Encoded,
        descents: &mut usize,
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
        *descents += 1;
        let path = self.find_path::<N>(key);
        self.prefetch_next(&path);
        let bound = self.bound(&path);
        Cursor { path, bound }
    }

    /// Stores a pair in its page; false when there is no room.
    #[inline(always)]
    fn insert_in<N: Kernel>(&mut self, number: u32, key: K::Encoded, value: V) -> bool {
        let page = self.pages.get_mut(number);
        let before = page.tag();
        let inserted = page.insert::<N>(key, value);
        if page.tag() != before {
            self.retag(&self.find_path::<N>(key));
        }
        self.len += usize::from(matches!(inserted, Inserted::New));
        !matches!(inserted, Inserted::Full)
    }

    /// Removes a key from its page; whether pages were joined or levelled.
    #[inline(always)]
    fn remove_in<N: Kernel>(&mut self, number: u32, key: K::Encoded) -> bool {
        let page = self.pages.get_mut(number);
        let before = page.tag();
        if page.remove::<N>(key).is_none() {
            return false;
        }
        let low = page.key_count() < Self::CAPACITY / 4 && self.height > 0;
        let moved = page.tag() != before;
        self.len -= 1;
        if moved || low {
            let path = self.find_path::<N>(key);
            self.retag(&path);
            if low {
                self.rebalance(&path);
            }
        }
        low
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

/// Whether few pages hold these leaves, which are in key order.
fn are_near(leaves: &[(u32, u8)]) -> bool {
    let crossings = leaves.windows(2).filter(|pair| pair[0].0 != pair[1].0);
    crossings.count() <= MOST_DESCENTS
}

/// A group of pairs in key order, and whether they are near one another, to all appearances; says
/// the same of the next group.
struct InsertGroup<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    &'a mut Matryoshka<K, V, S>,
    &'a [(K, V)],
    bool,
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for InsertGroup<'_, K, V, S> {
    type Output = bool;

    #[inline(always)]
    fn run<N: Kernel>(self) -> bool {
        let Self(tree, pairs, near) = self;
        if near {
            let (mut cursor, mut descents) = (None, 0);
            for &(key, value) in pairs {
                let key = key.encode();
                let here = tree.seek::<N>(cursor.take(), key, &mut descents);
                if matches!(tree.insert_at::<N>(&here.path, key, value), Inserted::Full) {
                    tree.insert_from_root::<N>(key, value);
                } else {
                    cursor = Some(here);
                }
            }
            return descents <= MOST_DESCENTS;
        }
        let leaves = tree.walk::<N>(pairs.iter().map(|pair| pair.0.encode()));
        let mut void = false;
        for (&(key, value), (page, _)) in pairs.iter().zip(leaves) {
            let key = key.encode();
            if void || !tree.insert_in::<N>(page, key, value) {
                tree.insert_from_root::<N>(key, value);
                void = true;
            }
        }
        are_near(&leaves[..pairs.len()])
    }
}

/// As `InsertGroup`.
struct RemoveGroup<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    &'a mut Matryoshka<K, V, S>,
    &'a [K],
    bool,
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for RemoveGroup<'_, K, V, S> {
    type Output = bool;

    #[inline(always)]
    fn run<N: Kernel>(self) -> bool {
        let Self(tree, keys, near) = self;
        let encoded = keys.iter().map(|key| key.encode());
        if near {
            let (mut cursor, mut descents) = (None, 0);
            for key in encoded {
                let here = tree.seek::<N>(cursor.take(), key, &mut descents);
                let (_, joined) = tree.remove_at::<N>(&here.path, key);
                cursor = (!joined).then_some(here);
            }
            return descents <= MOST_DESCENTS;
        }
        let leaves = tree.walk::<N>(encoded.clone());
        let mut void = false;
        for (key, (page, _)) in encoded.zip(leaves) {
            if void {
                let path = tree.find_path::<N>(key);
                tree.remove_at::<N>(&path, key);
            } else {
                void = tree.remove_in::<N>(page, key);
            }
        }
        are_near(&leaves[..keys.len()])
    }
}
