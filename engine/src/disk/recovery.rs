//! Recovery: from checkpoint and logs back to trees.
//!
//! Both steps use all workers. The parts of the checkpoint are sorted runs of keys, so loading one
//! is a sequence of neighbouring inserts. Then every worker reads all logs, merged in order of
//! their timestamps, and applies the keys whose hash is its own: so each key's changes happen in
//! order, without any lock. The checkpoint was a fuzzy scan, so a row may be newer than a record;
//! its timestamp says so, and the record is skipped. Trees in a page file need no loading, and
//! `redo.rs` replays their logs. `fallback.rs` says which checkpoint is loaded.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow_index::{IndexError, MAX_KEY_BYTES};
use hedgerow_log::{
    CheckpointEntry, CheckpointReader, CheckpointRecord, Manifest, Operation, OperationKind,
    RecoveredLogs, Timestamp,
};

use crate::commit::key_hash::key_hash;
use crate::disk::progress::RecoveryPhase;
use crate::disk::redo;
use crate::disk::replay::{BadRecord, REPORT_EVERY_BYTES, Recovered, Recovery};
use crate::error::{Error, Result};
use crate::index::space::Space;
use crate::memory_shares::MemoryShares;
use crate::row::{Row, TIMESTAMP_BYTES};

/// What became of loading a checkpoint.
pub(crate) enum Loaded {
    /// It is whole, and has so many records.
    Whole(u64),
    /// A part of it cannot be read or is not as it was written. Some of its rows may be loaded.
    Damaged(Error),
}

