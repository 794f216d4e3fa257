//! The standard library's `BTreeMap`: the model, and a mark that everyone knows.
//!
//! Keys up to 22 bytes lie in its nodes, longer ones in a block of their own: kinder to it than
//! a block for each, and no more than a user could do. Whose keys are integers would have a map
//! of integers, so there is one of each width.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound;

use hedgerow_lab_contender::{Map, Tally, value_of};
use hedgerow_lab_data::KeyRange;

const INLINE_BYTES: usize = 22;

/// A byte string that is short as a rule.
#[derive(Debug, Clone)]
enum ByteKey {
    Inline([u8; INLINE_BYTES], u8),
    Block(Box<[u8]>),
}

impl ByteKey {
    #[inline]
    fn new(key: &[u8]) -> Self {
        if key.len() > INLINE_BYTES {
            return Self::Block(key.into());
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..key.len()].copy_from_slice(key);
        Self::Inline(bytes, key.len() as u8)
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline(bytes, len) => &bytes[..usize::from(*len)],
            Self::Block(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for ByteKey {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for ByteKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for ByteKey {}

impl PartialOrd for ByteKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByteKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

fn all_from(from: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(from), Bound::Unbounded)
}

/// `BTreeMap` behind a `RefCell`, whose flag costs nothing next to a cache miss.
#[derive(Debug, Default)]
pub struct BTreeMark(RefCell<BTreeMap<ByteKey, u64>>);

impl Map for BTreeMark {
    fn put(&self, key: &[u8], value: u64) {
        self.0.borrow_mut().insert(ByteKey::new(key), value);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.borrow().get(key).copied()
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.borrow_mut().remove(key).is_some()
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        for (key, &value) in self.0.borrow().range::<[u8], _>(all_from(from)).take(count) {
            visit(key.as_slice(), value);
        }
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        let pairs = keys.iter().map(|key| (ByteKey::new(key), value_of(key)));
        *self.0.borrow_mut() = pairs.collect();
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        let map = self.0.borrow();
        for from in keys.iter() {
            for (key, &value) in map.range::<[u8], _>(all_from(from)).take(count) {
                black_box(key.as_slice());
                tally.count(Some(value));
            }
        }
        tally
    }
}

/// An integer that is a key: its big-endian bytes sort as it does.
pub trait Integer: Ord + Copy + 'static {
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

/// `BTreeMap` of integers behind a `RefCell`.
#[derive(Debug)]
pub struct IntegerMark<K>(RefCell<BTreeMap<K, u64>>);

impl<K> Default for IntegerMark<K> {
    fn default() -> Self {
        Self(RefCell::new(BTreeMap::new()))
    }
}

impl<K: Integer> Map for IntegerMark<K> {
    fn put(&self, key: &[u8], value: u64) {
        self.0.borrow_mut().insert(K::of(key), value);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.borrow().get(&K::of(key)).copied()
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.borrow_mut().remove(&K::of(key)).is_some()
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        for (key, &value) in self.0.borrow().range(K::of(from)..).take(count) {
            key.show(|key| visit(key, value));
        }
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        let pairs = keys.iter().map(|key| (K::of(key), value_of(key)));
        *self.0.borrow_mut() = pairs.collect();
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        let map = self.0.borrow();
        for from in keys.iter() {
            for (&key, &value) in map.range(K::of(from)..).take(count) {
                black_box(key);
                tally.count(Some(value));
            }
        }
        tally
    }
}
