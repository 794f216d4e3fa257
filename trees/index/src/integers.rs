//! Ordered maps from integers, for one writer.
//!
//! An integer needs no slices, no layers and no allocation, so trees for integers are their own
//! part of the family: smaller, faster, and so far for a single writer, which Rust's `&mut self`
//! says better than any latch. Searches compare the key's [`IntKey::Encoded`] form, an unsigned
//! word that sorts as the key does; so signed keys cost one exclusive-or and no second tree.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Bound, ControlFlow};

use crate::{Direction, Statistics};

mod sealed {
    /// Only the integers of this crate are keys.
    pub trait Sealed {}
}

/// An integer that a tree can be keyed by: `u32`, `i32`, `u64` or `i64`.
///
/// Nobody else implements it. Trees compare keys with nodes locked or latched and follow what
/// comparisons say, so an order that panics, or that is none, would leave locks behind.
pub trait IntKey: sealed::Sealed + Copy + Ord + Debug + Send + Sync + 'static {
    /// The unsigned word that stands for it: `a < b` exactly when `a.encode() < b.encode()`, and so
    /// when widened to 64 bits.
    type Encoded: Copy + Ord + Debug + Default + Into<u64> + Send + Sync + 'static;

    /// The word of this key.
    fn encode(self) -> Self::Encoded;

    /// The key of this word: the inverse of [`encode`](Self::encode).
    fn decode(encoded: Self::Encoded) -> Self;
}

macro_rules! int_key {
    ($key:ty, $encoded:ty, $flip:expr) => {
        impl sealed::Sealed for $key {}

        impl IntKey for $key {
            type Encoded = $encoded;

            #[inline(always)]
            fn encode(self) -> $encoded {
                (self as $encoded) ^ $flip
            }

            #[inline(always)]
            fn decode(encoded: $encoded) -> Self {
                (encoded ^ $flip) as Self
            }
        }
    };
}

int_key!(u32, u32, 0);
int_key!(u64, u64, 0);
// Two's complement sorts as unsigned once the sign bit is flipped.
int_key!(i32, u32, 1 << 31);
int_key!(i64, u64, 1 << 63);

/// An ordered map from integers to small values, for one writer or many readers.
///
/// With `()` as the value it is a set. Values are copied in and out.
///
/// # Examples
///
/// The standard library's map implements the trait, as do the trees of `hedgerow-matryoshka`.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::ops::{Bound, ControlFlow};
///
/// use hedgerow_index::{BulkLoad, Direction, IntIndex};
///
/// /// The values of the keys from `first` to `last`, added up.
/// fn sum(index: &impl IntIndex<u32, Value = u64>, first: u32, last: u32) -> u64 {
///     let mut sum = 0;
///     index.scan(Bound::Included(first), Direction::Forward, |key, value| {
///         if key > last {
///             return ControlFlow::Break(());
///         }
///         sum += value;
///         ControlFlow::Continue(())
///     });
///     sum
/// }
///
/// let mut index = BTreeMap::new();
/// index.bulk_load([(2, 20), (4, 40), (6, 60)])?;
/// assert_eq!(index.predecessor(5), Some((4, 40)));
/// assert_eq!(sum(&index, 3, 6), 100);
/// # Ok::<(), hedgerow_index::NotAscending>(())
/// ```
pub trait IntIndex<K: IntKey> {
    /// What is stored beside each key.
    type Value: Copy;

    /// How many keys there are. Costs nothing.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of `key`.
    fn get(&self, key: K) -> Option<Self::Value>;

    /// Looks up all `keys`, overlapping their cache misses, and calls `read(i, value)` exactly
    /// once for each `keys[i]`, in order.
    fn get_many(&self, keys: &[K], mut read: impl FnMut(usize, Option<Self::Value>)) {
        for (index, &key) in keys.iter().enumerate() {
            read(index, self.get(key));
        }
    }

    /// Stores `value` under `key`; returns the value that it replaced.
    fn insert(&mut self, key: K, value: Self::Value) -> Option<Self::Value>;

    /// Removes `key`; returns its value.
    fn remove(&mut self, key: K) -> Option<Self::Value>;

    /// The greatest key at or below `key`, with its value.
    fn predecessor(&self, key: K) -> Option<(K, Self::Value)>;

    /// The least key at or above `key`, with its value.
    fn successor(&self, key: K) -> Option<(K, Self::Value)>;

