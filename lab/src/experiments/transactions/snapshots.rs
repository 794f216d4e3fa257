//! Snapshots of our engine on every index: what reading at one costs beside reading the present,
//! what a living one costs writers, in time and in memory, and what opening one takes.
//!
//! A round loads a database and alternates between the two sides of each comparison, a slice of
//! each after the other, in alternating order; a ratio is the median of the slices' ratios.
//! Writers are looked at twice: right after a snapshot was opened, when most of them replace a row
//! that it sees, and when every row was replaced since. Every value that comes back
//! is compared with the one that must be there: the present one, or the snapshot's.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{Db, Direction, Durability, IndexKind, Keyspace, KeyspaceSnapshot};
use hedgerow_lab_contender::Promises;
use hedgerow_lab_data::random::{Random, mix64};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, Rounds};
use serde::{Deserialize, Serialize};

use super::records::key_of;
use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::timed;
use crate::registry::Registry;
use crate::threads::at_once;
use crate::{LabError, Result};

/// The indexes; one that the engine of this build does not know takes no part.
const INDEXES: [&str; 5] = ["masstree", "btree", "matryoshka", "bwtree", "bst"];

const VALUE_BYTES: usize = 100;
/// Rows of a scan.
const SCANNED: usize = 100;
/// Snapshots that live while others are opened.
const OTHERS: usize = 1000;
const OPENINGS: u64 = 2000;

/// The experiment.
pub(super) struct Snapshots;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    records: u64,
    /// Of each slice, by each thread.
    operations: u64,
    slices: usize,
    threads: usize,
    directory: Option<PathBuf>,
}

/// A value: the record and the moment at which it was written, hashed, then filled up.
fn value_of(record: u64, moment: u64) -> [u8; VALUE_BYTES] {
    let mut value = [b'.'; VALUE_BYTES];
    let mark = mix64(record.wrapping_add(moment << 40));
    value[..8].copy_from_slice(&mark.to_le_bytes());
    value[8..16].copy_from_slice(&moment.to_le_bytes());
    value
}

/// Whether a value is the record's, of a moment from the first to the last, both inclusive.
fn is_right(value: Option<&[u8]>, record: u64, moments: (u64, u64)) -> bool {
    let Some(value) = value.filter(|value| value.len() == VALUE_BYTES) else {
        return false;
    };
    let word = |at: usize| {
        let bytes = value[at..at + 8].try_into().unwrap_or_default();
        u64::from_le_bytes(bytes)
    };
    let moment = word(8);
    (moments.0..=moments.1).contains(&moment) && word(0) == mix64(record.wrapping_add(moment << 40))
}

/// Where a slice reads.
enum Place<'a> {
    Present(&'a Keyspace),
    Snapshot(&'a KeyspaceSnapshot),
}

/// A loaded database under measurement.
struct Loaded<'a> {
    workload: &'a Workload,
    db: Db,
    rows: Keyspace,
    /// Records by the order of their keys.
    in_order: Vec<u64>,
    /// Slices begun: each draws records of its own, so that none finds those of another in the
    /// processor's caches.
    slice: AtomicU64,
}

impl<'a> Loaded<'a> {
    fn new(workload: &'a Workload, index: IndexKind, folder: &std::path::Path) -> Result<Self> {
        let bytes = workload.records as usize * 1000 + (64 << 20);
        let db = Db::builder()
            .index(index)
            .durability(Durability::Periodic)
            .version_memory(Some(bytes))
            .open(folder)
            .map_err(LabError::from_display)?;
        let rows = db.keyspace("rows").map_err(LabError::from_display)?;
        for record in 0..workload.records {
            rows.put(&key_of(record), &value_of(record, 0))
                .map_err(LabError::from_display)?;
        }
        let mut in_order: Vec<u64> = (0..workload.records).collect();
        in_order.sort_unstable_by_key(|&record| key_of(record));
        Ok(Self {
            workload,
            db,
            rows,
            in_order,
            slice: AtomicU64::new(0),
        })
    }

