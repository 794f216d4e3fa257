//! The B-tree as the index of a server, beside Masstree as the index of the same server and beside
//! Redis: which index a server should have when nobody chooses one.
//!
//! Each round starts a server with one worker on one core and asks it from another core, 64
//! requests in flight on each of 8 connections. It inserts all records in random order, gets and
//! overwrites each in another order, and reads ranges of 50 records. The figures that compare
//! indexes are those by the server's own processor time, all its threads together: the page
//! cleaner and the log's flusher are in them. Redis has no range over its keys; its sorted sets
//! are in `masstree/server-scans`.

use std::time::Duration;

use hedgerow_lab_data::random::Permutation;
use hedgerow_lab_data::workload::Kind;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key_sets;
use crate::asking::{
    CONNECTIONS, DEPTH, PREPARED, SETTINGS, VALUE_BYTES, ask_for, need, operations,
};
use crate::experiment::{
    About, Answer, Experiment, Job, Participant, Point, Settings as RunSettings, Stage,
};
use crate::machine::pin_this_thread;
use crate::process::Server;
use crate::registry::Registry;
use crate::servers::{CLIENT_CORE, named, participant, start};
use crate::wire::{Protocol, Records, ScanForm, Script, load_records, throughput};
use crate::{LabError, Result};

/// Who takes part: both indexes with a log that is synced periodically, and Redis without
/// persistence and with what is about the same promise.
const CONTENDERS: [&str; 4] = [
    "hedgerow btree periodic",
    "hedgerow masstree periodic",
    "redis",
    "redis aof",
];

/// Records of a range.
const RANGE_RECORDS: usize = 50;

/// Ranges that are prepared, and how many are in flight on each connection.
const PREPARED_RANGES: usize = 20_000;
const RANGES_IN_FLIGHT: usize = 16;

/// The experiment.
pub struct Served;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    /// The key set's name.
    set: String,
    records: usize,
    /// Seconds per figure.
    seconds: f64,
}

/// A key set, by what the axis calls it.
fn sets(settings: &RunSettings) -> Vec<(&'static str, String, usize)> {
    let made = settings.keys(2000, 1_000_000, 10_000_000);
    let prefixed = KeySet::PrefixedDecimal(8).to_string();
    let mut sets = vec![
        ("16 bytes", prefixed, made),
        ("decimals", KeySet::Decimal.to_string(), made),
    ];
    let [_, _, texts @ ..] = key_sets::four(settings);
    sets.extend(texts.map(|keys| (keys.label, keys.set.to_owned(), keys.records)));
    sets
}

impl Experiment for Served {
    fn about(&self) -> About {
        About {
            name: "btrees/served",
            title: "The index of a server: B-tree beside Masstree",
            source: "ours; keys of 16 bytes and those of Masstree, §6.1, and B-Trees Are Back, §4",
            claim: "A B-tree on pages can be as fast as what is in memory alone.",
            x_label: Some("keys"),
            x_log: false,
            baseline: "hedgerow masstree periodic",
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        named(&CONTENDERS).iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &RunSettings) -> Result<Vec<Point>> {
        let seconds = settings.scale.pick(0.05, 0.4, 2.0);
        let point = |(label, set, records): (&str, String, usize)| {
            let workload = Workload {
                set,
                records,
                seconds,
            };
            Ok(Point {
                parameters: [
                    (format!("records, {label}"), records.into()),
                    ("in flight on a connection".to_owned(), DEPTH.into()),
                    ("connections".to_owned(), CONNECTIONS.into()),
                    ("server cores".to_owned(), 1.into()),
                ]
                .into(),
                x: Some(X::Category(label.to_owned())),
                contenders: CONTENDERS.to_vec(),
                need: need(records, 4.0 * seconds),
                verified_by: Value::Null,
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        };
        sets(settings).into_iter().map(point).collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            workload.records = workload.records.min(20_000);
            workload.seconds = 0.05;
        }
        workload.measure(&job.contender)
    }
}

impl Workload {
    /// Starts a server, loads it and asks it. Every reply is compared, byte for byte.
    fn measure(&self, contender: &str) -> Result<Answer> {
        let (peer, server) = start(contender, &SETTINGS)?;
        pin_this_thread(CLIENT_CORE);
        let set: KeySet = self.set.parse().map_err(LabError::from_display)?;
        let keys = set.keys(self.records)?;
        let records = Records {
            keys: &keys,
            sorted: keys.sorted(),
            value_bytes: VALUE_BYTES,
            update_bytes: VALUE_BYTES,
            protocol: Protocol::of(&peer)?,
        };
        let mut answer = Answer::default();
        insert(&mut answer, &server, &records)?;
        // What a server does after a burst (growing, moving its table) shall not meet a column.
        std::thread::sleep(Duration::from_secs_f64(self.seconds.min(0.5)));
        let each = server.grown_bytes() as f64 / keys.len() as f64;
        let time = Duration::from_secs_f64(self.seconds);
        for (kind, name) in [(Kind::Read, "GET"), (Kind::Update, "SET, overwriting")] {
            let script = records.script(&operations(&keys, kind, PREPARED), DEPTH);
            throughput(server.address(), &script, CONNECTIONS, time / 4)?;
            let busy = ask_for(&mut answer, &server, name, &script, CONNECTIONS, time)?;
            if kind == Kind::Read {
                answer.push("client busy", "% of a core", Better::Lower, busy * 100.0);
            }
        }
        if !contender.starts_with("redis") {
            let script = ranges(&records, &keys);
            let name = format!("RANGE of {RANGE_RECORDS}");
            ask_for(&mut answer, &server, &name, &script, CONNECTIONS, time)?;
        }
        answer.push("memory", "bytes/record", Better::Lower, each);
        Ok(answer)
    }
}

/// Inserts all records, once.
fn insert(answer: &mut Answer, server: &Server, records: &Records<'_>) -> Result<()> {
    let before = server.cpu_seconds();
    let count = records.keys.len();
    let rate = load_records(server.address(), records, count, DEPTH, CONNECTIONS)?;
    let used = (server.cpu_seconds() - before).max(1e-3);
    answer.push("SET, inserting", "kops/s", Better::Higher, rate / 1000.0);
    let by_server = count as f64 / used / 1000.0;
    let column = "SET, inserting, by server time";
    answer.push(column, "kops/s", Better::Higher, by_server);
    Ok(())
}

/// Ranges from records in an order unlike that of the load.
fn ranges(records: &Records<'_>, keys: &Keys) -> Script {
    let order = Permutation::new(keys.len() as u64, 17);
    let count = keys.len().min(PREPARED_RANGES) as u64;
    let starts: Vec<usize> = (0..count).map(|nth| order.at(nth) as usize).collect();
    records.scans(ScanForm::Pairs, &starts, RANGE_RECORDS, RANGES_IN_FLIGHT)
}
