//! Centralised against decentralised epochs (§2.3) as threads are added.
//!
//! The first Bw-tree counted the operations of an epoch in one place, which every operation
//! changed; OpenBw-Tree gave each thread an epoch and a list of garbage of its own. Here every
//! operation pins by itself.

use hedgerow_lab_report::X;

use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};

/// The experiment.
pub(super) fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "bwtree/epochs",
            title: "One list of garbage for all threads, or one for each",
            source: "InnoDB and the Bw-tree, §2.3 (epochs)",
            claim: "A counter and a garbage list that all threads share are a bottleneck, which \
                    OpenBw-Tree removes by giving each thread its own.",
            x_label: Some("threads"),
            x_log: true,
            baseline: "decentralised epochs",
            here: None,
            compared_to: None,
        },
        maps: |_| {
            let schemes = hedgerow_lab_own::bwtree_epochs().into_iter();
            schemes.map(Contestant::from).collect()
        },
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(5000, 1_000_000, 10_000_000);
    let mut counts = settings.thread_counts(96);
    if settings.scale.pick(true, false, false) {
        counts.truncate(2);
    }
    let points = counts.into_iter().map(|threads| MapPoint {
        parameters: vec![("keys", keys.into()), ("key set", "sparse-u64".into())],
        x: Some(X::Number(threads as f64)),
        workload: MapWorkload {
            set: "sparse-u64".to_owned(),
            keys,
            operations: keys,
            threads,
            phases: vec![Phase::Insert, Phase::Get, Phase::Update, Phase::Remove],
        },
        only: &[],
    });
    points.collect()
}
