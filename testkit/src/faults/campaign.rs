//! The settings of a campaign of faults, and the database that it opens.

use std::sync::Arc;
use std::time::Duration;

use hedgerow::{Db, IndexKind, Keyspace, KeyspaceOptions};
use hedgerow_vfs::Vfs;

use crate::databases::builder_of;
use crate::pressure::LEAST_MEMORY;

pub(super) const DATA: &str = "/data";
/// What each log has reserved: some blocks.
const RESERVE_BYTES: u32 = 32 << 10;

/// A campaign's settings.
#[derive(Debug, Clone)]
pub struct FaultCampaign {
    /// Seed of the power cuts that follow each case.
    pub seed: u64,
    /// Runs every n-th case only: 1 for all.
    pub stride: usize,
    /// Which of `stride` cases to run: so campaigns can be divided.
    pub first: usize,
    /// Power cuts after each case.
    pub cuts: usize,
    /// The index of the database; `None` for the default one.
    pub index: Option<IndexKind>,
    /// Ten times as much data as memory, in a page file that grows and shrinks; for B-trees.
    pub under_pressure: bool,
    /// Half of the keys in a B-tree and half in memory, with commits that change both.
    pub mixed: bool,
    /// Logs and checkpoints in two directories besides the data folder.
    pub log_dirs: bool,
}

impl FaultCampaign {
    /// The keyspace that a key is in.
    pub(super) fn keyspace_of(&self, db: &Db, key: &[u8]) -> hedgerow::Result<Keyspace> {
        if !self.mixed {
            return db.keyspace("main");
        }
        let (name, index) = match key.last().is_some_and(|byte| byte % 2 == 1) {
            true => ("memory", IndexKind::Masstree),
            false => ("main", IndexKind::BTree),
        };
        db.keyspace_with(name, KeyspaceOptions { index: Some(index) })
    }
}

/// Opens the database of a campaign.
pub(super) fn open(vfs: Arc<dyn Vfs>, campaign: &FaultCampaign) -> hedgerow::Result<Db> {
    let index = match campaign.mixed {
        // The memory of B-trees would be a limit for indexes in memory, of all tests.
        true => None,
        false => campaign.index,
    };
    let builder = builder_of(index);
    let builder = match campaign.under_pressure {
        true => builder.memory_limit(Some(LEAST_MEMORY)),
        false => builder,
    };
    let builder = match campaign.log_dirs {
        true => builder.log_dirs(["/disk1", "/disk2"]),
        false => builder,
    };
    builder
        .vfs(vfs)
        .workers(2)
        .flush_interval(Duration::from_millis(2))
        // Little, so that disks are found full everywhere.
        .log_reserve_bytes(RESERVE_BYTES)
        .open(DATA)
}
