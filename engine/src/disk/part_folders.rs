//! Where the parts of a checkpoint go: to the directories that new logs go to, by turns, but first
//! to those whose disks have space.

use std::path::Path;

use hedgerow_log::{DATA_FOLDER, Log, round_robin};
use hedgerow_vfs::{OpenMode, Vfs, is_disk_full};

use crate::disk::folder::Folder;
use crate::engine::Engine;
use crate::error::Result;

/// What a row of a checkpoint takes at least: timestamp, lengths, kind.
const LEAST_ROW_BYTES: u64 = 16;

/// The directories that a checkpoint's parts can be in.
pub(crate) struct PartFolders {
    /// For parts by turns.
    preferred: Vec<Folder>,
    /// The data folder, where those have no space after all.
    data: Option<Folder>,
    /// Those on full disks whose reserves have space for all rows, by turns: the last choice.
    reserves: Vec<Folder>,
}

impl PartFolders {
    /// Those of a database as it is now. To be called before a reserve is released: then no disk of
    /// logs seems to have space.
    pub(crate) fn of(engine: &Engine) -> Result<PartFolders> {
        let data = (DATA_FOLDER, engine.dir.clone());
        let dirs = &engine.log_dirs;
        if dirs.is_empty() {
            return Ok(PartFolders {
                preferred: vec![data],
                data: None,
                reserves: Vec::new(),
            });
        }
        let releasable = releasable_of_full(engine.log()?, dirs);
        let (full, with_space): (Vec<_>, Vec<_>) = dirs
            .iter()
            .zip(releasable)
            .partition(|(_, space)| space.is_some());
        let least = engine.least_row_bytes();
        // The data folder may be on one of the full disks: there it would take what is reserved.
        let is_usable = full.is_empty() || has_space(&*engine.options.vfs, &engine.dir, least);
        let mut reserves: Vec<_> = full
            .into_iter()
            .map(|(folder, space)| (folder, space.unwrap_or(0)))
            .collect();
        // What is reserved on a full disk is for removals, unless its share of all rows fits.
        loop {
            let count = reserves.len();
            reserves.retain(|(_, space)| least.div_ceil(count as u64) <= *space);
            if reserves.len() == count {
                break;
            }
        }
        let reserves = reserves.into_iter().map(|(folder, _)| folder.clone());
        let preferred = with_space.into_iter().map(|(folder, _)| folder.clone());
        Ok(PartFolders {
            preferred: preferred.collect(),
            data: is_usable.then_some(data),
            reserves: reserves.collect(),
        })
    }

    /// Whether there is none that parts are likely to fit into.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_part(0).next().is_none()
    }

    /// Where a part may be, the first choice first.
    pub(crate) fn of_part(&self, part: usize) -> impl Iterator<Item = &Folder> {
        let of_this_part = move |folders| beginning_at(folders, part);
        let preferred = of_this_part(&self.preferred);
        preferred
            .chain(&self.data)
            .chain(of_this_part(&self.reserves))
    }
}

/// All folders, beginning with the one that a part belongs to.
fn beginning_at(folders: &[Folder], part: usize) -> impl Iterator<Item = &Folder> {
    let count = folders.len();
    (part..part + count).map(move |at| &folders[at % count])
}

/// For each directory of logs whose disk is full, how much a checkpoint could use of the reserve
/// there; `None` for others.
fn releasable_of_full(log: &Log, dirs: &[Folder]) -> Vec<Option<u64>> {
    let ids: Vec<u64> = dirs.iter().map(|(id, _)| *id).collect();
    let (short, releasable) = (log.short_shards(), log.releasable_of_shards());
    let of_dir = |id: &u64| {
        let shards = 0..short.len();
        let shards: Vec<usize> = shards
            .filter(|shard| round_robin(&ids, *shard) == *id)
            .collect();
        let is_full = shards.iter().any(|shard| short[*shard]);
        is_full.then(|| shards.iter().map(|shard| releasable[*shard]).sum())
    };
    ids.iter().map(of_dir).collect()
}

/// Whether a disk has so much space beside what is reserved. A file system that cannot reserve any
/// is taken to have it.
fn has_space(vfs: &dyn Vfs, dir: &Path, bytes: u64) -> bool {
    // If it stays there, it is removed with the parts that an interrupted checkpoint leaves.
    let parent = dir.join("checkpoint");
    let path = parent.join("space.ckpt");
    let reserve = || -> std::io::Result<()> {
        vfs.create_dir_all(&parent)?;
        if vfs.exists(&path)? {
            vfs.remove(&path)?;
        }
        vfs.open(&path, OpenMode::CreateNew)?.allocate(0, bytes)
    };
    let reserved = reserve();
    let _ = vfs.remove(&path);
    !reserved.is_err_and(|error| is_disk_full(&error))
}

impl Engine {
    /// What the rows of all keyspaces in memory take in a checkpoint at least.
    pub(crate) fn least_row_bytes(&self) -> u64 {
        let spaces = self.spaces_in_memory();
        let rows: u64 = spaces.iter().map(|space| space.len()).sum();
        rows * LEAST_ROW_BYTES
    }
}
