//! The form without a mapping table: nodes lead to each other by the places of their chunks.
//!
//! OpenBw-Tree has this as a switch that lets a tree, once filled, be read without its table. Here
//! such a tree can be changed as well, by one thread at a time.
//!
//! ```text
//!  parent: children │ ● │ ● │            a chunk, in the region (module `region`)
//!                     │   └───► │ newest │ marker │ size_bytes │ base_at │ base node │
//!                     ▼              └─► its newest record, or where the node lies now
//! ```
//!
//! An id is the place of a node's chunk. The word that names the newest record, an entry of the
//! mapping table elsewhere, lies in the chunk's header, in the cache line with what a search reads
//! first of the base node. So a step down is one dependent cache miss, not two, and a prefetch of a
//! child reads nothing at all. A delta record changes that word, as it changes an entry elsewhere.
//!
//! What the mapping table saves shows when a chain is **replaced** (by a consolidation, a split, a
//! merge): the node then lies in another chunk, and all links to it change in place. There are two:
//!
//! * in its parent, which a descent from the root finds. Every record of the parent's chain that
//!   has the old id gets the new one: children of the base node, separators, an abort;
//! * in its left neighbour, as the right neighbour of its newest record.
//!
//! (Module `redirect`.)
//!
//! An operation that is under way may still have the old id. The old chunk's word names the new
//! one, for as long as the epoch retains the chunk. The root alone has a word outside of its chunk.
//!
//! **One thread.** Links change by plain stores into records that readers may be reading, and a
//! node's two links change one after the other. So a tree of this form can be sent to another
//! thread, but not shared.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::{Placement, SizedPools};
use hedgerow_sync::word::Word;

use crate::chunk_word::ChunkWord;
use crate::mapping_table::{Entries, PlainWord, ROOT};
use crate::region;

/// No entries: ids are the places of chunks in one region.
#[derive(Debug)]
pub struct DirectPointers {
    root: DirectWord,
    /// The address from which places are counted.
    start: usize,
}

/// The word of a chunk in the region: a [`PlainWord`].
#[derive(Debug)]
#[repr(transparent)]
pub struct DirectWord(PlainWord);

impl Default for DirectWord {
    fn default() -> Self {
        Self::new(0)
    }
}

// SAFETY: as the plain word that it is.
unsafe impl Word for DirectWord {
    const SHARED: bool = PlainWord::SHARED;

    #[inline(always)]
    fn new(value: u64) -> Self {
        Self(PlainWord::new(value))
    }

    #[inline(always)]
    fn load(&self, ordering: Ordering) -> u64 {
        self.0.load(ordering)
    }

    #[inline(always)]
    fn store(&self, value: u64, ordering: Ordering) {
        self.0.store(value, ordering);
    }

    #[inline(always)]
    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange_weak(current, new, success, failure)
    }

    fn fence(ordering: Ordering) {
        PlainWord::fence(ordering);
    }

    fn pause(rounds: &mut u32) {
        PlainWord::pause(rounds);
    }
}

// SAFETY: the region gives out each block once until it is given back, in whole units.
unsafe impl ChunkWord for DirectWord {
    type Newest = DirectWord;

    /// From the region, whatever the placement: ids are places in it.
    fn allocate(_kind: &'static SizedPools, _placement: Placement, bytes: usize) -> NonNull<u8> {
        region::allocate(bytes)
    }

    unsafe fn release(
        _kind: &'static SizedPools,
        _placement: Placement,
        block: NonNull<u8>,
        bytes: usize,
    ) {
        // SAFETY: the caller's promise is what `region::release` asks for.
        unsafe { region::release(block, bytes) };
    }
}

// SAFETY: the word of an id is that of the root, or the first one of the chunk that lies there,
// which stays while the id may be used. The tree is not shared.
unsafe impl Entries for DirectPointers {
    type Word = DirectWord;
    type Shared = AtomicU64;
    type Sharing = Cell<()>;
    const DIRECT: bool = true;

    fn reserve() -> io::Result<Self> {
        Ok(Self {
            root: DirectWord::default(),
            start: region::start()?,
        })
    }

    #[inline(always)]
    unsafe fn word(&self, id: u32) -> &DirectWord {
        if id == ROOT {
            return &self.root;
        }
        let header = self.start + id as usize * region::UNIT_BYTES;
        // SAFETY: the id is the place of a chunk of this tree, by the caller's promise, and the
        // headers of chunks begin with such a word.
        unsafe { &*std::ptr::with_exposed_provenance::<DirectWord>(header) }
    }

    /// The root's alone.
    fn capacity(&self) -> usize {
        ROOT as usize + 1
    }

    #[inline(always)]
    fn place_of(&self, header: u64) -> u32 {
        ((header as usize - self.start) / region::UNIT_BYTES) as u32
    }
}
