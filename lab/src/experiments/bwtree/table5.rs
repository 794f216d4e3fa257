//! More threads in the server (§3.1, Table 5): the thesis gave the memcached plugin 4 threads, and
//! 64, one for each connection.
//!
//! Here ours and memcached get 1, 2 and 4, and every processor of the machine, the client's
//! included: where the server has more threads than processors to run them, what is seen is what
//! their switching costs.

use hedgerow_lab_report::X;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::contenders::{self, BASELINE};
use super::durability::{Leg, Setup, play_legs};
use super::figures::need;
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings};
use crate::registry::Registry;
use crate::{LabError, Result};

/// The experiment.
pub(super) struct Workers;

/// As many as the thesis's Table 5.
const CONNECTIONS: usize = 64;

const CONTENDERS: [&str; 3] = [BASELINE, "hedgerow bwtree sync", "memcached"];

const LEGS: [Leg; 3] = [
    Leg::Mix("insert", "bwtree/insert"),
    Leg::Mix("read", "bwtree/read"),
    Leg::Mix("update", "bwtree/update"),
];

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    records: usize,
    workers: usize,
}

impl Experiment for Workers {
    fn about(&self) -> About {
        About {
            name: "bwtree/table5",
            title: "Client and server: worker threads",
            source: "InnoDB and the Bw-tree, §3.1, Table 5",
            claim: "64 threads in the memcached plugin instead of 4 slow inserts and updates a \
                    little and speed reads up.",
            x_label: Some("worker threads"),
            x_log: false,
            baseline: BASELINE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        contenders::participants(&CONTENDERS)
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(500, 50_000, 10_000_000);
        let workers: &[usize] = settings.scale.pick(&[2], &[1, 2, 4], &[1, 2, 4]);
        let points = workers.iter().map(|&workers| {
            Ok(Point {
                parameters: [
                    ("connections".to_owned(), CONNECTIONS.into()),
                    ("records".to_owned(), records.into()),
                    ("files".to_owned(), contenders::files(settings).into()),
                ]
                .into(),
                x: Some(X::Number(workers as f64)),
                contenders: CONTENDERS.to_vec(),
                need: need(records, records * LEGS.len()),
                verified_by: Value::Null,
                workload: serde_json::to_value(Workload { records, workers })
                    .map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let setup = Setup {
            records: workload.records,
            workers: workload.workers,
            server_core: None,
            connections: CONNECTIONS,
        };
        play_legs(job, &setup, &LEGS)
    }
}
