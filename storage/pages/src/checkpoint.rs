//! Checkpoints: one moment's pages, made durable beside writers.
//!
//! 1. **The switch.** Between two operations ([`Operations`]) the epoch advances. All pages that
//!    are dirty at that moment belong to the checkpoint, with their content of that moment.
//! 2. **Collecting.** Their copies are written to free blocks, like evicted pages. A thread that is
//!    about to change one of them saves a copy ([`Saved`]), at most a batch of which wait in
//!    memory. The table as of the switch is the present table, but for *overrides*: the old entries
//!    of pages that were written since for the new epoch.
//! 3. **The table.** Blocks of the page table with changed entries are written, level by level.
//! 4. **Publishing.** Sync; write the root to the slot that does not have the last one; sync. Only
//!    now are the blocks free that the last checkpoint needed and this one does not, and the file
//!    returns what space it can.
//!
//! A crash before 4 finds the last checkpoint whole, since nothing that it refers to was
//! overwritten. An error before 4 abandons the checkpoint, and a later one can succeed. So can one
//! after a full disk refused the root: what that refers to stays in use beside what the published
//! root does, until another is published, as the disk may have either. The next checkpoint writes
//! that root once more before anything else: as long as it is refused, no further blocks are used
//! up for checkpoints whose roots would be refused, too. After a failed sync, or another failure of
//! the root's write, nobody knows what is on the disk, so there are no more checkpoints.
//!
//! [`Operations`]: crate::operations::Operations

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use hedgerow_vfs::WriteAt;

use crate::block::{self, Block};
use crate::bookkeeping::{Collecting, Published, Saved, Space};
use crate::error::Error;
use crate::evict::give_unwritten;
use crate::page_id::PageId;
use crate::pool::{Pool, lock};
use crate::root::{OWNER_BYTES, Root, Slot, top_entries};
use crate::space::Bits;
use crate::state::PageState;
use crate::statistics::{CHECKPOINTS, SAVED};
use crate::table::{Entry, fan};
use crate::write_batch::{WriteBatch, WrittenBlock};

/// A checkpoint in progress: its moment is over, and its pages are still to be written. The next
/// checkpoint abandons it if nobody finished it.
#[derive(Debug)]
#[must_use = "finish or abandon it: until then, who changes pages leaves copies of them"]
pub struct CheckpointInProgress {
    /// The root as far as it is known.
    root: Root,
    /// The parity of the epoch to collect.
    old: bool,
}

/// The table of a checkpoint under way.
#[derive(Default)]
struct NewTable {
    levels: Vec<Vec<u64>>,
    /// Blocks written for it, and those that it does not need any more.
    written: Vec<u32>,
    replaced: Vec<u32>,
}

/// Why a root was not published.
enum Unpublished {
    /// The disk had no space for it: some of it may have been written, or all.
    Refused(Error),
    /// What is on the disk is not known.
    Unknown(Error),
}

impl<const PAGE: usize> Pool<PAGE> {
    /// The parity of the epoch. Stays the same within an operation.
    pub(crate) fn parity(&self) -> bool {
        self.epoch.load(Ordering::Acquire) % 2 == 1
    }

    /// Makes the changes of all finished operations durable, beside running ones:
    /// [`compact`](Self::compact), [`begin_checkpoint`](Self::begin_checkpoint) and
    /// [`finish_checkpoint`](Self::finish_checkpoint) in one.
    ///
    /// # Errors
    ///
    /// As for those.
    pub fn checkpoint(&self, owner: impl FnOnce() -> Vec<u8>) -> Result<(), Error> {
        self.compact();
        let begun = self.begin_checkpoint(owner)?;
        self.finish_checkpoint(begun)
    }

    /// The moment of a checkpoint: it will have the changes of all finished operations. `owner`
    /// runs between two operations; what it returns (at most 512 bytes: where the tree's root is,
    /// how far the log is covered) is found again at [`owner`](Self::owner) after a reopen. Writes
    /// nothing. An unfinished earlier checkpoint is abandoned.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`]: no checkpoint will succeed. [`Error::RootTooLarge`].
    ///
    /// Do not call it within an operation: it would wait for itself.
    pub fn begin_checkpoint(
        &self,
        owner: impl FnOnce() -> Vec<u8>,
    ) -> Result<CheckpointInProgress, Error> {
        let published = lock(&self.checkpointing);
        if let Some(why) = &published.poisoned {
            return Err(Error::Poisoned(why.clone()));
        }
        if lock(&self.space).collecting.is_some() {
            self.abandon(&NewTable::default());
        }
        let begun = self.operations.while_idle(|| self.switch(owner()));
        let asked = begun.root.owner.len();
        if asked > OWNER_BYTES {
            self.abandon(&NewTable::default());
            let limit = OWNER_BYTES;
            return Err(Error::RootTooLarge { asked, limit });
        }
        Ok(begun)
    }

