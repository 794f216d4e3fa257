//! Experiments in the lab's database (§4): trees as its indexes, with and without memory of their
//! own.
//!
//! A place on the horizontal axis says what runs, in which form the trees are, and where their
//! nodes lie: among all that the database allocates, in the size classes of our allocator (merged)
//! or in the standard allocator (system), or in pools of their own beside size classes
//! (segregated); and how rows are locked. Every run checks what it left behind before its figures
//! count.

use std::collections::BTreeMap;

use hedgerow_lab_contender::Promises;
use hedgerow_lab_database::microbenchmark::Microbenchmark;
use hedgerow_lab_database::tpcc::{Mix, Size, TRANSACTIONS, Tpcc};
use hedgerow_lab_database::ycsb::Ycsb;
use hedgerow_lab_database::{Concurrency, Error, NewIndex, Outcome, Settings as Made, Tree, trees};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, X};
use hedgerow_memory::Placement;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::harness::HARNESS;
use crate::registry::Registry;
use crate::{LabError, Result};

/// An experiment in the database.
pub struct DatabaseExperiment {
    /// What it reproduces.
    pub about: About,
    /// The places on its horizontal axis.
    pub places: &'static [Place],
    /// Adds the figures of a run.
    pub figures: fn(Part, &Outcome, &mut Answer),
}

/// A place on the horizontal axis.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Its name.
    pub name: &'static str,
    /// What runs.
    pub part: Part,
    /// Whether the trees are as published, where they were.
    pub baseline: bool,
    /// Where the trees' nodes come from. Rows come from the size classes, but from the standard
    /// allocator where nodes do.
    pub placement: Placement,
    /// What a transaction does about a lock in its way.
    pub concurrency: Concurrency,
    /// Whether each row's lock has cache lines of its own.
    pub padded_locks: bool,
    /// The exponent of Zipf's law, by which YCSB draws keys.
    pub zipf_exponent: f64,
    /// Which trees take part, by name; none are all that can.
    pub only: &'static [&'static str],
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The microbenchmark of §3.1, 90 % lookups, on as many keys as YCSB has rows.
    Microbenchmark,
    /// YCSB (§4.1).
    Ycsb,
    /// TPC-C, new-order and payment (§4.4).
    Tpcc,
    /// TPC-C, all five transactions.
    TpccFull,
}

impl Part {
    /// Which transactions of TPC-C run.
    pub fn mix(self) -> Mix {
        match self {
            Self::TpccFull => Mix::Full,
            Self::Microbenchmark | Self::Ycsb | Self::Tpcc => Mix::Paper,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    part: Part,
    baseline: bool,
    /// Its name.
    placement: String,
    /// Whether a transaction waits for younger ones, by wait-die.
    waits: bool,
    padded_locks: bool,
    zipf_exponent: f64,
    threads: usize,
    /// Rows of YCSB, keys of the microbenchmark.
    rows: u64,
    /// Of each thread.
    transactions: u64,
    /// Of TPC-C; none is a database far smaller than one warehouse.
    warehouses: Option<u64>,
}

/// The exponent of the paper's runs, as far as it is known.
const ZIPF_EXPONENT: f64 = 0.6;

impl Place {
    /// Improved trees with the paper's locks: nobody waits for them, and they are padded.
    pub const fn new(name: &'static str, part: Part, placement: Placement) -> Self {
        Self {
            name,
            part,
            baseline: false,
            placement,
            concurrency: Concurrency::NoWait,
            padded_locks: true,
            zipf_exponent: ZIPF_EXPONENT,
            only: &[],
        }
    }

    fn workload(&self, settings: &Settings) -> Workload {
        let rows = settings.keys(500, 200_000, 10_000_000) as u64;
        let threads = settings.cores.clamp(1, 64);
        let transactions = match self.part {
            Part::Microbenchmark => settings.scale.pick(2000, 500_000, 5_000_000),
            Part::Ycsb => settings.scale.pick(40, 20_000, 100_000),
            Part::Tpcc => settings.scale.pick(40, 20_000, 100_000),
            // So many that each kind occurs.
            Part::TpccFull => settings.scale.pick(300, 20_000, 100_000),
        };
        let warehouses = settings.scale.pick(None, Some(threads as u64), Some(48));
        Workload {
            part: self.part,
            baseline: self.baseline,
            placement: self.placement.name().to_owned(),
            waits: self.concurrency == Concurrency::WaitDie,
            padded_locks: self.padded_locks,
            zipf_exponent: self.zipf_exponent,
            threads,
            rows,
            transactions,
            warehouses,
        }
    }

    /// Who takes part: trees with that form, in that place.
    fn contenders(&self) -> Vec<&'static str> {
        let mut trees = trees();
        // What is not the paper's stands beside the improved trees alone.
        let is_improved = self.placement == Placement::Segregated && !self.baseline;
        trees.retain(|tree| tree.baseline.is_some() || is_improved);
        // The microbenchmark runs on maps.
        let is_of_maps = self.part == Part::Microbenchmark;
        trees.retain(|tree| tree.is_map() || !is_of_maps);
        trees.retain(|tree| self.only.is_empty() || self.only.contains(&tree.name));
        trees.iter().map(|tree| tree.name).collect()
    }

    fn point(&self, settings: &Settings) -> Result<Point> {
        let workload = self.workload(settings);
        let size = workload.size();
        let (rows, row_bytes) = match self.part {
            Part::Microbenchmark => (workload.rows * 2, 100),
            Part::Ycsb => (workload.rows, 800),
            Part::Tpcc | Part::TpccFull => (size.rows(), 900),
        };
        let operations = workload.transactions * workload.threads as u64;
        let each_us = match self.part {
            Part::Microbenchmark => 1.0,
            Part::Ycsb | Part::Tpcc => 40.0,
            Part::TpccFull => 80.0,
        };
        Ok(Point {
            parameters: self.parameters(&workload),
            x: Some(X::Category(self.name.to_owned())),
            contenders: self.contenders(),
            need: Need {
                memory_bytes: rows * row_bytes + (64 << 20),
                disk_bytes: 0,
                shared_seconds: 0.05 + rows as f64 * 2e-6,
                own_seconds: operations as f64 * each_us * 1e-6,
                verify_seconds: 0.5,
            },
            // Each run checks its own answers; once for each contender is enough before.
            verified_by: serde_json::json!([]),
            workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
        })
    }
}

impl Place {
    /// What distinguishes the place's table from others of the experiment.
    fn parameters(&self, workload: &Workload) -> BTreeMap<String, Value> {
        let mut parameters: Vec<(&str, Value)> = vec![("threads", workload.threads.into())];
        match self.part {
            Part::Tpcc | Part::TpccFull => {
                parameters.push(("warehouses", workload.size().warehouses.into()));
            }
            Part::Microbenchmark | Part::Ycsb => parameters.push(("rows", workload.rows.into())),
        }
        if self.part == Part::TpccFull {
            parameters.push(("transactions", "all five".into()));
        }
        if self.zipf_exponent != ZIPF_EXPONENT {
            parameters.push(("Zipf exponent", self.zipf_exponent.into()));
        }
        let owned = |(name, value): (&str, Value)| (name.to_owned(), value);
        parameters.into_iter().map(owned).collect()
    }
}

impl Workload {
    fn size(&self) -> Size {
        self.warehouses.map_or(Size::reduced(1), Size::new)
    }

