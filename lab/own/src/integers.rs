//! Maps of integers, of whatever kind: whoever implements `IntIndex` is a contender.
//!
//! Such a map has a key's integer in its nodes and nothing else; the adaptor reads it from the
//! key's big-endian bytes, which sort as the integers do. Ours and the standard library's take
//! the same way.

use std::cell::RefCell;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{BulkLoad, Direction, IntIndex, IntKey};
use hedgerow_lab_contender::{Map, Tally, value_of};
use hedgerow_lab_data::KeyRange;

/// An integer that is a key: its big-endian bytes sort as it does.
pub trait Integer: IntKey {
    /// How many bytes it has.
    const BYTES: usize;

    /// The integer of a key of so many bytes.
    fn of(key: &[u8]) -> Self;

    /// Shows the key.
    fn show<R>(self, visit: impl FnOnce(&[u8]) -> R) -> R;
}

macro_rules! integer {
    ($type:ty) => {
        impl Integer for $type {
            const BYTES: usize = size_of::<Self>();

            #[inline]
            fn of(key: &[u8]) -> Self {
                Self::from_be_bytes(key.try_into().expect("a key of the integer's width"))
            }

            #[inline]
            fn show<R>(self, visit: impl FnOnce(&[u8]) -> R) -> R {
                visit(&self.to_be_bytes())
            }
        }
    };
}

integer!(u32);
integer!(u64);

/// An index of integers behind a `RefCell`, whose flag costs nothing next to a cache miss;
/// `GROUPS` says whether it overlaps lookups that come in groups.
#[derive(Debug)]
pub struct Integers<K, T, const GROUPS: bool>(pub(super) RefCell<T>, PhantomData<K>);

impl<K, T: Default, const GROUPS: bool> Default for Integers<K, T, GROUPS> {
    fn default() -> Self {
        Self(RefCell::default(), PhantomData)
    }
}

/// Visits `count` pairs, which is not 0.
fn scan<K: Integer, T: IntIndex<K, Value = u64>>(
    map: &T,
    from: &[u8],
    count: usize,
    mut visit: impl FnMut(K, u64),
) {
    let mut left = count;
    let from = Bound::Included(K::of(from));
    map.scan(from, Direction::Forward, |key, value| {
        visit(key, value);
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
}

impl<K, T, const GROUPS: bool> Map for Integers<K, T, GROUPS>
where
    K: Integer,
    T: BulkLoad<K> + IntIndex<K, Value = u64>,
{
    fn put(&self, key: &[u8], value: u64) {
        self.0.borrow_mut().insert(K::of(key), value);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.borrow().get(K::of(key))
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.borrow_mut().remove(K::of(key)).is_some()
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        if !GROUPS {
            return None;
        }
        let map = self.0.borrow();
        let mut tally = Tally::default();
        let mut integers = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            integers.clear();
            integers.extend(some.iter().map(K::of));
            map.get_many(&integers, |_, value| tally.count(value));
        }
        Some(tally)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        if count > 0 {
            scan(&*self.0.borrow(), from, count, |key: K, value| {
                key.show(|key| visit(key, value));
            });
        }
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        let pairs = keys.iter().map(|key| (K::of(key), value_of(key)));
        let loaded = self.0.borrow_mut().bulk_load(pairs);
        loaded.expect("a sorted run of keys ascends");
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        let map = self.0.borrow();
        for from in keys.iter().filter(|_| count > 0) {
            scan(&*map, from, count, |key: K, value| {
                black_box(key);
                tally.count(Some(value));
            });
        }
        tally
    }
}
