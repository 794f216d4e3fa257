//! Threads that update keys of which a few are written far more often than others, and are
//! neighbours (§7.3): with leaves split where writers wait for them, and without, by the size of a
//! page.
//!
//! As in the source the keys are titles, in their order, and the first of them is written most
//! (Zipf, α = 1). An update adds one to a key's value, so afterwards each must be as high as there
//! were updates of it: a lost one is an error. Updates before the clock starts give leaves the time
//! to be split. Beside the tree, whose latches cover a page each, stands Masstree, whose latches
//! cover 15 keys, whatever the axis says.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::{Adaptive, Baseline, Configuration, Fingerprint, Hints};
use hedgerow_index::Decision;
use hedgerow_lab_contender::Promises;
use hedgerow_lab_data::random::Random;
use hedgerow_lab_data::{KeySet, Keys, Zipf};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, X};
use hedgerow_masstree::{Concurrent, Masstree, pin};
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::pace;
use crate::registry::Registry;
use crate::subject::on_threads;
use crate::{LabError, Result};

/// The experiment.
pub struct Contention;

/// The sample of titles that is in the program, and how many it has.
const TITLES: (&str, usize) = ("sample:titles", 4000);

const MASSTREE: &str = "hedgerow inline";

/// Trees by name: the form of leaves, and whether leaves are split.
const TREES: [(&str, Form, bool); 8] = [
    ("btree fingerprint", Form::Fingerprint, true),
    ("btree fingerprint, no splits", Form::Fingerprint, false),
    ("btree adaptive", Form::Adaptive, true),
    ("btree adaptive, no splits", Form::Adaptive, false),
    ("btree hints", Form::Hints, true),
    ("btree hints, no splits", Form::Hints, false),
    ("btree baseline", Form::Baseline, true),
    ("btree baseline, no splits", Form::Baseline, false),
];

/// Sizes of a page in KiB. Forms that the source leaves out have pages of the standard size only.
const PAGES_KIB: [usize; 5] = [2, 4, 8, 16, 32];
const STANDARD_KIB: usize = 4;

/// Updates under one pin of Masstree's epochs.
const UNDER_A_PIN: usize = 1024;

/// Far more than the titles take.
const POOL_BYTES: u64 = 1 << 28;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Baseline,
    Hints,
    Fingerprint,
    Adaptive,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    page_kib: usize,
    threads: usize,
    /// Updates of each thread before the clock starts, and then.
    warm_up: usize,
    updates: usize,
}

/// What is done, the same for everyone.
struct Course {
    keys: Keys,
    /// Of each thread, the numbers of the keys that it updates.
    updates: Vec<Vec<u16>>,
    warm_up: usize,
}

impl Course {
    fn new(workload: &Workload) -> Result<Self> {
        let set: KeySet = TITLES.0.parse()?;
        let keys = set.keys(TITLES.1)?.sorted();
        let zipf = Zipf::new(keys.len() as u64, 1.0);
        let draw = |thread: usize| {
            let mut random = Random::new(thread as u64 + 73);
            let updates = 0..workload.warm_up + workload.updates;
            updates.map(|_| zipf.rank(&mut random) as u16).collect()
        };
        Ok(Self {
            updates: (0..workload.threads).map(draw).collect(),
            warm_up: workload.warm_up,
            keys,
        })
    }

    /// Runs `update` over all updates of all threads; seconds of those after the first.
    fn run(&self, update: &(dyn Fn(&mut dyn Iterator<Item = &[u8]>) + Sync)) -> f64 {
        let threads = self.updates.len();
        let mut seconds = 0.0;
        for part in [0..self.warm_up, self.warm_up..self.updates[0].len()] {
            let runs = on_threads(threads, threads, &|which| {
                let numbers = &self.updates[which.start][part.clone()];
                let mut keys = numbers.iter().map(|&n| self.keys.get(usize::from(n)));
                update(&mut keys);
            });
            seconds = runs
                .iter()
                .map(|(seconds, ())| *seconds)
                .fold(0.0, f64::max);
        }
        seconds
    }

    /// How many keys have another value than there were updates of them.
    fn wrong(&self, value: impl Fn(&[u8]) -> Option<u64>) -> u64 {
        let mut counts: HashMap<u16, u64> = HashMap::new();
        for &number in self.updates.iter().flatten() {
            *counts.entry(number).or_default() += 1;
        }
        let wrong = (0_u16..).zip(self.keys.iter()).filter(|(number, key)| {
            let count = counts.get(number).copied().unwrap_or(0);
            value(key) != Some(count)
        });
        wrong.count() as u64
    }
}

/// What a tree came to.
struct Outcome {
    seconds: f64,
    wrong: u64,
    /// Leaves that were split as writers waited for them, where that can be.
    splits: Option<f64>,
}

fn number(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn on_pages<C: Configuration, const PAGE: usize>(course: &Course, splits: bool) -> Result<Outcome> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(POOL_BYTES));
    let pool = Arc::new(pool.map_err(LabError::from_display)?);
    let mut tree = BTreeIndex::<C, PAGE>::create(pool).map_err(LabError::from_display)?;
    if !splits {
        tree = tree.without_contention_splits();
    }
    for key in course.keys.iter() {
        tree.insert(key, &[0; 8]).map_err(LabError::from_display)?;
    }
    let seconds = course.run(&|keys| {
        let mut new = Vec::new();
        for key in keys {
            let updated = tree.update(key, &mut new, |old, new| {
                let count = old.and_then(number).unwrap_or(0) + 1;
                new.extend_from_slice(&count.to_le_bytes());
                Decision::Put(())
            });
            updated.expect("all pages are in memory");
        }
    });
    tree.verify().map_err(LabError::WrongAnswer)?;
    let value = |key: &[u8]| tree.get(key, number).ok().flatten().flatten();
    Ok(Outcome {
        seconds,
        wrong: course.wrong(value),
        splits: splits
            .then(|| tree.counters().get("contention_splits"))
            .flatten(),
    })
}

