//! Disk space for pages that are changed, reserved before they are.
//!
//! A changed page is written to another block than the one that the last checkpoint refers to, and
//! only the next checkpoint frees that one. So a checkpoint needs a block for each changed page,
//! and a few for the page table. If a checkpoint searched for them only when it writes, a disk that
//! became full in between would take no checkpoint any more, and so free nothing.
//!
//! Therefore a clean page becomes dirty only while the file has a free block with space for it: one
//! in the middle of the file, or one of those that are reserved behind its end, a batch at a time.
//! When the disk has no more, as many blocks are left as the pool keeps [clean
//! pages](crate::reserve). Those are for removals: a checkpoint then frees as many blocks as it
//! writes, and the pool keeps those ([`Pool::keep_space`]), so the next removals find them again.
//! Recovery reserves nothing, since it must not depend on space, and neither do changes that may
//! use up the reserve. Where the file system cannot reserve space, a checkpoint finds blocks when
//! it needs them.

use std::io;
use std::sync::atomic::Ordering;

use hedgerow_vfs::is_disk_full;

use crate::block;
use crate::bookkeeping::Space;
use crate::error::Error;
use crate::pool::{Pool, lock};
use crate::table::fan;

/// Blocks that are kept for removals, at least.
const LEAST_RESERVED: usize = 16;

impl<const PAGE: usize> Pool<PAGE> {
    /// Blocks that only removals may take.
    fn reserved_for_removals(&self) -> i64 {
        self.reserve().max(LEAST_RESERVED) as i64
    }

    /// After a checkpoint: takes the free blocks that a disk that is still full does not get back,
    /// those for removals and for the page table. They are free again once they are given.
    pub(crate) fn keep_blocks(&self, space: &mut Space) -> Vec<u32> {
        let kept = self.reserved_for_removals() as u64;
        let kept = (kept + self.table_blocks(kept)) as u32;
        if space.blocks.starved {
            match self.reserves() {
                true => _ = self.reserve_behind(space, kept),
                // The checkpoint found space, which is all that can be known.
                false => space.blocks.starved = false,
            }
        }
        let most = if space.blocks.starved { kept } else { 0 };
        space.blocks.keep_backed(most)
    }

    /// Blocks of the page table that a checkpoint writes, at most, if so many pages changed.
    pub(crate) fn table_blocks(&self, changed: u64) -> u64 {
        let fan = fan(PAGE) as u64;
        // Level 0, what is above it, and the blocks that are there anyhow.
        changed.min(self.numbers() / fan + 1) + self.numbers() / (fan * fan) + 2
    }

    /// Free blocks with space beyond those that the next checkpoint needs.
    fn spare_blocks(&self, space: &Space) -> i64 {
        let dirty = self.dirty.load(Ordering::Relaxed) as u64;
        let changed = u64::from(space.changed.count());
        let needed = dirty + self.table_blocks(dirty + changed);
        i64::from(space.blocks.backed()) - needed as i64
    }

    /// Sees to it that one page more can be written when it is dirty.
    ///
    /// # Errors
    ///
    /// The disk is full.
    pub(crate) fn back_page(&self) -> Result<(), Error> {
        if self.spare_backed.fetch_sub(1, Ordering::Relaxed) > self.reserved_for_removals() {
            return Ok(());
        }
        self.reserve_blocks().inspect_err(|_| {
            self.spare_backed.fetch_add(1, Ordering::Relaxed);
        })
    }

    #[cold]
    fn reserve_blocks(&self) -> Result<(), Error> {
        let spare = self.count_spare();
        self.spare_backed.fetch_sub(1, Ordering::Relaxed);
        let is_exempt = [&self.reserve_uses, &self.budget_exemptions]
            .iter()
            .any(|exempt| exempt.load(Ordering::Relaxed) > 0);
        if spare > self.reserved_for_removals() || is_exempt || !self.reserves() {
            return Ok(());
        }
        Err(self.io("reserve space in", io::ErrorKind::StorageFull.into()))
    }

    fn reserves(&self) -> bool {
        self.can_reserve.load(Ordering::Relaxed)
    }

    /// Counts the spare blocks anew, after reserving more if there are few.
    fn count_spare(&self) -> i64 {
        let kept = self.reserved_for_removals();
        let mut space = lock(&self.space);
        let mut spare = self.spare_blocks(&space);
        if spare <= kept && self.reserves() {
            spare += i64::from(self.reserve_behind(&mut space, (2 * kept - spare) as u32));
        }
        self.spare_backed.store(spare, Ordering::Relaxed);
        spare
    }

    /// Reserves up to so many blocks behind the file's end; how many there was space for.
    fn reserve_behind(&self, space: &mut Space, wanted: u32) -> u32 {
        let mut blocks = wanted;
        while blocks > 0 {
            let offset = block::offset::<PAGE>(space.blocks.reserved_end());
            match self.file.allocate(offset, u64::from(blocks) * PAGE as u64) {
                Ok(()) => {
                    space.blocks.add_reserved(blocks);
                    break;
                }
                Err(error) if is_disk_full(&error) => blocks /= 2,
                Err(_) => {
                    self.can_reserve.store(false, Ordering::Relaxed);
                    return 0;
                }
            }
        }
        space.blocks.starved = blocks < wanted;
        blocks
    }

    /// What checkpoints can write without more space of the disk, in bytes.
    #[must_use]
    pub fn backed_bytes(&self) -> u64 {
        u64::from(lock(&self.space).blocks.backed()) * PAGE as u64
    }

    /// Whether [`is_short_of_blocks`](Self::is_short_of_blocks) is worth asking: one load.
    #[must_use]
    pub fn may_be_short_of_blocks(&self) -> bool {
        self.spare_backed.load(Ordering::Relaxed) < self.reserved_for_removals() / 2
            && self.reserves()
    }

    /// Whether the disk is full and removals have used up half of the blocks that are kept for
    /// them: a checkpoint gives them new ones.
    #[must_use]
    pub fn is_short_of_blocks(&self) -> bool {
        self.count_spare() < self.reserved_for_removals() / 2 && self.reserves()
    }

    /// Has the next checkpoint keep blocks for removals that it would give back to the disk, until
    /// the disk has space again.
    pub fn keep_space(&self) {
        lock(&self.space).blocks.starved = true;
    }
}
