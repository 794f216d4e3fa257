//! One round of mixed operations on an in-memory map, as a workload file says.
//!
//! Load, churn, then the timed operations of each thread, all made before the map: the clock
//! sees one call for each thread, in which the contender's own loop takes one step after the
//! other ([`Map::mixed_run`]).
//!
//! A model says beforehand what one thread's answers must add up to, exactly. Where several
//! threads write, answers depend on who comes first; then each must lie between what no
//! interleaving can go below and above, and afterwards every key is looked up: nobody touched it
//! and it is as it was, or somebody wrote or removed it, and it is as one of them left it.

use std::ops::Range;

use hedgerow_lab_contender::{Map, MapEntry, Promises, STEP_ADD, Step, Steps, Tally, value_of};
use hedgerow_lab_data::workload::Amount;
use hedgerow_lab_data::{Distribution, Keys, Kind, Operation, Plan, Workload};
use hedgerow_lab_report::Cause;
use serde::{Deserialize, Serialize};

use crate::counters;
use crate::experiment::{Answer, Need};
use crate::machine::{pin_this_thread, timed};
use crate::mixed_model::Model;
use crate::pace;
use crate::subject::Subject;
use crate::{LabError, Result};
use hedgerow_lab_own::Empty;

/// The seed of all operations: every contender gets the same ones in every round.
const SEED: u64 = 0x0B5E;

/// Records of the throwaway map, and operations on it.
const WARM_UP_RECORDS: u64 = 10_000;

/// Records of a slice that a simulator runs, and operations on them.
const SLICE_RECORDS: u64 = 100_000;
const SLICE_OPERATIONS: u64 = 20_000;

/// The column of the timed operations.
pub const COLUMN: &str = "operations";

/// The same where searches for the next key were lookups of the key itself, which is easier.
pub const POINT_COLUMN: &str = "operations, point lookups";

/// A workload file and what an experiment makes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MixedWorkload {
    /// The workload's name, such as `matryoshka/mixed`.
    pub workload: String,
    /// The key set, instead of the file's.
    pub set: Option<String>,
    /// Which record an operation goes to, instead of the file's: `zipf:0.99`.
    pub distribution: Option<String>,
    /// Records.
    pub records: u64,
    /// The most operations that are timed, whatever the file says.
    pub most_operations: Option<u64>,
    /// Threads that share the operations.
    pub threads: usize,
    /// Whether all pairs are scanned once, in order, before the clock starts: whoever sorts lazily
    /// has sorted then.
    #[serde(default)]
    pub scanned: bool,
}

impl MixedWorkload {
    /// A workload as its file has it, on one thread.
    #[must_use]
    pub fn new(workload: &str, records: usize) -> Self {
        Self {
            workload: workload.to_owned(),
            set: None,
            distribution: None,
            records: records as u64,
            most_operations: None,
            threads: 1,
            scanned: false,
        }
    }

    /// The file, with what the experiment says otherwise.
    ///
    /// # Errors
    ///
    /// A name that stands for nothing.
    pub fn resolve(&self) -> Result<Workload> {
        let mut workload = Workload::named(&self.workload).map_err(usage)?;
        if let Some(set) = &self.set {
            workload.keys = set.parse()?;
        }
        if let Some(distribution) = &self.distribution {
            workload.distribution = distribution.parse::<Distribution>().map_err(usage)?;
        }
        if let Some(most) = self.most_operations {
            let plan = workload.plan(self.records, self.threads as u64);
            if plan.operations > most {
                workload.operations = Amount::Exactly(most);
            }
        }
        Ok(workload)
    }

    /// The keys in the map and those that may come.
    ///
    /// # Errors
    ///
    /// As [`MixedWorkload::resolve`], or a set that is too small.
    pub fn keys(&self) -> Result<Keys> {
        let workload = self.resolve()?;
        let plan = workload.plan(self.records, self.threads as u64);
        Ok(workload.keys.keys(plan.keys as usize)?)
    }

