//! A B-tree for records of any size, after "B-Trees Are Back" (Müller, Benson and Leis, 2025).
//!
//! Every node is a page of fixed size, an array of bytes that names other pages by number; so
//! the tree can lie in memory as a whole ([`BTree`], for one writer) or be paged by a buffer pool
//! ([`BTreeIndex`], for many threads). What makes it fast lies within the page: prefix truncation,
//! heads, hints, fingerprints, arrays of values where keys are dense integers. Each
//! configuration is a type ([`configuration`]), so that their effects can be measured apart.
//!
//! ```
//! use hedgerow_btree::BTree;
//!
//! let mut tree: BTree = BTree::default();
//! assert!(tree.insert(b"blackthorn", b"April"));
//! assert_eq!(tree.get(b"blackthorn", |month| month.len()), Some(5));
//! assert!(tree.remove(b"blackthorn"));
//! ```
//!
//! Reading order: [`page`], `slotted`, `search` and `edit` (one page), `leaf` (what all leaves
//! can do), `fingerprint`, `semi_dense` and `fully_dense`; `tree`, `split`, `runs` and `merge`
//! (many pages); `chain`, `shared_overflow` and `overflow` (what does not fit a leaf); `plan`,
//! `densify` and `adapt` (which form a leaf has); `scan`; `shared` (the same with many threads).
//! The layouts and limits are in `docs/btree.md`.

#![deny(unsafe_code)]

mod adapt;
mod bulk;
mod chain;
pub mod configuration;
mod dense;
mod densify;
mod edit;
mod fingerprint;
mod fully_dense;
mod get_many;
mod leaf;
mod merge;
mod overflow;
pub mod page;
pub mod pages;
mod plan;
mod runs;
mod scan;
mod search;
mod semi_dense;
mod shared;
mod shared_overflow;
mod slotted;
mod split;
mod statistics;
mod tree;
mod verify;

pub use shared::BTreeIndex;
pub use tree::BTree;
