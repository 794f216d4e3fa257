//! One round of an engine: load, legs, `kill -9`, and what is there afterwards.

use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use hdrhistogram::Histogram;
use hedgerow_lab_contender::{Store, StoreEntry, StoreError};
use hedgerow_lab_data::{Keys, Kind, Operation};
use hedgerow_lab_report::{Better, Cause};
use tempfile::TempDir;

use super::leg::Leg;
use super::schedule::{Planned, Schedule};
use super::values::Values;
use super::{BESIDE_CACHE_BYTES, Commits, Part, StoreWorkload};
use crate::control_group::MemoryGroup;
use crate::experiment::{Answer, Job, Stage};
use crate::machine::{disk_bytes, drop_page_cache, read_bytes, resident_bytes, written_bytes};
use crate::process::{answer_and_wait, part_answer, start_part};
use crate::{LabError, Result};

/// An open engine.
type Opened = Box<dyn Store + Send + Sync>;

/// Records of the throwaway store that pages code in and wakes allocators.
const WARM_UP_RECORDS: usize = 500;

/// Pairs of an atomic batch, where single commits would be too slow to load by.
const BATCH: usize = 1000;

/// Records that are looked up after reopening.
const SAMPLE: usize = 20_000;

/// Both processes of a round, one after the other.
pub(super) fn whole(entry: &StoreEntry, job: &Job, workload: &StoreWorkload) -> Result<Answer> {
    let temporary = TempDir::with_prefix("hedgerow-lab-")?;
    let group = workload.memory_bytes.and_then(|_| MemoryGroup::make());
    if workload.memory_bytes.is_some() && group.is_none() {
        let why = "no control group could be made, though it could before";
        return Err(LabError::Process(why.to_owned()));
    }
    let start = |part| {
        let workload = StoreWorkload {
            group: group.as_ref().map(|group| group.folder().to_owned()),
            part: Some((part, temporary.path().to_owned())),
            ..workload.clone()
        };
        start_part(&Job {
            stage: Stage::Measure,
            workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            ..job.clone()
        })
    };
    let mut worker = start(Part::Work)?;
    let worked = part_answer(&mut worker);
    worker.kill()?;
    worker.wait()?;
    let killed = |group: &MemoryGroup| group.has_killed();
    if worked.is_err() && group.as_ref().is_some_and(killed) {
        let why = format!("{}, and was killed", too_much());
        return Ok(Answer::of_unfit(Cause::Memory, why));
    }
    let mut answer = worked?;
    if entry.entry.promises.durable && answer.unfit.is_none() {
        let reopened = part_answer(&mut start(Part::Reopen)?);
        if reopened.is_err() && group.as_ref().is_some_and(killed) {
            // What it did within its memory counts; how fast it reopens there has no figure.
            return Ok(answer);
        }
        let reopened = reopened?;
        answer.errors += reopened.errors;
        answer.figures.extend(reopened.figures);
    }
    Ok(answer)
}

/// The operations of a leg, for each thread.
fn drawn(planned: &Planned, workload: &StoreWorkload) -> Vec<Vec<Operation>> {
    let threads = workload.threads.max(1);
    (0..threads).map(|nth| planned.operations(nth)).collect()
}

/// What this process takes from here on counts.
fn join(workload: &StoreWorkload) -> Result<()> {
    workload.group.as_deref().map_or(Ok(()), MemoryGroup::join)
}

/// From here on this process has as much memory as it may have. Not while it loads, which is not
/// what is asked here: the first version's groups kill whoever writes faster than the disk.
fn limit(workload: &StoreWorkload) -> Result<()> {
    match (&workload.group, workload.memory_bytes) {
        (Some(folder), Some(bytes)) => MemoryGroup::limit(folder, bytes),
        _ => Ok(()),
    }
}

fn too_much() -> String {
    let mib = BESIDE_CACHE_BYTES >> 20;
    format!("it takes more memory than its cache and {mib} MiB")
}

