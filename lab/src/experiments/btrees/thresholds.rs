//! The adaptive tree with other thresholds (§5.1): how many heads of a leaf may be equal, how often
//! operations count for its form, and how far.
//!
//! Each contender differs from the adaptive tree in one of the three. The workloads are those of
//! the adaptive tree's own evaluation, and one in which insertions and scans take turns, since
//! only there do leaves change between comparison and fingerprints all the time.

use hedgerow_lab_report::X;

use super::{fig15, key_sets};
use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;
use crate::registry::Registry;

const ADAPTIVE: &str = "btree adaptive";

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "btrees/thresholds",
            title: "Thresholds of the adaptive tree",
            source: "B-Trees Are Back, §5.1",
            claim: "From 1/64 to 16/64 of equal heads, the best threshold is 0.6 % faster than \
                    the worst on average; probabilities half or twice as high and a counter up \
                    to 8 change nothing significantly.",
            x_label: Some("key set"),
            x_log: false,
            baseline: ADAPTIVE,
            here: None,
            compared_to: None,
        },
        maps,
        points,
    }
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    let adaptive = registry.maps_named(&[ADAPTIVE]);
    let others = hedgerow_lab_own::btree_thresholds();
    let all = adaptive.into_iter().chain(others);
    all.map(Contestant::from).collect()
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let mut points = fig15::points(settings);
    points.extend(key_sets::four(settings).into_iter().map(|keys| MapPoint {
        parameters: vec![("operation", "insert or scan of 1 to 50".into())],
        x: Some(X::Category(keys.label.to_owned())),
        workload: MixedWorkload {
            set: Some(keys.set.to_owned()),
            ..MixedWorkload::new("btrees/half-scans", keys.records)
        },
        only: &[],
    }));
    points
}