    /// What a round needs: keys in the order of use beside all keys, and a generous map.
    #[must_use]
    pub fn need(&self) -> Need {
        let Ok(workload) = self.resolve() else {
            return Need::default();
        };
        let plan = workload.plan(self.records, self.threads as u64);
        let key_bytes = workload.keys.integer_bytes().unwrap_or(40) as u64;
        let steps = plan.churn + plan.operations;
        let scans = plan.operations as f64 * workload.mix.scan;
        let length = f64::from(workload.scan_length.least + workload.scan_length.most) / 2.0;
        Need {
            memory_bytes: (plan.keys + plan.loaded + steps) * (key_bytes + 20)
                + plan.keys * (key_bytes + 220)
                + (32 << 20),
            disk_bytes: 0,
            // Steps are drawn, their keys copied, and a model takes them, too.
            shared_seconds: pace::PROCESS_SECONDS
                + (plan.keys + plan.loaded + 4 * steps) as f64 * pace::key_seconds(key_bytes),
            own_seconds: pace::WARM_UP_SECONDS
                + ((plan.loaded + steps + plan.keys) as f64
                    * pace::step_seconds(plan.keys, key_bytes)
                    + scans * length * pace::PAIR_SECONDS)
                    / self.threads.max(1) as f64,
            verify_seconds: 2.0 * pace::VERIFY_SECONDS,
        }
    }

    fn bounded(&self, records: u64, operations: u64) -> Self {
        Self {
            records: self.records.min(records),
            most_operations: Some(self.most_operations.unwrap_or(u64::MAX).min(operations)),
            ..self.clone()
        }
    }

    /// The same at the size of a script that is verified.
    #[must_use]
    pub fn script(&self) -> Self {
        self.bounded(2 * WARM_UP_RECORDS, 10 * WARM_UP_RECORDS)
    }

    /// Operations of a simulated slice.
    ///
    /// # Errors
    ///
    /// As [`MixedWorkload::resolve`].
    pub fn slice_operations(&self) -> Result<u64> {
        let slice = self.bounded(SLICE_RECORDS, SLICE_OPERATIONS);
        let workload = slice.resolve()?;
        let plan = workload.plan(slice.records, 1);
        Ok(match workload.load_timed {
            true => plan.loaded,
            false => plan.operations,
        })
    }
}

fn usage(error: impl std::fmt::Display) -> LabError {
    LabError::Usage(error.to_string())
}

/// Steps with their keys in the order of use.
#[derive(Default)]
struct StepList {
    keys: Keys,
    steps: Vec<Step>,
    records: Vec<u32>,
}

impl StepList {
    fn new(all: &Keys, operations: impl Iterator<Item = Operation>, ordered: bool) -> Self {
        let mut list = Self::default();
        for operation in operations {
            let step = match operation.kind {
                // Whoever has no order looks up the key itself.
                Kind::Scan if !ordered => Step::new(Kind::Read, 0),
                kind => Step::new(kind, operation.scan_length),
            };
            list.steps.push(step);
            list.records.push(operation.record as u32);
            list.keys.push(all.get(operation.record as usize));
        }
        list
    }

    fn as_steps(&self) -> Steps<'_> {
        Steps::new(&self.keys, &self.steps)
    }

    fn iter(&self) -> impl Iterator<Item = (usize, Step)> {
        let records = self.records.iter().map(|record| *record as usize);
        records.zip(self.steps.iter().copied())
    }
}

/// All keys and steps of a round.
struct Course {
    workload: Workload,
    all: Keys,
    plan: Plan,
    /// What is loaded, in that order.
    load: Keys,
    churn: StepList,
    /// The timed steps of each thread.
    timed: Vec<StepList>,
    keys_only: bool,
}

impl Course {
    /// For a map that promises this.
    fn new(mixed: &MixedWorkload, promises: &Promises) -> Result<Self> {
        let ordered = promises.ordered;
        let workload = mixed.resolve()?;
        let threads = mixed.threads.max(1) as u64;
        let plan = workload.plan(mixed.records, threads);
        let all = workload.keys.keys(plan.keys as usize)?;
        let mut load = all.select(0..plan.loaded as usize);
        if workload.load_sorted && !load.iter().is_sorted() {
            load = load.sorted();
        }
        let timed = (0..threads).map(|thread| {
            let operations = workload.operations(&plan, thread, SEED);
            StepList::new(&all, operations, ordered)
        });
        Ok(Self {
            timed: timed.collect(),
            churn: StepList::new(&all, workload.churn(&plan, SEED), ordered),
            load,
            keys_only: promises.keys_only,
            plan,
            all,
            workload,
        })
    }

    /// The model after the load and the churn.
    fn model(&self) -> Model<'_> {
        let lists = self.timed.iter().chain([&self.churn]);
        let mut steps = lists.flat_map(|list| &list.steps);
        let scans = steps.any(|step| step.kind() == Kind::Scan);
        let mut model = Model::new(&self.all, scans).of_keys_only(self.keys_only);
        (0..self.plan.loaded as usize).for_each(|record| model.load(record));
        for (record, step) in self.churn.iter() {
            model.take(record, step);
        }
        model
    }
}