/// Opens an engine in a directory that is made if need be.
fn open(entry: &StoreEntry, workload: &StoreWorkload, directory: &Path) -> Result<Opened> {
    let open = entry.open.as_ref().map_err(LabError::unavailable)?;
    std::fs::create_dir_all(directory)?;
    open(directory, &workload.settings()).map_err(failed)
}

fn failed(error: StoreError) -> LabError {
    LabError::Process(format!("the engine failed: {error}"))
}

/// The first process: loads, runs the legs, answers, and waits for its end.
pub(super) fn work(entry: &StoreEntry, workload: &StoreWorkload, folder: &Path) -> Result<Answer> {
    if let Err(why) = open(entry, workload, &folder.join("refusal")) {
        // An engine says at once what it cannot honour.
        return Ok(Answer::of_unfit(Cause::Refusal, why.to_string()));
    }
    warm_up(entry, workload, &folder.join("warm"))?;
    let schedule = Schedule::new(workload)?;
    let keys = schedule.keys(&workload.set)?;
    let values = Values::new(workload.value_bytes);
    // Drawn before memory counts.
    let drawn: Vec<_> = schedule
        .legs
        .iter()
        .map(|leg| drawn(leg, workload))
        .collect();
    join(workload)?;
    let before_bytes = resident_bytes(None);
    let data = folder.join("data");
    let store = open(entry, workload, &data)?;
    let mut round = Round {
        store: &*store,
        workload,
        keys: &keys,
        values: &values,
        durable: entry.entry.promises.durable,
        put_bytes: 0,
        answer: Answer::default(),
    };
    let written = written_bytes();
    round.load()?;
    round.footprint(before_bytes, written, &data)?;
    if workload.cold {
        drop_page_cache(&data);
    }
    if let Err(error) = limit(workload) {
        let why = format!("{}: {error}", too_much());
        return Ok(Answer::of_unfit(Cause::Memory, why));
    }
    // The processor sees the lookups once before any of them is timed.
    round.look_up(workload.records.min(workload.operations as usize) / 16)?;
    for (planned, shares) in schedule.legs.iter().zip(drawn) {
        let read = read_bytes();
        let done = round.leg(planned, &shares)?;
        if workload.cold {
            let each = (read_bytes() - read) as f64 / done.max(1) as f64;
            let column = format!("{}: read from storage", planned.leg.column());
            let answer = &mut round.answer;
            answer.push(&column, "bytes/operation", Better::Lower, each);
        }
    }
    round.force()?;
    round.amplification("written / put, all", written);
    let answer = round.answer;
    answer_and_wait(&answer)?;
    drop(store);
    Ok(answer)
}

/// All of it on a few records of another directory, for nothing.
fn warm_up(entry: &StoreEntry, workload: &StoreWorkload, directory: &Path) -> Result<()> {
    let few = StoreWorkload {
        records: workload.records.min(WARM_UP_RECORDS),
        operations: match workload.commits {
            Commits::Sync => 10,
            Commits::Periodic | Commits::Never => 200,
        },
        ..workload.clone()
    };
    let schedule = Schedule::new(&few)?;
    let keys = schedule.keys(&few.set)?;
    let values = Values::new(few.value_bytes);
    let store = open(entry, &few, directory)?;
    let mut round = Round {
        store: &*store,
        workload: &few,
        keys: &keys,
        values: &values,
        durable: entry.entry.promises.durable,
        put_bytes: 0,
        answer: Answer::default(),
    };
    round.load()?;
    for planned in &schedule.legs {
        round.leg(planned, &drawn(planned, &few))?;
    }
    round.force()
}

/// What a thread did, or all of them together.
struct Share {
    begun: Instant,
    ended: Instant,
    latencies: Histogram<u64>,
    operations: usize,
    wrong: u64,
    put_bytes: u64,
    inserted: u64,
}

impl Share {
    fn new() -> Result<Self> {
        let now = Instant::now();
        Ok(Self {
            begun: now,
            ended: now,
            latencies: Histogram::new(3).map_err(LabError::from_display)?,
            operations: 0,
            wrong: 0,
            put_bytes: 0,
            inserted: 0,
        })
    }

