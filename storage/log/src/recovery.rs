//! Recovery: decides which part of the logs counts after a crash.
//!
//! The paper drops updates past τ, the smallest of the logs' last timestamps (§5). Here an epoch
//! counts exactly if a block closes it and every shard's file is valid up to the length which that
//! block names: idle shards need not write anything to advance τ, and a torn tail moves it back no
//! further than necessary.
//!
//! The manifest has the exact end of every incarnation but, after a crash, the last. Recovery finds
//! that one's end so:
//!
//! 1. Begin with the incarnation's first generation, or with that of the newest checkpoint: what is
//!    older was durable before the manifest named it. Read the files of all shards block by block;
//!    each is valid up to some length.
//! 2. If every file ends with a sealing block, this generation is whole: continue with the next
//!    one. Its files must exist: they were durable before the first sealing block was written.
//! 3. Otherwise this is the last generation. Of all trailers in valid blocks, take the one with the
//!    largest epoch whose valid lengths are all there. Its epoch is the cutoff, its lengths are
//!    where the files end. If there is none, nothing of this generation counts, and the cutoff is
//!    the epoch that the seal of the generation before closed.
//! 4. Write again every block that counts and that no block says is durable. Sync the files, and
//!    store cutoff and lengths in the manifest ([`IncarnationEnd`]). Only then cut the files to
//!    these lengths and remove the files that the manifest does not name.
//!
//! So neither a crash during recovery nor later damage can move the cutoff: from then on the logs
//! of that incarnation must be whole, and recovering twice gives the same commits or an error.
//!
//! Blocks are written again because they may be in the system's cache and not on the disk: after a
//! failed sync a kernel keeps serving the bytes that it could not write, calls them clean, and lets
//! the next sync succeed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_sync::threads;
use hedgerow_vfs::{OpenMode, Vfs};

use crate::block::{Closing, Identity};
use crate::commits::{Commits, FileToRead, Source};
use crate::directories::Folders;
use crate::entries::{IncarnationEnd, IncarnationEntry};
use crate::error::{Error, Problem, Result};
use crate::files::{folder_of, identity, remove_obsolete_logs};
use crate::manifest::Manifest;
use crate::planted::{PlantedBug, planted};
use crate::scan::{BlockReader, FileScan, check_records};
use crate::segment::{self, FILE_HEADER_BYTES};
use crate::stale;

/// The logs of a database that is not open for writing, with their end decided.
pub struct RecoveredLogs {
    vfs: Arc<dyn Vfs>,
    folders: Folders,
    database_id: u128,
    /// All with an end.
    incarnations: Vec<IncarnationEntry>,
    /// Older generations are not read.
    from: u32,
    cutoff_epoch: u64,
    max_epoch: u64,
    total_bytes: u64,
    discarded_bytes: u64,
}

/// How far beyond the last epoch seen a new incarnation begins: commits that a crash lost without
/// a trace had epochs too, and a client may remember them as versions. An open log leaves traces
/// often enough ([`MOST_EPOCHS_WITHOUT_BLOCK`](crate::output::MOST_EPOCHS_WITHOUT_BLOCK)).
pub(crate) const EPOCH_GAP: u64 = 1 << 16;

/// What was decided about the logs of a manifest, before any file is changed.
struct Decided {
    logs: RecoveredLogs,
    /// The manifest with the ends that were found.
    manifest: Manifest,
    /// What the last incarnation's files end with.
    tails: Vec<Tail>,
}

impl RecoveredLogs {
    /// Decides what counts of the logs that the manifest names, makes that durable, records it in
    /// the manifest (and stores it), and cuts off the rest. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if something that was durable is missing or damaged, or if there are logs
    /// later than the manifest; nothing is changed then.
    pub fn open(vfs: Arc<dyn Vfs>, dir: &Path, manifest: &mut Manifest) -> Result<RecoveredLogs> {
        let Decided {
            logs,
            manifest: changed,
            tails,
        } = RecoveredLogs::decide(vfs, dir, manifest)?;
        // The manifest that was read may not be the one that a power cut would bring back, and
        // files that it does without are removed.
        let synced = logs.vfs.sync_dir(dir);
        synced.map_err(|e| Error::io("sync directory", dir, e))?;
        if changed.incarnations != manifest.incarnations {
            for entry in &manifest.incarnations {
                logs.give_back(entry)?;
            }
            let decided = changed.incarnations.iter();
            for entry in decided.filter(|entry| !manifest.incarnations.contains(entry)) {
                logs.make_durable(entry, &tails)?;
            }
            changed.store(&*logs.vfs, dir)?;
            *manifest = changed;
        }
        for entry in &logs.incarnations {
            logs.cut(entry, entry.incarnation == manifest.incarnation)?;
        }
        remove_obsolete_logs(&*logs.vfs, dir, manifest)?;
        Ok(logs)
    }

