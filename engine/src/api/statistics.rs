//! Numbers about a running database, as one flat list: for metrics, `INFO` and JSON alike.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use hedgerow_index::StatisticsKind;
use hedgerow_log::{Health, Log};
use hedgerow_pages::PoolStatistics;

pub use hedgerow_index::{Statistic, Statistics};

use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::disk::page_roots::PAGE;
use crate::engine::{Counters, Engine};
use crate::error::Result;
use crate::index::kind::IndexKind;
use crate::versions::registry::Snapshots;

/// So many pages may be read by a walk that nobody waits for; and pages that are being made count
/// as live a moment before they count as resident.
const FEW_PAGES: u64 = 64;

impl Db {
    /// Numbers about keyspaces, memory, log, checkpoints and recovery. Cheap: nothing is walked.
    pub fn statistics(&self) -> Statistics {
        let engine = self.engine();
        let mut list = Statistics::new();
        let spaces = engine.spaces();
        let rows: u64 = spaces.iter().map(|space| space.len()).sum();
        list.push("keyspaces", spaces.len() as f64, "Keyspaces.");
        list.push(
            "rows",
            rows as f64,
            "Rows in all keyspaces, expired ones until swept.",
        );
        let expiring: u64 = spaces.iter().map(|space| space.expiring()).sum();
        list.push(
            "expiring_rows",
            expiring as f64,
            "Rows that have an expiry.",
        );
        let pool = engine.pages().map(|pages| pages.statistics());
        let resident = pool.map_or(0, |pool| pool.resident) as f64 * PAGE as f64;
        let reserved = hedgerow_memory::reserved_bytes() as f64 + resident;
        list.push(
            "memory_reserved_bytes",
            reserved,
            "Memory held for tree nodes, values and pages.",
        );
        let live = hedgerow_memory::live_bytes() as f64 + resident;
        list.push("memory_live_bytes", live, "Of that, in use.");
        let limit = match engine.pages() {
            Some(_) => engine.options.page_budget(),
            None => engine.options.memory_limit.unwrap_or(0),
        };
        list.push(
            "memory_limit_bytes",
            limit as f64,
            "Limit on memory in use; 0 for none.",
        );
        if let Some(pool) = &pool {
            push_pages(engine, pool, &mut list);
        }
        push_log(engine, &mut list);
        push_checkpoints(engine, &mut list);
        push_commits(&engine.counters, &mut list);
        push_snapshots(&engine.snapshots, &mut list);
        push_recovery(engine, &mut list);
        list
    }
}

fn push_pages(engine: &Engine, pool: &PoolStatistics, list: &mut Statistics) {
    let taken = match engine.options.memory_limit {
        Some(_) => engine.memory.taken(true),
        None => 0,
    };
    let budget = engine.options.page_budget().saturating_sub(taken) as f64;
    list.push("pages_budget_bytes", budget, "Memory that pages may take.");
    for (name, value, help) in [
        ("pages_resident", pool.resident, "Pages in memory."),
        (
            "pages_dirty",
            pool.dirty,
            "Of those, changed since they were written.",
        ),
        ("pages_live", pool.live, "Pages in use."),
        (
            "pages_file_bytes",
            pool.file_bytes,
            "Length of the page file.",
        ),
        ("pages_read_total", pool.reads, "Pages read from the file."),
        (
            "pages_read_batches_total",
            pool.read_batches,
            "Calls that read several of these together.",
        ),
        (
            "pages_written_total",
            pool.writes,
            "Pages written to the file.",
        ),
        (
            "pages_writes_total",
            pool.write_calls,
            "Writes that took: pages side by side in the file go with one.",
        ),
        (
            "pages_evicted_total",
            pool.evictions,
            "Pages whose memory was given back.",
        ),
        (
            "pages_clean_first_batches_total",
            pool.clean_first_batches,
            "Evictions that tried clean pages first, as the disk had just been full.",
        ),
        (
            "pages_saved_total",
            pool.saved,
            "Copies that a checkpoint needed of pages that were changed.",
        ),
        (
            "pages_wasted_writes_total",
            pool.wasted_writes,
            "Pages written in vain, since they were changed meanwhile.",
        ),
        (
            "pages_checkpoints_total",
            pool.checkpoints,
            "Checkpoints of the page file that were published.",
        ),
    ] {
        list.push(name, value as f64, help);
    }
}

