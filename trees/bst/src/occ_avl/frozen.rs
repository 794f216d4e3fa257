//! `occ-avl-2-unsafe`: lookups that read no versions, to measure what reading them costs (§3.3).

use std::fmt;
use std::sync::atomic::AtomicU64;

use hedgerow_index::IntKey;
use hedgerow_memory::prefetch_line;
use hedgerow_sync::epoch;
use hedgerow_sync::word::Word;

use super::search::side_for;
use super::{OccAvl, Validation};
use crate::form::Form;
use crate::interleave::{Step, interleave};

/// A tree that nobody writes to while this exists, since it has the only reference to it: threads
/// share this instead, for lookups without validation.
pub struct FrozenOccAvl<'t, K: IntKey, F: Form, V: Validation, W: Word + 'static = AtomicU64>(
    &'t OccAvl<K, F, V, W>,
);

impl<K: IntKey, F: Form, V: Validation, W: Word> fmt::Debug for FrozenOccAvl<'_, K, F, V, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAME)
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
    pub fn freeze(&mut self) -> FrozenOccAvl<'_, K, F, V, W> {
        FrozenOccAvl(self)
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word> FrozenOccAvl<'_, K, F, V, W> {
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