    /// Visits pairs in key order, starting at `from`, until `visit` breaks or keys end: `from` is
    /// a lower bound with [`Direction::Forward`], an upper bound with [`Direction::Reverse`].
    fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        visit: impl FnMut(K, Self::Value) -> ControlFlow<()>,
    );

    /// Numbers that show every mechanism at work: nodes by kind, bytes, fill. Walks the index.
    fn statistics(&self) -> Statistics;

    /// Checks every structural invariant and returns the first violation in words.
    fn verify(&self) -> Result<(), String>;
}

/// An index that can be built from sorted pairs faster than by inserts.
pub trait BulkLoad<K: IntKey>: IntIndex<K> {
    /// Replaces the contents by `pairs`, whose keys must ascend strictly.
    ///
    /// # Errors
    ///
    /// [`NotAscending`] when they do not; the index is empty afterwards.
    fn bulk_load(
        &mut self,
        pairs: impl IntoIterator<Item = (K, Self::Value)>,
    ) -> Result<(), NotAscending>;
}

/// The keys of a bulk load did not ascend strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAscending {
    /// How many keys came before the first that was not above its predecessor.
    pub position: usize,
}

impl std::fmt::Display for NotAscending {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let position = self.position;
        write!(
            out,
            "key {position} of the bulk load is not above the key before it; sort the keys and \
             remove duplicates first"
        )
    }
}

impl std::error::Error for NotAscending {}

/// The standard library's map: the model of the integer trees, and the plainest of them.
impl<K: IntKey, V: Copy> IntIndex<K> for BTreeMap<K, V> {
    type Value = V;

    fn len(&self) -> usize {
        BTreeMap::len(self)
    }

    fn get(&self, key: K) -> Option<V> {
        BTreeMap::get(self, &key).copied()
    }

    fn insert(&mut self, key: K, value: V) -> Option<V> {
        BTreeMap::insert(self, key, value)
    }

    fn remove(&mut self, key: K) -> Option<V> {
        BTreeMap::remove(self, &key)
    }

    fn predecessor(&self, key: K) -> Option<(K, V)> {
        let found = self.range(..=key).next_back();
        found.map(|(&key, &value)| (key, value))
    }

    fn successor(&self, key: K) -> Option<(K, V)> {
        let found = self.range(key..).next();
        found.map(|(&key, &value)| (key, value))
    }

    fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        mut visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) {
        let mut visit = |(&key, &value): (&K, &V)| visit(key, value);
        let _ = match direction {
            Direction::Forward => self
                .range((from, Bound::Unbounded))
                .try_for_each(&mut visit),
            Direction::Reverse => self
                .range((Bound::Unbounded, from))
                .rev()
                .try_for_each(&mut visit),
        };
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::new();
        statistics.push("keys", BTreeMap::len(self) as f64, "Keys stored.");
        statistics
    }

    fn verify(&self) -> Result<(), String> {
        Ok(())
    }
}

impl<K: IntKey, V: Copy> BulkLoad<K> for BTreeMap<K, V> {
    fn bulk_load(&mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<(), NotAscending> {
        self.clear();
        let mut last = None;
        for (position, (key, value)) in pairs.into_iter().enumerate() {
            if last.is_some_and(|last| last >= key) {
                self.clear();
                return Err(NotAscending { position });
            }
            last = Some(key);
            BTreeMap::insert(self, key, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_order<K: IntKey>(keys: &[K]) {
        for pair in keys.windows(2) {
            assert!(pair[0].encode() < pair[1].encode(), "{pair:?}");
        }
        for &key in keys {
            assert_eq!(K::decode(key.encode()), key);
        }
    }

    #[test]
    fn encodings_keep_the_order() {
        in_order(&[i32::MIN, -7, -1, 0, 1, 9, i32::MAX]);
        in_order(&[i64::MIN, i64::from(i32::MIN), -1, 0, 1, i64::MAX]);
        in_order(&[0, 1, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX]);
        in_order(&[0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX]);
    }

    #[test]
    fn a_bulk_load_out_of_order_is_refused() {
        let mut map = BTreeMap::new();
        map.insert(9_u32, 0_u64);
        assert_eq!(
            map.bulk_load([(1, 1), (2, 2), (2, 3)]),
            Err(NotAscending { position: 2 })
        );
        assert_eq!(IntIndex::len(&map), 0);
        assert_eq!(map.bulk_load([(1, 1), (2, 2)]), Ok(()));
        assert_eq!(map.predecessor(7), Some((2, 2)));
    }
}