    /// Adds what another thread did. Threads without a processor of their own may work one after
    /// the other, so all of them took from the first one's begin to the last one's end.
    fn add(&mut self, other: &Share) -> Result<()> {
        self.begun = self.begun.min(other.begun);
        self.ended = self.ended.max(other.ended);
        self.operations += other.operations;
        self.wrong += other.wrong;
        self.put_bytes += other.put_bytes;
        let added = self.latencies.add(&other.latencies);
        added.map_err(LabError::from_display)
    }

    fn seconds(&self) -> f64 {
        self.ended.duration_since(self.begun).as_secs_f64()
    }
}

/// An engine on its way through the legs.
struct Round<'a> {
    store: &'a (dyn Store + Send + Sync),
    workload: &'a StoreWorkload,
    keys: &'a Keys,
    values: &'a Values,
    durable: bool,
    /// Bytes of keys and values that were put so far.
    put_bytes: u64,
    answer: Answer,
}

impl Round<'_> {
    /// Forces everything to storage, where the engine can.
    fn force(&self) -> Result<()> {
        if self.durable {
            self.store.sync().map_err(failed)?;
        }
        Ok(())
    }

    /// Loads on one thread: record by record, or in batches where each commit is synced.
    fn load(&mut self) -> Result<()> {
        let records = self.keys.range(0..self.workload.records);
        // Where the load is not the question, or would take for ever.
        let batches = self.workload.cold || self.workload.commits == Commits::Sync;
        // Who is not durable has no batches either.
        let batch = if batches && self.durable { BATCH } else { 1 };
        let mut values = vec![Vec::new(); batch];
        let mut share = Share::new()?;
        let mut last = share.begun;
        for chunk in records.chunks(batch) {
            for (nth, (key, value)) in chunk.iter().zip(&mut values).enumerate() {
                self.values.make(key, nth as u64, value);
                self.put_bytes += (key.len() + value.len()) as u64;
            }
            let pairs = chunk.iter().zip(&values);
            if batch == 1 {
                for (key, value) in pairs {
                    self.store.put(key, value).map_err(failed)?;
                }
            } else {
                let pairs: Vec<(&[u8], &[u8])> =
                    pairs.map(|(key, value)| (key, value.as_slice())).collect();
                self.store.put_all(&pairs).map_err(failed)?;
            }
            lap(&mut last, &mut share.latencies)?;
        }
        share.ended = Instant::now();
        let column = if batch == 1 {
            "load"
        } else {
            "load in batches"
        };
        self.report(column, self.workload.records, &share, batch == 1);
        Ok(())
    }

    /// What the loaded records take.
    fn footprint(&mut self, before_bytes: u64, written: u64, data: &Path) -> Result<()> {
        let records = self.workload.records as f64;
        let mut each = |column: &str, bytes: u64| {
            let figure = bytes as f64 / records;
            self.answer
                .push(column, "bytes/record", Better::Lower, figure);
        };
        let grown = resident_bytes(None).saturating_sub(before_bytes);
        each("memory", grown);
        if self.durable {
            self.store.sync().map_err(failed)?;
            each("disk", disk_bytes(data)?);
            self.amplification("written / put, load", written);
        }
        Ok(())
    }

    /// Bytes written for each byte put, since `written`. In memory (tmpfs) nothing is written.
    fn amplification(&mut self, column: &str, written: u64) {
        let written = written_bytes().saturating_sub(written);
        if self.durable && written > 0 {
            let figure = written as f64 / self.put_bytes.max(1) as f64;
            self.answer.push(column, "ratio", Better::Lower, figure);
        }
    }

    /// Untimed lookups.
    fn look_up(&self, count: usize) -> Result<()> {
        let mut found = Vec::new();
        let longest = self.workload.longest_reading_seconds;
        let start = Instant::now();
        for key in self.keys.range(0..count).iter() {
            if longest.is_some_and(|longest| start.elapsed().as_secs_f64() > longest) {
                break;
            }
            let there = self.store.get(key, &mut found).map_err(failed)?;
            if !there || !self.values.is_right(key, &found) {
                return Err(wrong(key));
            }
        }
        Ok(())
    }

    /// Runs a leg; how many of its operations there was time for.
    fn leg(&mut self, planned: &Planned, shares: &[Vec<Operation>]) -> Result<usize> {
        let threads = shares.len();
        // What others write is counted on later, so that only reading can end early.
        let longest = self.workload.longest_reading_seconds;
        let longest = longest.filter(|_| planned.leg.only_reads());
        let barrier = Barrier::new(threads);
        let this = &*self;
        let done: Result<Vec<Share>> = std::thread::scope(|scope| {
            let workers: Vec<_> = shares
                .iter()
                .map(|operations| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        this.share(operations, planned.may_miss(), longest)
                    })
                })
                .collect();
            let joined = workers.into_iter().map(|worker| {
                let result = worker.join();
                result.map_err(|_| LabError::Process("a thread of the engine panicked".into()))?
            });
            joined.collect()
        });
        let done = done?;
        let mut all = Share::new()?;
        (all.begun, all.ended) = (done[0].begun, done[0].ended);
        for (thread, share) in done.iter().enumerate() {
            all.add(share)?;
            all.put_bytes += self.fill_up(planned, thread, share.inserted)?;
        }
        self.put_bytes += all.put_bytes;
        self.answer.errors += all.wrong;
        let tail = matches!(&planned.leg, Leg::Get | Leg::Update | Leg::DeleteHeavy)
            || matches!(&planned.leg, Leg::Named(name) if name == "ycsb/a" || name == "ycsb/e");
        self.report(planned.leg.column(), all.operations, &all, tail);
        Ok(all.operations)
    }

    /// One thread's operations, or those of the first `longest` seconds.
    fn share(
        &self,
        operations: &[Operation],
        may_miss: bool,
        longest: Option<f64>,
    ) -> Result<Share> {
        let (mut value, mut found) = (Vec::new(), Vec::new());
        let mut share = Share::new()?;
        let mut last = share.begun;
        for (nth, operation) in operations.iter().enumerate() {
            let key = self.keys.get(operation.record as usize);
            match operation.kind {
                Kind::Scan => {
                    let count = operation.scan_length as usize;
                    share.wrong += u64::from(!self.scan(key, count).map_err(failed)?);
                }
                Kind::Remove => self.store.remove(key).map_err(failed)?,
                kind => {
                    let reads = !matches!(kind, Kind::Update | Kind::Insert);
                    let mut writes = kind != Kind::Read;
                    if reads {
                        let there = self.store.get(key, &mut found).map_err(failed)?;
                        let right = match there {
                            true => self.values.is_right(key, &found),
                            false => {
                                may_miss || matches!(kind, Kind::ReadInsert | Kind::InsertIfAbsent)
                            }
                        };
                        share.wrong += u64::from(!right);
                        writes &= !there || kind != Kind::InsertIfAbsent;
                    }
                    if writes {
                        self.values.make(key, nth as u64, &mut value);
                        self.store.put(key, &value).map_err(failed)?;
                        share.put_bytes += (key.len() + value.len()) as u64;
                    }
                }
            }
            share.inserted += u64::from(operation.kind.inserts());
            share.operations += 1;
            lap(&mut last, &mut share.latencies)?;
            if longest
                .is_some_and(|longest| last.duration_since(share.begun).as_secs_f64() > longest)
            {
                break;
            }
        }
        share.ended = last;
        Ok(share)
    }

    /// Scans; whether all pairs were right, in order, and began with a key that is there.
    fn scan(&self, from: &[u8], count: usize) -> std::result::Result<bool, StoreError> {
        let mut last: Vec<u8> = Vec::new();
        let mut right = true;
        let mut seen = 0;
        let visited = self.store.scan(from, count, &mut |key, value| {
            let follows = match seen {
                0 => key == from,
                _ => key > last.as_slice(),
            };
            right &= follows && self.values.is_right(key, value);
            seen += 1;
            last.clear();
            last.extend_from_slice(key);
        })?;
        Ok(right && seen > 0 && seen == visited)
    }

    /// Inserts what a thread might have inserted and did not, as the next leg counts on it; the
    /// bytes put.
    fn fill_up(&self, planned: &Planned, thread: usize, inserted: u64) -> Result<u64> {
        let plan = &planned.plan;
        let (mut value, mut put_bytes) = (Vec::new(), 0);
        let first = plan.known + thread as u64 + inserted * plan.threads;
        for record in (first..plan.keys).step_by(plan.threads as usize) {
            let key = self.keys.get(record as usize);
            self.values.make(key, 0, &mut value);
            self.store.put(key, &value).map_err(failed)?;
            put_bytes += (key.len() + value.len()) as u64;
        }
        Ok(put_bytes)
    }

    fn report(&mut self, column: &str, operations: usize, share: &Share, tail: bool) {
        let rate = operations as f64 / share.seconds().max(1e-9) / 1000.0;
        self.answer.push(column, "kops/s", Better::Higher, rate);
        if tail {
            let worst = share.latencies.value_at_quantile(0.999) as f64 / 1000.0;
            let column = format!("{column} p99.9");
            self.answer.push(&column, "µs", Better::Lower, worst);
        }
    }
}

