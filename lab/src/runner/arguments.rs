//! What `hedgerow-lab run` is asked for.

use std::path::PathBuf;

use crate::experiment::{MOST_CONNECTIONS, Scale};
use crate::readme::Part;

/// Arguments of `hedgerow-lab run`.
#[derive(Debug, Clone, clap::Args)]
pub struct RunArguments {
    /// Experiments by name (`hedgerow-lab list` shows them), all of a source (`masstree`), `all`,
    /// or `readme` for the runs of the README's tables.
    #[arg(required = true)]
    pub(super) names: Vec<String>,
    /// How large: smoke (seconds), small (minutes), paper (the source's sizes).
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    pub(super) scale: Scale,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,
    /// Only contenders whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Of other people's systems, only those whose name contains one of these; `none` for ours
    /// alone. The one that ratios are taken to stays.
    #[arg(long, value_delimiter = ',')]
    pub(super) peers: Vec<String>,
    /// Only points (a key set, a number of threads, an operation) of which the position or a
    /// parameter contains one of these.
    #[arg(long, value_delimiter = ',')]
    pub(super) points: Vec<String>,
    /// Records, instead of the scale's number.
    #[arg(long)]
    pub(super) keys: Option<usize>,
    /// How many connections clients have, instead of the scale's numbers, in experiments from
    /// client to server that vary them: 1,8,96.
    #[arg(long, value_delimiter = ',', value_parser = connections)]
    pub(super) connections: Vec<usize>,
    /// Stop starting new rounds when this many seconds are over; each experiment gets its share.
    #[arg(long, value_name = "SECONDS")]
    pub(super) time_budget: Option<u64>,
    /// Append the results as JSON lines to this file.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Where files and databases go, instead of the system's temporary directory.
    #[arg(long, value_name = "FOLDER")]
    pub(super) directory: Option<PathBuf>,
    /// Count instead of timing: instructions, cache and branch misses per operation of a bounded
    /// slice, simulated by valgrind's cachegrind.
    #[arg(long)]
    pub(super) cachegrind: bool,
    /// Count beside timing: cycles, instructions, misses and page faults per operation, by the
    /// counters that this machine has.
    #[arg(long, conflicts_with = "cachegrind")]
    pub(super) counters: bool,
    /// Say what it would take, and stop.
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl RunArguments {
    /// These arguments for a part of a group: with its experiments, and with its options where
    /// none was given.
    pub(super) fn of_part(&self, part: &Part) -> Self {
        let mut arguments = self.clone();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        arguments.names = owned(part.experiments);
        if self.scale == Scale::Small {
            arguments.keys = self.keys.or(part.keys);
        }
        if self.only.is_empty() {
            arguments.only = owned(part.only);
        }
        if self.peers.is_empty() {
            arguments.peers = owned(part.peers);
        }
        if self.points.is_empty() {
            arguments.points = owned(part.points);
        }
        arguments
    }

    /// The command line that asks for this.
    pub(super) fn command(&self) -> String {
        let mut words = vec!["hedgerow-lab run".to_owned(), self.names.join(" ")];
        words.push(format!("--scale {} --rounds {}", self.scale, self.rounds));
        words.extend(self.keys.map(|keys| format!("--keys {keys}")));
        let list = |option: &str, list: &[String]| match list {
            [] => None,
            list => Some(format!("--{option} \"{}\"", list.join(","))),
        };
        words.extend(list("only", &self.only));
        words.extend(list("peers", &self.peers));
        words.extend(list("points", &self.points));
        words.extend(
            self.time_budget
                .map(|seconds| format!("--time-budget {seconds}")),
        );
        words.extend(
            self.json
                .as_ref()
                .map(|file| format!("--json {}", file.display())),
        );
        words.join(" ")
    }
}

/// As many connections as a server of the lab takes.
fn connections(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=MOST_CONNECTIONS).contains(number));
    number.ok_or_else(|| format!("not a number of connections from 1 to {MOST_CONNECTIONS}"))
}
