//! What a variant of the tree is: a type that is compiled by itself and pays for no other.
//!
//! A strategy names the form of its pages and of the nodes above them, and their capacities. The
//! tree around them (descent, splits and merges of nodes, scans, batches, bulk loads) is the
//! same code for all. The variants are in [`variants`](crate::paper::variants).

use crate::node_key::NodeKey;
use crate::paper::node::form::PageForm;
use crate::paper::node::outer::{OuterNode, Search};

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
    /// Whether all lines that fences name are prefetched before the fences are searched; else the
    /// one that the search finds.
    const MASS_PREFETCH: bool = true;
    /// Whether a tree is compiled for its fences, or asks at run time whether it has any (what the
    /// report's proposal E does away with).
    const COMPILED: bool = true;
    /// Whether batches prefetch what their next keys read, and step from page to page (the report's
    /// proposal B); else they are sorted, and each page costs a descent.
    const PIPELINED: bool = true;
    /// Lines of a page that are used, 5 to 63, if it has as many. Small ones, for tests, split
    /// all the time.
    const SLOTS: usize = 63;
    /// Children of an inner node of the outer tree, 4 to 512.
    const FAN_OUT: usize = 321;

    /// [`FENCES`](Self::FENCES), known when the tree is compiled or not.
    #[inline(always)]
    fn has_fences() -> bool {
        if Self::COMPILED {
            Self::FENCES
        } else {
            std::hint::black_box(Self::FENCES)
        }
    }
}
