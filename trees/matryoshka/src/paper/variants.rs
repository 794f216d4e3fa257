//! Variants of the tree, as types: the strategies of the report and its proposals.

use crate::node_key::NodeKey;
use crate::paper::node::eytzinger::EytzingerPage;
use crate::paper::node::flat::FlatPage;
use crate::paper::node::outer::{Blocked, OuterNode, Sampled, SampledOrBlocked};
use crate::paper::node::page::NestedPage;
use crate::paper::strategy::Strategy;

/// The report's baseline: every level of a page is a line.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Strategy for Plain {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = NestedPage<L, V>;
    type Search = Sampled;
    type Head<L: NodeKey> = [OuterNode<L>; 0];
}

/// Fence keys in the header of a page, and all children that they lead to prefetched (the
/// report's §12.4.1 and §12.4.7).
#[derive(Debug, Clone, Copy)]
pub struct Fence;

impl Strategy for Fence {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = NestedPage<L, V>;
    type Search = Sampled;
    type Head<L: NodeKey> = [OuterNode<L>; 0];
    const FENCES: bool = true;
}

/// [`Fence`] that prefetches the one child that a search of the fences leads to, once it is known
/// (the report's §12.4.1 before §12.4.7).
#[derive(Debug, Clone, Copy)]
pub struct FenceWithoutMassPrefetch;

impl Strategy for FenceWithoutMassPrefetch {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = NestedPage<L, V>;
    type Search = Sampled;
    type Head<L: NodeKey> = [OuterNode<L>; 0];
    const FENCES: bool = true;
    const MASS_PREFETCH: bool = false;
}

/// [`Fence`] in superpages: each 2 MiB hold a B+-tree of up to 510 pages, one of whose nodes
/// stands at its beginning (the report's §12.1 and §12.7.3). Values so large that fewer than four
/// pages fit are refused at compile time.
#[derive(Debug, Clone, Copy)]
pub struct FenceSuperpage;

impl Strategy for FenceSuperpage {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = NestedPage<L, V>;
    type Search = Sampled;
    type Head<L: NodeKey> = [OuterNode<L>; 1];
    const FENCES: bool = true;
    const FAN_OUT: usize = 511;
}

/// [`Flat`] pages in superpages; for values of a size as in [`FenceSuperpage`].
#[derive(Debug, Clone, Copy)]
pub struct FlatSuperpage;

impl Strategy for FlatSuperpage {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = FlatPage<L, V>;
    type Search = Sampled;
    type Head<L: NodeKey> = [OuterNode<L>; 1];
    const FAN_OUT: usize = 511;
}

/// Pages without links between lines: implicit children (the report's §12.4.2).
#[derive(Debug, Clone, Copy)]
pub struct Eytzinger;

impl Strategy for Eytzinger {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = EytzingerPage<L, V>;
    type Search = Sampled;
    type Head<L: NodeKey> = [OuterNode<L>; 0];
}

/// Flat pages: one line that routes to up to 7 lines of 64-bit keys, or 13 of 32-bit ones, in
/// fixed places. Two dependent cache misses a page, and inserts that write one line. The
/// nodes above them are as large as can be and searched in the fewest instructions. The default.
#[derive(Debug, Clone, Copy)]
pub struct Flat;

impl Strategy for Flat {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = FlatPage<L, V>;
    type Search = SampledOrBlocked;
    type Head<L: NodeKey> = [OuterNode<L>; 0];
    const FAN_OUT: usize = 512;
}

/// [`Flat`] pages under nodes that are searched one line a level (the report's proposal D).
#[derive(Debug, Clone, Copy)]
pub struct FlatFast;

impl Strategy for FlatFast {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = FlatPage<L, V>;
    type Search = Blocked;
    type Head<L: NodeKey> = [OuterNode<L>; 0];
}
