//! A namespace of HBase as a database: each keyspace is a table of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use hedgerow::backend::{Absent, Backend, BackendKeyspace, Capability};
use hedgerow::{
    BackupReport, Commit, Durability, Error, Isolation, Locks, OldestSnapshot, Progress, Result,
    Statistics, WriteOptions,
};

use crate::capabilities;
use crate::cluster::{Cluster, HbaseOptions};
use crate::failure;
use crate::gateways::Gateways;
use crate::keyspace::{HbaseKeyspace, Replaced};
use crate::keyspace_table;
use crate::statistics::GatewayStatistics;
use crate::sweep::{Keyspaces, Sweeper};
use crate::table_name::TableName;
use crate::transaction::RowTransaction;
use crate::url::ClusterUrl;

/// A namespace of an HBase cluster, reached through Thrift2 gateways.
pub struct Hbase {
    cluster: Arc<Cluster>,
    url: ClusterUrl,
    /// The keyspaces that were opened, or found when this was.
    keyspaces: Keyspaces,
    _sweeper: Sweeper,
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
        if options.create {
            let ensured = calls.ensure_namespace(url.namespace());
            ensured.map_err(failure::of)?;
        } else if !calls
            .namespaces()
            .map_err(failure::of)?
            .contains(&url.namespace().to_owned())
        {
            return Err(Error::Backend(
                format!(
                    "there is no namespace {:?} in HBase; check the URL",
                    url.namespace()
                )
                .into(),
            ));
        }
        let cluster = Arc::new(Cluster::new(gateways, options));
        let keyspaces = Keyspaces::default();
        let db = Hbase {
            _sweeper: Sweeper::start(&cluster, &keyspaces)?,
            cluster,
            url: url.clone(),
            keyspaces,
        };
        db.find_keyspaces().map_err(failure::of)?;
        Ok(db)
    }

    /// Looks for tables that were made since, by others.
    fn find_keyspaces(&self) -> crate::error::Result<()> {
        let namespace = self.url.namespace();
        let tables = self
            .cluster
            .read(|calls| calls.tables_of_namespace(namespace))?;
        let mut known = self.known();
        for table in tables {
            let Some(name) = keyspace_table::keyspace_of(table.name()) else {
                continue;
            };
            known
                .entry(name.clone())
                .or_insert_with(|| HbaseKeyspace::new(Arc::clone(&self.cluster), &name, table));
        }
        Ok(())
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
    let purged = cluster.purged.load(Ordering::Relaxed) as f64;
    let help = "Rows that were taken away, as they had been removed or expired for long.";
    list.push("hbase_purged_rows_total", purged, help);
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

/// Checks whether a gateway is left that calls go to.
fn check_gateways(gateways: &[GatewayStatistics]) -> Result<()> {
    if gateways.iter().any(|gateway| gateway.is_healthy) {
        return Ok(());
    }
    let faults = gateways.iter().map(|gateway| {
        let why = gateway.why.as_deref().unwrap_or("it failed");
        format!("{}: {why}", gateway.address)
    });
    let faults: Vec<String> = faults.collect();
    let text = format!(
        "no HBase gateway can be used ({}); see that they run (hbase thrift2 start --framed) and \
         can be reached from here",
        faults.join(", ")
    );
    Err(Error::Backend(text.into()))
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
        self.split_keyspace(name, &[])
    }

    fn split_keyspace(&self, name: &str, keys: &[Vec<u8>]) -> Result<HbaseKeyspace> {
        if let Some(known) = self.known().get(name) {
            return Ok(known.clone());
        }
        let table = self.table_name(name)?;
        if !self.cluster.options.create {
            return Err(Error::KeyspaceMissing(name.to_owned()));
        }
        keyspace_table::ensure(&self.cluster, &table, keys)?;
        let keyspace = HbaseKeyspace::new(Arc::clone(&self.cluster), name, table);
        let mut known = self.known();
        Ok(known.entry(name.to_owned()).or_insert(keyspace).clone())
    }

    fn keyspaces(&self) -> Result<Vec<String>> {
        self.find_keyspaces().map_err(failure::of)?;
        Ok(self.known_keyspaces())
    }

    fn known_keyspaces(&self) -> Vec<String> {
        self.known().keys().cloned().collect()
    }

    fn clear_keyspace(&self, name: &str, options: &WriteOptions) -> Result<()> {
        let keyspace = self.keyspace(name)?;
        keyspace.delete_range_with(.., options).map(drop)
    }

    fn clear_keyspace_until(
        &self,
        name: &str,
        until_ms: u64,
        options: &WriteOptions,
        emptied: impl FnOnce(),
    ) -> Result<()> {
        let keyspace = self.keyspace(name)?;
        keyspace.remove_until(&(..), until_ms, options)?;
        emptied();
        Ok(())
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
            let mut transaction = RowTransaction::begin(keys, attempts.deadline())?;
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

    fn backup(&self, _: &Path) -> Result<BackupReport> {
        Err(capabilities::refusal(Capability::Backups))
    }

    fn check_health(&self) -> Result<()> {
        check_gateways(&self.cluster.gateways.statistics().gateways)
    }

    fn statistics(&self) -> Statistics {
        statistics(&self.cluster)
    }

    fn log_dirs(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::GatewayAddress;

    /// Gateways, and why those of them that are down are so.
    fn gateways(whys: [Option<&str>; 2]) -> Vec<GatewayStatistics> {
        let url: ClusterUrl = "hbase://one:1,other:2/test".parse().unwrap();
        let addresses = url.gateways().iter().zip(whys);
        let gateway = |(address, why): (&GatewayAddress, Option<&str>)| GatewayStatistics {
            address: address.clone(),
            is_healthy: why.is_none(),
            why: why.map(str::to_owned),
            failures: 0,
            open_connections: 0,
            idle_connections: 0,
        };
        addresses.map(gateway).collect()
    }

    #[test]
    fn a_cluster_is_out_of_reach_when_every_gateway_is() {
        for whys in [[None, None], [Some("refused"), None], [None, Some("slow")]] {
            assert!(check_gateways(&gateways(whys)).is_ok(), "{whys:?}");
        }
        let error = check_gateways(&gateways([Some("refused"), Some("slow")])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("one:1: refused, other:2: slow"), "{text}");
    }
}
