//! A locked `BTreeMap` that implements the index interface: slow, simple, and right.
//!
//! Tests run it beside a real tree and compare answers; the engine can be tested over it without
//! any tree at all.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{PoisonError, RwLock};

use hedgerow_index::{Decision, Direction, Index, MAX_KEY_BYTES, Statistics};

/// The oracle: an ordered map from byte keys to byte values under one lock.
#[derive(Debug, Default)]
pub struct ModelIndex {
    map: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl ModelIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// A copy of everything, in key order.
    pub fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let map = self.read();
        map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    // A panicking callback leaves the map whole (every change is one BTreeMap call), so a
    // poisoned lock is still usable.
    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index for ModelIndex {
    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.read().get(key).map(|value| read(value))
    }

    fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<&[u8]>)) {
        for (i, key) in keys.iter().enumerate() {
            read(i, self.read().get(*key).map(Vec::as_slice));
        }
    }

    fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> R {
        assert!(key.len() <= MAX_KEY_BYTES, "key of {} bytes", key.len());
        let mut map = self.write();
        new.clear();
        match decide(map.get(key).map(Vec::as_slice), new) {
            Decision::Keep(result) => result,
            Decision::Put(result) => {
                map.insert(key.to_vec(), new.clone());
                result
            }
            Decision::Remove(result) => {
                map.remove(key);
                result
            }
        }
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        let map = self.read();
        let range = match direction {
            Direction::Forward => (from, Bound::Unbounded),
            Direction::Reverse => (Bound::Unbounded, from),
        };
        let mut pairs = map.range::<[u8], _>(range);
        while let Some((key, value)) = match direction {
            Direction::Forward => pairs.next(),
            Direction::Reverse => pairs.next_back(),
        } {
            if visit(key, value).is_break() {
                return;
            }
        }
    }

    fn partition(&self, parts: usize) -> Vec<Vec<u8>> {
        let map = self.read();
        let step = map.len().div_ceil(parts.max(1)).max(1);
        let cuts = map.keys().step_by(step).skip(1);
        cuts.take(parts.saturating_sub(1)).cloned().collect()
    }

    fn statistics(&self) -> Statistics {
        let map = self.read();
        let bytes: usize = map.iter().map(|(k, v)| k.len() + v.len()).sum();
        let mut statistics = Statistics::new();
        statistics.push("keys", map.len() as f64, "Keys in the map");
        statistics.push("payload_bytes", bytes as f64, "Bytes of keys and values");
        statistics
    }

    fn verify(&self) -> Result<(), String> {
        match self.read().keys().find(|key| key.len() > MAX_KEY_BYTES) {
            None => Ok(()),
            Some(key) => Err(format!("a key of {} bytes is over the limit", key.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(index: &ModelIndex, key: &[u8], value: &[u8]) {
        index.update(key, &mut Vec::new(), |_, new| {
            new.extend_from_slice(value);
            Decision::Put(())
        });
    }

    #[test]
    fn updates_read_back_and_scans_honour_bounds() {
        let index = ModelIndex::new();
        for key in [&b""[..], b"a", b"a\0", b"b"] {
            put(&index, key, key);
        }
        let seen = |from, direction| {
            let mut keys = Vec::new();
            index.scan(from, direction, |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            });
            keys
        };
        assert_eq!(
            seen(Bound::Excluded(b"a"), Direction::Forward),
            [&b"a\0"[..], b"b"]
        );
        assert_eq!(
            seen(Bound::Included(b"a"), Direction::Reverse),
            [&b"a"[..], b""]
        );
        index.update(b"a", &mut Vec::new(), |old, _| {
            assert_eq!(old, Some(&b"a"[..]));
            Decision::Remove(())
        });
        assert_eq!(index.get(b"a", <[u8]>::len), None);
        assert_eq!(index.partition(2), [b"b".to_vec()]);
    }
}