    /// As [`RecoveredLogs::open`], but changes no file: for looking at a database.
    ///
    /// # Errors
    /// As for [`RecoveredLogs::open`].
    pub fn open_read_only(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        manifest: &Manifest,
    ) -> Result<RecoveredLogs> {
        RecoveredLogs::decide(vfs, dir, manifest).map(|decided| decided.logs)
    }

    fn decide(vfs: Arc<dyn Vfs>, dir: &Path, manifest: &Manifest) -> Result<Decided> {
        if let Some(problem) = stale::logs_after(&*vfs, dir, manifest)?.into_iter().next() {
            return Err(problem.into());
        }
        let mut changed = manifest.clone();
        let mut discarded_bytes = 0;
        let mut cutoff_epoch = 0;
        let mut tails = Vec::new();
        for entry in &manifest.incarnations {
            if let Some(end) = &entry.end {
                cutoff_epoch = end.cutoff_epoch;
                continue;
            }
            let found = find_end(&*vfs, dir, manifest, entry)?;
            discarded_bytes += found.discarded_bytes;
            cutoff_epoch = found.end.cutoff_epoch;
            tails.extend(found.tails);
            changed.record_end(found.end);
        }
        let checkpoints = manifest.checkpoints.iter();
        let checkpoint_epoch = checkpoints.map(|entry| entry.timestamp.epoch()).max();
        let mut logs = RecoveredLogs {
            vfs,
            folders: manifest.folders(dir),
            database_id: manifest.database_id,
            incarnations: changed.incarnations.clone(),
            cutoff_epoch,
            from: manifest.replayed_from(),
            max_epoch: changed.epoch_floor.max(checkpoint_epoch.unwrap_or(0)),
            total_bytes: 0,
            discarded_bytes,
        };
        logs.total_bytes = logs.count_bytes()?;
        Ok(Decided {
            logs,
            manifest: changed,
            tails,
        })
    }

    /// Has the logs be read from an older checkpoint's generation on.
    ///
    /// # Errors
    /// The length of a log file cannot be found out.
    pub fn replay_from(&mut self, generation: u32) -> Result<()> {
        self.from = generation;
        self.total_bytes = self.count_bytes()?;
        Ok(())
    }

    /// The commits that count, of all shards, in the order of their timestamps. Call it again for
    /// every thread that applies: each reads and verifies all of them and takes its own keys.
    pub fn commits(&self) -> Commits {
        let sources = self.incarnations.iter().filter_map(|entry| {
            let end = entry.end.as_ref()?;
            if end.last_generation < self.from {
                return None;
            }
            let shards = (0..entry.shards).map(|shard| {
                let files = self.generations(entry).map(|generation| {
                    let last = generation == end.last_generation;
                    let length = last.then(|| end.lengths[usize::from(shard)]);
                    FileToRead {
                        folder: folder_of(&self.folders, entry, shard).to_path_buf(),
                        identity: self.identity(entry, generation, shard),
                        length,
                    }
                });
                files.collect()
            });
            Some(Source {
                cutoff_epoch: end.cutoff_epoch,
                shards: shards.collect(),
            })
        });
        Commits::new(Arc::clone(&self.vfs), sources.collect())
    }

    /// The most bytes of the log that one pass over [`RecoveredLogs::commits`] holds in memory at
    /// once: the longest block of each shard. Reads the headers of all blocks, which takes a small
    /// part of a pass's time unless blocks are small.
    ///
    /// # Errors
    /// A log file cannot be read.
    pub fn block_bytes(&self) -> Result<u64> {
        let mut most = 0;
        for entry in &self.incarnations {
            let mut longest = vec![0; usize::from(entry.shards)];
            self.each_file(entry, |generation, shard, _| {
                let folder = folder_of(&self.folders, entry, shard);
                let identity = self.identity(entry, generation, shard);
                let reader = BlockReader::open(&*self.vfs, folder, identity)?;
                let longest: &mut u64 = &mut longest[usize::from(shard)];
                *longest = reader.longest_block()?.max(*longest);
                Ok(())
            })?;
            most = most.max(longest.iter().sum());
        }
        Ok(most)
    }

