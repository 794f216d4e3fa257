//! MYCSB over rows of columns (§7, Fig. 13), ours beside Redis's hashes.
//!
//! In the paper a record has ten columns of 4 bytes, a get returns all of them, an update replaces
//! one, and a range returns one column of each record. Here a record is a row, a hash to Redis's
//! protocol: `HMGET` of ten columns, `HSET` of one, `RANGE … COLUMNS` of one. Columns are named by
//! number, as in the paper, which found columns by name expensive on Redis and used bytes of a
//! value in their stead: `masstree/fig13` does that. Redis has no ranges over hashes, so E is ours
//! alone.

use hedgerow_lab_data::workload::{Operation, Workload as Mix};
use hedgerow_lab_peers::Protocol;
use hedgerow_lab_report::Better;

use super::fig13::{Workload, play, points};
use crate::asking::{CONNECTIONS, DEPTH, SETTINGS};
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings};
use crate::machine::pin_this_thread;
use crate::registry::Registry;
use crate::servers::{CLIENT_CORE, OURS, named, participant, start};
use crate::wire::{Rows, load_scripts};
use crate::{LabError, Result};

/// The workloads, by their files' names; E is the last.
const WORKLOADS: [&str; 4] = [
    "masstree/mycsb-a",
    "masstree/mycsb-b",
    "masstree/mycsb-c",
    "masstree/mycsb-e",
];

/// What each contender can do.
const CONTENDERS: [(&str, &[&str]); 3] = [
    (OURS, &WORKLOADS),
    ("redis", WORKLOADS.split_at(3).0),
    ("redis aof", WORKLOADS.split_at(3).0),
];

/// The experiment.
pub struct Columns;

impl Experiment for Columns {
    fn about(&self) -> About {
        About {
            name: "masstree/columns",
            title: "Servers: MYCSB over rows of ten columns",
            source: "Masstree, §7, Fig. 13",
            claim: "On 16 cores Redis does 27–35 % of Masstree's MYCSB-A, B and C, and cannot do \
                    E, ranges that return a column of each record.",
            x_label: Some("workload"),
            x_log: false,
            baseline: OURS,
            here: Some("One server core, where the paper has 16."),
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let names = CONTENDERS.map(|(name, _)| name);
        named(&names).iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        points(&WORKLOADS, &CONTENDERS, settings)
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        measure(&job.contender, &Workload::of(job)?)
    }
}

/// Starts a server, loads it and measures it.
fn measure(contender: &str, workload: &Workload) -> Result<Answer> {
    let (peer, server) = start(contender, &SETTINGS)?;
    if peer.protocol != Protocol::Resp {
        return Err(LabError::Usage(format!("{contender} has no columns")));
    }
    let mix = Mix::named(&workload.mix).map_err(LabError::from_display)?;
    let keys = mix.keys.keys(workload.records)?;
    let rows = Rows {
        keys: &keys,
        sorted: keys.sorted(),
        columns: mix.value.columns as usize,
        column_bytes: mix.value.column_bytes as usize,
    };
    let plan = mix.plan(workload.records as u64, 1);
    let operations = mix.operations(&plan, 0, 13).take(workload.operations);
    let operations: Vec<Operation> = operations.collect();
    pin_this_thread(CLIENT_CORE);
    let mut answer = Answer::default();
    let load = |range| rows.load(range, DEPTH);
    load_scripts(server.address(), workload.records, CONNECTIONS, load)?;
    workload.rest();
    let each = server.grown_bytes() as f64 / workload.records as f64;
    let few = &operations[..operations.len().min(20_000)];
    let scripts = [rows.script(&operations, DEPTH), rows.script(few, 1)];
    play(&mut answer, &server, &scripts, workload.seconds)?;
    answer.push("memory", "bytes/record", Better::Lower, each);
    Ok(answer)
}
