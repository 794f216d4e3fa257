//! Every operation of an ordered map, ours beside all peers (the sources' §6 has no such
//! table: it measures gets and puts).
//!
//! Keys arrive in random order into an empty map; then a sample of them, in another order, is
//! looked up, updated, scanned from and removed. Lookups come in three kinds: independent ones,
//! which the processor overlaps; dependent ones, which it cannot; and groups of 64, which the
//! map overlaps itself if it can.

use hedgerow_lab_report::X;

use crate::contestant::all_maps;
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};

/// Key sets, from the shape that suits a trie best to those that suit it least.
const SETS: [&str; 2] = ["sparse-u64", "decimal"];

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "masstree/operations",
            title: "Every operation of an ordered map",
            source: "Masstree, §6.1 (key sets and method)",
            claim: "Puts generally run 30 % slower than gets.",
            x_label: Some("key set"),
            x_log: false,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: all_maps,
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(5_000, 200_000, 10_000_000);
    let point = |set: &str, threads: usize| MapPoint {
        parameters: vec![("keys", keys.into()), ("threads", threads.into())],
        x: Some(X::Category(set.to_owned())),
        workload: MapWorkload {
            set: set.to_owned(),
            keys,
            operations: keys.min(settings.scale.pick(20_000, 40_000, 1_000_000)),
            threads,
            phases: Phase::ALL.to_vec(),
        },
        only: &[],
    };
    let mut points = Vec::new();
    for threads in [1, settings.cores.min(16)] {
        points.extend(SETS.map(|set| point(set, threads)));
    }
    points.dedup_by_key(|point| (point.workload.set.clone(), point.workload.threads));
    // At the smallest scale each set and each number of threads, but not each with each.
    let every = settings.scale.pick(3, 1, 1);
    points.into_iter().step_by(every).collect()
}
