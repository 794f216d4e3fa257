//! Where the parts of a checkpoint go: to the directories that new logs go to, by turns, but first
//! to those whose disks have space.

use std::path::PathBuf;

use hedgerow_log::{DATA_FOLDER, round_robin};

use crate::engine::Engine;
use crate::error::Result;

/// What a row of a checkpoint takes at least: timestamp, lengths, kind.
pub(crate) const LEAST_ROW_BYTES: u64 = 16;

/// A directory by its id, and its path.
pub(crate) type Folder = (u64, PathBuf);

/// The directories that a checkpoint's parts can be in.
pub(crate) struct PartFolders {
    /// For parts by turns.
    preferred: Vec<Folder>,
    /// Where those have no space after all, in this order.
    others: Vec<Folder>,
}

impl PartFolders {
    /// Those of a database as it is now.
    pub(crate) fn of(engine: &Engine) -> Result<PartFolders> {
        let listed = &engine.log_dirs;
        let data = (DATA_FOLDER, engine.dir.clone());
        if listed.is_empty() {
            return Ok(PartFolders {
                preferred: vec![data],
                others: Vec::new(),
            });
        }
        let log = engine.log()?;
        let shards = log.short_shards();
        let shards = shards.iter().enumerate();
        let short = shards.filter(|(_, is_short)| **is_short);
        let ids: Vec<u64> = listed.iter().map(|(id, _)| *id).collect();
        let short: Vec<u64> = short.map(|(shard, _)| round_robin(&ids, shard)).collect();
        let listed = listed.iter().cloned();
        let (full, preferred): (Vec<Folder>, Vec<Folder>) =
            listed.partition(|(id, _)| short.contains(id));
        // What is reserved on a full disk is for removals, unless all rows fit into it.
        let rows: u64 = engine
            .spaces_in_memory()
            .iter()
            .map(|space| space.len())
            .sum();
        let fits = rows * LEAST_ROW_BYTES <= log.spendable_bytes();
        let full = full.into_iter().filter(|_| fits);
        Ok(PartFolders {
            preferred,
            others: [data].into_iter().chain(full).collect(),
        })
    }

    /// Where a part may be, the first choice first.
    pub(crate) fn of_part(&self, part: usize) -> impl Iterator<Item = &Folder> {
        let count = self.preferred.len();
        let by_turns = (part..part + count).map(move |at| &self.preferred[at % count]);
        by_turns.chain(&self.others)
    }
}
