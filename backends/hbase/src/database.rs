//! A namespace of HBase as a database: each keyspace is a table of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow::backend::{Absent, Backend, BackendKeyspace, Capability};
use hedgerow::{
    Commit, Durability, Health, Isolation, Locks, OldestSnapshot, Progress, Result, Statistics,
    WriteOptions,
};

use crate::capabilities;
use crate::clock::Clock;
use crate::cluster::{Cluster, HbaseOptions};
use crate::failure;
use crate::gateways::Gateways;
use crate::keyspace::{HbaseKeyspace, Replaced};
use crate::keyspace_table;
use crate::purging::Purging;
use crate::table_name::TableName;
use crate::tombstones::Tombstones;
use crate::transaction::RowTransaction;
use crate::url::ClusterUrl;

/// A namespace of an HBase cluster, reached through Thrift2 gateways.
pub struct Hbase {
    cluster: Arc<Cluster>,
    url: ClusterUrl,
    /// The keyspaces that were opened, or found when this was.
    keyspaces: Mutex<BTreeMap<String, HbaseKeyspace>>,
    _purging: Purging,
}

impl std::fmt::Debug for Hbase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hbase")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Hbase {
    /// Reaches a cluster, and makes the namespace if there is none of its name.
    ///
    /// # Errors
    /// No gateway can be reached, or HBase refuses the namespace.
    pub fn open(url: &ClusterUrl, options: HbaseOptions) -> Result<Hbase> {
        let gateways = Gateways::new(url, options.gateways.clone()).map_err(failure::of)?;
        let calls = gateways.within(options.deadline);
        calls
            .ensure_namespace(url.namespace())
            .map_err(failure::of)?;
        let tables = calls
            .tables_of_namespace(url.namespace())
            .map_err(failure::of)?;
        let cluster = Arc::new(Cluster {
            gateways,
            clock: Clock::default(),
            writer: rand::random(),
            tombstones: Tombstones::new(options.keep_tombstones),
            is_unreachable: AtomicBool::new(false),
            options,
        });
        let purging = Purging::start(&cluster)?;
        let keyspaces = tables.into_iter().filter_map(|table| {
            let name = keyspace_table::keyspace_of(table.name())?;
            let keyspace = HbaseKeyspace::new(Arc::clone(&cluster), &name, table);
            Some((name, keyspace))
        });
        let keyspaces = Mutex::new(keyspaces.collect());
        Ok(Hbase {
            cluster,
            url: url.clone(),
            keyspaces,
            _purging: purging,
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, HbaseKeyspace>> {
        self.keyspaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn table_name(&self, keyspace: &str) -> Result<TableName> {
        let name = keyspace_table::name_of(keyspace)?;
        TableName::new(self.url.namespace(), &name).map_err(failure::of)
    }
}

/// The figures of the gateways, as those of a database.
fn statistics(cluster: &Cluster) -> Statistics {
    let counted = cluster.gateways.statistics();
    let healthy = counted
        .gateways
        .iter()
        .filter(|gateway| gateway.is_healthy)
        .count();
    let open: usize = counted
        .gateways
        .iter()
        .map(|gateway| gateway.open_connections)
        .sum();
    let mut list = Statistics::new();
    let waiting = cluster.tombstones.len() as f64;
    list.push(
        "hbase_tombstones",
        waiting,
        "Removed rows whose tombstones wait for their end.",
    );
    for (name, value, help) in [
        (
            "hbase_gateways",
            counted.gateways.len() as u64,
            "Thrift2 gateways of the URL.",
        ),
        (
            "hbase_gateways_healthy",
            healthy as u64,
            "Those that calls go to.",
        ),
        (
            "hbase_connections",
            open as u64,
            "Open connections to gateways.",
        ),
        ("hbase_calls_total", counted.calls, "Calls to gateways."),
        (
            "hbase_failures_total",
            counted.failures,
            "Calls that failed or were refused.",
        ),
        (
            "hbase_unknown_outcomes_total",
            counted.unknown_outcomes,
            "Writes of which it is unknown whether they happened.",
        ),
        (
            "hbase_retries_total",
            counted.retries,
            "Calls that were sent again.",
        ),
        (
            "hbase_failovers_total",
            counted.failovers,
            "Calls that went to another gateway.",
        ),
        (
            "hbase_connections_opened_total",
            counted.connections_opened,
            "Connections opened to gateways.",
        ),
    ] {
        list.push(name, value as f64, help);
    }
    list
}

impl Backend for Hbase {
    type Keyspace = HbaseKeyspace;
    type Transaction<'a> = RowTransaction<'a>;
    type Interactive = Absent;
    type Snapshot = Absent;

    const IS_REMOTE: bool = true;

    fn name(&self) -> &'static str {
        "hbase"
    }

    fn promise(&self, durability: Durability) -> String {
        match durability {
            Durability::Sync => "acknowledged writes are synced to disk by HBase (FSYNC_WAL)",
            Durability::Periodic => {
                "acknowledged writes are in the memory of all of HBase's log writers (SYNC_WAL)"
            }
            Durability::None => {
                "acknowledged writes are in the memory of one region server (ASYNC_WAL)"
            }
        }
        .to_owned()
    }

    fn lacks(&self, capability: Capability) -> Option<&'static str> {
        capabilities::because(capability)
    }

    fn keyspace(&self, name: &str) -> Result<HbaseKeyspace> {
        if let Some(known) = self.known().get(name) {
            return Ok(known.clone());
        }
        let table = self.table_name(name)?;
        keyspace_table::ensure(&self.cluster, &table)?;
        let keyspace = HbaseKeyspace::new(Arc::clone(&self.cluster), name, table);
        let mut known = self.known();
        Ok(known.entry(name.to_owned()).or_insert(keyspace).clone())
    }

    fn keyspaces(&self) -> Vec<String> {
        self.known().keys().cloned().collect()
    }

    fn clear_keyspace(&self, name: &str) -> Result<()> {
        let keyspace = self.keyspace(name)?;
        keyspace
            .delete_range_with(.., &WriteOptions::default())
            .map(drop)
    }

    fn default_index(&self) -> &'static str {
        "hbase"
    }

    fn transact<R>(
        &self,
        locks: Locks<'_, HbaseKeyspace>,
        options: &WriteOptions,
        mut work: impl FnMut(&mut RowTransaction<'_>) -> Result<R>,
    ) -> Result<(R, Commit)> {
        let Locks::Keys(keys) = locks else {
            return Err(capabilities::refusal(Capability::SeveralRows));
        };
        let mut attempts = self.cluster.attempts();
        loop {
            let mut transaction = RowTransaction::begin(keys)?;
            let result = work(&mut transaction)?;
            match transaction.end(options)? {
                None => return Ok((result, Commit::NOTHING)),
                Some(Replaced::Done(commit)) => return Ok((result, commit)),
                Some(Replaced::Overtaken) => {
                    attempts.again(keys.first().map_or(&[][..], |(_, key)| key))?;
                }
            }
        }
    }

    fn begin(&self, _: Isolation) -> Result<Absent> {
        Err(capabilities::refusal(Capability::InteractiveTransactions))
    }

    fn snapshot_named(&self, _: &str) -> Result<Absent> {
        Err(capabilities::refusal(Capability::Snapshots))
    }

    fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        None
    }

    fn is_volatile(&self) -> bool {
        false
    }

    fn keeps_writes_back(&self) -> bool {
        false
    }

    fn write_out(&self) -> Result<()> {
        Ok(())
    }

    fn request_durable(&self, _: &Commit) {}

    fn durable_epoch(&self) -> u64 {
        u64::MAX
    }

    fn is_durable(&self, _: &Commit) -> bool {
        true
    }

    fn poll_durable(&self, _: &Commit) -> Result<bool> {
        Ok(true)
    }

    fn subscribe_durable(&self, _: Box<dyn Fn(Progress) + Send + Sync>) {}

    fn checkpoint(&self) -> Result<()> {
        Err(capabilities::refusal(Capability::Checkpoints))
    }

    fn health(&self) -> Health {
        Health::Healthy
    }

    fn statistics(&self) -> Statistics {
        statistics(&self.cluster)
    }

    fn log_dirs(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}
