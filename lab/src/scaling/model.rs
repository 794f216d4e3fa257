//! The arithmetic of scaling, and what it assumes.
//!
//! Every role is taken to be limited by its processors, and to need the same processor time for an
//! operation as on the measured machine. What is not limited by processors (connections, the table
//! of regions, sessions, failures) is counted beside.

use super::constants::Route;
use crate::{LabError, Result};

/// What the model assumes; each can be changed on the command line.
#[derive(Debug, Clone, Copy, PartialEq, clap::Args)]
pub struct Assumptions {
    /// Cores of each machine, each as fast as one of the measured machine.
    #[arg(long, default_value_t = 16.0)]
    pub cores: f64,
    /// The share of its processors that a role may use on average.
    #[arg(long, default_value_t = 0.5)]
    pub utilisation: f64,
    /// An exchange of a request and a reply between two machines of a data centre, beyond one on
    /// loopback, in microseconds.
    #[arg(long, default_value_t = 100.0)]
    pub round_trip_us: f64,
    /// Exchanges, one inside the other, until a log entry is on all three of HDFS's data nodes, of
    /// which the first is local.
    #[arg(long, default_value_t = 2.0)]
    pub log_exchanges: f64,
    /// Bytes of a row of 1,000 bytes in ten fields: each cell repeats row key, family and name.
    #[arg(long, default_value_t = 1600.0)]
    pub row_bytes: f64,
    /// Bytes of a region, before it splits (`hbase.hregion.max.filesize`).
    #[arg(long, default_value_t = 10.0 * GIB)]
    pub region_bytes: f64,
    /// Regions of a server; HBase's book advises 20 to 200.
    #[arg(long, default_value_t = 100.0)]
    pub regions: f64,
    /// Regions that one lookup in the table of regions (`hbase:meta`) brings to a gateway: the one
    /// that it asked for.
    #[arg(long, default_value_t = 1.0)]
    pub regions_of_lookup: f64,
    /// Processor time of such a lookup in microseconds.
    #[arg(long, default_value_t = 200.0)]
    pub lookup_us: f64,
    /// Connections of a Hedgerow server to each gateway that its URL names.
    #[arg(long, default_value_t = 8.0)]
    pub connections: f64,
    /// Connections that a gateway serves at once (`hbase.thrift.maxWorkerThreads`).
    #[arg(long, default_value_t = 1000.0)]
    pub gateway_threads: f64,
    /// Failures of a machine in a year.
    #[arg(long, default_value_t = 1.0)]
    pub failures_a_year: f64,
    /// Seconds from the death of a region server until its rows are served again.
    #[arg(long, default_value_t = 30.0)]
    pub recovery_s: f64,
    /// Keys of a batch whose calls are joined by region server.
    #[arg(long, default_value_t = 64.0)]
    pub batch: f64,
}

const GIB: f64 = (1_u64 << 30) as f64;

/// The exponent of YCSB's Zipf distribution.
const ALPHA: f64 = 0.99;

impl Assumptions {
    /// Refuses numbers of which nothing can be computed.
    ///
    /// # Errors
    ///
    /// Names the first.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("cores", self.cores),
            ("utilisation", self.utilisation),
            ("row-bytes", self.row_bytes),
            ("region-bytes", self.region_bytes),
            ("regions", self.regions),
            ("regions-of-lookup", self.regions_of_lookup),
            ("connections", self.connections),
            ("batch", self.batch),
        ];
        let not_negative = [
            ("round-trip-us", self.round_trip_us),
            ("log-exchanges", self.log_exchanges),
            ("lookup-us", self.lookup_us),
            ("gateway-threads", self.gateway_threads),
            ("failures-a-year", self.failures_a_year),
            ("recovery-s", self.recovery_s),
        ];
        let wrong = positive
            .iter()
            .find(|(_, number)| !(number.is_finite() && *number > 0.0))
            .or_else(|| {
                let mut others = not_negative.iter();
                others.find(|(_, number)| !(number.is_finite() && *number >= 0.0))
            });
        if let Some((name, number)) = wrong {
            return Err(LabError::Usage(format!("--{name} {number} makes no sense")));
        }
        match self.utilisation < 1.0 {
            true => Ok(()),
            false => Err(LabError::Usage("--utilisation must be below 1".to_owned())),
        }
    }

    /// Operations a second of a machine of a role that takes so long for each.
    fn rate(&self, each_us: f64) -> f64 {
        self.cores * self.utilisation * 1e6 / each_us
    }
}

