//! The tree by itself on buffer pools smaller than its data: the adaptive tree beside the baseline,
//! to a pool of a thirty-second of the data (§7.2, Fig. 19).
//!
//! The tree is filled in random order through a pool that holds all of it, and its pages are
//! written; then a pool of the size to be measured opens the file. It reads past the system's page
//! cache. Threads look records up at random: some before the clock starts, so that the pool is full
//! of what it keeps. Records have 8-byte values, as in the source, and every value that is found is
//! compared. Engines with logs and caches of their own are in `btrees/fig19`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::{Adaptive, Baseline, Configuration};
use hedgerow_lab_contender::{Promises, value_of};
use hedgerow_lab_data::random::Random;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, X};
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{SystemVfs, Vfs};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::pace;
use crate::registry::Registry;
use crate::threads::at_once;
use crate::{LabError, Result};

const PAGE: usize = 4096;

const ADAPTIVE: &str = "btree adaptive";
const BASELINE: &str = "btree baseline";

/// Key sets, with the mean length of a key.
const SETS: [(&str, usize); 3] = [("dense-u64", 8), ("sparse-u64", 8), ("path", 64)];

const VALUE_BYTES: usize = 8;

/// How many times as large as the pool the data is.
const RATIOS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// Lookups between two looks at the clock.
const BETWEEN_LOOKS: usize = 16;

/// The experiment.
pub struct PoolSizes;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    /// The key set's name.
    set: String,
    records: usize,
    pool_bytes: u64,
    threads: usize,
    /// Seconds of lookups that count; half as many come before them.
    seconds: f64,
}

