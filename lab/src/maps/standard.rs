//! The standard library's `BTreeMap`: the model, and a mark that everyone knows.
//!
//! Its keys are fixed arrays padded with zeros, which is kinder to it than boxed byte strings.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::ContenderMap;
use crate::keys::Key;

/// `BTreeMap` behind a `RefCell`, whose flag costs nothing next to a cache miss.
pub struct BTreeMark(RefCell<BTreeMap<[u8; 15], (u8, u64)>>);

impl ContenderMap for BTreeMark {
    fn new() -> Self {
        Self(RefCell::default())
    }

    fn put(&self, key: &Key, value: u64) {
        self.0
            .borrow_mut()
            .insert(key.padded(), (key.as_slice().len() as u8, value));
    }

    fn get(&self, key: &Key) -> Option<u64> {
        self.0.borrow().get(&key.padded()).map(|&(_, value)| value)
    }

    fn remove(&self, key: &Key) -> bool {
        self.0.borrow_mut().remove(&key.padded()).is_some()
    }

    fn scan(&self, from: &Key, count: usize, mut visit: impl FnMut(&[u8], u64)) {
        for (key, &(len, value)) in self.0.borrow().range(from.padded()..).take(count) {
            visit(&key[..usize::from(len)], value);
        }
    }
}
