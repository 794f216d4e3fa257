//! Integers by density (§4.6, Figures 9 and 10): throughput and space of whole trees as the
//! range that a fixed number of 4-byte integers is drawn from widens.

use hedgerow_lab_report::X;

use crate::experiment::{About, Settings};
use crate::forms::best_of_all_and_layouts;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "btrees/fig9",
            title: "Throughput and space by the density of integers",
            source: "B-Trees Are Back, §4.6, Figures 9 and 10",
            claim: "At full density fully dense leaves add 71 % to lookups and 213 % to \
                    insertions and save 52 % of the space; at 44 % they add 10 % to lookups.",
            x_label: Some("density in %"),
            x_log: false,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: best_of_all_and_layouts,
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(5000, 200_000, 25_000_000);
    let densities: &[u32] =
        settings
            .scale
            .pick(&[4, 100], &[4, 44, 100], &[4, 16, 28, 44, 58, 72, 86, 100]);
    let points = densities.iter().map(|percent| MapPoint {
        parameters: vec![("keys", keys.into())],
        x: Some(X::Number(f64::from(*percent))),
        workload: MapWorkload {
            set: format!("density-u32:{percent}"),
            keys,
            operations: keys.min(1_000_000),
            threads: 1,
            phases: vec![Phase::Insert, Phase::Get, Phase::Scan],
        },
        only: &[],
    });
    points.collect()
}
