//! The thread that keeps house: sweeps expired rows and takes checkpoints when the log is long.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hedgerow_index::Index;
use hedgerow_log::Timestamp;

use crate::engine::Engine;
use crate::error::Result;
use crate::expiry::Expiring;
use crate::keyspace::Keyspace;
use crate::row::Row;

/// Ends the threads when the database closes.
#[derive(Default)]
pub(crate) struct Wakeup {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    pub(crate) fn stop(&self) {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Sleeps; whether to stop.
    fn sleep(&self, interval: Duration) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        let slept = self
            .changed
            .wait_timeout_while(stop, interval, |stop| !*stop);
        *slept.unwrap_or_else(PoisonError::into_inner).0
    }
}

const CHECKPOINT_POLL: Duration = Duration::from_millis(100);
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
            while !engine.wakeup.sleep(interval) {
                // A full disk or a failed log: writers are told, and expired rows stay unseen.
                let _ = sweep(&engine);
            }
        })?);
    }
    if let Some(log_bytes) = engine.options.checkpoint_log_bytes {
        let engine = Arc::clone(engine);
        let checkpointer = thread::Builder::new().name("hedgerow-checkpoint".into());
        threads.push(checkpointer.spawn(move || checkpoint_when_long(&engine, log_bytes))?);
    }
    Ok(threads)
}

fn checkpoint_when_long(engine: &Arc<Engine>, log_bytes: u64) {
    let mut retry = FIRST_RETRY;
    let mut not_before = Instant::now();
    while !engine.wakeup.sleep(CHECKPOINT_POLL) {
        let Some(log) = &engine.log else { return };
        let counters = &engine.counters;
        let carried = counters.carried_log_bytes.load(Ordering::Relaxed);
        let length = log.statistics().generation_bytes + carried;
        // Never more often than the log grows to what a checkpoint writes.
        let wanted = log_bytes.max(counters.checkpoint_bytes.load(Ordering::Relaxed));
        if length < wanted || Instant::now() < not_before {
            continue;
        }
        match engine.checkpoint() {
            Ok(_) => retry = FIRST_RETRY,
            Err(_) => {
                counters.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
                not_before = Instant::now() + retry;
                retry = (retry * 2).min(LONGEST_RETRY);
            }
        }
    }
}

/// Drops an entry that a change left behind which could not remove it.
fn drop_stale(engine: &Engine, keyspace: &Keyspace, entry: &Expiring) -> Result<()> {
    let (space, _stripe) = keyspace.hold(&entry.key)?;
    let expiry_ms = space
        .index
        .get(&entry.key, |bytes| Row::new(bytes).expiry_ms())?;
    if space.id == entry.keyspace && expiry_ms.flatten() != Some(entry.expiry_ms) {
        engine
            .expiries
            .remove(space.id, &entry.key, entry.expiry_ms)?;
    }
    Ok(())
}

/// Removes rows that have expired; how many.
pub(crate) fn sweep(engine: &Arc<Engine>) -> Result<u64> {
    let now_ms = engine.now_ms();
    let mut swept = 0;
    loop {
        let due = engine.expiries.due(now_ms, SWEEP_CHUNK)?;
        let full = due.len() == SWEEP_CHUNK;
        let before = swept;
        for expiring in due {
            let space = engine.catalog().by_id.get(&expiring.keyspace).cloned();
            let Some(space) = space else {
                // Of a keyspace that was dropped.
                let (id, expiry_ms) = (expiring.keyspace, expiring.expiry_ms);
                engine.expiries.remove(id, &expiring.key, expiry_ms)?;
                continue;
            };
            let keyspace = Keyspace::new(Arc::clone(engine), space);
            let removed = engine.remove_if(&keyspace, &expiring.key, |row| {
                row.expiry_ms().is_some_and(|expiry_ms| expiry_ms <= now_ms)
            })?;
            match removed {
                Some((timestamp, _)) => swept += u64::from(timestamp > Timestamp::ZERO),
                None => drop_stale(engine, &keyspace, &expiring)?,
            }
        }
        engine
            .counters
            .expired
            .fetch_add(swept - before, Ordering::Relaxed);
        if !full || swept == before {
            return Ok(swept);
        }
    }
}
