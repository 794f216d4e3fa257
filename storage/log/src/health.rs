//! The health of the log, its durable epoch, and their subscribers.
//!
//! One word that the append path reads (are appends still accepted?), one condition variable for
//! threads that block until an epoch is durable, and callbacks for threads that must not block.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use crate::error::{Error, Result};
use crate::planted::{PlantedBug, planted};

/// How the log is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Everything works.
    Healthy,
    /// No space left but for a reserve: only removals are accepted, and work resumes by itself when
    /// there is space.
    DiskFull,
    /// A write or sync failed: nothing is accepted any more. The reason is inside.
    Poisoned(String),
}

/// What subscribers are notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every commit up to and including this epoch is durable.
    Durable(u64),
    /// The health changed. After `DiskFull` what was appended may still become durable; after
    /// `Poisoned` nothing more does.
    Health(Health),
}

const HEALTHY: u8 = 0;
/// The disk has no space beyond the reserve: what is accepted is written to that.
const SHORT: u8 = 1;
/// Blocks wait for space.
const DISK_FULL: u8 = 2;
const POISONED: u8 = 3;
const CLOSED: u8 = 4;

/// Space for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Enough,
    /// Nothing but what is reserved, for removals.
    Reserve,
    /// Too little even for what was accepted.
    None,
}

type Subscriber = Arc<dyn Fn(Progress) + Send + Sync>;

/// Health and durable epoch, with those who wait for them.
pub(crate) struct Status {
    durable: AtomicU64,
    code: AtomicU8,
    // The reason of poisoning; the lock of `changed`.
    reason: Mutex<Option<String>>,
    changed: Condvar,
    /// Threads that wait for `changed`; changed under its lock. A condition variable makes a system
    /// call for each notification, also if nobody waits.
    waiters: AtomicUsize,
    subscribers: RwLock<Vec<Subscriber>>,
}

impl Status {
    pub(crate) fn new(durable_epoch: u64) -> Status {
        Status {
            durable: AtomicU64::new(durable_epoch),
            code: AtomicU8::new(HEALTHY),
            reason: Mutex::new(None),
            changed: Condvar::new(),
            waiters: AtomicUsize::new(0),
            subscribers: RwLock::new(Vec::new()),
        }
    }

    pub(crate) fn durable_epoch(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Whether appends are accepted: one load.
    pub(crate) fn check(&self) -> Result<()> {
        match self.code.load(Ordering::Acquire) {
            HEALTHY => Ok(()),
            SHORT | DISK_FULL => Err(Error::DiskFull),
            POISONED if planted(PlantedBug::FailureForgotten) => Ok(()),
            POISONED => Err(Error::Poisoned(self.reason().clone().unwrap_or_default())),
            _ => Err(Error::Closed),
        }
    }

    /// Whether removals are accepted, and whether the log can write at all: one load.
    pub(crate) fn check_reserve(&self) -> Result<()> {
        match self.code.load(Ordering::Acquire) {
            SHORT => Ok(()),
            _ => self.check(),
        }
    }

    /// Whether nothing but removals is accepted: one load.
    pub(crate) fn is_short(&self) -> bool {
        self.code.load(Ordering::Relaxed) == SHORT
    }

    pub(crate) fn health(&self) -> Health {
        match self.check() {
            Err(Error::DiskFull) => Health::DiskFull,
            Err(Error::Poisoned(reason)) => Health::Poisoned(reason),
            _ => Health::Healthy,
        }
    }

    /// Announces that everything up to `epoch` is durable.
    pub(crate) fn advance(&self, epoch: u64) {
        debug_assert!(epoch > self.durable_epoch());
        let reason = self.reason();
        self.durable.store(epoch, Ordering::Release);
        self.notify_waiters(reason);
        self.notify(&Progress::Durable(epoch));
    }

    /// Whether appends are over for good.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.code.load(Ordering::Acquire) == POISONED
    }

