//! What is decided when a tree's type is written: capacities, thresholds, where the mapping table
//! lies, and which mechanisms of the papers are left out.
//!
//! The forms for comparison take a configuration and change one thing of it, so they combine:
//! `RetryFromRoot<Tiny>`, `ReplayConsolidation<Centralised>`. Without a parameter they change
//! [`Standard`].

use std::marker::PhantomData;

use crate::direct_pointers::DirectPointers;
use crate::epochs::{CentralisedEpochs, DecentralisedEpochs, Epochs};
use crate::mapping_table::{AddressEntries, Entries, PlainEntries, ReservedEntries};

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
    /// Deltas of a leaf before it is consolidated; with an adaptive threshold, twice as many.
    const LEAF_CHAIN: u16;
    /// Deltas of an inner node before it is consolidated; 0 consolidates at once.
    const INNER_CHAIN: u16;
    /// Bytes for deltas in a chunk of a leaf.
    const LEAF_DELTA_BYTES: usize;
    /// Bytes for deltas in a chunk of an inner node.
    const INNER_DELTA_BYTES: usize;
    /// When a leaf is consolidated.
    const THRESHOLD: Threshold = Threshold::Fixed;
    /// Where a writer looks again after a lost compare-and-swap.
    const RETRY: Retry = Retry::AtNode;
    /// How a consolidation applies deltas.
    const CONSOLIDATION: Consolidation = Consolidation::ByOffsets;
    /// Where delta records about keys lie.
    const DELTAS: Deltas = Deltas::InChunk;
    /// Whether a delta says which keys its chain is about, so that lookups of others skip it.
    const FILTERS: bool = true;
    /// Whether a split leaves all items in the old node, under a split record.
    const SPLIT_RECORDS: bool = false;
}

/// When a leaf's chain is consolidated whose chunk has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    /// When it has [`Configuration::LEAF_CHAIN`] deltas.
    Fixed,
    /// When readers have walked so many records that they could have consolidated it instead: what
    /// is often read has short chains, what is only written long ones.
    Adaptive {
        /// How many records cost readers as much as a consolidation.
        walked: u32,
    },
}

/// Where delta records about keys lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deltas {
    /// In the chunk of their base node, in front of it.
    InChunk,
    /// Each in a block of its own.
    InBlocks,
}

/// Where a writer looks again that lost a compare-and-swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// At the same node, and at the root only if that node is removed or gave the key away.
    AtNode,
    /// At the root.
    AtRoot,
}

/// How a consolidation applies deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidation {
    /// By the offsets that deltas name: the items between two deltas are taken over as they are.
    ByOffsets,
    /// One after the other, oldest first, to a copy of the items, which is then sorted.
    ByReplay,
}

/// The tree as it is served.
#[derive(Debug)]
pub enum Standard {}

impl Configuration for Standard {
    type Entries = ReservedEntries;
    type Epochs = DecentralisedEpochs;
    const LEAF_ITEMS: usize = 256;
    const INNER_ITEMS: usize = 128;
    const NODE_BYTES: usize = 8 << 10;
    const LEAF_CHAIN: u16 = 24;
    const INNER_CHAIN: u16 = 0;
    const LEAF_DELTA_BYTES: usize = 20 * 64;
    const INNER_DELTA_BYTES: usize = 0;
    const THRESHOLD: Threshold = Threshold::Adaptive { walked: 512 };
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
    const LEAF_DELTA_BYTES: usize = 192;
    const INNER_DELTA_BYTES: usize = 256;
    const THRESHOLD: Threshold = Threshold::Adaptive { walked: 8 };
}

/// Room for deltas in a chunk, if they lie there.
const fn in_chunk(deltas: Deltas, bytes: usize) -> usize {
    match deltas {
        Deltas::InChunk => bytes,
        Deltas::InBlocks => 0,
    }
}

/// What a form says, or else what the configuration has that it changes.
macro_rules! chosen {
    ([$chosen:expr] $default:expr) => {
        $chosen
    };
    ([] $default:expr) => {
        $default
    };
}

/// As `chosen`, for types.
macro_rules! chosen_type {
    ([$chosen:ty] $default:ty) => {
        $chosen
    };
    ([] $default:ty) => {
        $default
    };
}

