//! Threads that look up, insert and remove keys of a space half of which is there (§3.1).
//!
//! Of the paper's trees, libcds has two: its Bronson AVL tree is `occ-avl`, its Ellen tree
//! `ext-lf`. Where the paper runs for three seconds, each thread here takes its share of as many
//! operations as there are records. Our trees come as improved.

use hedgerow_lab_report::X;

use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::forms::concurrent_best;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

/// Shares of lookups, in percent; the rest are insertions and removals alike.
const LOOKUPS: [u32; 4] = [100, 90, 70, 50];

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "bst/microbenchmark",
            title: "Lookups, insertions and removals by many threads",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, §3.1",
            claim: "Smaller nodes, fields in order and light traversals speed up trees of 1 M keys \
                    by up to 86 % on one machine and 43 % on another (geometric means 11 % and \
                    23 %). The order of the trees at 100 % lookups holds at 90 % and mostly at \
                    70 %; with 10 M keys occ-avl leads and ext-lf is last.",
            x_label: Some("threads"),
            x_log: false,
            baseline: "hedgerow inline",
            here: Some(
                "The order at 100 % lookups beside that at 90, 70 and 50 % shows. \
                 Threads beyond two, and sockets, do not.",
            ),
            compared_to: None,
        },
        maps: |registry| {
            let trees = hedgerow_lab_own::bst_improved().into_iter();
            let trees = trees.map(Contestant::from);
            concurrent_best(registry).into_iter().chain(trees).collect()
        },
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let paper = vec![1_000_000, 10_000_000];
    let counts = match settings.keys {
        Some(keys) => vec![keys],
        None => settings.scale.pick(vec![2000], vec![200_000], paper),
    };
    let shares: &[u32] = settings.scale.pick(&LOOKUPS, &[100, 50], &LOOKUPS);
    let mut points = Vec::new();
    for records in counts {
        for &lookups in shares {
            let threads = settings.thread_counts(settings.cores).into_iter();
            points.extend(threads.map(|threads| MapPoint {
                parameters: vec![("keys", records.into()), ("% lookups", lookups.into())],
                x: Some(X::Number(threads as f64)),
                workload: MixedWorkload {
                    threads,
                    ..MixedWorkload::new(&format!("bst/lookup-{lookups}"), records)
                },
                only: &[],
            }));
        }
    }
    points
}
