//! What a `Db` and its handles share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use hedgerow_index::IndexError;
use hedgerow_log::{Log, MIXED_FORMAT_VERSION, Manifest};
use hedgerow_vfs::FileLock;

use crate::commit::removals::Removals;
use crate::commit::stripes::Stripes;
use crate::commit::watches::Watches;
use crate::disk::folder::Folder;
use crate::disk::lost::LostRecords;
use crate::disk::page_file::{PageFile, manifest_format};
use crate::error::{Error, Result};
use crate::index::catalog::Catalog;
use crate::index::expiry::Expiries;
use crate::index::kind::IndexKind;
use crate::index::retired::RetiredSpaces;
use crate::index::space::Space;
use crate::memory_shares::{MemoryShares, MemorySource};
use crate::options::Builder;
use crate::versions::intents::Intents;
use crate::versions::registry::Snapshots;
use crate::wakeup::Wakeup;

/// Counted since the database was opened.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_failures: AtomicU64,
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) checkpoint_duration_ms: AtomicU64,
    /// Checkpoints that the manifest lists.
    pub(crate) listed_checkpoints: AtomicU64,
    /// Of the newest checkpoint, the files that have rows of keyspaces in memory.
    pub(crate) part_bytes: AtomicU64,
    pub(crate) expired: AtomicU64,
    /// Of those that the last sweep of everything came to.
    pub(crate) unreadable: AtomicU64,
    pub(crate) multi_commits: AtomicU64,
    /// Transactions that read at a snapshot: commits, conflicts, runs after a conflict.
    pub(crate) transactions: AtomicU64,
    pub(crate) transaction_conflicts: AtomicU64,
    pub(crate) transaction_retries: AtomicU64,
    pub(crate) recovered_records: AtomicU64,
    pub(crate) recovery_duration_ms: AtomicU64,
    pub(crate) recovery_batches: AtomicU64,
    pub(crate) recovery_overwritten: AtomicU64,
    /// Log bytes that were replayed at opening and that no checkpoint has replaced yet.
    pub(crate) replayed_log_bytes: AtomicU64,
    /// Of the bytes that the log has written since, those that a checkpoint has replaced, or will
    /// have if the one under way succeeds.
    pub(crate) replaced_log_bytes: AtomicU64,
    /// Changes that there were before the rotation of the last checkpoint.
    pub(crate) covered_changes: AtomicU64,
}

pub(crate) struct Engine {
    pub(crate) options: Builder,
    pub(crate) dir: PathBuf,
    /// Whether this opening made the database.
    pub(crate) is_new: bool,
    /// `None` when opened for reading only.
    pub(crate) log: Option<Arc<Log>>,
    /// The index of new keyspaces.
    pub(crate) kind: IndexKind,
    /// Where the B-trees are. Set when the first is created, if not at the opening.
    pub(crate) page_file: OnceLock<Arc<PageFile>>,
    /// What indexes in memory and pages have of the limit.
    pub(crate) memory: MemoryShares,
    pub(crate) stripes: Stripes,
    pub(crate) removals: Removals,
    pub(crate) expiries: Expiries,
    pub(crate) watches: Watches,
    /// Snapshots have it as it was.
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    /// Open snapshots, and the versions of rows that they can see.
    pub(crate) snapshots: Snapshots,
    /// The keys of transactions that are about to commit.
    pub(crate) intents: Intents,
    /// Keyspaces in memory that were cleared or dropped.
    pub(crate) retired: RetiredSpaces,
    /// As it is on disk. Held while it is changed and stored.
    pub(crate) manifest: Mutex<Manifest>,
    /// The sequence of the last manifest that this opening stored or tried to: of one that failed,
    /// nobody knows whether it is on disk, and no other may have its sequence.
    pub(crate) last_sequence: AtomicU64,
    /// The directories that new logs go to, by turns, if it is not the data folder. They stay the
    /// same as long as the database is open: who asks for them needs no lock.
    pub(crate) log_dirs: Vec<Folder>,
    /// Held while checkpoint files are written or copied.
    pub(crate) checkpointing: Mutex<()>,
    pub(crate) counters: Counters,
    /// What recovery could not replay.
    pub(crate) lost: LostRecords,
    /// Why recovery passed over the newest checkpoints: once for each.
    pub(crate) damaged: Vec<String>,
    /// Why no write is accepted any more, other than a failure of the log.
    pub(crate) broken: OnceLock<String>,
    pub(crate) closed: AtomicBool,
    pub(crate) wakeup: Wakeup,
    /// The locks of the data folder and of all listed directories, until closing.
    pub(crate) locks: Mutex<Vec<(u64, Box<dyn FileLock>)>>,
}

