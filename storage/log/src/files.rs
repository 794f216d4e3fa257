//! Which files a database consists of, and removing those that it does not need any more.

use std::path::{Path, PathBuf};

use hedgerow_vfs::{OpenMode, Vfs};

use crate::block::Identity;
use crate::checkpoint::CHECKPOINT_DIR;
use crate::directories::{Folders, round_robin};
use crate::entries::{DATA_FOLDER, DirectoryEntry, IncarnationEntry};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
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

/// The directory where the logs of a shard are.
pub(crate) fn folder_of<'a>(
    folders: &'a Folders,
    entry: &IncarnationEntry,
    shard: u16,
) -> &'a Path {
    folders.of_shard(&entry.directories, shard)
}

/// A file that a database needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredFile {
    /// The directory that it is in.
    pub directory: u64,
    /// Its path there.
    pub path: PathBuf,
}

impl Manifest {
    /// Where the files are that this manifest of a database in `dir` names.
    pub fn folders(&self, dir: &Path) -> Folders {
        Folders::new(dir, &self.directories)
    }

    /// Where the logs and checkpoints are, maybe several times.
    fn used_directories(&self) -> Vec<u64> {
        let shards = |entry: &IncarnationEntry| {
            let shards = 0..usize::from(entry.shards);
            shards
                .map(|shard| round_robin(&entry.directories, shard))
                .collect::<Vec<_>>()
        };
        let of_logs = self.incarnations.iter().flat_map(shards);
        let parts = self.checkpoints.iter().flat_map(|entry| &entry.parts);
        of_logs.chain(parts.map(|part| part.directory)).collect()
    }

    /// Whether there are logs or checkpoints in directories, the data folder among them, that new
    /// ones do not go to.
    pub fn is_leaving_directories(&self) -> bool {
        let used = self.used_directories();
        let is_new = |id: &u64| match &self.log_directories[..] {
            [] => *id == DATA_FOLDER,
            new => new.contains(id),
        };
        !used.iter().all(is_new)
    }

    /// The listed directories without a file that is needed, and where no new ones go.
    pub fn idle_directories(&self) -> Vec<DirectoryEntry> {
        let mut used = self.used_directories();
        used.extend(&self.log_directories);
        let idle = self.directories.iter();
        let idle = idle.filter(|entry| !used.contains(&entry.id));
        idle.cloned().collect()
    }

    /// Lists [idle directories](Self::idle_directories) no longer.
    pub fn forget_directories(&mut self, idle: &[DirectoryEntry]) {
        self.directories.retain(|entry| !idle.contains(entry));
        for entry in &mut self.incarnations {
            let is_listed = |id: &u64| idle.iter().all(|gone| gone.id != *id);
            debug_assert!(entry.directories.iter().all(is_listed));
        }
    }

    /// Puts the logs of all incarnations, and the parts of all checkpoints, into these directories
    /// by turns: the manifest of a copy.
    pub fn place_in(&mut self, directories: Vec<DirectoryEntry>) {
        let ids: Vec<u64> = directories.iter().map(|entry| entry.id).collect();
        for entry in &mut self.incarnations {
            entry.directories = ids_of_shards(&ids, entry.shards);
        }
        let parts = self
            .checkpoints
            .iter_mut()
            .flat_map(|entry| &mut entry.parts);
        for (number, part) in parts.enumerate() {
            part.directory = round_robin(&ids, number);
        }
        self.directories = directories;
        self.log_directories = ids;
    }
}

/// The directories that so many shards take by turns: no more than shards.
pub(crate) fn ids_of_shards(directories: &[u64], shards: u16) -> Vec<u64> {
    let shards = usize::from(shards);
    directories.iter().copied().take(shards).collect()
}

/// Removes every file that the manifest does not need, in all directories that it lists: logs and
/// checkpoints that later checkpoints replaced, and what interrupted openings, rotations and
/// checkpoints left. Not to be called while a checkpoint is being written, nor before the manifest
/// is stored.
///
/// # Errors
/// [`Error::Io`] if a directory cannot be listed or a file not removed; the others stay.
pub fn remove_obsolete(vfs: &dyn Vfs, dir: &Path, manifest: &Manifest) -> Result<()> {
    remove_obsolete_logs(vfs, dir, manifest)?;
    for (directory, folder) in manifest.folders(dir).all() {
        let parts = manifest.checkpoints.iter().flat_map(|entry| &entry.parts);
        let parts = parts.filter(|part| part.directory == directory);
        let needed: Vec<&str> = parts.map(|part| part.file.as_str()).collect();
        let is_obsolete = |name: &str| name.ends_with(".ckpt") && !needed.contains(&name);
        remove_from(vfs, &folder.join(CHECKPOINT_DIR), is_obsolete)?;
    }
    Ok(())
}

