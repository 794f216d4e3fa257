//! What the clients of `scale/hbase` do: a load, then one phase for each workload of YCSB by one
//! client and one by all, each with the same lists of operations for every contender. Where one
//! client is all there are, both are the same phase.

use std::time::Duration;

use hedgerow_lab_data::workload::{Amount, Kind, Operation, Workload};
use hedgerow_lab_data::{KeySet, Keys};

use crate::{LabError, Result};

/// The workloads in the order that YCSB's documentation asks for: those that insert come last.
pub const WORKLOADS: [&str; 6] = ["a", "b", "c", "f", "d", "e"];

/// Operations of some clients at once, a list for each.
pub type Lists = Vec<Vec<Operation>>;

/// A workload, by so many clients.
pub struct Phase {
    /// The letter of the workload.
    pub workload: &'static str,
    /// Whether all clients do it; else one client alone does.
    pub by_all: bool,
    /// What each client does.
    pub lists: Lists,
}

/// All that a contender is asked.
pub struct Course {
    /// The keys of all records, those that are loaded first.
    pub keys: Keys,
    /// Inserts of the records that are there from the beginning.
    pub load: Lists,
    /// Reads of these records, to be done before anything is timed.
    pub warm_up: Lists,
    /// The workloads, each by one client and then by all; once where one client is all.
    pub phases: Vec<Phase>,
}

/// How fast something was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Played {
    /// Operations that were done.
    pub operations: usize,
    /// How long all clients together took.
    pub seconds: f64,
    /// The mean time of an operation in microseconds.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 95th percentile.
    pub p95_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

impl Played {
    /// What the times of single operations come to.
    pub fn of(mut times: Vec<Duration>, seconds: f64) -> Self {
        times.sort_unstable();
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let last = times.len().saturating_sub(1) as f64;
        let at = |share: f64| {
            times
                .get((last * share) as usize)
                .map_or(0.0, |time| us(*time))
        };
        Self {
            operations: times.len(),
            seconds,
            mean_us: us(times.iter().sum()) / times.len().max(1) as f64,
            p50_us: at(0.5),
            p95_us: at(0.95),
            p99_us: at(0.99),
        }
    }
}

impl Course {
    /// The course over so many records, for so many clients, with at most so many operations to a
    /// phase.
    ///
    /// # Errors
    ///
    /// Keys that cannot be made.
    pub fn new(records: usize, clients: usize, operations: usize) -> Result<Self> {
        let mut inserted = records;
        let mut phases = Vec::new();
        for (nth, workload) in WORKLOADS.iter().enumerate() {
            let by_one = (clients > 1).then(|| (false, 1, operations / clients));
            let by_all = (true, clients, operations);
            for (by_all, clients, operations) in by_one.into_iter().chain([by_all]) {
                let lists = lists(workload, records, clients, operations.max(1), nth as u64)?;
                let (lists, behind) = moved(lists, records, inserted);
                inserted = behind;
                phases.push(Phase {
                    workload,
                    by_all,
                    lists,
                });
            }
        }
        let load = |client| (client..records).step_by(clients).map(insert).collect();
        Ok(Self {
            keys: KeySet::Ycsb.keys(inserted)?,
            load: (0..clients).map(load).collect(),
            warm_up: lists("c", records, clients, operations, 99)?,
            phases,
        })
    }
}

fn insert(record: usize) -> Operation {
    Operation {
        kind: Kind::Insert,
        record: record as u64,
        scan_length: 0,
    }
}

/// The operations of a workload over loaded records.
fn lists(
    workload: &str,
    records: usize,
    clients: usize,
    operations: usize,
    seed: u64,
) -> Result<Lists> {
    let named = Workload::named(&format!("ycsb/{workload}"));
    let mut workload = named.map_err(LabError::from_display)?;
    workload.operations = Amount::Exactly(operations as u64);
    let plan = workload.plan(records as u64, clients as u64);
    let of = |client| workload.operations(&plan, client, seed).collect();
    Ok((0..clients as u64).map(of).collect())
}

/// The lists with records that they insert behind those that earlier phases inserted, and how many
/// records there are then.
fn moved(mut lists: Lists, loaded: usize, inserted: usize) -> (Lists, usize) {
    let mut behind = inserted;
    for operation in lists.iter_mut().flatten() {
        if operation.record >= loaded as u64 {
            operation.record += (inserted - loaded) as u64;
            behind = behind.max(operation.record as usize + 1);
        }
    }
    (lists, behind)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_record_is_inserted_once_and_read_by_its_client_afterwards() {
        let course = Course::new(500, 3, 2000).expect("a course");
        let mut there: BTreeSet<u64> = BTreeSet::new();
        for operation in course.load.iter().flatten() {
            assert!(there.insert(operation.record));
        }
        assert_eq!(there.len(), 500);
        assert_eq!(course.phases.len(), 2 * WORKLOADS.len());
        for phase in &course.phases {
            let before = there.clone();
            for list in &phase.lists {
                let mut known = before.clone();
                for operation in list {
                    match operation.kind.inserts() {
                        true => assert!(known.insert(operation.record), "{}", phase.workload),
                        false => assert!(known.contains(&operation.record), "{}", phase.workload),
                    }
                }
                for new in known.difference(&before) {
                    assert!(there.insert(*new), "{}: by one client", phase.workload);
                }
            }
        }
        assert!(there.len() > 500 && there.len() <= course.keys.len());
    }

    #[test]
    fn a_workload_has_a_phase_by_all_clients_and_one_by_one_of_several() {
        for clients in [1, 2] {
            let course = Course::new(100, clients, 50).expect("a course");
            for workload in WORKLOADS {
                let phases = course.phases.iter();
                let phases = phases.filter(|phase| phase.workload == workload);
                let lists: Vec<_> = phases
                    .map(|phase| (phase.by_all, phase.lists.len()))
                    .collect();
                match clients {
                    1 => assert_eq!(lists, [(true, 1)], "{workload}"),
                    _ => assert_eq!(lists, [(false, 1), (true, clients)], "{workload}"),
                }
            }
        }
    }

    #[test]
    fn percentiles_are_of_all_operations() {
        let times = (1..=100).rev().map(Duration::from_micros).collect();
        let played = Played::of(times, 2.0);
        assert_eq!((played.operations, played.seconds), (100, 2.0));
        assert_eq!((played.mean_us, played.p50_us), (50.5, 50.0));
        assert_eq!((played.p95_us, played.p99_us), (95.0, 99.0));
    }
}
