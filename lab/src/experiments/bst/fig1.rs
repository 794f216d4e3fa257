//! Lookups alone, in trees with all the flaws of their implementations (Fig. 1a) and without (1b).

use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

use super::forms;

/// The experiment.
pub(super) fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "bst/fig1",
            title: "Lookups in trees as they were published, and as improved",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, Fig. 1",
            claim: "Trees of the same shape differ: of the unbalanced internal ones, edge- \
                    int-lf is ahead of log-int and citrus; of two implementations of one \
                    algorithm, occ-avl-2 is ahead of occ-avl (64 threads, 1 M keys, lookups \
                    alone).",
            x_label: Some("threads"),
            x_log: false,
            baseline: "ticket, published",
            here: Some(
                "Differences between trees of one shape show, since sizes of nodes and \
                 order of fields make them. The scale of 64 cores on four sockets does \
                 not, and a last-level cache that holds 1 M items hides what a small \
                 one loses to bloated nodes.",
            ),
            compared_to: None,
        },
        maps: |_| {
            let published = hedgerow_lab_own::bst_published().into_iter();
            forms::contestants(published.chain(hedgerow_lab_own::bst_improved()).collect())
        },
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let keys = forms::key_counts(settings, &[1_000_000]);
    forms::mixes(settings, &keys, &[100])
}
