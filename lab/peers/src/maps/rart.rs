//! `rart`: an adaptive radix tree for one thread.
//!
//! 8-byte keys are its `ArrayKey<16>` (with `ArrayKey<8>`, merging a node into its only child
//! overruns an array when the two make up the whole key), byte keys its `OverflowKey` with the
//! sizes that its documentation recommends. It is asked for no scans: one that ends after so many
//! pairs can only be its iterator, which takes milliseconds to find its first pair among 80,000
//! paths, and its faster visitor cannot be stopped.

use std::cell::RefCell;

use rart::{AdaptiveRadixTree, ArrayKey, KeyTrait, OverflowKey};

use super::guarded::Guarded;

/// The tree over 8-byte keys.
pub(super) type Words = Radix<ArrayKey<16>>;

/// The tree over byte keys, up to 32 bytes of each in place.
pub(super) type Bytes = Radix<OverflowKey<32, 8>>;

/// The tree over keys of one type.
pub(super) struct Radix<K: KeyTrait>(RefCell<AdaptiveRadixTree<K, u64>>);

impl<K: KeyTrait> Default for Radix<K> {
    fn default() -> Self {
        Self(RefCell::new(AdaptiveRadixTree::new()))
    }
}

impl<K: KeyTrait + 'static> Guarded for Radix<K> {
    type Guard<'a> = ();

    fn guard(&self) {}

    #[inline]
    fn put(&self, key: &[u8], value: u64, (): &()) {
        self.0.borrow_mut().insert_k(&K::new_from_slice(key), value);
    }

    #[inline]
    fn get(&self, key: &[u8], (): &()) -> Option<u64> {
        self.0.borrow().get_bytes(key).copied()
    }

    #[inline]
    fn remove(&self, key: &[u8], (): &()) -> bool {
        self.0
            .borrow_mut()
            .remove_k(&K::new_from_slice(key))
            .is_some()
    }

    fn scan(&self, _: &[u8], _: usize, (): &(), _: impl FnMut(&[u8], u64)) {}
}