    /// Millions of operations a second of a slice: `operate` is given a record, and says whether
    /// the answer was right.
    fn slice(
        &self,
        operations: u64,
        operate: impl Fn(u64) -> hedgerow::Result<bool> + Sync,
    ) -> Result<f64> {
        let seed = self.slice.fetch_add(1, Ordering::Relaxed);
        let seconds = at_once(self.workload.threads, |thread| {
            let mut random = Random::for_thread(seed, thread as u64);
            let (seconds, right) = timed(|| {
                for _ in 0..operations {
                    let record = random.below(self.workload.records);
                    if !operate(record).map_err(LabError::from_display)? {
                        let what = format!("record {record} is not as it was written");
                        return Err(LabError::WrongAnswer(what));
                    }
                }
                Ok(())
            });
            right.map(|()| seconds)
        })?;
        let slowest = seconds.into_iter().fold(1e-9, f64::max);
        Ok(operations as f64 * self.workload.threads as f64 / slowest / 1e6)
    }

    fn gets(&self, place: &Place<'_>, moments: (u64, u64)) -> Result<f64> {
        self.slice(self.workload.operations, |record| {
            let key = key_of(record);
            let check = |row: hedgerow::Row<'_>| is_right(row.value(), record, moments);
            let right = match place {
                Place::Present(rows) => rows.read(&key, check),
                Place::Snapshot(rows) => rows.read(&key, check),
            };
            right.map(|right| right == Some(true))
        })
    }

