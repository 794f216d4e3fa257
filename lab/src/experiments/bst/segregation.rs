//! Whether segregation costs a tree index time, or the database its own (§4.3, §4.6).
//!
//! Figures 5 and 9 compare runs of a second each, in processes of their own, and what such runs
//! take differs by a fifth from one to the next. Here both databases are loaded in one process, one
//! whose tree is among the rows and one whose tree has pools of its own, and transactions run in
//! slices, now in one and now in the other, the same transactions in both. A ratio is the median of
//! those of pairs of slices. Both databases are checked at the end.
//!
//! A control runs the same way with two merged databases: how far its ratio is from 1 is how far
//! two databases that differ in nothing are apart, by where their memory happens to lie.
//!
//! What this gives up: rows that are inserted meanwhile come from the same size classes, slice by
//! slice, for both databases.

use hedgerow_lab_contender::Promises;
use hedgerow_lab_database::tpcc::{Size, Tpcc};
use hedgerow_lab_database::ycsb::Ycsb;
use hedgerow_lab_database::{Error, Loaded, Outcome, Settings as Made, Tree, trees};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, Rounds, X};
use hedgerow_memory::Placement;
use serde::{Deserialize, Serialize};

use super::database_run::{Part, wrong};
use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::harness::HARNESS;
use crate::registry::Registry;
use crate::{LabError, Result};

/// The experiment.
pub struct Segregation;

/// The B-tree's nodes are pages of its pool, wherever nodes should lie.
const ONLY_IN_A_POOL: &str = "btree";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    part: Part,
    threads: usize,
    /// Rows of YCSB.
    rows: u64,
    /// Of TPC-C; none is a database far smaller than one warehouse.
    warehouses: Option<u64>,
    /// Of each thread in a slice.
    transactions: u64,
    /// Pairs of slices that are measured.
    pairs: usize,
}

/// What a slice took, in µs a transaction.
#[derive(Debug, Clone, Copy)]
struct Times {
    index: f64,
    database: f64,
}

impl Times {
    fn of(outcome: &Outcome) -> Self {
        Self {
            index: outcome.each_us(outcome.index_seconds),
            database: outcome.each_us(outcome.database_seconds()),
        }
    }
}

/// Slices of the same transactions in both databases.
struct Pair {
    merged: Times,
    /// Of the database beside it, which is segregated but in the control.
    other: Times,
}

impl Workload {
    fn of(part: Part, settings: &Settings) -> Self {
        let threads = settings.cores.clamp(1, 64);
        Self {
            part,
            threads,
            rows: settings.keys(500, 200_000, 10_000_000) as u64,
            warehouses: settings.scale.pick(None, Some(threads as u64), Some(48)),
            transactions: settings.scale.pick(40, 1000, 10_000),
            pairs: settings.scale.pick(2, 24, 24),
        }
    }

    fn size(&self) -> Size {
        self.warehouses.map_or(Size::reduced(1), Size::new)
    }

    /// A small one of the same kind.
    fn few(&self) -> Self {
        Self {
            rows: self.rows.min(2000),
            warehouses: None,
            transactions: self.transactions.min(100),
            pairs: 1,
            ..self.clone()
        }
    }

    fn load(&self, tree: &Tree, placement: Placement) -> Result<Box<dyn Loaded>> {
        let made = Made {
            placement,
            ..Made::default()
        };
        let threads = self.threads;
        let loaded: std::result::Result<Box<dyn Loaded>, Error> = match self.part {
            Part::Ycsb => Ycsb::new(self.rows, threads, self.transactions)
                .loaded(tree.improved.form(placement), made)
                .map(|loaded| Box::new(loaded) as _),
            Part::Tpcc | Part::TpccFull => Tpcc {
                size: self.size(),
                mix: self.part.mix(),
                threads,
                transactions: self.transactions,
                seed: 1,
            }
            .loaded(&|| tree.improved.form(placement), made)
            .map(|loaded| Box::new(loaded) as _),
            Part::Microbenchmark => {
                let why = "the microbenchmark has no rows that a tree could be among";
                return Err(LabError::Usage(why.to_owned()));
            }
        };
        loaded.map_err(wrong)
    }

    /// Pairs of slices in a merged database and one of the `other` placement: half of the pairs in
    /// databases of which the merged one was loaded first, half in others.
    fn run(&self, tree: &Tree, other: Placement) -> Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        for merged_first in [true, false] {
            let load = |placement| self.load(tree, placement);
            let (merged, other) = if merged_first {
                let merged = load(Placement::Merged)?;
                (merged, load(other)?)
            } else {
                let other = load(other)?;
                (load(Placement::Merged)?, other)
            };
            // The first pair touches what no transaction has touched before.
            for seed in 0..=self.pairs.div_ceil(2) as u64 {
                let pair = Self::pair(&*merged, &*other, seed)?;
                pairs.extend((seed > 0).then_some(pair));
            }
            merged.check().map_err(wrong)?;
            other.check().map_err(wrong)?;
        }
        Ok(pairs)
    }

    /// The same transactions in both; which is the first alternates.
    fn pair(merged: &dyn Loaded, other: &dyn Loaded, seed: u64) -> Result<Pair> {
        let slice = |database: &dyn Loaded| {
            let outcome = database.slice(seed, HARNESS).map_err(wrong)?;
            Ok::<_, LabError>(Times::of(&outcome))
        };
        if seed.is_multiple_of(2) {
            let merged = slice(merged)?;
            let other = slice(other)?;
            return Ok(Pair { merged, other });
        }
        let other = slice(other)?;
        let merged = slice(merged)?;
        Ok(Pair { merged, other })
    }
}

