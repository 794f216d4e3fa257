//! Batches: lookups, inserts and removals of many keys, step by step side by side.
//!
//! One lookup waits for a line of memory at each step. A group takes each step for all its keys
//! before the next, and prefetches what the next step reads: the misses of a step overlap.
//!
//! Changes take one of two ways. Keys *all over* the tree walk side by side, as lookups do, to
//! their pages, and are changed there, in the order in which they came: sorting them would cost
//! more than it brings. *Near* keys, which few pages hold, are sorted and follow one another: only
//! the first descends, the page and its upper bound are kept, and the next page is the next child
//! of the same parent for 511 of 512 (the report's "sibling advance"); while a page is worked on,
//! the next is prefetched. How it went with one group decides for the next. Where pages are split,
//! rebalanced or merged, the keys of the group that were descending to them restart at the root.

use hedgerow_index::{Direction, IntIndex};
use hedgerow_simd::{Kernel, Task};

use crate::node_key::{KeyWidth, MapKey};
use crate::paper::node::form::{Inserted, PageForm};
use crate::paper::strategy::Strategy;
use crate::paper::tree::{ChangedPages, Matryoshka, OuterPath, TAG_MASK, untag};

/// Keys that go side by side: more than a core can have under way at a time, so that it always
/// has something to wait for.
const GROUP: usize = 32;

/// A group of near keys descends at most so often.
const MOST_DESCENTS: usize = 4;

/// A group whose pages fall into fewer of 64 classes is near: 32 pages of a large tree fall into
/// 25.
const FEW_CLASSES: u32 = 8;

/// No page: the search for the key restarts at the root.
const NO_PAGE: u32 = u32::MAX;

/// The page of a key, and the path to it.
struct BatchPage<'a, P> {
    page: &'a P,
    /// The page's number.
    number: u32,
    /// The page's leaf.
    leaf: u8,
    /// The node above the page, if there is one, and which of its children the page is.
    parent: u32,
    index: u32,
}

impl<P> Clone for BatchPage<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for BatchPage<'_, P> {}

/// A place in a tree of these keys and values.
type BatchPageOf<'a, K, V, S> = BatchPage<'a, <S as Strategy>::Page<<K as MapKey>::NodeKey, V, S>>;

/// The page of each key of a group; references behind the last key mean nothing.
type BatchPages<'a, L, V, S> = [BatchPage<'a, <S as Strategy>::Page<L, V, S>>; GROUP];

