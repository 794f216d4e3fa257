//! A database that an opening makes. If the opening fails, as where a directory for logs cannot be
//! made or the disk is full, what it has made is removed again: an opening that fails leaves no
//! empty database behind.
//!
//! No more is removed than is made before a log begins: the manifest of a database that nobody has
//! written to, its lock file, an empty folder of logs, and the directories that were missing, as
//! far as they are empty then. A database stays that has a log, a page file, or directories for
//! logs elsewhere, which name it as their owner, and so does one that another opening has taken
//! over, where locks keep nobody out. The next opening goes on with it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_log::{DATA_FOLDER, Manifest};
use hedgerow_vfs::{FileLock, Vfs};

use crate::disk::directory::{HARMLESS, LOCK_FILE};
use crate::options::Builder;

const LOGS: &str = "log";
/// In the order in which they go: without the first one the rest is no database.
const FILES: [&str; 3] = ["MANIFEST", "MANIFEST.tmp", LOCK_FILE];

/// The lock of a database's directory, and what its opening has made. Unless the opening
/// [ends well](Creation::finish), that goes while the lock is there.
pub(crate) struct Creation {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// Directories that were missing, the innermost first.
    missing: Vec<PathBuf>,
    /// Whether the locked directory had no manifest, and no other directory names this database.
    pub(crate) is_removable: bool,
    /// The manifest that was made, if that is known.
    pub(crate) made: Option<Manifest>,
    /// A reader may have none.
    pub(crate) lock: Option<Box<dyn FileLock>>,
}

impl Creation {
    /// Looks which directories are missing, before one is made.
    pub(crate) fn begin(options: &Builder, dir: &Path) -> Creation {
        let vfs = Arc::clone(&options.vfs);
        let may_create = options.create && !options.read_only;
        let is_missing = |dir: &&Path| {
            may_create && !dir.as_os_str().is_empty() && matches!(vfs.exists(dir), Ok(false))
        };
        let missing = dir.ancestors().take_while(is_missing);
        let missing = missing.map(Path::to_path_buf).collect();
        Creation {
            vfs,
            dir: dir.to_path_buf(),
            missing,
            is_removable: false,
            made: None,
            lock: None,
        }
    }

    /// The opening has ended well: everything stays. Returns the locks of all directories, by their
    /// ids; `others` are those of directories besides the database's own.
    pub(crate) fn finish(
        mut self,
        others: Vec<(u64, Box<dyn FileLock>)>,
    ) -> Vec<(u64, Box<dyn FileLock>)> {
        self.is_removable = false;
        self.missing.clear();
        let own = self.lock.take().map(|lock| (DATA_FOLDER, lock));
        own.into_iter().chain(others).collect()
    }

    /// Whether the manifest on disk is the one that was made, or there is none.
    fn is_in_place(&self) -> bool {
        match &self.made {
            Some(made) => made.check_in_place(&*self.vfs, &self.dir).is_ok(),
            None => matches!(Manifest::exists(&*self.vfs, &self.dir), Ok(false)),
        }
    }

    fn remove_files(&self) -> io::Result<()> {
        let (vfs, dir) = (&*self.vfs, self.dir.as_path());
        let names = vfs.list(dir)?;
        let has = |name: &str| names.iter().any(|found| found == name);
        let is_its = |name: &String| {
            let name = name.as_str();
            name == LOGS || FILES.contains(&name) || HARMLESS.contains(&name)
        };
        if !names.iter().all(is_its) || !self.is_in_place() {
            return Ok(());
        }
        if has(LOGS) {
            // Fails if there is a log.
            vfs.remove_dir(&dir.join(LOGS))?;
            // A power cut must not bring it back without a manifest.
            vfs.sync_dir(dir)?;
        }
        for name in FILES.into_iter().filter(|name| has(name)) {
            vfs.remove(&dir.join(name))?;
        }
        vfs.sync_dir(dir)
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        // Why the opening failed is said; what is left is no more than an empty database.
        if self.is_removable && self.lock.is_some() {
            let _ = self.remove_files();
        }
        let mut missing = self.missing.iter();
        let _ = missing.try_for_each(|dir| self.vfs.remove_dir(dir));
    }
}
