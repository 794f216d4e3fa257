//! Nodes: what both kinds begin with, and how they are allocated.
//!
//! Full border nodes and interior nodes are 320 bytes, five cache lines, so they share one
//! size class
//! (border nodes with an inline suffix bag are longer, those of small layers are narrower). Both
//! keep the version at byte 0 and the parent at byte 48: [`Node`] is that common beginning, by
//! which a descent reads a child before it knows its kind.

mod blocks;
pub(crate) mod border;
mod interior;
mod permutation;
mod sizes;
mod suffixes;

pub(crate) use blocks::NodeBlocks;
pub(crate) use border::Border;
pub(crate) use interior::{Interior, Node, prefetch};
pub(crate) use permutation::{Permutation, WIDTH};
pub(crate) use sizes::NODE_BYTES;
pub(crate) use suffixes::{ReplacedBag, SuffixBag};
