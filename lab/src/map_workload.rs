//! One round of an in-memory map: phases of operations on a fresh map, timed and checked.
//!
//! The order of events is the same for everyone: keys are made; a throwaway map of the same
//! kind runs all phases on a few keys (code is paged in, the allocator has started, the
//! processor has seen the branches); then the map that is measured is filled and goes through
//! the phases. Every tally is compared with what the keys say it must be, so no answer can be
//! wrong, skipped or optimised away.
//!
//! Time is by the clock, less what the scheduler kept a thread waiting for a core: on a shared
//! machine that wait says nothing about a map, while a thread asleep in a lock is the map's
//! own doing and counts. With several threads the slowest one's time counts.

use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;
use hedgerow_lab_contender::{Map, MapEntry, Tally, value_of};
use hedgerow_lab_data::random::Permutation;
use hedgerow_lab_data::{KeyRange, KeySet, Keys};
use hedgerow_lab_report::Better;
use serde::{Deserialize, Serialize};

use crate::experiment::{Answer, Need};
use crate::machine::{pin_this_thread, resident_bytes};
use crate::pace;
use crate::subject::Subject;
use crate::{LabError, Result};

/// Pairs per scan.
pub const SCAN_PAIRS: usize = 50;

/// Lookups in a group where maps overlap them.
const GROUP: usize = 64;

/// Keys of the throwaway map.
const WARM_UP_KEYS: usize = 10_000;

/// The seed of the order in which records are used after they were inserted in another.
const ORDER_SEED: u64 = 0x0A11;

/// An operation, all of whose keys make up a timed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// All keys into the empty map.
    Insert,
    /// Lookups that do not wait for one another.
    Get,
    /// Lookups of which each waits for the last.
    DependentGet,
    /// Lookups in groups of 64, where the map offers that.
    GetMany,
    /// Lookups one by one, each timed: percentiles.
    Latency,
    /// New values under present keys.
    Update,
    /// Lookups and puts under present keys, by turns.
    Mixed,
    /// Scans of 50 pairs, a tenth as many.
    Scan,
    /// Removal of the sample.
    Remove,
}

impl Phase {
    /// Its column.
    #[must_use]
    pub fn column(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Get => "get",
            Self::DependentGet => "dependent get",
            Self::GetMany => "get_many(64)",
            Self::Latency => "get latency",
            Self::Update => "update",
            Self::Mixed => "get+update",
            Self::Scan => "scan 50",
            Self::Remove => "remove",
        }
    }

    /// All phases in the order in which a map goes through them.
    pub const ALL: [Self; 9] = [
        Self::Insert,
        Self::Get,
        Self::DependentGet,
        Self::GetMany,
        Self::Latency,
        Self::Update,
        Self::Mixed,
        Self::Scan,
        Self::Remove,
    ];
}

/// What a map is put through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapWorkload {
    /// The key set's name.
    pub set: String,
    /// Keys in the map.
    pub keys: usize,
    /// Operations of each phase but the insertion, at most as many as keys.
    pub operations: usize,
    /// Threads that share each phase.
    pub threads: usize,
    /// The phases that are timed. Keys are inserted and the sample looked up in any case.
    pub phases: Vec<Phase>,
}

impl MapWorkload {
    /// The phases that can be simulated: all but the one that reads the clock.
    pub fn countable_phases(&self) -> impl Iterator<Item = Phase> {
        let phases = self.phases.iter().copied();
        phases.filter(|phase| *phase != Phase::Latency)
    }