impl Engine {
    /// The page file, if the database has one: one load.
    #[inline]
    pub(crate) fn pages(&self) -> Option<&PageFile> {
        self.page_file.get().map(AsRef::as_ref)
    }

    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        (self.options.now)()
    }

    /// The log, for a write.
    #[inline]
    pub(crate) fn log(&self) -> Result<&Log> {
        match &self.log {
            Some(log) if self.broken.get().is_none() => Ok(log),
            _ => Err(self.why_no_log()),
        }
    }

    #[cold]
    fn why_no_log(&self) -> Error {
        match self.broken.get() {
            Some(reason) => Error::Poisoned(reason.clone()),
            None => Error::ReadOnly,
        }
    }

    /// A commit of several changes failed after some of them. The log has nothing of it, so a
    /// reopen is rid of it, and until then nothing may follow.
    #[cold]
    pub(crate) fn poison_partial_commit(&self, error: IndexError) -> Error {
        let reason = format!("a commit stopped half-way: {error}");
        let _ = self.broken.set(reason);
        error.into()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    // A panic under these locks cannot leave them half changed: each is set in one step.
    pub(crate) fn catalog(&self) -> RwLockReadGuard<'_, Arc<Catalog>> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut catalog));
    }

    pub(crate) fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a manifest in the place of the one that this opening of the database stored last,
    /// with a higher sequence. Then [`Engine::record_manifest_sequence`].
    ///
    /// # Errors
    /// [`Error::Poisoned`] if another one is there: somebody else has changed the files, and no
    /// write is accepted any more.
    pub(crate) fn replace_manifest(&self, manifest: &mut Manifest) -> Result<()> {
        manifest.sequence = self.next_sequence();
        // Of an attempt to make a page file that failed, a part may be there.
        let has_pages = self.pages().is_some() || manifest.format_version == MIXED_FORMAT_VERSION;
        manifest.format_version = manifest_format(manifest, has_pages);
        let replaced = manifest.replace(&*self.options.vfs, &self.dir);
        replaced.map_err(|error| self.stop_if_displaced(error))
    }

    /// The sequence of the next manifest. The caller has the manifest.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.last_sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Has the log record the sequence of a manifest that was stored, so that an older copy of it
    /// is refused. Costs a sync. The manifest counts whether that succeeds or not: on a full disk
    /// the log records it later, and a log that failed refuses every write by itself.
    pub(crate) fn record_manifest_sequence(&self, sequence: u64) {
        if let Some(log) = &self.log {
            let _ = log.record_manifest_sequence(sequence);
        }
    }

    /// Whether the manifest on disk is the one that this opening stored last: before more files are
    /// made that only this opening knows of.
    ///
    /// # Errors
    /// As for [`Engine::replace_manifest`].
    pub(crate) fn check_manifest(&self) -> Result<()> {
        let checked = self
            .manifest()
            .check_in_place(&*self.options.vfs, &self.dir);
        checked.map_err(|error| self.stop_if_displaced(error))
    }

    pub(crate) fn stop_if_displaced(&self, error: hedgerow_log::Error) -> Error {
        if let hedgerow_log::Error::Displaced { .. } = &error {
            let _ = self.broken.set(error.to_string());
        }
        error.into()
    }

    pub(crate) fn locks(&self) -> MutexGuard<'_, Vec<(u64, Box<dyn FileLock>)>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn checkpointing(&self) -> MutexGuard<'_, ()> {
        self.checkpointing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// All keyspaces, in order of their names.
    pub(crate) fn spaces(&self) -> Vec<Arc<Space>> {
        self.catalog().by_name.values().cloned().collect()
    }

    /// Those keyspaces whose indexes live in memory, in order of their names.
    pub(crate) fn spaces_in_memory(&self) -> Vec<Arc<Space>> {
        let mut spaces = self.spaces();
        spaces.retain(|space| !space.kind.is_in_pages());
        spaces
    }

    /// Refuses what would grow the memory of a keyspace's index beyond its limit: two loads.
    /// The caller holds no log shard.
    #[inline]
    pub(crate) fn check_memory(&self, space: &Space) -> Result<()> {
        match self.options.memory_limit {
            Some(limit_bytes) if !space.kind.is_in_pages() => {
                let source = MemorySource {
                    release: || self.release_unseen(),
                    give_up_oldest: |missing_bytes| self.snapshots.give_up_oldest(missing_bytes),
                    returning_bytes: || self.snapshots.lists.returning_bytes(),
                };
                self.memory.check(limit_bytes, self.pages(), &source)
            }
            _ => Ok(()),
        }
    }
}
