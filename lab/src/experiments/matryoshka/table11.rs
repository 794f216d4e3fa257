//! Fence keys with and without mass prefetch (§12.4.7, Tables 11 and 12).
//!
//! Fences in a page's header spare a search the root's line, but the line of the child is then the
//! next miss. The report first prefetched that child when the search of the fences had found it,
//! later all children before the search. With `--counters` the same runs give what Table 12 counts.

use super::points::{by_workload, chosen};
use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;
use crate::registry::Registry;

/// Who takes part, in the order of the columns of Table 11.
const FORMS: [&str; 3] = [
    "matryoshka set plain u32",
    "matryoshka set fence without mass prefetch u32",
    "matryoshka set fence u32",
];

/// The workloads of Table 11.
const WORKLOADS: [&str; 2] = ["rand_insert", "search_after_churn"];

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "matryoshka/table11",
            title: "Fence keys with and without mass prefetch",
            source: "Matryoshka B+ Tree: Insert/Delete Performance Report, §12.4.7, Tables 11 and \
                     12",
            claim: "With 16,777,216 keys a random insert takes 802 ns without fence keys, 706 ns \
                    with them and 785 ns with mass prefetch; a search after churn 770, 668 and \
                    708 ns. Mass prefetch takes a tenth of the first-level misses away.",
            x_label: Some("workload"),
            x_log: false,
            baseline: FORMS[0],
            here: None,
            compared_to: None,
        },
        maps,
        points,
    }
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    chosen(registry, &FORMS)
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    by_workload(settings, WORKLOADS)
}
