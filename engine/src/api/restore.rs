//! Restoring a backup, and checking a closed database.

use std::path::Path;
use std::sync::Arc;

use hedgerow_log::{Manifest, Problem};

use crate::api::db::Db;
use crate::disk::backup::{BackupReport, CheckReport, copy_database, make_empty};
use crate::disk::directory::{check_exists, lock_directory};
use crate::disk::page_file::{PAGE_FILE, PageFile};
use crate::error::{Error, Result};
use crate::options::Builder;

impl Builder {
    /// Copies a backup into an empty (or new) directory, verifying it; see [`Db::restore`].
    /// Uses the builder's file layer.
    pub fn restore(self, backup: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<BackupReport> {
        let (backup, dir) = (backup.as_ref(), dir.as_ref());
        check_exists(&*self.vfs, backup)?;
        let manifest = Manifest::load(&*self.vfs, backup)?;
        if manifest
            .incarnations
            .iter()
            .any(|entry| entry.end.is_none())
        {
            return Err(Error::NotABackup {
                dir: backup.to_path_buf(),
            });
        }
        let mut first = None;
        hedgerow_log::check(Arc::clone(&self.vfs), backup, &mut |problem| {
            first.get_or_insert(problem);
        })?;
        if let Some(problem) = first {
            return Err(Error::Corrupt(Box::new(problem)));
        }
        if PageFile::is_needed(&self, backup, &manifest)? {
            // Reads all pages.
            let builder = Builder {
                read_only: true,
                strict: true,
                ..self.clone()
            };
            builder.open(backup)?.verify()?;
        }
        make_empty(&*self.vfs, dir)?;
        let pages = backup.join(PAGE_FILE);
        let has_pages = self.vfs.exists(&pages);
        let has_pages = has_pages.map_err(|e| Error::io("look for", &pages, e))?;
        Ok(copy_database(
            &self.vfs,
            (backup, has_pages),
            dir,
            &manifest,
        )?)
    }

    /// Verifies every file of a closed database; see [`Db::check`]. Uses the builder's file
    /// layer.
    pub fn check(mut self, dir: impl AsRef<Path>) -> Result<CheckReport> {
        let dir = dir.as_ref();
        check_exists(&*self.vfs, dir)?;
        let lock = lock_directory(&*self.vfs, dir, true)?;
        let mut problems = Vec::new();
        let checked = hedgerow_log::check(Arc::clone(&self.vfs), dir, &mut |problem| {
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
        if let Some(pages) = PageFile::measure(&*self.vfs, dir)? {
            report.files += 1;
            report.size_bytes += pages.size_bytes;
            report.torn_bytes += pages.torn_bytes;
        }
        if report.problems.is_empty() {
            // The files are whole; do they make sense?
            (self.read_only, self.strict) = (true, true);
            match self.open(dir).and_then(|db| db.verify()) {
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
