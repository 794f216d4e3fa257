//! What an experiment is, and what passes between the runner and the processes it starts.
//!
//! An experiment declares what it reproduces ([`About`]), who takes part, and its [`Point`]s:
//! the positions of its horizontal axis and its tables. The runner asks for one [`Job`] per
//! point, contender and round, each in a process of its own, and receives an [`Answer`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use hedgerow_lab_contender::{Entry, Unavailable};
use hedgerow_lab_report::{Better, Cause, Inspected, Measured, X};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::registry::Registry;
use crate::{LabError, Result};

/// How large a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// Seconds: does everything work? Its figures mean nothing.
    Smoke,
    /// Minutes: trees larger than the caches of common machines.
    Small,
    /// The source's own sizes, as far as memory allows.
    Paper,
}

impl Scale {
    /// One of three, by scale.
    #[must_use]
    pub fn pick<T>(self, smoke: T, small: T, paper: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Small => small,
            Self::Paper => paper,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pick("smoke", "small", "paper"))
    }
}

/// Connections that a client may have: as many as the server of "InnoDB and the Bw-tree" had cores.
pub const MOST_CONNECTIONS: usize = 96;

/// What a run asks of every experiment.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How large.
    pub scale: Scale,
    /// Records, instead of the scale's number.
    pub keys: Option<usize>,
    /// Connections of each client of a server, instead of the scale's; empty for those.
    pub connections: Vec<usize>,
    /// Processors that may be used.
    pub cores: usize,
    /// Where files and databases go; the system's temporary directory if not given.
    pub directory: Option<PathBuf>,
    /// Whether processes count cycles, misses and the like beside timing.
    pub counters: bool,
}

impl Settings {
    /// At scale smoke, on so many cores, all else as by default.
    #[cfg(test)]
    pub(crate) fn smoke(cores: usize) -> Settings {
        Settings {
            scale: Scale::Smoke,
            keys: None,
            connections: Vec::new(),
            cores,
            directory: None,
            counters: false,
        }
    }

    /// Records of this run: as told, or by scale.
    #[must_use]
    pub fn keys(&self, smoke: usize, small: usize, paper: usize) -> usize {
        self.keys
            .unwrap_or_else(|| self.scale.pick(smoke, small, paper))
    }

    /// Connections of this run's clients: as told, or by scale.
    #[must_use]
    pub fn connections(&self, smoke: &[usize], small: &[usize], paper: &[usize]) -> Vec<usize> {
        match self.connections.as_slice() {
            [] => self.scale.pick(smoke, small, paper).to_vec(),
            told => told.to_vec(),
        }
    }

    /// Thread counts from 1 to as many as there are cores, doubling; `most` at most.
    #[must_use]
    pub fn thread_counts(&self, most: usize) -> Vec<usize> {
        let most = self.cores.clamp(1, most);
        let mut counts: Vec<usize> = (0..)
            .map(|power| 1 << power)
            .take_while(|&count| count < most)
            .collect();
        counts.push(most);
        counts
    }
}

/// What an experiment reproduces.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its name, `SEED/FIGURE`.
    pub name: &'static str,
    /// A title for people.
    pub title: &'static str,
    /// Where it comes from, such as `Masstree, §6.4, Fig. 9`.
    pub source: &'static str,
    /// What the source found, in a sentence or two.
    pub claim: &'static str,
    /// What the horizontal axis shows, with the unit; none where bars compare contenders.
    pub x_label: Option<&'static str>,
    /// Whether that axis is logarithmic.
    pub x_log: bool,
    /// The contender that ratios are taken to.
    pub baseline: &'static str,
    /// Which of the source's effects can show on a machine like ours, which cannot, and why.
    pub here: Option<&'static str>,
    /// The place on the horizontal axis that each contender's other places are compared with.
    pub compared_to: Option<&'static str>,
}

/// Someone who takes part, or would if it were installed.
#[derive(Debug, Clone)]
pub struct Participant {
    /// Who.
    pub entry: Entry,
    /// Whether it can be had here.
    pub available: std::result::Result<(), Unavailable>,
    /// Environment variables that make it what it is, such as a search kernel.
    pub environment: Vec<(&'static str, String)>,
}

/// What a job needs while it runs: memory and disk rather too much than too little, time within
/// a factor of two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Need {
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Disk in bytes.
    pub disk_bytes: u64,
    /// Seconds of a round that are the same for every contender: a process, its keys, a model.
    pub shared_seconds: f64,
    /// Seconds that a contender of ordinary speed takes on top (see [`pace`](crate::pace)).
    pub own_seconds: f64,
    /// Seconds that verifying such a contender takes.
    pub verify_seconds: f64,
}

