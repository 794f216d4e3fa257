//! A locked `BTreeMap` behind the index interface: slow, simple, and right.
//!
//! The oracle of tests, behind the feature `locked-map`: they run it beside a tree and compare
//! answers, and keep a keyspace of the engine in it, so that a failure tells whether a tree is to
//! blame.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::{Decision, Direction, Index, IndexError, MAX_KEY_BYTES, Statistics};

type Pairs = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// An ordered map from byte keys to byte values under one lock.
#[derive(Debug, Default)]
pub struct LockedMap {
    map: RwLock<Pairs>,
}

impl LockedMap {
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
        let copies = map.iter().map(|(k, v)| (k.to_vec(), v.to_vec()));
        copies.collect()
    }

    // A panicking callback leaves the map whole (every change is one BTreeMap call), so a
    // poisoned lock is still usable.
    fn read(&self) -> RwLockReadGuard<'_, Pairs> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index for LockedMap {
    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, IndexError> {
        // The callback may use the map: it gets a copy, and the lock is free.
        let value = self.read().get(key).cloned();
        Ok(value.map(|value| read(&value)))
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        for (i, key) in keys.iter().enumerate() {
            let value = self.read().get(*key).cloned();
            read(i, value.as_deref());
        }
        Ok(())
    }

    fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        assert!(key.len() <= MAX_KEY_BYTES, "key of {} bytes", key.len());
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        new.clear();
        Ok(match decide(map.get(key).map(|value| &**value), new) {
            Decision::Keep(result) => result,
            Decision::Put(result) => {
                map.insert(key.into(), new.as_slice().into());
                result
            }
            Decision::Remove(result) => {
                map.remove(key);
                result
            }
        })
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let mut from = from.map(Box::<[u8]>::from);
        loop {
            // A copy of the next pair, as in `get`.
            let pair = {
                let (map, from) = (self.read(), from.as_ref().map(|key| &**key));
                let next = match direction {
                    Direction::Forward => map.range::<[u8], _>((from, Bound::Unbounded)).next(),
                    Direction::Reverse => {
                        map.range::<[u8], _>((Bound::Unbounded, from)).next_back()
                    }
                };
                next.map(|(key, value)| (key.clone(), value.clone()))
            };
            let Some((key, value)) = pair else {
                return Ok(());
            };
            if visit(&key, &value).is_break() {
                return Ok(());
            }
            from = Bound::Excluded(key);
        }
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        let map = self.read();
        let step = map.len().div_ceil(parts.max(1)).max(1);
        let cuts = map.keys().step_by(step).skip(1);
        let cuts = cuts.take(parts.saturating_sub(1));
        Ok(cuts.map(|key| key.to_vec()).collect())
    }

    fn statistics(&self) -> Result<Statistics, IndexError> {
        let map = self.read();
        let bytes: usize = map.iter().map(|(k, v)| k.len() + v.len()).sum();
        let mut statistics = Statistics::new();
        statistics.push("keys", map.len() as f64, "Keys in the map.");
        statistics.push("payload_bytes", bytes as f64, "Bytes of keys and values.");
        Ok(statistics)
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

    fn put(index: &LockedMap, key: &[u8], value: &[u8]) {
        index
            .update(key, &mut Vec::new(), |_, new| {
                new.extend_from_slice(value);
                Decision::Put(())
            })
            .unwrap();
    }

    #[test]
    fn updates_read_back_and_scans_honour_bounds() {
        let index = LockedMap::new();
        for key in [&b""[..], b"a", b"a\0", b"b"] {
            put(&index, key, key);
        }
        let seen = |from, direction| {
            let mut keys = Vec::new();
            index
                .scan(from, direction, |key, _| {
                    keys.push(key.to_vec());
                    ControlFlow::Continue(())
                })
                .unwrap();
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
        index
            .update(b"a", &mut Vec::new(), |old, _| {
                assert_eq!(old, Some(&b"a"[..]));
                Decision::Remove(())
            })
            .unwrap();
        assert_eq!(index.get(b"a", <[u8]>::len).unwrap(), None);
        assert_eq!(index.partition(2).unwrap(), [b"b".to_vec()]);
    }
}
