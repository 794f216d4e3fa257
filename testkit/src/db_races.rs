//! Race tests on a database: a batch of reads and a commit of several keys, led into each other.
//!
//! The callback of `get_many` runs in the middle of its batch and the closure of a transaction in
//! the middle of its commit. So each can stand still until the other has done what it must not do,
//! or has evidently been kept from it. Every key always holds the number of the commit that
//! wrote it, so a batch that saw half of one shows two numbers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::{Db, Durability, Keyspace, Locks, WriteOptions};
use hedgerow_vfs::MemoryVfs;

/// Enough keys that a batch reads the last long after the first: several times as many as the
/// tree looks up at once.
const KEYS: u32 = 100;

/// How long one side gives the other to do what it must not.
const TIMEOUT: Duration = Duration::from_millis(3);

struct Arena {
    db: Db,
    keyspace: Keyspace,
    keys: Vec<Vec<u8>>,
}

impl Arena {
    fn open() -> Result<Arena, String> {
        let db = Db::builder()
            .vfs(Arc::new(MemoryVfs::new()))
            .sweep_interval(None)
            .checkpoint_log_bytes(None)
            .open(Path::new("/data"))
            .map_err(|error| error.to_string())?;
        let keyspace = db.keyspace("k").map_err(|error| error.to_string())?;
        let keys = (0..KEYS).map(|key| key.to_be_bytes().to_vec()).collect();
        let arena = Arena { db, keyspace, keys };
        arena.commit(0, || ())?;
        Ok(arena)
    }

    /// Writes `number` to all keys in one commit; `meanwhile` runs when their locks are held and
    /// nothing is written yet.
    fn commit(&self, number: u64, meanwhile: impl FnOnce()) -> Result<(), String> {
        let locks: Vec<_> = self
            .keys
            .iter()
            .map(|key| (&self.keyspace, key.as_slice()))
            .collect();
        let options = WriteOptions::from(Durability::None);
        let outcome = self
            .db
            .transact(Locks::Keys(&locks), &options, |transaction| {
                for key in &self.keys {
                    transaction.put(&self.keyspace, key, &number.to_le_bytes())?;
                }
                meanwhile();
                Ok(())
            });
        outcome.map(drop).map_err(|error| error.to_string())
    }

    /// Reads all keys in one batch; `first` runs when the first of them arrives.
    fn read(&self, first: impl FnOnce()) -> Result<(), String> {
        let names: Vec<&[u8]> = self.keys.iter().map(Vec::as_slice).collect();
        let mut first = Some(first);
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let outcome = self.keyspace.get_many(&names, |_, row| {
            if let Some(first) = first.take() {
                first();
            }
            let value = row.and_then(|row| row.value().map(<[u8]>::to_vec));
            seen.push(value.unwrap_or_default());
        });
        outcome.map_err(|error| error.to_string())?;
        let numbers: Vec<u64> = seen
            .iter()
            .filter_map(|value| Some(u64::from_le_bytes(value.first_chunk().copied()?)))
            .collect();
        if numbers.len() != self.keys.len() || numbers.iter().any(|number| *number != numbers[0]) {
            return Err(format!("a batch saw half of a commit: {numbers:?}"));
        }
        Ok(())
    }
}

/// Waits for a flag, but not for ever: the other side may rightly be waiting for us.
fn give_time_for(flag: &AtomicBool) {
    let start = Instant::now();
    while !flag.load(Ordering::Acquire) && start.elapsed() < TIMEOUT {
        thread::yield_now();
    }
}

/// A commit begins while a batch is under way.
pub fn commit_during_a_batch(rounds: usize) -> Result<(), String> {
    let arena = Arena::open()?;
    for round in 1..=rounds as u64 {
        let reading = AtomicBool::new(false);
        let committed = AtomicBool::new(false);
        let (read, written) = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                while !reading.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                let outcome = arena.commit(round, || ());
                committed.store(true, Ordering::Release);
                outcome
            });
            let read = arena.read(|| {
                reading.store(true, Ordering::Release);
                give_time_for(&committed);
            });
            // Also where no row arrived: the writer waits for this.
            reading.store(true, Ordering::Release);
            (read, writer.join())
        });
        written.map_err(|_| "the writer panicked".to_owned())??;
        read?;
    }
    Ok(())
}

/// A batch begins while a commit is under way.
pub fn batch_during_a_commit(rounds: usize) -> Result<(), String> {
    let arena = Arena::open()?;
    for round in 1..=rounds as u64 {
        let committing = AtomicBool::new(false);
        let reading = AtomicBool::new(false);
        let committed = AtomicBool::new(false);
        let (read, written) = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let outcome = arena.commit(round, || {
                    committing.store(true, Ordering::Release);
                    give_time_for(&reading);
                });
                committing.store(true, Ordering::Release);
                committed.store(true, Ordering::Release);
                outcome
            });
            while !committing.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let read = arena.read(|| {
                reading.store(true, Ordering::Release);
                give_time_for(&committed);
            });
            (read, writer.join())
        });
        written.map_err(|_| "the writer panicked".to_owned())??;
        read?;
    }
    Ok(())
}
