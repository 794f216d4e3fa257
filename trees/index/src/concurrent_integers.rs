//! Maps from integers that many threads read and write at once.
//!
//! The concurrent search trees of `hedgerow-bst` and the shared form of `hedgerow-matryoshka` have
//! this in common: keys are integers, values are words, and every method takes `&self`.

use std::ops::{Bound, ControlFlow};

use crate::{Direction, IntKey, Statistics};

/// A concurrent map from integers to words.
///
/// Every method may be called from any number of threads at once. `get`, `insert` and `remove` are
/// linearizable: each takes effect at one moment between its call and its return. All keys of the
/// type may be used, the least and the greatest too.
///
/// That is what they promise to threads that are not pinned already. An operation's pin has a full
/// fence; under an outer guard (`hedgerow_sync::epoch::pin`) it has none, so on processors whose
/// loads may pass earlier stores of the same thread, two operations under one guard may take effect
/// as if the second came before the first, for other threads.
///
/// # Examples
///
/// ```
/// use hedgerow_index::ConcurrentIntMap;
///
/// /// Stores the pairs whose keys are new; says how many were not.
/// fn fill(map: &impl ConcurrentIntMap<u32>, pairs: &[(u32, u64)]) -> usize {
///     let known = pairs.iter().filter(|(key, word)| map.insert(*key, *word).is_some());
///     known.count()
/// }
///
/// let map = hedgerow_matryoshka::SharedMatryoshka::<u32>::new();
/// assert_eq!(fill(&map, &[(7, 70), (9, 90), (7, 71)]), 1);
/// assert_eq!(ConcurrentIntMap::get(&map, 7), Some(70));
/// ```
pub trait ConcurrentIntMap<K: IntKey>: Send + Sync {
    /// The word of `key`.
    fn get(&self, key: K) -> Option<u64>;

    /// Looks up all `keys`, overlapping their cache misses, and calls `read(i, word)` exactly once
    /// for each `keys[i]`, in no particular order.
    ///
    /// Each lookup is linearizable by itself; the batch is not a snapshot.
    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>));

    /// Stores `word` under `key` if the key is absent. Returns the word of a key that is present,
    /// which stays as it is.
    fn insert(&self, key: K, word: u64) -> Option<u64>;

    /// Removes `key`; returns its word.
    fn remove(&self, key: K) -> Option<u64>;

    /// Numbers that show every mechanism at work. Walks the map; for quiet moments.
    fn statistics(&self) -> Statistics;

    /// Checks every structural invariant; returns the first violation in words. For quiet moments:
    /// concurrent writers may make it report violations that are none.
    fn verify(&self) -> Result<(), String>;
}

/// A concurrent map from integers whose pairs can be read in key order.
///
/// The guarantee is that of [`Index::scan`](crate::Index::scan): a key that exists unchanged
/// throughout a scan is visited exactly once; no key is visited twice; a key inserted or removed
/// meanwhile may or may not be seen.
pub trait OrderedIntMap<K: IntKey>: ConcurrentIntMap<K> {
    /// Visits pairs in key order, starting at `from`, until `visit` breaks or keys end: `from` is
    /// a lower bound with [`Direction::Forward`], an upper bound with [`Direction::Reverse`].
    fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        visit: impl FnMut(K, u64) -> ControlFlow<()>,
    );

    /// The least key at or above `key`, with its word.
    fn successor(&self, key: K) -> Option<(K, u64)> {
        first(self, key, Direction::Forward)
    }

    /// The greatest key at or below `key`, with its word.
    fn predecessor(&self, key: K) -> Option<(K, u64)> {
        first(self, key, Direction::Reverse)
    }
}

/// The first pair from `key` on.
fn first<K: IntKey, M: OrderedIntMap<K> + ?Sized>(
    map: &M,
    key: K,
    direction: Direction,
) -> Option<(K, u64)> {
    let mut found = None;
    map.scan(Bound::Included(key), direction, |key, word| {
        found = Some((key, word));
        ControlFlow::Break(())
    });
    found
}
