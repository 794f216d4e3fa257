//! Lookups by skew (§6.6, Fig. 17): the exponent of the Zipf distribution from 0.5 to 1.5.

use hedgerow_lab_report::X;

use super::key_sets;
use crate::experiment::{About, Settings};
use crate::forms::best_of_all_and_the_baseline;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "btrees/fig17",
            title: "Lookups by skew",
            source: "B-Trees Are Back, §6.6, Fig. 17",
            claim: "As skew rises, ART, TLX and Wormhole gain on the adaptive B-tree; HOT, which \
                    hides misses by prefetching, loses.",
            x_label: Some("Zipf exponent"),
            x_log: false,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: best_of_all_and_the_baseline,
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let exponents: &[f64] =
        settings
            .scale
            .pick(&[0.5, 1.5], &[0.5, 1.5], &[0.5, 0.75, 1.0, 1.25, 1.5]);
    let most: u64 = settings.scale.pick(5000, 100_000, 10_000_000);
    let mut points = Vec::new();
    for keys in key_sets::four(settings) {
        points.extend(exponents.iter().map(|exponent| MapPoint {
            parameters: vec![("key set", keys.label.into())],
            x: Some(X::Number(*exponent)),
            workload: MixedWorkload {
                set: Some(keys.set.to_owned()),
                distribution: Some(format!("zipf:{exponent}")),
                most_operations: Some(most),
                ..MixedWorkload::new("btrees/skew", keys.records)
            },
            only: &[],
        }));
    }
    points
}
