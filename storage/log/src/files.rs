//! Which files a database consists of, and removing those that it does not need any more.

use std::path::{Path, PathBuf};

use hedgerow_vfs::Vfs;

use crate::block::Identity;
use crate::checkpoint::CHECKPOINT_DIR;
use crate::error::{Error, Result};
use crate::manifest::{IncarnationEntry, Manifest};
use crate::segment::{self, FileName, LOG_DIR};

/// Which log file this is.
pub(crate) fn identity(
    database_id: u128,
    entry: &IncarnationEntry,
    generation: u32,
    shard: u16,
) -> Identity {
    let IncarnationEntry {
        incarnation,
        shards,
        ..
    } = *entry;
    Identity {
        database_id,
        incarnation,
        generation,
        shard,
        shards,
    }
}

/// Removes every file that the manifest does not need: logs and checkpoints that its checkpoint
/// replaced, and what interrupted openings, rotations and checkpoints left. Not to be called while
/// a checkpoint is being written, nor before the manifest is stored.
///
/// # Errors
/// [`Error::Io`] if a directory cannot be listed or a file not removed; the others stay.
pub fn remove_obsolete(vfs: &dyn Vfs, dir: &Path, manifest: &Manifest) -> Result<()> {
    remove_obsolete_logs(vfs, dir, manifest)?;
    let checkpoint_dir = dir.join(CHECKPOINT_DIR);
    if !vfs
        .exists(&checkpoint_dir)
        .map_err(|e| Error::io("look for", &checkpoint_dir, e))?
    {
        return Ok(());
    }
    let parts = manifest
        .checkpoint
        .iter()
        .flat_map(|checkpoint| &checkpoint.parts);
    let needed: Vec<&str> = parts.map(|part| part.file.as_str()).collect();
    for name in vfs
        .list(&checkpoint_dir)
        .map_err(|e| Error::io("list", &checkpoint_dir, e))?
    {
        if name.ends_with(".ckpt") && !needed.contains(&name.as_str()) {
            let path = checkpoint_dir.join(&name);
            vfs.remove(&path)
                .map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    Ok(())
}

/// The files that a database consists of besides its manifest, relative to its directory: what a
/// copy needs. All incarnations must have an end.
pub fn required_files(manifest: &Manifest) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in &manifest.incarnations {
        let last = entry
            .end
            .as_ref()
            .map_or(entry.first_generation, |end| end.last_generation);
        for generation in entry.first_generation..=last {
            for shard in 0..entry.shards {
                let identity = identity(manifest.database_id, entry, generation, shard);
                files.push(segment::path(Path::new(""), &identity));
            }
        }
    }
    let parts = manifest
        .checkpoint
        .iter()
        .flat_map(|checkpoint| &checkpoint.parts);
    files.extend(parts.map(|part| Path::new(CHECKPOINT_DIR).join(&part.file)));
    files
}

/// Removes log files that the manifest does not need: replaced by its checkpoint, or left by an
/// opening or a rotation that was interrupted.
pub(crate) fn remove_obsolete_logs(vfs: &dyn Vfs, dir: &Path, manifest: &Manifest) -> Result<()> {
    let log_dir = dir.join(LOG_DIR);
    if !vfs
        .exists(&log_dir)
        .map_err(|e| Error::io("look for", &log_dir, e))?
    {
        return Ok(());
    }
    for name in vfs
        .list(&log_dir)
        .map_err(|e| Error::io("list", &log_dir, e))?
    {
        let Some(FileName {
            incarnation,
            generation,
            ..
        }) = segment::parse_file_name(&name)
        else {
            continue;
        };
        // Later than the manifest: a leftover that the next opening replaces, or not ours to judge.
        let is_later = incarnation > manifest.incarnation;
        let needed = is_later
            || manifest.incarnations.iter().any(|entry| {
                entry.incarnation == incarnation
                    && generation >= entry.first_generation
                    && entry
                        .end
                        .as_ref()
                        .is_none_or(|end| generation <= end.last_generation)
            });
        if !needed {
            let path = log_dir.join(&name);
            vfs.remove(&path)
                .map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    Ok(())
}
