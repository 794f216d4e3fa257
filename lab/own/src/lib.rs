//! What every build of the lab can measure: our trees and engine, the standard library's map, and
//! the empty map.
//!
//! Each is an adaptor to [`Map`](hedgerow_lab_contender::Map) or
//! [`Store`](hedgerow_lab_contender::Store). They are a crate of their own, like the peers from
//! elsewhere, so that the lab's own code compiles without compiling each tree anew.

#![forbid(unsafe_code)]

mod bst;
mod btree;
mod bwtree;
mod bwtree_forms;
mod empty;
mod engine;
mod entries;
mod integer_sets;
mod integers;
mod masstree;
mod matryoshka;
mod proposals;
mod standard;
mod transactional;

pub use bst::{
    BinaryTree, Merged, Place, Segregated, System, bst_best, bst_flaws, bst_improved,
    bst_published, bst_validation,
};
pub use btree::{Paged, SharedPaged};
pub use bwtree::Delta;
pub use bwtree_forms::{bwtree_chains, bwtree_chunks, bwtree_epochs, bwtree_forms};
pub use empty::Empty;
pub use engine::Engine;
pub use entries::{
    PAYLOAD_BYTES, btree_payloads, btree_semi_dense, btree_thresholds, concurrent, maps, ordered,
    own, sets, single, stores, unordered,
};
pub use integer_sets::IntegerSet;
pub use integers::{Integer, Integers};
pub use masstree::{Indexed, Inline, OPERATIONS_PER_PIN};
pub use matryoshka::{Batched, Words};
pub use proposals::proposals;
pub use standard::BTreeMark;
pub use transactional::transactional;
