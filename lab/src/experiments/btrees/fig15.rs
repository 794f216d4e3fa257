//! Insertions, lookups and scans of the four key sets (§4 and §6, Fig. 15; the workloads are
//! those of Figures 7, 8 and 14, which compare layouts of one tree).
//!
//! Nine tenths of the records are in the map when the insertion of the rest is timed; lookups
//! and scans of 1 to 50 pairs go to records by the Zipf distribution (α = 0.99).

use hedgerow_lab_report::X;

use super::key_sets;
use crate::experiment::{About, Settings};
use crate::forms::best_of_all_and_the_baseline;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

/// The workload files, with what a table calls them.
pub(super) const OPERATIONS: [(&str, &str); 3] = [
    ("btrees/insert", "insert the last tenth"),
    ("btrees/lookup", "zipf lookup"),
    ("btrees/scan", "zipf scan of 1 to 50"),
];

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "btrees/fig15",
            title: "Insertions, lookups and scans of four key sets",
            source: "B-Trees Are Back, §6.1 to §6.4, Fig. 15",
            claim: "Tries and Wormhole are faster than the B-tree at lookups (ART by 129 % on \
                    sparse integers) but for dense integers; at scans the adaptive B-tree beats \
                    the tries by 85 to 219 %.",
            x_label: Some("key set"),
            x_log: false,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: best_of_all_and_the_baseline,
        points,
    }
}

/// The three operations on each of the four key sets.
pub(super) fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let most: u64 = settings.scale.pick(5000, 80_000, 5_000_000);
    let sets = key_sets::four(settings);
    let points = OPERATIONS.iter().flat_map(|(file, operation)| {
        sets.iter().map(move |keys| MapPoint {
            parameters: vec![("operation", (*operation).into())],
            x: Some(X::Category(keys.label.to_owned())),
            workload: MixedWorkload {
                set: Some(keys.set.to_owned()),
                most_operations: Some(most),
                ..MixedWorkload::new(file, keys.records)
            },
            only: &[],
        })
    });
    points.collect()
}
