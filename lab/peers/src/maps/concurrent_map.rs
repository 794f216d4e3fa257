//! `concurrent-map`: a lock-free B+-tree.
//!
//! Each thread works with a clone of its own, as the crate demands; it is looked up once per
//! guard. Its iterator clones every key that it yields.

use std::borrow::Borrow;
use std::ops::Bound;
use std::sync::Mutex;

use concurrent_map::{ConcurrentMap, Minimum};
use thread_local::ThreadLocal;

use super::guarded::Guarded;
use super::keys::Form;

/// The tree over keys of one form.
pub(super) struct Tree<F: Form>
where
    F::Owned: Minimum,
{
    /// What clones are made of.
    first: Mutex<ConcurrentMap<F::Owned, u64>>,
    /// Each thread's clone.
    clones: ThreadLocal<ConcurrentMap<F::Owned, u64>>,
}

impl<F: Form> Default for Tree<F>
where
    F::Owned: Minimum,
{
    fn default() -> Self {
        Self {
            first: Mutex::new(ConcurrentMap::new()),
            clones: ThreadLocal::new(),
        }
    }
}

impl<F: Form> Guarded for Tree<F>
where
    F::Owned: Minimum,
{
    type Guard<'a> = &'a ConcurrentMap<F::Owned, u64>;

    fn guard(&self) -> Self::Guard<'_> {
        self.clones.get_or(|| {
            let first = self.first.lock().expect("no clone panics");
            first.clone()
        })
    }

    #[inline]
    fn put(&self, key: &[u8], value: u64, map: &Self::Guard<'_>) {
        map.insert(F::own(key), value);
    }

    #[inline]
    fn get(&self, key: &[u8], map: &Self::Guard<'_>) -> Option<u64> {
        map.get::<F::Query>(F::probe(key).borrow())
    }

    #[inline]
    fn remove(&self, key: &[u8], map: &Self::Guard<'_>) -> bool {
        map.remove::<F::Query>(F::probe(key).borrow()).is_some()
    }

    #[inline]
    fn scan(
        &self,
        from: &[u8],
        count: usize,
        map: &Self::Guard<'_>,
        mut visit: impl FnMut(&[u8], u64),
    ) {
        let probe = F::probe(from);
        let range: (Bound<&F::Query>, Bound<&F::Query>) =
            (Bound::Included(probe.borrow()), Bound::Unbounded);
        for (key, value) in map.range::<F::Query, _>(range).take(count) {
            F::show(&key, |key| visit(key, value));
        }
    }
}