/// A part of a transaction's times, as figures name it.
type TimesPart = (&'static str, fn(&Times) -> f64);

const PARTS: [TimesPart; 2] = [
    ("index time", |times| times.index),
    ("database time", |times| times.database),
];

/// The figures of pairs of slices, and the ratios of those of the control.
fn figures(pairs: &[Pair], control: &[Pair], answer: &mut Answer) {
    for (part, of) in PARTS {
        let name = format!("{part}, segregated ÷ merged");
        answer.push(&name, "of 1", Better::Lower, ratio(pairs, of));
        let name = format!("{part}, merged ÷ merged (control)");
        answer.push(&name, "of 1", Better::Lower, ratio(control, of));
        let merged = middle(pairs, |pair| of(&pair.merged));
        let segregated = middle(pairs, |pair| of(&pair.other));
        for (form, us) in [("merged", merged), ("segregated", segregated)] {
            let name = format!("{part}, {form}");
            answer.push(&name, "µs a transaction", Better::Lower, us);
        }
    }
}

/// The median of the pairs' ratios of the other database to the merged one.
fn ratio(pairs: &[Pair], of: fn(&Times) -> f64) -> f64 {
    middle(pairs, |pair| of(&pair.other) / of(&pair.merged).max(1e-9))
}

fn middle(pairs: &[Pair], of: impl Fn(&Pair) -> f64) -> f64 {
    pairs.iter().map(of).collect::<Rounds>().median()
}

fn contenders() -> Vec<Tree> {
    let mut trees = trees();
    trees.retain(|tree| tree.name != ONLY_IN_A_POOL);
    trees
}

impl Experiment for Segregation {
    fn about(&self) -> About {
        About {
            name: "bst/segregation",
            title: "Segregated trees beside merged ones, slice by slice",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.3 and \
                     §4.6, Figs. 5 and 9",
            claim: "Segregation takes a tenth of the index time of occ-avl in YCSB and in TPC-C \
                    and 5 % of that of edge-ext-lf in TPC-C; it adds 2 to 5 % to the database \
                    time of TPC-C. Ours: no tree loses index time by it.",
            x_label: Some("what runs"),
            x_log: false,
            baseline: "edge-ext-lf",
            here: Some(
                "Both databases are in one process and run the same transactions by turns. The \
                 absolute times are not those of Figures 5 and 9: the caches are shared with the \
                 other database.",
            ),
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let promises = Promises {
            concurrent: true,
            ..Promises::default()
        };
        let participants = contenders().into_iter().map(|tree| Participant {
            entry: own(tree.name, promises),
            available: Ok(()),
            environment: Vec::new(),
        });
        participants.collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let point = |(name, part)| {
            let workload = Workload::of(part, settings);
            let (parameter, rows) = match part {
                Part::Tpcc | Part::TpccFull => {
                    let size = workload.size();
                    (("warehouses", size.warehouses), size.rows())
                }
                Part::Ycsb | Part::Microbenchmark => (("rows", workload.rows), workload.rows),
            };
            let slices = 2 * (workload.pairs as u64 + 2);
            let transactions = slices * workload.transactions * workload.threads as u64;
            Ok(Point {
                parameters: [
                    (parameter.0.to_owned(), parameter.1.into()),
                    ("threads".to_owned(), workload.threads.into()),
                ]
                .into(),
                x: Some(X::Category(str::to_owned(name))),
                contenders: contenders().iter().map(|tree| tree.name).collect(),
                need: Need {
                    memory_bytes: rows * 1800 + transactions * 6000 + (64 << 20),
                    disk_bytes: 0,
                    shared_seconds: 0.05,
                    own_seconds: rows as f64 * 24e-6 + transactions as f64 * 50e-6,
                    verify_seconds: 0.5,
                },
                // Each run checks its own answers; once for each contender is enough before.
                verified_by: serde_json::json!([name]),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        };
        let parts = [("YCSB", Part::Ycsb), ("TPC-C", Part::Tpcc)];
        parts.into_iter().map(point).collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let mut trees = contenders().into_iter();
        let tree = trees
            .find(|tree| tree.name == job.contender)
            .ok_or_else(|| LabError::Usage(format!("{} is no tree here", job.contender)))?;
        let mut answer = Answer::default();
        match job.stage {
            Stage::Verify => drop(workload.few().run(&tree, Placement::Segregated)?),
            Stage::Measure => {
                let pairs = workload.run(&tree, Placement::Segregated)?;
                let control = workload.run(&tree, Placement::Merged)?;
                figures(&pairs, &control, &mut answer);
            }
            Stage::Count { .. } => {}
        }
        Ok(answer)
    }
}
