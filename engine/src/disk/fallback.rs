//! Which checkpoint an opening recovers from: the newest that is whole (§5 of the Masstree paper).
//!
//! Where a part of the newest one is damaged, its rows are thrown away and the next older one is
//! loaded, and the logs are replayed from that one's generation on. This is the recovery that would
//! have happened if the newer checkpoint had never been taken: each change since is in these logs,
//! removals, too, and the keyspaces are those that the manifest lists now, so rows of dropped ones
//! are skipped. Nothing on disk is changed before all of it has succeeded. Then the manifest drops
//! the damaged checkpoint, its files are removed, and a new checkpoint is taken.
//!
//! **Beside a page file** the same holds. Its pages are those of the newest checkpoint's cut, or
//! later, and so are ahead of the older part files, as they are after a crash between the pages'
//! root and the manifest (`checkpoint.rs`). Replay leaves rows alone that are newer than a record.
//! A row that was removed before the cut may come back, and goes with the record of its removal,
//! which is in the same logs and comes later. Pages themselves have no older state: where they are
//! damaged, no older checkpoint helps, and errors are those of `page_file.rs`.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hedgerow_log::{Health, Manifest, Problem, RecoveredLogs, remove_obsolete};
use hedgerow_vfs::Vfs;

use crate::disk::catalog::empty_in_memory;
use crate::disk::lost::LostRecords;
use crate::disk::page_file::PageFile;
use crate::disk::recovery::Loaded;
use crate::disk::replay::{Recovered, Recovery};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::catalog::Catalog;
use crate::index::expiry::Expiries;
use crate::memory_shares::MemoryShares;
use crate::options::Builder;
use crate::planted::{PlantedBug, planted};

/// A recovery under way.
pub(crate) struct Opening<'a> {
    pub(crate) options: &'a Builder,
    pub(crate) dir: &'a Path,
    pub(crate) manifest: &'a Manifest,
    pub(crate) memory: &'a MemoryShares,
    pub(crate) pages: Option<&'a PageFile>,
    pub(crate) lost: &'a LostRecords,
}

/// A recovery that succeeded.
pub(crate) struct Found {
    pub(crate) recovered: Recovered,
    /// What is wrong with the newest checkpoints: once for each that was passed over.
    pub(crate) damaged: Vec<String>,
}

impl Opening<'_> {
    fn recovery<'a>(&'a self, catalog: &'a Catalog, expiries: &'a Expiries) -> Recovery<'a> {
        let options = self.options;
        Recovery {
            vfs: &options.vfs,
            dir: self.dir,
            spaces: &catalog.by_id,
            expiries,
            threads: options.workers,
            progress: options.progress.as_ref(),
            // Pages keep to their own.
            memory_limit: options
                .memory_limit
                .filter(|_| catalog.has_rows_in_memory()),
            memory: self.memory,
            pages: self.pages,
            lost: self.lost,
            next_keyspace_id: self.manifest.next_keyspace_id,
        }
    }

    /// Recovers everything that the manifest names from the newest checkpoint that is whole.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if no checkpoint is whole, or a log since it is not.
    pub(crate) fn recover(
        &self,
        logs: &mut RecoveredLogs,
        catalog: &mut Catalog,
        expiries: &mut Expiries,
    ) -> Result<Found> {
        let started = Instant::now();
        let mut damaged: Vec<Error> = Vec::new();
        let checkpoints = &self.manifest.checkpoints;
        let mut loaded = 0;
        for checkpoint in checkpoints {
            match self
                .recovery(catalog, expiries)
                .load_checkpoint(self.manifest, checkpoint)?
            {
                Loaded::Whole(records) => {
                    loaded = records;
                    break;
                }
                Loaded::Damaged(error) => damaged.push(error),
            }
            // What was loaded of it was verified, but not that it belongs together.
            empty_in_memory(catalog)?;
            expiries.empty_in_memory();
        }
        let used = checkpoints.get(damaged.len());
        if !damaged.is_empty() {
            let Some(used) = used else {
                return Err(of_all(damaged));
            };
            for error in damaged.iter().map(in_short) {
                tracing::error!(
                    %error,
                    generation = used.generation,
                    "a checkpoint is damaged: recovering from an older one and the logs since"
                );
            }
            if !planted(PlantedBug::OlderLogsForgotten) {
                logs.replay_from(used.generation)?;
            }
        }
        let replayed = self.recovery(catalog, expiries).replay_all(logs);
        let mut recovered = replayed.map_err(|error| match &error {
            // A log that only the older checkpoint needs, maybe.
            Error::Corrupt(_) => of_all(damaged.drain(..).chain([error]).collect()),
            _ => error,
        })?;
        recovered.records += loaded;
        tracing::info!(
            checkpoint_generation = used.map(|entry| entry.generation),
            log_bytes = logs.total_bytes(),
            records = recovered.records,
            duration_ms = started.elapsed().as_millis() as u64,
            "recovered"
        );
        for reason in self.lost.reasons() {
            tracing::error!(%reason, "a part of the log could not be replayed");
        }
        let damaged = damaged.iter().map(in_short).collect();
        Ok(Found { recovered, damaged })
    }
}

