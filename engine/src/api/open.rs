//! Opening a database: directory, logs, index, recovery.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Instant;

use hedgerow_log::{LogOptions, Manifest, NewLog, RecoveredLogs};
use hedgerow_vfs::MemoryVfs;

use crate::api::db::Db;
use crate::commit::removals::Removals;
use crate::commit::stripes::Stripes;
use crate::commit::watches::Watches;
use crate::disk::directory;
use crate::disk::lost::LostRecords;
use crate::disk::page_file::PageFile;
use crate::disk::replay::{Recovered, Recovery};
use crate::engine::{Counters, Engine};
use crate::error::{Error, Result};
use crate::index::any_index::AnyIndex;
use crate::index::expiry::ExpiryIndex;
use crate::index::kind::IndexKind;
use crate::options::Builder;
use crate::wakeup::Wakeup;

impl Builder {
    /// Opens (or creates) the database in `dir`, recovering it if need be.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::NotADatabase`], [`Error::NewerFormat`], [`Error::Corrupt`],
    /// [`Error::HalfWritten`], [`Error::ReadOnlyDirectory`], [`Error::Missing`],
    /// [`Error::InvalidOption`], or a failing file system.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        self.validate()?;
        Db::start(open_engine(self, dir.as_ref())?)
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
    directory::make_ready(&options, dir)?;
    let lock = directory::lock_directory(&*vfs, dir, options.read_only)?;
    let mut manifest = directory::load_or_create(&options, dir)?;
    let started = Instant::now();
    let logs = if options.read_only {
        RecoveredLogs::open_read_only(Arc::clone(&vfs), dir, &manifest)?
    } else {
        RecoveredLogs::open(Arc::clone(&vfs), dir, &mut manifest)?
    };
    let kind = choose_index(&options, dir, &manifest)?;
    log_other_indexes(&options, &manifest);
    // On a full disk the log needs its space before recovery may use any.
    let new_log = match options.read_only {
        true => None,
        false => Some(new_log(&options, dir, &manifest, logs.next_epoch())?),
    };
    let (pages, expiries) = open_pages(&options, dir, &manifest, kind)?;
    let catalog = Engine::first_catalog(&manifest, pages.as_deref())?;
    let expiries = ExpiryIndex::new(expiries);
    let (counters, lost) = (Counters::default(), LostRecords::default());
    let recovery = Recovery {
        vfs: &options.vfs,
        dir,
        spaces: &catalog.by_id,
        expiries: &expiries,
        threads: options.workers,
        progress: options.progress.as_ref(),
        // Pages keep to their own.
        memory_limit: options.memory_limit.filter(|_| pages.is_none()),
        pages: pages.as_deref(),
        lost: &lost,
        next_keyspace_id: manifest.next_keyspace_id,
    };
    count_recovered(recovery.run(&manifest, &logs)?, &manifest, &logs, &counters);
    counters
        .recovery_duration_ms
        .store(started.elapsed().as_millis() as u64, Ordering::Relaxed);
    let begin = |new_log: NewLog| {
        // Leftovers of a checkpoint that did not finish; they can also go later.
        let _ = hedgerow_log::remove_obsolete(&*vfs, dir, &manifest);
        new_log.begin(&mut manifest)
    };
    let log = new_log.map(begin).transpose()?;
    Ok(Engine {
        options,
        dir: dir.to_path_buf(),
        log,
        kind,
        pages,
        stripes: Stripes::new(),
        removals: Removals::default(),
        expiries,
        watches: Watches::default(),
        catalog: RwLock::new(catalog),
        manifest: Mutex::new(manifest),
        checkpointing: Mutex::new(()),
        counters,
        lost,
        broken: OnceLock::new(),
        closed: AtomicBool::new(false),
        wakeup: Wakeup::default(),
        lock: Mutex::new(lock),
    })
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

/// Opens the page file, if indexes of this kind have one, and the index of expiries.
fn open_pages(
    options: &Builder,
    dir: &Path,
    manifest: &Manifest,
    kind: IndexKind,
) -> Result<(Option<Arc<PageFile>>, AnyIndex)> {
    match AnyIndex::in_memory(kind) {
        Some(index) => Ok((None, index)),
        None => {
            let (pages, index) = PageFile::open(options, dir, manifest)?;
            Ok((Some(pages), index))
        }
    }
}

/// The index that a database has, or that it is to have.
fn choose_index(options: &Builder, dir: &Path, manifest: &Manifest) -> Result<IndexKind> {
    let refused = |asked: IndexKind, found: &'static str| {
        Err(Error::OtherIndex {
            dir: dir.to_path_buf(),
            asked: asked.name(),
            found,
        })
    };
    let has_pages = PageFile::is_needed(options, dir, manifest)?;
    match (options.index, manifest.keyspaces.first()) {
        (None | Some(IndexKind::BTree), _) if has_pages => Ok(IndexKind::BTree),
        (Some(asked), _) if has_pages => refused(asked, IndexKind::BTree.name()),
        (Some(IndexKind::BTree), Some(entry)) => {
            let found = IndexKind::from_name(&entry.index);
            refused(IndexKind::BTree, found.map_or("unknown", IndexKind::name))
        }
        // An empty database that may not be changed: any will do.
        (Some(IndexKind::BTree), None) if options.read_only => Ok(IndexKind::default()),
        (asked, _) => Ok(asked.unwrap_or_default()),
    }
}

/// Counts what recovery did, for statistics.
fn count_recovered(
    recovered: Recovered,
    manifest: &Manifest,
    logs: &RecoveredLogs,
    counters: &Counters,
) {
    for (counter, count) in [
        (&counters.recovered_records, recovered.records),
        (&counters.recovery_batches, recovered.batches),
        (&counters.recovery_overwritten, recovered.overwritten),
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
    let checkpoint = manifest
        .checkpoint
        .iter()
        .flat_map(|checkpoint| &checkpoint.parts);
    counters
        .checkpoint_bytes
        .store(checkpoint.map(|part| part.len).sum(), Ordering::Relaxed);
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
