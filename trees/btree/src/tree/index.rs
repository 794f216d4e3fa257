//! The tree as an [`Index`] of the engine.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{
    Decision, Direction, Index, IndexError, IndexErrorKind, KeySpan, RangeDecision, Statistics,
};
use hedgerow_pages::Error;

use super::BTreeIndex;
use super::descend::SearchTarget;
use crate::configuration::Configuration;

/// A failure of the pool as an error of an index.
#[cold]
fn index_error(error: &Error, keys: impl FnOnce() -> Option<KeySpan>) -> IndexError {
    let kind = match error {
        Error::CorruptPage { .. } | Error::CorruptTable { .. } | Error::Truncated { .. } => {
            IndexErrorKind::Damaged
        }
        error if error.is_disk_full() => IndexErrorKind::DiskFull,
        Error::OutOfPages { .. } => IndexErrorKind::DiskFull,
        Error::OutOfMemory { .. } | Error::AddressSpace { .. } => IndexErrorKind::OutOfMemory,
        _ => IndexErrorKind::Io,
    };
    let index_error = IndexError::new(kind, error.to_string());
    match error {
        Error::CorruptPage { .. } | Error::PageRead { .. } => match keys() {
            Some(keys) => index_error.of_keys(keys),
            None => index_error,
        },
        _ => index_error,
    }
}

impl<C: Configuration, const PAGE: usize> Index for BTreeIndex<C, PAGE> {
    #[inline]
    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, IndexError> {
        self.get(key, read)
            .map_err(|error| index_error(&error, || self.lost_on(&[], SearchTarget::Key(key))))
    }

    fn get_by_head<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, IndexError> {
        self.get_by_head(key, read)
            .map_err(|error| index_error(&error, || self.lost_on(&[], SearchTarget::Key(key))))
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        self.get_many(keys, read).map_err(|error| {
            let lost = |key: &&[u8]| self.lost_on(&[], SearchTarget::Key(key));
            index_error(&error, || keys.iter().find_map(lost))
        })
    }

    fn prefetch_many(&self, keys: &[&[u8]]) {
        self.load_leaves(keys);
    }

    #[inline]
    fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        self.update(key, new, decide)
            .map_err(|error| index_error(&error, || self.lost_on(&[], SearchTarget::Key(key))))
    }

    #[inline]
    fn update_by_head<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        self.update_by_head(key, new, decide)
            .map_err(|error| index_error(&error, || self.lost_on(&[], SearchTarget::Key(key))))
    }

    fn remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> Result<(), IndexError> {
        self.remove_to_failure(from, to, decide)
            .map_err(|(error, key)| {
                index_error(&error, || self.lost_on(&[], SearchTarget::Key(&key)))
            })
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        Index::scan_up_to(self, from, Bound::Unbounded, direction, usize::MAX, visit)
    }

    fn scan_up_to(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.scan_to_failure((from, to), direction, most, visit)
            .map_err(|(error, keys)| index_error(&error, || keys))
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        self.partition(parts)
            .map_err(|error| index_error(&error, || None))
    }

    fn statistics(&self) -> Result<Statistics, IndexError> {
        Ok(self.statistics())
    }

    fn counters(&self) -> Statistics {
        self.counters()
    }

    fn verify(&self) -> Result<(), String> {
        self.verify()
    }
}