/// What is wrong with a checkpoint, without what to do about it.
fn in_short(error: &Error) -> String {
    match error {
        Error::Corrupt(problem) => {
            let Problem {
                file, offset, what, ..
            } = &**problem;
            format!("{} at byte {offset}: {what}", file.display())
        }
        error => error.to_string(),
    }
}

/// The error where checkpoints are damaged and no older one helps: the first is that of the newest.
fn of_all(mut errors: Vec<Error>) -> Error {
    let first = errors.remove(0);
    if errors.is_empty() {
        return first;
    }
    let others: Vec<String> = errors.iter().map(in_short).collect();
    let others = others.join("; ");
    let (file, offset, what) = match first {
        Error::Corrupt(problem) => (problem.file, problem.offset, problem.what),
        Error::Io { file, source, .. } => (file, 0, format!("it cannot be read ({source})")),
        error => return error,
    };
    Error::Corrupt(Box::new(Problem {
        file,
        offset,
        what: format!("{what}; and no older checkpoint helps: {others}"),
        affected: "rows of keyspaces in memory".to_owned(),
        remedy: "nothing was changed; restore a backup".to_owned(),
    }))
}

/// Has the manifest list the newest `damaged` checkpoints no longer, durably, and removes their
/// files.
pub(crate) fn forget_damaged(
    vfs: &dyn Vfs,
    dir: &Path,
    manifest: &mut Manifest,
    damaged: usize,
) -> Result<()> {
    if damaged == 0 {
        return Ok(());
    }
    let mut changed = manifest.clone();
    changed.drop_damaged(damaged);
    changed.store(vfs, dir)?;
    *manifest = changed;
    // They can also go later.
    let _ = remove_obsolete(vfs, dir, manifest);
    Ok(())
}

impl Engine {
    /// How many checkpoints a manifest that gets a new one keeps. One alone where the disk is full,
    /// for the older ones and their logs take space, and while log directories are being left.
    pub(crate) fn checkpoints_to_keep(&self, manifest: &Manifest) -> usize {
        match manifest.is_leaving_directories() || self.is_disk_tight() {
            true => 1,
            false => self.options.keep_checkpoints,
        }
    }

    /// Whether the disk of the logs has no space beyond what is reserved, or less.
    pub(crate) fn is_disk_tight(&self) -> bool {
        let Some(log) = &self.log else { return false };
        log.is_short() || log.health() == Health::DiskFull || log.is_reserve_released()
    }

    /// Gives up all checkpoints but the newest, and the logs that only they need: for the space
    /// that these take. Whether there were any. The caller holds `checkpointing`.
    pub(crate) fn give_up_older(&self) -> bool {
        let mut manifest = self.manifest();
        if manifest.checkpoints.len() < 2 {
            return false;
        }
        let mut changed = manifest.clone();
        changed.keep_checkpoints(1);
        if let Err(error) = self.replace_manifest(&mut changed) {
            // It may be in place all the same; the files of both are.
            tracing::warn!(%error, "older checkpoints could not be given up");
            return false;
        }
        *manifest = changed;
        let removed = remove_obsolete(&*self.options.vfs, &self.dir, &manifest);
        self.record_manifest_sequence(manifest.sequence);
        self.count_checkpoints(&manifest);
        tracing::warn!("the disk is full: older checkpoints and their logs are given up");
        removed.is_ok()
    }

    /// Counts the checkpoints that a manifest keeps, for statistics.
    pub(crate) fn count_checkpoints(&self, manifest: &Manifest) {
        let count = manifest.checkpoints.len() as u64;
        self.counters
            .listed_checkpoints
            .store(count, Ordering::Relaxed);
    }
}
