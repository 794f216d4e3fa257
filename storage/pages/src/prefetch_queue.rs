//! The prefetch queue, and other requests of a pool to its page cleaner.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex};

use crate::page_id::PageId;

/// Pages asked for before they are needed, and requests for free memory.
#[derive(Default)]
pub(crate) struct PrefetchQueue {
    /// Whether there is a page cleaner.
    pub(crate) has_cleaner: AtomicBool,
    /// Whether evictions were requested that the cleaner has not begun: asking again is needless.
    pub(crate) eviction_is_requested: AtomicBool,
    pub(crate) requests: Mutex<CleanerRequests>,
    /// Signalled when `requests` changed.
    pub(crate) changed: Condvar,
}

#[derive(Default)]
pub(crate) struct CleanerRequests {
    /// Pages to read.
    pub(crate) pages: Vec<PageId>,
    /// Whether to evict pages.
    pub(crate) evict: bool,
    /// Whether the cleaner is to end.
    pub(crate) stop: bool,
}
