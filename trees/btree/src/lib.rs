//! A B-tree for records of any size, after "B-Trees Are Back" (Müller, Benson and Leis, 2025).
//!
//! **The database runs [`BTreeIndex`]**, in the configuration
//! [`Adaptive`](configuration::Adaptive): for many threads, on a buffer pool. Its code is in
//! `tree`, which builds on `node` and `restructure`.
//!
//! | folder | what is there |
//! |---|---|
//! | `node` | one page: its format, searches and changes within it, splits and merges of two |
//! | `restructure` | splits, merges, conversions and widenings of both trees, over a provider of pages |
//! | `tree` | [`BTreeIndex`]: descents, latches, scans, removals of ranges |
//! | `single` | [`BTree`]: the same pages in memory, for one writer; the lab's measure of what latches and the pool cost |
//! | `variants` | layouts of the paper that only the lab uses |
//! | `configuration` | which layouts a tree has: each configuration is a type, so that their effects can be measured apart |
//!
//! Every node is a page of fixed size, an array of bytes that names other pages by number. So the
//! pages of both trees are the same, byte for byte. What makes them fast lies within the page:
//! prefix truncation, heads, hints, fingerprints, arrays of values where keys are dense integers.
//! `docs/btree.md` explains the whole.
//!
//! ```
//! use hedgerow_btree::BTree;
//!
//! let mut tree: BTree = BTree::default();
//! assert!(tree.insert(b"blackthorn", b"April"));
//! assert_eq!(tree.get(b"blackthorn", |month| month.len()), Some(5));
//! assert!(tree.remove(b"blackthorn"));
//! ```

#![deny(unsafe_code)]

pub mod configuration;
mod node;
mod restructure;
mod single;
mod tree;
mod variants;

pub use single::BTree;
pub use tree::BTreeIndex;
