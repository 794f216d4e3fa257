//! How many keys are in the second layer of Masstree, and how few of them share one of its trees
//! (§6.2).
//!
//! Decimals of up to ten digits can share their first eight bytes, and each group that does is a
//! B+-tree of its own in layer 1. The paper's has 140 million of them; the more there are, the more
//! share eight digits, so the horizontal axis is their number. What the tree counts of itself is
//! the figure; nothing is timed.

use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::KeySet;
use hedgerow_lab_report::{Better, X};
use hedgerow_masstree::{Concurrent, Masstree};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::pace;
use crate::registry::Registry;
use crate::{LabError, Result};

/// The experiment.
pub(super) struct Layers;

const TREE: &str = "hedgerow inline";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    keys: usize,
}

impl Experiment for Layers {
    fn about(&self) -> About {
        About {
            name: "masstree/layers",
            title: "Keys in the second layer, and how many share a tree of it",
            source: "Masstree, §6.2",
            claim: "Of 140 million decimals 33 % are in trees of layer 1, 2.3 keys in each of \
                    them on average.",
            x_label: Some("keys"),
            x_log: true,
            baseline: TREE,
            here: Some(
                "The shares depend on nothing but the keys; 140 million of them take 10 GB.",
            ),
            compared_to: None,
        }
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let tree = registry.map(TREE).into_iter();
        let trees = tree.map(|map| Participant {
            entry: map.entry.clone(),
            available: Ok(()),
            environment: Vec::new(),
        });
        trees.collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let most = settings.keys(20_000, 10_000_000, 140_000_000);
        let points = [most / 100, most / 10, most].into_iter().map(|keys| {
            Ok(Point {
                parameters: [("key set".to_owned(), "decimal".into())].into(),
                x: Some(X::Number(keys as f64)),
                contenders: vec![TREE],
                need: Need {
                    memory_bytes: keys as u64 * 100 + (64 << 20),
                    shared_seconds: pace::PROCESS_SECONDS + keys as f64 * 0.1e-6,
                    own_seconds: keys as f64 * 2e-6,
                    verify_seconds: pace::VERIFY_SECONDS,
                    ..Need::default()
                },
                verified_by: Value::Null,
                workload: serde_json::to_value(Workload { keys })
                    .map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            // Every run checks what it counts: a short one is all that verifying needs.
            workload.keys = workload.keys.min(20_000);
        }
        count(workload.keys)
    }
}

/// What the tree counts of so many keys in it.
fn count(keys: usize) -> Result<Answer> {
    let tree: Masstree<u64, Concurrent> = Masstree::new();
    for key in KeySet::Decimal.keys(keys)?.iter() {
        tree.put(key, value_of(key));
    }
    let statistics = tree.statistics();
    let of = |name: &str| statistics.get(name).unwrap_or(0.0);
    if of("keys") != keys as f64 {
        let what = format!("{} keys of {keys} are counted", of("keys"));
        return Err(LabError::WrongAnswer(what));
    }
    let share = |part: &str, all: f64| 100.0 * of(part) / all.max(1.0);
    let mut answer = Answer::default();
    let in_layer_1 = share("layer_1_keys", keys as f64);
    answer.push("in layer 1", "% of the keys", Better::Lower, in_layer_1);
    let each = of("layer_1_keys") / of("layer_1_trees").max(1.0);
    answer.push("keys of a tree of layer 1", "keys", Better::Higher, each);
    let narrow = share("narrow_nodes", of("border_nodes"));
    answer.push("narrow nodes", "% of border nodes", Better::Higher, narrow);
    let fill = share("border_fill", 1.0);
    answer.push("slots in use", "% of border slots", Better::Higher, fill);
    let bytes = of("bytes_per_key");
    answer.push("memory", "bytes/key", Better::Lower, bytes);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_the_tree_counts_is_what_the_keys_share() {
        let keys = KeySet::Decimal.keys(200_000).expect("keys");
        let mut groups: BTreeMap<&[u8], usize> = BTreeMap::new();
        for key in keys.iter().filter(|key| key.len() > 8) {
            *groups.entry(&key[..8]).or_default() += 1;
        }
        groups.retain(|_, size| *size > 1);
        let shared: usize = groups.values().sum();
        let answer = count(keys.len()).expect("counts");
        let figure = |nth: usize| answer.figures[nth].figure;
        assert_eq!(figure(0), 100.0 * shared as f64 / keys.len() as f64);
        assert_eq!(figure(1), shared as f64 / groups.len() as f64);
    }
}
