//! Nodes: what both kinds begin with, and how they are allocated.
//!
//! Full border nodes and interior nodes are 320 bytes, five cache lines, so they share one pool
//! (border nodes with an inline suffix bag are longer, those of small layers are narrower). Both
//! keep the version at byte 0 and the parent at byte 48: [`Node`] is that common beginning, by
//! which a descent reads a child before it knows its kind.

pub mod border;
pub mod interior;
pub mod permutation;
pub mod suffixes;

use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicU64};

use hedgerow_sync::VersionWord;

pub use border::Border;
pub use interior::Interior;
pub use permutation::{Permutation, WIDTH};
pub use suffixes::SuffixBag;

/// Bytes of a node without inline suffixes.
pub const NODE_BYTES: usize = 320;

/// What a border and an interior node have in common.
#[repr(C)]
pub struct Node {
    /// Latch, dirty bits, counters, kind.
    pub version: VersionWord,
    other: [AtomicU64; 5],
    /// The interior node above, protected by that node's latch; null for a root.
    pub parent: AtomicPtr<Interior>,
}

const _: () = {
    assert!(size_of::<Border>() == 64 && size_of::<Interior>() == NODE_BYTES);
    assert!(offset_of!(Node, version) == offset_of!(Border, version));
    assert!(offset_of!(Node, version) == offset_of!(Interior, version));
    assert!(offset_of!(Node, parent) == offset_of!(Border, parent));
    assert!(offset_of!(Node, parent) == offset_of!(Interior, parent));
};

/// Prefetches every line of the node at `node`.
#[inline(always)]
pub fn prefetch(node: *const Node) {
    hedgerow_memory::prefetch_lines::<{ NODE_BYTES / 64 }, _>(node);
}
