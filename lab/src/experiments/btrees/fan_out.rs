//! How many children inner nodes have and records leaves, what a record takes, and which part of a
//! leaf hints leave to a search, in each layout of the tree (§4.4, and the figures of space and of
//! hints in §4.1 to §4.3).
//!
//! Both depend on how long ago the last wave of splits was: leaves that were filled at the same
//! pace split at about the same time. So the source scales the number of records by 16 to the
//! power of −R, R drawn evenly from 0 to 1, and takes means. Here R is evenly spaced, and since
//! records arrive in random order, the tree of fewer records is the tree on its way to all. What is
//! reported is counted, not timed, and so the same in every round.

use hedgerow_btree::BTree;
use hedgerow_btree::configuration::{
    Adaptive, Baseline, Configuration, Fingerprint, FullyDense, Heads, Hints, Prefix, SemiDense,
    WideHeads, WideHints,
};
use hedgerow_index::Statistics;
use hedgerow_lab_data::{KeySet, Keys};
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

/// The experiment.
pub struct FanOut;

const BASELINE: &str = "btree baseline";

/// The layouts, in the order of the source, each with the one that it adds an idea to.
const LAYOUTS: [(&str, &str); 10] = [
    (BASELINE, BASELINE),
    ("btree prefix", BASELINE),
    ("btree heads", "btree prefix"),
    ("btree hints", "btree heads"),
    ("btree fingerprint", "btree hints"),
    ("btree semi dense", "btree hints"),
    ("btree fully dense", "btree hints"),
    ("btree adaptive", "btree hints"),
    ("btree wide heads", "btree prefix"),
    ("btree wide hints", "btree wide heads"),
];

fn names() -> Vec<&'static str> {
    LAYOUTS.iter().map(|(name, _)| *name).collect()
}

/// Means over the sizes: statistic, column, unit, which way is better.
const MEANS: [(&str, &str, &str, Better); 9] = [
    ("inner_children", "fan-out", "children", Better::Higher),
    (
        "level_1_children",
        "fan-out above leaves",
        "children",
        Better::Higher,
    ),
    (
        "level_2_children",
        "fan-out one level up",
        "children",
        Better::Higher,
    ),
    (
        "level_3_children",
        "fan-out two levels up",
        "children",
        Better::Higher,
    ),
    ("leaf_records", "leaf", "records", Better::Higher),
    ("bytes_per_key", "space", "bytes/record", Better::Lower),
    (
        "leaf_prefix_bytes",
        "prefix of leaves",
        "bytes",
        Better::Higher,
    ),
    (
        "leaf_distinct_heads_ratio",
        "distinct heads",
        "of 1",
        Better::Higher,
    ),
    (
        "leaf_hinted_range_ratio",
        "hinted range",
        "of 1",
        Better::Lower,
    ),
];

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    set: String,
    records: usize,
    /// At how many sizes the tree is looked at.
    sizes: usize,
}

impl Workload {
    /// The sizes, ascending.
    fn sizes(&self) -> Vec<usize> {
        let sizes = (0..self.sizes).rev().map(|nth| {
            let r = (nth as f64 + 0.5) / self.sizes as f64;
            (self.records as f64 * 16_f64.powf(-r)) as usize
        });
        sizes.collect()
    }
}

/// What the tree says of itself at each of the sizes, and with all records.
fn grown<C: Configuration>(keys: &Keys, sizes: &[usize]) -> (Vec<Statistics>, Statistics) {
    let mut tree = BTree::<C>::default();
    let (mut seen, mut inserted) = (Vec::new(), 0);
    let mut up_to = |size: usize| {
        for nth in inserted..size {
            tree.insert(keys.get(nth), &[7; 8]);
        }
        inserted = size;
        tree.statistics()
    };
    for &size in sizes {
        seen.push(up_to(size));
    }
    (seen, up_to(keys.len()))
}

/// The same for a layout by its name.
fn grown_named(name: &str, keys: &Keys, sizes: &[usize]) -> Result<(Vec<Statistics>, Statistics)> {
    Ok(match name {
        "btree baseline" => grown::<Baseline>(keys, sizes),
        "btree prefix" => grown::<Prefix>(keys, sizes),
        "btree heads" => grown::<Heads>(keys, sizes),
        "btree wide heads" => grown::<WideHeads>(keys, sizes),
        "btree hints" => grown::<Hints>(keys, sizes),
        "btree wide hints" => grown::<WideHints>(keys, sizes),
        "btree fingerprint" => grown::<Fingerprint>(keys, sizes),
        "btree semi dense" => grown::<SemiDense>(keys, sizes),
        "btree fully dense" => grown::<FullyDense>(keys, sizes),
        "btree adaptive" => grown::<Adaptive>(keys, sizes),
        other => return Err(LabError::Usage(format!("{other} is no layout"))),
    })
}

