//! Directories besides the data folder, on other disks, that logs and checkpoints go to.
//!
//! The options may name them; otherwise an opening takes those that the manifest names. Whatever is
//! named is checked before anything is changed: each must be empty or one of this database, and
//! none may be within another or within the data folder. A new one is made and locked, and its file
//! `OWNER` is durable, before the manifest lists it; the manifest lists it before a log file is
//! made in it. A directory that the options leave out is read as long as the manifest needs files
//! of it. Then [`Engine::release_log_dirs`] removes it from the list, and its `OWNER` after that.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hedgerow_log::{DirectoryEntry, Manifest, Owner, remove_obsolete};
use hedgerow_vfs::{FileLock, Vfs};

use crate::disk::directory::{HARMLESS, LOCK_FILE, create_durably, is_forbidden, new_database_id};
use crate::disk::folder::Folder;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::Builder;

/// Folders of a directory that hold what is the database's.
pub(crate) const FOLDERS: [&str; 2] = ["log", "checkpoint"];

/// A directory that the options name.
struct Given {
    path: PathBuf,
    /// Which of those that the manifest lists; `None`: a new one.
    id: Option<u64>,
}

/// The directories of one opening.
pub(crate) struct LogDirs {
    /// What the options name; `None` if they leave it to the manifest.
    given: Option<Vec<Given>>,
    /// Of listed directories.
    pub(crate) locks: Vec<(u64, Box<dyn FileLock>)>,
}

fn refused(dir: &Path, reason: impl Into<String>) -> Error {
    Error::LogDir {
        dir: dir.to_path_buf(),
        reason: reason.into(),
    }
}

fn failed(operation: &'static str, dir: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| match source.kind() {
        _ if is_forbidden(&source) => {
            let reason = format!("it cannot be written ({source}); change its permissions");
            refused(dir, reason)
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            refused(dir, "it is a file, or within one; choose a directory")
        }
        _ => Error::io(operation, dir, source),
    }
}

