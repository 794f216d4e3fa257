//! A report before it is rendered: what each page shows, in order.
//!
//! Markdown and HTML show the same sections, tables and plots; only their looks differ. So what
//! to show is decided once, here.

use std::collections::BTreeSet;

use crate::arrange::{Arrangement, Role};
use crate::escape::unique_slug;
use crate::finding::{Finding, Spread, finding};
use crate::layout::LayoutPage;
use crate::number;
use crate::plot::{Plot, plots};
use crate::read::{ExperimentResults, Results, RunResults};
use crate::record::{Machine, Participant, Run};
use crate::table::{Table, absent, tables};

/// A whole report.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub runs: Vec<&'a Run>,
    /// Each machine with the runs (by number, from 1) that ran on it.
    pub machines: Vec<(&'a Machine, Vec<usize>)>,
    /// Each contender and version once.
    pub contenders: Vec<Listed<'a>>,
    pub sections: Vec<Section<'a>>,
}

/// A contender in the list of contenders.
#[derive(Debug, PartialEq)]
pub(crate) struct Listed<'a> {
    pub participant: &'a Participant,
    pub standing: Standing,
}

/// Whether a contender took part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has figures.
    Measured,
    /// It was only ever skipped.
    Skipped,
    /// No experiment asked it.
    Idle,
}

/// An experiment of a run.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// Its anchor.
    pub id: String,
    /// The run's number, from 1.
    pub run_number: usize,
    pub run: &'a Run,
    pub arrangement: Arrangement<'a>,
    pub finding: Finding<'a>,
    pub tables: Vec<Table<'a>>,
    /// Who has no figure in it, by the reason.
    pub absent: Vec<(String, Vec<&'a str>)>,
    pub plots: Vec<Plot<'a>>,
    /// How nodes lay in memory.
    pub layouts: Vec<LayoutPage<'a>>,
}

impl Section<'_> {
    /// The experiment's title, or its name where it has none.
    pub(crate) fn title(&self) -> &str {
        let about = &self.arrangement.results.about;
        if about.title.is_empty() {
            &about.name
        } else {
            &about.title
        }
    }
}

impl<'a> Document<'a> {
    /// Decides what a report on `results` shows.
    pub(crate) fn of(results: &'a Results) -> Self {
        let (mut ids, mut files) = (Vec::new(), Vec::new());
        let mut sections = Vec::new();
        for (i, run) in results.runs.iter().enumerate() {
            for experiment in &run.experiments {
                let arrangement = Arrangement::of(run, experiment);
                sections.push(Section {
                    id: unique_slug(&experiment.about.name, &mut ids),
                    run_number: i + 1,
                    run: &run.run,
                    finding: finding(&arrangement),
                    tables: tables(&arrangement),
                    absent: absent(&arrangement),
                    plots: plots(&arrangement, &mut files),
                    layouts: layouts(experiment, &mut files),
                    arrangement,
                });
            }
        }
        Self {
            runs: results.runs.iter().map(|run| &run.run).collect(),
            machines: machines(&results.runs),
            contenders: contenders(&results.runs),
            sections,
        }
    }

    /// The days on which it was measured.
    pub(crate) fn days(&self) -> String {
        let started = self.runs.iter().map(|run| run.started);
        let day = |seconds| number::moment(seconds)[..10].to_owned();
        match (started.clone().min(), started.max()) {
            (Some(first), Some(last)) if day(first) != day(last) => {
                format!("{} to {}", day(first), day(last))
            }
            (Some(first), _) => day(first),
            _ => String::new(),
        }
    }