    /// What a round needs: the keys twice (in both orders), and a generous map.
    #[must_use]
    pub fn need(&self) -> Need {
        let set: Option<KeySet> = self.set.parse().ok();
        let key_bytes = match set {
            Some(KeySet::PrefixedDecimal(prefix)) => u64::from(prefix) + 8,
            Some(KeySet::Path | KeySet::File(_)) => 60,
            Some(KeySet::Email | KeySet::Ycsb) => 26,
            _ => 10,
        };
        let (keys, operations) = (self.keys as u64, self.operations as u64);
        let lists = (keys + operations) * (key_bytes + 8);
        let timed = self.phases.iter().map(|phase| match phase {
            Phase::Insert => keys as f64,
            // A tenth as many, of 50 pairs.
            Phase::Scan => operations as f64 * 1.0,
            // The new values are looked up afterwards.
            Phase::Update => operations as f64 * 2.0,
            _ => operations as f64,
        });
        // An insertion is there in any case, and the map is taken apart.
        let steps = timed.sum::<f64>().max(keys as f64) + keys as f64 * 0.3;
        Need {
            memory_bytes: lists + keys * (key_bytes + 220) + (32 << 20),
            disk_bytes: 0,
            shared_seconds: pace::PROCESS_SECONDS
                + (keys + operations) as f64 * pace::key_seconds(key_bytes),
            own_seconds: pace::WARM_UP_SECONDS
                + steps * pace::step_seconds(keys, key_bytes) / self.threads.max(1) as f64,
            verify_seconds: pace::VERIFY_SECONDS,
        }
    }
}

/// The keys of a round.
pub struct Prepared {
    /// In the order of insertion.
    pub keys: Keys,
    /// Some of them, in an unrelated order.
    pub sample: Keys,
}

impl Prepared {
    /// Makes the keys of a workload.
    ///
    /// # Errors
    ///
    /// When there is no such key set, or it is too small.
    pub fn new(workload: &MapWorkload) -> Result<Self> {
        let set: KeySet = workload.set.parse()?;
        let keys = set.keys(workload.keys)?;
        let sample = match keys.len() {
            0 => Keys::new(),
            count => {
                let order = Permutation::new(count as u64, ORDER_SEED);
                let operations = workload.operations.min(count) as u64;
                keys.select((0..operations).map(|index| order.at(index) as usize))
            }
        };
        Ok(Self { keys, sample })
    }
}

/// One round of `entry`.
///
/// # Errors
///
/// A contender that cannot be had, has too few threads, or tallies wrongly.
pub fn measure(entry: &MapEntry, workload: &MapWorkload) -> Result<Answer> {
    let prepared = Prepared::new(workload)?;
    pin_this_thread(0);
    let few = Prepared {
        keys: prepared
            .keys
            .select(0..prepared.keys.len().min(WARM_UP_KEYS)),
        sample: prepared
            .keys
            .select(0..prepared.keys.len().min(WARM_UP_KEYS)),
    };
    let ordered = entry.entry.promises.ordered;
    let fresh = || Subject::new(entry, workload.threads);
    Round::new(fresh()?, &few, ordered).run(&Phase::ALL)?;
    Round::new(fresh()?, &prepared, ordered).run(&workload.phases)
}

/// Keys of a slice that a simulator runs (some fifty times slower than the processor), and
/// operations on them.
const SLICE_KEYS: usize = 100_000;
const SLICE_OPERATIONS: usize = 20_000;

/// The operations of a simulated slice of this phase.
#[must_use]
pub fn slice_operations(workload: &MapWorkload, phase: Phase) -> u64 {
    let all = SLICE_OPERATIONS.min(workload.keys / 2) as u64;
    match phase {
        Phase::Scan => all.div_ceil(10),
        _ => all,
    }
}

/// Prepares a bounded map and runs a slice of `phase` on it, or leaves the slice out: the
/// difference between the two is what the slice takes. For simulators; nothing is timed.
///
/// # Errors
///
/// A contender that cannot be had, or tallies wrongly.
pub fn slice(entry: &MapEntry, workload: &MapWorkload, phase: Option<Phase>) -> Result<Answer> {
    slice_checked(entry, workload, phase, |round, count| round.expected(count))
}

