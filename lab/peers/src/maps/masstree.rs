//! The `masstree` crate in its fastest form for 8-byte values: inline in the nodes.
//!
//! Scans use its fastest call that yields exact keys, as its documentation advises. Every form
//! of its scan starts at a wrong pair when the first key is longer than 8 bytes and shares its
//! first 8 with other keys (0.9.5); single lookups are right.

use masstree::{MassTree15Inline, RangeBound};
use seize::LocalGuard;

use super::guarded::Guarded;

/// A trie of B+-trees with 15 keys per node.
pub(super) struct Inline(MassTree15Inline<u64>);

impl Default for Inline {
    fn default() -> Self {
        Self(MassTree15Inline::new())
    }
}

impl Guarded for Inline {
    type Guard<'a> = LocalGuard<'a>;

    fn guard(&self) -> LocalGuard<'_> {
        self.0.guard()
    }

    #[inline]
    fn put(&self, key: &[u8], value: u64, guard: &LocalGuard<'_>) {
        self.0.insert_with_guard(key, value, guard);
    }

    #[inline]
    fn get(&self, key: &[u8], guard: &LocalGuard<'_>) -> Option<u64> {
        self.0.get_with_guard(key, guard)
    }

    #[inline]
    fn remove(&self, key: &[u8], guard: &LocalGuard<'_>) -> bool {
        // The only error is that it gave up among other writers; the caller would try again.
        loop {
            if let Ok(removed) = self.0.remove_with_guard(key, guard) {
                return removed.is_some();
            }
        }
    }

    #[inline]
    fn scan(
        &self,
        from: &[u8],
        count: usize,
        guard: &LocalGuard<'_>,
        mut visit: impl FnMut(&[u8], u64),
    ) {
        let mut left = count;
        self.0.scan_intra_leaf_batch(
            RangeBound::Included(from),
            RangeBound::Unbounded,
            |key, value| {
                visit(key, value);
                left -= 1;
                left > 0
            },
            guard,
        );
    }
}