fn push_log(engine: &Engine, list: &mut Statistics) {
    push_directories(engine, list);
    let Some(log) = &engine.log else { return };
    push_health(engine, log, list);
    let log_statistics = log.statistics();
    for (name, value, help) in [
        (
            "log_shards",
            log.shards() as u64,
            "Log files that are written in parallel.",
        ),
        ("log_epoch", log_statistics.epoch, "The current epoch."),
        (
            "log_durable_epoch",
            log_statistics.durable_epoch,
            "The newest epoch that is durable.",
        ),
        (
            "log_generation",
            log_statistics.generation.into(),
            "Log files since the last rotation.",
        ),
        (
            "log_generation_bytes",
            log_statistics.generation_bytes,
            "Log since the last rotation.",
        ),
        (
            "log_records_total",
            log_statistics.records,
            "Commits written to the log.",
        ),
        (
            "log_blocks_total",
            log_statistics.blocks,
            "Blocks written to the log.",
        ),
        (
            "log_bytes_total",
            log_statistics.bytes,
            "Bytes written to the log.",
        ),
        (
            "log_ahead_bytes_total",
            log_statistics.bytes_ahead,
            "Zeros written ahead of the log, so that its syncs take less.",
        ),
        (
            "log_syncs_total",
            log_statistics.syncs,
            "Syncs of log files.",
        ),
        (
            "log_group_commits_total",
            log_statistics.commits,
            "Epochs made durable.",
        ),
        (
            "log_disk_full_total",
            log_statistics.full_disk,
            "Times that the disk was found full.",
        ),
    ] {
        list.push(name, value as f64, help);
    }
}

fn push_directories(engine: &Engine, list: &mut Statistics) {
    let directories = engine.log_dirs.len();
    list.push(
        "log_directories",
        directories as f64,
        "Directories besides the data folder that logs and checkpoints go to.",
    );
}

fn push_health(engine: &Engine, log: &Log, list: &mut Statistics) {
    let health = match log.health() {
        _ if engine.broken.get().is_some() => 2.0,
        Health::Healthy => 0.0,
        Health::DiskFull => 1.0,
        Health::Poisoned(_) => 2.0,
    };
    list.push(
        "log_health",
        health,
        "0 healthy, 1 disk full, 2 stopped after a failure.",
    );
}

fn push_checkpoints(engine: &Engine, list: &mut Statistics) {
    let counters = &engine.counters;
    list.push(
        "checkpoints_damaged",
        engine.damaged.len() as f64,
        "Newest checkpoints that the opening found damaged, and did without.",
    );
    // What an earlier opening wrote is no checkpoint of this one.
    let bytes = counters.checkpoint_bytes.load(Relaxed);
    let (own, earlier) = match counters.checkpoints.load(Relaxed) {
        0 => (0, bytes),
        _ => (bytes, 0),
    };
    list.push(
        "checkpoint_bytes",
        own as f64,
        "Size of the last checkpoint since the opening; 0 if there was none.",
    );
    list.push(
        "recovered_checkpoint_bytes",
        earlier as f64,
        "Size of the checkpoint that the opening found, until there is a new one.",
    );
    push_counters(
        list,
        &[
            (
                "checkpoints_total",
                &counters.checkpoints,
                "Checkpoints taken since the opening.",
            ),
            (
                "checkpoint_failures_total",
                &counters.checkpoint_failures,
                "Checkpoints that failed.",
            ),
            (
                "checkpoints_kept",
                &counters.listed_checkpoints,
                "Checkpoints that are kept, for the case that the newest is damaged.",
            ),
            (
                "checkpoint_duration_ms",
                &counters.checkpoint_duration_ms,
                "How long it took.",
            ),
        ],
    );
}

fn push_commits(counters: &Counters, list: &mut Statistics) {
    push_counters(
        list,
        &[
            (
                "expired_rows_total",
                &counters.expired,
                "Rows removed after they had expired.",
            ),
            (
                "expired_rows_unreadable",
                &counters.unreadable,
                "Expired rows that stay, as a page cannot be read.",
            ),
            (
                "multi_key_commits_total",
                &counters.multi_commits,
                "Batches and transactions.",
            ),
            (
                "transactions_total",
                &counters.transactions,
                "Transactions that read at a snapshot, wrote, and committed.",
            ),
            (
                "transaction_conflicts_total",
                &counters.transaction_conflicts,
                "Of such transactions, those that another commit kept from committing.",
            ),
            (
                "transaction_retries_total",
                &counters.transaction_retries,
                "Runs of a transaction after a conflict, by Db::transaction.",
            ),
        ],
    );
}

