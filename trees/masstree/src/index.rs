//! [`hedgerow_index::Index`] for trees of byte strings: how the engine sees Masstree.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Decision, Direction, Index, IndexError, Statistics};

use crate::configuration::Concurrent;
use crate::tree::Masstree;
use crate::update::Change;
use crate::value::Bytes;

impl Index for Masstree<Bytes, Concurrent> {
    #[inline]
    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, IndexError> {
        Ok(self.get_with(key, read))
    }

    #[inline]
    fn get_many(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        Masstree::<Bytes, Concurrent>::get_many(self, keys, read);
        Ok(())
    }

    fn prefetch_many(&self, keys: &[&[u8]]) {
        Masstree::prefetch_many(self, keys);
    }

    #[inline]
    fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        Ok(self.modify(key, |present| {
            new.clear();
            // SAFETY: the word is in its slot, whose node is latched during this call.
            let present = present.map(|word| unsafe { Bytes::load(word) });
            match decide(present, new) {
                Decision::Keep(result) => Change::Keep(result),
                Decision::Put(result) => Change::Put(Bytes::store(new), result),
                Decision::Remove(result) => Change::Remove(result),
            }
        }))
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        Masstree::<Bytes, Concurrent>::scan(self, from, direction, visit);
        Ok(())
    }

    fn scan_keys(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        Masstree::<Bytes, Concurrent>::scan_keys(self, from, direction, visit);
        Ok(())
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        Ok(Masstree::partition(self, parts))
    }

    fn statistics(&self) -> Result<Statistics, IndexError> {
        Ok(Masstree::statistics(self))
    }

    fn counters(&self) -> Statistics {
        Masstree::counters(self)
    }

    fn verify(&self) -> Result<(), String> {
        Masstree::verify(self)
    }
}
