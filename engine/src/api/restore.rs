//! Restoring a backup, and checking a closed database.

use std::path::Path;
use std::sync::Arc;

use hedgerow_log::{Manifest, Problem};

use crate::api::db::Db;
use crate::disk::backup::{BackupReport, CheckReport, Source, copy_checked};
use crate::disk::directory::{ClaimedDir, check_exists, lock_directory};
use crate::disk::log_dirs::{self, LogDirs};
use crate::disk::page_file::{PAGE_FILE, PageFile};
use crate::error::{Error, Result};
use crate::options::Builder;

impl Builder {
    /// Copies a backup into an empty (or new) directory, verifying it; see [`Db::restore`].
    /// Uses the builder's file layer. Logs and checkpoints go to [`log_dirs`](Self::log_dirs),
    /// which are empty or new; without those, to the directory itself.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotABackup`], [`Error::NotEmpty`], [`Error::LogDir`],
    /// [`Error::Corrupt`], or a failing file system. [`Error::Locked`]: somebody has the directory
    /// open, or has opened the backup for writing meanwhile. There is no copy then.
    pub fn restore(self, backup: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<BackupReport> {
        let (backup, dir) = (backup.as_ref(), dir.as_ref());
        check_exists(&*self.vfs, backup)?;
        let stored = Manifest::load(&*self.vfs, backup)?;
        let mut manifest = stored.clone();
        if manifest
            .incarnations
            .iter()
            .any(|entry| entry.end.is_none())
        {
            return Err(Error::NotABackup {
                dir: backup.to_path_buf(),
            });
        }
        let reader = self.clone().reader();
        LogDirs::find(&reader, backup, &mut manifest)?;
        let mut first = None;
        // The copy has the newest checkpoint alone.
        manifest.keep_checkpoints(1);
        hedgerow_log::check_newest(Arc::clone(&self.vfs), backup, &mut |problem| {
            first.get_or_insert(problem);
        })?;
        if let Some(problem) = first {
            return Err(Error::Corrupt(Box::new(problem)));
        }
        if PageFile::is_needed(&self, backup, &manifest)? {
            // Reads all pages.
            reader.open(backup)?.verify()?;
        }
        self.validate_log_dirs()?;
        log_dirs::check_for_new(&self, dir)?;
        let claimed = ClaimedDir::claim(&*self.vfs, dir)?;
        let mut copy = manifest.clone();
        let (places, _locks) = log_dirs::make_for_copy(&self, dir, manifest.database_id)?;
        copy.place_in(places);
        let pages = backup.join(PAGE_FILE);
        let has_pages = self.vfs.exists(&pages);
        let has_pages = has_pages.map_err(|e| Error::io("look for", &pages, e))?;
        let source = Source {
            dir: backup,
            manifest: &manifest,
            has_pages,
        };
        // It takes no lock, so that several can restore one backup. Whoever opens that for writing
        // stores a manifest before anything else.
        let check_unchanged = || match Manifest::load(&*self.vfs, backup)? == stored {
            true => Ok(()),
            false => Err(Error::Locked {
                dir: backup.to_path_buf(),
            }
            .into()),
        };
        let report = copy_checked(&self.vfs, &source, dir, &copy, check_unchanged)?;
        claimed.filled();
        Ok(report)
    }

    /// Options for reading all of a database, in the directories that it has.
    fn reader(self) -> Builder {
        Builder {
            read_only: true,
            strict: true,
            log_dirs: None,
            ..self
        }
    }

    /// Verifies every file of a closed database; see [`Db::check`]. Uses the builder's file
    /// layer.
    pub fn check(self, dir: impl AsRef<Path>) -> Result<CheckReport> {
        let dir = dir.as_ref();
        let reader = self.reader();
        check_exists(&*reader.vfs, dir)?;
        let lock = lock_directory(&*reader.vfs, dir, true)?;
        let mut problems = Vec::new();
        if let Ok(mut manifest) = Manifest::load(&*reader.vfs, dir) {
            match LogDirs::find(&reader, dir, &mut manifest) {
                Err(Error::Corrupt(problem)) => problems.push(*problem),
                found => drop(found?),
            }
        }
        let checked = hedgerow_log::check(Arc::clone(&reader.vfs), dir, &mut |problem| {
            problems.push(problem);
        })?;
        drop(lock);
        let mut report = CheckReport {
            files: checked.files,
            size_bytes: checked.bytes,
            records: checked.records,
            torn_bytes: checked.torn_bytes,
            rows: 0,
            problems,
        };
        if let Some(pages) = PageFile::measure(&*reader.vfs, dir)? {
            report.files += 1;
            report.size_bytes += pages.size_bytes;
            report.torn_bytes += pages.torn_bytes;
        }
        if report.problems.is_empty() {
            // The files are whole; do they make sense?
            match reader.open(dir).and_then(|db| db.verify()) {
                Ok(rows) => report.rows = rows,
                Err(Error::Corrupt(problem)) => report.problems.push(*problem),
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }
}

impl Db {
    /// Checks the invariants of every keyspace's index; how many rows there are. For quiet
    /// moments: concurrent writers may make it report violations that are none.
    pub fn verify(&self) -> Result<u64> {
        let mut rows = 0;
        for space in self.engine().spaces() {
            space.index.as_dyn().verify().map_err(|what| {
                let keyspace = space.name.clone();
                if space.index.tree().is_none() {
                    return Error::IndexInvariant { keyspace, what };
                }
                Error::Corrupt(Box::new(Problem {
                    file: self.engine().dir.join(PAGE_FILE),
                    offset: 0,
                    what,
                    affected: format!("rows of keyspace {keyspace:?}"),
                    remedy: "restore a backup; other rows can be read".to_owned(),
                }))
            })?;
            rows += space.len();
        }
        Ok(rows)
    }
}