    fn scans(&self, place: &Place<'_>, moments: (u64, u64)) -> Result<f64> {
        self.slice(self.workload.operations / SCANNED as u64 + 1, |drawn| {
            let most = self.in_order.len().saturating_sub(SCANNED);
            let begin = (drawn as usize).min(most);
            let expected = &self.in_order[begin..(begin + SCANNED).min(self.in_order.len())];
            let (mut seen, mut right) = (0, true);
            let visit = |key: &[u8], row: hedgerow::Row<'_>| {
                let record = expected.get(seen).copied().unwrap_or(u64::MAX);
                right &= key == key_of(record) && is_right(row.value(), record, moments);
                seen += 1;
                ControlFlow::Continue(())
            };
            let from = key_of(expected[0]).to_vec()..;
            match place {
                Place::Present(rows) => rows.scan_up_to(from, Direction::Forward, SCANNED, visit),
                Place::Snapshot(rows) => rows.scan_up_to(from, Direction::Forward, SCANNED, visit),
            }?;
            Ok(right && seen == expected.len())
        })
    }

    fn puts(&self, moment: u64) -> Result<f64> {
        self.slice(self.workload.operations, |record| {
            let put = self.rows.put(&key_of(record), &value_of(record, moment));
            put.map(|_| true)
        })
    }

    /// Writes every row once.
    fn replace_all(&self, moment: u64) -> Result<()> {
        for record in 0..self.workload.records {
            let put = self.rows.put(&key_of(record), &value_of(record, moment));
            put.map_err(LabError::from_display)?;
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<KeyspaceSnapshot> {
        let snapshot = self.db.snapshot().map_err(LabError::from_display)?;
        snapshot.at(&self.rows).map_err(LabError::from_display)
    }

    fn statistic(&self, name: &str) -> f64 {
        let statistics = self.db.statistics();
        statistics.get(name).unwrap_or_default()
    }

    fn read(&self, answer: &mut Answer) -> Result<()> {
        let (mut gets, mut scans) = (Pairs::default(), Pairs::default());
        let snapshot = self.snapshot()?;
        let (present, then) = (Place::Present(&self.rows), Place::Snapshot(&snapshot));
        for pair in 0..self.workload.slices {
            let places = [&present, &then];
            gets.push(in_either_order(pair, places, |place| {
                self.gets(place, (0, 0))
            })?);
            scans.push(in_either_order(pair, places, |place| {
                self.scans(place, (0, 0))
            })?);
        }
        gets.report(answer, "get", ["present", "at a snapshot"]);
        scans.report(answer, "scan of 100", ["present", "at a snapshot"]);
        Ok(())
    }

    /// Writers without a snapshot and beside one; then reads of what was replaced.
    fn write(&self, answer: &mut Answer) -> Result<()> {
        let (mut puts, mut later_puts, mut gets) =
            (Pairs::default(), Pairs::default(), Pairs::default());
        let (mut bytes, mut versions) = (0.0, 0.0);
        let moments = Cell::new(0);
        let next = || {
            moments.set(moments.get() + 1);
            moments.get()
        };
        for pair in 0..self.workload.slices {
            let mut without = None;
            if pair % 2 == 0 {
                without = Some(self.puts(next())?);
            }
            let snapshot = self.snapshot()?;
            let (before, after) = (moments.get(), next());
            let beside = self.puts(after)?;
            bytes += self.statistic("version_bytes");
            versions += self.statistic("versions");
            let (present, then) = (Place::Present(&self.rows), Place::Snapshot(&snapshot));
            let places = [(&present, after), (&then, before)];
            let get = |(place, newest)| self.gets(place, (0, newest));
            gets.push(in_either_order(pair, places, get)?);
            self.replace_all(next())?;
            let later = self.puts(next())?;
            drop(snapshot);
            let without = match without {
                Some(without) => without,
                None => self.puts(next())?,
            };
            puts.push([without, beside]);
            later_puts.push([without, later]);
        }
        puts.report(answer, "put", ["without a snapshot", "beside one"]);
        // Their other side is the one above.
        let Pairs {
            sides: [_, later],
            ratios,
        } = later_puts;
        let column = "put of rows replaced before, beside one";
        answer.push(column, "Mops/s", Better::Higher, median(later));
        let column = "put of rows replaced before: ratio";
        answer.push(column, "of 1", Better::Higher, median(ratios));
        gets.report(answer, "get of replaced rows", ["present", "at a snapshot"]);
        let each = bytes / f64::max(versions, 1.0);
        answer.push("version memory", "bytes/replaced row", Better::Lower, each);
        match self.statistic("versions") {
            0.0 => Ok(()),
            left => Err(LabError::WrongAnswer(format!(
                "{left} versions are kept for nobody"
            ))),
        }
    }

    /// Opens and drops snapshots while so many others live.
    fn openings(&self, others: usize) -> Result<f64> {
        let others: Vec<_> = (0..others)
            .map(|_| self.db.snapshot())
            .collect::<hedgerow::Result<_>>()
            .map_err(LabError::from_display)?;
        let mops = self.slice(OPENINGS, |_| self.db.snapshot().map(|_| true))?;
        drop(others);
        Ok(self.workload.threads as f64 * 1e3 / mops)
    }

    fn open(&self, answer: &mut Answer) -> Result<()> {
        let mut alone = Vec::new();
        let mut beside = Vec::new();
        for _ in 0..self.workload.slices {
            alone.push(self.openings(0)?);
            beside.push(self.openings(OTHERS)?);
        }
        let column = "open and drop";
        answer.push(column, "ns", Better::Lower, median(alone));
        let column = "open and drop beside 1,000";
        answer.push(column, "ns", Better::Lower, median(beside));
        Ok(())
    }
}

fn median(figures: Vec<f64>) -> f64 {
    Rounds::from_iter(figures).median()
}

/// Measures both sides of a comparison, the second one first in every other pair.
fn in_either_order<S>(
    pair: usize,
    [one, other]: [S; 2],
    mut measure: impl FnMut(S) -> Result<f64>,
) -> Result<[f64; 2]> {
    if pair.is_multiple_of(2) {
        let one = measure(one)?;
        return Ok([one, measure(other)?]);
    }
    let other = measure(other)?;
    Ok([measure(one)?, other])
}

/// Two sides of a comparison, a slice of each after the other.
#[derive(Default)]
struct Pairs {
    sides: [Vec<f64>; 2],
    ratios: Vec<f64>,
}

impl Pairs {
    fn push(&mut self, [one, other]: [f64; 2]) {
        self.sides[0].push(one);
        self.sides[1].push(other);
        self.ratios.push(other / one.max(1e-12));
    }

    fn report(self, answer: &mut Answer, what: &str, names: [&str; 2]) {
        for (name, side) in names.iter().zip(self.sides) {
            let column = format!("{what}, {name}");
            answer.push(&column, "Mops/s", Better::Higher, median(side));
        }
        let column = format!("{what}: ratio");
        answer.push(&column, "of 1", Better::Higher, median(self.ratios));
    }
}

impl Workload {
    fn run(&self, index: IndexKind) -> Result<Answer> {
        let folder = match &self.directory {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        }?;
        let loaded = Loaded::new(self, index, folder.path())?;
        let mut answer = Answer::default();
        loaded.read(&mut answer)?;
        loaded.write(&mut answer)?;
        loaded.open(&mut answer)?;
        loaded.db.close().map_err(LabError::from_display)?;
        Ok(answer)
    }

    /// A small one of the same kind.
    fn few(self) -> Self {
        Self {
            records: self.records.min(500),
            operations: self.operations.min(500),
            slices: 2,
            ..self
        }
    }
}

impl Experiment for Snapshots {
    fn about(&self) -> About {
        About {
            name: "transactions/snapshots",
            title: "Snapshots of the engine, on every index",
            source: "ours",
            claim: "A get at a snapshot takes what a get of the present takes (0.95 at least), \
                    writers beside one living snapshot keep 0.7 of their speed, and opening and \
                    dropping one takes under 5 µs.",
            x_label: None,
            x_log: false,
            baseline: "masstree",
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let promises = Promises {
            ordered: true,
            concurrent: true,
            durable: true,
            ..Promises::default()
        };
        let known = INDEXES.into_iter().filter_map(IndexKind::from_name);
        let participants = known.map(|index| Participant {
            entry: own(index.name(), promises),
            available: Ok(()),
            environment: Vec::new(),
        });
        participants.collect()
    }

    fn points(&self, registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let participants = self.participants(registry);
        let contenders: Vec<_> = participants.iter().map(|who| who.entry.name).collect();
        let points = settings.thread_counts(2).into_iter().map(|threads| {
            let records = settings.keys(1000, 200_000, 1_000_000) as u64;
            let workload = Workload {
                records,
                operations: settings.scale.pick(500, 50_000, 1_000_000),
                slices: settings.scale.pick(2, 7, 9),
                threads,
                directory: settings.directory.clone(),
            };
            let played = (workload.operations * 9 + records) * workload.slices as u64;
            Ok(Point {
                parameters: [
                    ("records".to_owned(), records.into()),
                    ("threads".to_owned(), threads.into()),
                ]
                .into(),
                x: None,
                contenders: contenders.clone(),
                need: Need {
                    memory_bytes: records * 1500 + (128 << 20),
                    disk_bytes: (records + played * threads as u64) * 300 + (256 << 20),
                    shared_seconds: 0.1,
                    own_seconds: records as f64 * 2e-6 + played as f64 * 1e-6,
                    verify_seconds: 0.2,
                },
                verified_by: threads.into(),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let index = IndexKind::from_name(&job.contender)
            .ok_or_else(|| LabError::Usage(format!("{} is no index here", job.contender)))?;
        match job.stage {
            Stage::Verify => workload.few().run(index).map(|_| Answer::default()),
            Stage::Measure => workload.run(index),
            Stage::Count { .. } => Ok(Answer::default()),
        }
    }
}
