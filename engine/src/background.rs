//! The background threads: one removes expired rows and [adapts leaves to their
//! keys](crate::index::key_adaption), one takes checkpoints when they are [due](crate::schedule).

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hedgerow_index::{IndexError, IndexErrorKind, ValuePart};
use hedgerow_log::Timestamp;
use hedgerow_sync::epoch;

use crate::commit::worker;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::expiry::{Expiring, ExpiryIndex};
use crate::index::key_adaption::KeyAdaption;
use crate::index::space::Space;
use crate::row::Row;
use crate::schedule::{CheckpointLimits, CheckpointState, Schedule};

const CHECKPOINT_POLL: Duration = Duration::from_millis(100);
/// Polls from one count of a page file's blocks to the next: they are counted one by one.
const SPACE_POLLS: u32 = 10;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
const SWEEP_CHUNK: usize = 1024;

/// Starts the threads that a writable database needs.
pub(crate) fn start(engine: &Arc<Engine>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    if let Some(interval) = engine.options.sweep_interval {
        let engine = Arc::clone(engine);
        let sweeper = thread::Builder::new().name("hedgerow-expiry".into());
        threads.push(sweeper.spawn(move || {
            let mut sweeper = Sweeper::default();
            let mut adaption = KeyAdaption::default();
            while !engine.wakeup.sleep(interval) {
                engine.give_back_ended();
                let _ = engine.retired.release(|| engine.is_closed());
                epoch::release_due();
                // A full disk or a failed log: writers get the error, and expired rows stay
                // invisible.
                let _ = sweeper.sweep(&engine);
                adaption.step(&engine);
            }
        })?);
    }
    if let Some(log_bytes) = engine.options.checkpoint_log_bytes {
        let engine = Arc::clone(engine);
        let checkpointer = thread::Builder::new().name("hedgerow-checkpoint".into());
        let limits = CheckpointLimits {
            log_bytes,
            idle: engine.options.checkpoint_idle,
            interval: engine.options.checkpoint_interval,
        };
        threads.push(checkpointer.spawn(move || checkpoint_when_due(&engine, limits))?);
    }
    Ok(threads)
}

fn checkpoint_when_due(engine: &Arc<Engine>, limits: CheckpointLimits) {
    let (opened, mut schedule) = (Instant::now(), Schedule::new(limits));
    let mut retry = FIRST_RETRY;
    let mut not_before = opened;
    let mut file = None;
    // In the place of one that recovery found damaged.
    let mut is_owed = !engine.damaged.is_empty();
    for poll in 0_u32.. {
        if engine.wakeup.sleep(CHECKPOINT_POLL) {
            return;
        }
        make_room(engine);
        let Some(log) = &engine.log else { return };
        // What recovery lost keeps checkpoints from succeeding.
        let pages = engine.pages().filter(|_| engine.lost.records() == 0);
        if poll % SPACE_POLLS == 0 {
            file = pages.map(|pages| pages.file_space());
        }
        let counters = &engine.counters;
        let (log, replayed_bytes) = (
            log.statistics(),
            counters.replayed_log_bytes.load(Ordering::Relaxed),
        );
        let state = CheckpointState {
            now: opened.elapsed(),
            changes: engine.changes(&log),
            log_bytes: engine.unreplaced_log_bytes(&log) + replayed_bytes,
            replayed_bytes,
            checkpoints: counters.checkpoints.load(Ordering::Acquire),
            checkpoint_bytes: counters.checkpoint_bytes.load(Ordering::Relaxed),
            covered_changes: counters.covered_changes.load(Ordering::Relaxed),
            part_bytes: counters.part_bytes.load(Ordering::Relaxed),
            file,
        };
        let is_due = schedule.is_due(state) || is_owed;
        if !is_due || Instant::now() < not_before {
            continue;
        }
        match engine.checkpoint() {
            Ok(_) => {
                is_owed = false;
                schedule.taken();
                file = pages.map(|pages| pages.file_space());
                retry = FIRST_RETRY;
            }
            Err(_) => {
                counters.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
                not_before = Instant::now() + retry;
                retry = (retry * 2).min(LONGEST_RETRY);
            }
        }
    }
}

/// Gives up older checkpoints on a full disk, so that writes go on.
fn make_room(engine: &Engine) {
    let keeps_older = engine.counters.listed_checkpoints.load(Ordering::Relaxed) > 1;
    if keeps_older && engine.is_disk_tight() {
        let _exclusive = engine.checkpointing();
        // A checkpoint that was under way may have done it, or have its own.
        if engine.is_disk_tight() && !engine.is_closed() {
            engine.give_up_older();
        }
    }
}

/// What a sweep came to.
#[derive(Default)]
struct SweepResult {
    rows: u64,
    /// Rows that could not be removed as a page cannot be read, why the first could not, and the
    /// last entry of them.
    unreadable: u64,
    first: Option<IndexError>,
    last: Option<Vec<u8>>,
}

impl SweepResult {
    /// Goes past what a damaged page has.
    fn pass(&mut self, error: IndexError) -> Result<()> {
        if error.kind() != IndexErrorKind::Damaged && error.keys().is_none() {
            return Err(error.into());
        }
        self.unreadable += 1;
        self.first.get_or_insert(error);
        Ok(())
    }
}

/// The sweeps of the background thread. Rows of damaged pages stay, and come first: between two
/// sweeps of everything it begins behind them.
#[derive(Default)]
struct Sweeper {
    behind: Option<(Vec<u8>, Instant)>,
}

