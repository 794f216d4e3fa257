//! Counting instead of timing: instructions, cache misses and branch misses per operation, by
//! simulation.
//!
//! Hardware counters are rare on rented machines. Valgrind's cachegrind simulates a processor
//! with this machine's first and last level of cache, some fifty times slower than it, so only
//! a bounded slice runs: one process prepares a map, another prepares it and runs the slice,
//! and the difference is the slice's. The counts are of one thread and the same every time
//! (nearly: the allocator's addresses move a few lines), so there is one round.

use std::path::{Path, PathBuf};
use std::process::Command;

use hedgerow_lab_report::Better;
use indicatif::ProgressBar;
use tempfile::TempDir;

use super::child::job;
use super::collect::Collected;
use super::plan::Plan;
use crate::experiment::{Answer, Stage};
use crate::process::{SUBCOMMAND, find_program, performed_by};
use crate::{LabError, Result};

/// What one run of cachegrind counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    instructions: f64,
    l1_misses: f64,
    last_misses: f64,
    branch_misses: f64,
}

/// Where valgrind is.
///
/// # Errors
///
/// When it is not, with the command that installs it.
pub fn find() -> Result<PathBuf> {
    find_program("valgrind").ok_or_else(|| {
        LabError::Unavailable(
            "--cachegrind needs valgrind, which is not on PATH (to have it: apt install valgrind)"
                .to_owned(),
        )
    })
}

/// Counts every countable column of every contender at every point, once.
pub fn count<'a>(plan: &'a Plan, valgrind: &Path, progress: &ProgressBar) -> Result<Collected<'a>> {
    let mut collected = Collected::new(plan);
    let folder = TempDir::with_prefix("hedgerow-lab-")?;
    for (point, columns) in plan.countable.iter().enumerate() {
        for contender in &plan.points[point].contenders {
            let run = |column| {
                let file = folder.path().join("counts");
                run(plan, point, contender, column, valgrind, &file)
            };
            let counted = (|| {
                if columns.is_empty() {
                    return Ok(Answer::default());
                }
                let prepared = run(None)?;
                let mut answer = Answer::default();
                for (index, (column, operations)) in columns.iter().enumerate() {
                    progress.set_message(format!("{contender}: {column}"));
                    let whole = match run(u8::try_from(index).ok()) {
                        // It takes part, but has no such operation.
                        Err(LabError::Unavailable(_)) => continue,
                        whole => whole?,
                    };
                    push(&mut answer, column, &whole, &prepared, *operations);
                    progress.inc(1);
                }
                Ok(answer)
            })();
            collected.measured(point, contender, counted);
        }
    }
    collected.rounds = 1;
    Ok(collected)
}

fn run(
    plan: &Plan,
    point: usize,
    contender: &str,
    column: Option<u8>,
    valgrind: &Path,
    file: &Path,
) -> Result<Counts> {
    let job = job(plan, point, contender, Stage::Count { column });
    let mut command = Command::new(valgrind);
    command
        // Valgrind 3.19 compiles some AVX2 wrongly when it optimises: trees lose keys.
        .args(["--tool=cachegrind", "--vex-iropt-level=0"])
        .args(["--cache-sim=yes", "--branch-sim=yes"])
        .arg(format!("--cachegrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .arg(SUBCOMMAND);
    if let Some(who) = plan.participant(contender) {
        command.envs(who.environment.iter().map(|(name, value)| (name, value)));
    }
    let answer = performed_by(&mut command, &job)?;
    if let Some(unfit) = answer.unfit {
        return Err(LabError::Unavailable(unfit.why));
    }
    parse(&std::fs::read_to_string(file)?)
        .ok_or_else(|| LabError::Process("cachegrind's output has no summary".to_owned()))
}

/// The totals of cachegrind's output file: a line of event names and a line of sums.
fn parse(text: &str) -> Option<Counts> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let events = line("events:")?.split_whitespace();
    let sums = line("summary:")?.split_whitespace();
    let mut counts = Counts::default();
    for (event, sum) in events.zip(sums) {
        let sum: f64 = sum.parse().ok()?;
        match event {
            "Ir" => counts.instructions += sum,
            "I1mr" | "D1mr" | "D1mw" => counts.l1_misses += sum,
            "ILmr" | "DLmr" | "DLmw" => counts.last_misses += sum,
            "Bcm" | "Bim" => counts.branch_misses += sum,
            _ => {}
        }
    }
    Some(counts)
}

fn push(answer: &mut Answer, column: &str, whole: &Counts, prepared: &Counts, operations: u64) {
    let mut each = |what: &str, count: fn(&Counts) -> f64| {
        let figure = (count(whole) - count(prepared)).max(0.0) / operations.max(1) as f64;
        let column = format!("{column}: {what}");
        answer.push(&column, "per operation", Better::Lower, figure);
    };
    each("instructions", |counts| counts.instructions);
    each("L1 misses", |counts| counts.l1_misses);
    each("last-level misses", |counts| counts.last_misses);
    each("branch misses", |counts| counts.branch_misses);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_read_by_the_names_of_its_events() {
        let text = "desc: I1 cache\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim\n\
                    fn=main\n1 2 3\nsummary: 100 1 2 30 4 5 20 6 7 10 8 3 2\n";
        let counts = parse(text).expect("a summary");
        let expected = Counts {
            instructions: 100.0,
            l1_misses: 11.0,
            last_misses: 14.0,
            branch_misses: 10.0,
        };
        assert_eq!(counts, expected);
        assert_eq!(parse("events: Ir\n"), None);
    }

    #[test]
    fn a_slice_is_the_difference_per_operation() {
        let whole = Counts {
            instructions: 1500.0,
            ..Counts::default()
        };
        let prepared = Counts {
            instructions: 500.0,
            l1_misses: 3.0,
            ..Counts::default()
        };
        let mut answer = Answer::default();
        push(&mut answer, "get", &whole, &prepared, 10);
        assert_eq!(answer.figures[0].figure, 100.0);
        assert_eq!(answer.figures[1].figure, 0.0);
    }
}
