//! Checkpoints on a full disk, within reserved space: they free more than they use. Removals are
//! accepted on a full disk and need space: for their records in the logs, and for the pages that
//! they change in the page file. Both have reserves, and a checkpoint refills both: it ends the
//! logs, and in a page file it frees as many blocks as it writes. So a removal that finds one of
//! the two nearly used up first takes a checkpoint, and any number of removals is accepted.

use hedgerow_log::{Log, Manifest, remove_obsolete};

use crate::commit::worker;
use crate::disk::checkpoint::CheckpointReport;
use crate::disk::page_file::PageFile;
use crate::disk::part_folders::PartFolders;
use crate::engine::Engine;
use crate::error::{Error, Result};

impl Engine {
    /// Takes a checkpoint on a full disk, with the space that the logs have reserved, where it is
    /// likely to be enough: what it replaces gives more back. Otherwise that space is kept for
    /// removals. The caller holds `checkpointing`.
    pub(crate) fn checkpoint_from_reserve(&self) -> Result<CheckpointReport> {
        let log = self.log()?;
        let folders = self.folders_within_reserve().ok_or(Error::DiskFull)?;
        self.remove_leftovers();
        if let Some(pages) = self.pages() {
            pages.keep_space();
        }
        let _released_reserve = log.release_reserve();
        self.checkpoint_once(&folders, false)
    }

    /// Removes the files of checkpoints that did not come to be: they take space. The manifest may
    /// be another one than this opening knows of, if storing it failed late: then the files of both
    /// stay until one is stored. The caller holds `checkpointing`.
    pub(crate) fn remove_leftovers(&self) {
        let manifest = self.manifest();
        let shown = Manifest::load(&*self.options.vfs, &self.dir);
        if shown.is_ok_and(|shown| shown == *manifest) {
            // What cannot be removed now can also go later.
            let _ = remove_obsolete(&*self.options.vfs, &self.dir, &manifest);
        }
    }

    /// Where the parts of a checkpoint go, if it is likely to fit what is reserved. Where the logs
    /// are in other directories, their reserve has no space for the page file's disk, and each disk
    /// has its own ([`PartFolders`]).
    fn folders_within_reserve(&self) -> Option<PartFolders> {
        let log = self.log().ok()?;
        let folders = PartFolders::of(self).ok()?;
        let fits = if self.log_dirs.is_empty() {
            let in_pages = self.pages().map_or(0, |pages| pages.missing_bytes());
            in_pages + self.least_row_bytes() <= log.releasable_bytes()
        } else {
            let is_short =
                |pages: &PageFile| pages.missing_bytes() > 0 && pages.may_be_short_of_blocks();
            !self.pages().is_some_and(is_short) && !folders.is_empty()
        };
        fits.then_some(folders)
    }

    /// Before a commit that may remove rows: on a full disk, sees to it that there is space for it.
    /// Two loads where the disk is not full. The caller holds no stripe and no log shard.
    #[inline]
    pub(crate) fn make_room_for_removal(&self) {
        let (Some(pages), Some(log)) = (self.pages(), &self.log) else {
            return;
        };
        if log.is_short() || pages.may_be_short_of_blocks() {
            self.refill_reserve(pages, log);
        }
    }

    /// Takes a checkpoint if what is reserved for removals is nearly used up, and if that is likely
    /// to help. If it is not, or fails, whether there is space is up to the removal.
    #[cold]
    fn refill_reserve(&self, pages: &PageFile, log: &Log) {
        let is_low = || pages.is_short_of_blocks() || (log.is_short() && log.is_reserve_low());
        // Within a closure of the caller, stripes are locked that others wait for.
        if worker::must_not_wait() || !is_low() {
            return;
        }
        let _exclusive = self.checkpointing();
        if is_low() && self.folders_within_reserve().is_some() {
            let _ = self.checkpoint_exclusively();
        }
    }
}
