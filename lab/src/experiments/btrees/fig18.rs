//! Lookups by one thread and by many (§7.1, Fig. 18): the paper's trees, each layout on a buffer
//! pool that evicts nothing, beside other maps that many threads can share.

use hedgerow_lab_report::X;

use super::key_sets;
use crate::experiment::{About, Settings};
use crate::forms::concurrent_best_and;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "btrees/fig18",
            title: "Lookups as threads are added",
            source: "B-Trees Are Back, §7.1, Fig. 18",
            claim: "Synchronisation costs a little, and with 24 threads the throughput of each is \
                    slightly lower again; the adaptive tree keeps its lead.",
            x_label: Some("threads"),
            x_log: false,
            baseline: "btree shared adaptive",
            here: None,
            compared_to: None,
        },
        maps: |registry| concurrent_best_and(registry, |name| name.starts_with("btree shared ")),
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let most: u64 = settings.scale.pick(5000, 200_000, 5_000_000);
    let mut points = Vec::new();
    for keys in key_sets::four(settings) {
        points.extend(
            settings
                .thread_counts(24)
                .into_iter()
                .map(|threads| MapPoint {
                    parameters: vec![("key set", keys.label.into())],
                    x: Some(X::Number(threads as f64)),
                    workload: MixedWorkload {
                        set: Some(keys.set.to_owned()),
                        most_operations: Some(most * threads as u64),
                        threads,
                        ..MixedWorkload::new("btrees/lookup", keys.records)
                    },
                    only: &[],
                }),
        );
    }
    points
}
