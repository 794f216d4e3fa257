//! Cursors of `SCAN`: integers that stand for positions in key order.
//!
//! `SCAN` walks keys in order, so its position is a key, and a scan survives any change of the
//! data: it returns every key that stays exactly once. But Redis clients expect an integer. So the
//! server stores the last key of each answer under a number, in a ring of the latest [`CURSORS`]
//! numbers and at most [`CURSOR_BYTES`] bytes of keys. A cursor stays valid, however often it is
//! used, until that many others follow it; an older one, or one from before a restart, is an error
//! that says to begin again, never a wrong answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// How many cursors are remembered.
const CURSORS: usize = 65_536;
/// How many bytes their keys may have together.
const CURSOR_BYTES: usize = 16 << 20;

/// The remembered positions.
pub(crate) struct Cursors {
    ring: Mutex<Ring>,
}

struct Ring {
    /// The number of the first key.
    first: u64,
    keys: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Cursors {
    pub(crate) fn new() -> Cursors {
        // A random beginning tells cursors of different runs apart.
        let first = rand::random_range(1..1u64 << 40) << 12;
        let ring = Ring {
            first,
            keys: VecDeque::new(),
            bytes: 0,
        };
        Cursors {
            ring: Mutex::new(ring),
        }
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        // Each change leaves the ring whole.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that a scan returned everything up to `key`.
    pub(crate) fn remember(&self, key: &[u8]) -> u64 {
        let mut ring = self.ring();
        ring.bytes += key.len();
        ring.keys.push_back(key.into());
        while ring.keys.len() > CURSORS || (ring.bytes > CURSOR_BYTES && ring.keys.len() > 1) {
            if let Some(forgotten) = ring.keys.pop_front() {
                ring.bytes -= forgotten.len();
                ring.first += 1;
            }
        }
        ring.first + ring.keys.len() as u64 - 1
    }

    /// The key behind a cursor; `None` if it is not remembered.
    pub(crate) fn recall(&self, cursor: u64) -> Option<Box<[u8]>> {
        let ring = self.ring();
        let place = usize::try_from(cursor.checked_sub(ring.first)?).ok()?;
        ring.keys.get(place).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_remembered_within_bounds() {
        let cursors = Cursors::new();
        let first = cursors.remember(b"a");
        assert_ne!(first, 0, "0 means the end");
        assert_eq!(cursors.recall(first).as_deref(), Some(&b"a"[..]));
        assert_eq!(cursors.recall(first - 1), None);
        assert_eq!(cursors.recall(first + 1), None);
        for i in 0..CURSORS as u64 {
            assert_eq!(cursors.remember(b"b"), first + 1 + i);
        }
        assert_eq!(cursors.recall(first), None, "forgotten");
        assert_eq!(cursors.recall(first + 1).as_deref(), Some(&b"b"[..]));
        let long = vec![0; CURSOR_BYTES];
        let last = cursors.remember(&long);
        assert_eq!(
            cursors.recall(last).map(|key| key.len()),
            Some(CURSOR_BYTES)
        );
        assert_eq!(cursors.ring().keys.len(), 1);
    }
}
