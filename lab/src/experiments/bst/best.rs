//! The best of the binary trees beside our other trees, by everything that a map of integers does:
//! what a user should take. Not in the paper.

use hedgerow_lab_report::X;

use crate::contestant::{Contestant, all_maps};
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};

use super::forms;

/// Our other trees that many threads share, with values in place.
const OTHERS: [&str; 3] = [
    "hedgerow inline",
    "matryoshka shared u64",
    "btree shared adaptive",
];

/// The most operations of a phase that a round takes.
const MOST_OPERATIONS: usize = 2_000_000;

/// The experiment.
pub(super) fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "bst/best",
            title: "Binary search trees beside our other trees",
            source: "Hedgerow",
            claim: "Ours: trees whose nodes have many keys are ahead of binary ones at \
                    everything, and take less memory.",
            x_label: Some("threads"),
            x_log: false,
            baseline: "ticket",
            here: Some("All of it."),
            compared_to: None,
        },
        maps: |registry| {
            let mut others = all_maps(registry);
            others.retain(|one| OTHERS.contains(&one.map.entry.name));
            let trees = hedgerow_lab_own::bst_best().into_iter();
            others
                .into_iter()
                .chain(trees.map(Contestant::from))
                .collect()
        },
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let mut points = Vec::new();
    for keys in forms::key_counts(settings, &[1_000_000, 10_000_000]) {
        points.extend(
            forms::thread_counts(settings)
                .into_iter()
                .map(|threads| MapPoint {
                    parameters: vec![("keys", keys.into())],
                    x: Some(X::Number(threads as f64)),
                    workload: MapWorkload {
                        set: "sparse-u64".to_owned(),
                        keys,
                        operations: keys.min(MOST_OPERATIONS),
                        threads,
                        phases: vec![
                            Phase::Insert,
                            Phase::Get,
                            Phase::GetMany,
                            Phase::Mixed,
                            Phase::Scan,
                            Phase::Remove,
                        ],
                    },
                    only: &[],
                }),
        );
    }
    points
}