/// Why a part of a checkpoint was not loaded.
enum Stop {
    Damaged(Error),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl From<IndexError> for Stop {
    fn from(error: IndexError) -> Stop {
        Stop::Failed(error.into())
    }
}

/// What Linux and its relatives say of a sector that cannot be read.
const EIO: i32 = 5;

impl Stop {
    /// What it means that a checkpoint's file could not be read.
    fn of_reader(error: hedgerow_log::Error) -> Stop {
        let is_damage = match &error {
            hedgerow_log::Error::Corrupt(_) => true,
            hedgerow_log::Error::Io { source, .. } => source.raw_os_error() == Some(EIO),
            _ => false,
        };
        match is_damage {
            true => Stop::Damaged(error.into()),
            false => Stop::Failed(error.into()),
        }
    }
}

impl Recovery<'_> {
    /// Replays the logs over a checkpoint that is loaded; what it did, without the checkpoint.
    pub(crate) fn replay_all(&self, logs: &RecoveredLogs) -> Result<Recovered> {
        if let Some(pages) = self.pages {
            let redone = redo::redo(self, pages, logs)?;
            self.check_memory()?;
            return Ok(redone);
        }
        let total_bytes = logs.total_bytes();
        let replayed = AtomicU64::new(0);
        let threads = self.replaying_threads(logs)?;
        self.on_all_threads(threads, |thread| {
            let own = OwnKeys { thread, threads };
            let applied = self.replay(logs, own, total_bytes)?;
            replayed.fetch_add(applied, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(Recovered {
            records: replayed.into_inner(),
            ..Recovered::default()
        })
    }

    /// How many threads replay the logs. Each holds a block of every shard's log, and a block is as
    /// long as a commit may be; and it holds copies of the change that it applies. Together they
    /// take no more than a quarter of the memory limit, or [`REPLAY_BYTES`] without one, unless a
    /// single one does.
    fn replaying_threads(&self, logs: &RecoveredLogs) -> Result<usize> {
        let limit_bytes = self.memory_limit.map(|limit_bytes| limit_bytes as u64 / 4);
        let room_bytes = limit_bytes.unwrap_or(REPLAY_BYTES) / 2;
        // No block is longer than its file.
        if logs.total_bytes().saturating_mul(self.threads as u64) <= room_bytes {
            return Ok(self.threads);
        }
        let affordable = room_bytes / logs.block_bytes()?.max(1);
        Ok(self.threads.min(affordable as usize).max(1))
    }

    /// Refuses what would need far more memory than there may be.
    pub(crate) fn check_memory(&self) -> Result<()> {
        let Some(limit_bytes) = self.memory_limit else {
            return Ok(());
        };
        if let Some(pages) = self.pages {
            self.memory.grow(limit_bytes, pages);
        }
        let most_bytes = MemoryShares::most(limit_bytes, self.pages.is_some());
        let most_bytes = most_bytes.saturating_add(most_bytes / 4);
        if hedgerow_memory::reserved_bytes() <= most_bytes {
            return Ok(());
        }
        match MemoryShares::used_without_dead(most_bytes) {
            used_bytes if used_bytes > most_bytes => Err(Error::RecoveryOutOfMemory {
                limit_bytes,
                used_bytes,
            }),
            _ => Ok(()),
        }
    }

    /// Loads a checkpoint's rows of keyspaces in memory.
    pub(crate) fn load_checkpoint(
        &self,
        manifest: &Manifest,
        checkpoint: &CheckpointEntry,
    ) -> Result<Loaded> {
        let parts = &checkpoint.parts;
        if parts.is_empty() && self.pages.is_some() {
            return Ok(Loaded::Whole(0));
        }
        let total_bytes = parts.iter().map(|part| part.len).sum();
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        self.report(RecoveryPhase::Checkpoint, 0, total_bytes);
        let (database_id, folders) = (manifest.database_id, manifest.folders(self.dir));
        let damage = Mutex::new(None);
        self.on_all_threads(self.threads, |_| {
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let reader = CheckpointReader::open(
                    &**self.vfs,
                    folders.path(part.directory),
                    database_id,
                    checkpoint.generation,
                    part,
                );
                let loaded = reader.map_err(Stop::of_reader).and_then(|reader| {
                    self.load_part(reader, &|bytes| {
                        let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                        self.report(RecoveryPhase::Checkpoint, done, total_bytes);
                    })
                });
                match loaded {
                    Ok(()) => {}
                    Err(Stop::Failed(error)) => return Err(error),
                    Err(Stop::Damaged(error)) => {
                        // Nobody needs the other parts.
                        next.store(parts.len(), Ordering::Relaxed);
                        let mut damage = damage.lock().unwrap_or_else(PoisonError::into_inner);
                        damage.get_or_insert(error);
                    }
                }
            }
            Ok(())
        })?;
        let damage = damage.into_inner();
        Ok(match damage.unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Loaded::Damaged(error),
            None => Loaded::Whole(parts.iter().map(|part| part.records).sum()),
        })
    }

    fn load_part(
        &self,
        mut reader: CheckpointReader,
        done: &dyn Fn(u64),
    ) -> std::result::Result<(), Stop> {
        let mut buffer = Vec::new();
        let mut reported = 0;
        let mut memory = MemoryCheck::default();
        let mut last: Option<(u32, Option<&Arc<Space>>)> = None;
        loop {
            let bytes = reader.bytes_read();
            if bytes >= reported + REPORT_EVERY_BYTES {
                done(bytes - reported);
                reported = bytes;
            }
            let next = reader.next().map_err(Stop::of_reader)?;
            let Some(CheckpointRecord { keyspace, key, row }) = next else {
                break;
            };
            let space = match last {
                Some((id, space)) if id == keyspace => space,
                _ => self.spaces.get(&keyspace),
            };
            last = Some((keyspace, space));
            // Of a keyspace that was dropped while the checkpoint was written.
            let Some(space) = space else { continue };
            let body = row.get(TIMESTAMP_BYTES..).unwrap_or_default();
            if key.len() > MAX_KEY_BYTES || !Row::check_body(body) {
                return Err(BadRecord::undecodable(space, key).at(reader.place()).into());
            }
            if let Err(bad) = BadRecord::check_width(space, key) {
                return Err(bad.at(reader.place()).into());
            }
            let expiry_ms = Row::new(row).expiry_ms();
            space.install(self.expiries, None, key, expiry_ms, &mut buffer, |new| {
                new.extend_from_slice(row);
            })?;
            memory.after(self, key.len() + row.len())?;
        }
        self.check_memory()?;
        done(reader.bytes_read() - reported);
        Ok(())
    }

    /// Applies the commits of the keys that are a thread's own; how many changes those were.
    fn replay(&self, logs: &RecoveredLogs, own: OwnKeys, total_bytes: u64) -> Result<u64> {
        let mut commits = logs.commits();
        let mut group = ReplayGroup::default();
        let mut reported = 0;
        let mut applied = 0;
        loop {
            let bytes = commits.bytes_read();
            if own.thread == 0 && bytes >= reported + REPORT_EVERY_BYTES {
                self.report(RecoveryPhase::Log, bytes, total_bytes);
                reported = bytes;
            }
            let Some(commit) = commits.next()? else { break };
            for operation in commit.operations() {
                self.check_keyspace(operation.keyspace)?;
                if operation.kind == OperationKind::RemoveRange {
                    if let Err(bad) = self.check(&operation) {
                        return Err(bad.at(commits.place()));
                    }
                    // What came before is in the tree first.
                    self.apply_group(&mut group)?;
                    let has = |key: &[u8]| own.has(operation.keyspace, key);
                    self.replay_range(commit.timestamp(), &operation, has)?;
                    applied += u64::from(own.thread == 0);
                    continue;
                }
                if !own.has(operation.keyspace, operation.key) {
                    continue;
                }
                applied += 1;
                if let Err(bad) = self.check(&operation) {
                    return Err(bad.at(commits.place()));
                }
                if !group.push(commit.timestamp(), &operation) {
                    self.apply_group(&mut group)?;
                }
            }
        }
        self.apply_group(&mut group)?;
        self.check_memory()?;
        if own.thread == 0 {
            self.report(RecoveryPhase::Log, total_bytes, total_bytes);
        }
        Ok(applied)
    }

    /// Applies a group of changes in order, after their cache misses have overlapped.
    fn apply_group(&self, group: &mut ReplayGroup) -> Result<()> {
        let changes = std::mem::take(&mut group.changes);
        let mut from = 0;
        for run in changes.chunk_by(|a, b| a.keyspace == b.keyspace) {
            // Of a keyspace that was dropped, if it is missing.
            if let Some(space) = self.spaces.get(&run[0].keyspace) {
                let mut keys: [&[u8]; GROUP] = [&[]; GROUP];
                let mut at = from;
                for (key, change) in keys.iter_mut().zip(run) {
                    *key = &group.bytes[at..at + change.key_bytes];
                    at += change.key_bytes + change.payload_bytes;
                }
                space.index.as_dyn().prefetch_many(&keys[..run.len()]);
                let mut at = from;
                for change in run {
                    let (key, rest) = group.bytes[at..].split_at(change.key_bytes);
                    let operation = Operation {
                        keyspace: change.keyspace,
                        kind: change.kind,
                        key,
                        payload: &rest[..change.payload_bytes],
                    };
                    self.apply(space, change.timestamp, &operation, &mut group.row)?;
                    at += change.key_bytes + change.payload_bytes;
                }
            }
            from += run
                .iter()
                .map(|c| c.key_bytes + c.payload_bytes)
                .sum::<usize>();
        }
        group.changes = changes;
        group.memory.after(self, group.bytes.len())?;
        group.clear();
        Ok(())
    }
}

/// The keys whose changes one of several threads applies.
#[derive(Clone, Copy)]
struct OwnKeys {
    thread: usize,
    threads: usize,
}

impl OwnKeys {
    fn has(&self, keyspace: u32, key: &[u8]) -> bool {
        let hash = key_hash(keyspace, key) >> 32;
        hash as usize % self.threads == self.thread
    }
}

/// Checks memory each time a thread has put [`CHECK_MEMORY_EVERY_BYTES`] of rows into indexes.
///
/// Every thread checks, so that all of them stop. It counts what a thread applied, not what it
/// read: a block of the log may be as large as a commit, and each thread reads every block.
#[derive(Default)]
struct MemoryCheck {
    unchecked_bytes: usize,
}

const CHECK_MEMORY_EVERY_BYTES: usize = 1 << 20;

impl MemoryCheck {
    /// Counts `bytes` more, and checks if it is time.
    fn after(&mut self, recovery: &Recovery<'_>, bytes: usize) -> Result<()> {
        self.unchecked_bytes += bytes;
        if self.unchecked_bytes < CHECK_MEMORY_EVERY_BYTES {
            return Ok(());
        }
        self.unchecked_bytes = 0;
        recovery.check_memory()
    }
}

/// Memory of all threads that replay, where nothing else limits it.
const REPLAY_BYTES: u64 = 1 << 30;

/// Changes per group: enough to overlap the cache misses of their keys.
const GROUP: usize = 64;
const GROUP_BYTES: usize = 1 << 20;

/// Changes copied from the log, to be applied together.
#[derive(Default)]
struct ReplayGroup {
    changes: Vec<ReplayedChange>,
    /// Keys and payloads.
    bytes: Vec<u8>,
    row: Vec<u8>,
    memory: MemoryCheck,
}

struct ReplayedChange {
    keyspace: u32,
    timestamp: Timestamp,
    kind: OperationKind,
    key_bytes: usize,
    payload_bytes: usize,
}

impl ReplayGroup {
    /// Adds a change; whether there is room for another.
    fn push(&mut self, timestamp: Timestamp, operation: &Operation<'_>) -> bool {
        let Operation {
            keyspace,
            kind,
            key,
            payload,
        } = *operation;
        let (key_bytes, payload_bytes) = (key.len(), payload.len());
        self.changes.push(ReplayedChange {
            keyspace,
            timestamp,
            kind,
            key_bytes,
            payload_bytes,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
        self.changes.len() < GROUP && self.bytes.len() < GROUP_BYTES
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.bytes.clear();
        // Of a change that was longer than a group.
        self.bytes.shrink_to(2 * GROUP_BYTES);
        self.row.clear();
        self.row.shrink_to(GROUP_BYTES);
    }
}