/// [`slice`], which compares lookups with what `expected` adds up for so many keys of the sample.
fn slice_checked(
    entry: &MapEntry,
    workload: &MapWorkload,
    phase: Option<Phase>,
    expected: impl Fn(&Round<'_>, usize) -> Tally,
) -> Result<Answer> {
    let count = workload.keys.min(SLICE_KEYS);
    let operations = SLICE_OPERATIONS.min(workload.keys / 2);
    let bounded = MapWorkload {
        keys: count,
        operations: count,
        ..workload.clone()
    };
    let all = Prepared::new(&bounded)?;
    // The slice of the insertion is the last keys; all else works on the first.
    let late = all.keys.select(count - operations..count);
    let early = Prepared {
        keys: all.keys.select(0..count - operations),
        sample: all
            .keys
            .select((0..operations).map(|nth| nth * 7919 % (count - operations))),
    };
    let subject = Subject::new(entry, 1)?;
    let mut round = Round::new(subject, &early, entry.entry.promises.ordered);
    round.insert(false);
    let map = round.subject.map();
    let sample = early.sample.all();
    // Both processes add this up, so that the difference between them is without it.
    let right = black_box(expected(&round, operations));
    match phase {
        None => {}
        Some(Phase::Insert) => map.put_run(late.all(), 0),
        Some(Phase::Update) => map.put_run(sample, 1),
        Some(Phase::Mixed) => drop(black_box(get_and_put_run(map, sample, 0, 0))),
        Some(Phase::Remove) => drop(map.remove_run(sample)),
        Some(Phase::Scan) => {
            let starts = early.sample.range(0..operations.div_ceil(10));
            black_box(map.scan_run(starts, SCAN_PAIRS));
        }
        Some(Phase::GetMany) => drop(black_box(map.get_many_run(sample, GROUP))),
        Some(Phase::Get | Phase::Latency) => {
            let seen = map.get_run(sample);
            round.check("get", seen, right)?;
        }
        Some(Phase::DependentGet) => {
            let seen = map.dependent_run(sample);
            round.check("dependent get", seen, right)?;
        }
    }
    Ok(Answer::default())
}

/// Looks up keys of even numbers and puts the values of the others, with `added` in them. The first
/// key has the number `first`. Tallies the lookups.
fn get_and_put_run(map: &dyn Map, keys: KeyRange<'_>, first: usize, added: u64) -> Tally {
    let mut tally = Tally::default();
    for (number, key) in (first..).zip(keys.iter()) {
        if number % 2 == 0 {
            tally.count(map.get(key));
        } else {
            map.put(key, value_of(key).wrapping_add(added));
        }
    }
    tally
}

/// A map on its way through the phases.
struct Round<'a> {
    before_bytes: u64,
    subject: Subject,
    prepared: &'a Prepared,
    ordered: bool,
    /// What was added to the values of the sample.
    added: u64,
    answer: Answer,
}

impl<'a> Round<'a> {
    fn new(subject: Subject, prepared: &'a Prepared, ordered: bool) -> Self {
        Self {
            before_bytes: resident_bytes(None),
            subject,
            prepared,
            ordered,
            added: 0,
            answer: Answer::default(),
        }
    }

    fn run(mut self, phases: &[Phase]) -> Result<Answer> {
        self.insert(phases.contains(&Phase::Insert));
        // The processor sees the lookups once before any of them is timed.
        let few = self.sample().len().div_ceil(16);
        let seen = self
            .subject
            .map()
            .get_run(self.prepared.sample.range(0..few));
        self.check("get", seen, self.expected(few))?;
        for phase in phases {
            match phase {
                Phase::Insert => {}
                Phase::Get => self.lookups(*phase, |map, keys| map.get_run(keys))?,
                Phase::DependentGet => self.lookups(*phase, |map, keys| map.dependent_run(keys))?,
                Phase::GetMany => self.groups()?,
                Phase::Latency => self.latency()?,
                Phase::Update => self.update()?,
                Phase::Mixed => self.mixed()?,
                Phase::Scan if self.ordered => self.scan()?,
                Phase::Scan => {}
                Phase::Remove => self.remove()?,
            }
        }
        Ok(self.answer)
    }

