//! Opening a database: directory, logs, index, recovery.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Instant;

use hedgerow_log::{KeyspaceEntry, Log, LogOptions, Manifest, NewLog, RecoveredLogs};
use hedgerow_vfs::{FileLock, MemoryVfs, Vfs};

use crate::api::db::Db;
use crate::commit::removals::Removals;
use crate::commit::stripes::Stripes;
use crate::commit::watches::Watches;
use crate::disk::creation::Creation;
use crate::disk::directory;
use crate::disk::fallback::{Found, Opening, forget_damaged};
use crate::disk::log_dirs::{self, LogDirs};
use crate::disk::lost::LostRecords;
use crate::disk::page_file::PageFile;
use crate::disk::replay::Recovered;
use crate::engine::{Counters, Engine};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::index::expiry::Expiries;
use crate::index::kind::IndexKind;
use crate::index::retired::RetiredSpaces;
use crate::memory_shares::MemoryShares;
use crate::options::Builder;
use crate::versions::intents::Intents;
use crate::versions::registry::Snapshots;
use crate::wakeup::Wakeup;

impl Builder {
    /// Opens (or creates) the database in `dir`, recovering it if need be. If it has to be created,
    /// and cannot be, what was made for it is removed again as far as that can be done safely.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::NotADatabase`], [`Error::NewerFormat`], [`Error::Corrupt`],
    /// [`Error::HalfWritten`], [`Error::ReadOnlyDirectory`], [`Error::Missing`],
    /// [`Error::InvalidOption`], [`Error::UnknownIndex`], or a failing file system.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        self.validate()?;
        let engine = open_engine(self, dir.as_ref())?;
        engine.release_log_dirs(&mut engine.manifest());
        Db::start(engine)
    }

    /// Opens a new database that lives in memory alone, like a cache: nothing is logged, every
    /// [`Durability`](crate::Durability) promises as little as the next, [`Db::checkpoint`] and
    /// [`Db::backup`] fail, and when it is closed everything is gone. Everything else works as with
    /// files.
    ///
    /// ```
    /// let db = hedgerow::Db::builder().open_in_memory()?;
    /// let cache = db.keyspace("cache")?;
    /// cache.put(b"key", b"value")?;
    /// assert_eq!(cache.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub fn open_in_memory(self) -> Result<Db> {
        let options = Builder {
            vfs: Arc::new(MemoryVfs::default()),
            checkpoint_log_bytes: None,
            read_only: false,
            create: true,
            in_memory: true,
            ..self
        };
        options.validate()?;
        // Only its catalog is a file, in the file system made above.
        Db::start(open_engine(options, Path::new("/in-memory"))?)
    }
}

