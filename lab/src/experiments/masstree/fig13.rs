//! Servers over the network (§7, Fig. 13): gets, puts and MYCSB, ours beside Redis and
//! memcached.
//!
//! Everything runs on this machine: the server under test on one core with one worker, the
//! client on another, over loopback. Each round starts a server, loads it, measures and stops
//! it. Requests and their exact replies are built beforehand and every reply is compared byte
//! for byte, so the client costs little; `client busy` says how much of its core it used: near
//! 100 %, a figure is the client's and not the server's. Pipelined connections stand for the
//! paper's batched queries. Latencies are taken on one connection at about a quarter of what it
//! can do, from the moment when each request was due.
//!
//! Records of MYCSB are values of 40 bytes and a column is 4 bytes of one, as the paper has it
//! on Redis; a range returns whole records, where the paper's returns a column of each, as those of
//! `masstree/columns` do.

use std::time::Duration;

use hedgerow_lab_data::workload::{Operation, Workload as Mix};
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_peers::ServerSettings;
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::pin_this_thread;
use crate::map_workload::push_percentiles;
use crate::process::Server;
use crate::registry::Registry;
use crate::servers::{CLIENT_CORE, OURS, OURS_BY_MEMCACHED, named, participant, start};
use crate::wire::{
    Protocol, Records, Script, latency, load_records, scheduled_latency, throughput, watched,
};
use crate::{LabError, Result};

/// Requests in flight on each pipelined connection, and how many connections there are.
const DEPTH: usize = 64;
const CONNECTIONS: usize = 8;

/// Connections of the unpipelined column.
const MANY_CONNECTIONS: usize = 50;

/// How many times the median latency passes between two requests of the latency columns: short
/// of what a connection can do, so that a server is late only where it stumbles.
const PACE: f64 = 4.0;

/// The workloads, by their files' names.
const WORKLOADS: [&str; 6] = [
    "masstree/get",
    "masstree/put-existing",
    "masstree/mycsb-a",
    "masstree/mycsb-b",
    "masstree/mycsb-c",
    "masstree/mycsb-e",
];

/// Those of the smallest scale: together they have every kind of request.
const FEW_WORKLOADS: [&str; 3] = [WORKLOADS[0], WORKLOADS[2], WORKLOADS[5]];

/// Those without columns and scans.
const PLAIN: [&str; 3] = ["masstree/get", "masstree/put-existing", "masstree/mycsb-c"];

/// What each contender can do: memcached replaces whole values and has no order, Redis has no
/// scans that return values.
const CONTENDERS: [(&str, &[&str]); 5] = [
    (OURS, &WORKLOADS),
    (OURS_BY_MEMCACHED, &PLAIN),
    ("redis", WORKLOADS.split_at(5).0),
    ("redis aof", WORKLOADS.split_at(5).0),
    ("memcached", &PLAIN),
];

/// The experiment.
pub struct Servers;

/// What a round loads and plays.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Workload {
    /// The workload file's name.
    pub(super) mix: String,
    pub(super) records: usize,
    pub(super) operations: usize,
    /// Seconds per figure.
    pub(super) seconds: f64,
}

impl Workload {
    /// A workload file's, for these settings.
    fn new(mix: &str, settings: &Settings) -> Self {
        Self {
            mix: mix.to_owned(),
            records: settings.keys(2000, 200_000, 20_000_000),
            operations: settings.scale.pick(2000, 200_000, 200_000),
            seconds: settings.scale.pick(0.05, 0.3, 5.0),
        }
    }

    /// A job's, short where it is to verify: the client compares every reply in any run.
    pub(super) fn of(job: &Job) -> Result<Self> {
        let mut workload: Self = job.workload()?;
        if job.stage == Stage::Verify {
            workload.records = workload.records.min(20_000);
            workload.operations = workload.operations.min(20_000);
            workload.seconds = 0.05;
        }
        Ok(workload)
    }

    /// Waits a moment: what a server does after a burst shall not meet a column.
    pub(super) fn rest(&self) {
        std::thread::sleep(Duration::from_secs_f64(self.seconds.min(0.5)));
    }
}

