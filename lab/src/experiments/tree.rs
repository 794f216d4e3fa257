//! Trees beside trees: 10M keys with 8-byte values, every operation of an ordered map.
//!
//! The shape is that of the Masstree paper's Fig. 8 and 9 and of GOALS: keys arrive in random
//! order into an empty map; then a sample of them, in another order, is looked up, updated,
//! scanned from and removed. Lookups come in three kinds: independent ones, which the
//! processor overlaps; dependent ones, which it cannot; and batches of 64, which the tree
//! overlaps itself.
//!
//! Each contender's round runs in a fresh process of this program, so that no contender finds
//! memory that an earlier one left warm or fragmented, and each pays for its own pages. Time
//! is time on the processor, the slowest thread's where there are several.

use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Barrier;

use crate::keys::{Key, KeySet};
use crate::machine::{resident_bytes, timed};
use crate::maps::{Alone, BTreeMark, ContenderMap, Indexed, Inline, Tally, verify};
use crate::report::{Output, Table};
use crate::{LabError, Result};

/// Columns, in million operations per second but for the last.
const COLUMNS: [&str; 8] = [
    "insert",
    "get",
    "dependent get",
    "get_many(64)",
    "update",
    "scan 50",
    "remove",
    "bytes per key",
];

/// Pairs per scan.
const SCAN_PAIRS: usize = 50;

/// Arguments of `hedgerow-lab tree`.
#[derive(Debug, Clone, clap::Args)]
pub struct TreeArguments {
    /// Keys in the map.
    #[arg(long, default_value_t = 10_000_000)]
    keys: usize,
    /// Operations of each kind but insert (scans: a tenth).
    #[arg(long, default_value_t = 2_000_000)]
    sample: usize,
    /// Thread counts, each a table.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Key sets, each a table.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "random-u64,decimal"
    )]
    set: Vec<KeySet>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only contenders whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The contender that ratios are taken to.
    #[arg(long, default_value = "masstree crate")]
    baseline: String,
    /// Write JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measure one round of the contender of this name and print it (used internally).
    #[arg(long, hide = true)]
    round_of: Option<String>,
}

/// A contender: its name and what to do with it, compiled for its type.
struct Contender {
    name: &'static str,
    verify: fn(&str, &[Key]) -> Result<()>,
    single: fn(&Workload) -> Result<Figures>,
    many: Option<fn(&Workload, usize) -> Result<Figures>>,
}

impl Contender {
    fn single_threaded<M: ContenderMap>(name: &'static str) -> Self {
        Self {
            name,
            verify: |name, keys| verify(name, &M::new(), keys),
            single: |workload| measure_single::<M>(workload),
            many: None,
        }
    }

    fn concurrent<M: ContenderMap + Sync>(name: &'static str) -> Self {
        let many: fn(&Workload, usize) -> Result<Figures> =
            |workload, threads| measure_many::<M>(workload, threads);
        Self {
            many: Some(many),
            ..Self::single_threaded::<M>(name)
        }
    }
}

fn contenders() -> Vec<Contender> {
    vec![
        #[cfg(feature = "peers")]
        Contender::concurrent::<crate::maps::MasstreeCrate>("masstree crate"),
        Contender::concurrent::<Inline>("hedgerow inline"),
        Contender::single_threaded::<Alone>("hedgerow single-threaded"),
        Contender::concurrent::<Indexed>("hedgerow index"),
        Contender::single_threaded::<BTreeMark>("std BTreeMap"),
    ]
}

/// The keys of one table.
struct Workload {
    keys: Vec<Key>,
    sample: Vec<Key>,
}

/// One round's figures in the order of [`COLUMNS`]; `None` = does not apply.
type Figures = Vec<Option<f64>>;

/// Runs the experiment.
///
/// # Errors
///
/// A contender that answers wrongly, a bad argument, or a file that cannot be written.
pub fn run(arguments: &TreeArguments) -> Result<()> {
    let mut chosen = contenders();
    if let Some(name) = &arguments.round_of {
        return print_round(&chosen, name, arguments);
    }
    chosen.retain(|contender| {
        arguments.only.is_empty()
            || arguments
                .only
                .iter()
                .any(|part| contender.name.contains(part.as_str()))
    });
    if chosen.is_empty() || arguments.rounds == 0 || arguments.keys == 0 {
        return Err(LabError::Usage(
            "nothing to measure: check --only, --keys, --rounds".into(),
        ));
    }
    let mut output = Output::create(arguments.json.as_deref())?;
    for &set in &arguments.set {
        let script = set.keys(arguments.keys.min(100_000));
        for contender in &chosen {
            (contender.verify)(contender.name, &script)?;
        }
        for &threads in &arguments.threads {
            let table = measure_table(arguments, &chosen, set, threads)?;
            output.table(&table)?;
        }
    }
    Ok(())
}

