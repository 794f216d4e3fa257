//! The map of words that users see, and the capacities of its nodes.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, Statistics};
use hedgerow_simd::{Kernel, Level, Task};
use hedgerow_sync::epoch::{self, Guard};

use super::get_many::{Progress, Traveller, travel};
use super::load::LoadError;
use super::scan::beyond;
use super::tree::{Events, Tree};
use super::update::Change;
use super::verify::Shape;

/// How large nodes become. Small ones, for tests, split and merge all the time.
pub trait Capacity: Send + Sync + 'static {
    /// Leaf lines of a page, 3 to 58.
    const LINES: usize;
    /// Children of an inner node, 4 to 313.
    const FAN_OUT: usize;
    /// Byte keys of one slice that lie side by side before they get a layer of their own, 1 to 16.
    const BUCKET: usize = 16;
}

/// Nodes as large as they can be.
#[derive(Debug, Clone, Copy)]
pub struct Full;

impl Capacity for Full {
    const LINES: usize = super::page::MOST_LINES;
    const FAN_OUT: usize = super::inner::MOST_CHILDREN;
}

/// An ordered map from `u64` to `u64` that any number of threads read and write at once.
///
/// Every method takes `&self`. Reads write no shared memory; a write latches one page, rarely also
/// its neighbour and its parent.
pub struct SharedMatryoshka<C: Capacity = Full> {
    tree: Tree<C>,
    level: Level,
    events: Events,
}

impl<C: Capacity> Default for SharedMatryoshka<C> {
    fn default() -> Self {
        Self::new()
    }
}

struct Get<'a, C: Capacity>(&'a SharedMatryoshka<C>, u64);

impl<C: Capacity> Task for Get<'_, C> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<u64> {
        let Self(map, key) = self;
        map.tree.get::<N>(key, &map.events).unwrap_or_default()
    }
}

struct GetMany<'a, C: Capacity, F>(&'a SharedMatryoshka<C>, &'a [u64], F);

impl<C: Capacity, F: FnMut(usize, Option<u64>)> Task for GetMany<'_, C, F> {
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(map, keys, mut read) = self;
        let depart = |number: usize| Traveller::new(&map.tree, keys[number], 0);
        travel::<N>(keys.len(), depart, |number, _, progress| {
            let word = match progress {
                Progress::Arrived(word) => word,
                _ => Get(map, keys[number]).run::<N>(),
            };
            read(number, word);
            None
        });
    }
}

struct Update<'a, C: Capacity, F>(&'a SharedMatryoshka<C>, u64, &'a Guard, F);

impl<C: Capacity, R, F: FnMut(Option<u64>) -> Change<R>> Task for Update<'_, C, F> {
    type Output = R;

    #[inline(always)]
    fn run<N: Kernel>(self) -> R {
        let Self(map, key, guard, mut change) = self;
        loop {
            // Only layers go away, and this tree is none.
            if let Ok(result) = map
                .tree
                .modify::<N, R>(key, &map.events, guard, &mut change)
            {
                return result;
            }
        }
    }
}

struct Scan<'a, C: Capacity, F>(&'a SharedMatryoshka<C>, u64, Direction, F);

impl<C: Capacity, F: FnMut(u64, u64) -> ControlFlow<()>> Task for Scan<'_, C, F> {
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(map, from, direction, mut visit) = self;
        let _ = map
            .tree
            .scan::<N, ()>(from, direction, &map.events, |pairs| {
                pairs.iter().try_for_each(|&(key, word)| visit(key, word))
            });
    }
}

impl<C: Capacity> SharedMatryoshka<C> {
    /// An empty map that searches with the best kernel of this processor.
    #[must_use]
    pub fn new() -> Self {
        Self::with_level(Level::detect())
    }

    /// An empty map that searches with this kernel.
    #[must_use]
    pub fn with_level(level: Level) -> Self {
        Self {
            tree: Tree::of(&[]),
            level,
            events: Events::new(),
        }
    }

    /// The word of `key`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u64> {
        let _guard = epoch::pin();
        self.level.run(Get(self, key))
    }

    /// Looks up all `keys`, overlapping their cache misses; calls `read` once for each, in no
    /// particular order.
    pub fn get_many(&self, keys: &[u64], read: impl FnMut(usize, Option<u64>)) {
        let _guard = epoch::pin();
        self.level.run(GetMany(self, keys, read));
    }

    /// Changes one key: `change` sees its word and decides, once, while no other thread can
    /// change the key. It must be short, and must not call back into the map.
    #[inline]
    pub fn update<R>(&self, key: u64, change: impl FnMut(Option<u64>) -> Change<R>) -> R {
        let guard = epoch::pin();
        self.level.run(Update(self, key, &guard, change))
    }

    /// Stores a word; the word before.
    #[inline]
    pub fn insert(&self, key: u64, word: u64) -> Option<u64> {
        self.update(key, |present| Change::Put(word, present))
    }

    /// Removes a key; its word.
    #[inline]
    pub fn remove(&self, key: u64) -> Option<u64> {
        self.update(key, Change::Remove)
    }

    /// Fills an empty map with pairs whose keys ascend strictly, in one pass from below: much faster
    /// than inserts, and nodes are left an eighth of their room. Other threads find no pair before
    /// some moment, and every pair after it.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when the keys do not ascend, or when there are keys at that moment; the map
    /// stays as it was.
    pub fn bulk_load(&self, pairs: impl IntoIterator<Item = (u64, u64)>) -> Result<(), LoadError> {
        self.tree.load(pairs)
    }

    /// Visits pairs in key order from `from` on, until `visit` breaks or keys end. With
    /// [`Direction::Reverse`], `from` is an upper bound. No latch is held while `visit` runs. A key
    /// that stays is visited once; one that comes or goes meanwhile is visited once or not at all.
    pub fn scan(
        &self,
        from: Bound<u64>,
        direction: Direction,
        visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) {
        let from = match (from, direction) {
            (Bound::Included(key), _) => Some(key),
            (Bound::Excluded(key), _) => beyond(key, direction),
            (Bound::Unbounded, Direction::Forward) => Some(0),
            (Bound::Unbounded, Direction::Reverse) => Some(u64::MAX),
        };
        let Some(from) = from else { return };
        let _guard = epoch::pin();
        self.level.run(Scan(self, from, direction, visit));
    }

    /// Numbers that show every mechanism at work. Walks all nodes; for quiet moments, like
    /// [`verify`](Self::verify).
    pub fn statistics(&self) -> Statistics {
        let _guard = epoch::pin();
        let mut shape = Shape::default();
        shape.add(&self.tree);
        let mut statistics = Statistics::new();
        statistics.push("keys", shape.pairs as f64, "Keys stored.");
        shape.push::<C>(&mut statistics, &self.events);
        statistics
    }

    /// Checks every invariant; the first violation in words. Concurrent writers may make it report
    /// violations that are none.
    pub fn verify(&self) -> Result<(), String> {
        let _guard = epoch::pin();
        self.tree.verify()
    }
}