    /// Commits of the last incarnation with later epochs were not complete everywhere, and were
    /// dropped.
    pub fn cutoff_epoch(&self) -> u64 {
        self.cutoff_epoch
    }

    /// The first epoch for a new incarnation: safely beyond every one ever handed out.
    pub fn next_epoch(&self) -> u64 {
        self.max_epoch + EPOCH_GAP
    }

    /// Bytes that one pass over [`RecoveredLogs::commits`] reads: for showing progress.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes behind the end of the logs that did not count: writes that a crash interrupted.
    pub fn discarded_bytes(&self) -> u64 {
        self.discarded_bytes
    }

    fn identity(&self, entry: &IncarnationEntry, generation: u32, shard: u16) -> Identity {
        identity(self.database_id, entry, generation, shard)
    }

    fn path(&self, entry: &IncarnationEntry, generation: u32, shard: u16) -> PathBuf {
        let folder = folder_of(&self.folders, entry, shard);
        segment::path(folder, &self.identity(entry, generation, shard))
    }

    /// The generations of an incarnation that are read; maybe none.
    fn generations(&self, entry: &IncarnationEntry) -> std::ops::RangeInclusive<u32> {
        let last = entry
            .end
            .as_ref()
            .map_or(entry.first_generation, |end| end.last_generation);
        entry.first_generation.max(self.from)..=last
    }

    fn each_file(
        &self,
        entry: &IncarnationEntry,
        mut visit: impl FnMut(u32, u16, &Path) -> Result<()>,
    ) -> Result<()> {
        for generation in self.generations(entry) {
            for shard in 0..entry.shards {
                visit(generation, shard, &self.path(entry, generation, shard))?;
            }
        }
        Ok(())
    }

    /// Makes durable what counts of the files of an incarnation: writes again what may be nowhere
    /// but in the system's cache, and syncs.
    fn make_durable(&self, entry: &IncarnationEntry, tails: &[Tail]) -> Result<()> {
        self.each_file(entry, |generation, shard, path| {
            let file = self.vfs.open(path, OpenMode::ReadWrite);
            let file = file.map_err(|e| Error::io("open", path, e))?;
            let identity = self.identity(entry, generation, shard);
            if let Some(tail) = tails.iter().find(|tail| tail.file == identity) {
                let folder = folder_of(&self.folders, entry, shard);
                let mut reader = BlockReader::open(&*self.vfs, folder, identity)?;
                reader.rewrite(tail.blocks.clone(), &*file)?;
            }
            file.sync().map_err(|e| Error::io("sync", path, e))
        })
    }

    /// Gives back the space that is reserved behind the files of an incarnation that has no end
    /// yet: on a full disk, what comes needs it. Those that have nothing else go soon.
    fn give_back(&self, entry: &IncarnationEntry) -> Result<()> {
        if entry.end.is_some() {
            return Ok(());
        }
        // Older files were sealed, and have none.
        let mut generation = entry.first_generation.max(self.from);
        loop {
            for shard in 0..entry.shards {
                let path = self.path(entry, generation, shard);
                let file = match self.vfs.open(&path, OpenMode::ReadWrite) {
                    Ok(file) => file,
                    // An interrupted rotation has made some of them, or none.
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                    Err(e) => return Err(Error::io("open", &path, e)),
                };
                let length = file.len();
                let length = length.map_err(|e| Error::io("get the length of", &path, e))?;
                file.truncate(length)
                    .map_err(|e| Error::io("truncate", &path, e))?;
            }
            generation += 1;
        }
    }

    /// Cuts the files of the last generation to the lengths that count. Those of the last
    /// incarnation may have space reserved, which is given back.
    fn cut(&self, entry: &IncarnationEntry, is_last: bool) -> Result<()> {
        let Some(end) = &entry.end else { return Ok(()) };
        self.each_file(entry, |generation, shard, path| {
            if generation != end.last_generation {
                return Ok(());
            }
            let wanted = end.lengths[usize::from(shard)];
            let file = match self.vfs.open(path, OpenMode::ReadWrite) {
                Ok(file) => file,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(e) => return Err(Error::io("open", path, e)),
            };
            let length = file.len();
            let length = length.map_err(|e| Error::io("get the length of", path, e))?;
            if length > wanted || (is_last && length == wanted) {
                file.truncate(wanted)
                    .map_err(|e| Error::io("truncate", path, e))?;
            }
            if length > wanted {
                file.sync().map_err(|e| Error::io("sync", path, e))?;
            }
            Ok(())
        })
    }

