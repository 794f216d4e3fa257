//! Recovery and checkpoints beside a running load (§5, and §6.1's checkpoint figures).
//!
//! *Recovery*: a process loads records, takes a checkpoint when half of them are in, and is
//! killed with `kill -9` when all are durable; another opens what it left, counts, and checks a
//! sample. *Checkpoint*: one thread overwrites random records as fast as it can, in alternating
//! spells with and without a checkpoint running. Times are by the clock: disks and a second
//! thread take part.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use hedgerow::{Db, Durability};
use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::random::Permutation;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::{Better, Measured};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempDir;

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::{disk_bytes, resident_bytes};
use crate::process::{answer_and_wait, part_answer, start_part};
use crate::registry::Registry;
use crate::{LabError, Result};

const NAME: &str = "masstree/persistence";
const OURS: &str = "hedgerow";
const KEYSPACE: &str = "default";

/// The experiment.
pub struct Persistence;

/// One process's part of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    /// Load all records, with a checkpoint half way, and wait to be killed.
    Load,
    /// Open, count and check a sample.
    Open,
    /// Overwrite records with and without a checkpoint running.
    Checkpoint,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    keys: usize,
    /// What this process does and where; the whole round if not given.
    part: Option<(Part, PathBuf)>,
}

impl Experiment for Persistence {
    fn about(&self) -> About {
        About {
            name: NAME,
            title: "Recovery after a kill, and loading beside a checkpoint",
            source: "Masstree, §5",
            claim: "A put-only load keeps 72 % of its speed while a checkpoint runs; a checkpoint \
                    of 140 million records takes 58 s, and recovery from it 38 s.",
            x_label: None,
            x_log: false,
            baseline: OURS,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let stores = registry.stores.iter();
        stores
            .filter(|store| store.entry.name == OURS)
            .map(|store| Participant {
                entry: store.entry.clone(),
                available: store.open.as_ref().map(drop).map_err(Clone::clone),
                environment: Vec::new(),
            })
            .collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let keys = settings.keys(20_000, 2_000_000, 140_000_000);
        let workload = Workload { keys, part: None };
        Ok(vec![Point {
            parameters: [
                ("keys".to_owned(), keys.into()),
                ("value bytes".to_owned(), 8.into()),
                ("durability".to_owned(), "periodic".into()),
            ]
            .into(),
            x: None,
            contenders: vec![OURS],
            need: Need {
                memory_bytes: keys as u64 * 140 + (64 << 20),
                disk_bytes: keys as u64 * 150 + (64 << 20),
                shared_seconds: 0.5,
                own_seconds: keys as f64 * 6e-6,
                verify_seconds: 1.0,
            },
            verified_by: Value::Null,
            workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
        }])
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        match (workload.part, job.stage) {
            // Every opening checks what it finds; a small round is all that verifying needs.
            (None, Stage::Verify) => round(workload.keys.min(20_000)),
            (None, _) => round(workload.keys),
            (Some((part, data)), _) => {
                let keys = KeySet::Decimal.keys(workload.keys)?;
                match part {
                    Part::Load => load(&data, &keys),
                    Part::Open => open(&data, &keys),
                    Part::Checkpoint => checkpoint(&data, &keys),
                }
            }
        }
    }
}

/// Loads, kills, opens, checkpoints: each in a process of its own.
fn round(keys: usize) -> Result<Answer> {
    let temporary = TempDir::with_prefix("hedgerow-lab-")?;
    let data = temporary.path().join("data");
    let mut loader = start(Part::Load, &data, keys)?;
    let loaded = part_answer(&mut loader);
    loader.kill()?;
    loader.wait()?;
    let loaded = loaded?;
    let disk_bytes = disk_bytes(&data)?;
    let opened = part_answer(&mut start(Part::Open, &data, keys)?)?;
    let spells = part_answer(&mut start(Part::Checkpoint, &data, keys)?)?;
    let (load_s, open_s) = (figure(&loaded, "load"), figure(&opened, "reopen"));
    let mut all = Answer::default();
    for part in [loaded, opened, spells] {
        all.figures.extend(part.figures);
    }
    all.push("reopen / load", "ratio", Better::Lower, open_s / load_s);
    let each = disk_bytes as f64 / keys as f64;
    all.push("disk", "bytes/record", Better::Lower, each);
    Ok(all)
}

fn figure(answer: &Answer, column: &str) -> f64 {
    let mut figures = answer.figures.iter();
    let found: Option<&Measured> = figures.find(|figure| figure.column == column);
    found.map_or(f64::NAN, |figure| figure.figure)
}

fn start(part: Part, data: &Path, keys: usize) -> Result<Child> {
    let workload = Workload {
        keys,
        part: Some((part, data.to_owned())),
    };
    start_part(&Job {
        experiment: NAME.to_owned(),
        contender: OURS.to_owned(),
        stage: Stage::Measure,
        workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
    })
}

fn engine(error: hedgerow::Error) -> LabError {
    LabError::Process(format!("the engine failed: {error}"))
}

/// Keys of a sample, in an order unrelated to that of loading.
fn sample(keys: &Keys, count: usize) -> Keys {
    let order = Permutation::new(keys.len() as u64, 5);
    let count = count.min(keys.len()) as u64;
    keys.select((0..count).map(|nth| order.at(nth) as usize))
}

/// Loads on one thread; another takes a checkpoint when half of the records are in. Then waits
/// for its end.
fn load(data: &Path, keys: &Keys) -> Result<Answer> {
    let db = Db::builder()
        .durability(Durability::Periodic)
        .open(data)
        .map_err(engine)?;
    let keyspace = db.keyspace(KEYSPACE).map_err(engine)?;
    let start = Instant::now();
    let put = |from: usize, to: usize| -> Result<()> {
        for key in keys.range(from..to).iter() {
            let value = value_of(key).to_le_bytes();
            keyspace.put(key, &value).map_err(engine)?;
        }
        Ok(())
    };
    let half = keys.len() / 2;
    put(0, half)?;
    thread::scope(|scope| {
        let checkpoint = scope.spawn(|| db.checkpoint().map_err(engine));
        put(half, keys.len())?;
        checkpoint
            .join()
            .map_err(|_| LabError::Process("the checkpoint panicked".into()))??;
        Ok::<_, LabError>(())
    })?;
    let last = keyspace.put(b"last", b"durable").map_err(engine)?;
    db.wait_durable(&last).map_err(engine)?;
    let mut answer = Answer::default();
    let seconds = start.elapsed().as_secs_f64();
    answer.push("load", "s", Better::Lower, seconds);
    answer_and_wait(&answer)?;
    Ok(answer)
}

/// Opens, and checks that every record is there and a sample of values is right.
fn open(data: &Path, keys: &Keys) -> Result<Answer> {
    let before_bytes = resident_bytes(None);
    let start = Instant::now();
    let db = Db::open(data).map_err(engine)?;
    let keyspace = db.keyspace(KEYSPACE).map_err(engine)?;
    let seconds = start.elapsed().as_secs_f64();
    let bytes = resident_bytes(None).saturating_sub(before_bytes);
    let expected = keys.len() as u64 + 1;
    if keyspace.len() != expected {
        let what = format!("{} records after recovery, not {expected}", keyspace.len());
        return Err(LabError::WrongAnswer(what));
    }
    for key in sample(keys, 100_000).iter() {
        let value = keyspace.get(key).map_err(engine)?;
        if value.as_deref() != Some(&value_of(key).to_le_bytes()) {
            return Err(LabError::WrongAnswer(format!(
                "\"{}\" holds {value:?} after recovery",
                key.escape_ascii()
            )));
        }
    }
    db.close().map_err(engine)?;
    let mut answer = Answer::default();
    answer.push("reopen", "s", Better::Lower, seconds);
    let each = bytes as f64 / keys.len() as f64;
    answer.push("memory", "bytes/record", Better::Lower, each);
    Ok(answer)
}

/// Overwrites in four pairs of spells, with and without a checkpoint; puts per second of each.
fn checkpoint(data: &Path, keys: &Keys) -> Result<Answer> {
    let db = Db::open(data).map_err(engine)?;
    let keyspace = db.keyspace(KEYSPACE).map_err(engine)?;
    let sample = sample(keys, 1 << 20);
    let put_until = |stop: &dyn Fn(usize) -> bool| -> Result<f64> {
        let start = Instant::now();
        let mut puts = 0;
        while !stop(puts) {
            let key = sample.get(puts % sample.len());
            let value = value_of(key).to_le_bytes();
            keyspace.put(key, &value).map_err(engine)?;
            puts += 1;
        }
        Ok(puts as f64 / start.elapsed().as_secs_f64())
    };
    let (mut alone, mut beside) = (0.0, 0.0);
    let spells = 4;
    for _ in 0..spells {
        alone += put_until(&|puts| puts == sample.len())? / f64::from(spells);
        let done = AtomicBool::new(false);
        beside += thread::scope(|scope| {
            let checkpoint = scope.spawn(|| {
                let report = db.checkpoint().map_err(engine);
                done.store(true, Ordering::Release);
                report
            });
            let rate = put_until(&|puts| puts > 0 && done.load(Ordering::Acquire));
            checkpoint
                .join()
                .map_err(|_| LabError::Process("the checkpoint panicked".into()))??;
            rate
        })? / f64::from(spells);
    }
    db.close().map_err(engine)?;
    let mut answer = Answer::default();
    let rates = [("put", alone), ("put beside a checkpoint", beside)];
    for (column, rate) in rates {
        answer.push(column, "kops/s", Better::Higher, rate / 1000.0);
    }
    answer.push("kept", "%", Better::Higher, 100.0 * beside / alone);
    Ok(answer)
}
