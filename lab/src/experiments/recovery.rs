//! Recovery and checkpoints beside a running load (paper §5, §6.1's checkpoint figures).
//!
//! *Recovery*: a process loads records, takes a checkpoint when half of them are in, and is
//! killed with `kill -9` when all are durable; another opens what it left and counts. The goal
//! is a quarter of the time that loading took.
//!
//! *Checkpoint*: one thread overwrites random records as fast as it can, in alternating spells
//! with and without a checkpoint running; the paper's put-only load kept 72 % of its speed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::{Db, Durability};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::keys::KeySet;
use crate::machine::resident_bytes;
use crate::report::{Output, Table};
use crate::{LabError, Result};

const KEYSPACE: &str = "default";

const COLUMNS: [&str; 8] = [
    "load s",
    "reopen s",
    "reopen / load",
    "resident bytes per record",
    "disk bytes per record",
    "put kops",
    "put kops in checkpoint",
    "kept",
];

/// What a process of this experiment does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Stage {
    /// Load all records, with a checkpoint half way, and wait to be killed.
    Load,
    /// Open, count and check a sample.
    Open,
    /// Overwrite records with and without a checkpoint running.
    Checkpoint,
}

/// Arguments of `hedgerow-lab recovery`.
#[derive(Debug, Clone, clap::Args)]
pub struct RecoveryArguments {
    /// Records: decimal keys of 1 to 10 bytes, 8-byte values.
    #[arg(long, default_value_t = 10_000_000)]
    keys: usize,
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where to put the database; by default a temporary directory.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Write JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Be one of the processes (used internally).
    #[arg(long, hide = true)]
    stage: Option<Stage>,
}

fn engine(error: hedgerow::Error) -> LabError {
    LabError::Process(format!("the engine failed: {error}"))
}

/// Runs the experiment.
///
/// # Errors
///
/// A stage that fails, a database that lost records, or a file that cannot be written.
pub fn run(arguments: &RecoveryArguments) -> Result<()> {
    if let (Some(stage), Some(data)) = (arguments.stage, &arguments.data) {
        let line = match stage {
            Stage::Load => load(data, arguments.keys)?,
            Stage::Open => open(data, arguments.keys)?,
            Stage::Checkpoint => checkpoint(data, arguments.keys)?,
        };
        println!("{line}");
        if stage == Stage::Load {
            thread::sleep(Duration::from_secs(3600)); // until killed
        }
        return Ok(());
    }
    let mut output = Output::create(arguments.json.as_deref())?;
    let mut table = Table::new("recovery", &COLUMNS, "", &["hedgerow"])
        .with("keys", arguments.keys)
        .with("value_bytes", 8)
        .with("durability", "periodic");
    for round in 1..=arguments.rounds {
        measure_round(arguments, &mut table)?;
        eprintln!("recovery: round {round}");
    }
    output.table(&table)
}

fn measure_round(arguments: &RecoveryArguments, table: &mut Table) -> Result<()> {
    let temporary = match &arguments.data {
        Some(parent) => TempDir::with_prefix_in("hedgerow-lab-", parent)?,
        None => TempDir::with_prefix("hedgerow-lab-")?,
    };
    let data = temporary.path().join("data");
    let mut loader = start(Stage::Load, &data, arguments.keys)?;
    let loaded = answer(&mut loader)?;
    loader.kill()?;
    loader.wait()?;
    let disk_bytes = folder_bytes(&data)?;
    let opened = answer(&mut start(Stage::Open, &data, arguments.keys)?)?;
    let spells = answer(&mut start(Stage::Checkpoint, &data, arguments.keys)?)?;
    let figure = |value: &Value, name: &str| value[name].as_f64().unwrap_or(f64::NAN);
    let (load_s, open_s) = (figure(&loaded, "seconds"), figure(&opened, "seconds"));
    let (alone, beside) = (figure(&spells, "alone"), figure(&spells, "beside"));
    let records = arguments.keys as f64;
    let figures = [
        load_s,
        open_s,
        open_s / load_s,
        figure(&opened, "resident_bytes") / records,
        disk_bytes as f64 / records,
        alone / 1000.0,
        beside / 1000.0,
        beside / alone,
    ];
    for (column, figure) in COLUMNS.iter().zip(figures) {
        table.push("hedgerow", column, figure);
    }
    Ok(())
}