    fn count_bytes(&self) -> Result<u64> {
        let mut total = 0;
        for entry in &self.incarnations {
            self.each_file(entry, |generation, shard, path| {
                let end = entry
                    .end
                    .as_ref()
                    .filter(|end| end.last_generation == generation);
                total += match end {
                    Some(end) => end.lengths[usize::from(shard)],
                    None => match self.vfs.open(path, OpenMode::Read) {
                        Ok(file) => file
                            .len()
                            .map_err(|e| Error::io("get the length of", path, e))?,
                        // Reading the commits reports it.
                        Err(_) => 0,
                    },
                };
                Ok(())
            })?;
        }
        Ok(total)
    }
}

/// Blocks of a log file that count and that nothing says are durable.
struct Tail {
    file: Identity,
    blocks: std::ops::Range<u64>,
}

// Below this much to read, starting threads takes longer than reading.
const PARALLEL_BYTES: u64 = 4 << 20;

/// Scans all shards of one generation, in parallel if that pays.
pub(crate) fn scan_generation(
    vfs: &dyn Vfs,
    folders: &Folders,
    database_id: u128,
    entry: &IncarnationEntry,
    generation: u32,
) -> Vec<Result<FileScan>> {
    let identity = |shard| identity(database_id, entry, generation, shard);
    let folder = |shard| folder_of(folders, entry, shard);
    let scan = |shard| FileScan::run(vfs, folder(shard), identity(shard), check_records);
    let size = |shard| {
        let path = segment::path(folder(shard), &identity(shard));
        let file = vfs.open(&path, OpenMode::Read);
        // An error here is one that the scan will report.
        file.and_then(|file| file.len()).unwrap_or(0)
    };
    if entry.shards == 1 || (0..entry.shards).map(size).sum::<u64>() < PARALLEL_BYTES {
        return (0..entry.shards).map(scan).collect();
    }
    threads::run(entry.shards.into(), |shard| scan(shard as u16))
}

/// Where the logs of an incarnation end that was not closed.
struct FoundEnd {
    end: IncarnationEnd,
    /// Bytes behind the end, which do not count.
    discarded_bytes: u64,
    /// Blocks before the end that may not be durable.
    tails: Vec<Tail>,
}

/// Finds where the logs of an incarnation end that was not closed.
fn find_end(
    vfs: &dyn Vfs,
    dir: &Path,
    manifest: &Manifest,
    entry: &IncarnationEntry,
) -> Result<FoundEnd> {
    let mut tails = Vec::new();
    let mut generation = entry.first_generation;
    let mut max_epoch = entry.first_epoch;
    let mut cutoff_epoch = entry.first_epoch - 1;
    let newest = manifest.newest_checkpoint();
    if let Some(newest) = newest.filter(|newest| newest.generation > generation) {
        // The manifest names a checkpoint when all that it may have is durable.
        generation = newest.generation;
        max_epoch = max_epoch.max(newest.timestamp.epoch());
        cutoff_epoch = cutoff_epoch.max(newest.timestamp.epoch());
    }
    loop {
        let scans = undamaged_scans(vfs, dir, manifest, entry, generation)?;
        let newest_epochs = scans.iter().map(|scan| scan.newest_epoch);
        max_epoch = newest_epochs.fold(max_epoch, u64::max);
        let closing = newest_satisfied(&scans);
        if let Some(closing) = &closing {
            cutoff_epoch = cutoff_epoch.max(closing.epoch);
        }
        let is_complete = scans.iter().all(|scan| scan.sealed);
        let lengths = if is_complete || planted(PlantedBug::CutoffIgnored) {
            scans.iter().map(|scan| scan.valid).collect()
        } else {
            closed_lengths(&scans, closing)
        };
        let file = |shard| identity(manifest.database_id, entry, generation, shard);
        tails.extend(unproven_tails(&scans, &lengths, file));
        if is_complete {
            generation += 1;
            continue;
        }
        if planted(PlantedBug::CutoffIgnored) {
            cutoff_epoch = max_epoch;
        }
        let scanned_bytes: u64 = scans.iter().map(|scan| scan.length).sum();
        return Ok(FoundEnd {
            discarded_bytes: scanned_bytes - lengths.iter().sum::<u64>(),
            end: IncarnationEnd {
                incarnation: entry.incarnation,
                cutoff_epoch,
                max_epoch,
                last_generation: generation,
                lengths,
            },
            tails,
        });
    }
}

