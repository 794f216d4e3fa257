//! The page file of a database: its B-trees, larger than memory, if need be.
//!
//! One [`Pool`] for the database, in `pages.hdg`. Besides the trees of the keyspaces it holds two
//! of the engine's own: the *catalog* (keyspace id → root page, rows, rows with an expiry) and the
//! expiry index. Its root says where those two are, and from which log generation on the file lacks
//! commits (`page_roots.rs`).
//!
//! **A checkpoint** is a rotation of the logs. At its cut, while no commit is under way, the pool's
//! epoch advances. So the state is exact: all commits of the older generations, none of the newer.
//! The pages that were dirty then are written beside writers, the pool's root is published, and
//! then the manifest drops the older logs. After a crash between the two the page file is ahead of
//! the manifest; recovery replays the logs over it, and skips records that are older than their
//! rows. A page file that is *behind* the manifest is refused.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::ops::{Bound, ControlFlow};

use hedgerow_btree::BTreeIndex;
use hedgerow_index::{Decision, Direction, Index, IndexErrorKind, ScanRange, ValuePart};
use hedgerow_log::{KeyspaceEntry, MIXED_FORMAT_VERSION, Manifest, PLAIN_FORMAT_VERSION};
use hedgerow_pages::{
    BudgetExemption, CheckpointInProgress, MemoryReservation, Options, PageCleaner, PageId, Pool,
    PoolStatistics, ReserveUse,
};
use hedgerow_vfs::{OpenMode, Vfs};

use crate::disk::page_roots::{CatalogEntry, EngineRoots, PAGE, engine_roots, not_this_databases};
use crate::error::{Error, Result};
use crate::index::any_index::AnyIndex;
use crate::index::expiry::Expiries;
use crate::index::kind::IndexKind;
use crate::index::space::{Space, StoredIndex};
use crate::options::Builder;
use crate::schedule::FileSpace;

/// The file's name in the database's directory.
pub(crate) const PAGE_FILE: &str = "pages.hdg";

/// What can be read of a page file without opening it.
pub(crate) struct Measured {
    pub(crate) size_bytes: u64,
    pub(crate) torn_bytes: u64,
}

/// A keyspace that was dropped or cleared and whose pages must still be released.
struct Retired {
    space: Arc<Space>,
    /// After its root was released: the rest, which could not be read then. No checkpoint names it
    /// any more.
    left: Option<Vec<PageId>>,
}