/// The one path of a directory that may be missing: that of the nearest folder that is there, and
/// the names behind it.
fn resolve(vfs: &dyn Vfs, dir: &Path) -> Result<PathBuf> {
    let mut missing = Vec::new();
    for ancestor in dir.ancestors() {
        match vfs.canonical(ancestor) {
            Ok(mut found) => {
                found.extend(missing.iter().rev());
                return Ok(found);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => missing.extend(ancestor.file_name()),
            Err(e) => return Err(failed("look for", dir)(e)),
        }
    }
    Ok(dir.to_path_buf())
}

/// Refuses directories that are the data folder, each other, or within one another.
fn check_apart(data: &Path, dirs: &[PathBuf]) -> Result<()> {
    for (at, dir) in dirs.iter().enumerate() {
        if dir == data {
            let reason = "it is the data folder, where logs are without this option; leave it out";
            return Err(refused(dir, reason));
        }
        if dirs[..at].contains(dir) {
            return Err(refused(dir, "it is named twice; name each directory once"));
        }
        let others = [data].into_iter().chain(dirs.iter().map(PathBuf::as_path));
        for other in others.filter(|other| *other != dir) {
            let within = |one: &Path, other: &Path| {
                let what = "choose directories that are not within one another";
                refused(
                    dir,
                    format!("{} is within {}; {what}", one.display(), other.display()),
                )
            };
            if dir.starts_with(other) {
                return Err(within(dir, other));
            }
            if other.starts_with(dir) {
                return Err(within(other, dir));
            }
        }
    }
    Ok(())
}

/// Refuses a directory that exists and has more than what an addition leaves that was interrupted.
fn check_empty(vfs: &dyn Vfs, dir: &Path, is_owned: bool) -> Result<()> {
    let names = vfs.list(dir).map_err(failed("list", dir))?;
    for name in &names {
        let is_empty_folder = FOLDERS.contains(&name.as_str())
            && vfs
                .list(&dir.join(name))
                .is_ok_and(|below| below.is_empty());
        if !HARMLESS.contains(&name.as_str()) && !Owner::is_name(name) && !is_empty_folder {
            let what = match is_owned {
                true => {
                    "it has files of this database, but MANIFEST does not list it; put the newest \
                     MANIFEST back, or choose an empty or a new directory"
                }
                false => "it is not empty; choose an empty or a new directory",
            };
            return Err(refused(dir, format!("{what} (it has {name:?})")));
        }
    }
    Ok(())
}

impl Given {
    /// Which directory a path of the options means.
    fn find(vfs: &dyn Vfs, path: PathBuf, manifest: Option<&Manifest>) -> Result<Given> {
        let exists = vfs.exists(&path).map_err(failed("look for", &path))?;
        let parent = path.parent().unwrap_or(&path);
        if !exists && !vfs.exists(parent).map_err(failed("look for", parent))? {
            let reason = format!(
                "there is no folder {} to make it in; mount its disk, or make that folder first",
                parent.display()
            );
            return Err(refused(&path, reason));
        }
        let Some(owner) = owner_of(vfs, &path, exists)? else {
            let lists = |manifest: &&Manifest| {
                let mut listed = manifest.directories.iter();
                listed.any(|entry| entry.path == path)
            };
            if let Some(manifest) = manifest.filter(lists) {
                return Err(unowned(&path, exists, manifest));
            }
            if exists {
                check_empty(vfs, &path, false)?;
            }
            return Ok(Given { path, id: None });
        };
        let is_its = |manifest: &&Manifest| manifest.database_id == owner.database_id;
        let Some(manifest) = manifest.filter(is_its) else {
            return Err(of_another_database(&path));
        };
        let mut listed = manifest.directories.iter();
        if listed.any(|entry| entry.id == owner.directory) {
            let id = Some(owner.directory);
            return Ok(Given { path, id });
        }
        check_empty(vfs, &path, true)?;
        Ok(Given { path, id: None })
    }
}

/// What the file `OWNER` of a directory says, if there is one.
fn owner_of(vfs: &dyn Vfs, dir: &Path, exists: bool) -> Result<Option<Owner>> {
    if !exists {
        return Ok(None);
    }
    Owner::load(vfs, dir).map_err(of_owner("look into", dir))
}

/// What is wrong with a directory whose `OWNER` could not be read or written.
fn of_owner(operation: &'static str, dir: &Path) -> impl Fn(hedgerow_log::Error) -> Error {
    move |error| match error {
        hedgerow_log::Error::Io { source, .. } => failed(operation, dir)(source),
        error => error.into(),
    }
}

fn of_another_database(dir: &Path) -> Error {
    let reason = "it belongs to another database; choose another directory";
    refused(dir, reason)
}

/// What to start with where a listed directory has moved: all that new logs go to, since those that
/// are not named get none any more.
fn remedy(dir: &Path, manifest: &Manifest) -> String {
    let others = manifest
        .directories
        .iter()
        .filter(|entry| entry.path != dir && manifest.log_directories.contains(&entry.id));
    let others = others.map(|entry| format!(" --log-dir {}", entry.path.display()));
    format!(
        "start hedgerow serve once with --log-dir NEWPATH{} for the path that it has now; nothing \
         was changed",
        others.collect::<String>()
    )
}

/// A listed directory is not where it was.
fn unowned(dir: &Path, exists: bool, manifest: &Manifest) -> Error {
    let what = match exists {
        true => "its file OWNER is missing",
        false => "it is missing",
    };
    let reason = format!(
        "{what}, and MANIFEST lists it as one of the database's; mount its disk, or {}",
        remedy(dir, manifest)
    );
    refused(dir, reason)
}

/// Which directories the options name, after all checks that change nothing. Without a manifest:
/// of a database that is not there yet.
fn find_given(
    options: &Builder,
    dir: &Path,
    manifest: Option<&Manifest>,
) -> Result<Option<Vec<Given>>> {
    let vfs = &*options.vfs;
    let Some(paths) = &options.log_dirs else {
        return Ok(None);
    };
    let paths = paths.iter().map(|path| resolve(vfs, path));
    let paths = paths.collect::<Result<Vec<_>>>()?;
    check_apart(&resolve(vfs, dir)?, &paths)?;
    let mut given: Vec<Given> = Vec::new();
    for path in paths {
        let found = Given::find(vfs, path, manifest)?;
        let is_same = |other: &&Given| other.id == found.id && found.id.is_some();
        if let Some(other) = given.iter().find(is_same) {
            let reason = format!("it is a copy of {}; name one of both", other.path.display());
            return Err(refused(&found.path, reason));
        }
        given.push(found);
    }
    Ok(Some(given))
}

/// Checks the directories that the options name, if the database is to be made.
pub(crate) fn check_for_new(options: &Builder, dir: &Path) -> Result<()> {
    match Manifest::exists(&*options.vfs, dir) {
        Ok(false) => find_given(options, dir, None).map(drop),
        // Others look closer.
        _ => Ok(()),
    }
}

impl LogDirs {
    /// Finds the directories that the manifest lists, and checks those that the options name. The
    /// manifest gets the paths that they have now, and lists none any more that is not needed and
    /// not where it was: all that are listed then are directories of the database. Locks them,
    /// unless they are only read. Nothing else is changed.
    pub(crate) fn find(options: &Builder, dir: &Path, manifest: &mut Manifest) -> Result<LogDirs> {
        let vfs = &*options.vfs;
        let given = find_given(options, dir, Some(manifest))?;
        let mut expected = manifest.clone();
        if given.is_some() || (options.read_only && !options.strict) {
            // Nothing has to be in those that are only listed for new files.
            expected.log_directories.clear();
        }
        let idle = expected.idle_directories();
        let (mut found, mut gone) = (Vec::new(), Vec::new());
        let listed = manifest.clone();
        for entry in &mut manifest.directories {
            let named = given.iter().flatten();
            let mut named = named.filter(|each| each.id == Some(entry.id));
            if let Some(each) = named.next() {
                check_moved(vfs, &listed, entry, &each.path)?;
                entry.path.clone_from(&each.path);
            } else {
                match check_listed(vfs, &listed, entry) {
                    Err(error @ Error::LogDir { .. }) if idle.contains(entry) => {
                        tracing::warn!(%error, "nothing in it is needed: it is let go of");
                        gone.push(entry.clone());
                        continue;
                    }
                    checked => checked?,
                }
            }
            found.push(entry.clone());
        }
        manifest
            .log_directories
            .retain(|id| gone.iter().all(|entry| entry.id != *id));
        manifest.forget_directories(&gone);
        let new = given.iter().flatten().filter(|each| each.id.is_none());
        let paths = new.map(|each| each.path.clone());
        let paths = paths.chain(found.iter().map(|entry| entry.path.clone()));
        let paths: Vec<_> = paths.collect();
        if !paths.is_empty() {
            check_apart(&resolve(vfs, dir)?, &paths)?;
        }
        let mut locks = Vec::new();
        if !options.read_only {
            for entry in &found {
                locks.push((entry.id, lock(vfs, &entry.path)?));
            }
        }
        Ok(LogDirs { given, locks })
    }

    /// Makes the directories that are new, and has the manifest list them: it has to be stored
    /// next.
    pub(crate) fn add_new(&mut self, vfs: &dyn Vfs, manifest: &mut Manifest) -> Result<()> {
        let Some(given) = &self.given else {
            return Ok(());
        };
        let mut ids = Vec::new();
        for Given { path, id } in given {
            ids.push(match id {
                Some(id) => *id,
                None => {
                    let (entry, lock) = make(vfs, path, manifest.database_id)?;
                    let id = entry.id;
                    self.locks.push((id, lock));
                    manifest.directories.push(entry);
                    id
                }
            });
        }
        for id in manifest
            .log_directories
            .iter()
            .filter(|id| !ids.contains(id))
        {
            let dropped = manifest.directories.iter().find(|entry| entry.id == *id);
            if let Some(DirectoryEntry { path, .. }) = dropped {
                let dir = path.display();
                tracing::warn!(%dir, "no new logs go there: --log-dir does not name it");
            }
        }
        manifest.log_directories = ids;
        Ok(())
    }
}

/// The directories that the manifest lists for new logs.
pub(crate) fn of_new_logs(manifest: &Manifest, dir: &Path) -> Vec<Folder> {
    let folders = manifest.folders(dir);
    let ids = manifest.log_directories.iter();
    ids.map(|id| (*id, folders.path(*id).to_path_buf()))
        .collect()
}

/// Directories that were made, and their locks.
type Made = (Vec<DirectoryEntry>, Vec<Box<dyn FileLock>>);

/// Makes new directories for a copy of a database into `dir`, which list them. Another copy of this
/// database is kept out of them by their locks alone, until the files are there.
pub(crate) fn make_for_copy(options: &Builder, dir: &Path, database_id: u128) -> Result<Made> {
    let given = find_given(options, dir, None)?;
    let vfs = &*options.vfs;
    let (mut entries, mut locks): Made = (Vec::new(), Vec::new());
    for each in given.iter().flatten() {
        match make(vfs, &each.path, database_id) {
            Ok((entry, lock)) => {
                entries.push(entry);
                locks.push(lock);
            }
            Err(error) => {
                entries
                    .iter()
                    .for_each(|entry| remove_copy(vfs, &entry.path));
                return Err(error);
            }
        }
    }
    Ok((entries, locks))
}

/// Makes a directory that a manifest will list next, and locks it.
fn make(
    vfs: &dyn Vfs,
    path: &Path,
    database_id: u128,
) -> Result<(DirectoryEntry, Box<dyn FileLock>)> {
    create_durably(vfs, path).map_err(failed("create", path))?;
    let lock = lock(vfs, path)?;
    // Somebody else may have taken it since it was looked into.
    let found = owner_of(vfs, path, true)?;
    if found
        .as_ref()
        .is_some_and(|found| found.database_id != database_id)
    {
        return Err(of_another_database(path));
    }
    check_empty(vfs, path, found.is_some())?;
    // Half of such a number is one that no other directory has; 0 stands for the data folder.
    let id = (new_database_id() as u64).max(1);
    let owner = Owner {
        database_id,
        directory: id,
    };
    owner
        .store(vfs, path)
        .map_err(of_owner("write into", path))?;
    let path = path.to_path_buf();
    Ok((DirectoryEntry { id, path }, lock))
}

/// Makes sure that a listed directory is where it was.
fn check_listed(vfs: &dyn Vfs, manifest: &Manifest, entry: &DirectoryEntry) -> Result<()> {
    let dir = &entry.path;
    let exists = vfs.exists(dir).map_err(failed("look for", dir))?;
    let Some(owner) = owner_of(vfs, dir, exists)? else {
        return Err(unowned(dir, exists, manifest));
    };
    if owner.database_id != manifest.database_id || owner.directory != entry.id {
        let reason = format!(
            "its file OWNER is that of another directory than MANIFEST lists; mount the right \
             disk, or {}",
            remedy(dir, manifest)
        );
        return Err(refused(dir, reason));
    }
    Ok(())
}

/// Refuses a copy of a listed directory which is still where it was: it may be an old one.
fn check_moved(
    vfs: &dyn Vfs,
    manifest: &Manifest,
    entry: &DirectoryEntry,
    now: &Path,
) -> Result<()> {
    let old = &entry.path;
    // What cannot be looked into, such as a disk that is gone, is not there any more.
    let is_there = || check_listed(vfs, manifest, entry).is_ok();
    if old == now || !is_there() || resolve(vfs, old)? == now {
        return Ok(());
    }
    let (old, new) = (old.display(), now.display());
    let reason = format!(
        "both {old} and {new} are this directory, and one is a copy; name {old}, or remove it \
         if {new} has the newest files; nothing was changed"
    );
    Err(refused(now, reason))
}

fn lock(vfs: &dyn Vfs, dir: &Path) -> Result<Box<dyn FileLock>> {
    vfs.lock(&dir.join(LOCK_FILE)).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => refused(
            dir,
            "another process uses it; stop that, or choose another directory",
        ),
        _ => failed("lock", dir)(e),
    })
}

