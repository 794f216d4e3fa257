//! Checkpoints beside running writers.
//!
//! 1. Rotate the logs: what is in older files is in the trees now.
//! 2. Scan all keyspaces in parallel into part files, while writers go on.
//! 3. Wait until every epoch of which the scan may have seen commits is durable: after a crash the
//!    logs must not lack commits that the checkpoint has.
//! 4. Publish the checkpoint in the manifest; then remove the files that are not needed any more.
//!    The last few checkpoints stay, with the logs since the oldest of them (`fallback.rs`).
//!
//! That is for indexes in memory; `page_file.rs` has the checkpoint of a page file.
//! Where a database has both, one rotation serves both: its cut begins the checkpoint of pages,
//! which is published first; then the part files are written; then the manifest names the
//! generation and the parts. After a crash before that, the manifest names the earlier checkpoint
//! with its parts and logs, and rows of the page file that are newer than a record keep it out.
//!
//! The scan is fuzzy. Replaying the logs from the rotation on makes it exact: see `recovery.rs`.

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use hedgerow_index::{Direction, ScanRange};
use hedgerow_log::{
    CheckpointEntry, CheckpointWriter, Log, PartEntry, RotationPoint, Statistics, Timestamp,
    remove_obsolete,
};
use hedgerow_pages::CheckpointInProgress;
use hedgerow_sync::threads;

use crate::disk::folder::Folder;
use crate::disk::page_file::PageFile;
use crate::disk::page_roots::PAGE;
use crate::disk::part_folders::PartFolders;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::space::Space;
use crate::planted::{PlantedBug, planted};
use crate::row::Row;

/// What a checkpoint wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Rows in it.
    pub records: u64,
    /// Bytes of all its files; of B-trees, of the pages that were written.
    pub size_bytes: u64,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// A run of keys of one keyspace.
