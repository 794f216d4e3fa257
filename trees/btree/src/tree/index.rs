//! The tree as an [`Index`] of the engine.

use std::ops::Bound;

use hedgerow_index::{
    Decide, Index, IndexError, IndexErrorKind, KeySpan, RangeDecision, ScanRange, Statistics,
    StatisticsKind, ValuePart, Visit,
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

/// What failed, as an [`Index`] says it: for callers whose callbacks are to be compiled into
/// [`get_part`](BTreeIndex::get_part), [`update_part`](BTreeIndex::update_part) and
/// [`get_many`](BTreeIndex::get_many).
impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// The failure of an operation on a key.
    #[cold]
    pub fn key_error(&self, error: &Error, key: &[u8]) -> IndexError {
        index_error(error, || self.lost_on(&[], SearchTarget::Key(key)))
    }

    /// The failure of an operation on keys.
    #[cold]
    pub fn keys_error(&self, error: &Error, keys: &[&[u8]]) -> IndexError {
        let lost = |key: &&[u8]| self.lost_on(&[], SearchTarget::Key(key));
        index_error(error, || keys.iter().find_map(lost))
    }
}

impl<C: Configuration, const PAGE: usize> Index for BTreeIndex<C, PAGE> {
    fn get(
        &self,
        key: &[u8],
        part: ValuePart,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError> {
        self.get_part(key, part, read)
            .map(drop)
            .map_err(|error| self.key_error(&error, key))
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        self.get_many(keys, read)
            .map_err(|error| self.keys_error(&error, keys))
    }

    fn prefetch_many(&self, keys: &[&[u8]]) {
        self.load_leaves(keys);
    }

    fn update(
        &self,
        key: &[u8],
        part: ValuePart,
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        self.update_part(key, part, new, decide)
            .map_err(|error| self.key_error(&error, key))
    }

    fn remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> Result<(), IndexError> {
        self.remove_to_failure(from, to, decide)
            .map_err(|(error, key)| self.key_error(&error, &key))
    }

    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError> {
        self.scan_to_failure(range, visit)
            .map_err(|(error, keys)| index_error(&error, || keys))
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        self.partition(parts)
            .map_err(|error| index_error(&error, || None))
    }

    fn statistics(&self, kind: StatisticsKind) -> Result<Statistics, IndexError> {
        Ok(match kind {
            StatisticsKind::Counters => self.counters(),
            StatisticsKind::All => self.statistics(),
        })
    }

    fn verify(&self) -> Result<(), String> {
        self.verify()
    }
}
