//! Runs experiments: who, how often, in what order, within what limits.
//!
//! All points of an experiment are visited in every round, and at each point all contenders,
//! one after the other, beginning with another one each round: whatever drifts (temperature,
//! neighbours, a filling disk) meets everyone alike. Where an experiment compares the places of a
//! contender, these are visited one after the other instead. Each visit is a fresh process of this
//! program. Before the first round every contender is verified at every point; whoever answers
//! wrongly is reported and not timed.

mod arguments;
mod cachegrind;
mod child;
mod collect;
mod output;
mod plan;
mod skipped;
mod terminal;
mod wanted;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::experiment::{Settings, Stage};
use crate::experiments::chosen;
use crate::machine;
use crate::readme::{GROUP, PARTS};
use crate::registry::Registry;
use crate::{LabError, Result};

pub use arguments::RunArguments;
use child::ask;
pub use child::perform;
use collect::Collected;
use output::Output;
use plan::{Plan, Verification, Visit};
use wanted::Wanted;

/// Runs experiments as the command line says.
///
/// # Errors
///
/// Names that do not exist, too little memory, a file that cannot be written; and, after all
/// results were written, that a contender failed.
pub fn run(arguments: &RunArguments) -> Result<()> {
    if !arguments.names.iter().any(|name| name == GROUP) {
        let words: Vec<_> = std::env::args().skip(1).collect();
        return run_as(arguments, format!("hedgerow-lab {}", words.join(" ")));
    }
    if arguments.names.len() > 1 {
        let what = format!("'{GROUP}' has options of its own: run it by itself");
        return Err(LabError::Usage(what));
    }
    // What is wrong with one part shall not cost the others, which take hours.
    let mut failed = Vec::new();
    for part in PARTS.iter().map(|part| arguments.of_part(part)) {
        let command = part.command();
        eprintln!("{command}");
        failed.extend(run_as(&part, command).err());
    }
    let failed: Vec<String> = failed.iter().map(LabError::to_string).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(LabError::Process(failed.join("; "))),
    }
}

/// Runs experiments; the results name this command.
fn run_as(arguments: &RunArguments, command: String) -> Result<()> {
    let registry = Registry::new();
    let settings = Settings {
        scale: arguments.scale,
        keys: arguments.keys,
        connections: arguments.connections.clone(),
        cores: machine::describe().cores.max(1),
        directory: arguments.directory.clone(),
        counters: arguments.counters,
    };
    let wanted = Wanted {
        only: arguments.only.clone(),
        peers: arguments.peers.clone(),
        points: arguments.points.clone(),
    };
    wanted.check(&registry)?;
    let chosen = chosen(&arguments.names)?;
    let plans = chosen
        .iter()
        .map(|experiment| Plan::new(&**experiment, &registry, &settings, &wanted))
        .collect::<Result<Vec<_>>>()?;
    if plans.iter().all(|plan| plan.points.is_empty()) && !arguments.points.is_empty() {
        return Err(LabError::Usage(format!(
            "--points: no point has '{}' in its position or a parameter, as results and reports \
             show them",
            arguments.points.join("' or '")
        )));
    }
    let valgrind = arguments.cachegrind.then(cachegrind::find).transpose()?;
    plan::announce(&plans, arguments.rounds, arguments.cachegrind);
    // Whoever is left out for a reason is a row of the results.
    let nobody = |plan: &Plan| plan.is_empty() && plan.skipped.is_empty();
    if plans.iter().all(nobody) {
        return Err(LabError::Usage(
            "nothing to measure: no contender is left (see --only and --peers, and `hedgerow-lab \
             list`)"
                .into(),
        ));
    }
    plan::refuse_if_short(&plans, &settings)?;
    if arguments.dry_run {
        return Ok(());
    }
    let mut output = Output::open(arguments, command, &plans)?;
    let mut failed = BTreeSet::new();
    for (index, plan) in plans.iter().enumerate() {
        let left = (plans.len() - index) as u32;
        let share = output.time_left(arguments.time_budget).map(|t| t / left);
        output.begin(plan)?;
        let collected = match &valgrind {
            Some(valgrind) => cachegrind::count(plan, valgrind, &counting(plan))?,
            None => measure(plan, arguments.rounds, share, &settings, &mut output)?,
        };
        failed.extend(
            collected
                .failures
                .iter()
                .map(|failure| format!("{} in {}", failure.contender, plan.about.name)),
        );
        output.end(plan, &collected)?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let failed: Vec<_> = failed.into_iter().collect();
    Err(LabError::Process(format!("failed: {}", failed.join(", "))))
}

/// All jobs of one experiment.
fn measure<'a>(
    plan: &'a Plan,
    rounds: u32,
    budget: Option<Duration>,
    settings: &Settings,
    output: &mut Output,
) -> Result<Collected<'a>> {
    let start = Instant::now();
    let mut collected = Collected::new(plan);
    let visits = plan.visits();
    let verifications = plan.verifications();
    let visits = visits as u64 * u64::from(rounds) + verifications.len() as u64;
    let progress = progress(plan.about.name, visits);
    let over = |start: &Instant| budget.is_some_and(|budget| start.elapsed() >= budget);
    for Verification {
        point,
        contender,
        also,
    } in verifications
    {
        // Who was not verified will find no time left for a round either.
        if over(&start) {
            break;
        }
        progress.set_message(format!("verify {contender}"));
        let answer = ask(plan, point, contender, Stage::Verify, settings);
        collected.verified(point, &also, contender, answer);
        progress.inc(1);
    }
    for round in 0..rounds {
        let round_start = Instant::now();
        for Visit { point, contender } in plan.order(round as usize) {
            if !over(&start) && !collected.is_out(point, contender) {
                progress.set_message(contender);
                let answer = ask(plan, point, contender, Stage::Measure, settings);
                output.round(&collected.measured(point, contender, answer))?;
            }
            progress.inc(1);
        }
        collected.rounds = round + 1;
        say_round(plan, round + 1, rounds);
        let next_ends = start.elapsed() + round_start.elapsed();
        if round + 1 < rounds && budget.is_some_and(|budget| next_ends > budget) {
            break;
        }
    }
    progress.finish_and_clear();
    Ok(collected)
}

/// Progress over the columns that are counted.
fn counting(plan: &Plan) -> ProgressBar {
    let points = plan.countable.iter().zip(&plan.points);
    let columns = points.map(|(columns, point)| columns.len() * point.contenders.len());
    progress(plan.about.name, columns.sum::<usize>() as u64)
}

fn progress(name: &str, visits: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{prefix} {bar:24} {pos}/{len}, {elapsed} gone, about {eta} left · {msg}",
    );
    let bar = ProgressBar::new(visits).with_prefix(name.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Progress where nobody sees a bar.
fn say_round(plan: &Plan, round: u32, rounds: u32) {
    if !std::io::stderr().is_terminal() {
        eprintln!("{}: round {round} of {rounds}", plan.about.name);
    }
}
