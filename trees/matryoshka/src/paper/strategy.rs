//! Variants of the tree, as types: each is compiled by itself and pays for no other.
//!
//! A strategy names the form of its pages and of the nodes above them, and their capacities. The
//! tree around them (descent, splits and merges of nodes, scans, batches, bulk loads) is the
//! same code for all.

use crate::node_key::NodeKey;
use crate::paper::node::eytzinger::EytzingerPage;
use crate::paper::node::flat::FlatPage;
use crate::paper::node::form::PageForm;
use crate::paper::node::outer::{Blocked, Fewest, OuterNode, Sampled, Search};
use crate::paper::node::page::NestedPage;

/// A variant, and the capacities of its nodes.
pub trait Strategy: Send + Sync + Sized + 'static {
    /// The form of pages, for the capacities of `C`.
    type Page<L: NodeKey, V: Copy + Default, C: Strategy>: PageForm<L, V, C>;
    /// How nodes above pages are searched.
    type Search: Search;
    /// What a superpage of pages begins with: nothing, or the node that routes to its pages.
    type Head<L: NodeKey>: Copy + Default + AsRef<[OuterNode<L>]> + AsMut<[OuterNode<L>]>;
    /// Whether superpages are nodes of the tree.
    const SUPERPAGES: bool = size_of::<Self::Head<i64>>() > 0;
    /// Whether headers of pages repeat the root's separators.
    const FENCES: bool = false;
    /// Lines of a page that are used, 5 to 63, if it has as many. Small ones, for tests, split
    /// all the time.
    const SLOTS: usize = 63;
    /// Children of an inner node of the outer tree, 4 to 512.
    const FAN_OUT: usize = 321;
}

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

/// [`Fence`] in superpages: each 2 MiB hold a B+-tree of up to 510 pages, one of whose nodes
/// stands at its beginning (the report's §12.1 and §12.7.3).
#[derive(Debug, Clone, Copy)]
pub struct FenceSuperpage;

impl Strategy for FenceSuperpage {
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = NestedPage<L, V>;
    type Search = Sampled;
    type Head<L: NodeKey> = [OuterNode<L>; 1];
    const FENCES: bool = true;
    const FAN_OUT: usize = 511;
}

/// [`Flat`] pages in superpages.
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
    type Search = Fewest;
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
