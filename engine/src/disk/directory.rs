//! The directory of a database: whether it holds one, making one where there is none, and its lock.

use std::io::{self, ErrorKind};
use std::path::Path;

use hedgerow_log::{KeyspaceEntry, Manifest};
use hedgerow_vfs::{FileLock, Vfs};

use crate::disk::page_file::PageFile;
use crate::error::{Error, Result};
use crate::index::kind::IndexKind;
use crate::options::Builder;

pub(crate) const LOCK_FILE: &str = "LOCK";
/// Names that a directory may hold which becomes one of a database: what a creation that was
/// interrupted leaves, and what a file system has of its own.
pub(crate) const HARMLESS: [&str; 2] = [LOCK_FILE, "lost+found"];

/// Makes sure that a directory holds a database or can hold a new one with these options, before
/// anything is written to it: an opening that is refused leaves nothing behind.
pub(crate) fn make_ready(options: &Builder, dir: &Path) -> Result<()> {
    let vfs = &*options.vfs;
    let exists = vfs.exists(dir).map_err(|e| Error::io("look for", dir, e))?;
    if exists && has_manifest(vfs, dir)? {
        return Ok(());
    }
    if exists {
        check_creatable(vfs, dir, options.create && !options.read_only)?;
    }
    if options.index == Some(IndexKind::BTree) {
        PageFile::check_budget(options, dir)?;
    }
    match create_directory(options, dir) {
        // Whoever made it may not have synced its name; and it may be a file system of its own,
        // below a directory that this process cannot sync.
        Err(Error::ReadOnlyDirectory { .. }) if exists => Ok(()),
        Err(Error::Io { source, .. })
            if exists
                && matches!(
                    source.kind(),
                    ErrorKind::InvalidInput | ErrorKind::Unsupported
                ) =>
        {
            Ok(())
        }
        made => made,
    }
}

fn create_directory(options: &Builder, dir: &Path) -> Result<()> {
    if options.read_only || !options.create {
        return Err(Error::Missing {
            dir: dir.to_path_buf(),
        });
    }
    create_durably(&*options.vfs, dir).map_err(|e| writing_failed("create", dir, e))
}

/// Makes sure that there is a database.
pub(crate) fn check_exists(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    if !vfs.exists(dir).map_err(|e| Error::io("look for", dir, e))? {
        return Err(Error::Missing {
            dir: dir.to_path_buf(),
        });
    }
    if has_manifest(vfs, dir)? {
        return Ok(());
    }
    check_creatable(vfs, dir, false)
}

/// Whether a path that exists holds a manifest; an error by its name if it is a file.
fn has_manifest(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    Manifest::exists(vfs, dir).map_err(|error| match error {
        hedgerow_log::Error::Io { source, .. } if source.kind() == ErrorKind::NotADirectory => {
            writing_failed("look for", dir, source)
        }
        error => error.into(),
    })
}

/// Whether a directory without a manifest may become a database.
fn check_creatable(vfs: &dyn Vfs, dir: &Path, may_create: bool) -> Result<()> {
    let names = vfs.list(dir).map_err(|e| writing_failed("list", dir, e))?;
    // A creation that was interrupted leaves no more than these.
    let is_foreign = |name: &&String| !HARMLESS.contains(&&***name) && *name != "MANIFEST.tmp";
    let mut foreign = names.iter().filter(is_foreign);
    if let Some(name) = foreign.next() {
        if names
            .iter()
            .any(|name| name == "log" || name == "checkpoint")
        {
            return Err(Error::HalfWritten {
                dir: dir.to_path_buf(),
            });
        }
        let reason = format!("it has no MANIFEST but other files, such as {name:?}");
        return Err(Error::NotADatabase {
            dir: dir.to_path_buf(),
            reason,
        });
    }
    if !may_create {
        return Err(Error::Missing {
            dir: dir.to_path_buf(),
        });
    }
    Ok(())
}

/// The kind of index that a keyspace of the manifest has.
pub(crate) fn kind_of(entry: &KeyspaceEntry) -> Result<IndexKind> {
    IndexKind::from_name(&entry.index).ok_or_else(|| Error::UnknownIndex {
        keyspace: entry.name.clone(),
        index: entry.index.clone(),
    })
}

/// The manifest of a database, a new one if there is none. Refuses one with an index that this
/// program does not know: before recovery, which changes files.
pub(crate) fn load_or_create(options: &Builder, dir: &Path) -> Result<Manifest> {
    let vfs = &*options.vfs;
    if Manifest::exists(vfs, dir)? {
        let manifest = Manifest::load(vfs, dir)?;
        for entry in &manifest.keyspaces {
            kind_of(entry)?;
        }
        return Ok(manifest);
    }
    check_creatable(vfs, dir, options.create && !options.read_only)?;
    let manifest = Manifest::new(new_database_id());
    manifest.store(vfs, dir)?;
    Ok(manifest)
}

