//! The lines of a results file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::inspected::{Inspected, LayoutTable};

/// The version of the format that this crate writes and reads.
pub const SCHEMA: u32 = 2;

/// One line of a results file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// A run begins: where and how. What follows, up to the next one, belongs to it.
    Run(Run),
    /// An experiment begins: what it reproduces.
    Experiment(Experiment),
    /// A figure of one contender.
    Figure(Figure),
    /// A contender that did not take part.
    Skipped(Skipped),
    /// What one contender answered in one round of an experiment that is under way.
    Round(Round),
    /// How a contender's nodes lay in memory.
    Layout(Layout),
}

/// One invocation of the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The version of this format, [`SCHEMA`]; readers refuse another.
    pub schema: u32,
    /// The command line, without the path of the program.
    pub command: String,
    /// When it began, in seconds since 1970 (UTC).
    pub started: u64,
    /// The scale's name: `smoke`, `small` or `paper`.
    pub scale: String,
    /// Where it ran.
    pub machine: Machine,
    /// Who took part.
    pub contenders: Vec<Participant>,
}

/// The machine and build of a run; what cannot be found out is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that the process may use.
    pub cores: usize,
    /// SIMD levels that matter to node search.
    pub simd: Vec<String>,
    /// The size of the last-level cache, as the kernel words it.
    pub last_cache: String,
    /// Physical memory in GiB.
    pub memory_gib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The transparent superpage mode.
    pub superpages: String,
    /// The standard allocator of the lab's program.
    #[serde(default)]
    pub allocator: String,
    /// The commit that was built, with `+` when the tree was dirty.
    pub commit: String,
}

/// A contender of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Participant {
    /// Its name in the figures.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it comes from.
    pub origin: String,
}

/// What an experiment reproduces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name, such as `masstree/fig9`.
    pub name: String,
    /// A title for people.
    pub title: String,
    /// The source, such as `Masstree, §6.3, Fig. 9`.
    pub source: String,
    /// What the source found, in a sentence or two.
    pub claim: String,
    /// What the horizontal axis of its plots shows, with the unit; none where bars compare
    /// contenders.
    pub x_label: Option<String>,
    /// Whether that axis is logarithmic.
    pub x_log: bool,
    /// The contender that ratios are taken to.
    pub baseline: String,
    /// Which of the source's effects can show on a machine like this, which cannot, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<String>,
    /// The category of the horizontal axis that each contender's other places are compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_to: Option<String>,
}

/// A position on a plot's horizontal axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum X {
    /// A number, such as a thread count.
    Number(f64),
    /// A category, such as a key set's name.
    Category(String),
}

/// Whether more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Throughput.
    Higher,
    /// Latency, bytes.
    Lower,
}

/// One contender's figure: all its rounds and what they come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The experiment's name.
    pub experiment: String,
    /// What distinguishes its table from the experiment's others: key set, threads and so on.
    pub parameters: BTreeMap<String, Value>,
    /// The position on the horizontal axis, in experiments that have one.
    pub x: Option<X>,
    /// Who.
    pub contender: String,
    /// What was measured, such as `get`.
    pub column: String,
    /// Its unit, such as `Mops/s`, `ns`, `bytes/key`.
    pub unit: String,
    /// Whether more is better.
    pub better: Better,
    /// The median of the rounds; none when there were errors.
    pub median: Option<f64>,
    /// The smallest of the rounds.
    pub min: Option<f64>,
    /// The largest of the rounds.
    pub max: Option<f64>,
    /// Every round in order.
    pub rounds: Vec<f64>,
    /// The median over rounds of the ratio to the baseline in the same round.
    pub ratio: Option<f64>,
    /// Wrong or refused operations; a figure with errors has no median.
    pub errors: u64,
}

/// One figure of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What was measured.
    pub column: String,
    /// Its unit.
    pub unit: String,
    /// Whether more is better.
    pub better: Better,
    /// How much.
    pub figure: f64,
}

/// What one contender answered in one round at one place. When an experiment is over its
/// [`Figure`]s take the place of its rounds; a run that was cut leaves these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The experiment's name.
    pub experiment: String,
    /// Which round, counted from 0: ratios are taken within one.
    pub round: u32,
    /// As in [`Figure`].
    pub parameters: BTreeMap<String, Value>,
    /// As in [`Figure`].
    pub x: Option<X>,
    /// Who.
    pub contender: String,
    /// What was measured.
    pub figures: Vec<Measured>,
    /// Wrong or refused operations.
    pub errors: u64,
}

/// What kind of reason keeps a contender out of an experiment, in ascending order of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// It cannot be had here: this build or machine lacks it, or what it needs (a package, a
    /// program, a feature of the kernel, a privilege, an instruction).
    Missing,
    /// It does not promise what the workload needs: keys of that length, order, a limited cache.
    Limits,
    /// It does not open with the workload's settings.
    Refusal,
    /// It needs more memory than it may take.
    Memory,
    /// The time budget was used up.
    Time,
    /// It answered wrongly, failed, or ended early.
    Failure,
}

/// A contender that did not take part in an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The experiment's name.
    pub experiment: String,
    /// Who.
    pub contender: String,
    /// Why, and the command that would help.
    pub why: String,
    /// The gravest of the reasons; none in results of labs that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_its_kind_and_reads_back() {
        let skipped = Record::Skipped(Skipped {
            experiment: "masstree/fig9".into(),
            contender: "Judy".into(),
            why: "not installed".into(),
            cause: Some(Cause::Missing),
        });
        let line = serde_json::to_string(&skipped).expect("serialises");
        assert!(line.starts_with(r#"{"kind":"skipped","#), "{line}");
        let back: Record = serde_json::from_str(&line).expect("reads back");
        assert_eq!(back, skipped);
    }

    #[test]
    fn results_without_a_cause_read_as_well() {
        let line = r#"{"kind":"skipped","experiment":"e","contender":"a","why":"gone"}"#;
        let read: Record = serde_json::from_str(line).expect("reads");
        let is_without = matches!(&read, Record::Skipped(skipped) if skipped.cause.is_none());
        assert!(is_without, "{read:?}");
        assert_eq!(serde_json::to_string(&read).expect("serialises"), line);
    }
}

/// How a contender's nodes lay at one place of an experiment, in the first round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The experiment's name.
    pub experiment: String,
    /// As in a [`Figure`].
    pub parameters: BTreeMap<String, Value>,
    /// As in a [`Figure`].
    pub x: Option<X>,
    /// Who.
    pub contender: String,
    /// What was found.
    pub inspected: Inspected,
}

impl Layout {
    /// What is wrong with it.
    pub(crate) fn problem(&self) -> Option<String> {
        let mut tables = self.inspected.tables.iter();
        tables.find_map(LayoutTable::problem)
    }

    /// Whether another layout is of the same contender at the same place.
    pub(crate) fn same_place(&self, other: &Self) -> bool {
        self.contender == other.contender
            && self.x == other.x
            && self.parameters == other.parameters
    }
}
