//! Masstree: a concurrent trie of B+-trees (Mao, Kohler, Morris, EuroSys 2012).
//!
//! Keys are cut into 8-byte slices. Each layer of the trie is a B+-tree over one slice,
//! compared as integers; where two keys share a slice and both go on, the slice's entry leads
//! to a tree of the next layer. `docs/masstree.md` explains the whole to newcomers; the
//! modules here hold the proofs.
//!
//! ```text
//!            root                                  one file per verb:
//!             │                                    get, get_many, update, remove, scan,
//!      ┌──────▼──────┐  interior nodes:            split, layer, collapse, partition
//!      │ 15 slices   │  separators                 what they share: descend
//!      └─┬────┬────┬─┘                             what they work on: node/
//!   ┌────▼─┐┌─▼──┐┌▼───┐  border nodes: keys,
//!   │border││ …  ││ …  │◄─► doubly linked
//!   └──┬───┘└────┘└────┘
//!      │ slice "01234567" is a layer
//!  ┌───▼───┐
//!  │ layer │ a B+-tree over bytes 8 to 15 of the keys that begin so
//!  └───────┘
//! ```
//!
//! # Concurrency in one page
//!
//! * Readers write nothing: they take a snapshot of a node's version, read, and validate it
//!   ([`hedgerow_sync::version`]); a child's snapshot is taken before the parent's is validated
//!   (module `descend`).
//! * Writers latch one border node (module `update`). An update is one store, an insert one
//!   store of the permutation; splits and removes of nodes latch upwards (modules `split`,
//!   `remove`), collapses of layers downwards (module `collapse`). The order of all latches:
//!   upper layer before deeper layer; within a layer border nodes from right to left, then
//!   upwards.
//! * Writers retire what they unlink through epochs; it is freed when no operation that might have
//!   seen it is still running.
//! * Pointers are followed before they are validated, so every pointer that a reader can load
//!   must name a node that was in the tree when the reader's operation began, or later.
//!
//! # Deviations from the paper
//!
//! * The version word has 64 bits (the paper's 32 can wrap under a stalled reader).
//! * Border nodes name their lowest slice in a word of their own; the paper's code keeps it in
//!   slot 0.
//! * Slots are searched unsorted by vector comparison; linear and binary search are there for
//!   comparison ([`hedgerow_simd::Level`]).
//! * A new layer is published with both keys in it (module `layer`).
//! * A layer begins as a narrow border node of 64 bytes and is widened when it overflows
//!   (module `widen`): most layers never do.
//! * Unlinking an empty border node latches the left sibling instead of using compare-and-swap
//!   on the links (module `remove` shows why that cannot deadlock).
//! * Collapsing a layer also folds single-keyed ones back into a suffix.
//! * `get_many` interleaves lookups, which the paper plans in §4.8.

mod collapse;
mod configuration;
mod descend;
mod get;
mod get_many;
mod index;
#[cfg(test)]
mod interleavings;
mod key;
mod layer;
mod node;
mod partition;
mod placed_nodes;
mod planted;
mod release;
mod remove;
mod scan;
mod scan_end;
mod sibling_hint;
mod snapshot;
mod split;
mod statistics;
mod tree;
mod update;
mod value;
mod verify;
mod widen;

pub use configuration::{Concurrent, Configuration, SingleThreaded};
pub use hedgerow_index::Direction;
pub use hedgerow_memory::Placement;
pub use hedgerow_simd::Level;
/// Pins the thread: operations under an outer pin spend less on their own, but memory that
/// anyone retires meanwhile is kept until it drops.
pub use hedgerow_sync::epoch::pin;
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use tree::Masstree;
pub use value::{Bytes, Value};
