//! Creating, listing, clearing and dropping keyspaces.
//!
//! The catalog is part of the manifest, so these are not in the log: each is durable when it
//! returns. The log is made durable before the manifest is stored, so that no such change survives
//! a crash that loses an earlier write. Afterwards a block of the log names the manifest, so that
//! an older copy of it is refused. Clearing is dropping and creating under the same name with a new
//! id; ids are never used twice, so recovery skips the log records of a dropped keyspace.

use std::sync::Arc;

use hedgerow_log::{Health, Manifest};

use crate::api::keyspace_options::KeyspaceOptions;
use crate::commit::stripes::STRIPES;
use crate::commit::worker;
use crate::disk::directory::kind_of;
use crate::disk::page_file::{PageFile, checkpoint_generation, manifest_format};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::any_index::AnyIndex;
use crate::index::catalog::Catalog;
use crate::index::kind::IndexKind;
use crate::index::space::{Space, StoredIndex};
use crate::options::BTREE_IN_MEMORY;

const LONGEST_NAME: usize = 255;

/// What is walked over for the entries that a retired keyspace has in the expiry index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpiryWalk {
    /// The keyspace's rows, which must be there still.
    Rows,
    /// The entries of all keyspaces.
    Entries,
}

/// A keyspace of this id: empty, or as the page file has it.
fn new_space(id: u32, name: &str, kind: IndexKind, pages: Option<&PageFile>) -> Result<Space> {
    let in_memory = AnyIndex::in_memory(kind).map_err(|source| Error::AddressSpace {
        keyspace: name.to_owned(),
        index: kind.name(),
        source,
    })?;
    let stored = match (in_memory, pages) {
        (Some(index), _) => StoredIndex {
            index,
            rows: 0,
            expiring: 0,
        },
        (None, Some(pages)) => pages.index(id)?,
        (None, None) => return Err(Error::NoPageFile(name.to_owned())),
    };
    Ok(Space::new(id, name, kind, stored))
}

/// Empties the keyspaces in memory of a catalog that nobody else has.
pub(crate) fn empty_in_memory(catalog: &mut Catalog) -> Result<()> {
    let spaces = catalog.by_id.values();
    let in_memory: Vec<_> = spaces
        .filter(|space| !space.kind.is_in_pages())
        .map(Arc::clone)
        .collect();
    for space in in_memory {
        let empty = new_space(space.id, &space.name, space.kind, None)?;
        catalog.insert(Arc::new(empty));
    }
    Ok(())
}

impl Engine {
    /// The keyspaces that a manifest lists: empty, or as the page file has them.
    pub(crate) fn first_catalog(manifest: &Manifest, pages: Option<&PageFile>) -> Result<Catalog> {
        let mut catalog = Catalog::default();
        for entry in &manifest.keyspaces {
            let kind = kind_of(entry)?;
            catalog.insert(Arc::new(new_space(entry.id, &entry.name, kind, pages)?));
        }
        Ok(catalog)
    }

    pub(crate) fn find_keyspace(&self, name: &str) -> Option<Arc<Space>> {
        self.catalog().by_name.get(name).cloned()
    }

