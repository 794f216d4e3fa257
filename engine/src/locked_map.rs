//! A locked `BTreeMap` behind the index interface: slow, simple, and right.
//!
//! The index to suspect a tree with: the engine's own tests run over it too, so that a failure
//! tells whose it is.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use hedgerow_index::{Decision, Direction, Index, Statistics};

type Pairs = BTreeMap<Box<[u8]>, Box<[u8]>>;

#[derive(Default)]
pub(crate) struct LockedMap {
    map: RwLock<Pairs>,
}

impl LockedMap {
    // Every change is one call of the BTreeMap, so a panicking callback leaves it whole.
    fn read(&self) -> RwLockReadGuard<'_, Pairs> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index for LockedMap {
    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.read().get(key).map(|value| read(value))
    }

    fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<&[u8]>)) {
        for (i, key) in keys.iter().enumerate() {
            read(i, self.read().get(*key).map(|value| &**value));
        }
    }

    fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> R {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        new.clear();
        match decide(map.get(key).map(|value| &**value), new) {
            Decision::Keep(result) => result,
            Decision::Put(result) => {
                map.insert(key.into(), new.as_slice().into());
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
        let mut pairs = match direction {
            Direction::Forward => map.range::<[u8], _>((from, Bound::Unbounded)),
            Direction::Reverse => map.range::<[u8], _>((Bound::Unbounded, from)),
        };
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
        let cuts = map
            .keys()
            .step_by(step)
            .skip(1)
            .take(parts.saturating_sub(1));
        cuts.map(|key| key.to_vec()).collect()
    }

    fn statistics(&self) -> Statistics {
        let map = self.read();
        let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
        let mut statistics = Statistics::new();
        statistics.push("keys", map.len() as f64, "Keys in the map.");
        statistics.push("payload_bytes", bytes as f64, "Bytes of keys and values.");
        statistics
    }

    fn verify(&self) -> Result<(), String> {
        // The standard library upholds the map's invariants; empty rows would be ours.
        match self.read().iter().find(|(_, value)| value.is_empty()) {
            None => Ok(()),
            Some((key, _)) => Err(format!("an empty value under {}", key.escape_ascii())),
        }
    }
}