/// Removes files of these names from a directory, if there is one.
fn remove_from(vfs: &dyn Vfs, dir: &Path, is_obsolete: impl Fn(&str) -> bool) -> Result<()> {
    if !vfs.exists(dir).map_err(|e| Error::io("look for", dir, e))? {
        return Ok(());
    }
    let names = vfs.list(dir).map_err(|e| Error::io("list", dir, e))?;
    for name in names.iter().filter(|name| is_obsolete(name)) {
        let path = dir.join(name);
        vfs.remove(&path)
            .map_err(|e| Error::io("remove", &path, e))?;
    }
    Ok(())
}

/// The files that a database consists of besides its manifest, always in the same order: what a
/// copy needs. All incarnations must have an end.
pub fn required_files(manifest: &Manifest) -> Vec<RequiredFile> {
    let mut files = Vec::new();
    for entry in &manifest.incarnations {
        let last = entry
            .end
            .as_ref()
            .map_or(entry.first_generation, |end| end.last_generation);
        for generation in entry.first_generation..=last {
            for shard in 0..entry.shards {
                let identity = identity(manifest.database_id, entry, generation, shard);
                files.push(RequiredFile {
                    directory: round_robin(&entry.directories, shard.into()),
                    path: segment::path(Path::new(""), &identity),
                });
            }
        }
    }
    let parts = manifest.checkpoints.iter().flat_map(|entry| &entry.parts);
    files.extend(parts.map(|part| RequiredFile {
        directory: part.directory,
        path: Path::new(CHECKPOINT_DIR).join(&part.file),
    }));
    files
}

/// Removes log files that the manifest does not need: replaced by its checkpoint, or left by an
/// opening or a rotation that was interrupted.
pub(crate) fn remove_obsolete_logs(vfs: &dyn Vfs, dir: &Path, manifest: &Manifest) -> Result<()> {
    for (directory, folder) in manifest.folders(dir).all() {
        let is_obsolete = |name: &str| {
            let is_obsolete = |name| !is_needed(manifest, directory, name);
            segment::parse_file_name(name).is_some_and(is_obsolete)
        };
        remove_from(vfs, &folder.join(LOG_DIR), is_obsolete)?;
    }
    remove_old_marks(vfs, dir, manifest)
}

/// Whether the manifest needs a log file in a directory, or knows nothing of it.
fn is_needed(manifest: &Manifest, directory: u64, name: FileName) -> bool {
    let FileName {
        incarnation,
        generation,
        shard,
    } = name;
    // Later than the manifest: a leftover that the next opening replaces, or not ours to judge.
    let is_later = incarnation > manifest.incarnation;
    is_later
        || manifest.incarnations.iter().any(|entry| {
            entry.incarnation == incarnation
                && round_robin(&entry.directories, shard.into()) == directory
                && generation >= entry.first_generation
                && entry
                    .end
                    .as_ref()
                    .is_none_or(|end| generation <= end.last_generation)
        })
}

/// Says in the data folder, durably, that an incarnation has its logs in other directories. An
/// earlier manifest may know nothing of those, and is refused for this mark.
pub(crate) fn mark_elsewhere(vfs: &dyn Vfs, dir: &Path, incarnation: u32) -> Result<()> {
    let log_dir = dir.join(LOG_DIR);
    let path = log_dir.join(segment::elsewhere_name(incarnation));
    if !vfs
        .exists(&path)
        .map_err(|e| Error::io("look for", &path, e))?
    {
        vfs.open(&path, OpenMode::CreateNew)
            .map_err(|e| Error::io("create", &path, e))?;
    }
    vfs.sync_dir(&log_dir)
        .map_err(|e| Error::io("sync directory", &log_dir, e))
}

/// Removes the marks but the newest, which goes when the manifest lists no directory any more.
fn remove_old_marks(vfs: &dyn Vfs, dir: &Path, manifest: &Manifest) -> Result<()> {
    let log_dir = dir.join(LOG_DIR);
    let exists = vfs.exists(&log_dir);
    if !exists.map_err(|e| Error::io("look for", &log_dir, e))? {
        return Ok(());
    }
    let names = vfs.list(&log_dir);
    let names = names.map_err(|e| Error::io("list", &log_dir, e))?;
    let marks = names
        .iter()
        .filter_map(|name| segment::parse_elsewhere_name(name));
    let newest = marks.max().filter(|_| !manifest.directories.is_empty());
    remove_from(vfs, &log_dir, |name| {
        let mark = segment::parse_elsewhere_name(name);
        mark.is_some() && mark != newest
    })
}