/// The mean over those sizes at which the tree has a statistic.
fn mean(seen: &[Statistics], name: &str) -> Option<f64> {
    let there: Vec<f64> = seen.iter().filter_map(|one| one.get(name)).collect();
    (!there.is_empty()).then(|| there.iter().sum::<f64>() / there.len() as f64)
}

/// Adds what a layout comes to, and how that compares with the layout before it.
fn report(seen: &[Statistics], before: &[Statistics], all: &Statistics, answer: &mut Answer) {
    for (name, column, unit, better) in MEANS {
        let Some(figure) = mean(seen, name) else {
            continue;
        };
        answer.push(column, unit, better, figure);
        if ["inner_children", "bytes_per_key"].contains(&name) {
            let ratio = figure / mean(before, name).unwrap_or(figure);
            answer.push(&format!("{column} ÷ before"), "of 1", better, ratio);
        }
    }
    if let Some(bytes) = all.get("bytes_per_key") {
        answer.push("space, all records", "bytes/record", Better::Lower, bytes);
    }
}

impl Experiment for FanOut {
    fn about(&self) -> About {
        About {
            name: "btrees/fan-out",
            title: "Children of inner nodes, records of leaves, bytes of a record, by layout",
            source: "B-Trees Are Back, §4.4, and space in §4.1 to §4.6",
            claim: "Prefix truncation doubles the fan-out of URLs, adds 10 % to that of titles \
                    and dense integers and 1 % to that of sparse ones, and saves 7 to 64 % of \
                    space; heads take 8 % of the fan-out of URLs, else 15 to 20 %; hints less \
                    than 2 %. Hints leave 7 % (dense) to 30 % (URLs) of a node's entries to the \
                    search.",
            x_label: Some("key set"),
            x_log: false,
            baseline: BASELINE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let maps = registry.maps_named(&names()).into_iter();
        let trees = maps.map(|map| Participant {
            entry: map.entry,
            available: Ok(()),
            environment: Vec::new(),
        });
        trees.collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let sizes = settings.scale.pick(3, 16, 32);
        let points = key_sets::four(settings).into_iter().map(|keys| {
            let workload = Workload {
                set: keys.set.to_owned(),
                records: keys.records,
                sizes,
            };
            Ok(Point {
                parameters: [("sizes".to_owned(), sizes.into())].into(),
                x: Some(X::Category(keys.label.to_owned())),
                contenders: names(),
                need: Need {
                    memory_bytes: keys.records as u64 * 280 + (32 << 20),
                    disk_bytes: 0,
                    shared_seconds: pace::PROCESS_SECONDS,
                    own_seconds: keys.records as f64 * 2.4e-6,
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
        let name = job.contender.as_str();
        if job.stage == Stage::Verify {
            let map = registry
                .map(name)
                .ok_or_else(|| LabError::Usage(format!("this build has no {name}")))?;
            verify_entry(map, &keys.select(0..keys.len().min(SCRIPT_KEYS)))?;
            return Ok(Answer::default());
        }
        let sizes = workload.sizes();
        let (seen, all) = grown_named(name, &keys, &sizes)?;
        let layout = LAYOUTS.iter().find(|(layout, _)| *layout == name);
        let (before, _) =
            grown_named(layout.map_or(BASELINE, |(_, before)| before), &keys, &sizes)?;
        let mut answer = Answer {
            errors: u64::from(all.get("keys") != Some(keys.len() as f64)),
            ..Answer::default()
        };
        report(&seen, &before, &all, &mut answer);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_spread_evenly_over_a_sixteenth_to_all() {
        let workload = Workload {
            set: "dense-u32".to_owned(),
            records: 160_000,
            sizes: 16,
        };
        let sizes = workload.sizes();
        assert!(sizes.is_sorted() && sizes.len() == 16);
        assert!((10_000..12_000).contains(&sizes[0]), "{sizes:?}");
        assert!((140_000..160_000).contains(&sizes[15]), "{sizes:?}");
    }
}
