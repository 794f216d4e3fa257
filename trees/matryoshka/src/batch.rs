//! Batches: lookups, inserts and removals of many keys, step by step side by side.
//!
//! One lookup waits for a line of memory at each step. A group takes each step for all its keys
//! before the next, and asks for what the next step reads: the misses of a step overlap.
//!
//! Changes take one of two ways. Keys *all over* the tree walk side by side, as lookups do, to
//! their pages, and are changed there, in the order in which they came: sorting them would cost
//! more than it brings. *Near* keys, which few pages hold, are sorted and follow one another: only
//! the first descends, the page and its upper bound are kept, and the next page is the next child
//! of the same parent for 320 of 321 (the report's "sibling advance"); while a page is worked on,
//! the next is prefetched. How it went with one group decides for the next. Where pages are cut,
//! levelled or joined, the keys of the group that were on their way to them begin at the root.

use hedgerow_index::{Direction, IntIndex, IntKey};
use hedgerow_simd::{Kernel, Task};

use crate::form::{Inserted, PageForm};
use crate::lane::Lane;
use crate::strategy::Strategy;
use crate::tree::{Matryoshka, Moved, OuterPath, untag};

/// Keys that go side by side: more than a core can have under way at a time, so that it always
/// has something to wait for.
const GROUP: usize = 32;

/// A group of near keys descends at most so often.
const MOST_DESCENTS: usize = 4;

/// A group whose pages fall into fewer of 64 classes is near: 32 pages of a large tree fall into 25.
const FEW_CLASSES: u32 = 8;

/// No page: the key that was on its way there begins at the root.
const NOWHERE: u32 = u32::MAX;

/// Where a key of a group is on its way down.
#[derive(Clone, Copy)]
struct Place {
    /// The node or tagged page that it has reached; in the end a page, or [`NOWHERE`].
    page: u32,
    /// The page's leaf.
    leaf: u8,
    /// The node that led there, and the number of the child.
    parent: u32,
    index: u32,
}

