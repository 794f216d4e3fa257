//! The report's own subject: sets of 4-byte integers, its seven workloads, as keys are added (§3 to
//! §6, Figs. 1 to 14; Table 5).
//!
//! A nested page is then 4 KiB and holds up to 855 keys, as in the report. `scaling` and `table5`
//! measure maps, whose pages have values behind them, beside all maps that people use.

use hedgerow_lab_report::X;

use super::points::{RECORDS, WORKLOADS, on_integers, point};
use crate::contestant::Contestant;
use crate::experiment::{About, Scale, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;
use crate::registry::Registry;
use hedgerow_lab_own::Empty;

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "matryoshka/sets",
            title: "Inserts, deletes and searches in sets of 4-byte integers",
            source: "Matryoshka B+ Tree: Insert/Delete Performance Report, §3 to §6, Figs. 1 to \
                     14; §10, Table 5",
            claim: "With 16,777,216 keys Matryoshka with fence keys does 0.97 million random \
                    inserts a second, Abseil's btree_set 0.85, std::set 0.28.",
            x_label: Some("keys"),
            x_log: true,
            baseline: "std BTreeSet u32",
            here: None,
            compared_to: None,
        },
        maps,
        points,
    }
}

/// All sets of such keys; the empty contender shows the cost of the loop.
fn maps(registry: &Registry) -> Vec<Contestant> {
    let empty = registry.map(Empty::NAME);
    let sets = registry.sets.iter().chain(empty);
    sets.cloned().map(Contestant::from).collect()
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let counts = match (settings.keys, settings.scale) {
        (Some(keys), _) => vec![keys],
        (None, Scale::Smoke) => vec![2000],
        (None, Scale::Small) => RECORDS[..2].to_vec(),
        (None, Scale::Paper) => RECORDS.to_vec(),
    };
    let mut points = Vec::new();
    for name in WORKLOADS {
        points.extend(counts.iter().map(|&records| MapPoint {
            parameters: vec![("workload", name.into()), ("key bytes", 4.into())],
            x: Some(X::Number(records as f64)),
            ..point(on_integers(settings.scale, name, records, 4), 4)
        }));
    }
    points
}
