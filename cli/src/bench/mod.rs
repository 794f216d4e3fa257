//! `hedgerow bench`: YCSB mixes against a database or any RESP server.
//!
//! Clients are threads, each with its own random numbers; a histogram of three digits takes
//! each operation's (or each pipelined burst's) time. What is printed belongs to this
//! machine and this moment: to compare systems, run them side by side (`hedgerow-lab`).

mod latencies;
mod mix;
mod resp;
mod target;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use serde_json::json;

use crate::arguments::Bench;
use crate::error::{Error, Result};
use crate::output::{Output, spinner};
use latencies::Latencies;
use mix::{Choices, Mix};
use target::{Target, Worker};

/// The most threads against a database, which has a log for each.
const MOST_THREADS: usize = 1024;
/// The longest value that databases and servers take unless they are told otherwise.
const LONGEST_VALUE_BYTES: usize = 512 << 20;

/// What one workload measured.
struct Outcome {
    operations: u64,
    seconds: f64,
    latency: Latencies,
    missing: u64,
}

pub(crate) fn run(bench: Bench, out: &Output) -> Result<()> {
    let mixes = bench
        .workload
        .chars()
        .map(Mix::named)
        .collect::<Result<Vec<_>>>()?;
    check(&bench)?;
    let target = Target::open(&bench)?;
    report(out, "load", &load(&bench, &target)?)?;
    let records = AtomicU64::new(bench.records);
    for mix in mixes {
        report(out, mix.name, &measure(&bench, &target, mix, &records)?)?;
    }
    target.close()
}

/// Refuses numbers that measure nothing or that no target takes, before a database is made.
fn check(bench: &Bench) -> Result<()> {
    let counts = [
        ("--threads", bench.threads as u64),
        ("--pipeline", bench.pipeline as u64),
        ("--records", bench.records),
        ("--operations", bench.operations),
    ];
    let wrong = if bench.workload.is_empty() {
        "--workload is empty; give letters of a to f, like abcdef".to_owned()
    } else if let Some((flag, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
        format!("{flag} must be at least 1")
    } else if bench.data.is_some() && bench.threads > MOST_THREADS {
        format!("--threads must be between 1 and {MOST_THREADS} with --data")
    } else if bench.value_bytes > LONGEST_VALUE_BYTES {
        format!("--value-bytes must be at most {LONGEST_VALUE_BYTES}, which is 512 MiB")
    } else {
        return Ok(());
    };
    Err(Error::Usage(wrong))
}

/// Runs `work` on every client thread and joins what they measured.
fn clients(
    bench: &Bench,
    target: &Target,
    work: impl Fn(&mut Worker, usize, &mut Latencies) -> Result<u64> + Sync,
) -> Result<Outcome> {
    let began = Instant::now();
    let results = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..bench.threads)
            .map(|thread| {
                let client = move || -> Result<(Latencies, u64)> {
                    let mut latency = Latencies::new()?;
                    let mut worker = target.worker(bench)?;
                    let missing = work(&mut worker, thread, &mut latency)?;
                    Ok((latency, missing))
                };
                std::thread::Builder::new().spawn_scoped(scope, client)
            })
            .collect();
        let join = |thread: io::Result<ScopedJoinHandle<'_, Result<(Latencies, u64)>>>| {
            let thread = thread.map_err(|error| {
                Error::Failed(format!(
                    "the system gives no more threads ({error}); give fewer --threads"
                ))
            })?;
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        };
        threads.into_iter().map(join).collect::<Vec<_>>()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut outcome = Outcome {
        operations: 0,
        seconds,
        latency: Latencies::new()?,
        missing: 0,
    };
    for result in results {
        let (latency, missing) = result?;
        outcome.latency.add(&latency)?;
        outcome.missing += missing;
    }
    Ok(outcome)
}

fn load(bench: &Bench, target: &Target) -> Result<Outcome> {
    let bar = spinner("loaded");
    let mut outcome = clients(bench, target, |worker, thread, latency| {
        let mut record = thread as u64;
        while record < bench.records {
            let began = Instant::now();
            let mut burst = 0;
            while burst < bench.pipeline && record < bench.records {
                worker.insert(record)?;
                record += bench.threads as u64;
                burst += 1;
            }
            worker.finish()?;
            latency.record(began.elapsed())?;
            bar.inc(burst as u64);
        }
        Ok(0)
    })?;
    bar.finish_and_clear();
    outcome.operations = bench.records;
    Ok(outcome)
}

fn measure(
    bench: &Bench,
    target: &Target,
    mix: &'static Mix,
    records: &AtomicU64,
) -> Result<Outcome> {
    let bar = spinner(mix.name);
    let share = bench.operations.div_ceil(bench.threads as u64);
    let known = records.load(Ordering::Relaxed);
    let mut outcome = clients(bench, target, |worker, thread, latency| {
        let seed = bench
            .seed
            .wrapping_mul(1_000_003)
            .wrapping_add(thread as u64);
        let mut choices = Choices::new(mix, records, known, seed);
        let mut left = share;
        while left > 0 {
            let burst = left.min(bench.pipeline as u64);
            let began = Instant::now();
            for _ in 0..burst {
                worker.perform(choices.next())?;
            }
            worker.finish()?;
            latency.record(began.elapsed())?;
            bar.inc(burst);
            left -= burst;
        }
        Ok(worker.missing())
    })?;
    bar.finish_and_clear();
    outcome.operations = share * bench.threads as u64;
    if outcome.missing > 0 {
        return Err(Error::Failed(format!(
            "workload {}: {} reads did not find their record; the target lost data or was not \
             loaded by this command with the same --records",
            mix.name, outcome.missing
        )));
    }
    Ok(outcome)
}

fn report(out: &Output, name: &str, outcome: &Outcome) -> Result<()> {
    let rate = outcome.operations as f64 / outcome.seconds.max(1e-9);
    let percentile = |p| outcome.latency.percentile_us(p);
    let (p50, p95, p99, p999) = (
        percentile(50.0),
        percentile(95.0),
        percentile(99.0),
        percentile(99.9),
    );
    let json = json!({
        "workload": name,
        "operations": outcome.operations,
        "seconds": outcome.seconds,
        "operations_per_s": rate,
        "latency_us": { "p50": p50, "p95": p95, "p99": p99, "p99.9": p999 },
    });
    out.print(json, || {
        format!(
            "{name:<6} {rate:>12.0} operations/s   p50 {p50:.1} us   p95 {p95:.1}   p99 {p99:.1}   \
             p99.9 {p999:.1}"
        )
    })
}