/// A page that a batch works on, and the greatest key that belongs there.
struct Cursor<L> {
    path: OuterPath,
    bound: L,
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    /// Calls `read(i, value)` for each `keys[i]`, in order.
    pub(crate) fn look_up(&self, keys: &[K], mut read: impl FnMut(usize, Option<V>)) {
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let read = |index, value| read(group * GROUP + index, value);
            self.level.run(LookUp(self, keys, read));
        }
    }

    /// Stores all `pairs`; returns how many keys are new. Of pairs with one key the last wins.
    /// Leaves `pairs` in any order.
    pub fn insert_many(&mut self, pairs: &mut [(K, V)]) -> usize {
        let before = self.len();
        // A stable sort: of equal keys the last comes last.
        self.change(pairs, |pairs| {
            pairs.sort_by_key(|pair| pair.0.to_node_key())
        });
        self.len() - before
    }

    /// Removes all `keys`; returns how many were there. Leaves `keys` in any order.
    pub fn remove_many(&mut self, keys: &mut [K]) -> usize {
        let before = self.len();
        self.change(keys, |keys| {
            keys.sort_unstable_by_key(|key| key.to_node_key())
        });
        before - self.len()
    }

    /// Makes all changes, group by group.
    fn change<E: BatchChange<K, V, S>>(&mut self, mut changes: &mut [E], sort: impl Fn(&mut [E])) {
        let mut sorted = changes.is_sorted_by_key(|change| change.key());
        // Several keys to a page, once they are in order.
        if !sorted && (!S::PIPELINED || changes.len() > self.pages.live()) {
            sort(changes);
            sorted = true;
        }
        let (level, mut near) = (self.level, !S::PIPELINED);
        while !changes.is_empty() {
            if near && !sorted {
                sort(changes);
                sorted = true;
            }
            let (group, rest) = changes.split_at_mut(changes.len().min(GROUP));
            near = level.run(Group(self, group, near)) || !S::PIPELINED;
            changes = rest;
        }
    }

    /// Takes all keys to their leaves, step by step.
    #[inline(always)]
    fn walk<N: Kernel>(
        &self,
        keys: impl ExactSizeIterator<Item = K::NodeKey> + Clone,
    ) -> BatchPages<'_, K::NodeKey, V, S> {
        // Above pages, any page stands in for those that the walk will find: the first is there.
        let number = if self.height == 0 {
            untag(self.root)
        } else {
            0
        };
        let mut references = [BatchPage {
            page: self.pages.get(number),
            number,
            leaf: 0,
            parent: NO_PAGE,
            index: 0,
        }; GROUP];
        if self.height > 0 {
            self.walk_to_pages::<N>(keys.clone(), &mut references);
        }
        for step in 0..<S::Page<K::NodeKey, V, S> as PageForm<K::NodeKey, V, S>>::STEPS {
            for (place, key) in references.iter_mut().zip(keys.clone()) {
                let leaf = if step == 0 {
                    place.page.enter()
                } else {
                    place.leaf
                };
                place.leaf = place.page.step::<N>(step, leaf, key);
            }
        }
        references
    }

    /// Takes all keys to their pages, in a tree that has nodes above pages.
    #[inline(always)]
    fn walk_to_pages<'a, N: Kernel>(
        &'a self,
        keys: impl ExactSizeIterator<Item = K::NodeKey> + Clone,
        references: &mut BatchPages<'a, K::NodeKey, V, S>,
    ) {
        // References, so that a number is taken apart once and not at each step.
        let mut nodes = [(self.node(0, self.root), self.root); GROUP];
        for level in 1..self.height {
            for (node, key) in nodes.iter_mut().zip(keys.clone()) {
                let child = node.0.child(node.0.route::<N, S>(key));
                *node = (self.node(level, child), child);
                node.0.prefetch::<S>();
            }
        }
        // Right above pages there are many nodes, and their separators are waited for together,
        // too; a root stays in the first-level cache.
        let apart = self.height > 1;
        let mut lines = [0; GROUP];
        if apart {
            for ((line, node), key) in lines.iter_mut().zip(&nodes).zip(keys.clone()) {
                *line = node.0.line_of::<N, S>(key);
            }
        }
        for (at, key) in keys.enumerate() {
            let (node, parent) = nodes[at];
            let index = if apart {
                node.route_in::<N>(lines[at], key)
            } else {
                node.route::<N, S>(key)
            };
            let child = node.child(index);
            let number = untag(child);
            let page = self.pages.get(number);
            page.prefetch(child & TAG_MASK);
            references[at] = BatchPage {
                page,
                number,
                leaf: 0,
                parent,
                index: index as u32,
            };
        }
    }

    /// The page of `key`, by way of the one before where that is near; counts what is not.
    #[inline(always)]
    fn seek<N: Kernel>(
        &self,
        cursor: Option<Cursor<K::NodeKey>>,
        key: K::NodeKey,
        descents: &mut usize,
    ) -> Cursor<K::NodeKey> {
        if let Some(mut cursor) = cursor {
            if key <= cursor.bound {
                return cursor;
            }
            if S::PIPELINED
                && self.sibling(&cursor.path, Direction::Forward).is_some()
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

    /// The pages beside a place's, under the same parent.
    #[inline(always)]
    fn neighbours(
        &self,
        place: &BatchPage<'_, S::Page<K::NodeKey, V, S>>,
    ) -> impl Iterator<Item = Option<u32>> {
        let level = self
            .height
            .checked_sub(1)
            .filter(|_| place.parent != NO_PAGE);
        let node = level.map(|level| self.node(level, place.parent));
        let indices = [place.index.wrapping_sub(1), place.index + 1];
        indices.into_iter().map(move |index| {
            let node = node.filter(|node| index as usize <= node.count())?;
            Some(node.child(index as usize))
        })
    }

    #[inline(always)]
    fn prefetch_next(&self, path: &OuterPath) {
        if !S::PIPELINED {
            return;
        }
        if let Some(next) = self.sibling(path, Direction::Forward) {
            self.prefetch_page(next);
        }
    }

    /// A bound of the path's page: at or above all of its keys, below all behind it.
    #[inline(always)]
    fn bound(&self, path: &OuterPath) -> K::NodeKey {
        for level in (0..self.height).rev() {
            let (number, index) = path.steps[level];
            let node = self.node(level, number);
            if (index as usize) < node.count() {
                return node.key(index as usize);
            }
        }
        K::NodeKey::MAX
    }
}

struct LookUp<'a, K: MapKey, V: Copy + Default, S: Strategy, R>(
    &'a Matryoshka<K, V, S>,
    &'a [K],
    R,
);

