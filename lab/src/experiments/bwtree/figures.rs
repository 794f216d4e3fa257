//! One kind of operation after the other over 1 to 96 connections (§3.3, Figs. 11 to 46).
//!
//! Figures 11 to 26 show execution times, figures 27 to 46 how these fall from the fewest
//! connections on. Both stand in the report, with the standard deviation of the rounds (Table 8).
//!
//! As in the thesis, the keys are dealt out to the connections in the order of insertion: with
//! ascending keys, each works in a range of its own.

use hedgerow_lab_data::workload::Workload as Mix;
use hedgerow_lab_report::{Better, EXECUTION_TIME, X};
use serde::{Deserialize, Serialize};

use super::contenders::{self, FEWEST};
use super::served::Served;
use crate::experiment::{
    About, Answer, Experiment, Job, MOST_CONNECTIONS, Need, Participant, Point, Settings, Stage,
};
use crate::registry::Registry;
use crate::servers::SERVER_CORE;
use crate::{LabError, Result};

/// Records of a verifying run.
pub(super) const VERIFIED_RECORDS: usize = 2000;

/// One kind of operations, with random and with ascending keys.
struct Figure {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    claim: &'static str,
    /// The workloads' files: random keys, ascending keys.
    workloads: [&'static str; 2],
}

const FIGURES: [Figure; 5] = [
    Figure {
        name: "bwtree/fig11",
        title: "Client and server: inserts",
        source: "InnoDB and the Bw-tree, §3.3, Figs. 11–14, 27–30, 43–46",
        claim: "From 8 connections to the most, inserts of random keys take 86.7 % less time \
                with the Bw-tree and 5.4 % less with InnoDB; of ascending keys, 86.2 % and \
                53.4 % less.",
        workloads: ["bwtree/insert", "bwtree/insert-monotone"],
    },
    Figure {
        name: "bwtree/fig15",
        title: "Client and server: reads",
        source: "InnoDB and the Bw-tree, §3.3, Figs. 15–18, 31–34, 43–46; Table 8",
        claim: "InnoDB reads random keys a little faster at 8 connections, as fast at 16, and \
                slower beyond; with the most connections reads take 79.9 % less time with \
                InnoDB and 86.8 % less with the Bw-tree (ascending keys: 77.9 % and 85.2 %).",
        workloads: ["bwtree/read", "bwtree/read-monotone"],
    },
    Figure {
        name: "bwtree/fig19",
        title: "Client and server: updates",
        source: "InnoDB and the Bw-tree, §3.3, Figs. 19–22, 35–38, 43–46",
        claim: "With the most connections updates of random keys take 87.6 % less time with the \
                Bw-tree and 28.6 % less with InnoDB; of ascending keys, 83.7 % and 45.8 % less.",
        workloads: ["bwtree/update", "bwtree/update-monotone"],
    },
    Figure {
        name: "bwtree/fig23",
        title: "Client and server: half reads, half updates",
        source: "InnoDB and the Bw-tree, §3.3, Figs. 23–26, 39–42, 43–46",
        claim: "With the most connections the mix takes 84.8 % less time with the Bw-tree and \
                45.9 % less with InnoDB; on ascending keys, 85.1 % and 72.2 % less.",
        workloads: ["bwtree/read-update", "bwtree/read-update-monotone"],
    },
    Figure {
        name: "bwtree/table7",
        title: "Client and server: deletes of everything",
        source: "InnoDB and the Bw-tree, §3.2, Table 7",
        claim: "Planned and not measured: deletes failed after about 1.8 million, by a defect in \
                the memcached plugin or in InnoDB.",
        workloads: ["bwtree/delete", "bwtree/delete-monotone"],
    },
];

/// All of them, in the thesis's order.
pub(super) fn all() -> Vec<Box<dyn Experiment>> {
    let boxed = |figure| Box::new(figure) as Box<dyn Experiment>;
    FIGURES.into_iter().map(boxed).collect()
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    mix: String,
    records: usize,
    connections: usize,
}

/// What a round needs that plays so many operations on as many records.
pub(super) fn need(records: usize, operations: usize) -> Need {
    Need {
        memory_bytes: records as u64 * 1000 + (512 << 20),
        disk_bytes: records as u64 * 500 + (256 << 20),
        shared_seconds: 0.3,
        own_seconds: (records + operations * 12) as f64 * 2e-6,
        verify_seconds: 0.5,
    }
}

impl Experiment for Figure {
    fn about(&self) -> About {
        About {
            name: self.name,
            title: self.title,
            source: self.source,
            claim: self.claim,
            x_label: Some("connections"),
            x_log: true,
            baseline: contenders::BASELINE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        contenders::participants(&contenders::all_and_bare())
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let counts = match settings.keys {
            Some(records) => vec![records],
            None => settings.scale.pick(
                vec![500],
                vec![1_000_000],
                vec![10_000_000, 50_000_000, 100_000_000],
            ),
        };
        let all = [1, 8, 16, 32, 64, MOST_CONNECTIONS];
        let connections = settings.connections(&[8], &all, &all);
        // At the smallest scale one order of keys; `bwtree/durability` sends the same requests to
        // more servers.
        let contenders = settings.scale.pick(
            FEWEST.to_vec(),
            contenders::all_and_bare(),
            contenders::all_and_bare(),
        );
        let orders = settings.scale.pick(1, 2, 2);
        let mixes = self.workloads.iter().zip(["random", "ascending"]);
        let mut points = Vec::new();
        for (mix, order) in mixes.take(orders) {
            for &records in &counts {
                for &connections in &connections {
                    let workload = Workload {
                        mix: (*mix).to_owned(),
                        records,
                        connections,
                    };
                    points.push(Point {
                        parameters: [
                            ("keys".to_owned(), order.into()),
                            ("records".to_owned(), records.into()),
                            ("server cores".to_owned(), 1.into()),
                            ("files".to_owned(), contenders::files(settings).into()),
                        ]
                        .into(),
                        x: Some(X::Number(connections as f64)),
                        contenders: contenders.clone(),
                        need: need(records, records),
                        verified_by: order.into(),
                        workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
                    });
                }
            }
        }
        Ok(points)
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            // Every answer is compared: a short run is all that verifying needs.
            workload.records = workload.records.min(VERIFIED_RECORDS);
        }
        measure(&job.contender, &workload)
    }
}

/// Starts a server, loads it if the workload says so, and plays every connection's part once.
fn measure(contender: &str, workload: &Workload) -> Result<Answer> {
    let mix = Mix::named(&workload.mix).map_err(LabError::from_display)?;
    let core = Some(SERVER_CORE);
    let served = Served::start(contender, &mix.keys, workload.records, 1, core)?;
    if mix.loaded > 0.0 {
        served.load()?;
    }
    let before = served.retries()?;
    let played = served.play(&mix, workload.connections)?;
    let mut answer = Answer::default();
    answer.push(EXECUTION_TIME, "s", Better::Lower, played.seconds);
    let rate = played.kops_per_second();
    answer.push("throughput", "kops/s", Better::Higher, rate);
    let own = played.server_us_per_operation();
    answer.push("server time", "µs/operation", Better::Lower, own);
    let busy = 100.0 * played.client_busy;
    answer.push("client busy", "% of a core", Better::Lower, busy);
    if let (Some(before), Some(after)) = (before, served.retries()?) {
        let share = 100.0 * (after - before) / played.operations as f64;
        answer.push("retries", "% of operations", Better::Lower, share);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::steps;
    use hedgerow_lab_data::workload::Kind;

    #[test]
    fn every_workload_is_there_and_touches_each_record_as_it_says() {
        for name in FIGURES.iter().flat_map(|figure| figure.workloads) {
            let mix = Mix::named(name).expect("it is there");
            let mut steps = steps(&mix, 100..200, 3);
            assert_eq!(steps.len(), 100, "{name}");
            if matches!(steps[0].kind, Kind::Insert | Kind::Remove) {
                steps.sort_unstable_by_key(|step| step.record);
                assert!(
                    (100..200).eq(steps.iter().map(|step| step.record)),
                    "{name}"
                );
            }
        }
    }
}
