//! `occ-avl-2-unsafe`: lookups that read no versions, to measure what reading them costs (§3.3).

use std::fmt;
use std::ops::Deref;

use hedgerow_index::IntKey;
use hedgerow_memory::prefetch_line;
use hedgerow_sync::epoch;
use hedgerow_sync::word::Word;

use super::search::side_for;
use super::{OccAvl, Validation};
use crate::form::Form;
use crate::interleave::{Step, interleave};

/// A tree that nobody writes to while this exists, since it owns the tree or has the only reference
/// to it: threads share this instead, for lookups without validation.
pub struct FrozenOccAvl<T>(T);

impl<T> fmt::Debug for FrozenOccAvl<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("occ-avl-2-unsafe")
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word> OccAvl<K, F, V, W> {
    /// Keeps writers away for as long as the result lives.
    ///
    /// ```compile_fail,E0502
    /// use hedgerow_bst::{OccAvl2Ret, SearchTree};
    /// use hedgerow_index::ConcurrentIntMap;
    ///
    /// let mut tree = OccAvl2Ret::<u64>::segregated();
    /// let frozen = tree.freeze();
    /// tree.insert(7, 70);
    /// assert_eq!(frozen.get(7), None);
    /// ```
    pub fn freeze(&mut self) -> FrozenOccAvl<&Self> {
        FrozenOccAvl(self)
    }

    /// Keeps writers away until the tree is [thawed](FrozenOccAvl::thaw).
    #[must_use]
    pub fn into_frozen(self) -> FrozenOccAvl<Box<Self>> {
        FrozenOccAvl(Box::new(self))
    }
}

impl<T> FrozenOccAvl<Box<T>> {
    /// The tree, to be written to again.
    #[must_use]
    pub fn thaw(self) -> T {
        *self.0
    }
}

impl<K, F, V, W, T> FrozenOccAvl<T>
where
    K: IntKey,
    F: Form,
    V: Validation,
    W: Word + 'static,
    T: Deref<Target = OccAvl<K, F, V, W>>,
{
    /// The name of the variant in Figure 4.
    pub const NAME: &'static str = "occ-avl-2-unsafe";

    /// The word of `key`.
    #[inline]
    pub fn get(&self, key: K) -> Option<u64> {
        let (guard, key) = (epoch::pin(), key.encode());
        let top = self.0.top(&guard);
        let mut child = top.node.child(top.side, &guard);
        while let Some(node) = child {
            if node.key() == key {
                return node.word();
            }
            child = node.child(side_for(key, node.key()), &guard);
        }
        None
    }

    /// Looks up all `keys`, overlapping their cache misses, and calls `read(i, word)` exactly once
    /// for each `keys[i]`, in no particular order.
    pub fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        let guard = epoch::pin();
        let top = self.0.top(&guard);
        interleave(
            keys,
            |key| (key.encode(), top.node.child(top.side, &guard)),
            |(key, at)| {
                let Some(node) = *at else {
                    return Step::Found(None);
                };
                if node.key() == *key {
                    return Step::Found(node.word());
                }
                *at = node.child(side_for(*key, node.key()), &guard);
                if let Some(next) = *at {
                    prefetch_line(std::ptr::from_ref(next));
                }
                Step::Pending
            },
            read,
        );
    }
}
