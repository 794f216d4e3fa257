//! Recovery: from checkpoint and logs back to trees.
//!
//! Both steps use all workers. The parts of the checkpoint are sorted runs of keys, so loading
//! one is a sequence of neighbouring inserts. Then every worker reads all logs, merged in order
//! of their timestamps, and applies the keys whose hash is its own: so each key's changes happen
//! in order, without any lock. The checkpoint was a fuzzy scan and may be ahead of a record; a
//! row's own timestamp says so, and the record is skipped.
//!
//! Of trees in a page file there is nothing to load, and their logs are replayed in another way:
//! see `redo.rs`.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use hedgerow_index::{Index, MAX_KEY_BYTES};
use hedgerow_log::{
    CheckpointEntry, CheckpointReader, Manifest, Operation, OperationKind, Problem, RecoveredLogs,
    Timestamp,
};
use hedgerow_vfs::Vfs;

use crate::error::{Error, Result};
use crate::expiry::ExpiryIndex;
use crate::key_hash::key_hash;
use crate::lost::Lost;
use crate::page_file::PageFile;
use crate::planted::{PlantedBug, planted};
use crate::progress::{ProgressCallback, RecoveryPhase, RecoveryProgress};
use crate::range_record;
use crate::redo;
use crate::row::{ColumnChanges, Row, TIMESTAMP_BYTES};
use crate::space::Space;

pub(crate) const REPORT_EVERY_BYTES: u64 = 1 << 20;

/// Where recovery puts what it reads.
pub(crate) struct Recovery<'a> {
    pub(crate) vfs: &'a Arc<dyn Vfs>,
    pub(crate) dir: &'a Path,
    pub(crate) spaces: &'a HashMap<u32, Arc<Space>>,
    pub(crate) expiries: &'a ExpiryIndex,
    pub(crate) threads: usize,
    pub(crate) progress: Option<&'a ProgressCallback>,
    pub(crate) memory_limit: Option<usize>,
    /// Where the trees are, if in a page file.
    pub(crate) pages: Option<&'a PageFile>,
    /// What could not be replayed.
    pub(crate) lost: &'a Lost,
    /// Keyspaces have ids below this one.
    pub(crate) next_keyspace_id: u32,
}

/// What recovery did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovered {
    /// Records read, of checkpoint and logs.
    pub(crate) records: u64,
    /// Batches in which the logs were applied to a page file.
    pub(crate) batches: u64,
    /// Records that were not applied, since a later one of their batch replaces them.
    pub(crate) overwritten: u64,
}

