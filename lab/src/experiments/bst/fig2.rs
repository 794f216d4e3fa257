//! Every tree with all flaws of Table 3 and without any, at several shares of lookups.

use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

use super::forms;

/// The experiment.
pub(super) fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "bst/fig2",
            title: "Trees as published and as improved",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, Fig. 2",
            claim: "Smaller nodes, search fields first and light lookups raise throughput by \
                    up to 86 % on one machine (geometric mean 11 %) and 43 % on another (23 \
                    %); some trees of 10 M keys lose, as their smaller nodes cross cache \
                    lines.",
            x_label: Some("threads"),
            x_log: false,
            baseline: "ticket",
            here: Some(
                "The direction of each tree's change shows. Its size does not carry \
                 over: the paper's machines have last-level caches of 16 and 30 MiB, \
                 which 1 M items nearly fill. That nodes across lines lose at 10 M keys \
                 wants a processor without an adjacent-line prefetcher, as the paper's \
                 AMD machine.",
            ),
            compared_to: None,
        },
        maps: |_| {
            let (improved, published) = (
                hedgerow_lab_own::bst_improved(),
                hedgerow_lab_own::bst_published(),
            );
            forms::contestants(improved.into_iter().chain(published).collect())
        },
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let keys = forms::key_counts(settings, &[1_000_000, 10_000_000]);
    let lookups: &[u32] = settings
        .scale
        .pick(&[100, 50], &[100, 70], &[100, 90, 70, 50]);
    forms::mixes(settings, &keys, lookups)
}
