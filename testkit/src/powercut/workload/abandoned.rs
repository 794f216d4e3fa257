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

/// Which writes meet a full disk.
#[derive(Clone, Copy)]
enum File {
    Log,
    Pages,
}

impl Writer<'_> {
    /// Abandons a checkpoint, tries to abandon up to two more, and takes one.
    pub(super) fn abandon_some(&mut self, disk: &FaultyVfs) -> Outcome {
        // What the row changes has to be written, and not even the first page can be.
        self.put()?;
        self.checkpoint_on_full_disk(disk, File::Pages, 0)?;
        for _ in 0..self.rng.random_range(0..3) {
            self.put()?;
            self.abandon_checkpoint(disk)?;
        }
        let taken = self.process_run.db.checkpoint();
        taken.map(drop).map_err(failed("a checkpoint"))
    }

    /// Takes a checkpoint for which the disk is full from some write on: of a page, or, where this
    /// thread is the only one, of the logs that are rotated.
    pub(super) fn abandon_checkpoint(&mut self, disk: &FaultyVfs) -> Outcome {
        let after = self.rng.random_range(0..6);
        // Other threads' commits would find the log's disk full, too.
        let is_log = self.process_run.threads == 1 && self.rng.random();
        let file = if is_log { File::Log } else { File::Pages };
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
