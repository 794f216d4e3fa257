//! Backups of a running database.
//!
//! A backup is a database: the newest checkpoint, the log files that were written while it was
//! taken, and a manifest of its own, written last. It can be opened as it is. Its state is that of
//! the rotation that ends those log files.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hedgerow_log::{Manifest, Problem, required_files};
use hedgerow_pages::copy_file as copy_pages;
use hedgerow_vfs::{OpenMode, Vfs};

use crate::disk::directory::ClaimedDir;
use crate::disk::log_dirs::{self, FOLDERS};
use crate::disk::page_file::{PAGE_FILE, PageFile};
use crate::disk::page_roots::PAGE;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// What a backup or a restore copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub size_bytes: u64,
}

/// What [`Db::check`](crate::Db::check) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Files verified.
    pub files: u64,
    /// Bytes verified.
    pub size_bytes: u64,
    /// Records found whole, in checkpoint and logs.
    pub records: u64,
    /// Bytes of writes that a crash interrupted, among them a root of a page file beside the one
    /// that counts: expected after one, and no problem.
    pub torn_bytes: u64,
    /// Rows in the trees rebuilt from the files; 0 if there were problems before.
    pub rows: u64,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
}

impl Engine {
    pub(crate) fn backup(&self, target: &Path) -> Result<BackupReport> {
        self.check_has_files()?;
        if self.options.read_only && !self.is_closed() {
            return self.backup_unchanged(target);
        }
        self.check_writable()?;
        let vfs = &self.options.vfs;
        self.check_outside(target)?;
        // No other checkpoint may replace the files while they are copied.
        let _exclusive = self.checkpointing();
        let claimed = ClaimedDir::claim(&**vfs, target)?;
        self.checkpoint_exclusively()?;
        let log = self.log()?;
        let manifest = {
            // No keyspace is created or dropped between the rotation and the copy of the catalog.
            let manifest = self.manifest();
            let point = log.rotate()?;
            let mut ended = manifest.clone();
            ended.record_end(point.end);
            ended.keep_checkpoints(1);
            ended.clean_shutdown = true;
            ended
        };
        let mut copy = manifest.clone();
        copy.place_in(Vec::new());
        // Nothing that the last checkpoint refers to is written over before the next.
        // One that could not be made is no part of the database.
        let source = Source {
            dir: &self.dir,
            manifest: &manifest,
            has_pages: self.pages().is_some(),
        };
        let copied = copy_database(vfs, &source, target, &copy);
        let report = copied.map_err(|error| self.with_keys(error))?;
        claimed.filled();
        Ok(report)
    }

    /// Copies a database that was opened for reading only: its files as they are, which takes one
    /// that was closed. Any other has to be recovered first, or is being written: a reader that
    /// may not write has no lock that keeps writers off.
    fn backup_unchanged(&self, target: &Path) -> Result<BackupReport> {
        let vfs = &self.options.vfs;
        self.check_outside(target)?;
        let mut manifest = self.manifest().clone();
        // The opened one has the places of directories as they were found.
        let stored = Manifest::load(&**vfs, &self.dir)?;
        let writes = |manifest: &Manifest| (manifest.incarnation, manifest.sequence);
        let mut incarnations = manifest.incarnations.iter();
        if incarnations.any(|entry| entry.end.is_none()) || writes(&stored) != writes(&manifest) {
            return Err(Error::ReadOnly);
        }
        manifest.keep_checkpoints(1);
        let claimed = ClaimedDir::claim(&**vfs, target)?;
        let mut copy = manifest.clone();
        copy.place_in(Vec::new());
        let source = Source {
            dir: &self.dir,
            manifest: &manifest,
            has_pages: PageFile::is_needed(&self.options, &self.dir, &manifest)?,
        };
        // Whoever opens it for writing stores a manifest before anything else.
        let check_unchanged = || match Manifest::load(&**vfs, &self.dir)? == stored {
            true => Ok(()),
            false => Err(Error::ReadOnly.into()),
        };
        let copied = copy_checked(vfs, &source, target, &copy, check_unchanged);
        let report = copied.map_err(|error| self.with_keys(error))?;
        claimed.filled();
        Ok(report)
    }

