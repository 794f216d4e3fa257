//! The log files of one generation: one for each shard.

use hedgerow_vfs::Vfs;

use crate::block::Identity;
use crate::directories::ShardFolders;
use crate::error::{Error, Result};
use crate::planted::{PlantedBug, planted};
use crate::segment::{LOG_DIR, SegmentWriter, reserve_alike};

/// The disk space that new files have reserved behind their blocks.
#[derive(Clone, Copy)]
pub(crate) struct Reserve {
    /// For each file.
    pub(crate) bytes: u32,
    /// Whether the reserve is released for a checkpoint: then no more than the next opening needs
    /// is reserved.
    pub(crate) is_released: bool,
}

/// The files of a generation.
pub(crate) struct Generation {
    /// Of shard 0.
    pub(crate) identity: Identity,
    /// One for each shard, in order.
    pub(crate) writers: Vec<SegmentWriter>,
}

impl Generation {
    /// Creates the files in their folders, durably. `first` is the identity of shard 0.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        folders: &ShardFolders,
        first: Identity,
        reserve: Reserve,
    ) -> Result<Generation> {
        let mut writers = (0..first.shards)
            .map(|shard| {
                let identity = Identity { shard, ..first };
                SegmentWriter::create(vfs, folders.of(shard), identity, reserve.bytes)
            })
            .collect::<Result<Vec<_>>>()?;
        reserve_alike(&mut writers, reserve.is_released);
        let files = |writers| Generation {
            identity: first,
            writers,
        };
        if planted(PlantedBug::DirectorySyncMissing) {
            return Ok(files(writers));
        }
        for folder in folders.distinct() {
            let log_dir = folder.join(LOG_DIR);
            vfs.sync_dir(&log_dir)
                .map_err(|e| Error::io("sync directory", &log_dir, e))?;
        }
        Ok(files(writers))
    }
}
