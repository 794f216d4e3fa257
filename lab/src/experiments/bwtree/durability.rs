//! What logging, syncing and transactions cost a Bw-tree, which the thesis left open (§5.2): one
//! table of ours over three indexes, and of InnoDB.
//!
//! A round starts a server, inserts all records, reads, updates, writes them in transactions (of
//! one command and of ten: `MULTI`, `SET`s, `EXEC`, sent together), and deletes them. By the clock
//! and by the server's processor time, all of its threads together.

use hedgerow_lab_data::workload::Workload as Mix;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::contenders::{self, FEW};
use super::figures::{VERIFIED_RECORDS, need};
use super::served::Served;
use crate::experiment::{
    About, Answer, Experiment, Job, MOST_CONNECTIONS, Participant, Point, Settings, Stage,
};
use crate::registry::Registry;
use crate::servers::SERVER_CORE;
use crate::{LabError, Result};

/// The experiment.
pub(super) struct Durability;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    records: usize,
    connections: usize,
}

/// What a round does with all records, in order.
#[derive(Clone, Copy)]
pub(super) enum Leg {
    /// A workload of single operations.
    Mix(&'static str, &'static str),
    /// Writes, so many to a transaction.
    Transactions(&'static str, usize),
}

const LEGS: [Leg; 6] = [
    Leg::Mix("insert", "bwtree/insert"),
    Leg::Mix("read", "bwtree/read"),
    Leg::Mix("update", "bwtree/update"),
    Leg::Transactions("write in a transaction", 1),
    Leg::Transactions("write in a transaction of 10", 10),
    Leg::Mix("delete", "bwtree/delete"),
];

impl Experiment for Durability {
    fn about(&self) -> About {
        About {
            name: "bwtree/durability",
            title: "What logging, syncing and transactions cost a Bw-tree",
            source: "InnoDB and the Bw-tree, §5.2 (an open question)",
            claim: "Not measured: OpenBw-Tree has no transactions, no log and no persistence, so \
                    its lead over InnoDB says nothing of a database.",
            x_label: None,
            x_log: false,
            baseline: contenders::BASELINE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        contenders::participants(&contenders::all())
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(500, 50_000, 1_000_000);
        let three = [1, 8, MOST_CONNECTIONS];
        let connections = settings.connections(&[8], &three, &three);
        let all = contenders::all();
        let contenders = settings.scale.pick(FEW.to_vec(), all.clone(), all);
        let points = connections.into_iter().map(|connections| {
            let workload = Workload {
                records,
                connections,
            };
            Ok(Point {
                parameters: [
                    ("connections".to_owned(), connections.into()),
                    ("records".to_owned(), records.into()),
                    ("server cores".to_owned(), 1.into()),
                    ("files".to_owned(), contenders::files(settings).into()),
                ]
                .into(),
                x: None,
                contenders: contenders.clone(),
                need: need(records, records * LEGS.len()),
                verified_by: Value::Null,
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let setup = Setup {
            records: workload.records,
            workers: 1,
            server_core: Some(SERVER_CORE),
            connections: workload.connections,
        };
        play_legs(job, &setup, &LEGS)
    }
}

/// What the legs of a job are played on.
pub(super) struct Setup {
    pub records: usize,
    /// Worker threads of the server.
    pub workers: usize,
    /// The only core of the server's; `None` for all.
    pub server_core: Option<usize>,
    pub connections: usize,
}

/// Starts a server and plays one leg after the other, on few records if the job only verifies; legs
/// that the server cannot do are left out.
pub(super) fn play_legs(job: &Job, setup: &Setup, legs: &[Leg]) -> Result<Answer> {
    let records = match job.stage {
        Stage::Verify => setup.records.min(VERIFIED_RECORDS),
        _ => setup.records,
    };
    let insert = Mix::named("bwtree/insert").map_err(LabError::from_display)?;
    let served = Served::start(
        &job.contender,
        &insert.keys,
        records,
        setup.workers,
        setup.server_core,
    )?;
    let mut answer = Answer::default();
    for leg in legs {
        match *leg {
            Leg::Mix(name, mix) => {
                let mix = Mix::named(mix).map_err(LabError::from_display)?;
                served
                    .play(&mix, setup.connections)?
                    .push(&mut answer, name);
            }
            Leg::Transactions(name, size) => {
                if let Some(played) = served.play_transactions(size, setup.connections)? {
                    played.push(&mut answer, name);
                }
            }
        }
    }
    Ok(answer)
}
