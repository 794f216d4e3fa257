//! [`SharedMatryoshka`], the concurrent tree as a map from integers to words.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{ConcurrentIntMap, Direction, IntKey, OrderedIntMap, Statistics};
use hedgerow_memory::Placement;
use hedgerow_simd::{Kernel, Level, Task};
use hedgerow_sync::epoch::{self, Guard};

use super::capacity::{Capacity, Full};
use super::tree::get_many::{Lookup, Progress, run_lookups};
use super::tree::load::LoadError;
use super::tree::update::Change;
use super::tree::verify::Shape;
use super::tree::{Events, Tree};
use crate::node_key::KeyWidth;
use crate::served::node::node_key::SharedNodeKey;

/// An ordered map from integers (`u64`, `i64`, `u32` or `i32`) to words of 64 bits that any number
/// of threads read and write at once.
///
/// Every method takes `&self`. Reads write no shared memory; a write latches one page, rarely also
/// its neighbour and its parent.
pub struct SharedMatryoshka<K: IntKey<Encoded: SharedNodeKey> = u64, C: Capacity = Full> {
    tree: Tree<C, K::Encoded>,
    level: Level,
    /// Where its nodes come from.
    placement: Placement,
    events: Events,
}

impl<K: IntKey<Encoded: SharedNodeKey>, C: Capacity> Default for SharedMatryoshka<K, C> {
    fn default() -> Self {
        Self::new()
    }
}

struct GetTask<'a, C: Capacity, L: SharedNodeKey>(&'a Tree<C, L>, &'a Events, L);

impl<C: Capacity, L: SharedNodeKey> Task for GetTask<'_, C, L> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<u64> {
        let Self(tree, events, key) = self;
        tree.get::<N>(key, events).unwrap_or_default()
    }
}

struct GetManyTask<'a, K: IntKey<Encoded: SharedNodeKey>, C: Capacity, F>(
    &'a SharedMatryoshka<K, C>,
    &'a [K],
    F,
);

impl<K, C, F> Task for GetManyTask<'_, K, C, F>
where
    K: IntKey<Encoded: SharedNodeKey>,
    C: Capacity,
    F: FnMut(usize, Option<u64>),
{
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(map, keys, mut read) = self;
        let start = |number: usize| Lookup::new(&map.tree, keys[number].encode(), 0);
        run_lookups::<N, _>(keys.len(), start, |number, _, progress| {
            let word = match progress {
                Progress::Done(word) => word,
                _ => GetTask(&map.tree, &map.events, keys[number].encode()).run::<N>(),
            };
            read(number, word);
            None
        });
    }
}

struct UpdateTask<'a, C: Capacity, L: SharedNodeKey, F>(
    &'a Tree<C, L>,
    &'a Events,
    L,
    &'a Guard,
    F,
);

impl<C, L, R, F> Task for UpdateTask<'_, C, L, F>
where
    C: Capacity,
    L: SharedNodeKey,
    F: FnMut(Option<u64>) -> Change<R>,
{
    type Output = R;

    #[inline(always)]
    fn run<N: Kernel>(self) -> R {
        let Self(tree, events, key, guard, mut change) = self;
        loop {
            // Only layers go away, and this tree is none.
            if let Ok(result) = tree.modify::<N, R>(key, events, guard, &mut change) {
                return result;
            }
        }
    }
}

struct ScanTask<'a, C: Capacity, L: SharedNodeKey, F>(&'a Tree<C, L>, &'a Events, L, Direction, F);

impl<C, L, F> Task for ScanTask<'_, C, L, F>
where
    C: Capacity,
    L: SharedNodeKey,
    F: FnMut(L, u64) -> ControlFlow<()>,
{
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(tree, events, from, direction, mut visit) = self;
        // Only layers go away, and this tree is none.
        let _ = tree.scan::<N, ()>(from, direction, events, |pairs| {
            pairs.iter().try_for_each(|&(key, word)| visit(key, word))
        });
    }
}

impl<K: IntKey<Encoded: SharedNodeKey>, C: Capacity> SharedMatryoshka<K, C> {
    /// An empty map that searches with the best kernel of this processor.
    #[must_use]
    pub fn new() -> Self {
        Self::with_level(Level::detect())
    }

    /// An empty map that searches with this kernel.
    #[must_use]
    pub fn with_level(level: Level) -> Self {
        Self::with_placement(level, Placement::Merged)
    }

    /// An empty map that searches with this kernel, whose pages and inner nodes come from there.
    /// Segregated pages have a pool for each of their four sizes.
    #[must_use]
    pub fn with_placement(level: Level, placement: Placement) -> Self {
        Self {
            tree: Tree::of(placement, &[]),
            level,
            placement,
            events: Events::new(),
        }
    }

