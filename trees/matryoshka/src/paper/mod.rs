//! The report's tree and its variants: integers, one writer. The database does not run it; the
//! library offers it and the lab measures it.
//!
//! A B+-tree whose leaves are *pages* of 4 KiB, each of which holds a B+-tree of cache lines: a
//! search compares whole lines with vector instructions and touches one line a level, and an
//! insert moves the keys of one line.
//!
//! * `strategy`: what a variant names. `variants`: the variants, as types. `proposals`: each of the
//!   report's proposals by itself.
//! * `node`: page formats, inner nodes, the arena.
//! * `tree`: the tree and its growth; one file a verb.

mod node;
mod proposals;
mod strategy;
mod tree;
mod variants;

pub use proposals::{
    AllProposals, Compiled, Reported, WithFastNodes, WithPipelining, WithSuperpages,
    WithoutBranches,
};
pub use strategy::Strategy;
pub use tree::Matryoshka;
pub use variants::{
    Eytzinger, Fence, FenceSuperpage, FenceWithoutMassPrefetch, Flat, FlatFast, FlatSuperpage,
    Plain,
};