/// How long entries of rows that cannot be removed are left alone.
const UNREADABLE_RETRY: Duration = Duration::from_secs(60);

impl Sweeper {
    fn sweep(&mut self, engine: &Arc<Engine>) -> Result<()> {
        if let Some((_, since)) = &self.behind
            && since.elapsed() >= UNREADABLE_RETRY
        {
            self.behind = None;
        }
        let (in_memory, in_pages) = engine.expiries.both();
        sweep_from(engine, in_memory, Bound::Unbounded)?;
        let Some(in_pages) = in_pages else {
            return Ok(());
        };
        let from = self.behind.as_ref().map(|(entry, _)| entry.clone());
        let is_whole = from.is_none();
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let swept = sweep_from(engine, in_pages, from)?;
        if is_whole {
            let unreadable = &engine.counters.unreadable;
            unreadable.store(swept.unreadable, Ordering::Relaxed);
            if let Some(error) = &swept.first {
                let rows = swept.unreadable;
                tracing::warn!(rows, %error, "expired rows stay: a page cannot be read");
            }
        }
        if let Some(last) = swept.last {
            let since = self
                .behind
                .take()
                .map_or_else(Instant::now, |(_, since)| since);
            self.behind = Some((last, since));
        }
        Ok(())
    }
}

/// Removes rows that have expired; how many. See [`Db::sweep_expired`](crate::Db::sweep_expired).
pub(crate) fn sweep(engine: &Arc<Engine>) -> Result<u64> {
    let (in_memory, in_pages) = engine.expiries.both();
    let mut swept = sweep_from(engine, in_memory, Bound::Unbounded)?;
    if let Some(in_pages) = in_pages {
        let rows = swept.rows;
        swept = sweep_from(engine, in_pages, Bound::Unbounded)?;
        swept.rows += rows;
    }
    engine
        .counters
        .unreadable
        .store(swept.unreadable, Ordering::Relaxed);
    match swept.first {
        Some(error) => Err(error.into()),
        None => Ok(swept.rows),
    }
}

/// Removes the expired rows whose entries are behind `from`; skips those whose pages cannot be
/// read.
fn sweep_from(
    engine: &Arc<Engine>,
    expiries: &ExpiryIndex,
    mut from: Bound<Vec<u8>>,
) -> Result<SweepResult> {
    // A row's stripe may be the caller's own.
    if worker::must_not_wait() {
        return Err(Error::Nested);
    }
    let now_ms = engine.now_ms();
    let mut swept = SweepResult::default();
    loop {
        let due = expiries.due(from.as_ref().map(Vec::as_slice), now_ms, SWEEP_CHUNK);
        let due = match due {
            Ok(due) => due,
            Err(error) => {
                // Of the entries themselves: whose rows they are is not known.
                let behind = error.keys().and_then(|keys| keys.to.clone());
                swept.pass(error)?;
                let Some(behind) = behind else {
                    return Ok(swept);
                };
                from = Bound::Included(behind);
                continue;
            }
        };
        for expiring in due.rows {
            match sweep_row(engine, expiries, &expiring, now_ms) {
                Ok(removed) => {
                    let removed = u64::from(removed);
                    swept.rows += removed;
                    engine
                        .counters
                        .expired
                        .fetch_add(removed, Ordering::Relaxed);
                }
                Err(Error::Index(error)) => {
                    swept.pass(error)?;
                    swept.last = Some(expiring.entry());
                }
                // It was dropped meanwhile, with its rows; the next call finds it so.
                Err(Error::KeyspaceMissing(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match due.more_behind {
            Some(last) => from = Bound::Excluded(last),
            None => return Ok(swept),
        }
    }
}

/// Removes a row that has expired, or an entry that has no such row; whether there was a row.
fn sweep_row(
    engine: &Arc<Engine>,
    expiries: &ExpiryIndex,
    expiring: &Expiring,
    now_ms: u64,
) -> Result<bool> {
    let space = engine.catalog().by_id.get(&expiring.keyspace).cloned();
    let Some(space) = space else {
        // Of a keyspace that was dropped; in no commit, as below.
        let _no_cut = engine.removals.begin();
        expiries.remove_found(expiring)?;
        return Ok(false);
    };
    let removed = engine.remove_if(&space, &expiring.key, |row| {
        row.expiry_ms().is_some_and(|expiry_ms| expiry_ms <= now_ms)
    })?;
    match removed {
        Some(removed) => Ok(removed.timestamp > Timestamp::ZERO),
        None => drop_stale(engine, expiries, &space, expiring).map(|()| false),
    }
}

/// Drops an entry that a change left behind which could not remove it.
fn drop_stale(
    engine: &Engine,
    expiries: &ExpiryIndex,
    handle: &Arc<Space>,
    found: &Expiring,
) -> Result<()> {
    // It is in no commit, and a checkpoint's cut must not fall into it.
    let _no_cut = engine.removals.begin();
    let (space, _stripe) = engine.lock_key(handle, &found.key)?;
    let expiry_ms = space.index.get(&found.key, ValuePart::Head, |bytes| {
        Row::new(bytes).expiry_ms()
    })?;
    if space.id == found.keyspace && expiry_ms.flatten() != Some(found.expiry_ms) {
        expiries.remove_found(found)?;
    }
    Ok(())
}
