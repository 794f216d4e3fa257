//! Matryoshka: B+-trees of cache lines within pages, after the seed report on the Matryoshka
//! B+-tree.
//!
//! **The database runs [`MatryoshkaIndex`]**: byte keys, many threads, *flat* pages. It is a trie
//! whose layers are concurrent trees of integers. A search compares whole cache lines with vector
//! instructions, and an insert moves the keys of one line. `docs/matryoshka.md` tells where the
//! crate differs from the report, and what is missing.
//!
//! | module | type | keys → values | threads |
//! |---|---|---|---|
//! | `served` | [`MatryoshkaIndex`] | byte strings → byte strings | many |
//! | `served` | [`SharedMatryoshka`] | integers → words of 64 bits | many |
//! | `paper` | [`Matryoshka`] | integers → any `Copy` value | one writer |
//!
//! * `served`: what the database runs, in `node` (the page format), `tree` and `trie`.
//! * `paper`: the report's nested pages and its variants ([`Strategy`]), for the library and the
//!   lab, in `node` and `tree`.
//! * `node_key`, `line`: what 32-bit and 64-bit keys make of a cache line; `key_bounds`: between
//!   which keys a page lies. For both.

mod key_bounds;
mod line;
mod node_key;
mod paper;
mod planted;
mod served;

pub use node_key::{KeyWidth, MapKey, NodeKey};
pub use paper::{
    AllProposals, Compiled, Eytzinger, Fence, FenceSuperpage, FenceWithoutMassPrefetch, Flat,
    FlatFast, FlatSuperpage, Matryoshka, Plain, Reported, Strategy, WithFastNodes, WithPipelining,
    WithSuperpages, WithoutBranches,
};
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use served::{
    Capacity, Change, Full, LoadError, MatryoshkaIndex, SharedMatryoshka, SharedNodeKey,
};
