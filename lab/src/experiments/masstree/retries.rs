//! How often an operation meets a writer and begins again (§4.6.4).
//!
//! Threads share a tree. Each inserts its share of decimals in random order, the first half of
//! them alone; beside the second half each insertion is followed by a lookup of a key that is
//! there. What the tree counts meanwhile is the figure; nothing is timed, and counting costs
//! nothing where nothing is retried. An insertion that changed a node sends whoever looked at it
//! back to that node, a split back to the root; who comes to a leaf that split goes on to its
//! right. Threads beyond the processors meet only where the system takes one off its processor in
//! between.

use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::{Better, X};
use hedgerow_masstree::{Concurrent, Masstree};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::pace;
use crate::registry::Registry;
use crate::threads::at_once;
use crate::{LabError, Result};

/// The experiment.
pub(super) struct Retries;

const TREE: &str = "hedgerow inline";

/// What the tree counts, and what a report calls it.
const COUNTED: [(&str, &str); 4] = [
    ("local_retries", "at the node"),
    ("root_retries", "from the root"),
    ("forwards", "to the right"),
    ("border_splits", "splits"),
];

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    keys: usize,
    threads: usize,
}

impl Experiment for Retries {
    fn about(&self) -> About {
        About {
            name: "masstree/retries",
            title: "Operations that met a writer",
            source: "Masstree, §4.6.4",
            claim: "With 8 threads less than 1 insert in a million begins again from the root; \
                    concurrent inserts are observed 15 times as often as splits.",
            x_label: Some("threads"),
            x_log: true,
            baseline: TREE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let tree = registry.map(TREE).into_iter();
        tree.map(|map| Participant {
            entry: map.entry.clone(),
            available: Ok(()),
            environment: Vec::new(),
        })
        .collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let keys = settings.keys(5000, 2_000_000, 140_000_000);
        let threads: &[usize] = settings
            .scale
            .pick(&[4], &[1, 2, 4, 8, 16], &[1, 2, 4, 8, 16]);
        let points = threads.iter().map(|&threads| {
            Ok(Point {
                parameters: [
                    ("keys".to_owned(), keys.into()),
                    ("key set".to_owned(), "decimal".into()),
                    ("cores".to_owned(), settings.cores.into()),
                ]
                .into(),
                x: Some(X::Number(threads as f64)),
                contenders: vec![TREE],
                need: Need {
                    memory_bytes: keys as u64 * 100 + (64 << 20),
                    shared_seconds: pace::PROCESS_SECONDS + keys as f64 * 0.1e-6,
                    own_seconds: keys as f64 * 1.5e-6,
                    verify_seconds: pace::VERIFY_SECONDS,
                    ..Need::default()
                },
                verified_by: Value::Null,
                workload: serde_json::to_value(Workload { keys, threads })
                    .map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            // Every run checks what it leaves: a short one is all that verifying needs.
            workload.keys = workload.keys.min(20_000);
        }
        let keys = KeySet::Decimal.keys(workload.keys)?;
        count(&keys, workload.threads)
    }
}

/// The figures of so many threads.
fn count(keys: &Keys, threads: usize) -> Result<Answer> {
    let mut answer = Answer::default();
    let tree: Masstree<u64, Concurrent> = Masstree::new();
    let half = keys.len() / 2;
    let counts = counted(&tree, threads, |thread| {
        for key in (thread..half).step_by(threads).map(|nth| keys.get(nth)) {
            tree.put(key, value_of(key));
        }
    })?;
    push(&mut answer, "insert", counts, half);
    let counts = counted(&tree, threads, |thread| {
        for nth in (half + thread..keys.len()).step_by(threads) {
            let key = keys.get(nth);
            tree.put(key, value_of(key));
            std::hint::black_box(tree.get(keys.get(nth - half)));
        }
    })?;
    push(&mut answer, "insert+get", counts, 2 * (keys.len() - half));
    for key in keys.iter() {
        if tree.get(key) != Some(value_of(key)) {
            let what = format!("\"{}\" is lost", key.escape_ascii());
            return Err(LabError::WrongAnswer(what));
        }
    }
    Ok(answer)
}

/// What the tree counts while all threads work.
fn counted(
    tree: &Masstree<u64, Concurrent>,
    threads: usize,
    work: impl Fn(usize) + Sync,
) -> Result<[f64; COUNTED.len()]> {
    let counts = || {
        let counters = tree.counters();
        COUNTED.map(|(name, _)| counters.get(name).unwrap_or(0.0))
    };
    let before = counts();
    at_once(threads, |thread| {
        work(thread);
        Ok(())
    })?;
    let after = counts();
    Ok(std::array::from_fn(|nth| after[nth] - before[nth]))
}

fn push(answer: &mut Answer, name: &str, counts: [f64; COUNTED.len()], operations: usize) {
    for ((_, what), count) in COUNTED.into_iter().zip(counts) {
        let share = 1e6 * count / operations.max(1) as f64;
        answer.push(
            &format!("{name}, {what}"),
            "per million operations",
            Better::Lower,
            share,
        );
    }
}