impl Experiment for PoolSizes {
    fn about(&self) -> About {
        About {
            name: "btrees/fig19-trees",
            title: "Lookups by the size of the buffer pool: adaptive and baseline tree",
            source: "B-Trees Are Back, §7.2, Fig. 19",
            claim: "Throughput drops sharply where lookups need evicted pages; from there space \
                    efficiency decides: the adaptive tree is slightly slower for sparse integers \
                    and significantly faster for urls and dense integers.",
            x_label: Some("data / pool"),
            x_log: true,
            baseline: BASELINE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let promises = Promises {
            concurrent: true,
            ordered: true,
            variable_keys: true,
            ..Promises::default()
        };
        let trees = [BASELINE, ADAPTIVE].map(|name| Participant {
            entry: own(name, promises),
            available: Ok(()),
            environment: Vec::new(),
        });
        trees.to_vec()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let data_bytes: u64 = settings.scale.pick(6 << 20, 96 << 20, 9 << 30);
        let ratios: &[u64] = settings.scale.pick(&RATIOS[..2], &[1, 4, 16, 32], &RATIOS);
        let sets: &[_] = settings.scale.pick(&SETS[1..2], &SETS, &SETS);
        let points = sets.iter().flat_map(|&(set, key_bytes)| {
            let whole = data_bytes as usize / (key_bytes + VALUE_BYTES);
            let records = settings.keys.unwrap_or(whole);
            let data_bytes = (records * (key_bytes + VALUE_BYTES)) as u64;
            ratios.iter().map(move |ratio| {
                let workload = Workload {
                    set: set.to_owned(),
                    records,
                    pool_bytes: (data_bytes / ratio).max(LEAST_POOL_BYTES),
                    threads: settings.scale.pick(4, 32, 256),
                    seconds: settings.scale.pick(0.1, 1.5, 60.0),
                };
                point(&workload, *ratio, data_bytes)
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            // Every value is compared in any run.
            workload.records = workload.records.min(100_000);
            workload.pool_bytes = LEAST_POOL_BYTES;
            workload.seconds = 0.05;
        }
        match job.contender.as_str() {
            ADAPTIVE => measure::<Adaptive>(&workload),
            BASELINE => measure::<Baseline>(&workload),
            other => Err(LabError::Usage(format!("{other} takes no part here"))),
        }
    }
}

/// What a pool needs to work at all.
const LEAST_POOL_BYTES: u64 = 3 << 20;

fn point(workload: &Workload, ratio: u64, data_bytes: u64) -> Result<Point> {
    Ok(Point {
        parameters: [
            ("key set".to_owned(), workload.set.as_str().into()),
            ("records".to_owned(), workload.records.into()),
            ("threads".to_owned(), workload.threads.into()),
        ]
        .into(),
        x: Some(X::Number(ratio as f64)),
        contenders: vec![BASELINE, ADAPTIVE],
        need: Need {
            memory_bytes: full_pool_bytes(data_bytes) + 2 * data_bytes + (64 << 20),
            disk_bytes: 4 * data_bytes + (64 << 20),
            shared_seconds: pace::PROCESS_SECONDS + 1.5 * workload.seconds,
            own_seconds: workload.records as f64 * 2e-6,
            verify_seconds: 0.5,
        },
        verified_by: workload.set.as_str().into(),
        workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
    })
}

/// A pool that holds all pages of so much data, with half-full leaves and their headers.
fn full_pool_bytes(data_bytes: u64) -> u64 {
    4 * data_bytes + (32 << 20)
}

/// Fills a tree, opens it on a small pool, and looks records up.
fn measure<C: Configuration>(workload: &Workload) -> Result<Answer> {
    let set: KeySet = workload.set.parse()?;
    let keys = set.keys(workload.records)?;
    let folder = TempDir::with_prefix("hedgerow-lab-")?;
    let file = folder.path().join("tree.pages");
    let (root, pages) = fill::<C>(&file, &keys)?;
    let pool = open(&file, workload.pool_bytes)?;
    let _cleaner = pool.start_cleaner()?;
    let tree = BTreeIndex::<C, PAGE>::open(Arc::clone(&pool), root, keys.len() as u64);
    look_up(&tree, &keys, workload, workload.seconds / 2.0)?;
    let before = pool.statistics().reads;
    let started = Instant::now();
    let found = look_up(&tree, &keys, workload, workload.seconds)?;
    let seconds = started.elapsed().as_secs_f64();
    let reads = pool.statistics().reads - before;
    let mut answer = Answer::default();
    let thousands = |count: u64| count as f64 / seconds / 1e3;
    answer.push("lookups", "kops/s", Better::Higher, thousands(found));
    answer.push("pages read", "thousand/s", Better::Higher, thousands(reads));
    let each = reads as f64 / found.max(1) as f64;
    answer.push("pages read for each", "pages/lookup", Better::Lower, each);
    let space = pages as f64 * PAGE as f64 / keys.len().max(1) as f64;
    answer.push("space", "bytes/record", Better::Lower, space);
    Ok(answer)
}

fn open(file: &Path, bytes: u64) -> Result<Arc<Pool<PAGE>>> {
    let vfs: Arc<dyn Vfs> = Arc::new(SystemVfs);
    let pool = Pool::<PAGE>::open(&vfs, file, &Options::new(bytes));
    Ok(Arc::new(pool.map_err(LabError::from_display)?))
}

/// Fills a tree in the keys' order and writes its pages: its root, and how many pages it has.
fn fill<C: Configuration>(file: &Path, keys: &Keys) -> Result<(hedgerow_pages::PageId, u64)> {
    let bytes: usize = keys.iter().map(|key| key.len() + VALUE_BYTES).sum();
    let pool = open(file, full_pool_bytes(bytes as u64))?;
    let tree = BTreeIndex::<C, PAGE>::create(Arc::clone(&pool)).map_err(LabError::from_display)?;
    for key in keys.iter() {
        let value = value_of(key).to_le_bytes();
        tree.insert(key, &value).map_err(LabError::from_display)?;
    }
    pool.checkpoint(Vec::new).map_err(LabError::from_display)?;
    Ok((tree.root(), pool.statistics().live))
}

/// All threads look records up until the time is over; how many were found. One that is not, or
/// that has another's value, is an error.
fn look_up<C: Configuration>(
    tree: &BTreeIndex<C, PAGE>,
    keys: &Keys,
    workload: &Workload,
    seconds: f64,
) -> Result<u64> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let found = AtomicU64::new(0);
    at_once(workload.threads, |thread| {
        let mut random = Random::new(thread as u64 + 1);
        let mut own = 0;
        // Once at least, however late this thread gets its turn.
        loop {
            for _ in 0..BETWEEN_LOOKS {
                let key = keys.get(random.below(keys.len() as u64) as usize);
                let right = value_of(key).to_le_bytes();
                let is_right = tree.get(key, |value| value == right);
                if is_right.map_err(LabError::from_display)? != Some(true) {
                    let what = format!("\"{}\" has another value", key.escape_ascii());
                    return Err(LabError::WrongAnswer(what));
                }
                own += 1;
            }
            if Instant::now() >= until {
                break;
            }
        }
        found.fetch_add(own, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(found.into_inner())
}