impl Recovery<'_> {
    /// Loads everything that the manifest names, and logs what that was.
    pub(crate) fn run(&self, manifest: &Manifest, logs: &RecoveredLogs) -> Result<Recovered> {
        let started = Instant::now();
        let recovered = self.replay_all(manifest, logs)?;
        tracing::info!(
            checkpoint_generation = manifest.checkpoint.as_ref().map(|entry| entry.generation),
            log_bytes = logs.total_bytes(),
            records = recovered.records,
            duration_ms = started.elapsed().as_millis() as u64,
            "recovered"
        );
        for reason in self.lost.reasons() {
            tracing::error!(%reason, "a part of the log could not be replayed");
        }
        Ok(recovered)
    }

    fn replay_all(&self, manifest: &Manifest, logs: &RecoveredLogs) -> Result<Recovered> {
        if let Some(pages) = self.pages {
            return redo::redo(self, pages, logs);
        }
        let loaded = match &manifest.checkpoint {
            Some(checkpoint) => self.load_checkpoint(manifest.database_id, checkpoint)?,
            None => 0,
        };
        let total_bytes = logs.total_bytes();
        let replayed = AtomicU64::new(0);
        self.on_all_threads(self.threads, |thread| {
            let applied = self.replay(logs, thread, total_bytes)?;
            replayed.fetch_add(applied, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(Recovered {
            records: loaded + replayed.into_inner(),
            ..Recovered::default()
        })
    }

    pub(crate) fn report(&self, phase: RecoveryPhase, done_bytes: u64, total_bytes: u64) {
        if let Some(progress) = self.progress {
            progress(RecoveryProgress {
                phase,
                done_bytes,
                total_bytes,
            });
        }
    }

    /// Refuses what would need far more memory than there may be.
    fn check_memory(&self) -> Result<()> {
        let Some(limit_bytes) = self.memory_limit else {
            return Ok(());
        };
        let most_bytes = limit_bytes.saturating_add(limit_bytes / 4);
        if hedgerow_memory::reserved_bytes() <= most_bytes {
            return Ok(());
        }
        match hedgerow_memory::live_bytes() {
            used_bytes if used_bytes > most_bytes => Err(Error::RecoveryOutOfMemory {
                limit_bytes,
                used_bytes,
            }),
            _ => Ok(()),
        }
    }

    /// Runs `work` once on each of so many threads; the first error wins.
    pub(crate) fn on_all_threads(
        &self,
        threads: usize,
        work: impl Fn(usize) -> Result<()> + Sync,
    ) -> Result<()> {
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || work(thread)))
                .collect();
            let results = threads.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            // All are joined before the first error is returned.
            results.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn load_checkpoint(&self, database_id: u128, checkpoint: &CheckpointEntry) -> Result<u64> {
        let parts = &checkpoint.parts;
        let total_bytes = parts.iter().map(|part| part.len).sum();
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        self.report(RecoveryPhase::Checkpoint, 0, total_bytes);
        self.on_all_threads(self.threads, |_| {
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let reader = CheckpointReader::open(
                    &**self.vfs,
                    self.dir,
                    database_id,
                    checkpoint.generation,
                    part,
                )?;
                self.load_part(reader, &|bytes| {
                    let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                    self.report(RecoveryPhase::Checkpoint, done, total_bytes);
                })?;
            }
            Ok(())
        })?;
        Ok(parts.iter().map(|part| part.records).sum())
    }

    fn load_part(&self, mut reader: CheckpointReader, done: &dyn Fn(u64)) -> Result<()> {
        let mut buffer = Vec::new();
        let mut reported = 0;
        let mut last: Option<(u32, Option<&Arc<Space>>)> = None;
        loop {
            let bytes = reader.bytes_read();
            if bytes >= reported + REPORT_EVERY_BYTES {
                self.check_memory()?;
                done(bytes - reported);
                reported = bytes;
            }
            let Some((keyspace, key, record)) = reader.next()? else {
                break;
            };
            let space = match last {
                Some((id, space)) if id == keyspace => space,
                _ => self.spaces.get(&keyspace),
            };
            last = Some((keyspace, space));
            // Of a keyspace that was dropped while the checkpoint was written.
            let Some(space) = space else { continue };
            let body = record.get(TIMESTAMP_BYTES..).unwrap_or_default();
            if key.len() > MAX_KEY_BYTES || !Row::check_body(body) {
                return Err(self.undecodable("checkpoint", space, key));
            }
            let expiry_ms = Row::new(record).expiry_ms();
            space.install(self.expiries, key, expiry_ms, &mut buffer, |new| {
                new.extend_from_slice(record);
            })?;
        }
        done(reader.bytes_read() - reported);
        Ok(())
    }

    /// Applies the commits of the keys that are this thread's; how many changes those were.
    fn replay(&self, logs: &RecoveredLogs, thread: usize, total_bytes: u64) -> Result<u64> {
        let mut commits = logs.commits()?;
        let mut group = Group::default();
        let mut reported = 0;
        let mut applied = 0;
        loop {
            let bytes = commits.bytes_read();
            if bytes >= reported + REPORT_EVERY_BYTES {
                // Every thread looks, so that all of them stop.
                self.check_memory()?;
                reported = bytes;
                if thread == 0 {
                    self.report(RecoveryPhase::Log, bytes, total_bytes);
                }
            }
            let Some(commit) = commits.next()? else { break };
            for operation in commit.operations() {
                self.check_keyspace(operation.keyspace)?;
                if operation.kind == OperationKind::RemoveRange {
                    // What came before is in the tree first.
                    self.apply_group(&mut group)?;
                    let is_own = |key: &[u8]| self.is_own(thread, operation.keyspace, key);
                    self.replay_range(commit.timestamp(), &operation, is_own)?;
                    applied += u64::from(thread == 0);
                    continue;
                }
                if !self.is_own(thread, operation.keyspace, operation.key) {
                    continue;
                }
                applied += 1;
                if !group.push(commit.timestamp(), &operation) {
                    self.apply_group(&mut group)?;
                }
            }
        }
        self.apply_group(&mut group)?;
        if thread == 0 {
            self.report(RecoveryPhase::Log, total_bytes, total_bytes);
        }
        Ok(applied)
    }

    /// Whether a key's changes are this thread's to apply.
    fn is_own(&self, thread: usize, keyspace: u32, key: &[u8]) -> bool {
        let hash = key_hash(keyspace, key) >> 32;
        hash as usize % self.threads == thread
    }

    /// Removes the older rows of a range, those whose keys `is_own` says are this thread's.
    pub(crate) fn replay_range(
        &self,
        timestamp: Timestamp,
        operation: &Operation<'_>,
        is_own: impl Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let Operation {
            keyspace,
            key,
            payload,
            ..
        } = *operation;
        // Of a keyspace that was dropped, if it is missing.
        let Some(space) = self.spaces.get(&keyspace) else {
            return Ok(());
        };
        let Some(bounds) = range_record::decode(key, payload) else {
            return Err(self.undecodable("log", space, key));
        };
        if planted(PlantedBug::RangeForgotten) {
            return Ok(());
        }
        let mut start = bounds.0.map(<[u8]>::to_vec);
        loop {
            let bounds = (start.as_ref().map(Vec::as_slice), bounds.1);
            let expiries = self.expiries;
            let removed = space.replay_remove_range(expiries, bounds, timestamp, &is_own);
            let Err(error) = removed else { return Ok(()) };
            // What is behind a page that cannot be read goes all the same.
            let next = error.keys().and_then(|keys| keys.to.clone());
            if matches!((&start, &next), (Bound::Included(at), Some(next)) if at >= next) {
                return Err(error.into());
            }
            self.lost.add(error)?;
            let Some(next) = next else { return Ok(()) };
            start = Bound::Included(next);
        }
    }

    /// Applies a group of changes in order, after their cache misses have overlapped.
    fn apply_group(&self, group: &mut Group) -> Result<()> {
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
                space.index.prefetch_many(&keys[..run.len()]);
                let mut at = from;
                for change in run {
                    let (key, rest) = group.bytes[at..].split_at(change.key_bytes);
                    let operation = Operation {
                        keyspace: change.keyspace,
                        kind: change.kind,
                        key,
                        payload: &rest[..change.payload_bytes],
                    };
                    self.check(&operation)?;
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
        group.clear();
        Ok(())
    }

    /// Refuses a keyspace that the manifest has never heard of. (Of one that was dropped it has:
    /// ids are not used twice.)
    pub(crate) fn check_keyspace(&self, id: u32) -> Result<()> {
        if id < self.next_keyspace_id {
            return Ok(());
        }
        Err(Error::Corrupt(Box::new(Problem {
            file: Manifest::path(self.dir),
            offset: 0,
            what: format!(
                "it is older than the logs: they have commits of keyspace number {id}, and it \
                 knows of none from {} on",
                self.next_keyspace_id
            ),
            affected: "all keyspaces that were made after this MANIFEST was stored".to_owned(),
            remedy: "put the newest MANIFEST back, or restore a backup".to_owned(),
        })))
    }

    /// Whether a change of a keyspace that is there makes sense.
    pub(crate) fn check(&self, operation: &Operation<'_>) -> Result<()> {
        let Operation { key, payload, .. } = *operation;
        let is_good = key.len() <= MAX_KEY_BYTES
            && match operation.kind {
                OperationKind::Remove => true,
                OperationKind::Put => Row::check_body(payload),
                OperationKind::PutColumns => ColumnChanges::decode(payload).is_some(),
                OperationKind::RemoveRange => false,
            };
        match self.spaces.get(&operation.keyspace) {
            Some(space) if !is_good => Err(self.undecodable("log", space, key)),
            _ => Ok(()),
        }
    }

    /// Applies one change, which was [checked](Self::check).
    pub(crate) fn apply(
        &self,
        space: &Space,
        timestamp: Timestamp,
        operation: &Operation<'_>,
        row: &mut Vec<u8>,
    ) -> Result<()> {
        let Operation { key, payload, .. } = *operation;
        match operation.kind {
            OperationKind::Remove => space.replay_remove(self.expiries, key, timestamp, row)?,
            OperationKind::PutColumns => {
                space.replay_columns(self.expiries, key, timestamp, payload, row)?;
            }
            _ if planted(PlantedBug::ExpiryIgnored) && payload[0] & crate::row::EXPIRY != 0 => {
                let mut body = vec![payload[0] & !crate::row::EXPIRY];
                body.extend_from_slice(&payload[9..]);
                space.replay_put(self.expiries, key, timestamp, &body, row)?;
            }
            _ => space.replay_put(self.expiries, key, timestamp, payload, row)?,
        }
        Ok(())
    }

    /// The bytes are as they were written (their block's checksum says so), but make no sense.
    fn undecodable(&self, place: &str, space: &Space, key: &[u8]) -> Error {
        Error::Corrupt(Box::new(Problem {
            file: self.dir.join(place),
            offset: 0,
            what: "a record holds a row that this program cannot decode".to_owned(),
            affected: format!("key {} of keyspace {:?}", key.escape_ascii(), space.name),
            remedy: "open it with the program that wrote it, or restore a backup".to_owned(),
        }))
    }
}

/// Changes per group: enough to overlap the cache misses of their keys.
const GROUP: usize = 64;
const GROUP_BYTES: usize = 1 << 20;

/// Changes copied from the log, to be applied together.
#[derive(Default)]
struct Group {
    changes: Vec<Change>,
    /// Keys and payloads.
    bytes: Vec<u8>,
    row: Vec<u8>,
}

struct Change {
    keyspace: u32,
    timestamp: Timestamp,
    kind: OperationKind,
    key_bytes: usize,
    payload_bytes: usize,
}

impl Group {
    /// Adds a change; whether there is room for another.
    fn push(&mut self, timestamp: Timestamp, operation: &Operation<'_>) -> bool {
        let Operation {
            keyspace,
            kind,
            key,
            payload,
        } = *operation;
        let (key_bytes, payload_bytes) = (key.len(), payload.len());
        self.changes.push(Change {
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
    }
}
