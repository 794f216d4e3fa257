//! YCSB's core workloads on rows that live in HBase: through Hedgerow, by HBase's own Java client,
//! and beside both through Hedgerow with its own storage.
//!
//! A round loads all records into an empty table, reads some, and then does each workload twice, by
//! one client and by all; once where one client is all. Every contender gets the same lists of
//! operations; a client has one operation under way. All processes share the machine: clients,
//! Hedgerow, two gateways, two region servers, master and ZooKeeper. So beside the clock's figures
//! stands the processor time of each role for an operation, which does not depend on how many
//! others share the processors.
//!
//! The table has one region, and so one of the two region servers works. HBase's log is flushed to
//! the kernel, as Hedgerow's with `--durability periodic` is: both survive a kill, not a power cut.
//!
//! YCSB's own bindings for HBase are not on Maven Central (its `core` is, without any store), so a
//! small Java program does what they do.

use std::net::SocketAddr;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hedgerow_lab_contender::{Entry, Promises, Unavailable};
use hedgerow_lab_data::Keys;
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, Measured};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cluster::{Cluster, ROLES};
use super::java_client::{JavaClient, is_available};
use super::operations::{Course, Lists, Phase, Played};
use super::resp_client;
use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Row, Settings, Stage,
};
use crate::machine::cpu_seconds_of;
use crate::process::Server;
use crate::registry::Registry;
use crate::servers::own_program;
use crate::{LabError, Result};

/// HBase's own client.
pub const JAVA: &str = "HBase's Java client";

/// Hedgerow before a cluster.
pub const ON_HBASE: &str = "hedgerow on HBase";

/// Hedgerow by itself.
pub const OWN_STORAGE: &str = "hedgerow, own storage";

/// The experiment.
pub struct Ycsb;

/// What a round does.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    records: usize,
    clients: usize,
    /// The most operations of a phase.
    operations: usize,
    /// The most seconds of a phase.
    seconds: f64,
}

impl Workload {
    /// A job's, short where it is to verify: clients check every reply in any run.
    fn of(job: &Job) -> Result<Self> {
        let mut workload: Self = job.workload()?;
        if job.stage == Stage::Verify {
            workload.records = workload.records.min(200);
            workload.operations = workload.operations.min(100);
        }
        Ok(workload)
    }
}