fn measure_table(
    arguments: &TreeArguments,
    contenders: &[Contender],
    set: KeySet,
    threads: usize,
) -> Result<Table> {
    let names: Vec<_> = contenders
        .iter()
        .filter(|contender| threads == 1 || contender.many.is_some())
        .map(|contender| contender.name)
        .collect();
    let mut table = Table::new("tree", &COLUMNS, &arguments.baseline, &names)
        .with("set", set.name())
        .with("keys", arguments.keys)
        .with("sample", arguments.sample.min(arguments.keys))
        .with("threads", threads)
        .with("unit", "Mops/s");
    for round in 1..=arguments.rounds {
        for name in &names {
            let figures = round_in_fresh_process(arguments, name, set, threads)?;
            for (column, figure) in COLUMNS.iter().zip(figures) {
                if let Some(figure) = figure {
                    table.push(name, column, figure);
                }
            }
            eprintln!("{} threads {threads}: round {round} {name}", set.name());
        }
    }
    Ok(table)
}

/// Runs a body over ranges of operations: alone, or split over threads. Returns seconds and
/// the sum of what the bodies tallied.
trait Drive<M> {
    fn drive(
        &self,
        map: &M,
        operations: usize,
        body: &(dyn Fn(&M, Range<usize>) -> Tally + Sync),
    ) -> (f64, Tally);
}

struct OneThread;

impl<M> Drive<M> for OneThread {
    fn drive(
        &self,
        map: &M,
        operations: usize,
        body: &(dyn Fn(&M, Range<usize>) -> Tally + Sync),
    ) -> (f64, Tally) {
        timed(|| body(map, 0..operations))
    }
}

struct Threads(usize);

impl<M: Sync> Drive<M> for Threads {
    fn drive(
        &self,
        map: &M,
        operations: usize,
        body: &(dyn Fn(&M, Range<usize>) -> Tally + Sync),
    ) -> (f64, Tally) {
        let barrier = Barrier::new(self.0);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.0)
                .map(|nth| {
                    let share = operations * nth / self.0..operations * (nth + 1) / self.0;
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        timed(|| body(map, share))
                    })
                })
                .collect();
            let worker_results = workers
                .into_iter()
                .map(|worker| worker.join().expect("a timed run panicked"));
            worker_results.fold(
                (0.0, Tally::default()),
                |(seconds, tally), (more, other)| (f64::max(seconds, more), tally.and(other)),
            )
        })
    }
}

fn measure_single<M: ContenderMap>(workload: &Workload) -> Result<Figures> {
    measure::<M>(workload, &OneThread)
}

fn measure_many<M: ContenderMap + Sync>(workload: &Workload, threads: usize) -> Result<Figures> {
    measure::<M>(workload, &Threads(threads))
}

