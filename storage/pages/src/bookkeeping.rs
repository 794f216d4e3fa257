//! What a pool's mutexes guard: free blocks and numbers, and the checkpoints. No thread holds one
//! of them while it reads or writes pages.

use std::collections::HashMap;

use crate::block::Block;
use crate::error::Error;
use crate::page_id::PageId;
use crate::root::Slot;
use crate::space::{Bits, Blocks};
use crate::table::{Entry, Loaded};

/// What changes under the pool's mutex, which no thread holds while it reads or writes a file.
pub(crate) struct Space {
    pub(crate) blocks: Blocks,
    /// Page numbers that can be given out again.
    pub(crate) free: Vec<PageId>,
    /// Blocks of the table whose entries changed since the last checkpoint began.
    pub(crate) changed: Bits,
    /// The checkpoint under way.
    pub(crate) collecting: Option<Collecting>,
    /// Levels of the table above level 0, as published.
    pub(crate) levels: Vec<Vec<u64>>,
}

impl Space {
    /// The space of a file whose table was read, and that was not changed since.
    pub(crate) fn new(table: Loaded) -> Self {
        Self {
            blocks: table.blocks,
            free: table.free,
            changed: Bits::default(),
            collecting: None,
            levels: table.levels,
        }
    }
}

/// The table that a checkpoint will publish, as it differs from the one now.
pub(crate) struct Collecting {
    /// The parity of the epoch that is being collected.
    pub(crate) parity: bool,
    pub(crate) epoch: u64,
    pub(crate) overrides: HashMap<PageId, Entry>,
    /// Blocks of the table to be written.
    pub(crate) changed: Bits,
    /// Why the checkpoint must be given up.
    pub(crate) failed: Option<Error>,
}

/// Pages as a checkpoint needs them, copied by those who then changed them.
pub(crate) struct Saved<const PAGE: usize> {
    pub(crate) pages: Vec<PageId>,
    pub(crate) blocks: Vec<Block<PAGE>>,
}

impl<const PAGE: usize> Default for Saved<PAGE> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            blocks: Vec::new(),
        }
    }
}

/// What is known of the checkpoints that were published.
pub(crate) struct Published<const PAGE: usize> {
    /// The slot of the last root: the next one is written to the other slot.
    pub(crate) slot: Slot,
    /// The root since then for which the disk had no space last. What that refers to is in use, so
    /// it does no harm on the disk, and its write tells whether there is space now.
    pub(crate) refused: Option<Block<PAGE>>,
    /// Why there can be no more of them.
    pub(crate) poisoned: Option<String>,
}