fn push_snapshots(snapshots: &Snapshots, list: &mut Statistics) {
    let (open, transactions) = snapshots.count();
    let oldest = snapshots.oldest();
    for (name, value, help) in [
        ("snapshots", open as u64, "Open snapshots."),
        (
            "open_transactions",
            transactions as u64,
            "Open transactions that read at a snapshot.",
        ),
        (
            "oldest_snapshot_age_ms",
            oldest.map_or(0, |oldest| oldest.age.as_millis() as u64),
            "Age of the oldest of both; 0 if none is open.",
        ),
        (
            "snapshots_ended_total",
            snapshots.ended(),
            "Of both, those that were ended as versions took too much memory.",
        ),
        (
            "versions",
            snapshots.lists.versions() as u64,
            "Replaced and removed rows that are kept for both.",
        ),
        (
            "version_bytes",
            snapshots.lists.bytes() as u64,
            "Memory that these take.",
        ),
        (
            "version_limit_bytes",
            snapshots.limit_bytes() as u64,
            "The most that they may take.",
        ),
    ] {
        list.push(name, value as f64, help);
    }
}

fn push_recovery(engine: &Engine, list: &mut Statistics) {
    let counters = &engine.counters;
    list.push(
        "recovery_lost_records",
        engine.lost.records() as f64,
        "Records of the log that belong to pages that cannot be read.",
    );
    push_counters(
        list,
        &[
            (
                "recovered_records",
                &counters.recovered_records,
                "Records read at the last opening.",
            ),
            (
                "recovery_duration_ms",
                &counters.recovery_duration_ms,
                "How long that took.",
            ),
            (
                "recovery_batches",
                &counters.recovery_batches,
                "Batches in which the log was applied to the page file.",
            ),
            (
                "recovery_overwritten_records",
                &counters.recovery_overwritten,
                "Records of those that later ones replaced within a batch.",
            ),
            (
                "replayed_log_bytes",
                &counters.replayed_log_bytes,
                "Log of earlier openings, still needed.",
            ),
        ],
    );
}

fn push_counters(list: &mut Statistics, counters: &[(&'static str, &AtomicU64, &'static str)]) {
    for (name, value, help) in counters {
        list.push(name, value.load(Relaxed) as f64, help);
    }
}

impl Keyspace {
    /// Numbers about this keyspace's index: nodes by kind, bytes, fill, retries. Walks it all.
    pub fn index_statistics(&self) -> Result<Statistics> {
        Ok(self
            .space()?
            .index
            .as_dyn()
            .statistics(StatisticsKind::All)?)
    }

    /// Bytes of this keyspace's index with all rows: of memory, or for a B-tree of the pages in
    /// use. Walks it all, and so reads a B-tree's pages.
    ///
    /// # Errors
    /// As [`index_kind`](Self::index_kind), or a page cannot be read.
    pub fn index_bytes(&self) -> Result<u64> {
        let statistics = self.index_statistics()?;
        let number = |name| statistics.get(name).unwrap_or(0.0);
        Ok((number("bytes_per_key") * number("keys").max(1.0)).round() as u64)
    }

    /// Which tree this keyspace's index is.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), or the keyspace was dropped.
    pub fn index_kind(&self) -> Result<IndexKind> {
        Ok(self.space()?.index.kind())
    }

    /// Those numbers of [`index_statistics`](Self::index_statistics) that are counted as things
    /// happen: splits, merges, retries. Cheap: walks nothing.
    ///
    /// # Errors
    /// As [`index_kind`](Self::index_kind).
    pub fn index_counters(&self) -> Result<Statistics> {
        let space = self.space()?;
        Ok(space.index.as_dyn().statistics(StatisticsKind::Counters)?)
    }

    /// The [`index_statistics`](Self::index_statistics), for a database that is in use: `None`
    /// for a B-tree of which more than a few pages are not in memory, since a walk would read them
    /// all and evict what is in use. Costs a walk otherwise. Beside writers its sums are
    /// approximate.
    ///
    /// # Errors
    /// As [`index_kind`](Self::index_kind).
    pub fn index_statistics_in_memory(&self) -> Result<Option<Statistics>> {
        let space = self.space()?;
        let may_walk = match space.index.kind() {
            IndexKind::BTree => self.engine.pages().is_some_and(|pages| {
                let pool = pages.statistics();
                pool.live <= pool.resident + FEW_PAGES
            }),
            _ => true,
        };
        let index = space.index.as_dyn();
        let all = may_walk.then(|| index.statistics(StatisticsKind::All));
        Ok(all.transpose()?)
    }
}
