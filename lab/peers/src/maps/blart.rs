//! `blart`: an adaptive radix tree for one thread, in the place of a `BTreeMap`.
//!
//! No key may be a prefix of another. Keys of 8 bytes are not, as they are; others end in a
//! zero byte, which is what the crate's `CString` keys are for, and so may hold no other.

use std::cell::RefCell;
use std::ffi::{CStr, CString};

use blart::TreeMap;

use super::guarded::Guarded;

/// 8-byte keys as arrays.
#[derive(Default)]
pub(super) struct Words(RefCell<TreeMap<[u8; 8], u64>>);

fn word(key: &[u8]) -> [u8; 8] {
    key.try_into().expect("a key of 8 bytes")
}

impl Guarded for Words {
    type Guard<'a> = ();

    fn guard(&self) {}

    #[inline]
    fn put(&self, key: &[u8], value: u64, (): &()) {
        self.0.borrow_mut().insert(word(key), value);
    }

    #[inline]
    fn get(&self, key: &[u8], (): &()) -> Option<u64> {
        self.0.borrow().get(&word(key)).copied()
    }

    #[inline]
    fn remove(&self, key: &[u8], (): &()) -> bool {
        self.0.borrow_mut().remove(&word(key)).is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], count: usize, (): &(), mut visit: impl FnMut(&[u8], u64)) {
        for (key, value) in self.0.borrow().range(word(from)..).take(count) {
            visit(key, *value);
        }
    }
}

/// Byte keys that end in a zero.
#[derive(Default)]
pub(super) struct Terminated {
    map: RefCell<TreeMap<CString, u64>>,
    /// The key looked up, with its zero.
    probe: RefCell<Vec<u8>>,
}

impl Terminated {
    #[inline]
    fn with<R>(&self, key: &[u8], look: impl FnOnce(&CStr) -> R) -> R {
        let mut probe = self.probe.borrow_mut();
        probe.clear();
        probe.extend_from_slice(key);
        probe.push(0);
        look(CStr::from_bytes_with_nul(&probe).expect("a key without zero bytes"))
    }
}

impl Guarded for Terminated {
    type Guard<'a> = ();

    fn guard(&self) {}

    #[inline]
    fn put(&self, key: &[u8], value: u64, (): &()) {
        let key = CString::new(key).expect("a key without zero bytes");
        self.map.borrow_mut().insert(key, value);
    }

    #[inline]
    fn get(&self, key: &[u8], (): &()) -> Option<u64> {
        self.with(key, |key| self.map.borrow().get(key).copied())
    }

    #[inline]
    fn remove(&self, key: &[u8], (): &()) -> bool {
        self.with(key, |key| self.map.borrow_mut().remove(key).is_some())
    }

    #[inline]
    fn scan(&self, from: &[u8], count: usize, (): &(), mut visit: impl FnMut(&[u8], u64)) {
        self.with(from, |from| {
            let map = self.map.borrow();
            let range = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
            for (key, value) in map.range::<CStr, _>(range).take(count) {
                visit(key.as_bytes(), *value);
            }
        });
    }
}