/// Random enough to tell databases apart: the standard library's hash seeds.
pub(crate) fn new_database_id() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let half = || u128::from(RandomState::new().hash_one(std::time::SystemTime::now()));
    half() << 64 | half()
}

/// Creates a directory and its missing parents so that their names survive a power cut. The name of
/// `dir` itself is synced even if it exists: its creator may not have synced it.
pub(crate) fn create_durably(vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
    let mut unsynced = vec![dir];
    for ancestor in dir.ancestors().skip(1) {
        if ancestor == Path::new("") || vfs.exists(ancestor)? {
            break;
        }
        unsynced.push(ancestor);
    }
    vfs.create_dir_all(dir)?;
    for path in unsynced {
        match path.parent() {
            Some(parent) if parent == Path::new("") => vfs.sync_dir(Path::new("."))?,
            Some(parent) => vfs.sync_dir(parent)?,
            None => {}
        }
    }
    Ok(())
}

/// Takes the directory's lock. A reader that may not write to the directory takes none.
pub(crate) fn lock_directory(
    vfs: &dyn Vfs,
    dir: &Path,
    read_only: bool,
) -> Result<Option<Box<dyn FileLock>>> {
    if read_only && !vfs.exists(&Manifest::path(dir)).unwrap_or(true) {
        // Leave nothing behind in a directory that is none of ours.
        return Ok(None);
    }
    match vfs.lock(&dir.join(LOCK_FILE)) {
        Ok(lock) => Ok(Some(lock)),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Err(Error::Locked {
            dir: dir.to_path_buf(),
        }),
        Err(e) if read_only && is_forbidden(&e) => Ok(None),
        Err(e) => Err(writing_failed("lock", dir, e)),
    }
}

/// An empty directory that is one caller's, who is about to make a copy of a database there. Unless
/// it says [`filled`](ClaimedDir::filled), the directory is without a lock file again afterwards.
pub(crate) struct ClaimedDir<'a> {
    vfs: &'a dyn Vfs,
    dir: &'a Path,
    is_filled: bool,
    /// `None` where files cannot be locked, as on some file systems that are mounted over a
    /// network: copies are made there all the same.
    _lock: Option<Box<dyn FileLock>>,
}

impl<'a> ClaimedDir<'a> {
    /// Creates a directory, or makes sure that it is empty and that nobody else is about to fill
    /// it.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::Locked`].
    pub(crate) fn claim(vfs: &'a dyn Vfs, dir: &'a Path) -> Result<ClaimedDir<'a>> {
        create_durably(vfs, dir).map_err(|e| Error::io("create", dir, e))?;
        let check = || {
            let names = vfs.list(dir).map_err(|e| Error::io("list", dir, e))?;
            match names.iter().all(|name| HARMLESS.contains(&&**name)) {
                true => Ok(()),
                false => Err(Error::NotEmpty {
                    dir: dir.to_path_buf(),
                }),
            }
        };
        // Nothing is left in a directory that is none of ours.
        check()?;
        let lock = match vfs.lock(&dir.join(LOCK_FILE)) {
            Ok(lock) => Some(lock),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                return Err(Error::Locked {
                    dir: dir.to_path_buf(),
                });
            }
            // If it cannot be written to either, the first file says so.
            Err(_) => None,
        };
        let mut claimed = ClaimedDir {
            vfs,
            dir,
            is_filled: false,
            _lock: lock,
        };
        // Whoever had it before may have filled the directory.
        check().inspect_err(|error| {
            claimed.is_filled = matches!(error, Error::NotEmpty { .. });
        })?;
        Ok(claimed)
    }

    /// Leaves the lock file: a database is there.
    pub(crate) fn filled(mut self) {
        self.is_filled = true;
    }
}

impl Drop for ClaimedDir<'_> {
    fn drop(&mut self) {
        if !self.is_filled {
            // While it is locked: until then, nobody else puts anything there.
            let _ = self.vfs.remove(&self.dir.join(LOCK_FILE));
            let _ = self.vfs.sync_dir(self.dir);
        }
    }
}

pub(crate) fn is_forbidden(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

fn writing_failed(operation: &'static str, dir: &Path, source: io::Error) -> Error {
    match source.kind() {
        _ if is_forbidden(&source) => Error::ReadOnlyDirectory {
            dir: dir.to_path_buf(),
            source,
        },
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            let reason = "it is a file, not a directory".to_owned();
            Error::NotADatabase {
                dir: dir.to_path_buf(),
                reason,
            }
        }
        _ => Error::io(operation, dir, source),
    }
}