/// What the timed steps must come to.
enum Expected {
    /// Exactly this, whatever the interleaving; and this content afterwards.
    Exactly { steps: Tally, content: Tally },
    /// Hits within bounds, and what each record may be like afterwards.
    Between {
        least: u64,
        most: u64,
        after: Vec<Outcome>,
    },
}

/// What may have become of a record that several threads worked on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Outcome {
    absent: bool,
    /// With the value that it had.
    old: Option<u64>,
    /// With the value that steps write.
    new: bool,
}

impl Outcome {
    fn allows(self, key: &[u8], value: Option<u64>) -> bool {
        match value {
            None => self.absent,
            value if value == self.old => true,
            Some(value) => self.new && value == value_of(key).wrapping_add(STEP_ADD),
        }
    }
}

impl Expected {
    fn of(course: &Course) -> Self {
        let mut model = course.model();
        let mut kinds = course.timed.iter().flat_map(|list| &list.steps);
        let only_looks = kinds.all(|step| matches!(step.kind(), Kind::Read | Kind::Scan));
        if course.timed.len() == 1 || only_looks {
            let mut steps = Tally::default();
            for (record, step) in course.timed.iter().flat_map(StepList::iter) {
                steps = steps.and(model.take(record, step));
            }
            let content = model.content();
            return Self::Exactly { steps, content };
        }
        Self::between(course, &model)
    }

    fn between(course: &Course, model: &Model<'_>) -> Self {
        let count = course.all.len();
        let (mut written, mut removed) = (vec![false; count], vec![false; count]);
        let steps = || course.timed.iter().flat_map(StepList::iter);
        for (record, step) in steps() {
            match step.kind() {
                Kind::Read | Kind::Scan => {}
                Kind::Remove => removed[record] = true,
                _ => written[record] = true,
            }
        }
        let (mut least, mut most) = (0, 0);
        for (record, step) in steps() {
            let there = model.get(record).is_some();
            match step.kind() {
                Kind::Insert | Kind::Update => {}
                Kind::Scan => most += u64::from(step.scan_length()),
                Kind::Remove => most += u64::from(there || written[record]),
                _ => {
                    least += u64::from(there && !removed[record]);
                    most += u64::from(there || written[record]);
                }
            }
        }
        // Insertions of what is absent leave what they find.
        let keeps = !course.workload.has(Kind::Insert)
            && !course.workload.has(Kind::Update)
            && !course.workload.has(Kind::ReadModifyWrite);
        let after = (0..count).map(|record| {
            let old = model.get(record);
            let (written, removed) = (written[record], removed[record]);
            Outcome {
                absent: removed || (old.is_none() && !written),
                old: old.filter(|_| !removed && (!written || keeps)),
                new: written,
            }
        });
        Self::Between {
            least,
            most,
            after: after.collect(),
        }
    }

