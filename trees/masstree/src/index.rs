//! [`hedgerow_index::Index`] for trees of byte strings: how the engine sees Masstree.

use hedgerow_index::{
    Decide, Index, IndexError, ScanRange, Statistics, StatisticsKind, ValuePart, Visit,
};

use crate::configuration::Concurrent;
use crate::tree::Masstree;
use crate::value::Bytes;

/// Values lie in memory, so a head is all of its value.
impl Index for Masstree<Bytes, Concurrent> {
    fn get(
        &self,
        key: &[u8],
        _part: ValuePart,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError> {
        self.get_with(key, read);
        Ok(())
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        Masstree::<Bytes, Concurrent>::get_many(self, keys, read);
        Ok(())
    }

    fn prefetch_many(&self, keys: &[&[u8]]) {
        Masstree::prefetch_many(self, keys);
    }

    fn update(
        &self,
        key: &[u8],
        _part: ValuePart,
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        self.update_with(key, new, decide);
        Ok(())
    }

    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError> {
        self.scan_range(range, visit);
        Ok(())
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        Ok(Masstree::partition(self, parts))
    }

    fn statistics(&self, kind: StatisticsKind) -> Result<Statistics, IndexError> {
        Ok(match kind {
            StatisticsKind::Counters => self.counters(),
            StatisticsKind::All => Masstree::statistics(self),
        })
    }

    fn verify(&self) -> Result<(), String> {
        Masstree::verify(self)
    }
}
