//! The log files of one generation: one for each shard.

use std::path::Path;

use hedgerow_vfs::Vfs;

use crate::block::Identity;
use crate::error::{Error, Result};
use crate::planted::{PlantedBug, planted};
use crate::segment::{LOG_DIR, SegmentWriter, reserve_alike};

/// The disk space that new files have reserved behind their blocks.
#[derive(Clone, Copy)]
pub(crate) struct Reserve {
    /// For each file.
    pub(crate) bytes: u32,
    /// Whether the reserve is being used up: then no more than the next opening needs is reserved.
    pub(crate) is_spent: bool,
}

/// The files of a generation.
pub(crate) struct Generation {
    /// Of shard 0.
    pub(crate) identity: Identity,
    /// One for each shard, in order.
    pub(crate) writers: Vec<SegmentWriter>,
}

impl Generation {
    /// Creates the files, durably. `first` is the identity of shard 0.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        dir: &Path,
        first: Identity,
        reserve: Reserve,
    ) -> Result<Generation> {
        let mut writers = (0..first.shards)
            .map(|shard| {
                let identity = Identity { shard, ..first };
                SegmentWriter::create(vfs, dir, identity, reserve.bytes)
            })
            .collect::<Result<Vec<_>>>()?;
        reserve_alike(&mut writers, reserve.is_spent);
        let files = |writers| Generation {
            identity: first,
            writers,
        };
        let log_dir = dir.join(LOG_DIR);
        if planted(PlantedBug::DirectorySyncMissing) {
            return Ok(files(writers));
        }
        vfs.sync_dir(&log_dir)
            .map_err(|e| Error::io("sync directory", &log_dir, e))?;
        Ok(files(writers))
    }
}