impl Experiment for Ycsb {
    fn about(&self) -> About {
        About {
            name: "scale/hbase",
            title: "YCSB A to F on HBase: Hedgerow beside HBase's own client",
            source: "Cooper et al., SoCC 2010 (YCSB), core workloads A to F",
            claim: "On six servers Cassandra and HBase read with higher latencies than PNUTS and \
                    sharded MySQL, and update with lower ones.",
            x_label: Some("workload"),
            x_log: false,
            baseline: JAVA,
            here: Some(
                "One machine for clients, gateways and region servers; no HDFS, no network, data \
                 in memory.",
            ),
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let cluster = Cluster::here();
        let promises = Promises {
            ordered: true,
            concurrent: true,
            durable: true,
            variable_keys: true,
            longest_key: Some(32_000),
            keys_only: false,
        };
        let version = cluster.as_ref().ok().and_then(Cluster::version);
        let java = Entry {
            name: JAVA,
            version: version.unwrap_or_else(|| "not found".to_owned()),
            origin: "Maven Central: hbase-client",
            promises,
        };
        let on_cluster = |check: fn(&Cluster) -> std::result::Result<(), Unavailable>| {
            cluster.as_ref().map_err(Clone::clone).and_then(check)
        };
        let own_storage = own_program().map(drop);
        [
            (java, on_cluster(is_available)),
            (own(ON_HBASE, promises), on_cluster(has_backend)),
            (own(OWN_STORAGE, promises), own_storage),
        ]
        .map(|(entry, available)| Participant {
            entry,
            available,
            environment: Vec::new(),
        })
        .into()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(200, 100_000, 1_000_000);
        let connections = settings.connections(&[2], &[16], &[64]);
        let seconds = settings.scale.pick(0.05, 2.0, 60.0);
        let operations = settings.scale.pick(200, 400_000, 4_000_000);
        let processes = match Cluster::here() {
            Ok(cluster) if cluster.is_for_measuring() => "to be measured",
            Ok(_) => "for tests, not to be measured",
            Err(_) => "none",
        };
        let point = |clients: usize| {
            let workload = Workload {
                records,
                clients,
                operations,
                seconds,
            };
            Ok(Point {
                parameters: [
                    ("records".to_owned(), records.into()),
                    ("clients".to_owned(), clients.into()),
                    ("HBase's processes".to_owned(), processes.into()),
                ]
                .into(),
                x: None,
                contenders: vec![JAVA, ON_HBASE, OWN_STORAGE],
                need: need(records, seconds),
                verified_by: Value::Null,
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        };
        connections.into_iter().map(point).collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload = Workload::of(job)?;
        match job.contender.as_str() {
            OWN_STORAGE => measure(&mut OverResp::own_storage()?, &workload),
            name => {
                let cluster = Cluster::here().map_err(|error| LabError::unavailable(&error))?;
                let namespace = Namespace::new(&cluster);
                match name {
                    JAVA => measure(&mut ByJava::start(&namespace)?, &workload),
                    ON_HBASE => measure(&mut OverResp::on_hbase(&namespace)?, &workload),
                    other => Err(LabError::Usage(format!("{other} takes no part here"))),
                }
            }
        }
    }
}

fn need(records: usize, seconds: f64) -> Need {
    let phases = 13.0;
    Need {
        memory_bytes: records as u64 * 8000 + (1 << 30),
        disk_bytes: records as u64 * 8000 + (256 << 20),
        shared_seconds: 5.0 + phases * seconds,
        own_seconds: records as f64 * 3e-4,
        verify_seconds: 10.0,
    }
}

/// Whether the program beside this one was built to serve rows in HBase.
fn has_backend(cluster: &Cluster) -> std::result::Result<(), Unavailable> {
    let program = own_program()?;
    // A namespace with a dot is refused by those who know what it is.
    let output = Command::new(&program)
        .args(["serve", "--backend", &cluster.url("no.namespace")])
        .args([
            "--resp",
            "127.0.0.1:0",
            "--memcached",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
        ])
        .output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    match said {
        Ok(said) if !said.contains("--features hbase") => Ok(()),
        _ => Err(Unavailable {
            why: "hedgerow was built without its backend for HBase".to_owned(),
            remedy: "cargo build --release -p hedgerow-cli --features hbase".to_owned(),
        }),
    }
}

/// A namespace of the cluster for one round; dropped with its tables.
struct Namespace<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl<'a> Namespace<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = now.map_or(0, |now| now.as_millis());
        let name = format!("lab{}x{ms}", std::process::id());
        Self { cluster, name }
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        let dropped = JavaClient::start(self.cluster);
        let dropped = dropped.and_then(|mut java| java.drop_namespace(&self.name));
        if let Err(error) = dropped {
            eprintln!("the namespace {} stays in HBase: {error}", self.name);
        }
    }
}

/// Someone who does operations.
trait Asked {
    /// Takes what [`play`](Self::play) is to do.
    fn prepare(&mut self, keys: &Keys, lists: &Lists) -> Result<()>;

    /// Does it, for so long at most.
    fn play(&mut self, keys: &Keys, lists: &Lists, limit: Option<Duration>) -> Result<Played>;

    /// The processes of each role.
    fn processes(&self) -> Vec<(&'static str, Vec<u32>)>;
}

/// HBase's own client.
struct ByJava<'a> {
    cluster: &'a Cluster,
    java: JavaClient,
}

impl<'a> ByJava<'a> {
    fn start(namespace: &Namespace<'a>) -> Result<Self> {
        let cluster = namespace.cluster;
        let mut java = JavaClient::start(cluster)?;
        java.create(&namespace.name)?;
        Ok(Self { cluster, java })
    }
}

impl Asked for ByJava<'_> {
    fn prepare(&mut self, keys: &Keys, lists: &Lists) -> Result<()> {
        self.java.read(keys, lists)
    }

    fn play(&mut self, _: &Keys, _: &Lists, limit: Option<Duration>) -> Result<Played> {
        self.java.play(limit)
    }

    fn processes(&self) -> Vec<(&'static str, Vec<u32>)> {
        let servers = ROLES[1].0;
        vec![
            ("client", vec![self.java.id()]),
            (servers, self.cluster.ids(servers)),
        ]
    }
}

/// Hedgerow, by Redis's protocol.
struct OverResp<'a> {
    server: Server,
    cluster: Option<&'a Cluster>,
}