/// What is the same whatever operations take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// Region servers.
    pub servers: f64,
    /// Regions of all.
    pub regions: f64,
    /// Rows of all.
    pub rows: f64,
    /// The share of operations that go to the most popular row under YCSB's distribution.
    pub hottest_row: f64,
    /// The share of operations that wait while one server is recovered, keys being uniform.
    pub one_server: f64,
    /// Failures of region servers in a day.
    pub failures_a_day: f64,
    /// Region servers that a batch has to ask, keys being uniform.
    pub servers_of_batch: f64,
}

impl Cluster {
    /// A cluster of full servers.
    pub fn new(servers: f64, assumptions: &Assumptions) -> Self {
        let regions = servers * assumptions.regions;
        let rows = regions * assumptions.region_bytes / assumptions.row_bytes;
        Self {
            servers,
            regions,
            rows,
            hottest_row: 1.0 / harmonic(rows, ALPHA),
            one_server: 1.0 / servers,
            failures_a_day: servers * assumptions.failures_a_year / 365.0,
            servers_of_batch: servers * (1.0 - (1.0 - 1.0 / servers).powf(assumptions.batch)),
        }
    }
}

/// What a route does on a cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    /// Operations a second, keys being uniform.
    pub uniform: f64,
    /// Operations a second under YCSB's distribution, where one server holds the hottest row.
    pub skewed: f64,
    /// Machines for Hedgerow, at `uniform`.
    pub hedgerow_machines: f64,
    /// Machines for gateways, at `uniform`.
    pub gateway_machines: f64,
    /// Microseconds of an operation, at the assumed utilisation.
    pub latency_us: f64,
    /// Operations under way at once, at `uniform`.
    pub under_way: f64,
    /// Connections of each gateway machine, if each Hedgerow server names all gateways.
    pub connections: f64,
    /// Gateways that a Hedgerow server may name, so that none has more connections than threads.
    pub gateways_of_server: f64,
    /// Sessions of ZooKeeper: region servers, gateways, two masters.
    pub sessions: f64,
    /// Seconds of the server of `hbase:meta` until all gateways know all regions.
    pub warm_up_s: f64,
}

impl Projection {
    /// Of a route on a cluster.
    pub fn new(route: &Route, cluster: &Cluster, assumptions: &Assumptions) -> Self {
        let of_server = assumptions.rate(route.region_server_us);
        let uniform = cluster.servers * of_server;
        let hottest = cluster.hottest_row + (1.0 - cluster.hottest_row) / cluster.servers;
        let machines = |each_us: f64| uniform / assumptions.rate(each_us);
        let hedgerow_machines = machines(route.server_us);
        let gateway_machines = machines(route.gateway_us);
        let latency_us = latency_us(route, assumptions);
        // Gateways locate regions; without them the clients do, of which nothing is said.
        let lookups = gateway_machines * cluster.regions / assumptions.regions_of_lookup;
        let connections = hedgerow_machines * assumptions.connections;
        let share = assumptions.gateway_threads / connections.max(1.0);
        Self {
            uniform,
            skewed: of_server / hottest,
            hedgerow_machines,
            gateway_machines,
            latency_us,
            under_way: uniform * latency_us / 1e6,
            connections,
            gateways_of_server: (share * gateway_machines).min(gateway_machines),
            sessions: cluster.servers + gateway_machines + 2.0,
            warm_up_s: lookups / assumptions.rate(assumptions.lookup_us),
        }
    }
}

/// What one client waited on one machine, with exchanges between machines, the log's copies, and
/// the queues before busy processors (as of M/M/1, which many cores undercut).
fn latency_us(route: &Route, assumptions: &Assumptions) -> f64 {
    let work = route.server_us + route.gateway_us + route.region_server_us;
    let queued = work * assumptions.utilisation / (1.0 - assumptions.utilisation);
    let exchanges = route.exchanges + route.logged * assumptions.log_exchanges;
    route.one_client_us + exchanges * assumptions.round_trip_us + queued
}