struct Run {
    space: Arc<Space>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

/// Rows per visit of the index: a scan stays pinned no longer than that.
const CHUNK_ROWS: usize = 512;
const CHUNK_BYTES: usize = 256 << 10;
/// Parts per thread, so that recovery can divide them evenly.
const PARTS_PER_THREAD: usize = 4;
/// Keyspaces smaller than this are not divided into runs.
const SMALL_ROWS: u64 = 10_000;

fn log_outcome(outcome: &Result<CheckpointReport>) {
    match outcome {
        Ok(report) => tracing::info!(
            records = report.records,
            bytes = report.size_bytes,
            duration_ms = report.duration_ms,
            "checkpoint written"
        ),
        Err(Error::Closed) => tracing::info!("checkpoint abandoned: the database closes"),
        Err(error) => tracing::warn!(%error, "checkpoint failed; the logs are kept"),
    }
}

/// Lowers the calling thread's priority: without an idle core a checkpoint takes a quarter of one
/// from the workers, and not half. With one it costs nothing.
fn yield_to_writers() {
    /// Of a weight of about a third of the normal one.
    #[cfg(target_os = "linux")]
    const NICE: i32 = 5;
    // On Linux, and only there, no process means the calling thread. If it is refused, the
    // checkpoint runs as everything else does.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// What a checkpoint has.
#[derive(Clone, Copy)]
struct Covered {
    /// Log bytes of earlier openings.
    replayed_bytes: u64,
    /// Changes since the database was opened, at least.
    changes: u64,
}

impl Engine {
    /// Refuses operations that need files in a database in memory alone.
    pub(crate) fn check_has_files(&self) -> Result<()> {
        if self.options.in_memory {
            return Err(Error::InMemory);
        }
        Ok(())
    }

    /// Takes a checkpoint now; waits for one that is under way.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointReport> {
        let _exclusive = self.checkpointing();
        self.checkpoint_exclusively()
    }

    /// The caller holds `checkpointing`.
    pub(crate) fn checkpoint_exclusively(&self) -> Result<CheckpointReport> {
        self.check_has_files()?;
        self.check_writable()?;
        let replaced_bytes = self.counters.replaced_log_bytes.load(Ordering::Relaxed);
        let attempt = || self.checkpoint_once(&PartFolders::of(self)?, false);
        let mut outcome = attempt();
        if matches!(outcome, Err(Error::DiskFull)) && self.give_up_older() {
            outcome = attempt();
        }
        if matches!(outcome, Err(Error::DiskFull)) {
            outcome = self.checkpoint_from_reserve();
        }
        if outcome.is_err() {
            // It replaces no log, whatever it rotated.
            self.counters
                .replaced_log_bytes
                .store(replaced_bytes, Ordering::Relaxed);
            self.remove_leftovers();
        }
        log_outcome(&outcome);
        outcome
    }

    /// Every checkpoint calls this: it writes to files that an opening which displaced this one
    /// uses, long before it replaces the manifest. The last one goes on though the database closes.
    pub(crate) fn checkpoint_once(
        &self,
        folders: &PartFolders,
        is_last: bool,
    ) -> Result<CheckpointReport> {
        self.check_manifest()?;
        match self.pages() {
            Some(pages) => self.checkpoint_pages(pages, folders, is_last),
            None => self.checkpoint_rows(folders),
        }
    }

    /// A checkpoint of a database whose trees are in memory: all rows.
    fn checkpoint_rows(&self, folders: &PartFolders) -> Result<CheckpointReport> {
        tracing::info!(kind = "rows", "checkpoint started");
        let started = Instant::now();
        let log = self.log()?;
        let changes = self.changes(&log.statistics());
        let rotation = log.rotate()?;
        let covered = self.begin_to_replace(log, changes);
        let (parts, newest) = self.write_rows(log, folders, rotation.generation, false)?;
        let report = CheckpointReport {
            records: parts.iter().map(|part| part.records).sum(),
            size_bytes: parts.iter().map(|part| part.len).sum(),
            duration_ms: started.elapsed().as_millis() as u64,
        };
        self.install_checkpoint(
            CheckpointEntry {
                generation: rotation.generation,
                // The logs that the checkpoint replaces may be the only trace of these epochs.
                timestamp: newest.max(Timestamp::new(rotation.epoch, 0)),
                parts,
            },
            &report,
            covered,
        )?;
        Ok(report)
    }

    /// Has the log before the rotation of a checkpoint, which has just ended, count no more unless
    /// the checkpoint fails: it is no reason for another one behind this. `changes` is how many
    /// there were before the rotation.
    fn begin_to_replace(&self, log: &Log, changes: u64) -> Covered {
        let written = log.statistics();
        let replaced_bytes = written.bytes.saturating_sub(written.generation_bytes);
        self.counters
            .replaced_log_bytes
            .store(replaced_bytes, Ordering::Relaxed);
        Covered {
            replayed_bytes: self.counters.replayed_log_bytes.load(Ordering::Relaxed),
            changes,
        }
    }

    /// Commits that the log has, and keyspaces dropped, since the database was opened.
    pub(crate) fn changes(&self, log: &Statistics) -> u64 {
        log.records + self.pages().map_or(0, PageFile::retirements)
    }

    /// Bytes that the log of this opening has written and no checkpoint replaces, whether it is in
    /// place or under way.
    pub(crate) fn unreplaced_log_bytes(&self, log: &Statistics) -> u64 {
        let replaced_bytes = self.counters.replaced_log_bytes.load(Ordering::Relaxed);
        log.bytes.saturating_sub(replaced_bytes)
    }

    /// Writes the rows of keyspaces in memory into part files, and waits until all that they may
    /// have seen is durable: the parts, and the newest timestamp in them.
    fn write_rows(
        &self,
        log: &Log,
        folders: &PartFolders,
        generation: u32,
        is_last: bool,
    ) -> Result<(Vec<PartEntry>, Timestamp)> {
        let parts = self.write_parts(folders, generation, is_last)?;
        let newest = parts
            .iter()
            .map(|(_, newest)| *newest)
            .max()
            .unwrap_or(Timestamp::ZERO);
        // A scan also sees what is gone, and that has no timestamp to look at; of a closed
        // range there is none yet. The epoch after the current one is above every timestamp
        // handed out by now.
        drop(self.removals.exclude());
        if !planted(PlantedBug::CheckpointTooEarly) {
            log.wait_durable(newest.epoch().max(log.epoch() + 1))?;
        }
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        Ok((parts, newest))
    }

    /// The same, where there may be no keyspace in memory: then there is nothing to wait for.
    fn write_rows_beside_pages(
        &self,
        log: &Log,
        folders: &PartFolders,
        generation: u32,
        is_last: bool,
    ) -> Result<(Vec<PartEntry>, Timestamp)> {
        match self.spaces_in_memory().is_empty() {
            true => Ok((Vec::new(), Timestamp::ZERO)),
            false => self.write_rows(log, folders, generation, is_last),
        }
    }

    /// All keyspaces, and those that were dropped or cleared while a snapshot sees them.
    fn spaces_and(&self, retired: Vec<Arc<Space>>) -> Vec<Arc<Space>> {
        let mut spaces = self.spaces();
        spaces.extend(retired);
        spaces
    }

    /// A checkpoint of a database that has a page file: of its pages (see `page_file.rs`), and of
    /// the rows of keyspaces in memory. The last one, while the database closes, is not given up.
    fn checkpoint_pages(
        &self,
        pages: &PageFile,
        folders: &PartFolders,
        is_last: bool,
    ) -> Result<CheckpointReport> {
        self.lost.check_none()?;
        tracing::info!(kind = "pages", "checkpoint started");
        let started = Instant::now();
        let log = self.log()?;
        pages.drop_retired(|| self.is_closed())?;
        pages.compact();
        let before = pages.statistics().writes;
        // These are random reads, so they run before the cut, beside writers; the cut applies the
        // rest.
        pages.apply_deferred(&self.spaces_and(self.snapshots.retired()), &self.expiries)?;
        let write = |generation| self.write_rows_beside_pages(log, folders, generation, is_last);
        let early =
            planted(PlantedBug::RowsBeforeRotation).then(|| write(log.statistics().generation + 1));
        let changes = self.changes(&log.statistics());
        let (rotation, begun) = self.rotate_with_pages(log, pages)?;
        let covered = self.begin_to_replace(log, changes);
        // The rotation made all of it durable in the logs.
        let publish = || {
            let finished = pages.finish(begun);
            finished.map_err(|error| self.stop_if_poisoned(error))
        };
        let unpublished = match planted(PlantedBug::ManifestBeforePages) {
            true => Some(publish),
            false => publish().map(|()| None)?,
        };
        let written = pages.statistics().writes - before;
        let (parts, newest) = early.unwrap_or_else(|| write(rotation.generation))?;
        let part_bytes: u64 = parts.iter().map(|part| part.len).sum();
        let report = CheckpointReport {
            records: self.spaces().iter().map(|space| space.len()).sum(),
            size_bytes: written * PAGE as u64 + part_bytes,
            duration_ms: started.elapsed().as_millis() as u64,
        };
        self.install_checkpoint(
            CheckpointEntry {
                generation: rotation.generation,
                timestamp: newest.max(Timestamp::new(rotation.epoch, 0)),
                parts,
            },
            &report,
            covered,
        )?;
        unpublished.map_or(Ok(()), |publish| publish())?;
        Ok(report)
    }

    /// Rotates the logs; the cut begins the checkpoint of pages.
    fn rotate_with_pages(
        &self,
        log: &Log,
        pages: &PageFile,
    ) -> Result<(RotationPoint, CheckpointInProgress)> {
        let mut begun = None;
        let no_removals = self.removals.exclude();
        // Only snapshots see these, whose registry must not be waited for within the cut.
        let retired = self.snapshots.retired();
        let rotated = log.rotate_at(|generation| {
            // Snapshots wait for the cut, not for what the rotation syncs after it.
            let _no_removals = no_removals;
            let spaces = self.spaces_and(retired);
            // A half-finished commit must not be published.
            begun = Some(
                self.log()
                    .and_then(|_| pages.begin(generation, &spaces, &self.expiries)),
            );
        });
        let begun = begun
            .transpose()
            .map_err(|error| self.stop_if_poisoned(error))?;
        match (rotated, begun) {
            (Ok(rotation), Some(begun)) => Ok((rotation, begun)),
            (Err(error), begun) => {
                if let Some(begun) = begun {
                    pages.give_up(&begun);
                }
                Err(error.into())
            }
            (Ok(_), None) => unreachable!("a rotation that is done has run its cut"),
        }
    }

    /// After a failed sync the contents of a page file are unknown: as with the log, no write may
    /// be accepted then.
    pub(crate) fn stop_if_poisoned(&self, error: Error) -> Error {
        if let Error::Poisoned(reason) = &error {
            tracing::error!(%reason, "the page file failed: no write is accepted until a restart");
            let _ = self.broken.set(reason.clone());
        }
        error
    }

    /// Brings the page file up to date when the database closes, so that the next opening has
    /// nothing to replay. The caller holds `checkpointing`.
    pub(crate) fn last_checkpoint(&self) {
        let has_pages = self.pages().is_some();
        if has_pages && self.options.checkpoint_log_bytes.is_some() && self.log().is_ok() {
            // If it fails, the logs have everything.
            let folders = PartFolders::of(self);
            log_outcome(&folders.and_then(|folders| self.checkpoint_once(&folders, true)));
        }
    }

    /// Publishes a checkpoint in the manifest and removes what it replaces.
    fn install_checkpoint(
        &self,
        checkpoint: CheckpointEntry,
        report: &CheckpointReport,
        covered: Covered,
    ) -> Result<()> {
        let mut manifest = self.manifest();
        let mut changed = manifest.clone();
        let part_bytes = checkpoint.parts.iter().map(|part| part.len).sum();
        changed.install_checkpoint(checkpoint, self.checkpoints_to_keep(&manifest));
        // If this fails, the old or the new manifest is in place, and the files of both are.
        self.replace_manifest(&mut changed)?;
        *manifest = changed;
        self.record_manifest_sequence(manifest.sequence);
        self.count_checkpoints(&manifest);
        self.counters
            .replayed_log_bytes
            .fetch_sub(covered.replayed_bytes, Ordering::Relaxed);
        self.counters
            .covered_changes
            .store(covered.changes, Ordering::Relaxed);
        self.counters.checkpoints.fetch_add(1, Ordering::Release);
        self.counters
            .part_bytes
            .store(part_bytes, Ordering::Relaxed);
        self.counters
            .checkpoint_bytes
            .store(report.size_bytes, Ordering::Relaxed);
        self.counters
            .checkpoint_duration_ms
            .store(report.duration_ms, Ordering::Relaxed);
        // The next checkpoint or opening removes files that cannot be removed now.
        let _ = remove_obsolete(&*self.options.vfs, &self.dir, &manifest);
        self.release_log_dirs(&mut manifest);
        Ok(())
    }

    /// Writes all rows of keyspaces in memory into part files; each with its newest timestamp.
    fn write_parts(
        &self,
        folders: &PartFolders,
        generation: u32,
        is_last: bool,
    ) -> Result<Vec<(PartEntry, Timestamp)>> {
        // Leave cores to the writers.
        let threads = (self.options.workers / 2).max(1);
        let groups = self.plan(threads.max(self.options.workers) * PARTS_PER_THREAD)?;
        let next = AtomicUsize::new(0);
        let written = Mutex::new(Vec::new());
        let caller = thread::current().id();
        let work = |_| -> Result<()> {
            // The caller itself, if it has to do the work, must not stay slow.
            if thread::current().id() != caller {
                yield_to_writers();
            }
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                let Some(runs) = groups.get(part) else {
                    return Ok(());
                };
                let folders = folders.of_part(part);
                let part_number = part as u32;
                let outcome = self.write_part(folders, generation, part_number, runs, is_last)?;
                written
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((part, outcome));
            }
        };
        let done = threads::run(threads, work);
        done.into_iter().collect::<Result<()>>()?;
        let mut written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
        written.sort_unstable_by_key(|(part, _)| *part);
        Ok(written.into_iter().map(|(_, outcome)| outcome).collect())
    }

