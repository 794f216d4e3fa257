//! Which forms the adaptive tree's leaves have, and how they came to it (§5, Figures 12 and 13).
//!
//! The tree is filled in random order, then looked up, then scanned; keys are drawn by the Zipf
//! distribution, as for the other figures. What is reported is counted, not timed, and so the
//! same in every round.

use std::ops::{Bound, ControlFlow};

use hedgerow_btree::BTree;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_index::Direction;
use hedgerow_lab_data::random::Random;
use hedgerow_lab_data::{Distribution, KeySet, Keys, Sampler, YCSB_ALPHA};
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use super::key_sets;
use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::pace;
use crate::registry::Registry;
use crate::verify::{SCRIPT_KEYS, verify_entry};
use crate::{LabError, Result};

const TREE: &str = "btree adaptive";

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Forms {
    /// Conversions of leaves (Fig. 12).
    Conversions,
    /// Leaves of each form (Fig. 13).
    Leaves,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    set: String,
    records: usize,
    operations: usize,
}

impl Experiment for Forms {
    fn about(&self) -> About {
        let (name, title, source, claim) = match self {
            Self::Conversions => (
                "btrees/fig12",
                "Conversions of the adaptive tree's leaves",
                "B-Trees Are Back, §5.1, Fig. 12",
                "Leaves change between comparison and fingerprints by keys and by operations, \
                 and between comparison and dense when they are full.",
            ),
            Self::Leaves => (
                "btrees/fig13",
                "Forms of the adaptive tree's leaves",
                "B-Trees Are Back, §5.2, Fig. 13",
                "Integers get comparison or dense leaves; strings get fingerprints while they \
                 are looked up, and comparison leaves as they are scanned, with some that 5 \
                 million scans have not converted.",
            ),
        };
        About {
            name,
            title,
            source,
            claim,
            x_label: Some("key set"),
            x_log: false,
            baseline: TREE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let tree = registry.map(TREE).map(|map| Participant {
            entry: map.entry.clone(),
            available: Ok(()),
            environment: Vec::new(),
        });
        tree.into_iter().collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let operations: usize = settings.scale.pick(5000, 200_000, 5_000_000);
        let sets = key_sets::four(settings);
        let points = sets.into_iter().map(|keys| {
            let workload = Workload {
                set: keys.set.to_owned(),
                records: keys.records,
                operations,
            };
            Ok(Point {
                parameters: [
                    ("lookups".to_owned(), operations.into()),
                    ("scans".to_owned(), operations.into()),
                ]
                .into(),
                x: Some(X::Category(keys.label.to_owned())),
                contenders: vec![TREE],
                need: Need {
                    memory_bytes: keys.records as u64 * 240 + (32 << 20),
                    disk_bytes: 0,
                    shared_seconds: pace::PROCESS_SECONDS,
                    own_seconds: (keys.records + 3 * operations) as f64 * 1e-6,
                    verify_seconds: pace::VERIFY_SECONDS,
                },
                verified_by: keys.set.into(),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let set: KeySet = workload.set.parse()?;
        let keys = set.keys(workload.records)?;
        if job.stage == Stage::Verify {
            let map = registry
                .map(TREE)
                .ok_or_else(|| LabError::Usage(format!("this build has no {TREE}")))?;
            verify_entry(map, &keys.select(0..keys.len().min(SCRIPT_KEYS)))?;
            return Ok(Answer::default());
        }
        let mut answer = Answer::default();
        self.run(&keys, workload.operations, &mut answer);
        Ok(answer)
    }
}

impl Forms {
    fn run(self, keys: &Keys, operations: usize, answer: &mut Answer) {
        let mut tree = BTree::<Adaptive>::default();
        for key in keys.iter() {
            tree.insert(key, &[7; 8]);
        }
        self.report(&tree, "insertions", answer);
        let zipf = Distribution::Zipf { alpha: YCSB_ALPHA };
        let mut sampler = Sampler::new(zipf, keys.len() as u64);
        let mut random = Random::new(13);
        for _ in 0..operations {
            let key = keys.get(sampler.draw(&mut random) as usize);
            let found = tree.get(key, <[u8]>::len) == Some(8);
            answer.errors += u64::from(!found);
        }
        self.report(&tree, "lookups", answer);
        for _ in 0..operations {
            let from = keys.get(sampler.draw(&mut random) as usize);
            let mut left = random.below(50);
            tree.scan(Bound::Included(from), Direction::Forward, |_, _| {
                if left == 0 {
                    return ControlFlow::Break(());
                }
                left -= 1;
                ControlFlow::Continue(())
            });
        }
        self.report(&tree, "scans", answer);
    }

    /// Adds what the tree says of itself after a phase.
    fn report(self, tree: &BTree<Adaptive>, phase: &str, answer: &mut Answer) {
        let statistics = tree.statistics();
        let count = |name: &str| statistics.get(name).unwrap_or(0.0);
        let kinds = ["comparison", "fingerprint", "fully_dense"];
        let leaves: f64 = kinds
            .iter()
            .map(|kind| count(&format!("{kind}_leaves")))
            .sum();
        match self {
            Self::Leaves => {
                for kind in kinds {
                    let share = 100.0 * count(&format!("{kind}_leaves")) / leaves;
                    let column = format!("{} after {phase}", kind.replace('_', " "));
                    answer.push(&column, "% of leaves", Better::Higher, share);
                }
            }
            Self::Conversions => {
                for name in [
                    "to_dense",
                    "from_dense",
                    "to_fingerprint_by_keys",
                    "to_comparison_by_keys",
                    "to_fingerprint_by_counter",
                    "to_comparison_by_counter",
                ] {
                    let column = format!("{} up to {phase}", name.replace('_', " "));
                    let each = count(name) / leaves;
                    answer.push(&column, "per leaf", Better::Lower, each);
                }
            }
        }
    }
}
