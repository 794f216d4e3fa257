//! Older checkpoints, for the case that the newest is damaged (§5 of the Masstree paper: recovery
//! loads the latest *valid* checkpoint).
//!
//! The manifest lists the last few checkpoints, newest first, and the logs from the oldest one's
//! generation on. A recovery replays logs from the checkpoint that it loads, so damage in older
//! logs and checkpoints is in nobody's way as long as the newest is whole.
//!
//! ```text
//! logs:     g1 ─────────────► g2 ─────────────► now
//!           │                 │
//! listed:   older checkpoint  newest checkpoint
//!           └ if the newest is damaged: load this one, and replay both stretches of logs
//! ```
//!
//! Before the first checkpoint there is the empty database: it is listed as a checkpoint without
//! parts, so the first one, too, has one behind it. A checkpoint without parts cannot be damaged:
//! none is kept behind it. (A page file is no part: it has one state, that of the last checkpoint.)

use crate::entries::CheckpointEntry;
use crate::manifest::Manifest;
use crate::timestamp::Timestamp;

impl Manifest {
    /// The checkpoint that recovery loads if it is whole.
    pub fn newest_checkpoint(&self) -> Option<&CheckpointEntry> {
        self.checkpoints.first()
    }

    /// The generation from which recovery replays logs if the newest checkpoint is whole. Older
    /// logs are listed for older checkpoints alone.
    pub fn replayed_from(&self) -> u32 {
        let newest = self.checkpoints.first();
        newest.map_or(self.log_floor, |entry| entry.generation)
    }

    /// Makes `checkpoint` the newest one, and keeps `keep` at most: checkpoints beyond them, and
    /// logs from before the oldest, are not needed any more. Store the manifest, then
    /// [`remove_obsolete`](crate::remove_obsolete).
    pub fn install_checkpoint(&mut self, checkpoint: CheckpointEntry, keep: usize) {
        if self.checkpoints.is_empty() && self.log_floor < checkpoint.generation {
            self.checkpoints.push(CheckpointEntry {
                generation: self.log_floor,
                timestamp: Timestamp::ZERO,
                parts: Vec::new(),
            });
        }
        let is_undamageable = checkpoint.parts.is_empty();
        self.checkpoints.insert(0, checkpoint);
        self.keep_checkpoints(if is_undamageable { 1 } else { keep });
    }

    /// Lists the newest checkpoints alone, `keep` or one at least, and the logs from the oldest of
    /// them on. Store the manifest, then [`remove_obsolete`](crate::remove_obsolete).
    pub fn keep_checkpoints(&mut self, keep: usize) {
        self.checkpoints.truncate(keep.max(1));
        let Some(oldest) = self.checkpoints.last() else {
            return;
        };
        let floor = oldest.generation;
        self.log_floor = floor;
        self.incarnations.retain(|entry| {
            entry
                .end
                .as_ref()
                .is_none_or(|end| end.last_generation >= floor)
        });
        for entry in &mut self.incarnations {
            entry.first_generation = entry.first_generation.max(floor);
        }
    }

    /// Lists the newest `damaged` checkpoints no longer: recovery has everything from the next
    /// older one and the logs since. Store the manifest, then
    /// [`remove_obsolete`](crate::remove_obsolete).
    ///
    /// # Panics
    /// If no checkpoint would be left.
    pub fn drop_damaged(&mut self, damaged: usize) {
        assert!(damaged < self.checkpoints.len(), "one of them was loaded");
        for entry in self.checkpoints.drain(..damaged) {
            // It may be the only trace of these epochs.
            self.epoch_floor = self.epoch_floor.max(entry.timestamp.epoch());
        }
    }
}
