//! Moves pages to the front of a file that has become mostly free. A page keeps its block until it
//! is written again, and a file can only be truncated behind its last block in use. So after large
//! removals a few unchanged pages could keep a long file long. Before a checkpoint of such a file,
//! pages at its end are therefore marked dirty: like all dirty pages they are written to the lowest
//! free blocks, and so are the blocks of the table there. Once the checkpoint after next is
//! published, the end is free, and the file is truncated.

use std::sync::atomic::Ordering;

use crate::page_id::PageId;
use crate::pool::{Pool, lock};
use crate::provider::Pages;
use crate::space::Blocks;
use crate::table::{Entry, fan};

/// A file is left as it is until it has so many blocks for each in use: between two checkpoints
/// each page may have an old place and a new one.
const SPARSE: u32 = 3;
/// Blocks that are nothing to speak of.
const SLACK_BLOCKS: u32 = 64;
/// Pages that are moved by one checkpoint.
const MOST_MOVED: usize = 256;

impl Blocks {
    /// The first block that is beyond what the file needs, if it is mostly free.
    fn excess(&self) -> Option<u32> {
        let used = self.current.count();
        (self.end > used * SPARSE + SLACK_BLOCKS).then_some(used + used / 4 + SLACK_BLOCKS / 2)
    }
}

/// How the blocks of a page file are used: see [`Pool::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockUse {
    /// Blocks that pages and the page table are in now.
    pub live: u32,
    /// Blocks that only the last checkpoint needs, or one since then whose root a full disk
    /// refused: the next one frees them.
    pub dead: u32,
    /// Whether most of the file is free, so that the checkpoints that follow make it shorter.
    pub is_sparse: bool,
}

impl<const PAGE: usize> Pool<PAGE> {
    /// How the blocks of the file are used. Looks at two bits for each, under the pool's mutex.
    #[must_use]
    pub fn blocks(&self) -> BlockUse {
        let space = lock(&self.space);
        let (current, published) = (&space.blocks.current, &space.blocks.published);
        BlockUse {
            live: current.count(),
            dead: published.count_without(current),
            is_sparse: space.blocks.excess().is_some(),
        }
    }

    /// What a checkpoint that began now would write at most, in bytes.
    pub fn unwritten_bytes(&self) -> u64 {
        let dirty = self.dirty.load(Ordering::Relaxed) as u64;
        let (changed, moved) = {
            let space = lock(&self.space);
            let moved = space.blocks.excess().map_or(0, |_| MOST_MOVED as u64);
            let live = u64::from(space.blocks.current.count());
            (u64::from(space.changed.count()), moved.min(live))
        };
        (dirty + moved + self.table_blocks(changed + dirty)) * PAGE as u64
    }

    /// Calls pages and blocks of the table dirty that lie far behind in a file that is mostly free,
    /// so that the checkpoint that follows moves them. Does nothing to other files, and little to
    /// any. Not within an operation.
    pub fn compact(&self) {
        let Some(from) = lock(&self.space).blocks.excess() else {
            return;
        };
        let is_far =
            |entry: Entry| !entry.is_none() && entry != Entry::LOST && entry.block() >= from;
        let used = self.used.load(Ordering::Relaxed);
        let pages = (0..used).map(PageId);
        let pages = pages.filter(|&page| is_far(self.entries.get(page)));
        let most = MOST_MOVED.min(self.limit() / 4);
        let pages: Vec<PageId> = pages.take(most).collect();
        self.load_all(&pages);
        for page in pages {
            let mut pool = self;
            let operation = pool.begin();
            // One that cannot be read stays where it is.
            if let Ok(mut latch) = Pages::exclusive(&pool, page) {
                let _ = Pages::change(&mut pool, &mut latch, &operation);
            }
        }
        let mut guard = lock(&self.space);
        let space = &mut *guard;
        let mut covered = 1;
        for level in &space.levels {
            for (index, &entry) in level.iter().enumerate() {
                if is_far(Entry(entry)) {
                    // A checkpoint that writes a block of level 0 writes those above it.
                    space.changed.set((index * covered) as u32);
                }
            }
            covered *= fan(PAGE);
        }
    }
}
