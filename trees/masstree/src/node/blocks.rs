//! Where the memory of nodes comes from.
//!
//! Nodes of one size can be segregated: border nodes, narrow ones by their width, and interior
//! nodes then have a pool each. What has many sizes (border nodes with inline suffixes, external
//! suffix bags) comes from the size classes unless the system's allocator is asked for. Blocks of
//! values do so always: they are made by every update, and are no nodes.

use std::ptr::NonNull;
use std::sync::OnceLock;

use hedgerow_memory::{BlockPool, Placement};

use super::permutation::WIDTH;
use super::sizes::{NARROW, NODE_BYTES, border_bytes};

/// The pools of a tree's nodes. There is one for each placement in the process, so that what
/// retires a node needs to remember no more than a pointer.
#[derive(Debug)]
pub(crate) struct NodeBlocks {
    placement: Placement,
    /// By their widths, in the order of [`NARROW`].
    narrow: [BlockPool; NARROW.len()],
    border: BlockPool,
    interior: BlockPool,
}

impl NodeBlocks {
    /// The pools of a placement. Takes a mutex the first time.
    pub(crate) fn of(placement: Placement) -> &'static Self {
        static ALL: [OnceLock<NodeBlocks>; 3] = [const { OnceLock::new() }; 3];
        let nth = match placement {
            Placement::Segregated => 0,
            Placement::Merged => 1,
            Placement::System => 2,
        };
        let pool = |kind, bytes| BlockPool::new(kind, bytes, placement);
        ALL[nth].get_or_init(|| Self {
            placement,
            narrow: NARROW.map(|width| pool("masstree narrow border", border_bytes(width))),
            border: pool("masstree border", NODE_BYTES),
            interior: pool("masstree interior", NODE_BYTES),
        })
    }

    /// A block for a border node of a width with room for inline suffixes behind it.
    pub(crate) fn border(&self, width: usize, suffix_bytes: usize) -> NonNull<u8> {
        match self.border_pool(width, suffix_bytes) {
            Some(pool) => pool.allocate(),
            None => self.placement.allocate(border_bytes(width) + suffix_bytes),
        }
    }

    /// Gives a block of [`border`](Self::border) back.
    ///
    /// # Safety
    ///
    /// It came from there with the same width and room, and nobody uses it any more.
    pub(crate) unsafe fn release_border(&self, node: NonNull<u8>, width: usize, bytes: usize) {
        let block_bytes = border_bytes(width) + bytes;
        // SAFETY: the caller gives back what `border` took from the same place.
        unsafe {
            match self.border_pool(width, bytes) {
                Some(pool) => pool.release(node),
                None => self.placement.release(node, block_bytes),
            }
        }
    }

    fn border_pool(&self, width: usize, suffix_bytes: usize) -> Option<BlockPool> {
        if width == WIDTH {
            return (suffix_bytes == 0).then_some(self.border);
        }
        let nth = NARROW.iter().position(|&narrow| narrow == width);
        nth.map(|nth| self.narrow[nth])
    }

    /// The pool of interior nodes.
    pub(crate) fn interior(&self) -> BlockPool {
        self.interior
    }

    /// A block for an external suffix bag.
    pub(crate) fn bag(&self, bytes: usize) -> NonNull<u8> {
        self.placement.allocate(bytes)
    }

    /// Gives a block of [`bag`](Self::bag) back.
    ///
    /// # Safety
    ///
    /// It came from there with the same size, and nobody uses it any more.
    pub(crate) unsafe fn release_bag(&self, bag: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller gives back what `bag` took from the same place.
        unsafe { self.placement.release(bag, bytes) }
    }
}