impl Engine {
    /// Lists directories no longer that have no file which is needed and that no new ones go to,
    /// and leaves nothing in them; does nothing if the database is only read. What fails is tried
    /// again after the next checkpoint. No checkpoint is under way.
    pub(crate) fn release_log_dirs(&self, manifest: &mut Manifest) {
        let idle = manifest.idle_directories();
        let vfs = &*self.options.vfs;
        let is_reader = self.log.is_none();
        if is_reader || idle.is_empty() || remove_obsolete(vfs, &self.dir, manifest).is_err() {
            return;
        }
        // After a power cut, no file may be back in a directory that is not listed any more.
        if idle
            .iter()
            .any(|entry| sync_folders(vfs, &entry.path).is_err())
        {
            return;
        }
        let mut changed = manifest.clone();
        changed.forget_directories(&idle);
        if let Err(error) = self.replace_manifest(&mut changed) {
            tracing::warn!(%error, "log directories that are not needed stay listed");
            return;
        }
        *manifest = changed;
        self.record_manifest_sequence(manifest.sequence);
        for entry in idle {
            let dir = entry.path.display();
            match empty(vfs, &entry.path) {
                Ok(()) => tracing::info!(%dir, "a log directory is not needed any more"),
                Err(error) => tracing::warn!(
                    %dir, %error, "a log directory is not needed any more, but was not emptied"
                ),
            }
            let mut locks = self.locks();
            locks.retain(|(id, _)| *id != entry.id);
        }
        // What told of logs elsewhere, if there are none any more; it can also go later.
        let _ = remove_obsolete(vfs, &self.dir, manifest);
    }
}

