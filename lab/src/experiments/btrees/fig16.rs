//! Space for a record of the four key sets (§6.5, Fig. 16): by how much the process grows while
//! the records are inserted in random order.

use hedgerow_lab_report::X;

use super::key_sets;
use crate::experiment::{About, Settings};
use crate::forms::best_of_all_and_the_baseline;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "btrees/fig16",
            title: "Space of four key sets",
            source: "B-Trees Are Back, §6.5, Fig. 16",
            claim: "The adaptive B-tree takes the least space in all cases; structures that keep \
                    records outside take about as much as one another, a third of it the \
                    allocator's.",
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

fn points(settings: &Settings) -> Vec<MapPoint> {
    let sets = key_sets::four(settings).into_iter();
    let points = sets.map(|keys| MapPoint {
        parameters: Vec::new(),
        x: Some(X::Category(keys.label.to_owned())),
        workload: MapWorkload {
            set: keys.set.to_owned(),
            keys: keys.records,
            operations: keys.records.min(1000),
            threads: 1,
            phases: vec![Phase::Insert],
        },
        only: &[],
    });
    points.collect()
}
