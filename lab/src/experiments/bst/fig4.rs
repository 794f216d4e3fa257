//! What validation costs the AVL tree's lookups: ones that keep their path and go back a node, ones
//! that start again from the root, and ones that do not validate.
//!
//! The paper attributes the cost of reading a version to a prefetcher that a further read of a line
//! wakes. Counters that would show this do not exist everywhere, so only the times are compared.

use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

use super::forms;

/// The experiment.
pub(super) fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "bst/fig4",
            title: "An AVL tree by how its lookups validate",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, Fig. 4",
            claim: "With 1 M keys occ-avl-2-ret is 17 % ahead of occ-avl-2, and without \
                    version reads 31 %; with 10 M keys 21 % (64 threads, lookups alone).",
            x_label: Some("threads"),
            x_log: false,
            baseline: "occ-avl-2",
            here: Some(
                "Whether lookups which keep no path, and those that read no versions, are \
                 faster can show. Here the path is kept in an array, not on the call stack \
                 as in the paper, so there is less to save. That a further read of a line \
                 wakes the L2 prefetcher cannot be told from the rest: there are no \
                 counters of prefetches here, and prefetchers cannot be turned off. \
                 `--cachegrind` counts instructions and misses of lookups, without any \
                 prefetcher.",
            ),
            compared_to: None,
        },
        maps: |_| forms::contestants(hedgerow_lab_own::bst_validation()),
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let keys = forms::key_counts(settings, &[1_000_000, 10_000_000]);
    forms::mixes(settings, &keys, &[100])
}