    /// Divides all keyspaces into runs, and the runs among about `parts` parts.
    fn plan(&self, parts: usize) -> Result<Vec<Vec<Run>>> {
        let spaces = self.spaces_in_memory();
        let total: u64 = spaces.iter().map(|space| space.len()).sum();
        let share = (total / parts as u64).max(SMALL_ROWS);
        let mut groups: Vec<Vec<Run>> = Vec::new();
        let mut room = 0;
        for space in spaces {
            let runs = space.len().div_ceil(share).max(1);
            let rows = space.len() / runs;
            let cuts = if runs > 1 {
                space.index.as_dyn().partition(runs as usize)?
            } else {
                Vec::new()
            };
            let mut from = Bound::Unbounded;
            for cut in cuts.into_iter().map(Some).chain([None]) {
                let to = cut.clone().map_or(Bound::Unbounded, Bound::Excluded);
                let run = Run {
                    space: Arc::clone(&space),
                    from,
                    to,
                };
                from = cut.map_or(Bound::Unbounded, Bound::Included);
                match groups.last_mut() {
                    Some(group) if room >= rows => group.push(run),
                    _ => {
                        groups.push(vec![run]);
                        room = share + share / 2;
                    }
                }
                room = room.saturating_sub(rows);
            }
        }
        Ok(groups)
    }

