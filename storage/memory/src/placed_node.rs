//! What a tree tells of its nodes to whoever inspects how they lie in memory.

use std::ops::Range;

/// A node of a running tree, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedNode {
    /// The type of the node, such as `leaf`.
    pub kind: &'static str,
    /// Its address.
    pub address: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// The bytes of it that a search reads, counted from its start.
    pub search_fields: Range<usize>,
    /// The address of its parent; `None` for the root.
    pub parent: Option<usize>,
}

/// A structure whose nodes can be visited.
pub trait VisitNodes {
    /// Visits every node once. For quiet moments: concurrent writers may make it miss some.
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode));

    /// The bytes of a node of a kind that updates write while others use the node's neighbours,
    /// such as its lock, counted from its start; an empty range for nodes that are written once.
    /// Without an answer they are taken to be those that a search does not read, or all if it reads
    /// all.
    fn written_fields(&self, kind: &str) -> Option<Range<usize>> {
        let _ = kind;
        None
    }
}
