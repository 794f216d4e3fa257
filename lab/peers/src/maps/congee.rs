//! `congee`: a concurrent adaptive radix tree with optimistic lock coupling, for 8-byte keys.

use std::cell::RefCell;

use congee::U64Congee;
use congee::epoch::{self, Guard};

use super::guarded::Guarded;

thread_local! {
    /// Where scans put their pairs: kept, as a user who scans often would.
    static FOUND: RefCell<Vec<([u8; 8], usize)>> = const { RefCell::new(Vec::new()) };
}

/// The tree with values in its nodes.
#[derive(Default)]
pub(super) struct Radix(U64Congee<usize>);

fn word(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("a key of 8 bytes"))
}

impl Guarded for Radix {
    type Guard<'a> = Guard;

    fn guard(&self) -> Guard {
        epoch::pin()
    }

    #[inline]
    fn put(&self, key: &[u8], value: u64, guard: &Guard) {
        let inserted = self.0.insert(word(key), value as usize, guard);
        assert!(inserted.is_ok(), "congee is out of memory");
    }

    #[inline]
    fn get(&self, key: &[u8], guard: &Guard) -> Option<u64> {
        self.0.get(word(key), guard).map(|value| value as u64)
    }

    #[inline]
    fn remove(&self, key: &[u8], guard: &Guard) -> bool {
        self.0.remove(word(key), guard).is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], count: usize, guard: &Guard, mut visit: impl FnMut(&[u8], u64)) {
        FOUND.with_borrow_mut(|found| {
            found.resize(count, ([0; 8], 0));
            let pairs = self.0.range(word(from), u64::MAX, found, guard);
            for (key, value) in &found[..pairs] {
                visit(key, *value as u64);
            }
        });
    }
}
