//! Sets of integers, as the Matryoshka report has them: an ordered map to nothing.
//!
//! The lab asks maps for values. A set answers with [`value_of`] the key that it found, computed
//! from that key, and forgets the values that it is told to store; the lab's models do the same
//! for whoever [keeps keys only](hedgerow_lab_contender::Promises::keys_only). So a tally tells a
//! wrong key from the right one, and all sets pay the same few instructions for it.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{BulkLoad, Direction, IntIndex};
use hedgerow_lab_contender::{Map, Tally, value_of};
use hedgerow_lab_data::KeyRange;

use super::integers::Integer;

/// An index of integers to `()` behind a `RefCell`, whose flag costs nothing next to a cache miss;
/// `GROUPS` says whether it overlaps lookups that come in groups.
#[derive(Debug)]
pub struct IntegerSet<K, T, const GROUPS: bool>(pub(super) RefCell<T>, PhantomData<K>);

impl<K, T: Default, const GROUPS: bool> Default for IntegerSet<K, T, GROUPS> {
    fn default() -> Self {
        Self(RefCell::default(), PhantomData)
    }
}

/// What a set says of a key that it holds.
#[inline]
fn said_of<K: Integer>(key: K) -> u64 {
    key.show(value_of)
}

/// Visits `count` keys, which is not 0.
fn scan<K: Integer, T: IntIndex<K, Value = ()>>(
    set: &T,
    from: &[u8],
    count: usize,
    mut visit: impl FnMut(K),
) {
    let mut left = count;
    let from = Bound::Included(K::of(from));
    set.scan(from, Direction::Forward, |key, ()| {
        visit(key);
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
}

impl<K, T, const GROUPS: bool> Map for IntegerSet<K, T, GROUPS>
where
    K: Integer,
    T: BulkLoad<K> + IntIndex<K, Value = ()>,
{
    fn put(&self, key: &[u8], _: u64) {
        self.0.borrow_mut().insert(K::of(key), ());
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let found = self.0.borrow().get(K::of(key));
        found.map(|()| value_of(key))
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.borrow_mut().remove(K::of(key)).is_some()
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        if !GROUPS {
            return None;
        }
        let set = self.0.borrow();
        let mut tally = Tally::default();
        let mut integers = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            integers.clear();
            integers.extend(some.iter().map(K::of));
            set.get_many(&integers, |at, found| {
                tally.count(found.map(|()| said_of(integers[at])));
            });
        }
        Some(tally)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        if count > 0 {
            scan(&*self.0.borrow(), from, count, |key: K| {
                key.show(|key| visit(key, value_of(key)));
            });
        }
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        let pairs = keys.iter().map(|key| (K::of(key), ()));
        let loaded = self.0.borrow_mut().bulk_load(pairs);
        loaded.expect("a sorted run of keys ascends");
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        let set = self.0.borrow();
        for from in keys.iter().filter(|_| count > 0) {
            scan(&*set, from, count, |key: K| {
                tally.count(Some(said_of(key)));
            });
        }
        tally
    }
}