fn in_masstree(course: &Course) -> Outcome {
    let tree = Masstree::<u64, Concurrent>::new();
    for key in course.keys.iter() {
        tree.put(key, 0);
    }
    let seconds = course.run(&|keys| {
        let mut left = true;
        while left {
            let _pin = pin();
            left = false;
            for key in (&mut *keys).take(UNDER_A_PIN) {
                tree.update(key, |old| old.map(|count| count + 1));
                left = true;
            }
        }
    });
    Outcome {
        seconds,
        wrong: course.wrong(|key| tree.get(key)),
        splits: None,
    }
}

fn by_form<const PAGE: usize>(course: &Course, form: Form, splits: bool) -> Result<Outcome> {
    match form {
        Form::Fingerprint => on_pages::<Fingerprint, PAGE>(course, splits),
        Form::Adaptive => on_pages::<Adaptive, PAGE>(course, splits),
        // Of the standard size: each size is a tree to compile.
        Form::Hints => on_pages::<Hints, 4096>(course, splits),
        Form::Baseline => on_pages::<Baseline, 4096>(course, splits),
    }
}

fn outcome(name: &str, workload: &Workload) -> Result<Outcome> {
    let course = Course::new(workload)?;
    if name == MASSTREE {
        return Ok(in_masstree(&course));
    }
    let tree = TREES.iter().find(|(tree, ..)| *tree == name);
    let &(_, form, splits) =
        tree.ok_or_else(|| LabError::Usage(format!("{name} takes no part here")))?;
    match workload.page_kib {
        2 => by_form::<2048>(&course, form, splits),
        4 => by_form::<4096>(&course, form, splits),
        8 => by_form::<8192>(&course, form, splits),
        16 => by_form::<16384>(&course, form, splits),
        32 => by_form::<32768>(&course, form, splits),
        other => Err(LabError::Usage(format!("no pages of {other} KiB"))),
    }
}

/// Who takes part with pages of this size.
fn contenders(page_kib: usize) -> Vec<&'static str> {
    let trees = TREES.iter().filter(|(_, form, _)| {
        page_kib == STANDARD_KIB || matches!(form, Form::Fingerprint | Form::Adaptive)
    });
    trees.map(|(name, ..)| *name).chain([MASSTREE]).collect()
}

impl Experiment for Contention {
    fn about(&self) -> About {
        About {
            name: "btrees/contention",
            title: "Updates of neighbouring keys by many threads",
            source: "B-Trees Are Back, §7.3",
            claim: "Without contention splits throughput falls as pages grow and more writers \
                    wait for the first leaf; with them it hardly depends on the size of a page.",
            x_label: Some("page in KiB"),
            x_log: true,
            baseline: "btree fingerprint, no splits",
            here: Some(
                "writers wait for each other only while they run at the same time: two \
                        cores show less of it than the source's many.",
            ),
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let promises = Promises {
            concurrent: true,
            ordered: true,
            variable_keys: true,
            ..Promises::default()
        };
        let all = contenders(STANDARD_KIB).into_iter();
        let all = all.map(|name| Participant {
            entry: own(name, promises),
            available: Ok(()),
            environment: Vec::new(),
        });
        all.collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let threads = settings.cores.clamp(2, 24);
        let updates: usize = settings.scale.pick(20_000, 1_000_000, 5_000_000);
        let points = PAGES_KIB.iter().map(|&page_kib| {
            let workload = Workload {
                page_kib,
                threads,
                warm_up: updates,
                updates,
            };
            Ok(Point {
                parameters: [("threads".to_owned(), threads.into())].into(),
                x: Some(X::Number(page_kib as f64)),
                contenders: contenders(page_kib),
                need: Need {
                    memory_bytes: POOL_BYTES + (threads * updates * 4) as u64 + (32 << 20),
                    disk_bytes: 0,
                    shared_seconds: pace::PROCESS_SECONDS
                        + (threads * updates) as f64 * 2.0 * pace::key_seconds(4),
                    own_seconds: updates as f64 * 2.0 * 0.6e-6,
                    verify_seconds: pace::VERIFY_SECONDS,
                },
                verified_by: page_kib.into(),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            workload.warm_up = 0;
            workload.updates = workload.updates.min(20_000);
        }
        let outcome = outcome(&job.contender, &workload)?;
        if job.stage == Stage::Verify && outcome.wrong > 0 {
            let what = format!("{} keys do not have all of their updates", outcome.wrong);
            return Err(LabError::WrongAnswer(what));
        }
        let mut answer = Answer {
            errors: outcome.wrong,
            ..Answer::default()
        };
        if job.stage == Stage::Measure {
            let updates = workload.threads * workload.updates;
            answer.push_mops("updates", updates, outcome.seconds);
            if let Some(splits) = outcome.splits {
                answer.push("leaves split", "leaves", Better::Lower, splits);
            }
        }
        Ok(answer)
    }
}
