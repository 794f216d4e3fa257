//! `scc::TreeIndex`: a concurrent B+-tree whose readers take no lock.

use std::borrow::Borrow;
use std::ops::Bound;

use scc::{Guard, TreeIndex};

use super::guarded::Guarded;
use super::keys::Form;

/// A `TreeIndex` over keys of one form.
pub(super) struct Tree<F: Form>(TreeIndex<F::Owned, u64>);

impl<F: Form> Default for Tree<F> {
    fn default() -> Self {
        Self(TreeIndex::new())
    }
}

impl<F: Form> Guarded for Tree<F> {
    type Guard<'a> = Guard;

    fn guard(&self) -> Guard {
        Guard::new()
    }

    #[inline]
    fn put(&self, key: &[u8], value: u64, _: &Guard) {
        self.0.upsert_sync(F::own(key), value);
    }

    #[inline]
    fn get(&self, key: &[u8], guard: &Guard) -> Option<u64> {
        self.0
            .peek::<F::Query>(F::probe(key).borrow(), guard)
            .copied()
    }

    #[inline]
    fn remove(&self, key: &[u8], _: &Guard) -> bool {
        self.0.remove_sync::<F::Query>(F::probe(key).borrow())
    }

    #[inline]
    fn scan(&self, from: &[u8], count: usize, guard: &Guard, mut visit: impl FnMut(&[u8], u64)) {
        let probe = F::probe(from);
        let range: (Bound<&F::Query>, Bound<&F::Query>) =
            (Bound::Included(probe.borrow()), Bound::Unbounded);
        for (key, value) in self.0.range::<F::Query, _>(range, guard).take(count) {
            F::show(key, |key| visit(key, *value));
        }
    }
}