/// A point of each workload, with those contenders that can do it.
pub(super) fn points(
    mixes: &[&'static str],
    contenders: &[(&'static str, &[&str])],
    settings: &Settings,
) -> Result<Vec<Point>> {
    let points = mixes.iter().map(|&mix| {
        let workload = Workload::new(mix, settings);
        let can = contenders.iter().filter(|(_, mixes)| mixes.contains(&mix));
        Ok(Point {
            parameters: [
                ("records".to_owned(), workload.records.into()),
                ("server cores".to_owned(), 1.into()),
            ]
            .into(),
            x: Some(X::Category(mix.trim_start_matches("masstree/").to_owned())),
            contenders: can.map(|(name, _)| *name).collect(),
            need: need(&workload),
            verified_by: mix.into(),
            workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
        })
    });
    points.collect()
}

/// What a round needs.
fn need(workload: &Workload) -> Need {
    let records = workload.records;
    Need {
        memory_bytes: records as u64 * 300 + (256 << 20),
        disk_bytes: records as u64 * 200 + (64 << 20),
        shared_seconds: 0.3 + records as f64 * 2e-6 + workload.seconds * 3.0,
        own_seconds: records as f64 * 2e-6,
        verify_seconds: 1.0,
    }
}

impl Experiment for Servers {
    fn about(&self) -> About {
        About {
            name: "masstree/fig13",
            title: "Servers: gets, puts and MYCSB over the network",
            source: "Masstree, §7, Fig. 13",
            claim: "On 16 cores Redis does 66 % of Masstree's gets and 51 % of its puts, memcached \
                    107 % and 21 %; on one core 59 %, 47 %, 84 % and 18 %; on MYCSB-A, B and C \
                    Redis does 27–35 %.",
            x_label: Some("workload"),
            x_log: false,
            baseline: OURS,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let names = CONTENDERS.map(|(name, _)| name);
        named(&names).iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let workloads = settings
            .scale
            .pick(&FEW_WORKLOADS[..], &WORKLOADS, &WORKLOADS);
        points(workloads, &CONTENDERS, settings)
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        measure(&job.contender, &Workload::of(job)?)
    }
}

/// Starts a server, loads it and measures it.
fn measure(contender: &str, workload: &Workload) -> Result<Answer> {
    let settings = ServerSettings {
        memory_bytes: 8 << 30,
        threads: 1,
        connections: 1000,
        readers_port: 0,
    };
    let (peer, server) = start(contender, &settings)?;
    let protocol = Protocol::of(&peer)?;
    let mix = Mix::named(&workload.mix).map_err(LabError::from_display)?;
    let keys = mix.keys.keys(workload.records)?;
    let records = records(&mix, &keys, protocol);
    let plan = mix.plan(workload.records as u64, 1);
    let operations: Vec<Operation> = mix
        .operations(&plan, 0, 13)
        .take(workload.operations)
        .collect();
    pin_this_thread(CLIENT_CORE);
    let mut answer = Answer::default();
    load_records(
        server.address(),
        &records,
        workload.records,
        DEPTH,
        CONNECTIONS,
    )?;
    workload.rest();
    let each = server.grown_bytes() as f64 / workload.records as f64;
    let few = &operations[..operations.len().min(20_000)];
    let scripts = [records.script(&operations, DEPTH), records.script(few, 1)];
    play(&mut answer, &server, &scripts, workload.seconds)?;
    answer.push("memory", "bytes/record", Better::Lower, each);
    Ok(answer)
}

fn records<'a>(mix: &Mix, keys: &'a Keys, protocol: Protocol) -> Records<'a> {
    let uniform = mix.keys == KeySet::Decimal;
    let scans = mix.mix.scan > 0.0;
    let column_bytes = mix.value.column_bytes as usize;
    let value_bytes = if uniform {
        8
    } else {
        mix.value.columns as usize * column_bytes
    };
    Records {
        keys,
        sorted: if scans { keys.sorted() } else { Keys::new() },
        value_bytes,
        update_bytes: if uniform {
            value_bytes
        } else {
            mix.value.update as usize * column_bytes
        },
        protocol,
    }
}

/// The four measurements, each after the same requests have run untimed.
pub(super) fn play(
    answer: &mut Answer,
    server: &Server,
    [pipelined, single]: &[Script; 2],
    seconds: f64,
) -> Result<()> {
    let address = server.address();
    let time = Duration::from_secs_f64(seconds);
    throughput(address, pipelined, CONNECTIONS, time / 4)?;
    let (rate, busy) = watched(|| throughput(address, pipelined, CONNECTIONS, time))?;
    answer.push("pipelined", "kops/s", Better::Higher, rate / 1000.0);
    answer.push("client busy", "% of a core", Better::Lower, busy * 100.0);
    let rate = throughput(address, single, MANY_CONNECTIONS, time)?;
    answer.push("50 connections", "kops/s", Better::Higher, rate / 1000.0);
    let median_us = latency(address, single, time / 4)?.p50_us;
    let pace = Duration::from_secs_f64((PACE * median_us / 1e6).max(1e-6));
    let histogram = scheduled_latency(address, single, pace, time)?;
    push_percentiles(answer, "latency", "µs", &histogram, 1000.0);
    Ok(())
}
