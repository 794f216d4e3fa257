//! Matryoshka: an ordered map or set of integers, for one writer.
//!
//! A B+-tree whose leaves are *pages* of 4 KiB, each of which holds a B+-tree of cache lines: a
//! search compares whole lines with vector instructions and touches one line a level, and an
//! insert moves the keys of one line. The design is that of the seed report on the Matryoshka
//! B+-tree; `docs/matryoshka.md` tells where this one differs, and what is missing.
//!
//! * `lane`, `line`: what 32-bit and 64-bit keys make of a cache line.
//! * `page`: a page and its sub-tree; `outer`: the tree above the pages.
//! * `arena`: where nodes lie, the only unsafe code.
//! * `tree`: descent, insert and remove; `scan`, `get_many`, `verify`, `statistics`.

mod arena;
mod bytes;
mod get_many;
mod index;
mod lane;
mod line;
mod outer;
mod page;
mod shared;
mod shrink;
mod strategy;
mod tree;
mod verify;

pub use bytes::MatryoshkaIndex;
pub use lane::Lane;
pub use shared::{Capacity, Change, Full, SharedMatryoshka};
pub use strategy::{Fence, Plain, Strategy};
pub use tree::Matryoshka;