/// Scans a generation, which must lack nothing that was durable and belong to this manifest.
fn undamaged_scans(
    vfs: &dyn Vfs,
    dir: &Path,
    manifest: &Manifest,
    entry: &IncarnationEntry,
    generation: u32,
) -> Result<Vec<FileScan>> {
    let (database_id, folders) = (manifest.database_id, manifest.folders(dir));
    let scans = scan_generation(vfs, &folders, database_id, entry, generation);
    let scans = scans.into_iter().collect::<Result<Vec<_>>>()?;
    let older = stale::later_manifests(dir, manifest, &scans);
    let damage = durable_problems(vfs, &folders, database_id, entry, generation, &scans)?;
    match older.into_iter().chain(damage).next() {
        Some(problem) => Err(problem.into()),
        None => Ok(scans),
    }
}

/// What counts of each shard's file by the newest closing whose lengths are all there.
fn closed_lengths(scans: &[FileScan], closing: Option<Closing>) -> Vec<u64> {
    match closing {
        Some(closing) => closing.lengths.iter().map(|length| length.valid).collect(),
        // Nothing of this generation was ever closed.
        None => vec![FILE_HEADER_BYTES as u64; scans.len()],
    }
}

/// The blocks of each shard's file, up to its length, that no block says are durable.
fn unproven_tails(
    scans: &[FileScan],
    lengths: &[u64],
    file: impl Fn(u16) -> Identity,
) -> impl Iterator<Item = Tail> {
    lengths.iter().enumerate().map(move |(shard, &end)| {
        let proven = scans.iter().map(|witness| witness.durable[shard]).max();
        let start = proven.unwrap_or(FILE_HEADER_BYTES as u64).min(end);
        Tail {
            file: file(shard as u16),
            blocks: start..end,
        }
    })
}

/// The newest closing whose lengths are all there.
fn newest_satisfied(scans: &[FileScan]) -> Option<Closing> {
    let closings = scans.iter().flat_map(|scan| &scan.closings);
    let satisfied = closings.filter(|closing| {
        closing
            .lengths
            .iter()
            .zip(scans)
            .all(|(length, scan)| length.valid <= scan.valid)
    });
    // Of one epoch, the block that says that all is durable comes after the one that closed it.
    let total = |closing: &Closing| {
        closing
            .lengths
            .iter()
            .map(|length| length.valid)
            .sum::<u64>()
    };
    satisfied
        .max_by_key(|closing| (closing.epoch, total(closing)))
        .cloned()
}

/// Files of a generation that lack something which was durable once.
pub(crate) fn durable_problems(
    vfs: &dyn Vfs,
    folders: &Folders,
    database_id: u128,
    entry: &IncarnationEntry,
    generation: u32,
    scans: &[FileScan],
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (shard, scan) in scans.iter().enumerate() {
        let witnesses = scans.iter().map(|witness| witness.durable[shard]);
        let durable = witnesses.max().unwrap_or(0);
        if scan.valid < durable {
            problems.extend(scan.damage(durable));
        }
    }
    let unsealed: Vec<_> = scans.iter().filter(|scan| !scan.sealed).collect();
    if !problems.is_empty()
        || unsealed.is_empty()
        || !has_blocks(vfs, folders, database_id, entry, generation + 1)?
    {
        return Ok(problems);
    }
    // Nothing is written to the next generation before this one is sealed, durably.
    Ok(unsealed
        .into_iter()
        .flat_map(|scan| scan.damage(scan.length + 1))
        .collect())
}

/// Whether anything was ever written to a generation besides its file headers.
fn has_blocks(
    vfs: &dyn Vfs,
    folders: &Folders,
    database_id: u128,
    entry: &IncarnationEntry,
    generation: u32,
) -> Result<bool> {
    for shard in 0..entry.shards {
        let identity = identity(database_id, entry, generation, shard);
        let folder = folder_of(folders, entry, shard);
        let path = segment::path(folder, &identity);
        if !vfs
            .exists(&path)
            .map_err(|e| Error::io("look for", &path, e))?
        {
            continue;
        }
        match FileScan::run(vfs, folder, identity, |_, _, _| Ok(())) {
            Ok(scan) if scan.valid > FILE_HEADER_BYTES as u64 || !scan.strays.is_empty() => {
                return Ok(true);
            }
            Ok(_) | Err(Error::Corrupt(_)) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}
