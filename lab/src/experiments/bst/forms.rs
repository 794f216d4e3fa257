//! What the figures on forms of the trees have in common: mixes of lookups and updates on as many
//! keys as the paper's, by threads.

use hedgerow_lab_contender::MapEntry;
use hedgerow_lab_report::X;

use crate::contestant::Contestant;
use crate::experiment::{Scale, Settings};
use crate::map_experiment::MapPoint;
use crate::mixed_workload::MixedWorkload;

/// As contestants.
pub(super) fn contestants(maps: Vec<MapEntry>) -> Vec<Contestant> {
    maps.into_iter().map(Contestant::from).collect()
}

/// The numbers of keys: what the command line says, else few, a million, or the paper's.
pub(super) fn key_counts(settings: &Settings, paper: &[usize]) -> Vec<usize> {
    match settings.keys {
        Some(keys) => vec![keys],
        None => settings
            .scale
            .pick(vec![2000], vec![1_000_000], paper.to_vec()),
    }
}

/// The numbers of threads: one of them where everything is small.
pub(super) fn thread_counts(settings: &Settings) -> Vec<usize> {
    let counts = settings.thread_counts(settings.cores);
    match settings.scale {
        Scale::Smoke => counts.into_iter().rev().take(1).collect(),
        _ => counts,
    }
}

/// A point for each number of keys, each share of lookups in percent, and each number of threads.
pub(super) fn mixes(
    settings: &Settings,
    key_counts: &[usize],
    lookups: &[u32],
) -> Vec<MapPoint<MixedWorkload>> {
    let mut points = Vec::new();
    for &records in key_counts {
        for &lookups in lookups {
            let threads = thread_counts(settings).into_iter();
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
