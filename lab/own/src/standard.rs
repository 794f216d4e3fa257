//! The standard library's `BTreeMap`: the model, and a mark that everyone knows.
//!
//! Keys up to 22 bytes lie in its nodes, longer ones in a block of their own: kinder to it than
//! a block for each, and no more than a user could do. Whose keys are integers would have a map
//! of integers: see [`integers`](super::integers).

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
