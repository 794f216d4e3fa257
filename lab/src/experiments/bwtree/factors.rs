//! What each mechanism of the Bw-tree brings: the tree, and forms of it without one of them.
//!
//! The thesis's appendices B and C list OpenBw-Tree's switches for such an analysis. A form is a
//! type (`trees/bwtree/src/configuration.rs`); that without compare-and-swap is for one thread.

use hedgerow_lab_report::X;

use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};

/// What is timed here and in the sweeps.
pub(super) const PHASES: [Phase; 7] = [
    Phase::Insert,
    Phase::Get,
    Phase::GetMany,
    Phase::Update,
    Phase::Mixed,
    Phase::Scan,
    Phase::Remove,
];

/// The experiment.
pub(super) fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "bwtree/factors",
            title: "A Bw-tree without one of its mechanisms",
            source: "InnoDB and the Bw-tree, Apps. B and C (OpenBw-Tree's switches)",
            claim: "Not measured there: the switches are listed, without figures.",
            x_label: Some("key set"),
            x_log: false,
            baseline: "bwtree",
            here: None,
            compared_to: None,
        },
        maps: |_| {
            let forms = hedgerow_lab_own::bwtree_forms().into_iter();
            forms.map(Contestant::from).collect()
        },
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(5000, 1_000_000, 10_000_000);
    let sets: &[&str] = settings.scale.pick(
        &["sparse-u64"],
        &["sparse-u64", "monotone-u64"],
        &["sparse-u64", "monotone-u64"],
    );
    let many = settings.cores.min(16);
    let mut thread_counts = settings.scale.pick(vec![1], vec![1, many], vec![1, many]);
    thread_counts.dedup();
    let mut points = Vec::new();
    for threads in thread_counts {
        points.extend(sets.iter().map(|set| MapPoint {
            parameters: vec![("keys", keys.into()), ("threads", threads.into())],
            x: Some(X::Category((*set).to_owned())),
            workload: MapWorkload {
                set: (*set).to_owned(),
                keys,
                operations: keys,
                threads,
                phases: PHASES.to_vec(),
            },
            only: &[],
        }));
    }
    points
}