    /// Writes a part into the first of some directories that has space for it.
    fn write_part<'a>(
        &self,
        folders: impl Iterator<Item = &'a Folder>,
        generation: u32,
        part: u32,
        runs: &[Run],
        is_last: bool,
    ) -> Result<(PartEntry, Timestamp)> {
        let mut outcome = Err(Error::DiskFull);
        for (directory, folder) in folders {
            outcome = self.write_part_in(folder, generation, part, runs, is_last);
            if let Ok((part, _)) = &mut outcome {
                part.directory = *directory;
            }
            if !matches!(outcome, Err(Error::DiskFull)) {
                break;
            }
        }
        outcome
    }

    fn write_part_in(
        &self,
        folder: &Path,
        generation: u32,
        part: u32,
        runs: &[Run],
        is_last: bool,
    ) -> Result<(PartEntry, Timestamp)> {
        let database_id = self.manifest().database_id;
        let vfs = Arc::clone(&self.options.vfs);
        let mut writer = CheckpointWriter::create(vfs, folder, database_id, generation, part)?;
        let mut newest = Timestamp::ZERO;
        let mut chunk = Chunk::default();
        for run in runs {
            let mut from = run.from.clone();
            while let Some(last) = chunk.fill(&run.space, &from, &run.to)? {
                if self.is_closed() && !is_last {
                    return Err(Error::Closed);
                }
                for (key, row) in chunk.rows() {
                    newest = newest.max(Row::new(row).timestamp());
                    writer.append(run.space.id, key, row)?;
                }
                from = Bound::Excluded(last);
            }
        }
        Ok((writer.finish()?, newest))
    }
}