impl Place {
    fn at(root: u32) -> Self {
        Self {
            page: root,
            leaf: 0,
            parent: NOWHERE,
            index: 0,
        }
    }
}

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
    /// Leaves `pairs` in any order.
    pub fn insert_many(&mut self, pairs: &mut [(K, V)]) -> usize {
        let before = self.len();
        // A stable sort: of equal keys the last comes last.
        self.change(pairs, |pairs| pairs.sort_by_key(|pair| pair.0.encode()));
        self.len() - before
    }

    /// Removes all `keys`; returns how many were there. Leaves `keys` in any order.
    pub fn remove_many(&mut self, keys: &mut [K]) -> usize {
        let before = self.len();
        self.change(keys, |keys| keys.sort_unstable_by_key(|key| key.encode()));
        before - self.len()
    }

    /// Makes all changes, group by group.
    fn change<E: Change<K, V, S>>(&mut self, mut changes: &mut [E], sort: impl Fn(&mut [E])) {
        let mut sorted = changes.is_sorted_by_key(|change| change.key());
        // Several keys to a page, once they are in order.
        if !sorted && changes.len() > self.pages.live() {
            sort(changes);
            sorted = true;
        }
        let (level, mut near) = (self.level, false);
        while !changes.is_empty() {
            if near && !sorted {
                sort(changes);
                sorted = true;
            }
            let (group, rest) = changes.split_at_mut(changes.len().min(GROUP));
            near = level.run(Group(self, group, near));
            changes = rest;
        }
    }

    /// Takes all keys to their leaves, step by step.
    #[inline(always)]
    fn walk<N: Kernel>(
        &self,
        keys: impl ExactSizeIterator<Item = K::Encoded> + Clone,
    ) -> [Place; GROUP] {
        let mut places = [Place::at(self.root); GROUP];
        let count = keys.len();
        for level in 0..self.height {
            let lowest = level + 1 == self.height;
            // The root stays in the first-level cache. Nodes right above pages often do not, and
            // then their separators are waited for together, too.
            let apart = lowest && level > 0;
            let mut lines = [0; GROUP];
            if apart {
                for ((line, place), key) in lines.iter_mut().zip(&places).zip(keys.clone()) {
                    *line = self.node(level, place.page).line_of::<N, S>(key);
                }
            }
            for ((place, &line), key) in places.iter_mut().zip(&lines).zip(keys.clone()) {
                let node = self.node(level, place.page);
                let index = if apart {
                    node.route_in::<N>(line, key)
                } else {
                    node.route::<N, S>(key)
                };
                (place.parent, place.index) = (place.page, index as u32);
                place.page = node.child(index);
                if lowest {
                    self.prefetch_page(place.page);
                } else {
                    self.node(level + 1, place.page).prefetch::<S>();
                }
            }
        }
        for place in &mut places[..count] {
            place.page = untag(place.page);
            place.leaf = self.pages.get(place.page).enter();
        }
        for step in 0..<S::Page<K::Encoded, V, S> as PageForm<K::Encoded, V, S>>::STEPS {
            for (place, key) in places.iter_mut().zip(keys.clone()) {
                place.leaf = self.pages.get(place.page).step::<N>(step, place.leaf, key);
            }
        }
        places
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

    /// The pages beside a place's, under the same parent.
    #[inline(always)]
    fn neighbours(&self, place: &Place) -> impl Iterator<Item = Option<u32>> {
        let level = self
            .height
            .checked_sub(1)
            .filter(|_| place.parent != NOWHERE);
        let node = level.map(|level| self.node(level, place.parent));
        let indices = [place.index.wrapping_sub(1), place.index + 1];
        indices.into_iter().map(move |index| {
            let node = node.filter(|node| index as usize <= node.count())?;
            Some(node.child(index as usize))
        })
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
        let places = tree.walk::<N>(keys.iter().map(|key| key.encode()));
        for ((value, place), key) in values.iter_mut().zip(&places).zip(keys) {
            let page = tree.pages.get(place.page);
            let spot = page.find_in::<N>(place.leaf, key.encode());
            *value = spot.found.then(|| page.values(place.leaf)[spot.position]);
        }
    }
}

/// Whether these places are in few pages, as far as the pages' classes tell.
#[inline(always)]
fn are_near(places: &[Place]) -> bool {
    let classes = places
        .iter()
        .fold(0_u64, |seen, place| seen | 1 << (place.page & 63));
    classes.count_ones() < FEW_CLASSES
}

/// One change of a batch.
trait Change<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>: Copy {
    /// The key that it is of.
    fn key(&self) -> K::Encoded;

    /// Asks for what such changes read beyond the leaves of their keys.
    #[inline(always)]
    fn prefetch(_tree: &Matryoshka<K, V, S>, _places: &[Place]) {}

    /// Makes it in the page that is responsible for the key, and more where there is too much or
    /// too little in it; tells which pages are then others.
    fn at_page<N: Kernel>(
        self,
        tree: &mut Matryoshka<K, V, S>,
        page: u32,
        moved: impl FnMut(Moved),
    );

    /// Makes it from the root on.
    fn descending<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, moved: impl FnMut(Moved));

    /// Makes it at the end of a path; whether the path still holds.
    fn at_path<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, path: &OuterPath) -> bool;
}