    /// A small one of the same kind.
    fn few(&self) -> Self {
        Self {
            rows: self.rows.min(2000),
            transactions: self.transactions.min(200),
            warehouses: None,
            ..self.clone()
        }
    }

    fn run(&self, tree: &Tree) -> std::result::Result<Outcome, Error> {
        let new: NewIndex = match tree.baseline {
            Some(baseline) if self.baseline => baseline,
            _ => tree.improved,
        };
        let placement = Placement::from_name(&self.placement)
            .ok_or_else(|| Error::Usage(format!("nodes are nowhere {}", self.placement)))?;
        let threads = self.threads;
        let made = Made {
            concurrency: match self.waits {
                true => Concurrency::WaitDie,
                false => Concurrency::NoWait,
            },
            padded_locks: self.padded_locks,
            placement,
        };
        match self.part {
            Part::Microbenchmark => {
                let run = Microbenchmark {
                    keys: self.rows,
                    threads,
                    operations: self.transactions,
                    lookup_percent: 90,
                    seed: 1,
                };
                let map = new.map(placement).ok_or_else(|| {
                    let why = "is a multimap, and the microbenchmark runs on maps";
                    Error::Usage(format!("{} {why}", tree.name))
                })?;
                run.run(&*map, HARNESS)
            }
            Part::Ycsb => {
                let run = Ycsb {
                    zipf_exponent: self.zipf_exponent,
                    ..Ycsb::new(self.rows, threads, self.transactions)
                };
                run.run(new.form(placement), made, HARNESS)
            }
            Part::Tpcc | Part::TpccFull => {
                let run = Tpcc {
                    size: self.size(),
                    mix: self.part.mix(),
                    threads,
                    transactions: self.transactions,
                    seed: 1,
                };
                run.run(&|| new.form(placement), made, HARNESS)
            }
        }
    }
}

impl Experiment for DatabaseExperiment {
    fn about(&self) -> About {
        self.about
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let promises = Promises {
            concurrent: true,
            ..Promises::default()
        };
        let mut trees = trees();
        trees.retain(|tree| {
            let mut places = self.places.iter();
            places.any(|place| place.contenders().contains(&tree.name))
        });
        let participants = trees.into_iter().map(|tree| Participant {
            entry: own(tree.name, promises),
            available: Ok(()),
            environment: Vec::new(),
        });
        participants.collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        self.places
            .iter()
            .map(|place| place.point(settings))
            .collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let mut trees = trees().into_iter();
        let tree = trees
            .find(|tree| tree.name == job.contender)
            .ok_or_else(|| LabError::Usage(format!("{} is no tree here", job.contender)))?;
        let mut answer = Answer::default();
        match job.stage {
            Stage::Verify => drop(workload.few().run(&tree).map_err(wrong)?),
            Stage::Measure => {
                let outcome = workload.run(&tree).map_err(wrong)?;
                (self.figures)(workload.part, &outcome, &mut answer);
            }
            Stage::Count { .. } => {}
        }
        Ok(answer)
    }
}

/// The lab's error for one of the database: a database that is not what it should be is a wrong
/// answer.
pub fn wrong(error: Error) -> LabError {
    match error {
        Error::Inconsistent(_) => LabError::WrongAnswer(error.to_string()),
        other => LabError::from_display(other),
    }
}

/// Committed transactions, or operations of the microbenchmark; and what they were counted to take.
pub fn throughput(part: Part, outcome: &Outcome, answer: &mut Answer) {
    if part == Part::Microbenchmark {
        let operations = outcome.index_operations as f64;
        let mops = operations / outcome.seconds.max(1e-9) / 1e6;
        answer.push("operations", "Mops/s", Better::Higher, mops);
        let operations = outcome.index_operations as usize;
        answer.push_counts("operations", "per operation", operations);
        return;
    }
    let thousands = outcome.throughput() / 1e3;
    answer.push("transactions", "thousand/s", Better::Higher, thousands);
    let committed = outcome.committed as usize;
    answer.push_counts("transactions", "per transaction", committed);
}

/// Where the time of a transaction goes.
pub fn times(part: Part, outcome: &Outcome, answer: &mut Answer) {
    throughput(part, outcome, answer);
    let index_us = outcome.each_us(outcome.index_seconds);
    answer.push("index time", "µs a transaction", Better::Lower, index_us);
    let database_us = outcome.each_us(outcome.database_seconds());
    answer.push(
        "database time",
        "µs a transaction",
        Better::Lower,
        database_us,
    );
    let aborts = outcome.aborts as f64 * 1e3 / outcome.committed.max(1) as f64;
    answer.push("aborts", "in a thousand", Better::Lower, aborts);
}

/// Where the time of each of TPC-C's transactions goes.
pub fn times_by_kind(part: Part, outcome: &Outcome, answer: &mut Answer) {
    times(part, outcome, answer);
    for (name, kind) in TRANSACTIONS.iter().zip(&outcome.kinds) {
        if kind.ended == 0 {
            continue;
        }
        for (time, us) in ["index time", "database time"].iter().zip(kind.each_us()) {
            let column = format!("{name}: {time}");
            answer.push(&column, "µs a transaction", Better::Lower, us);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_the_papers_trees_are_merged_or_as_published() {
        let place = |baseline, placement| Place {
            baseline,
            ..Place::new("here", Part::Ycsb, placement)
        };
        let all = place(false, Placement::Segregated).contenders();
        assert!(all.contains(&"masstree") && all.contains(&"ticket"));
        let merged = place(false, Placement::Merged).contenders();
        assert!(!merged.contains(&"masstree") && merged.contains(&"ticket"));
        assert_eq!(merged, place(true, Placement::System).contenders());
        let only = Place {
            only: &["masstree", "ticket"],
            ..place(false, Placement::Segregated)
        };
        assert_eq!(only.contenders(), ["ticket", "masstree"]);
    }

    /// Else one table would mix them.
    #[test]
    fn what_differs_but_for_the_place_is_a_parameter() {
        let settings = Settings::smoke(2);
        let place = |part, zipf_exponent| Place {
            zipf_exponent,
            ..Place::new("here", part, Placement::Segregated)
        };
        let places = [
            place(Part::Ycsb, 0.6),
            place(Part::Ycsb, 0.9),
            place(Part::Tpcc, 0.6),
            place(Part::TpccFull, 0.6),
        ];
        let parameters = places.map(|place| {
            let point = place.point(&settings).expect("a workload");
            format!("{:?}", point.parameters)
        });
        let different: BTreeSet<&String> = parameters.iter().collect();
        assert_eq!(different.len(), places.len(), "{parameters:?}");
    }

    /// The tree that is a multimap serves as an index, but is no map.
    #[test]
    fn the_microbenchmark_has_maps_alone() {
        let place = |part| Place::new("here", part, Placement::Segregated);
        for (part, takes_part) in [
            (Part::Microbenchmark, false),
            (Part::Ycsb, true),
            (Part::Tpcc, true),
            (Part::TpccFull, true),
        ] {
            let contenders = place(part).contenders();
            assert_eq!(contenders.contains(&"bwtree-multimap"), takes_part);
            let workload = Workload {
                part,
                baseline: false,
                placement: "segregated".to_owned(),
                waits: part == Part::TpccFull,
                padded_locks: false,
                zipf_exponent: 0.9,
                threads: 2,
                rows: 100,
                transactions: 20,
                warehouses: None,
            };
            for tree in trees() {
                let refused = workload.run(&tree).err().map(|error| error.to_string());
                let expected = !contenders.contains(&tree.name);
                let says = |why: &String| why.contains("bwtree-multimap is a multimap");
                assert_eq!(refused.as_ref().is_some_and(says), expected, "{refused:?}");
                assert_eq!(refused.is_some(), expected, "{refused:?}");
            }
        }
    }
}
