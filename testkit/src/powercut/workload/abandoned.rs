//! Checkpoints that a process run begins and has to abandon, so that power cuts fall after them,
//! too.

use std::path::Path;
use std::time::Duration;

use hedgerow::{Error, Health};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs};
use rand::Rng;

use super::{Outcome, Writer, failed};

/// The two roots of a page file are at its start. They are overwritten, for which a full disk has
/// room; a root that cannot be written would be the end of checkpoints.
const ROOTS_BYTES: u64 = 2 * 4096;

/// Where the database has the files of rows in memory.
const CHECKPOINTS: &str = "/data/checkpoint";

/// Which writes meet a full disk.
#[derive(Clone, Copy)]
enum File {
    Log,
    Pages,
    /// Those that a checkpoint writes of rows in memory: a page file that the database has is a
    /// checkpoint ahead of the manifest then.
    Rows,
}

impl Writer<'_> {
    /// Abandons a checkpoint, tries to abandon up to two more, and takes one.
    pub(super) fn abandon_some(&mut self, disk: &FaultyVfs) -> Outcome {
        // What the row changes has to be written, and not even the first page can be.
        self.put()?;
        self.checkpoint_on_full_disk(disk, File::Pages, 0)?;
        if self.process_run.mixed.is_some() {
            self.checkpoint_on_full_disk(disk, File::Rows, 0)?;
        }
        for _ in 0..self.rng.random_range(0..3) {
            self.put()?;
            self.abandon_checkpoint(disk)?;
        }
        let taken = self.process_run.db.checkpoint();
        taken.map(drop).map_err(failed("a checkpoint"))
    }

    /// Takes a checkpoint for which the disk is full from some write on: of a page, of rows in
    /// memory, or, where this thread is the only one, of the logs that are rotated.
    pub(super) fn abandon_checkpoint(&mut self, disk: &FaultyVfs) -> Outcome {
        let after = self.rng.random_range(0..6);
        // Other threads' commits would find the log's disk full, too.
        let is_log = self.process_run.threads == 1 && self.rng.random();
        let is_rows = self.process_run.mixed.is_some() && self.rng.random();
        let file = match (is_log, is_rows) {
            (true, _) => File::Log,
            (false, true) => File::Rows,
            (false, false) => File::Pages,
        };
        self.checkpoint_on_full_disk(disk, file, after)
    }

    fn checkpoint_on_full_disk(&self, disk: &FaultyVfs, file: File, after: usize) -> Outcome {
        let full = Fault::Error(std::io::ErrorKind::StorageFull);
        match file {
            File::Log => {
                let is_log = |path: &Path, _| path.extension().is_some_and(|end| end == "log");
                disk.fail_from_at(is_log, CallKind::Write, after, full);
            }
            File::Pages => {
                let is_page =
                    |path: &Path, offset| path.ends_with("pages.hdg") && offset >= ROOTS_BYTES;
                disk.fail_from_at(is_page, CallKind::Write, after, full);
            }
            File::Rows => {
                let is_part = |path: &Path, _| path.starts_with(CHECKPOINTS);
                disk.fail_from_at(is_part, CallKind::Write, after, full);
            }
        }
        let outcome = self.process_run.db.checkpoint();
        disk.heal();
        match outcome {
            Ok(_) => {}
            Err(Error::DiskFull) => self.process_run.count_abandoned(),
            Err(error) => return Err(format!("a checkpoint on a full disk failed: {error}")),
        }
        // The log finds out by itself that there is space again.
        while self.process_run.db.health() == Health::DiskFull {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