/// An insert.
impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Change<K, V, S> for (K, V) {
    #[inline(always)]
    fn key(&self) -> K::Encoded {
        self.0.encode()
    }

    /// A page that overflows is levelled with the emptier of its neighbours, all of which is then
    /// read: two steps, for what the pages of the whole group need.
    #[inline(always)]
    fn prefetch(tree: &Matryoshka<K, V, S>, places: &[Place]) {
        let (mut full, mut count) = ([0; GROUP], 0);
        for (at, place) in places.iter().enumerate() {
            if tree.pages.get(place.page).prefetch_insert(place.leaf) {
                full[count] = at;
                count += 1;
                tree.neighbours(place)
                    .flatten()
                    .for_each(|page| tree.prefetch_page(page));
            }
        }
        for &at in &full[..count] {
            let neighbours = tree.neighbours(&places[at]).flatten();
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
        moved: impl FnMut(Moved),
    ) {
        let key = self.0.encode();
        let page = tree.pages.get_mut(page);
        let before = page.tag();
        let inserted = page.insert::<N>(key, self.1);
        if page.tag() != before {
            tree.retag(&tree.find_path::<N>(key));
        }
        match inserted {
            Inserted::New => tree.len += 1,
            Inserted::Replaced(_) => {}
            Inserted::Full => drop(tree.insert_from_root::<N>(key, self.1, moved)),
        }
    }

    #[inline(always)]
    fn descending<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, moved: impl FnMut(Moved)) {
        tree.insert_from_root::<N>(self.0.encode(), self.1, moved);
    }

    #[inline(always)]
    fn at_path<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, path: &OuterPath) -> bool {
        let holds = !matches!(
            tree.insert_at::<N>(path, self.0.encode(), self.1),
            Inserted::Full
        );
        if !holds {
            tree.insert_from_root::<N>(self.0.encode(), self.1, |_| ());
        }
        holds
    }
}

/// A removal.
impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Change<K, V, S> for K {
    #[inline(always)]
    fn key(&self) -> K::Encoded {
        self.encode()
    }

    #[inline(always)]
    fn at_page<N: Kernel>(
        self,
        tree: &mut Matryoshka<K, V, S>,
        page: u32,
        mut moved: impl FnMut(Moved),
    ) {
        let page = tree.pages.get_mut(page);
        let before = page.tag();
        if page.remove::<N>(self.encode()).is_none() {
            return;
        }
        tree.len -= 1;
        let low = page.key_count() < Matryoshka::<K, V, S>::CAPACITY / 4 && tree.height > 0;
        if low || page.tag() != before {
            let path = tree.find_path::<N>(self.encode());
            tree.retag(&path);
            if low {
                moved(tree.rebalance(&path));
            }
        }
    }

    #[inline(always)]
    fn descending<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, mut moved: impl FnMut(Moved)) {
        let path = tree.find_path::<N>(self.encode());
        moved(tree.remove_at::<N>(&path, self.encode()).1);
    }

    #[inline(always)]
    fn at_path<N: Kernel>(self, tree: &mut Matryoshka<K, V, S>, path: &OuterPath) -> bool {
        let (_, moved) = tree.remove_at::<N>(path, self.encode());
        matches!(moved, Moved::None)
    }
}

/// Changes, and whether they are near one another, to all appearances; says the same of the next
/// group. Near ones are in key order.
struct Group<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy, E>(
    &'a mut Matryoshka<K, V, S>,
    &'a [E],
    bool,
);

impl<K, V, S, E> Task for Group<'_, K, V, S, E>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
    E: Change<K, V, S>,
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
        let mut places = tree.walk::<N>(changes.iter().map(|change| change.key()));
        let near = are_near(&places[..changes.len()]);
        E::prefetch(tree, &places[..changes.len()]);
        for (at, &change) in changes.iter().enumerate() {
            let page = places[at].page;
            let rest = &mut places[at + 1..];
            if page == NOWHERE {
                change.descending::<N>(tree, |moved| forget(rest, moved));
            } else {
                change.at_page::<N>(tree, page, |moved| forget(rest, moved));
            }
        }
        near
    }
}

/// Sends keys that were on their way to pages that have changed to the root instead.
#[inline(never)]
fn forget(places: &mut [Place], moved: Moved) {
    for place in places {
        let gone = match moved {
            Moved::None => false,
            Moved::Pages(pages) => pages.contains(&place.page),
            Moved::Any => true,
        };
        if gone {
            place.page = NOWHERE;
        }
    }
}