    pub(super) fn tree(&self) -> &Tree<C, K::Encoded> {
        &self.tree
    }

    /// The word of `key`.
    #[inline]
    pub fn get(&self, key: K) -> Option<u64> {
        let _guard = epoch::pin();
        self.level
            .run(GetTask(&self.tree, &self.events, key.encode()))
    }

    /// Looks up all `keys`, overlapping their cache misses; calls `read` once for each, in no
    /// particular order.
    pub fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        let _guard = epoch::pin();
        self.level.run(GetManyTask(self, keys, read));
    }

    /// Changes one key: `change` sees its word and decides, once, while no other thread can
    /// change the key. It must be short, and must not call back into the map.
    #[inline]
    pub fn update<R>(&self, key: K, change: impl FnMut(Option<u64>) -> Change<R>) -> R {
        let guard = epoch::pin();
        let (tree, events) = (&self.tree, &self.events);
        self.level
            .run(UpdateTask(tree, events, key.encode(), &guard, change))
    }

    /// Stores a word; the word before.
    #[inline]
    pub fn insert(&self, key: K, word: u64) -> Option<u64> {
        self.update(key, |present| Change::Put(word, present))
    }

    /// Removes a key; its word.
    #[inline]
    pub fn remove(&self, key: K) -> Option<u64> {
        self.update(key, Change::Remove)
    }

    /// Fills an empty map with pairs whose keys ascend strictly, in one pass from below: much
    /// faster than inserts, and nodes are left an eighth of their room. Other threads find no pair
    /// before some moment, and every pair after it.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when the keys do not ascend, or when there are keys at that moment and keys to
    /// load; the map stays as it was.
    pub fn bulk_load(&self, pairs: impl IntoIterator<Item = (K, u64)>) -> Result<(), LoadError> {
        let encode = |(key, word): (K, u64)| (key.encode(), word);
        self.tree
            .load(self.placement, pairs.into_iter().map(encode))
    }

    /// Visits pairs in key order from `from` on, until `visit` breaks or keys end. With
    /// [`Direction::Reverse`], `from` is an upper bound. No latch is held while `visit` runs. A key
    /// that stays is visited once; one that comes or goes meanwhile is visited once or not at all.
    pub fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        mut visit: impl FnMut(K, u64) -> ControlFlow<()>,
    ) {
        let from = match (from, direction) {
            (Bound::Included(key), _) => Some(key.encode()),
            (Bound::Excluded(key), _) => key.encode().beyond(direction),
            (Bound::Unbounded, Direction::Forward) => Some(K::Encoded::MIN),
            (Bound::Unbounded, Direction::Reverse) => Some(K::Encoded::MAX),
        };
        let Some(from) = from else { return };
        let _guard = epoch::pin();
        let visit = |key, word| visit(K::decode(key), word);
        self.level
            .run(ScanTask(&self.tree, &self.events, from, direction, visit));
    }

    /// Numbers that show every mechanism at work. Walks all nodes; for quiet moments, like
    /// [`verify`](Self::verify).
    pub fn statistics(&self) -> Statistics {
        let _guard = epoch::pin();
        let mut shape = Shape::default();
        shape.add(&self.tree);
        let mut statistics = Statistics::new();
        statistics.push("keys", shape.pairs as f64, "Keys stored.");
        shape.push(&mut statistics, &self.events);
        statistics
    }

    /// Checks every invariant; the first violation in words. Concurrent writers may make it report
    /// violations that are none.
    pub fn verify(&self) -> Result<(), String> {
        let _guard = epoch::pin();
        self.tree.verify()
    }
}

impl<K: IntKey<Encoded: SharedNodeKey>, C: Capacity> ConcurrentIntMap<K>
    for SharedMatryoshka<K, C>
{
    #[inline]
    fn get(&self, key: K) -> Option<u64> {
        SharedMatryoshka::get(self, key)
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        SharedMatryoshka::get_many(self, keys, read);
    }

    #[inline]
    fn insert(&self, key: K, word: u64) -> Option<u64> {
        self.update(key, |present| match present {
            Some(_) => Change::Keep(present),
            None => Change::Put(word, None),
        })
    }

    #[inline]
    fn remove(&self, key: K) -> Option<u64> {
        SharedMatryoshka::remove(self, key)
    }

    fn statistics(&self) -> Statistics {
        SharedMatryoshka::statistics(self)
    }

    fn verify(&self) -> Result<(), String> {
        SharedMatryoshka::verify(self)
    }
}

impl<K: IntKey<Encoded: SharedNodeKey>, C: Capacity> OrderedIntMap<K> for SharedMatryoshka<K, C> {
    fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        visit: impl FnMut(K, u64) -> ControlFlow<()>,
    ) {
        SharedMatryoshka::scan(self, from, direction, visit);
    }
}
