//! What the tree asks of a page, whatever its form.
//!
//! A page holds sorted keys with their values in *leaves* (lines), which have numbers, and finds
//! the leaf of a key in a few steps. It knows nothing of other pages.

use hedgerow_simd::Kernel;

use crate::key_bounds::KeyBounds;
use crate::node_key::NodeKey;
use crate::paper::strategy::Strategy;

/// What became of an insert into a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted<V> {
    /// The key was not there.
    New,
    /// The key was there; this was its value.
    Replaced(V),
    /// There is no room; nothing changed.
    Full,
}

/// Where a key is, or would be, in a page.
#[derive(Debug, Clone, Copy)]
pub struct KeyPosition {
    /// The number of the leaf.
    pub leaf: u8,
    /// Keys of that leaf below the key.
    pub position: usize,
    /// Whether it is there.
    pub found: bool,
}

/// A page of keys of one width, their values, and a strategy's capacities.
pub trait PageForm<L: NodeKey, V: Copy + Default, S: Strategy>: Copy {
    /// The most keys.
    const CAPACITY: usize;
    /// Steps from a page to the leaf of a key, at most.
    const STEPS: usize;
    /// Whether a page's tag says more than nothing.
    const TAGGED: bool = true;

    /// A page of these pairs, which ascend and number at most [`CAPACITY`](Self::CAPACITY).
    fn build(pairs: &[(L, V)]) -> Self;

    /// Keys.
    fn key_count(&self) -> usize;

    /// Six bits that a parent keeps beside the page's number, for [`prefetch`](Self::prefetch).
    fn tag(&self) -> u32;

    /// Prefetches the lines that a search reads first.
    fn prefetch(&self, tag: u32);

    /// Prefetches what a scan of the whole page reads first.
    fn prefetch_scan(&self);

    /// Where the key is or would be; prefetches its value's line on the way.
    fn find<N: Kernel>(&self, key: L) -> KeyPosition;

    /// The value of a key.
    #[inline(always)]
    fn get<N: Kernel>(&self, key: L) -> Option<V> {
        let spot = self.find::<N>(key);
        spot.found.then(|| self.values(spot.leaf)[spot.position])
    }

    /// The greatest pair at or below the key. `None` when the leaf that is responsible for the key
    /// has none, and those before it were not looked at, or have none either.
    #[inline(always)]
    fn floor<N: Kernel>(&self, key: L) -> Option<(L, V)> {
        let spot = self.find::<N>(key);
        let up_to = spot.position + usize::from(spot.found);
        let at = up_to.checked_sub(1)?;
        Some((self.keys(spot.leaf)[at], self.values(spot.leaf)[at]))
    }

    /// The least pair at or above the key. `None` when the leaf that is responsible for the key has
    /// none, and those behind it were not looked at, or have none either.
    #[inline(always)]
    fn ceiling<N: Kernel>(&self, key: L) -> Option<(L, V)> {
        let spot = self.find::<N>(key);
        let found = *self.keys(spot.leaf).get(spot.position)?;
        Some((found, self.values(spot.leaf)[spot.position]))
    }

    /// Stores a pair.
    fn insert<N: Kernel>(&mut self, key: L, value: V) -> Inserted<V>;

    /// Removes a key; returns its value.
    fn remove<N: Kernel>(&mut self, key: L) -> Option<V>;

    /// Where the steps to a leaf begin.
    fn enter(&self) -> u8;

    /// One step, and a request for what the next one reads. Once at a leaf, stays there.
    fn step<N: Kernel>(&self, step: usize, at: u8, key: L) -> u8;

    /// Prefetches what an insert into the leaf that the steps led to reads beyond it; whether there
    /// is no room for it, by all appearances.
    #[inline(always)]
    fn prefetch_insert(&self, _leaf: u8) -> bool {
        false
    }

    /// Where the key is or would be in the leaf that the steps led to.
    fn find_in<N: Kernel>(&self, leaf: u8, key: L) -> KeyPosition;

    /// The value of a key in the leaf that the steps led to.
    #[inline(always)]
    fn get_in<N: Kernel>(&self, leaf: u8, key: L) -> Option<V> {
        let spot = self.find_in::<N>(leaf, key);
        spot.found.then(|| self.values(leaf)[spot.position])
    }

    /// The numbers of all leaves in key order.
    fn leaves(&self) -> ([u8; 64], usize);

    /// The keys of a leaf.
    fn keys(&self, leaf: u8) -> &[L];

    /// The values of a leaf, in the order of its keys, and maybe more.
    fn values(&self, leaf: u8) -> &[V];

    /// Checks the invariants; how many keys there are.
    ///
    /// # Errors
    ///
    /// The first violation, in words.
    fn verify(&self, bounds: KeyBounds<L>) -> Result<usize, String>;

    /// Appends all pairs in key order.
    fn pairs(&self, pairs: &mut Vec<(L, V)>) {
        let (leaves, count) = self.leaves();
        for &leaf in &leaves[..count] {
            let keys = self.keys(leaf).iter().copied();
            pairs.extend(keys.zip(self.values(leaf).iter().copied()));
        }
    }
}

/// An error unless the two are equal.
pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: T,
    want: T,
) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: found {got:?}, expected {want:?}"))
    }
}

/// An error unless the keys ascend within the bounds.
pub(crate) fn inside<L: NodeKey>(keys: &[L], bounds: KeyBounds<L>) -> Result<(), String> {
    let ascending = keys.windows(2).all(|pair| pair[0] < pair[1]);
    let above = bounds
        .low
        .is_none_or(|low| keys.iter().all(|&key| low < key));
    let below = bounds
        .high
        .is_none_or(|high| keys.iter().all(|&key| key <= high));
    if ascending && above && below {
        Ok(())
    } else {
        Err(format!("keys {keys:?} do not ascend within {bounds:?}"))
    }
}
