//! The log of an open database, as the engine uses it.
//!
//! ```text
//!  writer ─ shard(i) ─ timestamp ─ (applies to the tree) ─ append ─ drop
//!                                                            │
//!                                   buffers, one per shard ◄─┘      flusher: swap, checksum,
//!                                                                   write, sync, announce
//!  waiter ─ request_durable / wait_durable / subscribe ◄─────────── durable epoch
//! ```
//!
//! The flusher is one thread (`flusher.rs`) that sleeps while nothing is dirty. It writes early
//! when a buffer gets large, closes an epoch at least every `flush_interval` while there is
//! something to close, and at once when a caller asks for durability; all callers that ask during a
//! sync share the next one.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hedgerow_vfs::Vfs;

use crate::block::Identity;
use crate::directories::ShardFolders;
use crate::entries::IncarnationEnd;
use crate::error::{Error, Result};
use crate::flusher::{Flusher, Stopped};
use crate::generation::{Generation, Reserve};
use crate::health::{Health, Progress, Status};
use crate::options::LogOptions;
use crate::planted::{PlantedBug, planted};
use crate::requests::{Rotation, RotationPoint, RotationProgress};
use crate::segment::SegmentWriter;
use crate::shard::{self, ShardGuard};
use crate::shared::Shared;
use crate::statistics::Statistics;
use crate::timestamp::Timestamp;

/// How far beyond the current epoch a request for durability may move it. Timestamps run ahead of
/// it by a few epochs at most: one for each 16.7 million commits that a shard makes in one.
const FARTHEST_REQUEST: u64 = 1 << 10;

/// The log's reserve, released for a checkpoint. Made by [`Log::release_reserve`].
#[must_use = "the log takes the space back when this is dropped"]
pub struct ReleasedReserve<'a>(&'a Shared);

impl Drop for ReleasedReserve<'_> {
    fn drop(&mut self) {
        self.0.output().set_reserve_released(false);
        // It looks whether the disk is still full.
        self.0.state.wake_flusher();
    }
}

/// What the flusher's thread returns.
type Flushed = std::result::Result<IncarnationEnd, Stopped>;

/// Where rotations have come to.
struct Current {
    /// Of shard 0 of the current generation.
    identity: Identity,
    /// A rotation that is still under way because the disk is full.
    pending: Option<Receiver<RotationProgress>>,
}

/// How often a rotation looks whether the disk is full.
const ROTATION_POLL: Duration = Duration::from_millis(20);

/// The log of an open database. Dropping it closes it.
pub struct Log {
    shared: Arc<Shared>,
    vfs: Arc<dyn Vfs>,
    folders: ShardFolders,
    /// Held while rotating.
    current: Mutex<Current>,
    flusher: Mutex<Option<JoinHandle<Flushed>>>,
    flushed: OnceLock<Flushed>,
}

impl Log {
    /// Starts the flusher of an incarnation that the manifest names.
    pub(crate) fn start(
        vfs: Arc<dyn Vfs>,
        folders: ShardFolders,
        options: LogOptions,
        files: Generation,
        first_epoch: u64,
    ) -> Result<Arc<Log>> {
        let Generation { identity, writers } = files;
        let is_short = writers.iter().any(SegmentWriter::is_short);
        let shared = Arc::new(Shared::new(options, &identity, writers, first_epoch));
        // Before anything is written: what is accepted must have space.
        shared.state.set_short(is_short);
        let flusher = Flusher::new(Arc::clone(&shared))
            .start()
            .map_err(|e| Error::io("start the log's thread for", folders.of(0), e))?;
        shared.state.set_flusher(flusher.thread());
        Ok(Arc::new(Log {
            shared,
            vfs,
            folders,
            current: Mutex::new(Current {
                identity,
                pending: None,
            }),
            flusher: Mutex::new(Some(flusher)),
            flushed: OnceLock::new(),
        }))
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shared.shards.len()
    }

