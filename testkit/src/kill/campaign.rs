//! The settings of a campaign of kills.

use std::path::PathBuf;

use hedgerow::IndexKind;

/// A campaign's settings.
#[derive(Debug, Clone)]
pub struct KillCampaign {
    /// The `hedgerow` binary.
    pub program: PathBuf,
    /// The data directory; must not exist or be empty.
    pub data: PathBuf,
    /// How often to kill.
    pub kills: usize,
    /// Concurrent connections that write.
    pub writers: usize,
    /// Seed of workloads and options; the moments of death are the machine's.
    pub seed: u64,
    /// The index of the database; `None`: any of those in memory.
    pub index: Option<IndexKind>,
    /// Keyspaces of all kinds of indexes beside each other, and transactions that change several.
    pub mixed: bool,
    /// Logs and checkpoints in directories beside `data`, others at each start.
    pub log_dirs: bool,
    /// Ten times as much data as memory, and a page file that grows and shrinks; for B-trees.
    pub under_pressure: bool,
    /// A disk without much space, on which `data` lies. It is filled in every other process run,
    /// and often freed again before the kill.
    pub small_disk: Option<PathBuf>,
    /// Whether files may not grow beyond some length in every other process run, which the server
    /// takes for a broken disk.
    pub limits_files: bool,
}

impl KillCampaign {
    /// Whether writers may write values that take much of the least memory of a B-tree, and much
    /// log, which a small disk has no space for.
    pub(super) fn has_room_for_large_values(&self) -> bool {
        let has_memory = self.mixed || self.index != Some(IndexKind::BTree);
        has_memory && self.small_disk.is_none()
    }
}