impl<K, V, S, R> Task for LookUp<'_, K, V, S, R>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
    R: FnMut(usize, Option<V>),
{
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(tree, keys, mut read) = self;
        let references = tree.walk::<N>(keys.iter().map(|key| key.to_node_key()));
        for (index, (place, key)) in references.iter().zip(keys).enumerate() {
            read(index, place.page.get_in::<N>(place.leaf, key.to_node_key()));
        }
    }
}

/// Whether these are few pages, as far as their classes tell.
#[inline(always)]
fn are_near(pages: &[u32]) -> bool {
    let classes = pages
        .iter()
        .fold(0_u64, |seen, page| seen | 1 << (page & 63));
    classes.count_ones() < FEW_CLASSES
}

/// One change of a batch.
trait BatchChange<K: MapKey, V: Copy + Default, S: Strategy>: Copy {
    /// The key that it is of.
    fn key(&self) -> K::NodeKey;

    /// Prefetches what such changes read beyond the leaves of their keys.
    #[inline(always)]
    fn prefetch(_tree: &Matryoshka<K, V, S>, _places: &[BatchPageOf<'_, K, V, S>]) {}

    /// Makes it in the page that is responsible for the key, and more where there is too much or
    /// too little in it; tells which pages are then others.
    fn at_page<N: Kernel>(
        self,
        tree: &mut Matryoshka<K, V, S>,
        page: u32,
        moved: impl FnMut(ChangedPages),
    );

    /// Makes it from the root on.
    fn descending<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, moved: impl FnMut(ChangedPages));

    /// Makes it at the end of a path; whether the path still holds.
    fn at_path<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, path: &OuterPath) -> bool;
}

/// An insert.
impl<K: MapKey, V: Copy + Default, S: Strategy> BatchChange<K, V, S> for (K, V) {
    #[inline(always)]
    fn key(&self) -> K::NodeKey {
        self.0.to_node_key()
    }

    /// A page that overflows is rebalanced with the emptier of its neighbours, all of which is then
    /// read: two steps, for what the pages of the whole group need.
    #[inline(always)]
    fn prefetch(tree: &Matryoshka<K, V, S>, references: &[BatchPageOf<'_, K, V, S>]) {
        let (mut full, mut count) = ([0; GROUP], 0);
        for (at, place) in references.iter().enumerate() {
            if place.page.prefetch_insert(place.leaf) {
                full[count] = at;
                count += 1;
                tree.neighbours(place)
                    .flatten()
                    .for_each(|page| tree.prefetch_page(page));
            }
        }
        for &at in &full[..count] {
            let neighbours = tree.neighbours(&references[at]).flatten();
            let pages = neighbours.map(|page| tree.pages.get(untag(page)));
            if let Some(emptier) = pages.min_by_key(|page| page.key_count()) {
                emptier.prefetch_scan();
            }
        }
    }

    #[inline(always)]
    fn at_page<N: Kernel>(
        self,
        tree: &mut Matryoshka<K, V, S>,
        page: u32,
        moved: impl FnMut(ChangedPages),
    ) {
        let key = self.0.to_node_key();
        let page = tree.pages.get_mut(page);
        let before = page.tag();
        let inserted = page.insert::<N>(key, self.1);
        if page.tag() != before {
            tree.retag(&tree.path_of(key));
        }
        match inserted {
            Inserted::New => tree.len += 1,
            Inserted::Replaced(_) => {}
            Inserted::Full => drop(tree.insert_from_root::<N>(key, self.1, moved)),
        }
    }

    #[inline(always)]
    fn descending<N: Kernel>(
        self,
        tree: &mut Matryoshka<K, V, S>,
        moved: impl FnMut(ChangedPages),
    ) {
        tree.insert_from_root::<N>(self.0.to_node_key(), self.1, moved);
    }

    #[inline(always)]
    fn at_path<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, path: &OuterPath) -> bool {
        let holds = !matches!(
            tree.insert_at::<N>(path, self.0.to_node_key(), self.1),
            Inserted::Full
        );
        if !holds {
            tree.insert_from_root::<N>(self.0.to_node_key(), self.1, |_| ());
        }
        holds
    }
}