/// Notes the time since `last`, which becomes now.
fn lap(last: &mut Instant, latencies: &mut Histogram<u64>) -> Result<()> {
    let now = Instant::now();
    let ns = now.duration_since(*last).as_nanos() as u64;
    *last = now;
    latencies.record(ns.max(1)).map_err(LabError::from_display)
}

fn wrong(key: &[u8]) -> LabError {
    LabError::WrongAnswer(format!("\"{}\" holds another value", key.escape_ascii()))
}

/// The second process: opens what a killed one left, and checks it.
pub(super) fn reopen(
    entry: &StoreEntry,
    workload: &StoreWorkload,
    folder: &Path,
) -> Result<Answer> {
    let schedule = Schedule::new(workload)?;
    let keys = schedule.keys(&workload.set)?;
    let values = Values::new(workload.value_bytes);
    let there = schedule.there();
    let mut found = Vec::new();
    // What was made so far does not count.
    join(workload)?;
    limit(workload)?;
    let start = Instant::now();
    let store = open(entry, workload, &folder.join("data"))?;
    // Some engines open at once and read what they must when they are asked.
    store.get(keys.get(0), &mut found).map_err(failed)?;
    let seconds = start.elapsed().as_secs_f64();
    let step = keys.len().div_ceil(SAMPLE).max(1);
    for record in (0..keys.len()).step_by(step) {
        let key = keys.get(record);
        let seen = store.get(key, &mut found).map_err(failed)?;
        if seen != there[record] || (seen && !values.is_right(key, &found)) {
            return Err(LabError::WrongAnswer(format!(
                "after a kill \"{}\" is {}",
                key.escape_ascii(),
                if there[record] {
                    "not what was put"
                } else {
                    "back"
                }
            )));
        }
    }
    drop(store);
    let mut answer = Answer::default();
    answer.push("reopen after kill -9", "s", Better::Lower, seconds);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// As they may on a machine with fewer processors than threads.
    #[test]
    fn threads_that_work_one_after_the_other_take_the_time_of_all() {
        let begun = Instant::now();
        let share = |from_ms, to_ms| Share {
            begun: begun + Duration::from_millis(from_ms),
            ended: begun + Duration::from_millis(to_ms),
            operations: 10,
            ..Share::new().expect("a share")
        };
        let mut all = share(5, 6);
        all.add(&share(0, 1)).expect("added");
        all.add(&share(8, 9)).expect("added");
        assert_eq!(all.operations, 30);
        assert!((all.seconds() - 0.009).abs() < 1e-9, "{}", all.seconds());
    }
}