/// One position in an experiment: a group of bars, or a place on the horizontal axis.
#[derive(Debug, Clone)]
pub struct Point {
    /// What distinguishes its table from the experiment's others.
    pub parameters: BTreeMap<String, Value>,
    /// The position on the horizontal axis.
    pub x: Option<X>,
    /// Who takes part here, by name.
    pub contenders: Vec<&'static str>,
    /// What one job needs.
    pub need: Need,
    /// All that a job must know, for its process to read.
    pub workload: Value,
    /// What verifying depends on: a contender that was verified at one point is not verified
    /// again at another that has the same here.
    pub verified_by: Value,
}

/// What a process is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Compare the contender's answers with a model's; time nothing.
    Verify,
    /// One round.
    Measure,
    /// A bounded slice for the simulator that counts instructions: prepare, and run the slice
    /// unless told to leave it out (the difference between the two is the slice).
    Count {
        /// The column to run; none leaves the slice out.
        column: Option<u8>,
    },
}

/// One process's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The experiment's name.
    pub experiment: String,
    /// Who.
    pub contender: String,
    /// What to do.
    pub stage: Stage,
    /// The point's workload.
    pub workload: Value,
}

impl Job {
    /// The workload as the experiment's own type.
    ///
    /// # Errors
    ///
    /// When it is not of that type: a job of another version of the lab.
    pub fn workload<W: for<'de> Deserialize<'de>>(&self) -> Result<W> {
        serde_json::from_value(self.workload.clone())
            .map_err(|error| LabError::Usage(format!("not a workload of this lab: {error}")))
    }
}

/// Figures at a place of their own on the horizontal axis: a function of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The category.
    pub place: String,
    /// What was measured there.
    pub figures: Vec<Measured>,
}

/// Why a contender takes no part in a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unfit {
    /// What kind of reason it is.
    pub cause: Cause,
    /// The reason.
    pub why: String,
}

/// What a process found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The round's figures.
    pub figures: Vec<Measured>,
    /// More of them, at places that only the process knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Operations that were answered wrongly or refused.
    pub errors: u64,
    /// Why the contender takes no part in this workload, if it cannot.
    pub unfit: Option<Unfit>,
    /// How the contender's nodes lay in memory, where that was looked at.
    pub layout: Option<Inspected>,
}

impl Answer {
    /// The answer of a contender that cannot take part.
    #[must_use]
    pub fn of_unfit(cause: Cause, why: String) -> Self {
        Self {
            unfit: Some(Unfit { cause, why }),
            ..Self::default()
        }
    }

    /// Adds a throughput in million operations per second, and what the run just timed was
    /// counted to take of each operation, if it was counted.
    pub fn push_mops(&mut self, column: &str, operations: usize, seconds: f64) {
        let figure = operations as f64 / seconds.max(1e-9) / 1e6;
        self.push(column, "Mops/s", Better::Higher, figure);
        self.push_counts(column, "per operation", operations);
    }

    /// Adds what the run just timed was counted to take of each of so many operations, if it was
    /// counted.
    pub fn push_counts(&mut self, column: &str, unit: &str, operations: usize) {
        for (counter, count) in crate::counters::take() {
            let each = count as f64 / operations.max(1) as f64;
            self.push(&format!("{column}: {counter}"), unit, Better::Lower, each);
        }
    }

    /// Adds a figure.
    pub fn push(&mut self, column: &str, unit: &str, better: Better, figure: f64) {
        self.figures.push(Measured {
            column: column.to_owned(),
            unit: unit.to_owned(),
            better,
            figure,
        });
    }
}

/// Something that the lab can run.
pub trait Experiment: Sync {
    /// What it reproduces.
    fn about(&self) -> About;

    /// Who takes part, present or not.
    fn participants(&self, registry: &Registry) -> Vec<Participant>;

    /// Its points, for these settings. Only contenders among the participants are named.
    ///
    /// # Errors
    ///
    /// Settings that make no sense for it.
    fn points(&self, registry: &Registry, settings: &Settings) -> Result<Vec<Point>>;

    /// Does one job, in a process of its own.
    ///
    /// # Errors
    ///
    /// A contender that answers wrongly or fails.
    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer>;

    /// The columns that can be counted by simulation, in the order of [`Stage::Count`], with
    /// the operations of a slice of each.
    fn countable(&self, point: &Point) -> Vec<(String, u64)> {
        let _ = point;
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_double_up_to_the_cores() {
        let settings = Settings::smoke;
        assert_eq!(settings(1).thread_counts(16), [1]);
        assert_eq!(settings(6).thread_counts(16), [1, 2, 4, 6]);
        assert_eq!(settings(64).thread_counts(16), [1, 2, 4, 8, 16]);
    }
}