    /// Locks a shard for one commit. Waits while the shard's buffer is at its limit.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Poisoned`] or [`Error::Closed`]: no commit is possible.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard(&self, shard: usize) -> Result<ShardGuard<'_>> {
        self.shared.shards[shard].guard(&self.shared.state, Status::check)
    }

    /// Locks a shard for a commit that only removes: such a commit is accepted on a full disk as
    /// long as the log's reserve lasts, so that space can be freed.
    ///
    /// # Errors
    /// As for [`Log::shard`].
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_for_removal(&self, shard: usize) -> Result<ShardGuard<'_>> {
        self.shared.shards[shard].guard(&self.shared.state, Status::check_reserve)
    }

    /// Locks a shard for a commit whose changes are made already: does not wait for room, nor look
    /// at the log's state. On a full disk the record is written when there is room again, like
    /// those that were appended shortly before; after a failure it is lost as they are.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_for_applied_changes(&self, shard: usize) -> ShardGuard<'_> {
        self.shared.shards[shard].guard_for_applied_changes(&self.shared.state)
    }

    /// Runs `at_cut` at a moment when nobody holds a [`ShardGuard`], with a timestamp that no
    /// earlier commit exceeds and every later one does. Every commit waits for `at_cut`, so it must
    /// be quick; it must not call back into the log. Costs a mutex for each shard; the caller holds
    /// no guard.
    pub fn cut<R>(&self, at_cut: impl FnOnce(Timestamp) -> R) -> R {
        shard::cut(&self.shared.shards, at_cut)
    }

    /// Returns once every [`ShardGuard`] that is held now was released: commits with a timestamp of
    /// an earlier epoch than the [current one](Log::epoch) have happened then. Costs a mutex for
    /// each shard; the caller holds no guard.
    pub fn await_guards(&self) {
        for shard in &*self.shared.shards {
            drop(shard.lock());
        }
    }

    /// Hands everything appended so far, by all threads, over to the operating system: it survives
    /// the death of this process (not of the machine). Costs one write per shard that has
    /// something, and no sync; the caller holds no [`ShardGuard`].
    ///
    /// # Errors
    /// As for [`Log::shard`]: what was appended may be lost with this process.
    pub fn write_out(&self) -> Result<()> {
        if planted(PlantedBug::WriteOutLeftOut) {
            return Ok(());
        }
        let mut output = self.shared.output();
        if planted(PlantedBug::FailureForgotten) && self.shared.state.status.is_poisoned() {
            output.discard(&self.shared.shards);
            return Ok(());
        }
        loop {
            self.shared.state.status.check_reserve()?;
            if output.has_pending() {
                return Err(Error::DiskFull);
            }
            if !output.sealed {
                break;
            }
            // A rotation is syncing the old files; the new ones are next.
            let switched = self.shared.switched.wait(output);
            output = switched.unwrap_or_else(PoisonError::into_inner);
        }
        let outcome = output.write_out(&self.shared.state, &self.shared.shards);
        drop(output);
        outcome.map_err(|fault| self.shared.fail(fault))
    }

    /// The current epoch: commits that begin now get it or a later one.
    pub fn epoch(&self) -> u64 {
        self.shared.state.epoch.load(Ordering::Acquire)
    }

    /// Every commit up to and including this epoch is durable.
    pub fn durable_epoch(&self) -> u64 {
        self.shared.state.status.durable_epoch()
    }

    /// Asks that everything up to `epoch` becomes durable as soon as possible. Does not block;
    /// requests that arrive while a sync is on its way share the next one.
    pub fn request_durable(&self, epoch: u64) {
        if self.durable_epoch() >= epoch {
            return;
        }
        let epoch = self.reachable(epoch);
        let mut requests = self.shared.requests();
        if requests.durable < epoch {
            requests.durable = epoch;
            drop(requests);
            self.shared.state.wake_flusher();
        }
    }

    /// Blocks until everything up to `epoch` is durable.
    ///
    /// # Errors
    /// [`Error::DiskFull`]: not durable yet, it may still become so when space is freed.
    /// [`Error::Poisoned`]: not known to be durable, and never will be. [`Error::Closed`].
    pub fn wait_durable(&self, epoch: u64) -> Result<()> {
        if self.durable_epoch() >= epoch {
            return Ok(());
        }
        let epoch = self.reachable(epoch);
        self.request_durable(epoch);
        self.shared
            .state
            .status
            .wait_durable(epoch, || self.shared.flusher_done.load(Ordering::Acquire))
    }

    /// Has a block record the sequence of the manifest that is in place now, durably: an older copy
    /// of it is refused from then on. Costs a sync; does nothing if commits are not recorded. On a
    /// full disk the block is written when there is room.
    ///
    /// # Errors
    /// As for [`Log::wait_durable`].
    pub fn record_manifest_sequence(&self, sequence: u64) -> Result<()> {
        if !self.shared.state.options.records {
            return Ok(());
        }
        let mut output = self.shared.output();
        output.manifest = output.manifest.max(Some(sequence));
        drop(output);
        // Whatever is closed before this epoch is closed by now.
        self.wait_durable(self.epoch())
    }

    /// Whether everything up to `epoch` is durable, without waiting: for callers that delay a reply
    /// until it is. Asks for nothing: see [`Log::request_durable`].
    ///
    /// # Errors
    /// As for [`Log::wait_durable`]: it cannot become durable at present, or never will.
    pub fn poll_durable(&self, epoch: u64) -> Result<bool> {
        let flusher_done = || self.shared.flusher_done.load(Ordering::Acquire);
        self.shared.state.status.poll_durable(epoch, flusher_done)
    }

    /// `epoch`, or the farthest that a commit may have: an absurd request must not use up the
    /// epochs that there are, nor wait for ever.
    fn reachable(&self, epoch: u64) -> u64 {
        epoch.min(self.epoch() + FARTHEST_REQUEST)
    }

    /// Calls `subscriber` after each advance of the durable epoch and each change of health, from
    /// the flusher's thread: it must be quick and must not call back into waiting methods.
    pub fn subscribe(&self, subscriber: Box<dyn Fn(Progress) + Send + Sync>) {
        self.shared.state.status.subscribe(Arc::from(subscriber));
    }

    /// How the log is doing.
    pub fn health(&self) -> Health {
        self.shared.state.status.health()
    }

    /// Figures.
    pub fn statistics(&self) -> Statistics {
        self.shared
            .state
            .counters
            .read(self.epoch(), self.durable_epoch())
    }

    /// Ends the current generation of log files and begins the next. When it returns, everything
    /// appended to older generations is durable, and every guard under which that happened has
    /// been released: what is in older generations is in the tree.
    ///
    /// # Errors
    /// As for [`Log::shard`], or the files of the new generation could not be created. After
    /// [`Error::DiskFull`] the rotation may still complete once there is space.
    pub fn rotate(&self) -> Result<RotationPoint> {
        self.rotate_at(|_| {})
    }

    /// [`rotate`](Self::rotate), with something that runs at the cut: at a moment when nobody holds
    /// a [`ShardGuard`], after all commits of the older generations and before all of the new one,
    /// whose number it gets. It must be quick, since every commit waits for it, and must not call
    /// back into the log.
    ///
    /// # Errors
    /// As for [`rotate`](Self::rotate). `cut` has then run, or never will.
    pub fn rotate_at(&self, cut: impl FnOnce(u32)) -> Result<RotationPoint> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.pending.is_some() {
            self.finish_rotation(&mut current, || {})?;
        }
        self.shared.state.status.check_reserve()?;
        let next = current.identity.next_generation();
        let reserve = Reserve {
            bytes: self.shared.state.options.reserve_bytes,
            is_released: self.shared.output().is_reserve_released(),
        };
        let writers = Generation::create(&*self.vfs, &self.folders, next, reserve)?.writers;
        let is_refused = |writer: &SegmentWriter| match reserve.is_released {
            true => !writer.has_least(),
            false => writer.is_short(),
        };
        if writers.iter().any(is_refused) {
            // The files in use have more of a reserve than these would have.
            for writer in writers {
                let path = &writer.path;
                let removed = self.vfs.remove(path);
                removed.map_err(|e| Error::io("remove", path, e))?;
            }
            return Err(Error::DiskFull);
        }
        let (events, progress) = channel();
        let (go_on, wait) = channel();
        let generation = next.generation;
        {
            let mut requests = self.shared.requests();
            if !requests.stop {
                requests.rotation = Some(Rotation {
                    generation,
                    writers,
                    events,
                    go_on: wait,
                });
            }
        }
        self.shared.state.wake_flusher();
        current.pending = Some(progress);
        let mut cut = Some(cut);
        self.finish_rotation(&mut current, move || {
            if let Some(cut) = cut.take() {
                cut(generation);
            }
            // Nobody there any more: the flusher ended.
            let _ = go_on.send(());
        })
    }

    /// Whether the disk has no space beyond the reserve, so that only removals are accepted: one
    /// load.
    pub fn is_short(&self) -> bool {
        self.shared.state.status.is_short()
    }

    /// Whether a [`ReleasedReserve`] exists, for a checkpoint on a full disk.
    pub fn is_reserve_released(&self) -> bool {
        self.shared.output().is_reserve_released()
    }

    /// Whether the reserve is nearly used up: a checkpoint, which ends the files that have used it,
    /// gives it back. Takes all shards' mutexes, one after the other; the caller holds no
    /// [`ShardGuard`].
    pub fn is_reserve_low(&self) -> bool {
        self.shared.output().is_reserve_low(&self.shared.shards)
    }

    /// For each shard, whether its disk has no space beyond the reserve.
    pub fn short_shards(&self) -> Vec<bool> {
        self.shared.output().short_shards()
    }

    /// What [`Log::release_reserve`] would give back, in bytes.
    pub fn releasable_bytes(&self) -> u64 {
        self.releasable_of_shards().iter().sum()
    }

    /// The same, for each shard.
    pub fn releasable_of_shards(&self) -> Vec<u64> {
        self.shared.output().releasable()
    }

    /// Gives the disk space that is reserved back, but for what the next opening needs, until the
    /// guard is dropped: for a checkpoint on a full disk, which then frees more than that.
    /// Meanwhile a [rotation](Self::rotate) does with little space, and removals are accepted as
    /// long as there is some.
    pub fn release_reserve(&self) -> ReleasedReserve<'_> {
        self.shared.output().set_reserve_released(true);
        ReleasedReserve(&self.shared)
    }

    /// Waits for the rotation under way, but not for space on the disk.
    fn finish_rotation(
        &self,
        current: &mut Current,
        mut at_cut: impl FnMut(),
    ) -> Result<RotationPoint> {
        while let Some(progress) = &current.pending {
            match progress.recv_timeout(ROTATION_POLL) {
                Ok(RotationProgress::Cut) => at_cut(),
                Ok(RotationProgress::Done(point)) => {
                    current.pending = None;
                    current.identity = current.identity.next_generation();
                    return Ok(point);
                }
                Err(RecvTimeoutError::Timeout) => self.shared.state.status.check_reserve()?,
                // The flusher ended before it came to the rotation.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(self
            .shared
            .state
            .status
            .check()
            .err()
            .unwrap_or(Error::Closed))
    }

    /// Flushes everything and ends the log. Returns where its files end: record that in the
    /// manifest ([`Manifest::record_end`](crate::Manifest::record_end)) and store it, so that the
    /// next opening knows exactly what must be there. Calling it again returns the same.
    ///
    /// # Errors
    /// [`Error::Poisoned`] or [`Error::DiskFull`]: not everything is durable. The log is closed
    /// nevertheless; the next opening recovers what is.
    pub fn close(&self) -> Result<IncarnationEnd> {
        let mut flusher = self.flusher.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flusher) = flusher.take() {
            self.shared.state.status.set_closed();
            self.shared.requests().stop = true;
            self.shared.state.wake_flusher();
            if flusher.thread().id() == thread::current().id() {
                // The last owner was a subscriber: the thread ends by itself, after this.
                return Err(Error::Closed);
            }
            // A thread that panicked has poisoned the log.
            let flushed = flusher.join().unwrap_or(Err(Stopped::Poisoned));
            self.flushed.get_or_init(|| flushed);
        }
        match self.flushed.get() {
            Some(Ok(end)) => Ok(end.clone()),
            Some(Err(Stopped::DiskFull)) => Err(Error::DiskFull),
            _ => Err(self
                .shared
                .state
                .status
                .check()
                .err()
                .unwrap_or(Error::Closed)),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Waiters and subscribers have this error already.
        let _ = self.close();
    }
}
