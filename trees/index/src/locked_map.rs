//! A locked `BTreeMap` behind the index interface: slow, simple, and right.
//!
//! The oracle of tests, behind the feature `locked-map`: they run it beside a tree and compare
//! answers, and keep a keyspace of the engine in it, so that a failure tells whether a tree is to
//! blame.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::{
    Decide, Decision, Direction, Index, IndexError, MAX_KEY_BYTES, ScanRange, Statistics,
    StatisticsKind, ValuePart, Visit,
};

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
        self.lock_shared().len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.lock_shared().is_empty()
    }

    /// A copy of everything, in key order.
    pub fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let map = self.lock_shared();
        let copies = map.iter().map(|(k, v)| (k.to_vec(), v.to_vec()));
        copies.collect()
    }

    // A panicking callback leaves the map whole (every change is one BTreeMap call), so a
    // poisoned lock is still usable.
    fn lock_shared(&self) -> RwLockReadGuard<'_, Pairs> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index for LockedMap {
    fn get(
        &self,
        key: &[u8],
        _part: ValuePart,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError> {
        // The callback may use the map: it gets a copy, and the lock is free.
        let value = self.lock_shared().get(key).cloned();
        if let Some(value) = value {
            read(&value);
        }
        Ok(())
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        for (i, key) in keys.iter().enumerate() {
            let value = self.lock_shared().get(*key).cloned();
            read(i, value.as_deref());
        }
        Ok(())
    }

    fn update(
        &self,
        key: &[u8],
        _part: ValuePart,
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        assert!(key.len() <= MAX_KEY_BYTES, "key of {} bytes", key.len());
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        new.clear();
        match decide(map.get(key).map(|value| &**value), new) {
            Decision::Keep(()) => {}
            Decision::Put(()) => {
                map.insert(key.into(), new.as_slice().into());
            }
            Decision::Remove(()) => {
                map.remove(key);
            }
        }
        Ok(())
    }

    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError> {
        let mut last: Option<Box<[u8]>> = None;
        for _ in 0..range.limit {
            let from = last.as_deref().map_or(range.from, Bound::Excluded);
            let rest = ScanRange { from, ..*range };
            // `BTreeMap::range` panics on bounds in the wrong order.
            if rest.is_empty() {
                return Ok(());
            }
            // A copy of the next pair, as in `get`.
            let pair = {
                let map = self.lock_shared();
                let mut pairs = map.range::<[u8], _>(rest.bounds());
                let next = match range.direction {
                    Direction::Forward => pairs.next(),
                    Direction::Reverse => pairs.next_back(),
                };
                next.map(|(key, value)| (key.clone(), value.clone()))
            };
            let Some((key, value)) = pair else {
                return Ok(());
            };
            if visit(&key, &value).is_break() {
                return Ok(());
            }
            last = Some(key);
        }
        Ok(())
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        let map = self.lock_shared();
        let step = map.len().div_ceil(parts.max(1)).max(1);
        let cuts = map.keys().step_by(step).skip(1);
        let cuts = cuts.take(parts.saturating_sub(1));
        Ok(cuts.map(|key| key.to_vec()).collect())
    }

    fn statistics(&self, kind: StatisticsKind) -> Result<Statistics, IndexError> {
        if kind == StatisticsKind::Counters {
            return Ok(Statistics::new());
        }
        let map = self.lock_shared();
        let bytes: usize = map.iter().map(|(k, v)| k.len() + v.len()).sum();
        let mut statistics = Statistics::new();
        statistics.push("keys", map.len() as f64, "Keys in the map.");
        statistics.push("payload_bytes", bytes as f64, "Bytes of keys and values.");
        Ok(statistics)
    }

    fn verify(&self) -> Result<(), String> {
        match self
            .lock_shared()
            .keys()
            .find(|key| key.len() > MAX_KEY_BYTES)
        {
            None => Ok(()),
            Some(key) => Err(format!("a key of {} bytes is over the limit", key.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::IndexExt;

    fn put(index: &LockedMap, key: &[u8], value: &[u8]) {
        let put = index.update(key, ValuePart::Whole, &mut Vec::new(), &mut |_, new| {
            new.extend_from_slice(value);
            Decision::Put(())
        });
        put.unwrap();
    }

    #[test]
    fn updates_read_back_and_scans_honour_bounds() {
        let index = LockedMap::new();
        for key in [&b""[..], b"a", b"a\0", b"b"] {
            put(&index, key, key);
        }
        let seen = |range: ScanRange<'_>| {
            let mut keys = Vec::new();
            let visit = &mut |key: &[u8], _: &[u8]| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            };
            index.scan(&range, visit).unwrap();
            keys
        };
        let (forward, reverse) = (Direction::Forward, Direction::Reverse);
        let above = ScanRange::starting_at(Bound::Excluded(b"a"), forward);
        assert_eq!(seen(above), [&b"a\0"[..], b"b"]);
        assert_eq!(seen(above.limited(1)), [&b"a\0"[..]]);
        assert!(seen(above.limited(0)).is_empty());
        let below = ScanRange::starting_at(Bound::Included(b"a"), reverse);
        assert_eq!(seen(below), [&b"a"[..], b""]);
        let inner = (Bound::Included(&b"a"[..]), Bound::Excluded(&b"b"[..]));
        assert_eq!(
            seen(ScanRange::between(inner, forward)),
            [&b"a"[..], b"a\0"]
        );
        assert_eq!(
            seen(ScanRange::between(inner, reverse)),
            [&b"a\0"[..], b"a"]
        );
        let inverted = (inner.1, Bound::Included(&b"a"[..]));
        assert!(seen(ScanRange::between(inverted, forward)).is_empty());
        let remove = index.modify(b"a", ValuePart::Whole, &mut Vec::new(), |old, _| {
            assert_eq!(old, Some(&b"a"[..]));
            Decision::Remove(7)
        });
        assert_eq!(remove.unwrap(), 7);
        let length = index.read(b"a", ValuePart::Whole, <[u8]>::len);
        assert_eq!(length.unwrap(), None);
        assert_eq!(index.partition(2).unwrap(), [b"b".to_vec()]);
    }
}
