//! The legs of a round, planned: which keys there are before each, and which at the end.
//!
//! Two processes must agree on what is there without telling each other, so all of it follows
//! from the workload: each leg begins where the one before it ended.

use hedgerow_lab_data::workload::{Amount, Mix, ScanLength};
use hedgerow_lab_data::{Distribution, KeySet, Keys, Kind, Operation, Plan, Workload};
use serde::{Deserialize, Serialize};

use super::StoreWorkload;
use crate::{LabError, Result};

/// The seed of operations.
const SEED: u64 = 0xD0_0D;

/// A workload that runs on the loaded records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leg {
    /// Lookups of records that are drawn uniformly.
    Get,
    /// Lookups by the Zipf distribution of the sources (α = 0.99).
    ZipfGet,
    /// Scans of 50 pairs from uniform records.
    Scan,
    /// New values for uniform records.
    Update,
    /// A workload file, such as `ycsb/a`.
    Named(String),
    /// Removals of half of the operations, inserts and lookups of a quarter each. The last leg.
    DeleteHeavy,
}

impl Leg {
    /// Its column.
    #[must_use]
    pub fn column(&self) -> &str {
        match self {
            Self::Get => "get",
            Self::ZipfGet => "get zipf",
            Self::Scan => "scan 50",
            Self::Update => "update",
            Self::Named(name) => name,
            Self::DeleteHeavy => "delete-heavy",
        }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Get | Self::ZipfGet | Self::Scan)
    }

    /// What it does.
    fn workload(&self, operations: u64) -> Result<Workload> {
        let failed = |error: hedgerow_lab_data::WorkloadError| LabError::Usage(error.to_string());
        let mut mix = Mix::default();
        let mut distribution = Distribution::Uniform;
        match self {
            Self::Get => mix.read = 1.0,
            Self::ZipfGet => {
                mix.read = 1.0;
                distribution = "zipf:0.99".parse().map_err(LabError::from_display)?;
            }
            Self::Scan => mix.scan = 1.0,
            Self::Update => mix.update = 1.0,
            Self::DeleteHeavy => (mix.remove, mix.insert, mix.read) = (0.5, 0.25, 0.25),
            Self::Named(name) => {
                let mut workload = Workload::named(name).map_err(failed)?;
                workload.operations = Amount::Exactly(operations);
                return Ok(workload);
            }
        }
        let length = ScanLength {
            least: 50,
            most: 50,
        };
        let mut workload = Workload::of_mix(self.column(), KeySet::Ycsb, mix, distribution, length)
            .map_err(failed)?;
        workload.operations = Amount::Exactly(operations);
        Ok(workload)
    }
}

/// A leg with its counts.
pub(super) struct Planned {
    pub(super) leg: Leg,
    pub(super) plan: Plan,
    workload: Workload,
}

impl Planned {
    /// The operations of one thread.
    pub(super) fn operations(&self, thread: usize) -> Vec<Operation> {
        let operations = self.workload.operations(&self.plan, thread as u64, SEED);
        operations.collect()
    }

    /// Whether a lookup may miss.
    pub(super) fn may_miss(&self) -> bool {
        self.workload.has(Kind::Remove)
    }
}

/// All legs, and how many keys they want.
pub(super) struct Schedule {
    pub(super) legs: Vec<Planned>,
    threads: usize,
    total: u64,
}

impl Schedule {
    pub(super) fn new(workload: &StoreWorkload) -> Result<Self> {
        let mut total = workload.records as u64;
        let mut legs = Vec::new();
        for leg in &workload.legs {
            let removals = match leg {
                // Each record is removed once.
                Leg::DeleteHeavy => workload.operations.min(total),
                _ => workload.operations,
            };
            let mix = leg.workload(removals)?;
            let plan = mix.plan(total, workload.threads as u64);
            // What a leg may insert and did not is inserted after it, so that the next one
            // finds every record before `total`.
            total = total.max(plan.keys);
            legs.push(Planned {
                leg: leg.clone(),
                plan,
                workload: mix,
            });
        }
        Ok(Self {
            legs,
            threads: workload.threads,
            total,
        })
    }

    /// The keys of all legs, in the order of their insertion.
    pub(super) fn keys(&self, set: &str) -> Result<Keys> {
        let set: KeySet = set.parse()?;
        Ok(set.keys(self.total as usize)?)
    }

    /// Whether each key is there when all is done.
    pub(super) fn there(&self) -> Vec<bool> {
        let mut there = vec![true; self.total as usize];
        for planned in self.legs.iter().filter(|planned| planned.may_miss()) {
            for thread in 0..self.threads {
                let operations = planned.operations(thread).into_iter();
                for operation in operations.filter(|operation| operation.kind == Kind::Remove) {
                    there[operation.record as usize] = false;
                }
            }
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::super::Commits;
    use super::*;

    #[test]
    fn legs_follow_one_another_and_removals_are_known() {
        let mut workload = StoreWorkload::new("ycsb", 1000, 16, Commits::Never);
        workload.threads = 3;
        workload.operations = 600;
        workload.legs = vec![
            Leg::Named("ycsb/d".into()),
            Leg::Named("ycsb/e".into()),
            Leg::DeleteHeavy,
        ];
        let schedule = Schedule::new(&workload).expect("a schedule");
        let known: Vec<u64> = schedule.legs.iter().map(|leg| leg.plan.known).collect();
        assert_eq!(known[0], 1000);
        assert_eq!(known[1], schedule.legs[0].plan.keys);
        assert!(known[1] > known[0] && known[2] > known[1]);
        let gone = schedule.there().iter().filter(|there| !**there).count();
        assert!((200..400).contains(&gone), "{gone}");
        assert_eq!(
            schedule.keys("ycsb").expect("keys").len(),
            schedule.there().len()
        );
    }

    #[test]
    fn a_leg_of_an_unknown_file_is_refused() {
        let mut workload = StoreWorkload::new("ycsb", 10, 16, Commits::Never);
        workload.legs = vec![Leg::Named("ycsb/z".into())];
        assert!(Schedule::new(&workload).is_err());
    }
}
