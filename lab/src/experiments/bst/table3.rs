//! Every tree without flaws and with each flaw alone that it can have.
//!
//! The paper marks which implementation has which flaw and measures all flaws together
//! (`bst/fig2`). Here a flaw is a type parameter, so each is measured by itself.

use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

use super::forms;

/// The experiment.
pub(super) fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "bst/table3",
            title: "Trees with each flaw alone",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, Table 3",
            claim: "Table 3 says which implementation has which flaw: bloated nodes, \
                    scattered fields, heavy traversals. What each flaw costs by itself is \
                    not measured there.",
            x_label: Some("threads"),
            x_log: false,
            baseline: "ticket",
            here: Some(
                "What each flaw costs by itself shows in time. A flaw that only makes \
                 nodes larger costs less where the last-level cache holds all of them.",
            ),
            compared_to: None,
        },
        maps: |_| forms::contestants(hedgerow_lab_own::bst_flaws()),
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let keys = forms::key_counts(settings, &[1_000_000, 10_000_000]);
    let lookups: &[u32] = settings.scale.pick(&[70], &[100, 70], &[100, 70]);
    forms::mixes(settings, &keys, lookups)
}