    /// Fails if a backup is to lie among the files of the database: a directory that a checkpoint
    /// uses could be its target, and would be emptied if the copy fails.
    fn check_outside(&self, target: &Path) -> Result<()> {
        let vfs = &*self.options.vfs;
        let resolved_target = resolved(vfs, target);
        let manifest = self.manifest();
        let folders = manifest.folders(&self.dir);
        let within = |dir: &&Path| resolved_target.starts_with(resolved(vfs, dir));
        match folders.all().map(|(_, dir)| dir).find(within) {
            None => Ok(()),
            Some(dir) => Err(Error::BackupWithin {
                dir: target.to_path_buf(),
                of_database: dir.to_path_buf(),
            }),
        }
    }

    /// An error that names a damaged page, with the keys that need it.
    fn with_keys(&self, error: CopyError) -> Error {
        use hedgerow_pages::Error::CorruptPage;
        let CopyError::Pages(error) = error else {
            return error.into();
        };
        // A page that could not be read may be whole: the error of the disk says so by itself.
        let (Some(pages), CorruptPage { page, .. }) = (self.pages(), &error) else {
            return error.into();
        };
        Error::Corrupt(Box::new(Problem {
            file: self.dir.join(PAGE_FILE),
            offset: 0,
            affected: pages.describe_owner(*page, &self.spaces(), &self.expiries),
            what: format!("no copy was made: {error}"),
            remedy: "keep the backups that there are, and restore the newest, or dump what can be \
                     read"
                .to_owned(),
        }))
    }
}

/// Why a database could not be copied.
pub(crate) enum CopyError {
    /// The page file: maybe one page of it.
    Pages(hedgerow_pages::Error),
    Other(Error),
}

impl From<Error> for CopyError {
    fn from(error: Error) -> CopyError {
        CopyError::Other(error)
    }
}

impl From<hedgerow_log::Error> for CopyError {
    fn from(error: hedgerow_log::Error) -> CopyError {
        CopyError::Other(error.into())
    }
}

impl From<CopyError> for Error {
    fn from(error: CopyError) -> Error {
        match error {
            CopyError::Pages(error) => error.into(),
            CopyError::Other(error) => error,
        }
    }
}

/// A database that is copied.
pub(crate) struct Source<'a> {
    pub(crate) dir: &'a Path,
    /// What to copy.
    pub(crate) manifest: &'a Manifest,
    /// Whether there is a page file.
    pub(crate) has_pages: bool,
}

/// Copies what a manifest names into an empty directory that the caller has claimed, and the page
/// file if there is one, verifying all of it. The copy's manifest is the same but for the
/// directories of the files, which are there. If that fails, no file of a copy is left in any
/// directory, as far as that can be done: nothing there looks like a backup.
fn copy_database(
    vfs: &Arc<dyn Vfs>,
    from: &Source<'_>,
    to: &Path,
    manifest: &Manifest,
) -> std::result::Result<BackupReport, CopyError> {
    copy_checked(vfs, from, to, manifest, || Ok(()))
}

/// [`copy_database`] of one that others may write meanwhile: `check_unchanged` says whether they
/// did, once all files are copied, or could not be: then that may be why.
pub(crate) fn copy_checked(
    vfs: &Arc<dyn Vfs>,
    from: &Source<'_>,
    to: &Path,
    manifest: &Manifest,
    check_unchanged: impl FnOnce() -> std::result::Result<(), CopyError>,
) -> std::result::Result<BackupReport, CopyError> {
    let copied = copy_files(vfs, from, to, manifest);
    let verified = check_unchanged().and_then(|()| {
        let report = copied?;
        verify_copy(vfs, to)?;
        Ok(report)
    });
    if verified.is_err() {
        remove_database(&**vfs, to);
        for entry in &manifest.directories {
            log_dirs::remove_copy(&**vfs, &entry.path);
        }
    }
    verified
}

