//! What each of the report's proposals gains by itself (§12.6 and §12.7, Tables 18 and 19).
//!
//! The report estimated each and measured three of them, one on top of another. Here each changes
//! one thing in the tree as it was before them: superpages, batches that prefetch, a search of
//! nodes above pages without branches or a line a level, and code compiled for its strategy.
//! Batches are inserts of 1,024 keys; only they tell B apart.

use super::points::by_workload;
use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;
use crate::registry::Registry;
use hedgerow_lab_own::{Empty, proposals};

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "matryoshka/table18",
            title: "Each of five proposals by itself",
            source: "Matryoshka B+ Tree: Insert/Delete Performance Report, §12.6.6 and §12.7.4, \
                     Tables 18 and 19",
            claim: "Estimates for random inserts with 16,777,216 keys: superpages 15 to 25 %, \
                    pipelined batches 20 to 30 %, a branch-free search 5 to 8 %, FAST nodes 10 to \
                    15 %, code compiled for its strategy 3 to 5 %. Measured: superpages lose 4 % \
                    (0.98 to 0.94 Mop/s).",
            x_label: Some("workload"),
            x_log: false,
            baseline: "as reported",
            here: None,
            compared_to: None,
        },
        maps,
        points,
    }
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    let empty = registry.map(Empty::NAME).cloned();
    let all = proposals().into_iter().chain(empty);
    all.map(Contestant::from).collect()
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    by_workload(settings, ["rand_insert", "batch_insert"])
}
