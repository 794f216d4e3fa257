//! Gets and sets over the network, pipelined and not, ours beside Redis and beside memcached
//! (§7 asks the question; its figure is `masstree/fig13`).
//!
//! Each round starts a server on one core, loads it with decimals of 1 to 10 bytes and 8-byte
//! values, and asks it from another core. Pipelined columns keep 64 requests in flight on each of 8
//! connections, as batches do; the others have one request under way on each of 50 connections, or
//! on one. Every reply is compared byte for byte. Those of Redis's protocol are asked in this way
//! over a Unix domain socket as well, those of memcached's by UDP, of the same server.
//!
//! Beside the clock's figures stand those of the server's own processor time, all its threads
//! together (the log's flusher included): the capacity of one core, whoever else uses the
//! machine. `client busy` is the share of its core that the client used; near 100 % a figure is
//! the client's and not the server's.
//!
//! Ours runs with its log, also without io_uring, and without one to say what logging costs; Redis
//! without persistence, its fastest form, and with its append-only file synced every second, which
//! promises about what ours does. Each protocol is an experiment of its own, as each has its own
//! mark.

use std::time::Duration;

use hedgerow_lab_data::workload::Kind;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::Better;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::asking::{
    CONNECTIONS, DEPTH, MANY_CONNECTIONS, PREPARED, SETTINGS, VALUE_BYTES, ask_at, ask_for, need,
    operations,
};
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings, Stage};
use crate::machine::pin_this_thread;
use crate::process::Server;
use crate::registry::Registry;
use crate::servers::{
    CLIENT_CORE, OURS, OURS_BY_MEMCACHED, OURS_IN_MEMORY, OURS_ON_EPOLL, named, participant, start,
};
use crate::wire::{Place, Protocol, Records, Script, latency, load_records, throughput};
use crate::{LabError, Result};

/// The most of those with one request to an exchange.
const PREPARED_SINGLE: usize = 1 << 17;

/// One protocol's servers.
pub struct Requests {
    name: &'static str,
    title: &'static str,
    claim: &'static str,
    contenders: &'static [&'static str],
    baseline: &'static str,
}

/// Those that speak Redis's protocol.
pub const RESP: Requests = Requests {
    name: "masstree/server",
    title: "Servers: gets and sets, ours beside Redis and Valkey",
    claim: "With batched queries on one core Redis does 59 % of Masstree's gets and 47 % of its \
            puts.",
    contenders: &[
        OURS,
        OURS_ON_EPOLL,
        OURS_IN_MEMORY,
        "redis",
        "redis aof",
        "valkey",
        "valkey aof",
    ],
    baseline: "redis",
};

/// Those that speak memcached's.
pub const MEMCACHED: Requests = Requests {
    name: "masstree/server-memcached",
    title: "Servers: gets and sets, ours beside memcached",
    claim: "With batched gets and single puts on one core memcached does 84 % of Masstree's gets \
            and 18 % of its puts.",
    contenders: &[OURS_BY_MEMCACHED, "memcached"],
    baseline: "memcached",
};

/// What a round loads, and for how long it asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Workload {
    pub(super) records: usize,
    /// Seconds per figure.
    pub(super) seconds: f64,
}

impl Workload {
    /// A job's, short where it is to verify: the client compares every reply in any run.
    pub(super) fn of(job: &Job) -> Result<Self> {
        let mut workload: Self = job.workload()?;
        if job.stage == Stage::Verify {
            workload.records = workload.records.min(20_000);
            workload.seconds = 0.05;
        }
        Ok(workload)
    }
}