    /// Creates a keyspace, or returns the one that exists if `or_open`.
    pub(crate) fn create_keyspace(
        &self,
        name: &str,
        options: KeyspaceOptions,
        or_open: bool,
    ) -> Result<Arc<Space>> {
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(Error::KeyspaceName { bytes: name.len() });
        }
        self.check_writable()?;
        let kind = options.index.unwrap_or(self.kind);
        self.check_index(kind)?;
        // What makes a page file, or brings one up to the last checkpoint, excludes checkpoints.
        let needs_page_file = self.needs_page_file(kind, &self.manifest());
        let _exclusive = needs_page_file.then(|| self.checkpointing());
        let mut manifest = self.manifest();
        if let Some(space) = self.find_keyspace(name) {
            return if or_open {
                Ok(space)
            } else {
                Err(Error::KeyspaceExists(name.to_owned()))
            };
        }
        // What space there is left is for removals.
        if self.log()?.health() == Health::DiskFull {
            return Err(Error::DiskFull);
        }
        self.make_durable()?;
        if self.needs_page_file(kind, &manifest) {
            self.make_page_file(&mut manifest)?;
        }
        let mut changed = manifest.clone();
        let id = changed.add_keyspace(name, kind.name()).id;
        // No checkpoint's cut may find a tree that no keyspace names yet.
        let _no_cut = self.removals.begin();
        let space = new_space(id, name, kind, self.pages())?;
        if let Err(error) = self.replace_manifest(&mut changed) {
            self.discard(space);
            return Err(error);
        }
        let space = Arc::new(space);
        *manifest = changed;
        self.change_catalog(|catalog| catalog.insert(Arc::clone(&space)));
        self.record_manifest_sequence(manifest.sequence);
        Ok(space)
    }

    /// Refuses an index that no keyspace of this database can have.
    fn check_index(&self, asked: IndexKind) -> Result<()> {
        match self.options.in_memory && asked.is_in_pages() {
            true => Err(Error::InvalidOption(BTREE_IN_MEMORY.to_owned())),
            false => Ok(()),
        }
    }

    /// Whether a keyspace of this kind needs a page file that is not there, or not up to date.
    fn needs_page_file(&self, kind: IndexKind, manifest: &Manifest) -> bool {
        let is_current = |pages: &PageFile| pages.generation() >= checkpoint_generation(manifest);
        kind.is_in_pages() && !self.pages().is_some_and(is_current)
    }

    /// Makes the page file, for the first B-tree. No checkpoint is under way.
    fn make_page_file(&self, manifest: &mut Manifest) -> Result<()> {
        let in_place = manifest.check_in_place(&*self.options.vfs, &self.dir);
        in_place.map_err(|error| self.stop_if_displaced(error))?;
        let _no_removals = self.removals.exclude();
        if self.pages().is_none() {
            PageFile::check_budget(&self.options, &self.dir)?;
            // An earlier program must not take the file for all that there is.
            let mut changed = manifest.clone();
            changed.sequence = self.next_sequence();
            changed.format_version = manifest_format(&changed, true);
            let stored = changed.replace(&*self.options.vfs, &self.dir);
            stored.map_err(|error| self.stop_if_displaced(error))?;
            *manifest = changed;
            let (pages, entries) = PageFile::open(&self.options, &self.dir, manifest)?;
            self.expiries.set_in_pages(entries);
            self.memory.give_all_to_pages();
            if let Some(limit_bytes) = self.options.memory_limit {
                self.memory.grow(limit_bytes, &pages);
            }
            let _ = self.page_file.set(pages);
        }
        let Some(pages) = self.pages() else {
            return Ok(());
        };
        let published = pages.publish_from(manifest, &self.expiries);
        published.map_err(|error| self.stop_if_poisoned(error))
    }

    /// Releases the pages of a keyspace that was never in the catalog.
    fn discard(&self, space: Space) {
        if let Some(pages) = self.pages() {
            pages.discard(space);
        }
    }

    pub(crate) fn drop_keyspace(&self, name: &str) -> Result<()> {
        let change = |manifest: &mut Manifest, _: &Space| {
            manifest.keyspaces.retain(|entry| entry.name != name);
            Ok(None)
        };
        self.retire_keyspace(name, change, || ())
    }

    /// Removes all rows of a keyspace. Calls `emptied` as soon as they are gone for good: cleaning
    /// up behind them may take long.
    pub(crate) fn clear_keyspace(&self, name: &str, emptied: impl FnOnce()) -> Result<()> {
        let change = |manifest: &mut Manifest, space: &Space| {
            manifest.keyspaces.retain(|entry| entry.name != name);
            let id = manifest.add_keyspace(name, space.kind.name()).id;
            // One page for all that will be free.
            let _reserve_use = self.pages().map(|pages| pages.allow_reserve_use());
            new_space(id, name, space.kind, self.pages()).map(Some)
        };
        self.retire_keyspace(name, change, emptied)
    }

    /// After a failure to store a manifest that lacks a keyspace of this one. It may be in place
    /// all the same, and writes to that keyspace must not be acknowledged while a crash could lose
    /// it: so this makes sure of the old one, or stops all writes. If the old one is what the
    /// directory shows, the new one was never renamed: a full disk, for one.
    fn make_sure_of(&self, manifest: &mut Manifest, error: &Error) {
        let shown = Manifest::load(&*self.options.vfs, &self.dir);
        if shown.is_ok_and(|shown| shown == *manifest) {
            return;
        }
        if self.replace_manifest(manifest).is_err() {
            let reason = format!("storing the manifest failed: {error}");
            let _ = self.broken.set(reason);
        }
    }

    /// Drops a keyspace's contents, or replaces them by none, while no writer is active. Calls
    /// `retired` then, without a lock.
    fn retire_keyspace(
        &self,
        name: &str,
        change: impl FnOnce(&mut Manifest, &Space) -> Result<Option<Space>>,
        retired: impl FnOnce(),
    ) -> Result<()> {
        self.check_writable()?;
        let mut manifest = self.manifest();
        let missing = || Error::KeyspaceMissing(name.to_owned());
        let space = self.find_keyspace(name).ok_or_else(missing)?;
        let mut changed = manifest.clone();
        // Most of it while others write, so that they stand still for little more than the
        // manifest.
        self.make_durable()?;
        // Neither a removal of a range nor a checkpoint's cut falls between.
        let no_removals = self.removals.exclude();
        let successor = change(&mut changed, &space)?;
        let standstill = self.stripes.lock_many((0..STRIPES as u32).collect());
        let ready = self.make_durable().and_then(|()| {
            let in_place = manifest.check_in_place(&*self.options.vfs, &self.dir);
            in_place.map_err(|error| self.stop_if_displaced(error))
        });
        let stored = match ready {
            Ok(()) => {
                let stored = self.replace_manifest(&mut changed);
                stored.inspect_err(|error| self.make_sure_of(&mut manifest, error))
            }
            failed => failed,
        };
        if let Err(error) = stored {
            if let Some(successor) = successor {
                self.discard(successor);
            }
            return Err(error);
        }
        *manifest = changed;
        self.change_catalog(|catalog| {
            catalog.remove(&space);
            if let Some(successor) = successor {
                catalog.insert(Arc::new(successor));
            }
        });
        self.watches.cleared(&space.name, &space.index);
        space.retire();
        drop(standstill);
        let sequence = manifest.sequence;
        drop(manifest);
        // From here on a checkpoint finds its pages there.
        self.snapshots.begin_retire(&space);
        self.record_manifest_sequence(sequence);
        drop(no_removals);
        self.reclaim_retired(space, retired)
    }

    /// Has the entries and the rows of a keyspace removed that is retired. Calls `retired` before
    /// what may take long.
    fn reclaim_retired(&self, space: Arc<Space>, retired: impl FnOnce()) -> Result<()> {
        let walk = self.walk_of_expiries(&space);
        let are_rows_first = walk == ExpiryWalk::Entries && !space.kind.is_in_pages();
        if are_rows_first {
            // Nobody is refused, or ended, for memory that these rows have while entries go.
            self.snapshots.end_retire(space.id);
            self.give_back_retired();
        }
        retired();
        self.forget_expiries(&space, walk);
        let id = space.id;
        drop(space);
        if !are_rows_first {
            self.snapshots.end_retire(id);
            self.give_back_retired();
        }
        if self.options.sweep_interval.is_none() {
            self.retired.release(|| self.is_closed())?;
        }
        Ok(())
    }

    /// What to walk over for the entries of a retired keyspace: what is fewer, rows or entries. Of
    /// rows in memory twice as many entries count as fewer: these rows need not wait for the walk.
    fn walk_of_expiries(&self, space: &Space) -> ExpiryWalk {
        // None of the others is kept for as long as the walk takes: it may be dropped meanwhile.
        let spaces = self.spaces().into_iter();
        let others = spaces.filter(|other| other.kind.is_in_pages() == space.kind.is_in_pages());
        let of_others: u64 = others.map(|other| other.expiring()).sum();
        let entries = of_others + space.expiring();
        let is_by_entries = match space.kind.is_in_pages() {
            true => entries < space.len(),
            false => entries <= 2 * space.len(),
        };
        match is_by_entries {
            true => ExpiryWalk::Entries,
            false => ExpiryWalk::Rows,
        }
    }

    /// Removes the entries of a retired keyspace from the expiry index, beside commits, snapshots
    /// and checkpoints.
    fn forget_expiries(&self, space: &Space, walk: ExpiryWalk) {
        if space.expiring() == 0 {
            return;
        }
        let mut last: Option<Vec<u8>> = None;
        loop {
            // It is in no commit, and a checkpoint's cut must not fall into it.
            let _no_cut = self.removals.begin();
            if self.is_closed() {
                return;
            }
            let from = last.as_deref();
            let behind = match walk {
                ExpiryWalk::Entries => space.forget_entries(&self.expiries, from),
                ExpiryWalk::Rows => space.forget_rows(&self.expiries, from),
            };
            match behind {
                Some(behind) => last = Some(behind),
                None => return,
            }
        }
    }

    /// Has the memory or the pages of a retired keyspace given back, which no snapshot sees.
    pub(crate) fn give_back(&self, space: Arc<Space>) {
        match self.pages() {
            Some(pages) if space.kind.is_in_pages() => pages.retire(space),
            _ => self.retired.push(space),
        }
    }

    /// Makes every commit durable that has returned by now: what is stored in the manifest next
    /// must not survive a crash without them. Costs a sync if there is anything to sync.
    fn make_durable(&self) -> Result<()> {
        let log = self.log()?;
        // Timestamps run ahead of the epoch by one at most.
        Ok(log.wait_durable(log.epoch() + 1)?)
    }

    /// Whether changes that do not go through the log are possible.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        // A change of the catalog waits for stripes, which a closure's caller holds, and for
        // removals, which wait for batches of reads.
        if worker::must_not_wait() {
            return Err(Error::Nested);
        }
        self.log().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_vfs::{CallKind, FaultyVfs, MemoryVfs};

    use super::*;
    use crate::{Db, Keyspace, WriteOptions};

    const ROWS: u32 = 20_000;

    fn open(vfs: &FaultyVfs, index: IndexKind) -> Db {
        let builder = Db::builder().vfs(Arc::new(vfs.clone())).workers(1);
        let builder = builder.checkpoint_log_bytes(None).sweep_interval(None);
        let limit_bytes = (index == IndexKind::BTree).then_some(1 << 20);
        let builder = builder.memory_limit(limit_bytes).index(index);
        builder.now(Box::new(|| 1_000)).open("/db").unwrap()
    }

    /// Stores rows, of which the first so many expire.
    fn fill(keyspace: &Keyspace, rows: u32, expiring: u32) {
        for n in 0..rows {
            let options = match n < expiring {
                true => WriteOptions::default().expiry_ms(5_000),
                false => WriteOptions::default(),
            };
            keyspace
                .put_with(&n.to_be_bytes(), &[7; 200], &options)
                .unwrap();
        }
    }

    #[test]
    fn a_keyspace_that_is_cleared_leaves_no_entry_and_others_have_theirs() {
        for index in [IndexKind::Masstree, IndexKind::BTree] {
            let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
            let db = open(&vfs, index);
            let other = db.keyspace("other").unwrap();
            fill(&other, 10, 2);
            let entries = || {
                let (in_memory, in_pages) = other.engine.expiries.both();
                in_pages.unwrap_or(in_memory).count()
            };
            // More than are removed at once.
            for expiring in [1, 1_500, 3_000] {
                let cleared = db.keyspace("cleared").unwrap();
                fill(&cleared, 3_000, expiring);
                assert_eq!(entries(), 2 + expiring as usize, "{index:?}");
                db.clear_keyspace("cleared").unwrap();
                assert_eq!((entries(), cleared.len()), (2, 0), "{index:?} {expiring}");
            }
            assert_eq!(other.expiring(), 2);
        }
    }

    #[test]
    fn a_keyspace_is_empty_and_takes_rows_before_its_entries_are_forgotten() {
        for index in [IndexKind::Masstree, IndexKind::BTree] {
            let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
            let db = open(&vfs, index);
            let rows = db.keyspace("rows").unwrap();
            fill(&rows, 3_000, 3_000);
            let entries = || {
                let (in_memory, in_pages) = rows.engine.expiries.both();
                in_pages.unwrap_or(in_memory).count()
            };
            let mut seen = None;
            let engine = &rows.engine;
            let emptied = || {
                let before = rows.len();
                // A writer that finds no memory left: rows in memory wait for no entry.
                engine.release_unseen().unwrap();
                assert_eq!(
                    engine.snapshots.retired().len(),
                    usize::from(index == IndexKind::BTree)
                );
                let options = WriteOptions::default();
                rows.put_with(b"new", b"v", &options).unwrap();
                seen = Some((before, entries()));
            };
            rows.engine.clear_keyspace("rows", emptied).unwrap();
            assert_eq!(seen, Some((0, 3_000)), "{index:?}");
            assert_eq!((rows.len(), entries()), (1, 0), "{index:?}");
        }
    }

    #[test]
    fn one_row_that_expires_does_not_have_all_rows_read_when_they_are_cleared() {
        let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
        let db = open(&vfs, IndexKind::BTree);
        let rows = db.keyspace("rows").unwrap();
        fill(&rows, ROWS, 1);
        let read = || vfs.calls(CallKind::Read);
        let before = read();
        assert_eq!(rows.count(..).unwrap(), u64::from(ROWS));
        let by_walk = read() - before;
        let before = read();
        db.clear_keyspace("rows").unwrap();
        let by_clearing = read() - before;
        assert!(by_clearing * 10 < by_walk, "{by_clearing} and {by_walk}");
        assert_eq!(
            rows.engine.expiries.both().1.map(|entries| entries.count()),
            Some(0)
        );
    }

    /// Snapshots and checkpoints wait for no more than one step.
    #[test]
    fn a_step_that_forgets_expiries_is_short_where_rows_are_long() {
        const ROW_BYTES: usize = 512 << 10;
        let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
        let db = open(&vfs, IndexKind::Masstree);
        let rows = db.keyspace("rows").unwrap();
        let expiring = WriteOptions::default().expiry_ms(5_000);
        for n in 0..8u32 {
            let value = vec![7; ROW_BYTES];
            rows.put_with(&n.to_be_bytes(), &value, &expiring).unwrap();
        }
        let space = rows.engine.find_keyspace("rows").unwrap();
        let behind = space.forget_rows(&rows.engine.expiries, None);
        assert_eq!(behind, Some(1u32.to_be_bytes().to_vec()));
        assert_eq!(space.expiring(), 6);
    }
}
