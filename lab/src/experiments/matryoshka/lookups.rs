//! How near lookups are to what they could be: beside a tree that never changes.
//!
//! The report has no such experiment. A tree whose nodes hold keys and nothing else, full and
//! without links, bounds what a tree of integers can reach; what ours are behind it is what
//! inserts and removals cost lookups.

use hedgerow_lab_report::X;

use super::points::rivals;
use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::experiments::masstree::comparison;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};
use crate::registry::Registry;
use hedgerow_lab_comparison_trees as trees;

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "matryoshka/lookups",
            title: "Lookups of integers beside a tree that does not change",
            source: "Not in the Matryoshka report; the tree is that of S. Slotin, \"Static \
                B-Trees\", \
                     and of R. Groot Koerkamp, \"Static search trees\"",
            claim: "None of the report's. The static tree is a bound: nodes of 16 keys, full, \
                    without links, searched in groups of 32.",
            x_label: Some("keys"),
            x_log: true,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps,
        points,
    }
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    let fixed = [trees::STATIC_U32, trees::STATIC_U64].into_iter();
    let mut maps = rivals(registry);
    maps.extend(fixed.filter_map(comparison));
    maps
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let paper = vec![262_144, 4_194_304, 16_777_216];
    let counts = match settings.keys {
        Some(keys) => vec![keys],
        None => settings.scale.pick(vec![2000], vec![262_144], paper),
    };
    let mut points = Vec::new();
    for (key_bytes, set) in [(4, "dense-u32"), (8, "sparse-u64")] {
        points.extend(counts.iter().map(|&keys| MapPoint {
            parameters: vec![("key bytes", key_bytes.into())],
            x: Some(X::Number(keys as f64)),
            workload: MapWorkload {
                set: set.to_owned(),
                keys,
                operations: keys.min(4_000_000),
                threads: 1,
                phases: vec![Phase::Get, Phase::DependentGet, Phase::GetMany],
            },
            only: &[],
        }));
    }
    points
}