impl<'a> OverResp<'a> {
    fn on_hbase(namespace: &Namespace<'a>) -> Result<Self> {
        let cluster = namespace.cluster;
        let url = cluster.url(&namespace.name);
        let server = serve(|_| vec!["--backend".to_owned(), url])?;
        let cluster = Some(cluster);
        Ok(Self { server, cluster })
    }

    fn own_storage() -> Result<Self> {
        let server = serve(|folder| vec!["--data".to_owned(), folder.to_owned()])?;
        let cluster = None;
        Ok(Self { server, cluster })
    }
}

/// Starts Hedgerow with as many workers as it takes by itself.
fn serve(rows_in: impl FnOnce(&str) -> Vec<String>) -> Result<Server> {
    let program = own_program().map_err(|error| LabError::unavailable(&error))?;
    Server::start(&program, None, |folder, address: SocketAddr| {
        let rest = format!(
            "--durability periodic --http 127.0.0.1:0 --resp {address} --memcached 127.0.0.1:0"
        );
        let data = folder.join("data").display().to_string();
        let words = ["serve".to_owned()].into_iter().chain(rows_in(&data));
        Ok(words.chain(rest.split(' ').map(str::to_owned)).collect())
    })
}

impl Asked for OverResp<'_> {
    fn prepare(&mut self, _: &Keys, _: &Lists) -> Result<()> {
        Ok(())
    }

    fn play(&mut self, keys: &Keys, lists: &Lists, limit: Option<Duration>) -> Result<Played> {
        resp_client::play(self.server.address(), keys, lists, limit)
    }

    fn processes(&self) -> Vec<(&'static str, Vec<u32>)> {
        let own = [
            ("client", vec![std::process::id()]),
            ("server", vec![self.server.id()]),
        ];
        let roles = self.cluster.iter();
        let roles = roles.flat_map(|cluster| ROLES.map(|(role, _)| (role, cluster.ids(role))));
        own.into_iter().chain(roles).collect()
    }
}

/// Loads all records and does every phase.
fn measure(asked: &mut dyn Asked, workload: &Workload) -> Result<Answer> {
    let course = Course::new(workload.records, workload.clients, workload.operations)?;
    let limit = Duration::from_secs_f64(workload.seconds);
    let mut rows = Vec::new();
    asked.prepare(&course.keys, &course.load)?;
    let load = play(asked, &course.keys, &course.load, None)?;
    rows.push(row("load", figures(&load)));
    asked.prepare(&course.keys, &course.warm_up)?;
    asked.play(&course.keys, &course.warm_up, Some(limit / 2))?;
    for Phase {
        workload,
        by_all,
        lists,
    } in &course.phases
    {
        asked.prepare(&course.keys, lists)?;
        let spent = play(asked, &course.keys, lists, Some(limit))?;
        // One client may be all of them.
        if lists.len() == 1 {
            rows.push(row(workload, figures_of_one(&spent.played)));
        }
        if *by_all {
            rows.push(row(workload, figures(&spent)));
        }
    }
    Ok(Answer {
        rows: joined(rows),
        ..Answer::default()
    })
}

