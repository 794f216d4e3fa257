//! What flexibility costs (§6.4): keys of any length, concurrency, and order.
//!
//! Three comparisons, each with a tree that lacks one feature: a B-tree of fixed 8-byte keys,
//! Masstree compiled for one thread, and a hash table. The second is on one thread, as in the
//! paper, the others on one thread and on one for each core, up to the paper's 16. The paper
//! measures over the network with logging on; here nothing but the tree is measured, which shows
//! more of the differences. Keys of the hash table are of eight letters, as there.

use hedgerow_lab_report::X;

use super::fig8::{comparison, thread_counts};
use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};
use crate::registry::Registry;
use hedgerow_lab_comparison_trees as trees;
use hedgerow_lab_own::Empty;

const CONCURRENT: &str = "hedgerow inline";
const ALONE: &str = "hedgerow single-threaded";

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "masstree/flexibility",
            title: "What variable keys, concurrency and order cost",
            source: "Masstree, §6.4",
            claim: "A fixed-size B-tree is 0.8 % faster on gets of 8-byte keys, a single-core \
                    build 13 % faster on puts, and a hash table 2.5 times as fast.",
            x_label: Some("feature"),
            x_log: false,
            baseline: CONCURRENT,
            here: None,
            compared_to: None,
        },
        maps,
        points,
    }
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    let ours = registry.maps_named(&[CONCURRENT, ALONE, Empty::NAME]);
    let lacking = [trees::FIXED, trees::HASH].into_iter();
    ours.into_iter()
        .map(Contestant::from)
        .chain(lacking.filter_map(comparison))
        .collect()
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(20_000, 2_000_000, 80_000_000);
    let point = |threads: usize, feature: &str, set: &str, only: &'static [_]| MapPoint {
        parameters: vec![("keys", keys.into()), ("threads", threads.into())],
        x: Some(X::Category(format!("{feature} ({set})"))),
        workload: MapWorkload {
            set: set.to_owned(),
            keys,
            operations: keys.min(20_000_000),
            threads,
            phases: vec![Phase::Insert, Phase::Get, Phase::DependentGet],
        },
        only,
    };
    let mut points = Vec::new();
    for threads in thread_counts(settings) {
        points.push(point(
            threads,
            "keys of any length",
            "prefixed-decimal:0",
            &[CONCURRENT, ALONE, trees::FIXED, Empty::NAME],
        ));
        if threads == 1 {
            let both = &[CONCURRENT, ALONE, Empty::NAME];
            points.push(point(threads, "concurrency", "decimal", both));
        }
        points.push(point(
            threads,
            "order",
            "letters",
            &[CONCURRENT, ALONE, trees::HASH, Empty::NAME],
        ));
    }
    points
}
