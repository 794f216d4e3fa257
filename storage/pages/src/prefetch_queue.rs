//! What a pool asks of the thread behind it: pages to fetch, and room.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex};

use crate::page_id::PageId;

/// What a pool asks of its page cleaner.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Whether there is a page cleaner.
    pub(crate) has_cleaner: AtomicBool,
    /// Whether it was told that room is scarce.
    pub(crate) told: AtomicBool,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) moved: Condvar,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) pages: Vec<PageId>,
    pub(crate) scarce: bool,
    pub(crate) stop: bool,
}