/// A configuration that changes something of another one.
macro_rules! form {
    (
        $(#[$doc:meta])*
        $name:ident
        $(, entries $entries:ty)?
        $(, epochs $epochs:ty)?
        $(, inner chain $inner_chain:expr, inner delta bytes $inner_bytes:expr)?
        $(, threshold $threshold:expr)?
        $(, retry $retry:expr)?
        $(, consolidation $consolidation:expr)?
        $(, deltas $deltas:expr)?
        $(, filters $filters:expr)?
        $(, split records $records:expr)?
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<C = Standard>(PhantomData<C>);

        impl<C: Configuration> Configuration for $name<C> {
            type Entries = chosen_type!([$($entries)?] C::Entries);
            type Epochs = chosen_type!([$($epochs)?] C::Epochs);
            const LEAF_ITEMS: usize = C::LEAF_ITEMS;
            const INNER_ITEMS: usize = C::INNER_ITEMS;
            const NODE_BYTES: usize = C::NODE_BYTES;
            const LEAF_CHAIN: u16 = C::LEAF_CHAIN;
            const INNER_CHAIN: u16 = chosen!([$($inner_chain)?] C::INNER_CHAIN);
            const LEAF_DELTA_BYTES: usize = in_chunk(Self::DELTAS, C::LEAF_DELTA_BYTES);
            const INNER_DELTA_BYTES: usize =
                in_chunk(Self::DELTAS, chosen!([$($inner_bytes)?] C::INNER_DELTA_BYTES));
            const THRESHOLD: Threshold = chosen!([$($threshold)?] C::THRESHOLD);
            const RETRY: Retry = chosen!([$($retry)?] C::RETRY);
            const CONSOLIDATION: Consolidation = chosen!([$($consolidation)?] C::CONSOLIDATION);
            const DELTAS: Deltas = chosen!([$($deltas)?] C::DELTAS);
            const FILTERS: bool = chosen!([$($filters)?] C::FILTERS);
            const SPLIT_RECORDS: bool = chosen!([$($records)?] C::SPLIT_RECORDS);
        }
    };
}

form!(
    /// One list of garbage for all threads, as the first Bw-tree had it.
    Centralised,
    epochs CentralisedEpochs
);

form!(
    /// Chains are consolidated at one length, whether they are read or not, as in OpenBw-Tree.
    FixedThreshold,
    threshold Threshold::Fixed
);

form!(
    /// A writer that loses a compare-and-swap descends from the root again, as in OpenBw-Tree.
    RetryFromRoot,
    retry Retry::AtRoot
);

form!(
    /// Consolidations apply deltas one after the other and sort, as in the first Bw-tree.
    ReplayConsolidation,
    consolidation Consolidation::ByReplay
);

form!(
    /// Entries of the mapping table and markers of chunks are compared and stored by two plain
    /// instructions, not by one compare-and-swap. That is right for one thread at a time alone, so
    /// a tree of this form can be sent to another thread, but not shared:
    ///
    /// ```
    /// fn is_sent<T: Send>(_: T) {}
    /// is_sent(hedgerow_bwtree::BwTree::<hedgerow_bwtree::WithoutCompareAndSwap>::new());
    /// ```
    ///
    /// ```compile_fail
    /// fn is_shared<T: Sync>(_: T) {}
    /// is_shared(hedgerow_bwtree::BwTree::<hedgerow_bwtree::WithoutCompareAndSwap>::new());
    /// ```
    ///
    /// The free list of ids keeps its compare-and-swaps: any thread may release what an epoch
    /// retained, and gives ids back there.
    WithoutCompareAndSwap,
    entries PlainEntries
);

form!(
    /// Entries of the mapping table are addresses alone: a reader learns where the base node lies
    /// only when it reads the newest record.
    WithoutDistances,
    entries AddressEntries<C::Entries>
);

form!(
    /// Nodes lead to each other by the places of their chunks, and each link to a node whose chunk
    /// is replaced changes with it (module `direct_pointers`). That is right for one thread at a
    /// time alone:
    ///
    /// ```
    /// fn is_sent<T: Send>(_: T) {}
    /// is_sent(hedgerow_bwtree::BwTree::<hedgerow_bwtree::WithoutMappingTable>::new());
    /// ```
    ///
    /// ```compile_fail
    /// fn is_shared<T: Sync>(_: T) {}
    /// is_shared(hedgerow_bwtree::BwTree::<hedgerow_bwtree::WithoutMappingTable>::new());
    /// ```
    ///
    /// Nothing is compared and swapped, either. Of this form and [`WithoutCompareAndSwap`], the
    /// outer one decides.
    WithoutMappingTable,
    entries DirectPointers
);

form!(
    /// Delta records lie in blocks of their own, not in chunks (module `delta_blocks`).
    WithoutChunks,
    deltas Deltas::InBlocks
);

form!(
    /// Filters of deltas have all bits: every lookup walks the chain of its leaf.
    WithoutFilters,
    filters false
);

form!(
    /// Inner nodes have chains of separator records, as in the papers, instead of being
    /// consolidated with every change.
    InnerChains,
    inner chain 8, inner delta bytes 8 * 96
);

form!(
    /// A split leaves all items in the old node, under a split record that says which of them stay,
    /// as in the papers.
    SplitRecords,
    split records true
);

/// Without delta records: every change copies its node and replaces it.
#[derive(Debug)]
pub struct CopyAndReplace<C = Standard>(PhantomData<C>);

impl<C: Configuration> Configuration for CopyAndReplace<C> {
    type Entries = C::Entries;
    type Epochs = C::Epochs;
    const LEAF_ITEMS: usize = C::LEAF_ITEMS;
    const INNER_ITEMS: usize = C::INNER_ITEMS;
    const NODE_BYTES: usize = C::NODE_BYTES;
    const LEAF_CHAIN: u16 = 0;
    const INNER_CHAIN: u16 = 0;
    const LEAF_DELTA_BYTES: usize = 0;
    const INNER_DELTA_BYTES: usize = 0;
    const RETRY: Retry = C::RETRY;
    const CONSOLIDATION: Consolidation = C::CONSOLIDATION;
    const DELTAS: Deltas = C::DELTAS;
    const FILTERS: bool = C::FILTERS;
    const SPLIT_RECORDS: bool = C::SPLIT_RECORDS;
}
