//! Pools of blocks of one size and one kind, whose place the user of a tree chooses.

use std::fmt;
use std::ptr::NonNull;

use crate::{blocks, system};

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

impl Placement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Segregated, Self::Merged, Self::System];

    /// The word for it in commands, results and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Segregated => "segregated",
            Self::Merged => "merged",
            Self::System => "system",
        }
    }

    /// The placement of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// An uninitialised block that belongs to no kind: from the standard allocator if that is the
    /// placement, else from its size class. As [`allocate`](crate::allocate).
    #[must_use]
    pub fn allocate(self, size_bytes: usize) -> NonNull<u8> {
        match self {
            Self::Segregated | Self::Merged => crate::allocate(size_bytes),
            Self::System => match system::allocate(size_bytes) {
                Some(block) => block,
                None => system::out_of_memory(size_bytes),
            },
        }
    }

    /// Bytes that a block of `size_bytes` really occupies: as [`block_bytes`](crate::block_bytes),
    /// or what the standard allocator is asked for.
    #[must_use]
    pub fn block_bytes(self, size_bytes: usize) -> usize {
        match self {
            Self::Segregated | Self::Merged => crate::block_bytes(size_bytes),
            Self::System => system::block_bytes(size_bytes),
        }
    }

    /// Gives a block back; any thread may do so.
    ///
    /// # Safety
    ///
    /// `block` came from [`allocate`](Self::allocate) of the same placement with the same
    /// `size_bytes`, was not released since, and nothing reads or writes it any more.
    pub unsafe fn release(self, block: NonNull<u8>, size_bytes: usize) {
        // SAFETY: the caller gives back what `allocate` took from the same place.
        unsafe {
            match self {
                Self::Segregated | Self::Merged => crate::release(block, size_bytes),
                Self::System => system::release(block, size_bytes),
            }
        }
    }
}

/// Blocks of one size and one kind. A handle: copies are the same pool, and so are two pools of the
/// same kind, size and placement, whichever tree made them.
///
/// A segregated pool works as a size class does: a magazine of free blocks per thread, chunks of
/// its own, reports ([`inspect`](crate::inspect)) under its name. Its blocks are of exactly their
/// size, rounded up to a multiple of 8. (Blocks of 2 to 8 KiB lie a cache line apart where that
/// spreads them over all cache sets.) It stays for the life of the process, so that memory which
/// one tree gave back serves the next one of the same kind. Blocks over
/// [`LARGEST_POOLED_BYTES`](crate::LARGEST_POOLED_BYTES) come from the standard allocator whatever
/// the placement, and so does everything under Miri and with the feature `system-allocator`.
#[derive(Clone, Copy)]
pub struct BlockPool {
    /// The pool of a kind that is segregated, and pooled at all.
    kind: Option<&'static blocks::Kind>,
    block_bytes: u32,
    placement: Placement,
}

// Handles are captured by closures that free nodes later, of which those of three words are cheap.
const _: () = assert!(size_of::<BlockPool>() == 16);

impl BlockPool {
    /// The pool of blocks of a kind, which is its name in reports. Takes a mutex: for trees that
    /// are made, not for each block.
    ///
    /// # Panics
    ///
    /// If a block were to have 4 GiB or more.
    #[must_use]
    pub fn new(kind: &'static str, block_bytes: usize, placement: Placement) -> Self {
        let kind = match placement {
            Placement::Segregated => blocks::kind(kind, block_bytes),
            Placement::Merged | Placement::System => None,
        };
        let Ok(block_bytes) = u32::try_from(block_bytes) else {
            panic!("a pool of blocks of {block_bytes} bytes");
        };
        Self {
            kind,
            block_bytes,
            placement,
        }
    }

    /// An uninitialised block, aligned to 64 bytes if its size is a multiple of 64, else to 8.
    ///
    /// When memory runs out the process ends, as with [`allocate`](crate::allocate), which has the
    /// same cost.
    #[inline]
    #[must_use]
    pub fn allocate(self) -> NonNull<u8> {
        let block_bytes = self.block_bytes as usize;
        let block = match (self.kind, self.placement) {
            (Some(kind), _) => blocks::allocate_kind(kind),
            (None, Placement::System) => system::allocate(block_bytes),
            (None, _) => blocks::allocate(block_bytes),
        };
        match block {
            Some(block) => block,
            None => system::out_of_memory(block_bytes),
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
        let block_bytes = self.block_bytes as usize;
        // SAFETY: the caller gives back what `allocate` took from the same place.
        unsafe {
            match (self.kind, self.placement) {
                (Some(kind), _) => blocks::release_kind(kind, block),
                (None, Placement::System) => system::release(block, block_bytes),
                (None, _) => blocks::release(block, block_bytes),
            }
        }
    }

    /// Where its blocks come from.
    #[must_use]
    pub fn placement(self) -> Placement {
        self.placement
    }

    /// Bytes that a block really occupies: its slot, if pooled.
    #[inline]
    #[must_use]
    pub fn block_bytes(self) -> usize {
        let block_bytes = self.block_bytes as usize;
        match (self.kind, self.placement) {
            (Some(kind), _) => kind.slot_bytes(),
            (None, Placement::System) => system::block_bytes(block_bytes),
            (None, _) => crate::block_bytes(block_bytes),
        }
    }
}

impl fmt::Debug for BlockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockPool")
            .field("kind", &self.kind.map(blocks::Kind::name))
            .field("block_bytes", &self.block_bytes)
            .field("placement", &self.placement)
            .finish()
    }
}
