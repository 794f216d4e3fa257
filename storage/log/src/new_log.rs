//! The files of a log before it begins. Opening creates them, with their reserved space, before
//! recovery: on a full disk the writes of recovery must not take that space. They count once the
//! manifest names them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_vfs::Vfs;

use crate::block::Identity;
use crate::directories::ShardFolders;
use crate::entries::IncarnationEntry;
use crate::error::{Error, Result};
use crate::files::{ids_of_shards, mark_elsewhere};
use crate::generation::{Generation, Reserve};
use crate::log::Log;
use crate::manifest::Manifest;
use crate::options::LogOptions;
use crate::segment::LOG_DIR;

/// The files of a new incarnation, which the manifest does not name yet. Dropping it removes them.
#[must_use = "the log begins with `begin`"]
pub struct NewLog {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    folders: ShardFolders,
    options: LogOptions,
    first_epoch: u64,
    /// `None` once the manifest may name them.
    files: Option<Generation>,
}

impl NewLog {
    /// Creates the files of a new incarnation, durably, and reserves disk space for them and for
    /// the manifest that will name them. Earlier incarnations must have been recovered
    /// ([`RecoveredLogs`](crate::RecoveredLogs)) into the same manifest. `first_epoch` must
    /// exceed every epoch ever used (`RecoveredLogs::next_epoch`; 1 for a new database).
    ///
    /// # Errors
    /// The files could not be created.
    ///
    /// # Panics
    /// If `options.shards` is 0, `first_epoch` is 0, or an earlier incarnation has no end yet.
    pub fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        manifest: &Manifest,
        options: LogOptions,
        first_epoch: u64,
    ) -> Result<NewLog> {
        assert!(options.shards > 0, "a log has at least one shard");
        assert!(
            first_epoch > manifest.epoch_floor,
            "epochs are never used twice"
        );
        let has_end = |entry: &IncarnationEntry| entry.end.is_some();
        assert!(
            manifest.incarnations.iter().all(has_end),
            "earlier logs are recovered before a new one begins"
        );
        let identity = Identity {
            database_id: manifest.database_id,
            incarnation: manifest.incarnation + 1,
            generation: manifest.next_generation(),
            shard: 0,
            shards: options.shards,
        };
        let folders = ShardFolders::new(&manifest.folders(dir), &manifest.log_directories);
        // The data folder's tells of logs that are elsewhere.
        let others = folders.distinct().filter(|folder| *folder != dir);
        for folder in others.chain([dir]) {
            let log_dir = folder.join(LOG_DIR);
            vfs.create_dir_all(&log_dir)
                .map_err(|e| Error::io("create", &log_dir, e))?;
            vfs.sync_dir(folder)
                .map_err(|e| Error::io("sync directory", folder, e))?;
        }
        manifest.keep_spare(&*vfs, dir);
        let reserve = Reserve {
            bytes: options.reserve_bytes,
            is_released: false,
        };
        let files = Generation::create(&*vfs, &folders, identity, reserve)?;
        Ok(NewLog {
            vfs,
            dir: dir.to_path_buf(),
            folders,
            options,
            first_epoch,
            files: Some(files),
        })
    }

    /// Records the incarnation in the manifest, which is stored, and starts its log.
    ///
    /// # Errors
    /// The manifest could not be stored, or there is no thread for the log.
    pub fn begin(mut self, manifest: &mut Manifest) -> Result<Arc<Log>> {
        let (vfs, dir) = (Arc::clone(&self.vfs), self.dir.clone());
        let mut changed = manifest.clone();
        // From here on they may be named, whatever comes.
        let files = self.files.take().expect("files until the log begins");
        changed.incarnation = files.identity.incarnation;
        changed.clean_shutdown = false;
        changed.incarnations.push(IncarnationEntry {
            incarnation: files.identity.incarnation,
            shards: self.options.shards,
            first_generation: files.identity.generation,
            first_epoch: self.first_epoch,
            directories: ids_of_shards(&manifest.log_directories, self.options.shards),
            end: None,
        });
        changed.store(&*vfs, &dir)?;
        if !changed.log_directories.is_empty() {
            match mark_elsewhere(&*vfs, &dir, changed.incarnation) {
                Err(error) if !error.is_disk_full() => return Err(error),
                // On a full disk the database opens without it.
                _ => {}
            }
        }
        changed.keep_spare(&*vfs, &dir);
        *manifest = changed;
        let (folders, options) = (self.folders.clone(), self.options.clone());
        Log::start(vfs, folders, options, files, self.first_epoch)
    }
}

impl Log {
    /// Begins a new incarnation: [`NewLog::create`] and [`NewLog::begin`] in one.
    ///
    /// # Panics
    /// As for those.
    pub fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        manifest: &mut Manifest,
        options: LogOptions,
        first_epoch: u64,
    ) -> Result<Arc<Log>> {
        NewLog::create(vfs, dir, manifest, options, first_epoch)?.begin(manifest)
    }
}

impl Drop for NewLog {
    fn drop(&mut self) {
        for writer in self.files.iter().flat_map(|files| &files.writers) {
            // A later opening replaces what is left.
            let _ = self.vfs.remove(&writer.path);
        }
    }
}