/// What a phase took.
struct Spent {
    played: Played,
    /// Processor time of each role in seconds.
    roles: Vec<(&'static str, f64)>,
}

fn play(
    asked: &mut dyn Asked,
    keys: &Keys,
    lists: &Lists,
    limit: Option<Duration>,
) -> Result<Spent> {
    let roles = asked.processes();
    let now = || -> Vec<f64> {
        let roles = roles.iter();
        roles
            .map(|(_, ids)| ids.iter().map(|id| cpu_seconds_of(*id)).sum())
            .collect()
    };
    let before = now();
    let played = asked.play(keys, lists, limit)?;
    let spent = now()
        .into_iter()
        .zip(before)
        .map(|(after, before)| after - before);
    let names = roles.iter().map(|(name, _)| *name);
    Ok(Spent {
        played,
        roles: names.zip(spent).collect(),
    })
}

/// The columns of a phase by all clients.
fn figures(spent: &Spent) -> Vec<Measured> {
    let Spent { played, roles } = spent;
    let mut answer = Answer::default();
    let rate = played.operations as f64 / played.seconds.max(1e-9);
    answer.push("operations", "/s", Better::Higher, rate);
    times(&mut answer, "", played);
    let each = 1e6 / played.operations.max(1) as f64;
    let mut processor_time = |role: &str, seconds: f64| {
        let column = format!("processor time, {role}");
        answer.push(&column, "µs/operation", Better::Lower, seconds * each);
    };
    for (role, seconds) in roles {
        processor_time(role, *seconds);
    }
    let all: f64 = roles.iter().map(|(_, seconds)| seconds).sum();
    processor_time("all", all);
    let processors = available_parallelism().map_or(1, usize::from) as f64;
    let busy = 100.0 * all / played.seconds.max(1e-9) / processors;
    answer.push("processors busy", "%", Better::Lower, busy);
    answer.figures
}

/// The columns of a phase by one client.
fn figures_of_one(played: &Played) -> Vec<Measured> {
    let mut answer = Answer::default();
    times(&mut answer, "one client: ", played);
    answer.figures
}

fn times(answer: &mut Answer, prefix: &str, played: &Played) {
    for (column, us) in [
        ("mean", played.mean_us),
        ("p50", played.p50_us),
        ("p95", played.p95_us),
        ("p99", played.p99_us),
    ] {
        answer.push(&format!("{prefix}{column}"), "µs", Better::Lower, us);
    }
}

fn row(place: &str, figures: Vec<Measured>) -> Row {
    let place = place.to_uppercase();
    Row { place, figures }
}

/// One row for each place.
fn joined(rows: Vec<Row>) -> Vec<Row> {
    let mut joined: Vec<Row> = Vec::new();
    for row in rows {
        match joined.iter_mut().find(|other| other.place == row.place) {
            Some(other) => other.figures.extend(row.figures),
            None => joined.push(row),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::operations::WORKLOADS;
    use super::*;

    /// Someone who does every operation in five microseconds.
    struct Prompt;

    impl Asked for Prompt {
        fn prepare(&mut self, _: &Keys, _: &Lists) -> Result<()> {
            Ok(())
        }

        fn play(&mut self, _: &Keys, lists: &Lists, _: Option<Duration>) -> Result<Played> {
            let operations = lists.iter().map(Vec::len).sum();
            let times = vec![Duration::from_micros(5); operations];
            Ok(Played::of(times, 1.0))
        }

        fn processes(&self) -> Vec<(&'static str, Vec<u32>)> {
            vec![("client", vec![std::process::id()])]
        }
    }

    /// The reader of results refuses a file with two figures of one contender in one column.
    #[test]
    fn every_row_has_each_column_once_whether_one_client_asks_or_two() {
        for clients in [1, 2] {
            let workload = Workload {
                records: 100,
                clients,
                operations: 50,
                seconds: 1.0,
            };
            let answer = measure(&mut Prompt, &workload).expect("an answer");
            assert_eq!(answer.rows.len(), 1 + WORKLOADS.len());
            for row in &answer.rows {
                let columns = row.figures.iter().map(|figure| figure.column.as_str());
                let columns: BTreeSet<&str> = columns.collect();
                assert_eq!(columns.len(), row.figures.len(), "{clients}: {row:?}");
                for column in ["operations", "mean", "processor time, all"] {
                    assert!(columns.contains(column), "{clients}: {column}: {row:?}");
                }
                let is_load = row.place == "LOAD";
                assert_eq!(columns.contains("one client: mean"), !is_load, "{row:?}");
            }
        }
    }

    #[test]
    fn a_phase_is_told_by_rate_times_and_processors() {
        let spent = Spent {
            played: Played {
                operations: 1000,
                seconds: 2.0,
                mean_us: 5.0,
                p50_us: 4.0,
                p95_us: 8.0,
                p99_us: 9.0,
            },
            roles: vec![("client", 0.5), ("server", 0.25)],
        };
        let rows = [
            row("a", figures_of_one(&spent.played)),
            row("a", figures(&spent)),
        ];
        let joined = joined(rows.into());
        assert_eq!((joined.len(), joined[0].place.as_str()), (1, "A"));
        let of = |column: &str| {
            let mut figures = joined[0].figures.iter();
            figures
                .find(|figure| figure.column == column)
                .map(|figure| figure.figure)
        };
        assert_eq!(of("operations"), Some(500.0));
        assert_eq!(of("one client: p99"), Some(9.0));
        assert_eq!(of("processor time, client"), Some(500.0));
        assert_eq!(of("processor time, all"), Some(750.0));
    }
}