/// Makes the removal of files durable.
fn sync_folders(vfs: &dyn Vfs, dir: &Path) -> std::io::Result<()> {
    for folder in FOLDERS {
        let folder = dir.join(folder);
        if vfs.exists(&folder)? {
            vfs.sync_dir(&folder)?;
        }
    }
    Ok(())
}

/// Removes a copy's files from a directory that was made for it, as far as that can be done. What a
/// file system has of its own stays.
pub(crate) fn remove_copy(vfs: &dyn Vfs, dir: &Path) {
    for name in vfs.list(dir).unwrap_or_default() {
        let path = dir.join(&name);
        if FOLDERS.contains(&name.as_str()) {
            let _ = vfs.remove_dir_all(&path);
        } else if name == LOCK_FILE || Owner::is_name(&name) {
            let _ = vfs.remove(&path);
        }
    }
}

/// Removes what a database leaves in a directory which has none of its files.
pub(crate) fn empty(vfs: &dyn Vfs, dir: &Path) -> std::io::Result<()> {
    for folder in FOLDERS {
        let folder = dir.join(folder);
        // A foreign file stays, and so does the folder that it is in.
        if vfs.exists(&folder)? && vfs.list(&folder)?.is_empty() {
            vfs.remove_dir(&folder)?;
        }
    }
    for name in vfs.list(dir)? {
        if name == LOCK_FILE || Owner::is_name(&name) {
            vfs.remove(&dir.join(name))?;
        }
    }
    vfs.sync_dir(dir)
}