/// The page file of an open database.
pub(crate) struct PageFile {
    pool: Arc<Pool<PAGE>>,
    catalog: BTreeIndex,
    /// The catalog's entries; a checkpoint's cut writes only those that differ.
    entries: Mutex<HashMap<u32, CatalogEntry>>,
    retired: Mutex<Vec<Retired>>,
    /// How many there were since the database was opened.
    retirements: AtomicU64,
    cleaner: Mutex<Option<PageCleaner<PAGE>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change leaves what is guarded whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PageFile {
    /// Whether a database has a page file, or must have one.
    pub(crate) fn is_needed(options: &Builder, dir: &Path, manifest: &Manifest) -> Result<bool> {
        let path = dir.join(PAGE_FILE);
        let exists = options.vfs.exists(&path);
        Ok(exists.map_err(|e| Error::io("look for", &path, e))?
            || manifest.keyspaces.iter().any(is_btree))
    }

    /// Whether the memory that the options allow suffices for a new page file.
    pub(crate) fn check_budget(options: &Builder, dir: &Path) -> Result<()> {
        let path = dir.join(PAGE_FILE);
        let pool_options = Options::new(options.page_budget() as u64);
        Ok(Pool::<PAGE>::check_budget_of_new(&path, &pool_options)?)
    }

    /// How long a database's page file is, and how much of its two roots is not whole; `None` if
    /// there is no such file.
    pub(crate) fn measure(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Measured>> {
        let path = dir.join(PAGE_FILE);
        let failed = |error| Error::io("measure", &path, error);
        if !vfs.exists(&path).map_err(failed)? {
            return Ok(None);
        }
        let file = vfs.open(&path, OpenMode::Read).map_err(failed)?;
        let torn = hedgerow_pages::torn_roots::<PAGE>(&*file, &path)?;
        Ok(Some(Measured {
            size_bytes: file.len().map_err(failed)?,
            torn_bytes: torn * PAGE as u64,
        }))
    }

    /// Opens the page file, or makes it; also the expiry index in it.
    pub(crate) fn open(
        options: &Builder,
        dir: &Path,
        manifest: &Manifest,
    ) -> Result<(Arc<PageFile>, AnyIndex)> {
        let path = dir.join(PAGE_FILE);
        let needed = match manifest.keyspaces.iter().any(is_btree) {
            true => checkpoint_generation(manifest),
            false => 0,
        };
        let pool = Arc::new(open_pool(options, &path, manifest.database_id, needed)?);
        let owner = engine_roots(&pool, &path, needed)?;
        let tree = |place: Option<(PageId, u64)>| match place {
            Some((root, len)) => Ok(BTreeIndex::open(Arc::clone(&pool), root, len)),
            None => BTreeIndex::create(Arc::clone(&pool)),
        };
        let catalog = tree(owner.map(|owner| owner.catalog))?;
        let expiries = tree(owner.map(|owner| owner.expiries))?;
        let cleaner = if options.read_only {
            None
        } else {
            Some(
                pool.start_cleaner()
                    .map_err(|e| Error::io("start the thread of", &path, e))?,
            )
        };
        let file = PageFile {
            pool,
            catalog,
            entries: Mutex::default(),
            retired: Mutex::default(),
            retirements: AtomicU64::new(0),
            cleaner: Mutex::new(cleaner),
        };
        file.load_entries()?;
        if !options.read_only {
            file.release_orphans(manifest)?;
        }
        Ok((Arc::new(file), AnyIndex::BTree(expiries)))
    }

    /// Makes sure that the file counts as one that has the commits of all generations before the
    /// manifest's checkpoint. The caller knows that there is no B-tree which could have any, and
    /// lets no checkpoint and no removal run.
    pub(crate) fn publish_from(&self, manifest: &Manifest, expiries: &Expiries) -> Result<()> {
        let needed = checkpoint_generation(manifest);
        if self.generation() >= needed {
            return Ok(());
        }
        let begun = self.begin(needed, &[], expiries)?;
        self.finish(begun)
    }

    /// The generation of the logs from which on the file lacks commits, as its root says.
    pub(crate) fn generation(&self) -> u32 {
        let roots = EngineRoots::decode(&self.pool.owner());
        roots.map_or(0, |roots| roots.generation)
    }

    fn load_entries(&self) -> Result<()> {
        let mut entries = lock(&self.entries);
        let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
        Index::scan(&self.catalog, &all, &mut |key, bytes| {
            if let (Ok(id), Some(entry)) = (key.try_into(), CatalogEntry::decode(bytes)) {
                entries.insert(u32::from_be_bytes(id), entry);
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Releases the trees of keyspaces that were dropped and had pages when the process ended.
    fn release_orphans(&self, manifest: &Manifest) -> Result<()> {
        let _reserve_use = self.pool.allow_reserve_use();
        let mut entries = lock(&self.entries);
        let known = |id: u32| manifest.keyspaces.iter().any(|entry| entry.id == id);
        let orphans: Vec<(u32, CatalogEntry)> = entries.extract_if(|&id, _| !known(id)).collect();
        for (id, entry) in orphans {
            self.catalog.remove(&id.to_be_bytes())?;
            let pool = Arc::clone(&self.pool);
            let tree: BTreeIndex = BTreeIndex::open(pool, entry.root, entry.rows);
            unless_damaged(tree.release().map_err(Error::from))?;
        }
        Ok(())
    }

    /// The tree of a keyspace: empty, if the file has none.
    pub(crate) fn index(&self, id: u32) -> Result<StoredIndex> {
        let pool = Arc::clone(&self.pool);
        Ok(match lock(&self.entries).get(&id) {
            Some(entry) => StoredIndex {
                index: AnyIndex::BTree(BTreeIndex::open(pool, entry.root, entry.rows)),
                rows: entry.rows,
                expiring: entry.expiring,
            },
            None => StoredIndex {
                index: AnyIndex::BTree(BTreeIndex::create(pool)?),
                rows: 0,
                expiring: 0,
            },
        })
    }

    /// Applies the pending frees of trees, which a checkpoint must not publish unapplied. This also
    /// runs beside commits before a checkpoint's cut, so that little is left for the cut itself.
    ///
    /// # Errors
    /// [`Error::DiskFull`]: some frees are still pending.
    pub(crate) fn apply_deferred(&self, spaces: &[Arc<Space>], expiries: &Expiries) -> Result<()> {
        let retired = lock(&self.retired);
        let retired = retired.iter().map(|retired| &retired.space);
        let trees = spaces.iter().chain(retired);
        let trees = trees.filter_map(|space| space.index.tree());
        for tree in trees.chain(expiries.tree()).chain([&self.catalog]) {
            tree.apply_pending_frees()?;
        }
        Ok(())
    }

    /// A checkpoint's cut: no commit is under way, and no keyspace is created or dropped. The
    /// checkpoint will lack the commits of the logs from `generation` on. It names every tree in
    /// the file, also those of dropped keyspaces: after a crash the next opening releases them.
    /// `spaces` has those among them that a snapshot still sees.
    pub(crate) fn begin(
        &self,
        generation: u32,
        spaces: &[Arc<Space>],
        expiries: &Expiries,
    ) -> Result<CheckpointInProgress> {
        self.apply_deferred(spaces, expiries)?;
        let (mut entries, retired) = (lock(&self.entries), lock(&self.retired));
        let has_root = |retired: &&Retired| retired.left.is_none();
        let retired = retired.iter().filter(has_root);
        let mut buffer = Vec::new();
        for space in spaces.iter().chain(retired.map(|retired| &retired.space)) {
            let Some(tree) = space.index.tree() else {
                continue;
            };
            let entry = CatalogEntry {
                root: tree.root(),
                rows: tree.len(),
                expiring: space.expiring(),
            };
            if entries.get(&space.id) == Some(&entry) {
                continue;
            }
            let key = space.id.to_be_bytes();
            let part = ValuePart::Head;
            Index::update(&self.catalog, &key, part, &mut buffer, &mut |_, new| {
                new.extend_from_slice(&entry.encode());
                Decision::Put(())
            })?;
            entries.insert(space.id, entry);
        }
        let place = |tree: &BTreeIndex| (tree.root(), tree.len());
        let expiries = expiries.tree().map_or((PageId(0), 0), place);
        let owner = EngineRoots {
            generation,
            catalog: place(&self.catalog),
            expiries,
        };
        Ok(self.pool.begin_checkpoint(|| owner.encode())?)
    }

    /// Writes and publishes what [`begin`](Self::begin) began.
    pub(crate) fn finish(&self, begun: CheckpointInProgress) -> Result<()> {
        Ok(self.pool.finish_checkpoint(begun)?)
    }

    pub(crate) fn give_up(&self, begun: &CheckpointInProgress) {
        self.pool.abandon_checkpoint(begun);
    }

    /// Lets changes use up the reserve for reading while the disk is full: they undo others.
    pub(crate) fn allow_reserve_use(&self) -> ReserveUse<'_> {
        self.pool.allow_reserve_use()
    }

    /// Lets changed pages that a full disk does not take exceed the budget: recovery must not need
    /// space.
    pub(crate) fn exceed_budget(&self) -> BudgetExemption<'_> {
        self.pool.exceed_budget()
    }

    /// Lets the next checkpoint release the pages of a keyspace that is out of the catalog.
    pub(crate) fn retire(&self, space: Arc<Space>) {
        lock(&self.retired).push(Retired { space, left: None });
        self.retirements.fetch_add(1, Ordering::Relaxed);
    }

    /// Releases the pages of a keyspace that was not created after all and has no rows.
    pub(crate) fn discard(&self, space: Space) {
        if let AnyIndex::BTree(tree) = space.index {
            // Its only page is in memory, and dirty: there is nothing to read or to write.
            let _ = tree.release();
        }
    }

    /// Releases the pages of retired keyspaces. No checkpoint may begin meanwhile, or it would name
    /// pages that are free. Keyspaces with an open handle keep their root.
    ///
    /// # Errors
    /// The first error. Other keyspaces are released all the same, and the next call releases the
    /// rest of this one.
    pub(crate) fn drop_retired(&self, is_closed: impl Fn() -> bool) -> Result<()> {
        let _reserve_use = self.pool.allow_reserve_use();
        let retired = std::mem::take(&mut *lock(&self.retired));
        let mut outcome = Ok(());
        for retired in retired {
            let (left, one) = self.drop_retired_one(retired, &is_closed);
            lock(&self.retired).extend(left);
            outcome = outcome.and(one);
        }
        outcome
    }

    /// Releases the pages of one retired keyspace; returns what is left of it, and why.
    fn drop_retired_one(
        &self,
        Retired { mut space, left }: Retired,
        is_closed: &impl Fn() -> bool,
    ) -> (Option<Retired>, Result<()>) {
        if Arc::get_mut(&mut space).is_none() {
            let emptied = unless_damaged(space.empty(is_closed).map_err(Error::from));
            return (Some(Retired { space, left }), emptied);
        }
        let Some(tree) = space.index.tree() else {
            return (None, Ok(()));
        };
        let is_first = left.is_none();
        let mut left = left.unwrap_or_default();
        if is_first {
            // Before its root is released, which may then become another tree's.
            if let Err(error) = self.catalog.remove(&space.id.to_be_bytes()) {
                return (Some(Retired { space, left: None }), Err(error.into()));
            }
            lock(&self.entries).remove(&space.id);
            left.push(tree.root());
        }
        let released = tree.release_from(&mut left).map_err(Error::from);
        let released = unless_damaged(released);
        let left = (!left.is_empty()).then_some(left);
        let retired = left.map(|left| Retired {
            space,
            left: Some(left),
        });
        // Pages that can never be read again must not prevent all further checkpoints.
        (retired, if is_first { released } else { Ok(()) })
    }

    /// Makes a file that is mostly free shorter, by the checkpoints that follow.
    pub(crate) fn compact(&self) {
        self.pool.compact();
    }

    /// The most disk space, in bytes, that a checkpoint would need now beside the space that the
    /// file has.
    pub(crate) fn missing_bytes(&self) -> u64 {
        let backed = self.pool.backed_bytes();
        self.pool.unwritten_bytes().saturating_sub(backed)
    }

    /// Whether [`is_short_of_blocks`](Self::is_short_of_blocks) needs a check: one load.
    pub(crate) fn may_be_short_of_blocks(&self) -> bool {
        self.pool.may_be_short_of_blocks()
    }

    /// Whether the disk is full and removals have used up half of the blocks that are kept for
    /// them.
    pub(crate) fn is_short_of_blocks(&self) -> bool {
        self.pool.is_short_of_blocks()
    }

    /// Has the next checkpoint keep blocks for removals rather than give them to a full disk.
    pub(crate) fn keep_space(&self) {
        self.pool.keep_space();
    }

    /// How many keyspaces were dropped or cleared since the database was opened.
    pub(crate) fn retirements(&self) -> u64 {
        self.retirements.load(Ordering::Relaxed)
    }

    /// How the file's blocks are used. Looks at a few bits for each.
    pub(crate) fn file_space(&self) -> FileSpace {
        let blocks = self.pool.blocks();
        FileSpace {
            dead_bytes: u64::from(blocks.dead) * PAGE as u64,
            live_bytes: u64::from(blocks.live) * PAGE as u64,
            is_sparse: blocks.is_sparse,
        }
    }

    /// What a page belongs to: keys of keyspaces, or the engine itself.
    pub(crate) fn describe_owner(
        &self,
        page: PageId,
        spaces: &[Arc<Space>],
        expiries: &Expiries,
    ) -> String {
        let of_spaces = spaces.iter().filter_map(|space| {
            let whose = format!("keyspace {:?}", space.name);
            Some((space.index.tree()?, whose))
        });
        let of_expiries = expiries
            .tree()
            .map(|tree| (tree, "the index of expiries".to_owned()));
        let of_catalog = (&self.catalog, "the catalog of keyspaces".to_owned());
        let mut unknown = format!("rows that {page} had until they were written anew");
        for (tree, whose) in of_spaces.chain(of_expiries).chain([of_catalog]) {
            match tree.keys_that_need(page) {
                Ok(Some(keys)) => return format!("{keys} of {whose}"),
                Ok(None) => {}
                // It may be more than one that is damaged.
                Err(what) => unknown = format!("rows of {page}, and in {whose}: {what}"),
            }
        }
        unknown
    }

    pub(crate) fn statistics(&self) -> PoolStatistics {
        self.pool.statistics()
    }

    /// Reserves memory of the pool's budget for something else: as much of this as pages can spare.
    pub(crate) fn reserve_memory(&self, bytes: usize) -> MemoryReservation<'_, PAGE> {
        self.pool.reserve_memory(bytes)
    }

    /// Takes memory from the pages for good: as much of `bytes` as they can spare. How much it is.
    pub(crate) fn take_memory(&self, bytes: usize) -> usize {
        let reservation = self.pool.reserve_memory(bytes);
        let taken = reservation.bytes();
        std::mem::forget(reservation);
        taken
    }

    /// How many pages fit in memory now.
    pub(crate) fn room(&self) -> usize {
        self.pool.limit()
    }

    /// Stops the thread behind the pool, and all use of the file: who opens it next has it alone,
    /// while old handles still read what is in memory.
    pub(crate) fn stop(&self) {
        lock(&self.cleaner).take();
        self.pool.close_file();
    }
}

fn is_btree(entry: &KeyspaceEntry) -> bool {
    IndexKind::from_name(&entry.index).is_some_and(IndexKind::is_in_pages)
}

/// The generation of a manifest's newest checkpoint: 0 without one.
pub(crate) fn checkpoint_generation(manifest: &Manifest) -> u32 {
    let newest = manifest.newest_checkpoint();
    newest.map_or(0, |entry| entry.generation)
}

/// The format of a manifest of a database that has a page file, or has none.
pub(crate) fn manifest_format(manifest: &Manifest, has_pages: bool) -> u32 {
    match has_pages && !manifest.keyspaces.iter().all(is_btree) {
        true => MIXED_FORMAT_VERSION,
        false => PLAIN_FORMAT_VERSION,
    }
}

/// Opens the pool of pages. The logs before generation `needed` are gone.
fn open_pool(options: &Builder, path: &Path, database_id: u128, needed: u32) -> Result<Pool<PAGE>> {
    // Where no checkpoint was published, the logs have everything, and an empty file suffices.
    let may_create = needed == 0 && !options.read_only;
    let exists = options.vfs.exists(path);
    if !may_create && !exists.map_err(|e| Error::io("look for", path, e))? {
        let what = format!("it is missing, and what is before log generation {needed} is gone");
        return Err(not_this_databases(path, what));
    }
    let mut pool_options = Options::new(options.page_budget() as u64);
    // Half of it tells databases apart well enough.
    pool_options.database = database_id as u64;
    pool_options.read_only = options.read_only;
    pool_options.salvage = options.read_only && !options.strict;
    Ok(Pool::open(&options.vfs, path, &pool_options)?)
}

/// Leaks pages of a dropped tree that a damaged page leads to: no operation needs them any more,
/// and nothing else should fail because of them.
fn unless_damaged(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(Error::Corrupt(_)) => Ok(()),
        Err(Error::Index(error)) if error.kind() == IndexErrorKind::Damaged => Ok(()),
        outcome => outcome,
    }
}
