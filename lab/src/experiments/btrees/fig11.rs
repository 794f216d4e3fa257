//! Sequential ids from many partitions (§4.6, "Partitioned Sequential Insert", Fig. 11):
//! throughput of insertion and space by the number of records in a partition.

use hedgerow_lab_report::X;

use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::forms::{best_of_all_and_layouts, map_of};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};
use crate::registry::Registry;

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "btrees/fig11",
            title: "Sequential insertion into partitions",
            source: "B-Trees Are Back, §4.6, Fig. 11",
            claim: "Below 200 records in a partition dense leaves change nothing; at 10,000 they \
                    insert 2.7 times as fast, and space falls.",
            x_label: Some("records in a partition"),
            x_log: true,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: balanced,
        points,
    }
}

/// Without the one tree that does not balance itself: ascending keys make a list of it, and an
/// insertion takes as long as a walk over the partition.
fn balanced(registry: &Registry) -> Vec<Contestant> {
    let mut maps = best_of_all_and_layouts(registry);
    maps.retain(|contestant| map_of(contestant.map.entry.name) != "libcds Ellen");
    maps
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(5000, 200_000, 10_000_000);
    let sizes: &[usize] = settings.scale.pick(
        &[10, 5000],
        &[10, 200, 10_000],
        &[10, 100, 1000, 10_000, 100_000, 1_000_000],
    );
    let points = sizes.iter().map(|size| MapPoint {
        parameters: vec![("keys", keys.into())],
        x: Some(X::Number(*size as f64)),
        workload: MapWorkload {
            set: format!("partitioned:{}", (keys / size).clamp(1, 1 << 20)),
            keys,
            operations: keys.min(1000),
            threads: 1,
            phases: vec![Phase::Insert],
        },
        only: &[],
    });
    points.collect()
}
