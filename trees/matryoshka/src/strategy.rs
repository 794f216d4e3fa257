//! Variants of the tree, as types: each is compiled by itself and pays for no other.

/// A variant, and the capacities of its nodes.
pub trait Strategy: Send + Sync + 'static {
    /// Whether headers of pages repeat the root's separators.
    const FENCES: bool;
    /// Lines of a page that are used, 5 to 63. Small ones, for tests, split all the time.
    const SLOTS: usize = 63;
    /// Children of an inner node of the outer tree, 4 to 313.
    const FAN_OUT: usize = crate::outer::MOST_KEYS + 1;
}

/// The report's baseline: every level of a page is a line.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Strategy for Plain {
    const FENCES: bool = false;
}

/// Fence keys in the header of a page, and all children that they lead to prefetched (the
/// report's §12.4.1 and §12.4.7).
#[derive(Debug, Clone, Copy)]
pub struct Fence;

impl Strategy for Fence {
    const FENCES: bool = true;
}