    fn sample(&self) -> KeyRange<'a> {
        self.prepared.sample.all()
    }

    /// The right tally of the first `count` keys of the sample.
    fn expected(&self, count: usize) -> Tally {
        let mut tally = Tally::default();
        for key in self.prepared.sample.range(0..count).iter() {
            tally.count(Some(value_of(key).wrapping_add(self.added)));
        }
        tally
    }

    fn check(&self, what: &str, seen: Tally, right: Tally) -> Result<()> {
        if seen == right {
            return Ok(());
        }
        Err(LabError::WrongAnswer(format!(
            "{what} in a timed run: {seen:?}, not {right:?}"
        )))
    }

    fn insert(&mut self, report: bool) {
        let keys = &self.prepared.keys;
        let (seconds, _) = self.subject.drive(keys.len(), &|map, range| {
            map.put_run(keys.range(range), 0);
            Tally::default()
        });
        let grown_bytes = resident_bytes(None).saturating_sub(self.before_bytes);
        if report {
            let count = keys.len();
            self.answer
                .push_mops(Phase::Insert.column(), count, seconds);
            let each = grown_bytes as f64 / count.max(1) as f64;
            self.answer.push("memory", "bytes/key", Better::Lower, each);
        }
    }

    fn lookups(
        &mut self,
        phase: Phase,
        run: impl Fn(&dyn Map, KeyRange<'_>) -> Tally + Sync,
    ) -> Result<()> {
        let sample = &self.prepared.sample;
        let (seconds, seen) = self
            .subject
            .drive(sample.len(), &|map, range| run(map, sample.range(range)));
        self.check(phase.column(), seen, self.expected(sample.len()))?;
        self.answer.push_mops(phase.column(), sample.len(), seconds);
        Ok(())
    }

    fn groups(&mut self) -> Result<()> {
        let none = self.prepared.sample.range(0..0);
        if self.subject.map().get_many_run(none, GROUP).is_none() {
            return Ok(());
        }
        self.lookups(Phase::GetMany, |map, keys| {
            map.get_many_run(keys, GROUP).unwrap_or_default()
        })
    }

    /// Every lookup timed by itself, on one thread. Reading the clock costs some 20 ns each;
    /// the row of the empty contender shows how much here.
    fn latency(&mut self) -> Result<()> {
        let mut histogram: Histogram<u64> = Histogram::new(3).map_err(LabError::from_display)?;
        let mut seen = Tally::default();
        let map = self.subject.map();
        let sample = self.sample();
        for key in sample.iter() {
            let start = Instant::now();
            let value = map.get(key);
            let ns = start.elapsed().as_nanos() as u64;
            seen.count(value);
            histogram
                .record(ns.max(1))
                .map_err(LabError::from_display)?;
        }
        self.check("single gets", seen, self.expected(sample.len()))?;
        push_percentiles(&mut self.answer, "get", "ns", &histogram, 1.0);
        Ok(())
    }

    fn update(&mut self) -> Result<()> {
        let sample = &self.prepared.sample;
        self.added += 1;
        let added = self.added;
        let (seconds, _) = self.subject.drive(sample.len(), &|map, range| {
            map.put_run(sample.range(range), added);
            Tally::default()
        });
        let seen = self.subject.map().get_run(sample.all());
        self.check("get after update", seen, self.expected(sample.len()))?;
        self.answer
            .push_mops(Phase::Update.column(), sample.len(), seconds);
        Ok(())
    }

    /// The puts are of the values that the keys have, so that lookups find those in any case.
    fn mixed(&mut self) -> Result<()> {
        let sample = &self.prepared.sample;
        let added = self.added;
        let (seconds, seen) = self.subject.drive(sample.len(), &|map, range| {
            get_and_put_run(map, sample.range(range.clone()), range.start, added)
        });
        let mut right = Tally::default();
        for key in sample.all().iter().step_by(2) {
            right.count(Some(value_of(key).wrapping_add(added)));
        }
        self.check("get+update", seen, right)?;
        let seen = self.subject.map().get_run(sample.all());
        self.check("get after get+update", seen, self.expected(sample.len()))?;
        self.answer
            .push_mops(Phase::Mixed.column(), sample.len(), seconds);
        Ok(())
    }

    fn scan(&mut self) -> Result<()> {
        let starts = self.sample().len().div_ceil(10);
        let sample = &self.prepared.sample;
        let (seconds, seen) = self.subject.drive(starts, &|map, range| {
            map.scan_run(sample.range(range), SCAN_PAIRS)
        });
        // Scans near the end are shorter; which ones are is not worth a model here, as the
        // script before the timing compared scans pair by pair.
        let least = (starts * SCAN_PAIRS) as u64 * 9 / 10;
        if self.prepared.keys.len() > 1000 && seen.hits < least {
            return Err(LabError::WrongAnswer(format!(
                "{starts} scans of {SCAN_PAIRS} saw only {} pairs",
                seen.hits
            )));
        }
        self.answer.push_mops(Phase::Scan.column(), starts, seconds);
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let sample = &self.prepared.sample;
        let (seconds, seen) = self.subject.drive(sample.len(), &|map, range| Tally {
            hits: map.remove_run(sample.range(range)),
            sum: 0,
        });
        let right = Tally {
            hits: sample.len() as u64,
            sum: 0,
        };
        self.check("remove", seen, right)?;
        self.answer
            .push_mops(Phase::Remove.column(), sample.len(), seconds);
        Ok(())
    }
}