/// One round: all operations on a fresh map, each timed, each tally checked.
fn measure<M: ContenderMap>(workload: &Workload, drive: &impl Drive<M>) -> Result<Figures> {
    let before_bytes = resident_bytes(None);
    let map = M::new();
    let (keys, sample) = (&workload.keys, &workload.sample);
    let expected = |add: u64| {
        let mut tally = Tally::default();
        sample
            .iter()
            .for_each(|key| tally.count(Some(key.value().wrapping_add(add))));
        tally
    };
    let mops = |operations: usize, seconds: f64| Some(operations as f64 / seconds / 1e6);
    let check = |what: &str, ours: Tally, right: Tally| {
        if ours == right {
            return Ok(());
        }
        Err(LabError::WrongAnswer(format!(
            "{what} in a timed run: {ours:?}, not {right:?}"
        )))
    };
    let put = |map: &M, keys: &[Key], add: u64| {
        map.put_run(keys, add);
        Tally::default()
    };
    let mut figures = Figures::new();

    let (seconds, _) = drive.drive(&map, keys.len(), &|map, range| put(map, &keys[range], 0));
    figures.push(mops(keys.len(), seconds));
    let map_bytes = resident_bytes(None).saturating_sub(before_bytes);

    let (seconds, tally) = drive.drive(&map, sample.len(), &|map, r| map.get_run(&sample[r]));
    check("get", tally, expected(0))?;
    figures.push(mops(sample.len(), seconds));

    let (seconds, tally) = drive.drive(&map, sample.len(), &|map, r| map.dependent_run(&sample[r]));
    check("dependent get", tally, expected(0))?;
    figures.push(mops(sample.len(), seconds));

    if M::BATCHES {
        let (seconds, tally) = drive.drive(&map, sample.len(), &|map, r| {
            map.get_many_run(&sample[r], 64)
        });
        check("get_many", tally, expected(0))?;
        figures.push(mops(sample.len(), seconds));
    } else {
        figures.push(None);
    }

    let (seconds, _) = drive.drive(&map, sample.len(), &|map, range| {
        put(map, &sample[range], 1)
    });
    figures.push(mops(sample.len(), seconds));
    check("get after update", map.get_run(sample), expected(1))?;

    let starts = &sample[..sample.len().div_ceil(10)];
    let (seconds, tally) = drive.drive(&map, starts.len(), &|map, range| {
        map.scan_run(&starts[range], SCAN_PAIRS)
    });
    let least = (starts.len() * SCAN_PAIRS).min(keys.len()) as u64 * 9 / 10;
    if keys.len() > 1000 && tally.hits < least {
        return Err(LabError::WrongAnswer(format!(
            "scans saw only {} pairs",
            tally.hits
        )));
    }
    figures.push(mops(starts.len(), seconds));

    let (seconds, tally) = drive.drive(&map, sample.len(), &|map, range| Tally {
        hits: map.remove_run(&sample[range]),
        sum: 0,
    });
    check(
        "remove",
        tally,
        Tally {
            hits: sample.len() as u64,
            sum: 0,
        },
    )?;
    figures.push(mops(sample.len(), seconds));
    figures.push(Some(map_bytes as f64 / keys.len() as f64));
    Ok(figures)
}

/// What a fresh process does: one round of one contender, printed as a JSON array.
fn print_round(contenders: &[Contender], name: &str, arguments: &TreeArguments) -> Result<()> {
    let contender = contenders.iter().find(|contender| contender.name == name);
    let (Some(contender), [set], [threads]) =
        (contender, &arguments.set[..], &arguments.threads[..])
    else {
        return Err(LabError::Usage(format!(
            "{name:?} with one set and thread count, please"
        )));
    };
    let workload = Workload {
        keys: set.keys(arguments.keys),
        sample: set.sample(arguments.keys, arguments.sample),
    };
    let figures = match (threads, contender.many) {
        (1, _) => (contender.single)(&workload)?,
        (&threads, Some(many)) => many(&workload, threads)?,
        _ => return Err(LabError::Usage(format!("{name} has a single thread"))),
    };
    println!("{}", serde_json::json!(figures));
    Ok(())
}

/// Starts this program again for one round.
fn round_in_fresh_process(
    arguments: &TreeArguments,
    contender: &str,
    set: KeySet,
    threads: usize,
) -> Result<Figures> {
    let output = Command::new(std::env::current_exe()?)
        .args(["tree", "--round-of", contender, "--set", set.name()])
        .args(["--keys", &arguments.keys.to_string()])
        .args(["--sample", &arguments.sample.to_string()])
        .args(["--threads", &threads.to_string()])
        .output()?;
    let figures = serde_json::from_slice(&output.stdout)
        .ok()
        .filter(|_| output.status.success());
    figures.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        LabError::Process(format!("a round of {contender} failed: {errors}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_round_is_right_for_every_contender() {
        let workload = Workload {
            keys: KeySet::Decimal.keys(20_000),
            sample: KeySet::Decimal.sample(20_000, 5_000),
        };
        for contender in contenders() {
            (contender.verify)(contender.name, &workload.keys).expect("right answers");
            let figures = (contender.single)(&workload).expect("right tallies");
            assert_eq!(figures.len(), COLUMNS.len());
            if let Some(many) = contender.many {
                many(&workload, 2).expect("right tallies on two threads");
            }
        }
    }
}
