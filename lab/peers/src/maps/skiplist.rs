//! `crossbeam-skiplist`: a lock-free skip list.
//!
//! Its operations pin the default epoch collector themselves; a pin held around them makes
//! theirs nearly free.

use std::borrow::Borrow;
use std::ops::Bound;

use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_skiplist::SkipMap;

use super::guarded::Guarded;
use super::keys::Form;

/// A skip list over keys of one form.
pub(super) struct SkipList<F: Form>(SkipMap<F::Owned, u64>);

impl<F: Form> Default for SkipList<F> {
    fn default() -> Self {
        Self(SkipMap::new())
    }
}

impl<F: Form> Guarded for SkipList<F> {
    type Guard<'a> = Guard;

    fn guard(&self) -> Guard {
        epoch::pin()
    }

    #[inline]
    fn put(&self, key: &[u8], value: u64, _: &Guard) {
        self.0.insert(F::own(key), value);
    }

    #[inline]
    fn get(&self, key: &[u8], _: &Guard) -> Option<u64> {
        let entry = self.0.get::<F::Query>(F::probe(key).borrow())?;
        Some(*entry.value())
    }

    #[inline]
    fn insert_if_absent(&self, key: &[u8], value: u64, _: &Guard) -> Option<u64> {
        let mut is_new = false;
        let entry = self.0.get_or_insert_with(F::own(key), || {
            is_new = true;
            value
        });
        (!is_new).then(|| *entry.value())
    }

    #[inline]
    fn remove(&self, key: &[u8], _: &Guard) -> bool {
        self.0.remove::<F::Query>(F::probe(key).borrow()).is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], count: usize, _: &Guard, mut visit: impl FnMut(&[u8], u64)) {
        let probe = F::probe(from);
        let range = (Bound::Included(probe.borrow()), Bound::Unbounded);
        for entry in self.0.range::<F::Query, _>(range).take(count) {
            F::show(entry.key(), |key| visit(key, *entry.value()));
        }
    }
}