/// Recovers the database in a directory, which is made if there is none.
fn open_engine(options: Builder, dir: &Path) -> Result<Engine> {
    let vfs = Arc::clone(&options.vfs);
    let started = Instant::now();
    // Made first, so that it is the last to go, when no file is open any more.
    let mut creation = Creation::begin(&options, dir);
    let Files {
        mut manifest,
        mut logs,
        locks,
        is_new,
    } = find_files(&options, dir, &mut creation)?;
    let has_pages = has_page_file(&options, dir, &manifest)?;
    let kind = default_index(&options, &manifest, has_pages);
    // On a full disk the log needs its space before recovery may use any.
    let create = || new_log(&options, dir, &manifest, logs.next_epoch());
    let new_log = (!options.read_only).then(create).transpose()?;
    let (mut expiries, memory) = (Expiries::default(), MemoryShares::all_in_memory());
    let page_file = match has_pages {
        true => open_pages(&options, dir, &manifest, &expiries, &memory)?.into(),
        false => OnceLock::new(),
    };
    let pages = page_file.get().map(AsRef::as_ref);
    let mut catalog = Engine::first_catalog(&manifest, pages)?;
    let (counters, lost) = (Counters::default(), LostRecords::default());
    let opening = Opening {
        options: &options,
        dir,
        manifest: &manifest,
        memory: &memory,
        pages,
        lost: &lost,
    };
    let Found { recovered, damaged } = opening.recover(&mut logs, &mut catalog, &mut expiries)?;
    if !options.read_only {
        forget_damaged(&*vfs, dir, &mut manifest, damaged.len())?;
    }
    count_recovered(recovered, started, &manifest, &logs, &counters);
    let begin = |new_log| begin_log(new_log, &*vfs, dir, &mut manifest);
    let log = new_log.map(begin).transpose()?;
    let log_dirs = log_dirs::of_new_logs(&manifest, dir);
    Ok(Engine {
        snapshots: Snapshots::new(log.as_deref(), options.version_budget()),
        options,
        dir: dir.to_path_buf(),
        is_new,
        log,
        kind,
        page_file,
        memory,
        stripes: Stripes::new(),
        removals: Removals::default(),
        expiries,
        watches: Watches::default(),
        catalog: RwLock::new(Arc::new(catalog)),
        intents: Intents::default(),
        retired: RetiredSpaces::default(),
        last_sequence: AtomicU64::new(manifest.sequence),
        manifest: Mutex::new(manifest),
        log_dirs,
        checkpointing: Mutex::new(()),
        counters,
        lost,
        damaged,
        broken: OnceLock::new(),
        closed: AtomicBool::new(false),
        wakeup: Wakeup::default(),
        locks: Mutex::new(creation.finish(locks)),
    })
}

/// What an opening finds, and makes, before recovery.
struct Files {
    manifest: Manifest,
    logs: RecoveredLogs,
    /// Of directories besides the database's own.
    locks: Vec<(u64, Box<dyn FileLock>)>,
    /// Whether this opening makes the database.
    is_new: bool,
}

/// Finds the files of a database, locked, and what counts of its logs. Makes the manifest if there
/// is none, and the directories for logs that are new, whose manifest is stored then.
fn find_files(options: &Builder, dir: &Path, creation: &mut Creation) -> Result<Files> {
    let vfs = &options.vfs;
    log_dirs::check_for_new(options, dir)?;
    directory::make_ready(options, dir)?;
    creation.lock = directory::lock_directory(&**vfs, dir, options.read_only)?;
    // A reader makes none, and nobody may have been kept from making one by its lock.
    let is_new = !options.read_only && !Manifest::exists(&**vfs, dir)?;
    creation.is_removable = is_new;
    let stored = directory::load_or_create(options, dir)?;
    let mut manifest = stored.clone();
    creation.made = is_new.then(|| stored.clone());
    let mut log_dirs = LogDirs::find(options, dir, &mut manifest)?;
    let logs = match options.read_only {
        true => RecoveredLogs::open_read_only(Arc::clone(vfs), dir, &manifest)?,
        false => RecoveredLogs::open(Arc::clone(vfs), dir, &mut manifest)?,
    };
    if !options.read_only {
        let added = log_dirs.add_new(&**vfs, &mut manifest);
        creation.is_removable &= manifest.directories.is_empty();
        added?;
        let is_same = manifest.directories == stored.directories
            && manifest.log_directories == stored.log_directories;
        if !is_same {
            manifest.store(&**vfs, dir)?;
        }
    }
    Ok(Files {
        manifest,
        logs,
        locks: log_dirs.locks,
        is_new,
    })
}

/// Begins to write the log.
fn begin_log(
    new_log: NewLog,
    vfs: &dyn Vfs,
    dir: &Path,
    manifest: &mut Manifest,
) -> Result<Arc<Log>> {
    // Leftovers of a checkpoint that did not finish; they can also go later.
    let _ = hedgerow_log::remove_obsolete(vfs, dir, manifest);
    Ok(new_log.begin(manifest)?)
}