fn start(stage: Stage, data: &Path, keys: usize) -> Result<Child> {
    let stage = match stage {
        Stage::Load => "load",
        Stage::Open => "open",
        Stage::Checkpoint => "checkpoint",
    };
    let child = Command::new(std::env::current_exe()?)
        .args([
            "recovery",
            "--stage",
            stage,
            "--keys",
            &keys.to_string(),
            "--data",
        ])
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// The line that a stage prints when it is done.
fn answer(child: &mut Child) -> Result<Value> {
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    serde_json::from_str(&line)
        .map_err(|_| LabError::Process(format!("a stage of the experiment failed: {line:?}")))
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            folder_bytes(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(bytes)
}

/// Loads with two threads; a third takes a checkpoint when half of the records are in.
fn load(data: &Path, keys: usize) -> Result<Value> {
    let db = Db::builder()
        .durability(Durability::Periodic)
        .open(data)
        .map_err(engine)?;
    let keyspace = db.keyspace(KEYSPACE).map_err(engine)?;
    let start = Instant::now();
    let put = |from: usize, to: usize| -> Result<()> {
        for n in from..to {
            let key = KeySet::Decimal.key(n as u64);
            keyspace
                .put(key.as_slice(), &key.value().to_le_bytes())
                .map_err(engine)?;
        }
        Ok(())
    };
    put(0, keys / 2)?;
    thread::scope(|scope| {
        let checkpoint = scope.spawn(|| db.checkpoint().map_err(engine));
        put(keys / 2, keys)?;
        checkpoint
            .join()
            .map_err(|_| LabError::Process("the checkpoint panicked".into()))??;
        Ok::<_, LabError>(())
    })?;
    let last = keyspace.put(b"last", b"durable").map_err(engine)?;
    db.wait_durable(&last).map_err(engine)?;
    Ok(json!({ "seconds": start.elapsed().as_secs_f64() }))
}

/// Opens, and checks that every record is there and a sample of values is right.
fn open(data: &Path, keys: usize) -> Result<Value> {
    let before_bytes = resident_bytes(None);
    let start = Instant::now();
    let db = Db::open(data).map_err(engine)?;
    let keyspace = db.keyspace(KEYSPACE).map_err(engine)?;
    let seconds = start.elapsed().as_secs_f64();
    let bytes = resident_bytes(None).saturating_sub(before_bytes);
    let expected = keys as u64 + 1;
    if keyspace.len() != expected {
        let what = format!("{} records after recovery, not {expected}", keyspace.len());
        return Err(LabError::WrongAnswer(what));
    }
    for key in KeySet::Decimal.sample(keys, 100_000) {
        let value = keyspace.get(key.as_slice()).map_err(engine)?;
        if value.as_deref() != Some(&key.value().to_le_bytes()) {
            return Err(LabError::WrongAnswer(format!(
                "{key:?} holds {value:?} after recovery"
            )));
        }
    }
    db.close().map_err(engine)?;
    Ok(json!({ "seconds": seconds, "resident_bytes": bytes }))
}

/// Overwrites in four pairs of spells, with and without a checkpoint; puts per second of each.
fn checkpoint(data: &Path, keys: usize) -> Result<Value> {
    let db = Db::open(data).map_err(engine)?;
    let keyspace = db.keyspace(KEYSPACE).map_err(engine)?;
    let sample = KeySet::Decimal.sample(keys, 1 << 20);
    let put_until = |stop: &dyn Fn(usize) -> bool| -> Result<f64> {
        let start = Instant::now();
        let mut puts = 0;
        while !stop(puts) {
            let key = &sample[puts % sample.len()];
            keyspace
                .put(key.as_slice(), &key.value().to_le_bytes())
                .map_err(engine)?;
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
    Ok(json!({ "alone": alone, "beside": beside }))
}