/// Adds the percentiles of a histogram, each divided by `unit_size`.
pub fn push_percentiles(
    answer: &mut Answer,
    what: &str,
    unit: &str,
    histogram: &Histogram<u64>,
    unit_size: f64,
) {
    for (name, quantile) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)] {
        let figure = histogram.value_at_quantile(quantile) as f64 / unit_size;
        answer.push(&format!("{what} {name}"), unit, Better::Lower, figure);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::registry::Registry;

    /// What only one of the two processes did would count as the slice's.
    #[test]
    fn every_slice_and_the_run_without_one_add_up_what_lookups_must_find() {
        let workload = MapWorkload {
            set: "decimal".into(),
            keys: 2000,
            operations: 500,
            threads: 1,
            phases: Phase::ALL.to_vec(),
        };
        let registry = Registry::new();
        let map = registry.map("std BTreeMap").expect("it is in every build");
        for phase in Phase::ALL.into_iter().map(Some).chain([None]) {
            let calls = Cell::new(0);
            let answer = slice_checked(map, &workload, phase, |round, count| {
                calls.set(calls.get() + 1);
                round.expected(count)
            });
            answer.expect("a right map");
            assert_eq!(calls.get(), 1, "{phase:?}");
        }
    }

    #[test]
    fn a_small_round_is_right_for_every_map_and_has_every_column() {
        let workload = MapWorkload {
            set: "decimal".into(),
            keys: 20_000,
            operations: 5000,
            threads: 1,
            phases: Phase::ALL.to_vec(),
        };
        let registry = Registry::new();
        let keys = Prepared::new(&workload).expect("keys").keys;
        for map in &registry.maps {
            let limits = registry.limits(map.entry.name);
            if map.build.is_err() || limits.scan_refusal(&keys).is_some() {
                continue;
            }
            let answer = measure(map, &workload).expect(map.entry.name);
            let has = |column: &str| answer.figures.iter().any(|f| f.column == column);
            for column in [
                "insert",
                "memory",
                "get",
                "dependent get",
                "get p99.9",
                "remove",
            ] {
                assert!(has(column), "{} lacks {column}", map.entry.name);
            }
            assert!(answer.figures.iter().all(|f| f.figure.is_finite()));
            if map.entry.promises.concurrent {
                let threads = MapWorkload {
                    threads: 2,
                    ..workload.clone()
                };
                measure(map, &threads).expect(map.entry.name);
            }
        }
    }
}