/// A removal.
impl<K: MapKey, V: Copy + Default, S: Strategy> BatchChange<K, V, S> for K {
    #[inline(always)]
    fn key(&self) -> K::NodeKey {
        self.to_node_key()
    }

    #[inline(always)]
    fn at_page<N: Kernel>(
        self,
        tree: &mut Matryoshka<K, V, S>,
        page: u32,
        moved: impl FnMut(ChangedPages),
    ) {
        tree.remove_in::<N>(page, self.to_node_key(), moved);
    }

    #[inline(always)]
    fn descending<N: Kernel>(
        self,
        tree: &mut Matryoshka<K, V, S>,
        moved: impl FnMut(ChangedPages),
    ) {
        let page = tree.find_page::<N>(self.to_node_key());
        tree.remove_in::<N>(page, self.to_node_key(), moved);
    }

    #[inline(always)]
    fn at_path<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, path: &OuterPath) -> bool {
        let (_, moved) = tree.remove_at::<N>(path, self.to_node_key());
        matches!(moved, ChangedPages::None)
    }
}

/// Changes, and whether they are near one another, to all appearances; says the same of the next
/// group. Near ones are in key order.
struct Group<'a, K: MapKey, V: Copy + Default, S: Strategy, E>(
    &'a mut Matryoshka<K, V, S>,
    &'a [E],
    bool,
);

impl<K, V, S, E> Task for Group<'_, K, V, S, E>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
    E: BatchChange<K, V, S>,
{
    type Output = bool;

    #[inline(always)]
    fn run<N: Kernel>(self) -> bool {
        let Self(tree, changes, near) = self;
        if near {
            let (mut cursor, mut descents) = (None, 0);
            for &change in changes {
                let here = tree.seek::<N>(cursor.take(), change.key(), &mut descents);
                cursor = change.at_path::<N>(tree, &here.path).then_some(here);
            }
            return descents <= MOST_DESCENTS;
        }
        let references = tree.walk::<N>(changes.iter().map(|change| change.key()));
        E::prefetch(tree, &references[..changes.len()]);
        let mut pages = references.map(|place| place.number);
        let near = are_near(&pages[..changes.len()]);
        for (at, &change) in changes.iter().enumerate() {
            let page = pages[at];
            let rest = &mut pages[at + 1..];
            if page == NO_PAGE {
                change.descending::<N>(tree, |moved| restart_those_in(rest, moved));
            } else {
                change.at_page::<N>(tree, page, |moved| restart_those_in(rest, moved));
            }
        }
        near
    }
}

/// Makes keys that were descending to changed pages restart at the root.
#[inline(never)]
fn restart_those_in(pages: &mut [u32], moved: ChangedPages) {
    for page in pages {
        let gone = match moved {
            ChangedPages::None => false,
            ChangedPages::Pages(pages) => pages.contains(page),
            ChangedPages::Any => true,
        };
        if gone {
            *page = NO_PAGE;
        }
    }
}
