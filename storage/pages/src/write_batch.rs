//! Copies of dirty pages that are written together.

use crate::block::Block;
use crate::error::Error;
use crate::page_id::PageId;

/// The buffers of the thread that evicts.
pub(crate) struct Evictor<const PAGE: usize> {
    pub(crate) batch: WriteBatch<PAGE>,
}

impl<const PAGE: usize> Evictor<PAGE> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            batch: WriteBatch::new(most),
        }
    }
}

/// A page that was copied. Without its epoch, which another checkpoint may change before the copy
/// is written.
#[derive(Clone, Copy)]
pub(crate) struct CopiedPage {
    pub(crate) page: PageId,
    /// The version that was copied.
    pub(crate) version: u64,
}

/// What came of writing a block.
pub(crate) struct WrittenBlock {
    /// The block of the file that it went to, which is in use now.
    pub(crate) place: u32,
    pub(crate) result: std::io::Result<()>,
}

/// What came of evicting a batch.
pub(crate) struct EvictedBatch {
    /// Pages that were evicted.
    pub(crate) pages: usize,
    /// Why others could not be written.
    pub(crate) failure: Option<Error>,
}

/// Copies of dirty pages, to be written together.
pub(crate) struct WriteBatch<const PAGE: usize> {
    pub(crate) pages: Vec<CopiedPage>,
    pub(crate) blocks: Vec<Block<PAGE>>,
    most: usize,
}

impl<const PAGE: usize> WriteBatch<PAGE> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            pages: Vec::with_capacity(most),
            blocks: Vec::new(),
            most,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pages.len() == self.most
    }
}
