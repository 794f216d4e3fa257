//! What is decided when a tree's type is written: capacities, thresholds, where the mapping table
//! lies.

use crate::epochs::{CentralisedEpochs, DecentralisedEpochs, Epochs};
use crate::mapping_table::{Entries, ReservedEntries};

/// Compile-time choices of a tree.
pub trait Configuration: Send + Sync + Sized + 'static {
    /// Where the words of the mapping table lie.
    type Entries: Entries;
    /// When memory and ids may be used again.
    type Epochs: Epochs;
    /// The most items of a leaf; one with more is split.
    const LEAF_ITEMS: usize;
    /// The most children of an inner node.
    const INNER_ITEMS: usize;
    /// Bytes of items from which a node is split although it has few.
    const NODE_BYTES: usize;
    /// Deltas of a leaf before it is consolidated.
    const LEAF_CHAIN: u16;
    /// Deltas of an inner node before it is consolidated; 0 consolidates at once.
    const INNER_CHAIN: u16;
    /// Bytes for deltas in a chunk of a leaf.
    const LEAF_DELTA_BYTES: usize;
    /// Bytes for deltas in a chunk of an inner node.
    const INNER_DELTA_BYTES: usize;
}

/// The tree as it is served.
#[derive(Debug)]
pub enum Standard {}

impl Configuration for Standard {
    type Entries = ReservedEntries;
    type Epochs = DecentralisedEpochs;
    const LEAF_ITEMS: usize = 128;
    const INNER_ITEMS: usize = 128;
    const NODE_BYTES: usize = 8 << 10;
    const LEAF_CHAIN: u16 = 12;
    const INNER_CHAIN: u16 = 2;
    const LEAF_DELTA_BYTES: usize = 768;
    const INNER_DELTA_BYTES: usize = 256;
}

/// Nodes so small that every kind of change of the structure happens all the time; for tests.
#[derive(Debug)]
pub enum Tiny {}

impl Configuration for Tiny {
    type Entries = ReservedEntries;
    type Epochs = DecentralisedEpochs;
    const LEAF_ITEMS: usize = 4;
    const INNER_ITEMS: usize = 4;
    const NODE_BYTES: usize = 1 << 10;
    const LEAF_CHAIN: u16 = 4;
    const INNER_CHAIN: u16 = 3;
    const LEAF_DELTA_BYTES: usize = 320;
    const INNER_DELTA_BYTES: usize = 256;
}

/// [`Standard`] with one list of garbage for all threads, as the first Bw-tree had it.
#[derive(Debug)]
pub enum Centralised {}

impl Configuration for Centralised {
    type Entries = ReservedEntries;
    type Epochs = CentralisedEpochs;
    const LEAF_ITEMS: usize = Standard::LEAF_ITEMS;
    const INNER_ITEMS: usize = Standard::INNER_ITEMS;
    const NODE_BYTES: usize = Standard::NODE_BYTES;
    const LEAF_CHAIN: u16 = Standard::LEAF_CHAIN;
    const INNER_CHAIN: u16 = Standard::INNER_CHAIN;
    const LEAF_DELTA_BYTES: usize = Standard::LEAF_DELTA_BYTES;
    const INNER_DELTA_BYTES: usize = Standard::INNER_DELTA_BYTES;
}

/// [`Standard`] without delta records: every change copies its node and replaces it.
#[derive(Debug)]
pub enum CopyAndReplace {}

impl Configuration for CopyAndReplace {
    type Entries = ReservedEntries;
    type Epochs = DecentralisedEpochs;
    const LEAF_ITEMS: usize = Standard::LEAF_ITEMS;
    const INNER_ITEMS: usize = Standard::INNER_ITEMS;
    const NODE_BYTES: usize = Standard::NODE_BYTES;
    const LEAF_CHAIN: u16 = 0;
    const INNER_CHAIN: u16 = 0;
    const LEAF_DELTA_BYTES: usize = 0;
    const INNER_DELTA_BYTES: usize = 0;
}
