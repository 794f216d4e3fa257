//! Durable engines: YCSB A to F, lookups, scans, updates and deletions, what they take on disk
//! and in memory, and how they come back after a kill (the source has no such table: its tree
//! has neither a log nor recovery, and is compared with trees in memory only).
//!
//! The data is smaller than the cache. Commits are synced in the background, before each
//! acknowledgement (far fewer operations: each waits for the disk), or never.

use crate::experiment::{About, Settings};
use crate::registry::Registry;
use crate::stores::{Commits, Leg, StoreExperiment, StorePoint, StoreWorkload};

/// Ten columns of 100 bytes, written whole.
const VALUE_BYTES: usize = 1000;

/// Threads that commit at once, so that engines can sync for several of them together.
const SYNCING_THREADS: usize = 8;

pub fn experiment() -> StoreExperiment {
    StoreExperiment {
        about: About {
            name: "btrees/durable",
            title: "Durable engines on YCSB, in memory",
            source: "B-Trees Are Back, §1 and §7 (the question; the workloads are YCSB's)",
            claim: "Many transactions can be served purely from memory, so a storage engine's \
                    speed there decides; no other engine is measured.",
            x_label: None,
            x_log: false,
            baseline: "hedgerow",
        },
        stores: |registry: &Registry| registry.stores.clone(),
        points,
    }
}

fn points(settings: &Settings) -> Vec<StorePoint> {
    let records = settings.keys(500, 15_000, 10_000_000);
    let point = |commits: Commits, threads: usize, legs: Vec<Leg>| {
        let mut workload = StoreWorkload::new("ycsb", records, VALUE_BYTES, commits);
        workload.threads = threads;
        workload.legs = legs;
        workload.operations = match commits {
            Commits::Sync => settings.scale.pick(40, 60, 20_000),
            Commits::Periodic | Commits::Never => settings.scale.pick(300, 4000, 1_000_000),
        };
        StorePoint {
            parameters: vec![
                ("records", records.into()),
                ("value bytes", VALUE_BYTES.into()),
                ("commits", commits.name().into()),
                ("threads", threads.into()),
            ],
            x: None,
            workload,
        }
    };
    let cores = settings.cores.min(16);
    // The first table has everything; the others, at small scale, what commits and threads change.
    let less = settings.scale.pick::<fn() -> Vec<Leg>>(all, some, all);
    let mut points = vec![point(Commits::Periodic, 1, all())];
    if cores > 1 {
        points.push(point(Commits::Periodic, cores, less()));
    }
    points.push(point(Commits::Sync, 1, writing()));
    points.push(point(Commits::Sync, SYNCING_THREADS, writing()));
    points.push(point(Commits::Never, 1, less()));
    points
}

/// A lookup, a scan, an update, and the two most usual mixes.
fn some() -> Vec<Leg> {
    let mut legs = vec![Leg::Get, Leg::Scan, Leg::Update];
    legs.extend(ycsb("ab"));
    legs
}

fn ycsb(letters: &str) -> impl Iterator<Item = Leg> {
    let names = letters.chars().map(|letter| format!("ycsb/{letter}"));
    names.map(Leg::Named).collect::<Vec<_>>().into_iter()
}

/// Everything. D and E insert, so they come after the others, as YCSB advises.
fn all() -> Vec<Leg> {
    let mut legs = vec![Leg::Get, Leg::ZipfGet, Leg::Scan, Leg::Update];
    legs.extend(ycsb("abcfde"));
    legs.push(Leg::DeleteHeavy);
    legs
}

/// What writes: reads do not wait for commits.
fn writing() -> Vec<Leg> {
    let mut legs = vec![Leg::Update];
    legs.extend(ycsb("abfde"));
    legs.push(Leg::DeleteHeavy);
    legs
}