/// Rows copied out of the index, so that nothing is pinned while they are written.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Lengths of key and row.
    rows: Vec<(usize, usize)>,
}

impl Chunk {
    /// Takes the next rows of a run; the last key, or `None` if there were none.
    fn fill(
        &mut self,
        space: &Space,
        from: &Bound<Vec<u8>>,
        to: &Bound<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.bytes.clear();
        self.rows.clear();
        let bounds = (
            from.as_ref().map(Vec::as_slice),
            to.as_ref().map(Vec::as_slice),
        );
        let range = ScanRange::between(bounds, Direction::Forward).limited(CHUNK_ROWS);
        space.index.scan(&range, |key, row| {
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(row);
            self.rows.push((key.len(), row.len()));
            if self.bytes.len() >= CHUNK_BYTES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let Some(&(key_bytes, row_bytes)) = self.rows.last() else {
            return Ok(None);
        };
        let key = self.bytes.len() - row_bytes - key_bytes;
        Ok(Some(self.bytes[key..key + key_bytes].to_vec()))
    }

    fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.rows.iter().map(move |&(key_bytes, row_bytes)| {
            let (record, left) = rest.split_at(key_bytes + row_bytes);
            rest = left;
            record.split_at(key_bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs};

    use super::*;
    use crate::Db;

    /// More time than a checkpoint takes on a busy machine.
    const LONGEST: Duration = Duration::from_secs(60);

    /// Else one that is due for its length would follow each that somebody asks for.
    #[test]
    fn the_log_before_a_rotation_counts_again_only_where_the_checkpoint_fails() {
        let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
        let builder = Db::builder().vfs(Arc::new(vfs.clone())).workers(1);
        let builder = builder.checkpoint_log_bytes(None).sweep_interval(None);
        let db = builder.open("/db").unwrap();
        let rows = db.keyspace("rows").unwrap();
        for n in 0..1_000_u32 {
            rows.put(&n.to_be_bytes(), &[7; 100]).unwrap();
        }
        db.sync().unwrap();
        let unreplaced = || {
            let log = rows.engine.log().unwrap();
            rows.engine.unreplaced_log_bytes(&log.statistics())
        };
        let all = unreplaced();
        assert!(all > 100_000);

        vfs.fail_from(CallKind::Rename, 0, Fault::Error(ErrorKind::Other));
        db.checkpoint().unwrap_err();
        assert!(unreplaced() >= all);

        vfs.heal();
        // The manifest names it last.
        let paused = vfs.pause_once(CallKind::Rename, 0);
        let changes = || {
            let log = rows.engine.log().unwrap();
            rows.engine.changes(&log.statistics())
        };
        let before = changes();
        let (is_reached, meanwhile) = thread::scope(|scope| {
            let checkpoint = scope.spawn(|| db.checkpoint());
            let seen = (paused.is_reached_within(LONGEST), unreplaced());
            rows.put(b"behind the cut", b"").unwrap();
            paused.release();
            checkpoint.join().expect("no panic").unwrap();
            seen
        });
        assert!(is_reached);
        assert!(meanwhile < all / 2 && unreplaced() < all / 2);
        db.sync().unwrap();
        let covered = rows.engine.counters.covered_changes.load(Ordering::Relaxed);
        assert_eq!((covered, changes()), (before, before + 1));
    }
}
