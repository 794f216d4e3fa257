//! The state of an open log that its buffers, its files and its thread all use: the epoch, the
//! health, the counters, and how to wake the flusher.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::Thread;

use crate::block::Identity;
use crate::health::{Space, Status};
use crate::options::LogOptions;
use crate::statistics::Counters;

/// State of an open log.
pub(crate) struct LogState {
    pub(crate) options: LogOptions,
    pub(crate) epoch: AtomicU64,
    pub(crate) status: Status,
    pub(crate) counters: Counters,
    /// Whether the flusher sleeps until somebody appends.
    pub(crate) idle: AtomicBool,
    flusher: OnceLock<Thread>,
}

impl LogState {
    /// The state of a log that begins with `first_epoch`, in the files of `identity`.
    pub(crate) fn new(options: LogOptions, identity: &Identity, first_epoch: u64) -> LogState {
        LogState {
            epoch: AtomicU64::new(first_epoch),
            status: Status::new(first_epoch - 1),
            counters: Counters::new(identity.generation),
            idle: AtomicBool::new(false),
            flusher: OnceLock::new(),
            options,
        }
    }

    /// Says which thread the flusher is, once.
    pub(crate) fn set_flusher(&self, flusher: &Thread) {
        self.flusher.get_or_init(|| flusher.clone());
    }

    /// Makes the flusher look around now. One system call if it sleeps, none if not.
    pub(crate) fn wake_flusher(&self) {
        if let Some(flusher) = self.flusher.get() {
            self.counters.wakes.fetch_add(1, Relaxed);
            flusher.unpark();
        }
    }

    pub(crate) fn wake_if_idle(&self) {
        if self.idle.swap(false, AcqRel) {
            self.wake_flusher();
        }
    }

    /// Says whether the disk has no space beyond the reserve, after something was written.
    pub(crate) fn set_short(&self, short: bool) {
        let space = if short { Space::Reserve } else { Space::Enough };
        if self.set_space(space) {
            // It looks for space now and then.
            self.wake_flusher();
        }
    }

    /// Whether the disk was not known to be full and is.
    pub(crate) fn set_space(&self, space: Space) -> bool {
        let news = self.status.set_space(space);
        self.counters.full_disk.fetch_add(news.into(), Relaxed);
        news
    }
}
