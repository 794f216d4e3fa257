//! Keys that share a prefix (§6.4, Fig. 9): 8 decimal digits behind 0 to 40 equal bytes.
//!
//! The B-tree holds the first 16 bytes of each key in its nodes, so beyond 8 bytes of prefix it
//! must fetch the rest of every key that it compares. The partial-key B-tree (§4.1) holds what
//! follows where keys differ. On one thread and on one for each core, up to the paper's 16; maps
//! for one thread take part there.

use hedgerow_lab_report::X;

use super::fig8::{comparison, thread_counts};
use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::forms::best_of_all;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};
use crate::registry::Registry;
use hedgerow_lab_comparison_trees as trees;

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "masstree/fig9",
            title: "Keys that share a prefix",
            source: "Masstree, §6.4, Fig. 9",
            claim: "Masstree does 3.4 times the gets of a B-tree (+Permuter) for long keys, and \
                    1.4 times for 16-byte ones that the B-tree stores inline.",
            x_label: Some("key length, bytes"),
            x_log: false,
            baseline: trees::PERMUTER,
            here: None,
            compared_to: None,
        },
        maps,
        points,
    }
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    let compared = [trees::PERMUTER, trees::PARTIAL].into_iter();
    let compared = compared.filter_map(comparison);
    compared.chain(best_of_all(registry)).collect()
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(10_000, 200_000, 80_000_000);
    let prefixes: &[usize] =
        settings
            .scale
            .pick(&[0, 40], &[0, 8, 24, 40], &[0, 8, 16, 24, 32, 40]);
    let point = |threads: usize, prefix: usize| MapPoint {
        parameters: vec![("keys", keys.into()), ("threads", threads.into())],
        x: Some(X::Number((prefix + 8) as f64)),
        workload: MapWorkload {
            set: format!("prefixed-decimal:{prefix}"),
            keys,
            operations: keys.min(20_000_000),
            threads,
            phases: vec![Phase::Insert, Phase::Get],
        },
        only: &[],
    };
    let counts = thread_counts(settings).into_iter();
    counts
        .flat_map(|threads| prefixes.iter().map(move |&prefix| point(threads, prefix)))
        .collect()
}
