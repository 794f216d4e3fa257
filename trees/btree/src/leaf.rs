//! What the tree asks of a leaf, whatever its layout.
//!
//! A configuration that has one layout compiles to that layout alone: the tests below are of
//! constants then.

use std::cmp::Ordering;
use std::ops::Range;

use crate::configuration::{Configuration, Leaves};
use crate::fingerprint::Fingerprints;
use crate::page::{Image, Tag};
use crate::slotted::{Comparison, Layout, Payload, Record, SLACK, record_size};

impl<const PAGE: usize> Image<PAGE> {
    /// Whether this leaf has fingerprints.
    #[inline(always)]
    pub(crate) fn hashed<C: Configuration>(&self) -> bool {
        C::LEAVES == Leaves::Fingerprint && self.is(Tag::Fingerprint)
    }

    /// The record of `key`.
    #[inline(always)]
    pub(crate) fn find<C: Configuration>(&self, key: &[u8]) -> Option<Record> {
        let index = self.index_of::<C>(key)?;
        Some(self.leaf_record::<C>(index))
    }

    /// The index of `key`.
    #[inline(always)]
    pub(crate) fn index_of<C: Configuration>(&self, key: &[u8]) -> Option<usize> {
        let (index, equal) = self.locate::<C>(key);
        equal.then_some(index)
    }

    /// The index of `key`, or where it would be put, and which of the two.
    #[inline(always)]
    pub(crate) fn locate<C: Configuration>(&self, key: &[u8]) -> (usize, bool) {
        let suffix = key.get(self.prefix_len()..).unwrap_or(&[]);
        if self.hashed::<C>() {
            return match self.find_fingerprint(suffix) {
                Some(index) => (index, true),
                None => (self.count(), false),
            };
        }
        self.search::<Comparison<C>>(suffix)
    }

    /// The first record at or above `key`; the leaf is in order.
    pub(crate) fn lower_bound<C: Configuration>(&self, key: &[u8]) -> (usize, bool) {
        let prefix = self.prefix();
        let Some(suffix) = key.get(prefix.len()..).filter(|_| key.starts_with(prefix)) else {
            let before = key.cmp(prefix) == Ordering::Less;
            return (if before { 0 } else { self.count() }, false);
        };
        if self.hashed::<C>() {
            self.search::<Fingerprints>(suffix)
        } else {
            self.search::<Comparison<C>>(suffix)
        }
    }

    /// The record at an index.
    #[inline(always)]
    pub(crate) fn leaf_record<C: Configuration>(&self, index: usize) -> Record {
        if self.hashed::<C>() {
            self.record_at::<Fingerprints>(index)
        } else {
            self.record_at::<Comparison<C>>(index)
        }
    }

    /// Adds a record whose key is absent and belongs at `index`, or says that it does not fit.
    #[must_use]
    #[inline(always)]
    pub(crate) fn add<C: Configuration>(
        &mut self,
        index: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        let suffix = &key[self.prefix_len()..];
        if self.hashed::<C>() {
            return self.insert::<Fingerprints>(self.count(), suffix, payload);
        }
        self.insert::<Comparison<C>>(index, suffix, payload)
    }

    /// Removes a record.
    pub(crate) fn take<C: Configuration>(&mut self, index: usize) {
        if self.hashed::<C>() {
            self.remove_fingerprint(index);
        } else {
            self.remove::<Comparison<C>>(index);
        }
    }

    /// Puts records in key order, as scans and splits want them.
    #[inline(always)]
    pub(crate) fn order<C: Configuration>(&mut self) {
        if self.hashed::<C>() {
            self.sort_fingerprints();
        }
    }

    /// Writes a node's key, without its prefix, and returns its length.
    #[inline(always)]
    fn write_leaf_suffix<C: Configuration>(&self, index: usize, to: &mut [u8]) -> usize {
        let record = self.leaf_record::<C>(index);
        if self.hashed::<C>() {
            self.write_suffix::<Fingerprints>(index, record, to)
        } else {
            self.write_suffix::<Comparison<C>>(index, record, to)
        }
    }

    /// The whole key of a node's record, in place of what `key` held.
    pub(crate) fn node_key<C: Configuration>(&self, index: usize, key: &mut Vec<u8>) {
        let prefix = self.prefix_len();
        key.clear();
        key.extend_from_slice(self.prefix());
        key.resize(prefix + self.leaf_record::<C>(index).key_len + SLACK, 0);
        let len = self.write_leaf_suffix::<C>(index, &mut key[prefix..]);
        key.truncate(prefix + len);
    }

    /// Free bytes after compaction, and the bytes of a page that has nothing but its header.
    pub(crate) fn node_free<C: Configuration>(&self) -> (usize, usize) {
        if self.hashed::<C>() {
            (self.free::<Fingerprints>(), PAGE - Fingerprints::BODY)
        } else {
            (self.free::<Comparison<C>>(), PAGE - Comparison::<C>::BODY)
        }
    }

    /// Bytes that this node's records take in another of the same layout whose prefix is
    /// `prefix` long.
    pub(crate) fn moved_bytes<C: Configuration>(&self, prefix: usize) -> usize {
        let grown = self.prefix_len() - prefix;
        let size = |index| {
            let record = self.leaf_record::<C>(index);
            let (len, payload) = (record.key_len + grown, self.payload(record));
            if self.hashed::<C>() {
                record_size::<Fingerprints>(len, payload) + Fingerprints::SIDE + 2
            } else {
                record_size::<Comparison<C>>(len, payload) + Comparison::<C>::SIDE + 2
            }
        };
        (0..self.count()).map(size).sum()
    }

    /// Copies records of another ordered node of the same layout to the end of this one.
    pub(crate) fn copy_records<C: Configuration>(&mut self, from: &Self, indices: Range<usize>) {
        let mut key = [0; PAGE];
        if self.hashed::<C>() {
            self.append::<Fingerprints>(from, indices, &mut key);
        } else {
            self.append::<Comparison<C>>(from, indices, &mut key);
        }
        self.set_sorted(self.count());
    }
}