/// Tells of keyspaces that have another index than the one asked for, and keep it.
fn log_other_indexes(options: &Builder, manifest: &Manifest) {
    let Some(asked) = options.index.map(IndexKind::name) else {
        return;
    };
    let others = manifest.keyspaces.iter();
    let others = others.filter(|entry| entry.index != asked).count();
    if others > 0 {
        tracing::info!(
            index = asked,
            others,
            "new keyspaces get this index; others keep the one that they were made with"
        );
    }
}

/// Whether a database has a page file, or gets one now: one that is new and whose keyspaces are to
/// be B-trees. Any other gets it with its first B-tree.
fn has_page_file(options: &Builder, dir: &Path, manifest: &Manifest) -> Result<bool> {
    let is_btree = |entry: &KeyspaceEntry| entry.index == IndexKind::BTree.name();
    if options.read_only
        && !manifest.keyspaces.is_empty()
        && !manifest.keyspaces.iter().any(is_btree)
    {
        // It may be one that was never finished, and nothing is in it.
        return Ok(false);
    }
    let is_new = manifest.keyspaces.is_empty() && manifest.checkpoints.is_empty();
    let wants_one = options.index == Some(IndexKind::BTree) && !options.read_only;
    Ok((is_new && wants_one) || PageFile::is_needed(options, dir, manifest)?)
}

/// The index of keyspaces that are created without naming one.
fn default_index(options: &Builder, manifest: &Manifest, has_pages: bool) -> IndexKind {
    log_other_indexes(options, manifest);
    let is_btree = |entry: &KeyspaceEntry| entry.index == IndexKind::BTree.name();
    match options.index {
        Some(asked) => asked,
        None if has_pages && manifest.keyspaces.iter().all(is_btree) => IndexKind::BTree,
        None => IndexKind::default(),
    }
}

/// Opens the page file, which is made if there is none.
fn open_pages(
    options: &Builder,
    dir: &Path,
    manifest: &Manifest,
    expiries: &Expiries,
    memory: &MemoryShares,
) -> Result<Arc<PageFile>> {
    let (pages, entries) = PageFile::open(options, dir, manifest)?;
    expiries.set_in_pages(entries);
    memory.give_all_to_pages();
    Ok(pages)
}

/// Counts what recovery did, which the opening's start began, for statistics.
fn count_recovered(
    recovered: Recovered,
    started: Instant,
    manifest: &Manifest,
    logs: &RecoveredLogs,
    counters: &Counters,
) {
    for (counter, count) in [
        (&counters.recovered_records, recovered.records),
        (&counters.recovery_batches, recovered.batches),
        (&counters.recovery_overwritten, recovered.overwritten),
        (
            &counters.recovery_duration_ms,
            started.elapsed().as_millis() as u64,
        ),
    ] {
        counter.store(count, Ordering::Relaxed);
    }
    // Logs may have blocks and no commit: those of a database that did nothing but take a
    // checkpoint.
    let replayed = match recovered.records {
        0 => 0,
        _ => logs.total_bytes(),
    };
    counters
        .replayed_log_bytes
        .store(replayed, Ordering::Relaxed);
    let count = manifest.checkpoints.len() as u64;
    counters.listed_checkpoints.store(count, Ordering::Relaxed);
    let newest = manifest.newest_checkpoint();
    let parts = newest.iter().flat_map(|newest| &newest.parts);
    let part_bytes = parts.map(|part| part.len).sum();
    for counter in [&counters.checkpoint_bytes, &counters.part_bytes] {
        counter.store(part_bytes, Ordering::Relaxed);
    }
}

/// Makes the files of the log that this opening will write.
fn new_log(options: &Builder, dir: &Path, manifest: &Manifest, first_epoch: u64) -> Result<NewLog> {
    let log_options = LogOptions {
        shards: options.workers as u16,
        flush_interval: options.flush_interval,
        ahead_bytes: options.log_ahead_bytes,
        reserve_bytes: options.log_reserve_bytes,
        records: !options.in_memory,
        ..LogOptions::default()
    };
    Ok(NewLog::create(
        Arc::clone(&options.vfs),
        dir,
        manifest,
        log_options,
        first_epoch,
    )?)
}
