//! Verifies every file of a closed database. Opening a database stops at the first damage; a check
//! lists all. It changes nothing, so it also works on a database that does not open.

use std::path::Path;
use std::sync::Arc;

use hedgerow_vfs::Vfs;

use crate::checkpoint::CheckpointReader;
use crate::entries::IncarnationEntry;
use crate::error::{Error, Problem, Result};
use crate::manifest::Manifest;
use crate::recovery::{durable_problems, scan_generation};
use crate::scan::{FileScan, problem};
use crate::stale;

/// What a check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Files verified.
    pub files: u64,
    /// Bytes verified.
    pub bytes: u64,
    /// Records found whole, in checkpoint and logs.
    pub records: u64,
    /// Problems reported.
    pub problems: u64,
    /// Bytes of writes that a crash interrupted: expected after one, and not a problem.
    pub torn_bytes: u64,
}

/// Verifies the manifest, checkpoints and logs of a closed database, and hands every problem to
/// `report`: file, offset, what is affected, what to do.
///
/// # Errors
/// Only what keeps it from looking at all: no database here, a newer format, unreadable files.
pub fn check(vfs: Arc<dyn Vfs>, dir: &Path, report: &mut dyn FnMut(Problem)) -> Result<Checked> {
    check_checkpoints(vfs, dir, usize::MAX, report)
}

/// The same, of what a recovery reads that finds the newest checkpoint whole.
///
/// # Errors
/// As for [`check`].
pub fn check_newest(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    report: &mut dyn FnMut(Problem),
) -> Result<Checked> {
    check_checkpoints(vfs, dir, 1, report)
}

/// Checks the newest checkpoints, `keep` of them, and the logs since the oldest of these.
fn check_checkpoints(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    keep: usize,
    report: &mut dyn FnMut(Problem),
) -> Result<Checked> {
    let mut checked = Checked::default();
    let mut report = |checked: &mut Checked, problem| {
        checked.problems += 1;
        report(problem);
    };
    let mut manifest = match Manifest::load(&*vfs, dir) {
        Ok(manifest) => manifest,
        Err(Error::Corrupt(problem)) => {
            report(&mut checked, *problem);
            return Ok(checked);
        }
        Err(e) => return Err(e),
    };
    manifest.keep_checkpoints(keep);
    checked.files += 1;
    for problem in stale::logs_after(&*vfs, dir, &manifest)? {
        report(&mut checked, problem);
    }
    for entry in &manifest.incarnations {
        check_incarnation(&*vfs, dir, &manifest, entry, &mut checked, &mut report)?;
    }
    for nth in 0..manifest.checkpoints.len() {
        check_checkpoint(&*vfs, dir, &manifest, nth, &mut checked, &mut report)?;
    }
    Ok(checked)
}

/// Checks the checkpoint that is the `nth` in the manifest, from 0.
fn check_checkpoint(
    vfs: &dyn Vfs,
    dir: &Path,
    manifest: &Manifest,
    nth: usize,
    checked: &mut Checked,
    report: &mut dyn FnMut(&mut Checked, Problem),
) -> Result<()> {
    let (id, folders) = (manifest.database_id, manifest.folders(dir));
    let checkpoint = &manifest.checkpoints[nth];
    for part in &checkpoint.parts {
        let folder = folders.path(part.directory);
        let reader = CheckpointReader::open(vfs, folder, id, checkpoint.generation, part);
        match reader.and_then(|reader| check_part(reader, checked)) {
            Ok(()) => {}
            Err(Error::Corrupt(problem)) if nth > 0 => report(checked, of_older(*problem)),
            Err(Error::Corrupt(mut problem)) => {
                if manifest.checkpoints.len() > 1 {
                    problem.remedy = "open the database, which then uses the checkpoint before \
                                      this one and the logs since, if they are whole, or restore a \
                                      backup"
                        .to_owned();
                }
                report(checked, *problem);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A problem of what is kept only for the case that the newest checkpoint is damaged.
fn of_older(problem: Problem) -> Problem {
    Problem {
        affected: "nothing, as long as the newest checkpoint is whole".to_owned(),
        remedy: "take a checkpoint; what is older than the newest one goes with it".to_owned(),
        ..problem
    }
}

fn check_part(mut reader: CheckpointReader, checked: &mut Checked) -> Result<()> {
    checked.files += 1;
    while reader.next()?.is_some() {
        checked.records += 1;
    }
    checked.bytes += reader.bytes_read();
    Ok(())
}

fn check_incarnation(
    vfs: &dyn Vfs,
    dir: &Path,
    manifest: &Manifest,
    entry: &IncarnationEntry,
    checked: &mut Checked,
    report: &mut dyn FnMut(&mut Checked, Problem),
) -> Result<()> {
    let (id, folders) = (manifest.database_id, manifest.folders(dir));
    let mut generation = entry.first_generation;
    loop {
        let mut scans = Vec::new();
        // Every file of it was sealed before the manifest named the newest checkpoint.
        let is_older = generation < manifest.replayed_from();
        let mut report = |checked: &mut Checked, problem| match is_older {
            true => report(checked, of_older(problem)),
            false => report(checked, problem),
        };
        for scan in scan_generation(vfs, &folders, id, entry, generation) {
            match scan {
                Ok(scan) => scans.push(scan),
                Err(Error::Corrupt(problem)) => report(checked, *problem),
                Err(e) => return Err(e),
            }
        }
        checked.files += scans.len() as u64;
        checked.records += scans.iter().map(|scan| scan.records).sum::<u64>();
        checked.bytes += scans.iter().map(|scan| scan.valid).sum::<u64>();
        let whole = scans.len() == usize::from(entry.shards);
        let problems = match &entry.end {
            Some(end) if generation == end.last_generation => end_problems(&scans, &end.lengths),
            Some(_) => sealed_problems(&scans),
            None if is_older => sealed_problems(&scans),
            None if whole => durable_problems(vfs, &folders, id, entry, generation, &scans)?,
            None => Vec::new(),
        };
        let older = match entry.end {
            None if !is_older => stale::later_manifests(dir, manifest, &scans),
            _ => Vec::new(),
        };
        older
            .into_iter()
            .chain(problems)
            .for_each(|problem| report(checked, problem));
        let last = match &entry.end {
            Some(end) => generation == end.last_generation,
            None => {
                let is_complete = whole && scans.iter().all(|scan| scan.sealed);
                !(is_older || is_complete)
            }
        };
        if last {
            let torn = scans
                .iter()
                .map(|scan| scan.length - scan.valid)
                .sum::<u64>();
            checked.torn_bytes += torn;
            return Ok(());
        }
        generation += 1;
    }
}

/// Files of the last generation of an ended incarnation that are shorter than its end says.
fn end_problems(scans: &[FileScan], lengths: &[u64]) -> Vec<Problem> {
    let length = |scan: &FileScan| lengths[usize::from(scan.shard)];
    let short = scans.iter().filter(|scan| scan.valid < length(scan));
    short.flat_map(|scan| scan.damage(length(scan))).collect()
}

/// Files of a generation that was completed, and are not whole.
fn sealed_problems(scans: &[FileScan]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for scan in scans {
        if !scan.sealed {
            problems.extend(scan.damage(scan.length));
        } else if let Some(what) = &scan.bad {
            problems.push(problem(&scan.path, scan.valid, what, "nothing that counts"));
        }
    }
    problems
}
