//! Matryoshka: an ordered map or set of integers for one writer; a map of words for many threads
//! (`shared`); and a trie of such maps, an index of byte keys (`bytes`).
//!
//! A B+-tree whose leaves are *pages* of cache lines: a search compares whole lines with vector
//! instructions, and an insert moves the keys of one line. By default, and wherever threads share
//! a tree, pages are flat; those of the report, each a B+-tree of cache lines in 4 KiB, are
//! strategies of the form for one writer. `docs/matryoshka.md` tells more, and what is missing.
//!
//! * `lane`, `line`: what 32-bit and 64-bit keys make of a cache line.
//! * `form`: what the tree asks of a page; `flat`, `nested` over `page`, `eytzinger`: its forms.
//! * `outer`: the nodes above pages; `superpage`: pages gathered in 2 MiB.
//! * `arena`: where nodes of the form for one writer lie, its only unsafe code.
//! * `tree`: the tree and its growth; `find`, `shrink`, `index`, `batch`, `verify`: one file a verb.

mod arena;
mod batch;
mod bytes;
mod eytzinger;
mod find;
mod flat;
mod form;
mod index;
mod lane;
mod line;
mod nested;
mod outer;
mod page;
mod planted;
mod shared;
mod shrink;
mod strategy;
mod superpage;
mod tree;
mod verify;

pub use bytes::MatryoshkaIndex;
pub use lane::{Lane, LaneKey, Width};
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use shared::{Capacity, Change, Full, LoadError, SharedLane, SharedMatryoshka};
pub use strategy::{
    Eytzinger, Fence, FenceSuperpage, Flat, FlatFast, FlatSuperpage, Plain, Strategy,
};
pub use tree::Matryoshka;
