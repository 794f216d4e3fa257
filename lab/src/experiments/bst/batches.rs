//! Batched lookups: `get_many`, which keeps the descents of several lookups under way, beside
//! single lookups. Not in the paper.

use hedgerow_lab_report::X;

use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};

use super::forms;

/// The experiment.
pub(super) fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "bst/batches",
            title: "Lookups one by one and in batches of 64",
            source: "Hedgerow",
            claim: "Our goal: batches are at least three times as fast as single lookups at \
                    10 M keys, as a lookup waits for a cache miss at every level.",
            x_label: Some("threads"),
            x_log: false,
            baseline: "ticket",
            here: Some(
                "All of it: the overlap of cache misses is every processor's. The more \
                 of the tree the last-level cache holds, the less there is to overlap.",
            ),
            compared_to: None,
        },
        maps: |_| forms::contestants(hedgerow_lab_own::bst_improved()),
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(5000, 1_000_000, 10_000_000);
    let threads = forms::thread_counts(settings).into_iter();
    let points = threads.map(|threads| MapPoint {
        parameters: vec![("keys", keys.into())],
        x: Some(X::Number(threads as f64)),
        workload: MapWorkload {
            set: "sparse-u64".to_owned(),
            keys,
            operations: keys,
            threads,
            phases: vec![Phase::Insert, Phase::Get, Phase::GetMany, Phase::Remove],
        },
        only: &[],
    });
    points.collect()
}