    /// Writes a checkpoint and makes it durable, beside running operations. The cost is
    /// proportional to the changes since the last one.
    ///
    /// # Errors
    ///
    /// Whatever the file says. After [`Error::Poisoned`] no checkpoint will succeed; after any
    /// other error a later one can. Nothing that was published before is lost; who opens the file
    /// again may find this checkpoint all the same.
    pub fn finish_checkpoint(&self, begun: CheckpointInProgress) -> Result<(), Error> {
        let mut published = lock(&self.checkpointing);
        if !self.is_under_way(&begun) {
            return Err(Error::GivenUp);
        }
        let slot = published.slot.other();
        if let Some(refused) = &published.refused
            && let Err(error) = self.write_root(refused, slot)
        {
            // It may still be on the disk, and a further one would keep further blocks in use.
            return Err(self.end_unpublished(&mut published, &NewTable::default(), error));
        }
        let CheckpointInProgress { mut root, old } = begun;
        let mut table = NewTable::default();
        let written = self
            .collect(old)
            .and_then(|()| self.write_table(root.pages, &mut table));
        if let Err(error) = written {
            self.abandon(&table);
            return Err(error);
        }
        root.levels = table.levels.len() as u32;
        root.top
            .clone_from(table.levels.last().expect("a top level"));
        root.blocks = lock(&self.space).blocks.end;
        let mut block = Block::<PAGE>::zeroed();
        root.encode(&mut block.0);
        if let Err(error) = self.publish(&block, slot) {
            lock(&self.space).blocks.keep_snapshot();
            if matches!(error, Unpublished::Refused(_)) {
                published.refused = Some(block);
            }
            return Err(self.end_unpublished(&mut published, &table, error));
        }
        (published.slot, published.refused) = (slot, None);
        self.free_replaced(root, table);
        Ok(())
    }

    /// Ends a checkpoint whose root was not published, though it may be on the disk.
    fn end_unpublished(
        &self,
        published: &mut Published<PAGE>,
        table: &NewTable,
        why: Unpublished,
    ) -> Error {
        self.abandon(table);
        match why {
            Unpublished::Refused(error) => error,
            Unpublished::Unknown(error) => {
                let why = error.to_string();
                published.poisoned = Some(why.clone());
                Error::Poisoned(why)
            }
        }
    }

    /// Abandons a checkpoint that was begun: its pages belong to the next one.
    pub fn abandon_checkpoint(&self, begun: &CheckpointInProgress) {
        let _exclusive = lock(&self.checkpointing);
        if self.is_under_way(begun) {
            self.abandon(&NewTable::default());
        }
    }

    fn is_under_way(&self, begun: &CheckpointInProgress) -> bool {
        let space = lock(&self.space);
        let epoch = space.collecting.as_ref().map(|collecting| collecting.epoch);
        epoch == Some(begun.root.epoch)
    }

