//! `indexset`: a B-tree of two levels, its leaves vectors of up to 1024 pairs.
//!
//! The form for one thread is the one that the crate calls stable; the one for many threads
//! (a skip list of latched leaves) is in beta, and looks up by whole keys only, so that byte
//! keys of any length would cost an allocation each: it is measured with keys in place.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::ops::Bound;

use indexset::{BTreeMap, concurrent};

use super::guarded::Guarded;
use super::keys::Form;

/// The form for one thread.
pub(super) struct Single<F: Form>(RefCell<BTreeMap<F::Owned, u64>>);

impl<F: Form> Default for Single<F> {
    fn default() -> Self {
        Self(RefCell::new(BTreeMap::new()))
    }
}

impl<F: Form> Guarded for Single<F> {
    type Guard<'a> = ();

    fn guard(&self) {}

    #[inline]
    fn put(&self, key: &[u8], value: u64, (): &()) {
        self.0.borrow_mut().insert(F::own(key), value);
    }

    #[inline]
    fn get(&self, key: &[u8], (): &()) -> Option<u64> {
        let map = self.0.borrow();
        map.get::<F::Query>(F::probe(key).borrow()).copied()
    }

    #[inline]
    fn remove(&self, key: &[u8], (): &()) -> bool {
        let mut map = self.0.borrow_mut();
        map.remove::<F::Query>(F::probe(key).borrow()).is_some()
    }

    #[inline]
    fn scan(&self, start: &[u8], count: usize, (): &(), mut visit: impl FnMut(&[u8], u64)) {
        let map = self.0.borrow();
        let probe = F::probe(start);
        let range: (Bound<&F::Query>, Bound<&F::Query>) =
            (Bound::Included(probe.borrow()), Bound::Unbounded);
        for (key, value) in map.range::<F::Query, _>(range).take(count) {
            F::show(key, |key| visit(key, *value));
        }
    }
}

/// The form for many threads.
pub(super) struct Concurrent<F: Form>(concurrent::map::BTreeMap<F::Owned, u64>)
where
    F::Owned: std::fmt::Debug;

impl<F: Form> Default for Concurrent<F>
where
    F::Owned: std::fmt::Debug,
{
    fn default() -> Self {
        Self(concurrent::map::BTreeMap::new())
    }
}

impl<F: Form> Guarded for Concurrent<F>
where
    F::Owned: std::fmt::Debug,
{
    type Guard<'a> = ();

    fn guard(&self) {}

    #[inline]
    fn put(&self, key: &[u8], value: u64, (): &()) {
        self.0.insert(F::own(key), value);
    }

    #[inline]
    fn get(&self, key: &[u8], (): &()) -> Option<u64> {
        let pair = self.0.get(&F::own(key))?;
        Some(pair.get().value)
    }

    #[inline]
    fn remove(&self, key: &[u8], (): &()) -> bool {
        self.0.remove(&F::own(key)).is_some()
    }

    #[inline]
    fn scan(&self, start: &[u8], count: usize, (): &(), mut visit: impl FnMut(&[u8], u64)) {
        for (key, value) in self.0.range(F::own(start)..).take(count) {
            F::show(key, |key| visit(key, *value));
        }
    }
}
