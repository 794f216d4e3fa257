//! Recognises a manifest that is older than the logs beside it.
//!
//! An older copy of the manifest is whole and consistent in itself: a file put back by hand, a
//! partial restore, a directory that two processes had open. An opening with it would take newer
//! logs for the leftovers of an interrupted opening and remove them, with everything acknowledged
//! since. A block in a log that the manifest does not name shows its age: a log is written to only
//! after the manifest that names it is durable, so leftovers have no block.
//!
//! An older manifest may not list the directories that later logs are in. So an incarnation with
//! logs in other directories than the data folder leaves an empty file `<incarnation>.elsewhere` in
//! the data folder's `log/`, once its own manifest is durable and before anything is logged.
//!
//! A manifest that was replaced while its database was open knows the same logs as the one that
//! replaced it. So after each replacement a block records the new manifest's sequence
//! ([`Log::record_manifest_sequence`](crate::Log::record_manifest_sequence)): one with a lower
//! sequence is older.

use std::path::Path;

use hedgerow_vfs::{OpenMode, Vfs, read_up_to_at};

use crate::error::{Error, Problem, Result};
use crate::manifest::Manifest;
use crate::planted::{PlantedBug, planted};
use crate::scan::FileScan;
use crate::segment::{self, FILE_HEADER_BYTES, FileName, LOG_DIR};

/// One problem for each log file of this database that has a block and that the manifest can know
/// nothing of: of a later incarnation, or of a later generation than an incarnation ended with. And
/// one for each later incarnation that had its logs in other directories.
///
/// # Errors
/// A file that cannot be read, or one of a newer format.
pub(crate) fn logs_after(vfs: &dyn Vfs, dir: &Path, manifest: &Manifest) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    if planted(PlantedBug::ManifestAgeIgnored) {
        return Ok(problems);
    }
    for (_, folder) in manifest.folders(dir).all() {
        let log_dir = folder.join(LOG_DIR);
        let exists = vfs.exists(&log_dir);
        if !exists.map_err(|e| Error::io("look for", &log_dir, e))? {
            continue;
        }
        let names = vfs.list(&log_dir);
        for name in names.map_err(|e| Error::io("list", &log_dir, e))? {
            let shown = log_dir.join(&name);
            let shown = shown.strip_prefix(dir).unwrap_or(&shown);
            let mark = segment::parse_elsewhere_name(&name);
            if let Some(incarnation) = mark.filter(|mark| *mark > manifest.incarnation) {
                problems.push(problem(dir, manifest, shown, incarnation));
            }
            let Some(file) = segment::parse_file_name(&name) else {
                continue;
            };
            if is_after(manifest, file.incarnation, file.generation)
                && has_block(vfs, folder, manifest, file)?
            {
                problems.push(problem(dir, manifest, shown, file.incarnation));
            }
        }
    }
    Ok(problems)
}

/// One problem for each log file of an incarnation without an end that names a later manifest.
pub(crate) fn later_manifests(dir: &Path, manifest: &Manifest, scans: &[FileScan]) -> Vec<Problem> {
    let later = scans.iter().filter(|scan| {
        scan.manifest > manifest.sequence && !planted(PlantedBug::ManifestAgeIgnored)
    });
    let problems = later.map(|scan| {
        let what = format!(
            "it is older than {}: it is number {}, and that log was written when number {} was in \
             its place",
            scan.path.strip_prefix(dir).unwrap_or(&scan.path).display(),
            manifest.sequence,
            scan.manifest
        );
        problem_of(
            dir,
            what,
            "keyspaces that were created, cleared or dropped, and checkpoints that were taken, \
             after this MANIFEST was stored",
        )
    });
    problems.collect()
}

/// Whether the manifest was stored before this generation of this incarnation was begun.
fn is_after(manifest: &Manifest, incarnation: u32, generation: u32) -> bool {
    let entries = manifest.incarnations.iter();
    let mut ends = entries
        .filter(|entry| entry.incarnation == incarnation)
        .filter_map(|entry| entry.end.as_ref());
    incarnation > manifest.incarnation || ends.any(|end| generation > end.last_generation)
}

/// Whether a log file of this database has a valid block, wherever in the file.
fn has_block(vfs: &dyn Vfs, folder: &Path, manifest: &Manifest, name: FileName) -> Result<bool> {
    let FileName {
        incarnation,
        generation,
        shard,
    } = name;
    let name = segment::file_name(incarnation, generation, shard);
    let path = folder.join(LOG_DIR).join(name);
    let file = vfs.open(&path, OpenMode::Read);
    let file = file.map_err(|e| Error::io("open", &path, e))?;
    let mut header = [0; FILE_HEADER_BYTES];
    let read = read_up_to_at(&*file, 0, &mut header).map_err(|e| Error::io("read", &path, e))?;
    // Without a header that is whole, the opening or rotation that made the file was interrupted.
    let identity = segment::identity_in(&header[..read]).filter(|found| {
        (found.database_id, found.incarnation) == (manifest.database_id, incarnation)
            && (found.generation, found.shard) == (generation, shard)
    });
    let Some(identity) = identity else {
        return Ok(false);
    };
    let scan = FileScan::run(vfs, folder, identity, |_, _, _| Ok(()))?;
    Ok(scan.valid > FILE_HEADER_BYTES as u64 || !scan.strays.is_empty())
}

fn problem(dir: &Path, manifest: &Manifest, file: &Path, incarnation: u32) -> Problem {
    let what = format!(
        "it is older than {}: it ends with incarnation {}, and that is of incarnation \
         {incarnation}, whose logs were written to",
        file.display(),
        manifest.incarnation
    );
    let affected = "all that was committed after this MANIFEST was stored";
    problem_of(dir, what, affected)
}

fn problem_of(dir: &Path, what: String, affected: &str) -> Problem {
    Problem {
        file: Manifest::path(dir),
        offset: 0,
        what,
        affected: affected.to_owned(),
        remedy: "put the newest MANIFEST back, or restore a backup; nothing was changed".to_owned(),
    }
}
