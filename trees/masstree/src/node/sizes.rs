//! Sizes of nodes.

use super::permutation::WIDTH;

/// Bytes of a node without inline suffixes.
pub(crate) const NODE_BYTES: usize = 320;

/// The narrow widths of border nodes, narrowest first.
pub(crate) const NARROW: [usize; 2] = [2, 6];

/// Bytes in front of a narrow node's slices.
pub(super) const NARROW_HEADER_BYTES: usize = 32;

/// Bytes of the block of a border node with `width` slots, inline suffixes apart.
pub(super) const fn border_bytes(width: usize) -> usize {
    if width == WIDTH {
        NODE_BYTES
    } else {
        NARROW_HEADER_BYTES + 16 * width
    }
}
