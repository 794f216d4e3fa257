//! Durable engines: YCSB A to F, lookups, scans, updates and deletions, what they take on disk
//! and in memory, and how they come back after a kill (the source has no such table: its tree
//! has neither a log nor recovery, and is compared with trees in memory only).
//!
//! The data is half of the cache, twice it, or eight times it. Commits are synced in the
//! background, before each acknowledgement (far fewer operations: each waits for the disk), or
//! never. Where the data does not fit, only engines whose cache can be limited take part; all of
//! them get the same limit, and their files begin outside of the system's page cache, which is
//! part of what a process may take where there are control groups.

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
            title: "Durable engines on YCSB, in memory and beyond it",
            source: "B-Trees Are Back, §1 and §7 (the question; the workloads are YCSB's)",
            claim: "Many transactions can be served purely from memory, so a storage engine's \
                    speed there decides; no other engine is measured.",
            x_label: None,
            x_log: false,
            // The one of ours that takes part whatever the cache.
            baseline: "hedgerow btree",
            here: None,
            compared_to: None,
        },
        stores: |registry: &Registry| registry.stores.clone(),
        points,
    }
}

/// How many times as large as its cache the data is, where it does not fit.
const RATIOS: [u64; 2] = [2, 8];

/// Seconds that a leg may read, where lookups wait for a disk.
const LONGEST_SECONDS: f64 = 1.5;

fn points(settings: &Settings) -> Vec<StorePoint> {
    let mut points = in_cache(settings);
    let ratios = settings.scale.pick(&RATIOS[..1], &RATIOS[..], &RATIOS[..]);
    let beyond = ratios
        .iter()
        .flat_map(|&ratio| beyond_cache(settings, ratio));
    // One of them shows whether it works.
    points.extend(beyond.take(settings.scale.pick(1, usize::MAX, usize::MAX)));
    points
}

fn parameters(workload: &StoreWorkload, ratio: f64) -> Vec<(&'static str, serde_json::Value)> {
    let mut parameters = vec![
        ("data / cache", ratio.into()),
        ("records", workload.records.into()),
        ("value bytes", workload.value_bytes.into()),
        ("commits", workload.commits.name().into()),
        ("threads", workload.threads.into()),
    ];
    parameters.extend(workload.memory_parameter());
    parameters
}

/// Everything with commits in the background, and what writes with each of them synced.
fn beyond_cache(settings: &Settings, ratio: u64) -> Vec<StorePoint> {
    // Powers of two, as caches are; no cache is smaller than the 2 MiB that ours needs.
    let records = settings.keys(4_096, 131_072, 8_388_608);
    let point = |commits: Commits, threads: usize, legs: Vec<Leg>, operations: u64| {
        let workload = StoreWorkload::new("ycsb", records, VALUE_BYTES, commits);
        let data_bytes = workload.data_bytes();
        let mut workload = workload.beyond_cache(data_bytes, ratio);
        workload.threads = threads;
        workload.legs = legs;
        workload.operations = operations;
        workload.longest_reading_seconds = Some(LONGEST_SECONDS);
        StorePoint {
            parameters: parameters(&workload, ratio as f64),
            x: None,
            workload,
        }
    };
    let operations = settings.scale.pick(100, 1_000, 1_000_000);
    let synced = settings.scale.pick(40, 60, 20_000);
    vec![
        point(Commits::Periodic, 1, all(), operations),
        point(Commits::Sync, SYNCING_THREADS, writing(), synced),
    ]
}

fn in_cache(settings: &Settings) -> Vec<StorePoint> {
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
            parameters: parameters(&workload, 0.5),
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
