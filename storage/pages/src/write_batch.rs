//! Copies of dirty pages that are written together.

use crate::block::Block;
use crate::page_id::PageId;

/// The buffers of whoever evicts.
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

/// Copies of dirty pages, to be written together.
pub(crate) struct WriteBatch<const PAGE: usize> {
    /// Each with the version that was copied. Not with its epoch, which another checkpoint may
    /// change before the copy is written.
    pub(crate) pages: Vec<(PageId, u64)>,
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
