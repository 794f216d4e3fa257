//! [`hedgerow_index::Index`]: how the engine sees the tree.

use std::ops::Bound;

use hedgerow_index::{
    Decide, Index, IndexError, RangeDecision, ScanRange, Statistics, StatisticsKind, ValuePart,
    Visit,
};

use crate::configuration::Configuration;
use crate::mapping_table::Entries;
use crate::tree::BwTree;

/// Values lie in memory, so a head is all of its value.
impl<C: Configuration<Entries: Entries<Sharing = ()>>> Index for BwTree<C> {
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
        BwTree::get_many(self, keys, read);
        Ok(())
    }

    fn prefetch_many(&self, keys: &[&[u8]]) {
        BwTree::prefetch_many(self, keys);
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

    fn remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> Result<(), IndexError> {
        BwTree::remove_range(self, from, to, decide);
        Ok(())
    }

    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError> {
        self.scan_range(range, visit);
        Ok(())
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        Ok(BwTree::partition(self, parts))
    }

    fn statistics(&self, kind: StatisticsKind) -> Result<Statistics, IndexError> {
        Ok(match kind {
            StatisticsKind::Counters => self.counters(),
            StatisticsKind::All => BwTree::statistics(self),
        })
    }

    fn verify(&self) -> Result<(), String> {
        BwTree::verify(self)
    }
}
