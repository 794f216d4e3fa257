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
//! on Redis; a range returns whole records, where the paper's returns a column of each.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hedgerow_lab_contender::{Entry, Promises, Unavailable};
use hedgerow_lab_data::workload::{Operation, Workload as Mix};
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::experiments::server::{hedgerow, redis, words};
use crate::machine::{pin_this_thread, used_cpu_seconds};
use crate::map_workload::push_percentiles;
use crate::process::{Server, find_program};
use crate::registry::{Registry, own};
use crate::wire::{Protocol, Records, Script, latency, play_once, scheduled_latency, throughput};
use crate::{LabError, Result};

/// The core that servers run on, and the client's.
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;

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

/// A server to measure.
struct Contender {
    name: &'static str,
    protocol: Protocol,
    program: &'static str,
    arguments: fn(&Path, &str) -> Vec<String>,
    remedy: &'static str,
    /// Workloads that it can do.
    workloads: &'static [&'static str],
}

const OURS: &str = "hedgerow server";
const BUILD_OURS: &str = "cargo build --release -p hedgerow-cli";

const CONTENDERS: [Contender; 5] = [
    Contender {
        name: OURS,
        protocol: Protocol::Resp,
        program: "hedgerow",
        arguments: |folder, port| hedgerow(Some("periodic"), "resp", folder, port),
        remedy: BUILD_OURS,
        workloads: &WORKLOADS,
    },
    Contender {
        name: "hedgerow server, memcached protocol",
        protocol: Protocol::Memcached,
        program: "hedgerow",
        arguments: |folder, port| hedgerow(Some("periodic"), "memcached", folder, port),
        remedy: BUILD_OURS,
        workloads: &["masstree/get", "masstree/put-existing", "masstree/mycsb-c"],
    },
    Contender {
        name: "redis-server",
        protocol: Protocol::Resp,
        program: "redis-server",
        arguments: |folder, port| redis("--appendonly no", folder, port),
        remedy: "apt install redis-server",
        workloads: WORKLOADS.split_at(5).0,
    },
    Contender {
        name: "redis-server, append-only file",
        protocol: Protocol::Resp,
        program: "redis-server",
        arguments: |folder, port| {
            let aof = "--appendonly yes --appendfsync everysec --auto-aof-rewrite-percentage 0";
            redis(aof, folder, port)
        },
        remedy: "apt install redis-server",
        workloads: WORKLOADS.split_at(5).0,
    },
    Contender {
        name: "memcached",
        protocol: Protocol::Memcached,
        program: "memcached",
        arguments: |_, port| {
            let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
            words(&format!(
                "-l 127.0.0.1 -p {port} -U 0 -t 1 -m 8192 -c 20000 -u {user}"
            ))
        },
        remedy: "apt install memcached",
        workloads: &["masstree/get", "masstree/put-existing", "masstree/mycsb-c"],
    },
];

impl Contender {
    fn named(name: &str) -> Option<&'static Self> {
        CONTENDERS.iter().find(|contender| contender.name == name)
    }

    /// Ours lies beside this program; others are on `PATH`.
    fn program(&self) -> Option<PathBuf> {
        if self.program != "hedgerow" {
            return find_program(self.program);
        }
        let beside = std::env::current_exe().ok()?.with_file_name(self.program);
        beside.is_file().then_some(beside)
    }

    fn entry(&self) -> Entry {
        let promises = Promises {
            ordered: self.program == "hedgerow",
            concurrent: true,
            durable: self.protocol == Protocol::Resp && self.name != "redis-server",
            variable_keys: true,
            longest_key: None,
        };
        if self.program == "hedgerow" {
            return own(self.name, promises);
        }
        Entry {
            name: self.name,
            version: self.program().map_or_else(String::new, |p| version(&p)),
            origin: "found on PATH",
            promises,
        }
    }
}

/// The first word with digits and dots in what a program says to `--version`.
fn version(program: &Path) -> String {
    let output = std::process::Command::new(program)
        .arg("--version")
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut words = text.split_whitespace();
    let found = words.find(|word| word.contains('.') && word.contains(|c: char| c.is_numeric()));
    found
        .unwrap_or_default()
        .trim_start_matches("v=")
        .to_owned()
}