impl Experiment for Requests {
    fn about(&self) -> About {
        About {
            name: self.name,
            title: self.title,
            source: "Masstree, §7 (the question; keys of §6.1)",
            claim: self.claim,
            x_label: None,
            x_log: false,
            baseline: self.baseline,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        named(self.contenders).iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(2000, 1_000_000, 10_000_000);
        let seconds = settings.scale.pick(0.05, 0.4, 2.0);
        let workload = Workload { records, seconds };
        Ok(vec![Point {
            parameters: [
                ("records".to_owned(), records.into()),
                ("in flight on a connection".to_owned(), DEPTH.into()),
                ("connections".to_owned(), CONNECTIONS.into()),
                ("server cores".to_owned(), 1.into()),
            ]
            .into(),
            x: None,
            contenders: self.contenders.to_vec(),
            need: need(records, 11.0 * seconds),
            verified_by: Value::Null,
            workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
        }])
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        measure(&job.contender, &Workload::of(job)?)
    }
}

/// Starts a server, loads it and asks it.
fn measure(contender: &str, workload: &Workload) -> Result<Answer> {
    let (peer, server) = start(contender, &SETTINGS)?;
    pin_this_thread(CLIENT_CORE);
    let keys = KeySet::Decimal.keys(workload.records)?;
    let records = Records {
        keys: &keys,
        sorted: Keys::new(),
        value_bytes: VALUE_BYTES,
        update_bytes: VALUE_BYTES,
        protocol: Protocol::of(&peer)?,
    };
    let mut answer = Answer::default();
    let count = workload.records;
    let rate = load_records(server.address(), &records, count, DEPTH, CONNECTIONS)?;
    answer.push("load", "kops/s", Better::Higher, rate / 1000.0);
    // What a server does after a burst (growing, moving its table) shall not meet a column.
    std::thread::sleep(Duration::from_secs_f64(workload.seconds.min(0.5)));
    let each = server.grown_bytes() as f64 / count as f64;
    ask(&mut answer, &server, &records, workload.seconds)?;
    answer.push("memory", "bytes/record", Better::Lower, each);
    Ok(answer)
}

/// The columns, each after the same requests have run untimed for a while.
fn ask(answer: &mut Answer, server: &Server, records: &Records<'_>, seconds: f64) -> Result<()> {
    let time = Duration::from_secs_f64(seconds);
    let script = |kind, most, depth| records.script(&operations(records.keys, kind, most), depth);
    for (kind, name) in [(Kind::Read, "GET"), (Kind::Update, "SET")] {
        let pipelined = script(kind, PREPARED, DEPTH);
        throughput(server.address(), &pipelined, CONNECTIONS, time / 4)?;
        let column = format!("{name} pipelined");
        let busy = ask_for(answer, server, &column, &pipelined, CONNECTIONS, time)?;
        if kind == Kind::Read {
            answer.push("client busy", "% of a core", Better::Lower, busy * 100.0);
        }
    }
    for (kind, name) in [(Kind::Read, "GET"), (Kind::Update, "SET")] {
        let single = script(kind, PREPARED_SINGLE, 1);
        ask_singly(answer, server, records.protocol, (name, &single), time)?;
    }
    Ok(())
}

/// The columns of one request under way at a time on each connection: over TCP, and over a Unix
/// domain socket or by UDP if all servers of the protocol have that beside their port.
fn ask_singly(
    answer: &mut Answer,
    server: &Server,
    protocol: Protocol,
    (name, script): (&str, &Script),
    time: Duration,
) -> Result<()> {
    let tcp = Place::from(server.address());
    let socket = server.socket().map(Place::from);
    // At the port of the same number.
    let udp = (protocol == Protocol::Memcached).then(|| Place::Udp(server.address()));
    for (place, suffix) in [(Some(tcp), ""), (socket, ", Unix socket"), (udp, ", UDP")] {
        let Some(place) = place else { continue };
        let column = format!("{name} x{MANY_CONNECTIONS}{suffix}");
        ask_at(
            answer,
            (server, &place),
            &column,
            (script, MANY_CONNECTIONS),
            time,
        )?;
        let alone = latency(place, script, time)?;
        for (what, us) in [("p50", alone.p50_us), ("p99", alone.p99_us)] {
            answer.push(&format!("{name} {what}{suffix}"), "µs", Better::Lower, us);
        }
    }
    Ok(())
}
