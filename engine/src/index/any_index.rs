//! The index of a keyspace: one of the trees of the family.
//!
//! An enum rather than a trait object, since the methods of [`Index`] are generic: for the default
//! index a call is one well-predicted branch, and the callbacks are inlined into the tree. The
//! others are called through pointers ([`ErasedIndex`]), which keeps the code small.

use std::ops::{Bound, ControlFlow};

use hedgerow_btree::BTreeIndex;
use hedgerow_masstree::{Bytes, Masstree};
use hedgerow_matryoshka::MatryoshkaIndex;

use crate::index::erased::ErasedIndex;
use crate::index::kind::IndexKind;
#[cfg(feature = "locked-map")]
use hedgerow_index::LockedMap;
use hedgerow_index::{Decision, Direction, Index, IndexError, RangeDecision, Statistics};

// One per keyspace: boxing the tree would cost every operation a load to save nothing.
#[allow(clippy::large_enum_variant)]
pub(crate) enum AnyIndex {
    Masstree(Masstree<Bytes>),
    Matryoshka(MatryoshkaIndex),
    #[cfg(feature = "locked-map")]
    LockedMap(LockedMap),
    BTree(BTreeIndex),
}

macro_rules! dispatch {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            AnyIndex::Masstree($index) => $call,
            other => {
                let $index = other.erased();
                $call
            }
        }
    };
}

impl AnyIndex {
    /// An empty index of a kind that lives in memory; `None` for one that needs a page file.
    pub(crate) fn in_memory(kind: IndexKind) -> Option<AnyIndex> {
        match kind {
            IndexKind::Masstree => Some(AnyIndex::Masstree(Masstree::new())),
            IndexKind::Matryoshka => Some(AnyIndex::Matryoshka(MatryoshkaIndex::new())),
            #[cfg(feature = "locked-map")]
            IndexKind::LockedMap => Some(AnyIndex::LockedMap(LockedMap::default())),
            IndexKind::BTree => None,
        }
    }

    /// The index with its type forgotten.
    #[inline]
    fn erased(&self) -> &dyn ErasedIndex {
        match self {
            AnyIndex::Masstree(index) => index,
            AnyIndex::Matryoshka(index) => index,
            #[cfg(feature = "locked-map")]
            AnyIndex::LockedMap(index) => index,
            AnyIndex::BTree(index) => index,
        }
    }

    /// Which of them it is.
    pub(crate) fn kind(&self) -> IndexKind {
        match self {
            AnyIndex::Masstree(_) => IndexKind::Masstree,
            AnyIndex::Matryoshka(_) => IndexKind::Matryoshka,
            #[cfg(feature = "locked-map")]
            AnyIndex::LockedMap(_) => IndexKind::LockedMap,
            AnyIndex::BTree(_) => IndexKind::BTree,
        }
    }

    /// The tree in a page file, if it is one: then a call can fail.
    #[inline]
    pub(crate) fn tree(&self) -> Option<&BTreeIndex> {
        match self {
            AnyIndex::BTree(tree) => Some(tree),
            _ => None,
        }
    }
}

impl Index for AnyIndex {
    #[inline]
    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, IndexError> {
        dispatch!(self, index => Index::get(index, key, read))
    }

    #[inline]
    fn get_by_head<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, IndexError> {
        dispatch!(self, index => Index::get_by_head(index, key, read))
    }

    #[inline]
    fn get_many(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        dispatch!(self, index => Index::get_many(index, keys, read))
    }

    #[inline]
    fn prefetch_many(&self, keys: &[&[u8]]) {
        dispatch!(self, index => Index::prefetch_many(index, keys))
    }

    #[inline]
    fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        dispatch!(self, index => Index::update(index, key, new, decide))
    }

    #[inline]
    fn update_by_head<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        dispatch!(self, index => Index::update_by_head(index, key, new, decide))
    }

    fn remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> Result<(), IndexError> {
        dispatch!(self, index => Index::remove_range(index, from, to, decide))
    }

    #[inline]
    fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        dispatch!(self, index => Index::scan(index, from, direction, visit))
    }

    #[inline]
    fn scan_up_to(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        dispatch!(self, index => Index::scan_up_to(index, from, to, direction, most, visit))
    }

    #[inline]
    fn scan_keys(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        dispatch!(self, index => Index::scan_keys(index, from, direction, visit))
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        dispatch!(self, index => Index::partition(index, parts))
    }

    fn statistics(&self) -> Result<Statistics, IndexError> {
        dispatch!(self, index => Index::statistics(index))
    }

    fn counters(&self) -> Statistics {
        dispatch!(self, index => Index::counters(index))
    }

    fn verify(&self) -> Result<(), String> {
        dispatch!(self, index => Index::verify(index))
    }
}