/// The sum of k^-α over the ranks 1 to n: the first thousand, and an integral for the rest.
fn harmonic(n: f64, alpha: f64) -> f64 {
    let counted = n.clamp(1.0, 1000.0).floor();
    let first: f64 = (1..=counted as u64).map(|k| (k as f64).powf(-alpha)).sum();
    let integral = |x: f64| x.powf(1.0 - alpha) / (1.0 - alpha);
    first + (integral(n.max(counted) + 0.5) - integral(counted + 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMPTIONS: Assumptions = Assumptions {
        cores: 10.0,
        utilisation: 0.5,
        round_trip_us: 100.0,
        log_exchanges: 2.0,
        row_bytes: 1000.0,
        region_bytes: 1e9,
        regions: 50.0,
        regions_of_lookup: 10.0,
        lookup_us: 100.0,
        connections: 8.0,
        gateway_threads: 100.0,
        failures_a_year: 3.65,
        recovery_s: 30.0,
        batch: 2.0,
    };

    const ROUTE: Route = Route {
        contender: "someone",
        server_us: 50.0,
        gateway_us: 200.0,
        region_server_us: 100.0,
        one_client_us: 1000.0,
        exchanges: 4.0,
        logged: 0.5,
    };

    fn is_near(number: f64, expected: f64) -> bool {
        (number / expected - 1.0).abs() < 1e-3
    }

    #[test]
    fn sums_of_powers_are_as_if_added_up() {
        let added = |n: u64| (1..=n).map(|k| (k as f64).powf(-ALPHA)).sum::<f64>();
        for n in [1, 7, 1000, 1001, 200_000] {
            assert!(is_near(harmonic(n as f64, ALPHA), added(n)), "{n}");
        }
    }

    #[test]
    fn a_cluster_grows_with_its_servers_but_its_hottest_row_hardly_cools() {
        let [small, large] = [10.0, 1000.0].map(|n| Cluster::new(n, &ASSUMPTIONS));
        assert_eq!((small.regions, small.rows), (500.0, 5e8));
        assert!(is_near(small.failures_a_day, 0.1));
        assert_eq!(small.one_server, 0.1);
        // Two keys are on one server of ten with a probability of a tenth.
        assert!(is_near(small.servers_of_batch, 1.9));
        let cooler = small.hottest_row / large.hottest_row;
        assert!((1.1..1.3).contains(&cooler), "{cooler}");
    }

    #[test]
    fn machines_follow_from_processor_time() {
        let cluster = Cluster::new(10.0, &ASSUMPTIONS);
        let projection = Projection::new(&ROUTE, &cluster, &ASSUMPTIONS);
        // Five cores' time, at 100 µs for each operation.
        assert!(is_near(projection.uniform, 10.0 * 50_000.0));
        assert!(is_near(projection.hedgerow_machines, 5.0));
        assert!(is_near(projection.gateway_machines, 20.0));
        // 1000 + (4 + 0.5 · 2) · 100 + 350 · 0.5 / 0.5
        assert!(is_near(projection.latency_us, 1850.0));
        assert!(is_near(projection.under_way, 925.0));
        assert!(is_near(projection.connections, 40.0));
        assert!(is_near(projection.gateways_of_server, 20.0));
        assert!(is_near(projection.sessions, 32.0));
        // 20 gateways · 500 regions / 10, at 50,000 a second.
        assert!(is_near(projection.warm_up_s, 0.02));
    }

    #[test]
    fn a_hot_row_bounds_what_servers_add() {
        let at = |servers| {
            let cluster = Cluster::new(servers, &ASSUMPTIONS);
            Projection::new(&ROUTE, &cluster, &ASSUMPTIONS)
        };
        let one = at(1.0);
        assert!(is_near(one.skewed, one.uniform), "one server has all rows");
        let bound = one.uniform / Cluster::new(1000.0, &ASSUMPTIONS).hottest_row;
        assert!(at(1000.0).skewed < bound && at(1000.0).skewed > 0.9 * bound);
        assert!(at(1000.0).uniform > 10.0 * at(1000.0).skewed);
    }

    #[test]
    fn servers_name_fewer_gateways_where_connections_are_too_many() {
        let cluster = Cluster::new(100.0, &ASSUMPTIONS);
        let projection = Projection::new(&ROUTE, &cluster, &ASSUMPTIONS);
        assert!(is_near(projection.connections, 400.0));
        // A quarter of 200.
        assert!(is_near(projection.gateways_of_server, 50.0));
    }

    #[test]
    fn numbers_of_which_nothing_follows_are_refused() {
        assert!(ASSUMPTIONS.check().is_ok());
        for wrong in [
            Assumptions {
                cores: 0.0,
                ..ASSUMPTIONS
            },
            Assumptions {
                utilisation: 1.0,
                ..ASSUMPTIONS
            },
            Assumptions {
                batch: f64::NAN,
                ..ASSUMPTIONS
            },
            Assumptions {
                row_bytes: -1.0,
                ..ASSUMPTIONS
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
