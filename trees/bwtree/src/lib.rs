//! Bw-tree: a latch-free B+-tree of delta records behind a mapping table (Levandoski, Lomet,
//! Sengupta, ICDE 2013; Wang et al., "Building a Bw-Tree Takes More Than Just Buzz Words", SIGMOD
//! 2018; Zirpins, "InnoDB and the Bw-tree", NTNU 2019). `docs/bwtree.md` explains the whole to
//! newcomers; the modules here hold the proofs.
//!
//! ```text
//!  mapping table            a logical node, in one chunk
//!  ┌────┬─────────┐        ┌──────┬────────┬────────┬───────────────────┐
//!  │ id │ address ├───────►│ free │ newest │ … delta│ base node: sorted │
//!  └────┴─────────┘        └──────┴────────┴────────┴───────────────────┘
//!    ▲                            one file per verb: get, get_many, update, scan, remove_range
//!    └── all links between        of the structure: split, separators, merge, shrink
//!        nodes are ids            of a chain: append, consolidate, node/
//! ```
//!
//! # Concurrency in one page
//!
//! * Records are immutable once published. What changes is one word per node, in the mapping table,
//!   and it changes by compare-and-swap (modules `mapping_table`, `append`).
//! * An operation loads the word of a node once and works with that chain. A lookup takes effect at
//!   that load, a change at its compare-and-swap.
//! * Each level is a list of nodes whose ranges of keys meet: a split hands the upper part of a
//!   range to a new node in one step, a merge takes a range over in one step, during which the node
//!   that it belonged to is frozen. Parents may be late, so a descent steps to the right (module
//!   `descend`).
//! * Separators of parents are posted and deleted by whoever meets the need. An abort on a parent
//!   keeps others from changing it while two of its children merge (modules `separators`, `merge`).
//! * What is replaced is retired through epochs, ids as well as memory (module `release`).
//!
//! # Deviations from the papers
//!
//! * A split's step 2 consolidates and leaves the lower items alone in the old node; the papers'
//!   split record is a form ([`SplitRecords`]).
//! * The root keeps its id; it grows and shrinks by one compare-and-swap each (modules `split`,
//!   `shrink`).
//! * A separator record for a key also says where its range ends, so that a descent stops at the
//!   first record that covers its key.
//! * Values longer than [`INLINE_BYTES`] lie in blocks of their own.

mod append;
mod bulk_load;
mod chunk;
mod chunk_word;
mod configuration;
mod consolidate;
mod delta_blocks;
mod descend;
mod direct_pointers;
mod epochs;
mod events;
#[cfg(test)]
mod forms_tests;
mod get;
mod get_many;
mod index;
#[cfg(test)]
mod interleavings;
mod mapping_table;
mod merge;
mod multimap;
mod node;
mod one_thread;
#[cfg(test)]
mod one_thread_tests;
mod partition;
mod placed_nodes;
mod planted;
mod redirect;
mod region;
mod release;
mod remove_range;
mod scan;
mod separators;
mod shrink;
mod split;
mod statistics;
mod threshold;
mod tree;
mod update;
mod value;
mod verify;

pub use chunk_word::ChunkWord;
pub use configuration::{
    Centralised, Configuration, Consolidation, CopyAndReplace, Deltas, FixedThreshold, InnerChains,
    ReplayConsolidation, Retry, RetryFromRoot, SplitRecords, Standard, Threshold, Tiny,
    WithoutChunks, WithoutCompareAndSwap, WithoutDistances, WithoutFilters, WithoutMappingTable,
};
pub use direct_pointers::{DirectPointers, DirectWord};
pub use epochs::{CentralisedEpochs, CentralisedGuard, DecentralisedEpochs, Epochs};
pub use hedgerow_index::Direction;
pub use hedgerow_memory::Placement;
/// Pins the thread: operations under an outer pin spend less on their own, but memory that
/// anyone retires meanwhile is kept until it drops.
pub use hedgerow_sync::epoch::pin;
pub use mapping_table::{
    AddressEntries, Entries, MOST_NODES, PlainEntries, PlainWord, ReservedEntries,
};
pub use multimap::{BwMultimap, PairTooLong};
pub use one_thread::OneThread;
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use tree::BwTree;
pub use value::INLINE_BYTES;