    /// Advances the epoch.
    fn switch(&self, owner: Vec<u8>) -> CheckpointInProgress {
        let mut space = lock(&self.space);
        let old = self.parity();
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel);
        space.blocks.begin_snapshot();
        let changed = std::mem::take(&mut space.changed);
        space.collecting = Some(Collecting {
            parity: old,
            epoch,
            overrides: HashMap::new(),
            changed,
            failed: None,
        });
        let root = Root {
            database: self.database,
            epoch,
            pages: self.used.load(Ordering::Relaxed),
            owner,
            ..Root::default()
        };
        CheckpointInProgress { root, old }
    }

    /// Writes all pages that are dirty since the epoch of a parity.
    fn collect(&self, old: bool) -> Result<(), Error> {
        let mut batch = WriteBatch::new(self.batch);
        loop {
            let mut found = false;
            for page in 0..self.used.load(Ordering::Relaxed) {
                found |= self.collect_page(PageId(page), old, &mut batch);
                if batch.is_full() {
                    self.write_batch(&batch)?;
                    batch.pages.clear();
                }
            }
            self.write_batch(&batch)?;
            batch.pages.clear();
            self.write_saved(&mut lock(&self.saved))?;
            if let Some(failed) = self.failure() {
                return Err(failed);
            }
            // A page in use while it was to become clean is found again.
            if !found {
                return Ok(());
            }
        }
    }

    fn failure(&self) -> Option<Error> {
        lock(&self.space).collecting.as_mut()?.failed.take()
    }

    /// Copies one page, if it is dirty since the old epoch.
    fn collect_page(&self, page: PageId, old: bool, batch: &mut WriteBatch<PAGE>) -> bool {
        let word = self.word(page);
        let mut attempts = 0;
        loop {
            let seen = word.snapshot();
            if !seen.is_dirty() || seen.epoch() != old {
                return false;
            }
            let copied = batch.pages.len();
            if seen.blocks_sharing() {
                word.wait(&self.parking, &mut attempts, PageState::blocks_sharing);
            } else {
                self.copy_aside(page, seen, batch);
            }
            if batch.pages.len() > copied {
                return true;
            }
        }
    }

    /// Saves a copy of a page for the checkpoint under way, if that needs it. The caller has the
    /// page's exclusive latch and is about to change it.
    #[cold]
    pub(crate) fn save(&self, page: PageId) {
        let mut saved = lock(&self.saved);
        if lock(&self.space).collecting.is_none() {
            return;
        }
        let mut block = Block::zeroed();
        self.frame(page).read(&mut block.0);
        saved.pages.push(page);
        saved.blocks.push(block);
        self.counters.count(SAVED);
        if saved.pages.len() == self.batch
            && let Err(error) = self.write_saved(&mut saved)
            && let Some(collecting) = &mut lock(&self.space).collecting
        {
            // The change continues; the checkpoint fails.
            collecting.failed = Some(error);
        }
    }

    fn write_saved(&self, saved: &mut Saved<PAGE>) -> Result<(), Error> {
        let written = self.write_blocks(&saved.blocks);
        let mut space = lock(&self.space);
        let mut failure = None;
        for (i, WrittenBlock { place, result }) in written.into_iter().enumerate() {
            // The block belongs to the checkpoint alone.
            let Space {
                blocks,
                collecting,
                changed,
                ..
            } = &mut *space;
            if let (Ok(()), Some(collecting)) = (&result, collecting) {
                let (page, entry) = (saved.pages[i], Entry::new(place, saved.blocks[i].crc()));
                let chunk = page.0 / fan(PAGE) as u32;
                blocks.snapshot.set(place);
                let old = collecting.overrides.insert(page, entry);
                let old = old.unwrap_or_else(|| self.entries.get(page));
                if old != Entry::LOST {
                    blocks.leave_out(old.block());
                }
                collecting.changed.set(chunk);
                changed.set(chunk);
            }
            blocks.give(place);
            if let Err(error) = result {
                give_unwritten(&mut space, place, &error);
                failure = Some(self.io("write to", error));
            }
        }
        saved.pages.clear();
        saved.blocks.clear();
        failure.map_or(Ok(()), Err)
    }

    /// Writes the changed blocks of the table, from level 0 up.
    fn write_table(&self, pages: u32, table: &mut NewTable) -> Result<(), Error> {
        let fan = fan(PAGE);
        let (old_levels, mut changed) = {
            let space = lock(&self.space);
            let collecting = space
                .collecting
                .as_ref()
                .expect("a checkpoint is under way");
            (space.levels.clone(), collecting.changed.clone())
        };
        let mut below = pages as usize;
        loop {
            let level = table.levels.len();
            let len = below.div_ceil(fan);
            let mut entries = old_levels.get(level).cloned().unwrap_or_default();
            if level > 0 && old_levels.get(level).is_none() {
                // The table grew a level, all of which is new.
                (0..len).for_each(|block| changed.set(block as u32));
            }
            entries.resize(len.max(entries.len()), 0);
            let mut above = Bits::default();
            let wanted: Vec<u32> = changed.iter().filter(|&b| (b as usize) < len).collect();
            for group in wanted.chunks(self.batch) {
                self.write_group(group, &mut entries, table)?;
                group
                    .iter()
                    .for_each(|&block| above.set(block / fan as u32));
            }
            below = entries.len();
            table.levels.push(entries);
            changed = above;
            if below <= top_entries(PAGE) {
                return Ok(());
            }
        }
    }

    /// Writes some blocks of the level of which `entries` are to refer to them.
    fn write_group(
        &self,
        group: &[u32],
        entries: &mut [u64],
        table: &mut NewTable,
    ) -> Result<(), Error> {
        let mut blocks = Block::<PAGE>::several(group.len());
        for (&index, block) in group.iter().zip(&mut blocks) {
            self.fill(index, block, table.levels.last());
        }
        let written = self.write_blocks(&blocks);
        let (mut places, mut failure) = (Vec::new(), None);
        {
            let mut space = lock(&self.space);
            for WrittenBlock { place, result } in written {
                match result {
                    Ok(()) => places.push(place),
                    Err(error) => {
                        give_unwritten(&mut space, place, &error);
                        failure = Some(self.io("write to", error));
                    }
                }
            }
        }
        // Those that were written are given back when the checkpoint is abandoned.
        table.written.extend(&places);
        if let Some(failure) = failure {
            return Err(failure);
        }
        for (i, &place) in places.iter().enumerate() {
            let entry = &mut entries[group[i] as usize];
            if *entry != 0 && Entry(*entry) != Entry::LOST {
                table.replaced.push(Entry(*entry).block());
            }
            *entry = Entry::new(place, blocks[i].crc()).0;
        }
        let mut space = lock(&self.space);
        places
            .iter()
            .for_each(|&place| space.blocks.snapshot.set(place));
        Ok(())
    }

    /// Fills a block of the table with its entries: of pages as of the switch, or of the level
    /// below.
    fn fill(&self, index: u32, block: &mut Block<PAGE>, below: Option<&Vec<u64>>) {
        let first = index as usize * fan(PAGE);
        let (chunks, _) = block.0.as_chunks_mut::<8>();
        let space = lock(&self.space);
        let overrides = &space.collecting.as_ref().expect("under way").overrides;
        for (i, chunk) in chunks.iter_mut().enumerate() {
            let word = match below {
                Some(below) => below.get(first + i).copied().unwrap_or(0),
                None if first + i < self.room as usize => {
                    let page = PageId((first + i) as u32);
                    overrides
                        .get(&page)
                        .copied()
                        .unwrap_or_else(|| self.entries.get(page))
                        .0
                }
                None => 0,
            };
            *chunk = word.to_le_bytes();
        }
    }

    /// Makes all that a root refers to durable, then the root.
    fn publish(&self, root: &Block<PAGE>, slot: Slot) -> Result<(), Unpublished> {
        let sync = || {
            let synced = self.file.sync();
            synced.map_err(|error| Unpublished::Unknown(self.io("sync", error)))
        };
        sync()?;
        self.write_root(root, slot)?;
        sync()
    }

    fn write_root(&self, root: &Block<PAGE>, slot: Slot) -> Result<(), Unpublished> {
        let mut write = WriteAt::new(slot.offset::<PAGE>(), &root.0);
        self.file.write_many(std::slice::from_mut(&mut write));
        let written = write.result.map_err(|error| self.io("write to", error));
        written.map_err(|error| match error.is_disk_full() {
            true => Unpublished::Refused(error),
            false => Unpublished::Unknown(error),
        })
    }

    /// Ends a published checkpoint: frees the blocks that only the one before needed.
    fn free_replaced(&self, root: Root, table: NewTable) {
        {
            let mut space = lock(&self.space);
            space.collecting = None;
            space.levels = table.levels;
            for &block in &table.replaced {
                space.blocks.leave_out(block);
                space.blocks.give(block);
            }
            space.blocks.publish();
        }
        *lock(&self.owner) = root.owner;
        self.counters.count(CHECKPOINTS);
        self.shrink();
    }

    /// Returns free space to the file system, as far as possible. If that fails, it is no error:
    /// the space will be used again.
    fn shrink(&self) {
        let runs = {
            let mut space = lock(&self.space);
            let kept = self.keep_blocks(&mut space);
            let before = space.blocks.end;
            let end = space.blocks.trim();
            // Under the mutex: nobody may take a block behind the end meanwhile. The writes of
            // blocks that are taken are not behind it.
            let is_longer = end < before || end < space.blocks.reserved_end();
            if is_longer && self.file.truncate(block::offset::<PAGE>(end)).is_err() {
                space.blocks.end = before;
            } else {
                space.blocks.end_reserved();
            }
            let runs = match self.holes.load(Ordering::Relaxed) {
                true => space.blocks.begin_holes(),
                false => Vec::new(),
            };
            kept.iter().for_each(|&block| space.blocks.give(block));
            // To be counted anew by the next change.
            self.spare_backed.store(0, Ordering::Relaxed);
            runs
        };
        for run in runs {
            let length = block::offset::<PAGE>(run.end - run.start);
            let punched = self.file.punch(block::offset::<PAGE>(run.start), length);
            if let Err(error) = &punched
                && error.kind() == std::io::ErrorKind::Unsupported
            {
                self.holes.store(false, Ordering::Relaxed);
            }
            lock(&self.space).blocks.end_hole(run, punched.is_ok());
        }
    }

    /// Abandons a checkpoint: its changes are dirty, or in the table in memory, as if it had not
    /// been tried.
    fn abandon(&self, table: &NewTable) {
        let mut saved = lock(&self.saved);
        saved.pages.clear();
        saved.blocks.clear();
        let mut space = lock(&self.space);
        if let Some(collecting) = space.collecting.take() {
            space.changed.add(&collecting.changed);
        }
        space.blocks.abandon();
        table
            .written
            .iter()
            .for_each(|&block| space.blocks.give(block));
        drop((space, saved));
        for page in 0..self.used.load(Ordering::Relaxed) {
            let page = PageId(page);
            let now = self.parity();
            if self.word(page).snapshot().is_dirty() {
                self.word(page).adopt(now);
            }
        }
    }
}
