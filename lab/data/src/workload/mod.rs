//! Workloads as data: one TOML file each under `lab/data/workloads/`.
//!
//! A [`Workload`] says which keys there are, how many are loaded first, which operations follow
//! in which shares, and how the record of each is chosen. The files of the YCSB core workloads
//! and of the papers' mixes are part of the program ([`Workload::named`]); a user's own file
//! has the same form ([`Workload::parse`]). [`Plan`] turns a workload and a number of records
//! into counts, [`Operations`] into the operations themselves, per thread and always the same.

mod embedded;
mod file;
mod kind;
mod operations;
mod plan;

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::random::Random;
use crate::{Distribution, KeySet};

pub use kind::{Kind, Operation};
pub use operations::Operations;
pub use plan::Plan;

/// What a file under `lab/data/workloads/` says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Workload {
    /// The name, such as `ycsb/a`.
    pub name: String,
    /// What it is about, for people.
    pub title: String,
    /// Where it is defined: the work and its section.
    pub source: String,
    /// Where this file departs from the source, or decides what the source leaves open.
    pub note: Option<String>,
    /// The keys that the source uses, or the nearest made set.
    pub keys: KeySet,
    /// The numbers of records that the source measured.
    pub paper_records: Vec<u64>,
    /// The share of the records that are in the structure before the clock starts.
    pub loaded: f64,
    /// Whether these are loaded in ascending order; else in the order of the key set.
    pub load_sorted: bool,
    /// Whether the loading itself is what is timed.
    pub load_timed: bool,
    /// Operations before the clock starts, as a multiple of the records: inserts of new
    /// records and removes of old ones in turn.
    pub churn: f64,
    /// How many operations are timed.
    pub operations: Amount,
    /// Whether operations go to any key of the key space, present or not. Else reads, updates
    /// and scans go to records that have been inserted, inserts to new ones, and removes to
    /// each record at most once.
    pub anywhere: bool,
    /// The number of keys that operations may go to, as a multiple of the records, where they
    /// go anywhere.
    pub space: f64,
    /// The kinds of operations.
    pub mix: Mix,
    /// Whether the kinds follow in a fixed rotation instead of being drawn.
    pub alternating: bool,
    /// Which record an operation goes to.
    pub distribution: Distribution,
    /// How many pairs a scan returns.
    pub scan_length: ScanLength,
    /// What is stored under a key.
    pub value: Value,
}

/// How many operations a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// So many times the number of records.
    PerRecord(f64),
    /// So many, whatever the number of records.
    Exactly(u64),
}

/// The shares of the kinds of operations; together 1, or 0 where only the loading is timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mix {
    /// Lookups.
    pub read: f64,
    /// New values for records that are there.
    pub update: f64,
    /// New records.
    pub insert: f64,
    /// Removals.
    pub remove: f64,
    /// Ordered searches that return some pairs.
    pub scan: f64,
    /// Lookups, each followed by an update of the record.
    pub read_modify_write: f64,
    /// Lookups of a new record, each followed by its insertion.
    pub read_insert: f64,
    /// Insertions, in one operation, of records that may be there.
    pub insert_if_absent: f64,
}

impl Mix {
    /// Each kind with its share, in the order of [`Kind::ALL`].
    #[must_use]
    pub fn shares(&self) -> [(Kind, f64); 8] {
        let shares = [
            self.read,
            self.update,
            self.insert,
            self.remove,
            self.scan,
            self.read_modify_write,
            self.read_insert,
            self.insert_if_absent,
        ];
        std::array::from_fn(|kind| (Kind::ALL[kind], shares[kind]))
    }

    /// The share of operations that add a record.
    #[must_use]
    pub fn inserting(&self) -> f64 {
        self.insert + self.read_insert + self.insert_if_absent
    }
}

/// What is stored under a key and how much of it operations touch. Contenders that store one
/// 8-byte value take no notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Value {
    /// Columns of a record.
    pub columns: u32,
    /// The size of each in bytes.
    pub column_bytes: u32,
    /// Columns that a read returns.
    pub read: u32,
    /// Columns that an update replaces.
    pub update: u32,
    /// Columns that a scan returns of each record.
    pub scan: u32,
}

impl Default for Value {
    fn default() -> Self {
        Self {
            columns: 1,
            column_bytes: 8,
            read: 1,
            update: 1,
            scan: 1,
        }
    }
}

/// How many pairs a scan returns, written `uniform:1:100` or `fixed:1000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanLength {
    /// The fewest.
    pub least: u32,
    /// The most; each number between is as likely.
    pub most: u32,
}

impl ScanLength {
    /// Draws a length.
    pub fn draw(&self, random: &mut Random) -> u32 {
        self.least + random.below(u64::from(self.most - self.least) + 1) as u32
    }
}

impl fmt::Display for ScanLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (least, most) if least == most => write!(f, "fixed:{least}"),
            (least, most) => write!(f, "uniform:{least}:{most}"),
        }
    }
}

impl FromStr for ScanLength {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let parts: Vec<&str> = name.split(':').collect();
        let bounds = match parts[..] {
            ["fixed", length] => (length.parse(), length.parse()),
            ["uniform", least, most] => (least.parse(), most.parse()),
            _ => ("".parse::<u32>(), "".parse::<u32>()),
        };
        match bounds {
            (Ok(least), Ok(most)) if 0 < least && least <= most && most < u32::MAX => {
                Ok(Self { least, most })
            }
            _ => Err(format!(
                "'{name}' is no scan length; write fixed:100 or uniform:1:100"
            )),
        }
    }
}

/// Why a workload cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The name is none of those that are part of the program.
    #[error(
        "no workload is called '{name}'; there are {names}",
        names = Workload::names().join(", ")
    )]
    UnknownName {
        /// What was asked for.
        name: String,
    },
    /// The text is not TOML, or says things that a workload does not have.
    #[error("{file}: {message}")]
    Syntax {
        /// Which file.
        file: String,
        /// What and where, in the parser's words.
        message: String,
    },
    /// What the text says makes no sense together.
    #[error("{file}: {what}")]
    Invalid {
        /// Which file.
        file: String,
        /// What is wrong.
        what: String,
    },
}