    /// How much was measured, in a sentence.
    pub(crate) fn extent(&self) -> String {
        let figures: usize = self
            .sections
            .iter()
            .map(|section| section.arrangement.results.figures.len())
            .sum();
        let names = self
            .sections
            .iter()
            .flat_map(|section| &section.arrangement.contenders);
        let real = names.filter(|contender| contender.role != Role::Overhead);
        let measured: BTreeSet<&str> = real.map(|contender| contender.name).collect();
        let count = |count: usize, what: &str| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{} {what}{plural}", number::plain(count as f64))
        };
        format!(
            "{}, {}, {} in {}, measured {}.",
            count(self.sections.len(), "experiment"),
            count(measured.len(), "contender"),
            count(figures, "figure"),
            count(self.runs.len(), "run"),
            self.days()
        )
    }
}

fn layouts<'a>(experiment: &'a ExperimentResults, files: &mut Vec<String>) -> Vec<LayoutPage<'a>> {
    let layouts = experiment.layouts.iter();
    layouts
        .map(|layout| LayoutPage::of(layout, files))
        .collect()
}

fn machines(runs: &[RunResults]) -> Vec<(&Machine, Vec<usize>)> {
    let mut machines: Vec<(&Machine, Vec<usize>)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let machine = &run.run.machine;
        match machines.iter_mut().find(|(known, _)| *known == machine) {
            Some((_, numbers)) => numbers.push(i + 1),
            None => machines.push((machine, vec![i + 1])),
        }
    }
    machines
}

fn contenders(runs: &[RunResults]) -> Vec<Listed<'_>> {
    let mut listed: Vec<Listed<'_>> = Vec::new();
    for run in runs {
        for participant in &run.run.contenders {
            let mut experiments = run.experiments.iter();
            let skipped = run
                .experiments
                .iter()
                .any(|e| e.skipped.iter().any(|s| s.contender == participant.name));
            let measured =
                experiments.any(|e| e.figures.iter().any(|f| f.contender == participant.name));
            let standing = match (measured, skipped) {
                (true, _) => Standing::Measured,
                (false, true) => Standing::Skipped,
                (false, false) => Standing::Idle,
            };
            match listed
                .iter_mut()
                .find(|known| known.participant == participant)
            {
                Some(known) if known.standing == Standing::Measured => {}
                Some(known) if standing != Standing::Idle => known.standing = standing,
                Some(_) => {}
                None => listed.push(Listed {
                    participant,
                    standing,
                }),
            }
        }
    }
    listed
}

/// What is known about a machine, as pairs of what and which; leaves out what is not known.
pub(crate) fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let memory = match machine.memory_gib {
        0 => String::new(),
        gib => format!("{gib} GiB"),
    };
    let cores = match machine.cores {
        0 => String::new(),
        cores => cores.to_string(),
    };
    let facts = [
        ("Processor", machine.cpu.clone()),
        ("Processors usable", cores),
        ("SIMD", machine.simd.join(", ")),
        ("Last-level cache", machine.last_cache.clone()),
        ("Memory", memory),
        ("Kernel", machine.kernel.clone()),
        ("Transparent superpages", machine.superpages.clone()),
        ("Standard allocator", machine.allocator.clone()),
        ("Hedgerow's commit", machine.commit.clone()),
    ];
    facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// The command that repeats a run.
pub(crate) fn command(run: &Run) -> String {
    if run.command.starts_with("hedgerow-lab") {
        run.command.clone()
    } else {
        format!("hedgerow-lab {}", run.command)
    }
}

/// The runs of a machine in words: `run 1`, `runs 2, 3`.
pub(crate) fn run_numbers(numbers: &[usize]) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    format!("run{plural} {}", numbers.join(", "))
}

/// The summary's cells about an experiment: how often ours is ahead, and by how much.
pub(crate) fn standing(finding: &Finding<'_>) -> (String, String) {
    match &finding.verdict {
        None => ("–".to_owned(), "–".to_owned()),
        Some(verdict) => {
            let Spread {
                least,
                median,
                most,
            } = verdict.gains;
            let spread = if verdict.places == 1 {
                String::new()
            } else {
                format!(" ({}–{})", number::ratio(least), number::ratio(most))
            };
            (
                format!("{} of {}", verdict.ahead, verdict.places),
                format!("{}{spread}", number::ratio(median)),
            )
        }
    }
}
