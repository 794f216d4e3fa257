//! An in-memory database as "Getting to the Root of Concurrent Binary Search Tree Performance" (§4)
//! judges its trees in: DBx1000's way, over any of our maps.
//!
//! A [`Database`] has tables of rows and indexes. An index is a [`Multimap`]: linked lists over a
//! map from integers to words ([`KeyMap`]), or a tree's own. Transactions ([`Session`]) lock each
//! row that they use in two phases, without waiting for locks or by wait-die ([`Concurrency`]), and
//! undo their changes when they abort. [`ycsb`] and [`tpcc`] run on it; each run tells how many
//! transactions committed, and how much of their time the indexes took ([`Outcome`]).
//!
//! Rows, their data, wrappers and locks are allocated one by one, as in DBx1000, from the size
//! classes of `hedgerow-memory` or from the standard allocator ([`Settings::placement`]). So a tree
//! whose nodes come from the same place
//! ([`Placement::Merged`](hedgerow_memory::Placement::Merged) or
//! [`Placement::System`](hedgerow_memory::Placement::System)) shares its memory with the database
//! (§4.1), and one of [`Placement::Segregated`](hedgerow_memory::Placement::Segregated) has memory
//! of its own.

#![forbid(unsafe_code)]

mod bwtree_multimap;
mod database;
mod error;
mod index_clock;
mod index_form;
mod key_map;
mod loaded;
#[cfg(test)]
mod lock_interleavings;
mod locked_lists;
mod locks;
pub mod microbenchmark;
mod multimap;
#[cfg(test)]
mod multimap_tests;
mod outcome;
mod row;
mod row_lock;
mod session;
mod settings;
mod slots;
mod table;
pub mod tpcc;
mod trees;
mod workers;
pub mod ycsb;

pub use bwtree_multimap::NewestFirst;
pub use database::{Database, IndexId, TableId};
pub use error::{Error, Result};
pub use index_form::{IndexForm, NewIndex};
pub use key_map::{ByteKeys, KeyMap};
pub use loaded::Loaded;
pub use locked_lists::LockedLists;
pub use multimap::Multimap;
pub use outcome::{KindOutcome, MOST_KINDS, Outcome};
pub use row::{Row, RowAt};
pub use row_lock::Concurrency;
pub use session::{Conflict, Session, Step, Writable};
pub use settings::Settings;
pub use trees::{Tree, trees};
pub use workers::Harness;
