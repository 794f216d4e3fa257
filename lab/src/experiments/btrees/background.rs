//! Key adaption as a background activity (§5.1, "Key-Adaption"): what leaves lose whose keys were
//! all replaced without a split or merge, and what it costs to look at them.
//!
//! The source calls this unlikely and does not measure it. A tree is filled with keys of one kind,
//! and each key is then replaced by one of the other kind in the same leaf. Keys of both kinds are
//! groups of ten; the heads of one kind are equal within a group, those of the other differ. So
//! leaves should have fingerprints for the one, and compare the other.

use std::ops::{Bound, ControlFlow};

use hedgerow_btree::BTree;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_index::Direction;
use hedgerow_lab_contender::Promises;
use hedgerow_lab_data::random::{Permutation, Random};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::{pin_this_thread, timed};
use crate::pace;
use crate::registry::Registry;
use crate::{LabError, Result};

/// The experiment.
pub struct Background;

const LEFT_ALONE: &str = "left alone";
const ADAPTED: &str = "adapted in the background";
const FILLED_ANEW: &str = "filled anew";

/// Keys of a group, and pairs of a scan.
const GROUP: u32 = 10;
const PAIRS: usize = 25;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    records: usize,
    operations: usize,
    /// Whether the keys that are there in the end have heads that differ.
    heads_differ: bool,
}

/// The `nth` key of one kind or the other: eight bytes of a group, and six more.
fn key(nth: u64, heads_differ: bool) -> [u8; 14] {
    let mut key = *b"ggggggggsame-n";
    let (group, number) = (nth / u64::from(GROUP), (nth % u64::from(GROUP)) as u8);
    key[..8].copy_from_slice(&(group << 24).to_be_bytes());
    if heads_differ {
        // Behind what keys of a leaf share come three bytes of this.
        key[5] = number * 25 + 1;
    }
    key[13] = number;
    key
}

impl Workload {
    fn order(&self) -> Permutation {
        Permutation::new(self.records as u64, 11)
    }

    /// A tree of keys of the last kind.
    fn tree(&self, contender: &str) -> BTree<Adaptive> {
        let mut tree = BTree::default();
        let order = self.order();
        let keys = || (0..self.records as u64).map(|nth| order.at(nth));
        if contender == FILLED_ANEW {
            for nth in keys() {
                tree.insert(&key(nth, self.heads_differ), &[8; 8]);
            }
            return tree;
        }
        for nth in keys() {
            tree.insert(&key(nth, !self.heads_differ), &[7; 8]);
        }
        for nth in keys() {
            tree.remove(&key(nth, !self.heads_differ));
            tree.insert(&key(nth, self.heads_differ), &[8; 8]);
        }
        tree
    }

    fn run(&self, contender: &str) -> Result<Answer> {
        let mut tree = self.tree(contender);
        let mut answer = Answer::default();
        if contender == ADAPTED {
            let (seconds, leaves) = timed(|| tree.adapt_to_keys());
            let each = seconds * 1e6 / leaves as f64;
            answer.push("adaption", "µs a leaf", Better::Lower, each);
        }
        tree.verify().map_err(LabError::WrongAnswer)?;
        let statistics = tree.statistics();
        let count = |name: &str| statistics.get(name).unwrap_or(0.0);
        let fingerprints = count("fingerprint_leaves");
        let leaves = fingerprints + count("comparison_leaves") + count("fully_dense_leaves");
        let share = 100.0 * fingerprints / leaves.max(1.0);
        answer.push("fingerprints", "% of leaves", Better::Lower, share);
        let mut random = Random::new(17);
        let drawn: Vec<[u8; 14]> = (0..self.operations)
            .map(|_| key(random.below(self.records as u64), self.heads_differ))
            .collect();
        let scans = drawn.len().div_ceil(10);
        for (key, _) in drawn.iter().zip(0..scans) {
            let _ = tree.get(key, <[u8]>::len);
        }
        let (seconds, found) = timed(|| {
            let found = drawn.iter().map(|key| tree.get(key, |value| value[0]));
            found.filter(|value| *value == Some(8)).count()
        });
        answer.errors += (drawn.len() - found) as u64;
        answer.push_mops("lookup", drawn.len(), seconds);
        let (seconds, ()) = timed(|| {
            for from in &drawn[..scans] {
                let mut left = PAIRS;
                tree.scan(Bound::Included(&from[..]), Direction::Forward, |_, _| {
                    left -= 1;
                    if left == 0 {
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                });
            }
        });
        answer.push_mops("scan of 25", scans, seconds);
        Ok(answer)
    }
}

impl Experiment for Background {
    fn about(&self) -> About {
        About {
            name: "btrees/background",
            title: "Key adaption in the background",
            source: "B-Trees Are Back, §5.1",
            claim: "That all keys of a leaf are replaced without a split or merge is unlikely; \
                    key adaption in the background would serve it. Not measured there.",
            x_label: Some("heads of the new keys"),
            x_log: false,
            baseline: LEFT_ALONE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let promises = Promises {
            ordered: true,
            variable_keys: true,
            ..Promises::default()
        };
        let all = [LEFT_ALONE, ADAPTED, FILLED_ANEW].map(|name| Participant {
            entry: own(name, promises),
            available: Ok(()),
            environment: Vec::new(),
        });
        all.into()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(5000, 400_000, 10_000_000);
        let points = [("differ", true), ("are equal", false)].map(|(label, heads_differ)| {
            let workload = Workload {
                records,
                operations: records.min(1_000_000),
                heads_differ,
            };
            Ok(Point {
                parameters: [("records".to_owned(), records.into())].into(),
                x: Some(X::Category(label.to_owned())),
                contenders: vec![LEFT_ALONE, ADAPTED, FILLED_ANEW],
                need: Need {
                    memory_bytes: records as u64 * 100 + (32 << 20),
                    disk_bytes: 0,
                    shared_seconds: pace::PROCESS_SECONDS,
                    own_seconds: records as f64 * 3e-6,
                    verify_seconds: pace::VERIFY_SECONDS,
                },
                verified_by: label.into(),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.into_iter().collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            workload.records = workload.records.min(5000);
            workload.operations = workload.operations.min(5000);
        }
        pin_this_thread(0);
        let answer = workload.run(&job.contender)?;
        match job.stage {
            Stage::Measure => Ok(answer),
            _ if answer.errors > 0 => {
                let what = format!("{} keys are not found", answer.errors);
                Err(LabError::WrongAnswer(what))
            }
            _ => Ok(Answer::default()),
        }
    }
}