/// Removes a database from its directory, as far as that can be done, but for the lock file.
pub(crate) fn remove_database(vfs: &dyn Vfs, dir: &Path) {
    // The manifest first: without it the rest is no database.
    let names = vfs.list(dir).unwrap_or_default();
    for name in names.iter().filter(|name| name.starts_with("MANIFEST")) {
        let _ = vfs.remove(&dir.join(name));
    }
    for folder in FOLDERS {
        let _ = vfs.remove_dir_all(&dir.join(folder));
    }
    let _ = vfs.remove(&dir.join(PAGE_FILE));
    // One that could not be made is there under a longer name.
    for name in names.iter().filter(|name| name.starts_with(PAGE_FILE)) {
        let _ = vfs.remove(&dir.join(name));
    }
    let _ = vfs.sync_dir(dir);
}

/// Verifies logs and checkpoint files of a copy; pages were verified while they were copied.
fn verify_copy(vfs: &Arc<dyn Vfs>, copy: &Path) -> Result<()> {
    let mut first = None;
    hedgerow_log::check(Arc::clone(vfs), copy, &mut |problem| {
        first.get_or_insert(problem);
    })?;
    match first {
        None => Ok(()),
        Some(problem) => Err(Error::Corrupt(Box::new(problem))),
    }
}

/// Copies what a manifest names, the manifest last.
fn copy_files(
    vfs: &Arc<dyn Vfs>,
    from: &Source<'_>,
    to: &Path,
    manifest: &Manifest,
) -> std::result::Result<BackupReport, CopyError> {
    let mut report = BackupReport::default();
    let (sources, targets) = (from.manifest.folders(from.dir), manifest.folders(to));
    let all = targets.all().map(|(_, folder)| folder.to_path_buf());
    let mut directories: Vec<_> = all.collect();
    if from.has_pages {
        let pages = from.dir.join(PAGE_FILE);
        let database = manifest.database_id as u64;
        let copied = copy_pages::<PAGE>(vfs, &pages, &to.join(PAGE_FILE), database);
        report.size_bytes += copied.map_err(CopyError::Pages)?;
        report.files += 1;
    }
    let files = required_files(from.manifest).into_iter();
    for (file, copy) in files.zip(required_files(manifest)) {
        debug_assert_eq!(file.path, copy.path);
        let source = sources.path(file.directory).join(&file.path);
        let target = targets.path(copy.directory).join(&copy.path);
        let directory = target.parent().unwrap_or(to).to_path_buf();
        if !directories.contains(&directory) {
            vfs.create_dir_all(&directory)
                .map_err(|e| Error::io("create", &directory, e))?;
            directories.push(directory);
        }
        report.size_bytes += copy_file(&**vfs, &source, &target)?;
        report.files += 1;
    }
    for directory in &directories {
        vfs.sync_dir(directory)
            .map_err(|e| Error::io("sync directory", directory, e))?;
    }
    manifest.store(&**vfs, to)?;
    report.files += 1;
    Ok(report)
}

fn copy_file(vfs: &dyn Vfs, from: &Path, to: &Path) -> Result<u64> {
    let source = vfs
        .open(from, OpenMode::Read)
        .map_err(|e| Error::io("open", from, e))?;
    let target = vfs
        .open(to, OpenMode::CreateNew)
        .map_err(|e| Error::io("create", to, e))?;
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let read = match source.read_at(offset, &mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io("read", from, e)),
        };
        target
            .write_at(offset, &buffer[..read])
            .map_err(|e| Error::io("write", to, e))?;
        offset += read as u64;
    }
    target.sync().map_err(|e| Error::io("sync", to, e))?;
    Ok(offset)
}

/// A path without links and dots, as far as it exists.
fn resolved(vfs: &dyn Vfs, path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let found = whole.ancestors().find_map(|ancestor| {
        let rest = whole.strip_prefix(ancestor).ok()?;
        let mut path = vfs.canonical(ancestor).ok()?;
        for component in rest.components() {
            match component {
                Component::ParentDir => drop(path.pop()),
                component => path.push(component),
            }
        }
        Some(path)
    });
    found.unwrap_or(whole)
}
