//! The legs of a round, planned: which keys there are before each, and which at the end.
//!
//! Two processes must agree on what is there without telling each other, so all of it follows
//! from the workload: each leg begins where the one before it ended.

use hedgerow_lab_data::random::mix64;
use hedgerow_lab_data::{KeySet, Keys, Kind, Operation, Plan, Workload};

use super::StoreWorkload;
use super::leg::Leg;
use crate::Result;

/// What the seeds of all legs' operations are derived from.
const SEED: u64 = 0xD0_0D;

/// A leg with its counts.
pub(super) struct Planned {
    pub(super) leg: Leg,
    pub(super) plan: Plan,
    workload: Workload,
    /// Of its operations: legs of the same distribution that shared one would visit the same
    /// records, and all but the first would find them in the cache.
    seed: u64,
}

impl Planned {
    /// The operations of one thread.
    pub(super) fn operations(&self, thread: usize) -> Vec<Operation> {
        let operations = self
            .workload
            .operations(&self.plan, thread as u64, self.seed);
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
        for (nth, leg) in (0..).zip(&workload.legs) {
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
                seed: mix64(SEED ^ nth),
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

    /// Else the records that the first leg faulted in would be all that the others ask for.
    #[test]
    fn legs_visit_records_of_their_own() {
        let mut workload = StoreWorkload::new("ycsb", 100_000, 16, Commits::Never);
        workload.operations = 300;
        workload.legs = ["ycsb/a", "ycsb/c", "ycsb/b", "ycsb/f"]
            .map(|name| Leg::Named(name.into()))
            .to_vec();
        workload.legs.extend([Leg::Get, Leg::Update]);
        let schedule = Schedule::new(&workload).expect("a schedule");
        let visited: Vec<Vec<u64>> = schedule
            .legs
            .iter()
            .map(|leg| leg.operations(0).iter().map(|one| one.record).collect())
            .collect();
        for (nth, records) in visited.iter().enumerate() {
            assert!(
                !visited[..nth].contains(records),
                "leg {nth} repeats another"
            );
        }
    }

    #[test]
    fn a_leg_of_an_unknown_file_is_refused() {
        let mut workload = StoreWorkload::new("ycsb", 10, 16, Commits::Never);
        workload.legs = vec![Leg::Named("ycsb/z".into())];
        assert!(Schedule::new(&workload).is_err());
    }
}
