//! Buffers of a scan, which its thread reuses for its next scan.
//!
//! A copy of a leaf is as large as a page: making one costs more than a short scan otherwise does.

use std::any::Any;
use std::cell::Cell;

use crate::node::page::Image;

/// Room for longer keys and values is not kept.
const MOST_REUSED: usize = 1 << 16;

/// Room for the copy of a leaf, for keys and for a value. Its content is unspecified.
pub(super) struct ScanBuffers<const PAGE: usize> {
    pub page: Image<PAGE>,
    pub key: Vec<u8>,
    pub resume: Vec<u8>,
    pub fence: Vec<u8>,
    pub value: Vec<u8>,
}

thread_local! {
    static BUFFERS: Cell<Option<Box<dyn Any>>> = const { Cell::new(None) };
}

impl<const PAGE: usize> ScanBuffers<PAGE> {
    /// The buffers of this thread, or new ones if there are none or a scan is using them.
    pub(super) fn take() -> Box<Self> {
        let buffers = BUFFERS.try_with(Cell::take).ok().flatten();
        buffers
            .and_then(|buffers| buffers.downcast().ok())
            .unwrap_or_else(|| {
                Box::new(Self {
                    page: Image::zeroed(),
                    key: Vec::new(),
                    resume: Vec::new(),
                    fence: Vec::new(),
                    value: Vec::new(),
                })
            })
    }

    /// Leaves them to the next scan of this thread.
    pub(super) fn put_back(mut self: Box<Self>) {
        let Self {
            key,
            resume,
            fence,
            value,
            ..
        } = &mut *self;
        for bytes in [key, resume, fence, value] {
            if bytes.capacity() > MOST_REUSED {
                *bytes = Vec::new();
            }
        }
        // A thread that ends keeps nothing.
        let _ = BUFFERS.try_with(|buffers| buffers.set(Some(self)));
    }
}