    fn check(&self, course: &Course, subject: &Subject, seen: Tally) -> Result<()> {
        let wrong = |what: String| Err(LabError::WrongAnswer(format!("mixed operations: {what}")));
        match self {
            Self::Exactly { steps, content } => {
                if seen != *steps {
                    return wrong(format!("{seen:?}, not {steps:?}"));
                }
                let left = subject.map().get_run(course.all.all());
                if left != *content {
                    return wrong(format!("left {left:?}, not {content:?}"));
                }
            }
            Self::Between { least, most, after } => {
                if !(*least..=*most).contains(&seen.hits) {
                    return wrong(format!("{} hits, not {least} to {most}", seen.hits));
                }
                for (key, outcome) in course.all.iter().zip(after) {
                    let value = subject.map().get(key);
                    if !outcome.allows(key, value) {
                        let key = key.escape_ascii();
                        return wrong(format!("left \"{key}\" with {value:?}, not {outcome:?}"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether this contender can take the workload's scans as they are, or as lookups: none where
/// it cannot at all.
fn column(entry: &MapEntry, workload: &Workload) -> Option<&'static str> {
    if entry.entry.promises.ordered || !workload.has(Kind::Scan) {
        return Some(COLUMN);
    }
    (workload.scan_length.most == 1).then_some(POINT_COLUMN)
}

/// Loads, churns, times and checks; the seconds of the timed part and its operations.
fn run(entry: &MapEntry, mixed: &MixedWorkload) -> Result<(f64, usize)> {
    let course = Course::new(mixed, &entry.entry.promises)?;
    let expected = (entry.entry.name != Empty::NAME).then(|| Expected::of(&course));
    let subject = Subject::new(entry, mixed.threads)?;
    let (load_seconds, _) = load(&course, &subject);
    // The processor sees lookups once before anything is timed.
    let few = course.load.len().div_ceil(16);
    let found = subject.map().get_run(course.load.range(0..few)).hits;
    if found != few as u64 {
        return Err(LabError::WrongAnswer(format!(
            "{found} of {few} loaded keys are found"
        )));
    }
    subject.map().mixed_run(&course.churn.as_steps());
    if mixed.scanned {
        scan_all(&course, &subject)?;
    }
    let lists: Vec<_> = course.timed.iter().map(StepList::as_steps).collect();
    let body = |map: &dyn Map, threads: Range<usize>| {
        let mut tally = Tally::default();
        for steps in &lists[threads] {
            tally = tally.and(map.mixed_run(steps));
        }
        tally
    };
    // Where the load is what is timed, its counts stand.
    let (seconds, seen) = match course.workload.load_timed {
        true => (0.0, Tally::default()),
        false => subject.drive(lists.len(), &body),
    };
    if let Some(expected) = expected {
        expected.check(&course, &subject, seen)?;
    }
    let operations = course.timed.iter().map(|list| list.steps.len()).sum();
    Ok(match course.workload.load_timed {
        true => (load_seconds, course.load.len()),
        false => (seconds, operations),
    })
}

/// Scans all pairs once.
fn scan_all(course: &Course, subject: &Subject) -> Result<()> {
    let Some(first) = course.load.iter().min() else {
        return Ok(());
    };
    let mut from = Keys::new();
    from.push(first);
    let seen = subject.map().scan_run(from.all(), course.load.len());
    if seen.hits != course.load.len() as u64 && course.churn.steps.is_empty() {
        let what = format!("{} pairs in a scan of all", seen.hits);
        return Err(LabError::WrongAnswer(what));
    }
    Ok(())
}

fn load(course: &Course, subject: &Subject) -> (f64, Tally) {
    let load = &course.load;
    if course.workload.load_sorted {
        // Sorted keys are one list, which one thread hands over.
        return counters::during(|| {
            timed(|| {
                subject.map().load_sorted_run(load.all());
                Tally::default()
            })
        });
    }
    subject.drive(load.len(), &|map, range| {
        map.put_run(load.range(range), 0);
        Tally::default()
    })
}

fn unfit() -> Answer {
    Answer::of_unfit(Cause::Limits, "it cannot scan these keys".to_owned())
}

/// One round of `entry`.
///
/// # Errors
///
/// A contender that cannot be had, has too few threads, or answers wrongly.
pub fn measure(entry: &MapEntry, mixed: &MixedWorkload) -> Result<Answer> {
    let Some(column) = column(entry, &mixed.resolve()?) else {
        return Ok(unfit());
    };
    pin_this_thread(0);
    run(entry, &mixed.bounded(WARM_UP_RECORDS, 10 * WARM_UP_RECORDS))?;
    let (seconds, operations) = run(entry, mixed)?;
    let mut answer = Answer::default();
    answer.push_mops(column, operations, seconds);
    Ok(answer)
}

/// The workload at the size of a script, with all answers compared.
///
/// # Errors
///
/// As [`measure`].
pub fn verify(entry: &MapEntry, mixed: &MixedWorkload) -> Result<Answer> {
    if column(entry, &mixed.resolve()?).is_none() {
        return Ok(unfit());
    }
    run(entry, &mixed.script())?;
    Ok(Answer::default())
}

/// Prepares a map and takes the timed steps where callgrind counts; nothing is timed.
///
/// # Errors
///
/// A contender that cannot be had, or that answers wrongly.
pub fn profiled(entry: &MapEntry, mixed: &MixedWorkload) -> Result<Answer> {
    if column(entry, &mixed.resolve()?).is_none() {
        return Ok(unfit());
    }
    let course = Course::new(mixed, &entry.entry.promises)?;
    let expected = Expected::of(&course);
    let subject = Subject::new(entry, 1)?;
    load(&course, &subject);
    subject.map().mixed_run(&course.churn.as_steps());
    let seen = profiled_steps(subject.map(), &course.timed[0].as_steps());
    expected.check(&course, &subject, seen)?;
    Ok(Answer::default())
}

/// A function by itself, so that callgrind knows where to begin and to end
/// (see [`profile`](crate::profile)).
#[inline(never)]
fn profiled_steps(map: &dyn Map, steps: &Steps<'_>) -> Tally {
    std::hint::black_box(map.mixed_run(steps))
}

/// Prepares a bounded map, and takes the timed steps unless told to leave them out.
///
/// # Errors
///
/// A contender that cannot be had.
pub fn slice(entry: &MapEntry, mixed: &MixedWorkload, whole: bool) -> Result<Answer> {
    let mixed = MixedWorkload {
        threads: 1,
        ..mixed.bounded(SLICE_RECORDS, SLICE_OPERATIONS)
    };
    if column(entry, &mixed.resolve()?).is_none() {
        return Ok(unfit());
    }
    let course = Course::new(&mixed, &entry.entry.promises)?;
    let subject = Subject::new(entry, 1)?;
    if whole || !course.workload.load_timed {
        load(&course, &subject);
    }
    subject.map().mixed_run(&course.churn.as_steps());
    if whole {
        let steps = course.timed[0].as_steps();
        std::hint::black_box(subject.map().mixed_run(&steps));
    }
    Ok(Answer::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use hedgerow_lab_data::KeyRange;
    use hedgerow_lab_own::{BTreeMark, ordered, own, single};

    #[test]
    fn every_workload_file_runs_rightly_on_every_map_of_this_build() {
        let registry = Registry::new();
        for name in Workload::names() {
            let mut mixed = MixedWorkload {
                most_operations: Some(4000),
                ..MixedWorkload::new(name, 2000)
            };
            let keys = mixed.keys().expect(name);
            let contenders = registry.maps.iter().chain(&registry.sets);
            for map in contenders.filter(|map| map.build.is_ok()) {
                let mut map = map.clone();
                let limits = registry.limits(map.entry.name);
                if limits.refusal(&keys).is_some() {
                    continue;
                }
                map.entry.promises.ordered &= limits.scan_refusal(&keys).is_none();
                mixed.threads = 1;
                let answer = measure(&map, &mixed);
                answer.unwrap_or_else(|error| panic!("{name} on {}: {error}", map.entry.name));
                // Whoever gives a wrong answer in a race is reported and not timed; a test that a
                // peer may fail by chance would say nothing of the lab.
                if map.entry.promises.concurrent && map.entry.origin == "Hedgerow" {
                    mixed.threads = 3;
                    let answer = verify(&map, &mixed);
                    answer.unwrap_or_else(|error| panic!("{name}, {}: {error}", map.entry.name));
                }
            }
        }
    }

    #[test]
    fn slices_run_and_the_unordered_take_searches_as_lookups() {
        let registry = Registry::new();
        let ours = registry.map("hedgerow inline").expect("ours");
        let churned = MixedWorkload::new("matryoshka/search_after_churn", 3000);
        slice(ours, &churned, true).expect("a slice");
        slice(
            ours,
            &MixedWorkload::new("matryoshka/bulk_load", 3000),
            false,
        )
        .expect("half");
        assert_eq!(churned.slice_operations().expect("some"), SLICE_OPERATIONS);
        let mut unordered = ours.clone();
        unordered.entry.promises.ordered = false;
        let small = churned.bounded(3000, 3000);
        let answer = measure(&unordered, &small).expect("lookups");
        assert_eq!(answer.figures[0].column, POINT_COLUMN);
        let ranges = MixedWorkload::new("matryoshka/scan_after_insert", 3000);
        let answer = measure(&unordered, &ranges).expect("an answer");
        assert!(answer.unfit.is_some());
    }

    /// A map that forgets every hundredth removal.
    #[derive(Default)]
    struct Clinging(BTreeMark, std::cell::Cell<u32>);

    impl Map for Clinging {
        fn put(&self, key: &[u8], value: u64) {
            self.0.put(key, value);
        }
        fn get(&self, key: &[u8]) -> Option<u64> {
            self.0.get(key)
        }
        fn remove(&self, key: &[u8]) -> bool {
            self.1.set(self.1.get() + 1);
            self.1.get().is_multiple_of(100) || self.0.remove(key)
        }
        fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
            self.0.scan(from, count, visit);
        }
        fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
            self.0.scan_run(keys, count)
        }
    }

    #[test]
    fn what_a_map_leaves_behind_is_compared() {
        let clinging = MapEntry {
            entry: own("clinging", ordered(false)),
            build: single::<Clinging>(),
        };
        let error = measure(
            &clinging,
            &MixedWorkload::new("matryoshka/rand_delete", 3000),
        );
        let error = error.expect_err("a wrong answer").to_string();
        assert!(error.contains("left Tally"), "{error}");
    }
}