/// The experiment.
pub struct Servers;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    mix: String,
    records: usize,
    operations: usize,
    /// Seconds per figure.
    seconds: f64,
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
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let participant = |contender: &Contender| Participant {
            entry: contender.entry(),
            available: contender.program().map(drop).ok_or_else(|| Unavailable {
                why: format!("{} is not here", contender.program),
                remedy: contender.remedy.to_owned(),
            }),
            environment: Vec::new(),
        };
        CONTENDERS.iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(2000, 1_000_000, 20_000_000);
        let seconds = settings.scale.pick(0.05, 0.5, 5.0);
        let points = WORKLOADS.iter().map(|&mix| {
            let workload = Workload {
                mix: mix.to_owned(),
                records,
                operations: settings.scale.pick(2000, 200_000, 200_000),
                seconds,
            };
            let can = CONTENDERS.iter().filter(|one| one.workloads.contains(&mix));
            Ok(Point {
                parameters: [
                    ("records".to_owned(), records.into()),
                    ("server cores".to_owned(), 1.into()),
                ]
                .into(),
                x: Some(X::Category(mix.trim_start_matches("masstree/").to_owned())),
                contenders: can.map(|contender| contender.name).collect(),
                need: Need {
                    memory_bytes: records as u64 * 300 + (256 << 20),
                    disk_bytes: records as u64 * 200 + (64 << 20),
                    seconds: 1.0 + records as f64 * 5e-6 + seconds * 4.0,
                },
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        let contender = Contender::named(&job.contender)
            .ok_or_else(|| LabError::Usage(format!("no server is called {}", job.contender)))?;
        if job.stage == Stage::Verify {
            // The client compares every reply: a short run is all that verifying needs.
            workload.records = workload.records.min(20_000);
            workload.operations = workload.operations.min(20_000);
            workload.seconds = 0.05;
        }
        measure(contender, &workload)
    }
}

/// Starts a server, loads it and measures it.
fn measure(contender: &Contender, workload: &Workload) -> Result<Answer> {
    let program = contender
        .program()
        .ok_or_else(|| LabError::Unavailable(format!("no {}", contender.program)))?;
    let mix = Mix::named(&workload.mix).map_err(LabError::from_display)?;
    let keys = mix.keys.keys(workload.records)?;
    let records = records(&mix, &keys, contender.protocol);
    let plan = mix.plan(workload.records as u64, 1);
    let operations: Vec<Operation> = mix
        .operations(&plan, 0, 13)
        .take(workload.operations)
        .collect();
    let server = Server::start(&program, Some(SERVER_CORE), |folder, address| {
        (contender.arguments)(folder, &address.port().to_string())
    })?;
    pin_this_thread(CLIENT_CORE);
    let mut answer = Answer::default();
    load(&server, &records, workload.records)?;
    std::thread::sleep(Duration::from_secs_f64(workload.seconds.min(0.5)));
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

/// Loads in slices, which keeps scripts small.
fn load(server: &Server, records: &Records<'_>, count: usize) -> Result<()> {
    for from in (0..count).step_by(1 << 18) {
        let script = records.load(from..count.min(from + (1 << 18)), DEPTH);
        play_once(server.address(), &script, CONNECTIONS)?;
    }
    Ok(())
}

/// The four measurements, each after the same requests have run untimed.
fn play(
    answer: &mut Answer,
    server: &Server,
    [pipelined, single]: &[Script; 2],
    seconds: f64,
) -> Result<()> {
    let address = server.address();
    let time = Duration::from_secs_f64(seconds);
    throughput(address, pipelined, CONNECTIONS, time / 4)?;
    let (start, before) = (Instant::now(), used_cpu_seconds());
    let rate = throughput(address, pipelined, CONNECTIONS, time)?;
    let busy = (used_cpu_seconds() - before) / start.elapsed().as_secs_f64();
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