    /// Returns whether the disk was not known to be full and is.
    pub(crate) fn set_space(&self, space: Space) -> bool {
        let to = match space {
            Space::Enough => HEALTHY,
            Space::Reserve => SHORT,
            Space::None => DISK_FULL,
        };
        if self.code.load(Ordering::Acquire) == to {
            return false;
        }
        let mut was_healthy = false;
        let change = |code| {
            was_healthy = code == HEALTHY;
            (code <= DISK_FULL && code != to).then_some(to)
        };
        if !self.set_code(change, None) {
            return false;
        }
        let health = match space {
            Space::Enough => {
                tracing::info!("the disk has space again: writes are accepted");
                Health::Healthy
            }
            Space::Reserve => {
                tracing::error!(
                    "the disk is full: only removals are accepted until there is space"
                );
                Health::DiskFull
            }
            Space::None => {
                tracing::error!("the disk is full: writes are refused until there is space");
                Health::DiskFull
            }
        };
        self.notify(&Progress::Health(health));
        was_healthy
    }

    /// Returns whether that is news.
    pub(crate) fn poison(&self, reason: &str) -> bool {
        let reason = reason.to_owned();
        let change = |code| (code != POISONED).then_some(POISONED);
        let news = self.set_code(change, Some(reason.clone()));
        if news {
            tracing::error!(%reason, "the log failed: no write is accepted until a restart");
            self.notify(&Progress::Health(Health::Poisoned(reason)));
        }
        news
    }

    /// No more appends. What was appended is still flushed.
    pub(crate) fn set_closed(&self) {
        self.set_code(|code| (code != POISONED).then_some(CLOSED), None);
    }

    fn set_code(&self, change: impl FnOnce(u8) -> Option<u8>, why: Option<String>) -> bool {
        let mut reason = self.reason();
        let Some(code) = change(self.code.load(Ordering::Acquire)) else {
            return false;
        };
        if why.is_some() {
            *reason = why;
        }
        self.code.store(code, Ordering::Release);
        self.notify_waiters(reason);
        true
    }

    /// Whether everything up to `epoch` is durable; an error if that cannot be expected.
    /// `flusher_done` says whether the flusher has ended.
    pub(crate) fn poll_durable(&self, epoch: u64, flusher_done: impl Fn() -> bool) -> Result<bool> {
        if self.durable_epoch() >= epoch {
            return Ok(true);
        }
        let reason = self.reason();
        self.is_durable(epoch, reason.as_deref(), flusher_done)
    }

    /// As [`Status::poll_durable`], with the lock of `changed` held.
    fn is_durable(
        &self,
        epoch: u64,
        reason: Option<&str>,
        flusher_done: impl Fn() -> bool,
    ) -> Result<bool> {
        if self.durable_epoch() >= epoch {
            return Ok(true);
        }
        match self.code.load(Ordering::Acquire) {
            HEALTHY | SHORT => Ok(false),
            DISK_FULL => Err(Error::DiskFull),
            POISONED => Err(Error::Poisoned(reason.unwrap_or_default().to_owned())),
            _ if flusher_done() => Err(Error::Closed),
            _ => Ok(false),
        }
    }

    /// Blocks until everything up to `epoch` is durable, or until that cannot be expected.
    /// `flusher_done` says whether the flusher has ended.
    pub(crate) fn wait_durable(&self, epoch: u64, flusher_done: impl Fn() -> bool) -> Result<()> {
        let mut reason = self.reason();
        while !self.is_durable(epoch, reason.as_deref(), &flusher_done)? {
            self.waiters.fetch_add(1, Ordering::Relaxed);
            reason = self
                .changed
                .wait(reason)
                .unwrap_or_else(PoisonError::into_inner);
            self.waiters.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Wakes everybody who blocks in `wait_durable`, to look again.
    pub(crate) fn wake_waiters(&self) {
        self.notify_waiters(self.reason());
    }

    /// Wakes those who wait for `changed`, whose lock the caller has held while changing something.
    fn notify_waiters(&self, reason: MutexGuard<'_, Option<String>>) {
        let waiters = self.waiters.load(Ordering::Relaxed);
        drop(reason);
        if waiters > 0 {
            self.changed.notify_all();
        }
    }

    pub(crate) fn subscribe(&self, subscriber: Subscriber) {
        self.subscribers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(subscriber);
    }

    fn notify(&self, progress: &Progress) {
        let subscribers = self
            .subscribers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for subscriber in subscribers {
            subscriber(progress.clone());
        }
    }

    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
