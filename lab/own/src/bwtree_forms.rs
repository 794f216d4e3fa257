//! The Bw-tree's forms for comparison: without one of the papers' mechanisms, with other limits of
//! a chain, with either scheme of epochs.
//!
//! They are contenders of their own experiments, and not in the registry.

use hedgerow_bwtree::{
    Centralised, Configuration, CopyAndReplace, FixedThreshold, InnerChains, ReplayConsolidation,
    RetryFromRoot, SplitRecords, Standard, WithoutChunks, WithoutCompareAndSwap, WithoutDistances,
    WithoutFilters, WithoutMappingTable,
};
use hedgerow_lab_contender::{Map, MapEntry, Tally};
use hedgerow_lab_data::KeyRange;

use super::bwtree::Delta;
use super::entries::{concurrent, ordered, own, single};
use super::masstree::Indexed;

/// A map whose operations each pin the thread by themselves: runs of many operations under one pin
/// would hide what a scheme of epochs costs.
#[derive(Default)]
pub struct OneByOne<M>(M);

impl<M: Map> Map for OneByOne<M> {
    #[inline]
    fn put(&self, key: &[u8], value: u64) {
        self.0.put(key, value);
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        self.0.scan(from, count, visit);
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        self.0.scan_run(keys, count)
    }
}

/// A form that threads share.
fn shared<C: Configuration>(name: &'static str) -> MapEntry
where
    Indexed<Delta<C>>: Send + Sync,
{
    MapEntry {
        entry: own(name, ordered(true)),
        build: concurrent::<Indexed<Delta<C>>>(),
    }
}

/// A form for one thread.
fn alone<C: Configuration>(name: &'static str) -> MapEntry {
    MapEntry {
        entry: own(name, ordered(false)),
        build: single::<Indexed<Delta<C>>>(),
    }
}

/// The tree and its forms without one of the papers' mechanisms, a line each.
#[must_use]
pub fn bwtree_forms() -> Vec<MapEntry> {
    vec![
        shared::<Standard>("bwtree"),
        shared::<CopyAndReplace>("bwtree, no deltas"),
        shared::<ReplayConsolidation>("bwtree, replay consolidation"),
        shared::<FixedThreshold>("bwtree, fixed threshold"),
        shared::<RetryFromRoot>("bwtree, retry from the root"),
        shared::<Centralised>("bwtree, centralised epochs"),
        shared::<WithoutChunks>("bwtree, no chunks"),
        shared::<SplitRecords>("bwtree, split records"),
        shared::<WithoutFilters>("bwtree, no filters"),
        shared::<WithoutDistances>("bwtree, no distances"),
        shared::<InnerChains>("bwtree, inner chains"),
        alone::<WithoutCompareAndSwap>("bwtree, no compare-and-swap"),
        alone::<WithoutMappingTable>("bwtree, no mapping table"),
    ]
}

/// The two schemes of epochs, pinned by every operation.
#[must_use]
pub fn bwtree_epochs() -> Vec<MapEntry> {
    let entry = |name| own(name, ordered(true));
    vec![
        MapEntry {
            entry: entry("decentralised epochs"),
            build: concurrent::<OneByOne<Indexed<Delta<Standard>>>>(),
        },
        MapEntry {
            entry: entry("centralised epochs"),
            build: concurrent::<OneByOne<Indexed<Delta<Centralised>>>>(),
        },
    ]
}

/// [`Standard`] with other limits of a leaf's chain: so many deltas, so many bytes of chunk for
/// them.
enum Limits<const DELTAS: u16, const BYTES: usize> {}

impl<const DELTAS: u16, const BYTES: usize> Configuration for Limits<DELTAS, BYTES> {
    type Entries = <Standard as Configuration>::Entries;
    type Epochs = <Standard as Configuration>::Epochs;
    const LEAF_ITEMS: usize = Standard::LEAF_ITEMS;
    const INNER_ITEMS: usize = Standard::INNER_ITEMS;
    const NODE_BYTES: usize = Standard::NODE_BYTES;
    const LEAF_CHAIN: u16 = DELTAS;
    const INNER_CHAIN: u16 = Standard::INNER_CHAIN;
    const LEAF_DELTA_BYTES: usize = BYTES;
    const INNER_DELTA_BYTES: usize = Standard::INNER_DELTA_BYTES;
}

fn limited<const DELTAS: u16, const BYTES: usize>() -> MapEntry {
    shared::<Limits<DELTAS, BYTES>>("bwtree")
}

/// The tree by how many deltas a leaf's chain may have, with 64 bytes of chunk for each.
#[must_use]
pub fn bwtree_chains() -> Vec<(usize, MapEntry)> {
    vec![
        (2, limited::<2, 128>()),
        (6, limited::<6, 384>()),
        (12, limited::<12, 768>()),
        (24, limited::<24, 1536>()),
        (48, limited::<48, 3072>()),
    ]
}

/// The tree by the bytes that a leaf's chunk has for deltas, of which the chain may have 48.
#[must_use]
pub fn bwtree_chunks() -> Vec<(usize, MapEntry)> {
    vec![
        (192, limited::<48, 192>()),
        (768, limited::<48, 768>()),
        (3072, limited::<48, 3072>()),
    ]
}
