//! How often an operation begins again because another thread changed its node first (§4.1).
//!
//! Threads share a tree without a server between. Each inserts its share of the keys (random, then
//! in a second tree ascending ones that all threads add at the same end), updates random keys of
//! all, and reads them. What the tree counts meanwhile is the figure; nothing is timed. Threads
//! beyond the processors meet only where the system takes one off its processor in between.

use hedgerow_bwtree::{BwTree, Configuration, RetryFromRoot, Standard};
use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::random::Permutation;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::{Better, X};
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

const TREE: &str = "bwtree";
const FROM_ROOT: &str = "bwtree, retry from the root";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    keys: usize,
    threads: usize,
}

impl Experiment for Retries {
    fn about(&self) -> About {
        About {
            name: "bwtree/retries",
            title: "Operations begun again",
            source: "InnoDB and the Bw-tree, §4.1",
            claim: "With 96 connections a little over 2 % of 10 million inserts are begun again, \
                    1.4 % of updates, and next to no reads.",
            x_label: Some("threads"),
            x_log: true,
            baseline: TREE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let forms = hedgerow_lab_own::bwtree_forms().into_iter();
        let forms = forms.filter(|form| [TREE, FROM_ROOT].contains(&form.entry.name));
        forms
            .map(|form| Participant {
                entry: form.entry,
                available: Ok(()),
                environment: Vec::new(),
            })
            .collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let keys = settings.keys(5000, 1_000_000, 10_000_000);
        let threads: &[usize] =
            settings
                .scale
                .pick(&[4], &[1, 2, 8, 32, 96], &[1, 2, 4, 8, 16, 32, 64, 96]);
        let points = threads.iter().map(|&threads| {
            Ok(Point {
                parameters: [
                    ("keys".to_owned(), keys.into()),
                    ("cores".to_owned(), settings.cores.into()),
                ]
                .into(),
                x: Some(X::Number(threads as f64)),
                contenders: vec![TREE, FROM_ROOT],
                need: Need {
                    memory_bytes: keys as u64 * 200 + (64 << 20),
                    shared_seconds: pace::PROCESS_SECONDS,
                    own_seconds: keys as f64 * 4e-6,
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
        match job.contender.as_str() {
            FROM_ROOT => count::<RetryFromRoot>(&workload),
            _ => count::<Standard>(&workload),
        }
    }
}

/// The figures of one configuration.
fn count<C: Configuration>(workload: &Workload) -> Result<Answer>
where
    BwTree<C>: Sync,
{
    let mut answer = Answer::default();
    let threads = workload.threads;
    for (set, name) in [
        ("sparse-u64", "insert"),
        ("monotone-u64", "insert ascending"),
    ] {
        let set: KeySet = set.parse()?;
        let keys = set.keys(workload.keys)?;
        let tree = BwTree::<C>::new();
        let share = retried(&tree, threads, |thread| {
            let mine = (thread..keys.len()).step_by(threads);
            for key in mine.map(|nth| keys.get(nth)) {
                tree.put(key, &value_of(key).to_le_bytes());
            }
        })?;
        push(&mut answer, name, share, keys.len());
        check(&tree, &keys, 0)?;
        if name != "insert" {
            continue;
        }
        let share = retried(&tree, threads, |thread| {
            let order = Permutation::new(keys.len() as u64, 3);
            let mine = (thread..keys.len()).step_by(threads);
            for key in mine.map(|nth| keys.get(order.at(nth as u64) as usize)) {
                tree.put(key, &value_of(key).wrapping_add(1).to_le_bytes());
            }
        })?;
        push(&mut answer, "update", share, keys.len());
        let share = retried(&tree, threads, |thread| {
            let mine = (thread..keys.len()).step_by(threads);
            for key in mine.map(|nth| keys.get(nth)) {
                std::hint::black_box(tree.contains(key));
            }
        })?;
        push(&mut answer, "read", share, keys.len());
        check(&tree, &keys, 1)?;
    }
    Ok(answer)
}

/// What the tree counts while all threads work: retries, and those from the root.
fn retried<C: Configuration>(
    tree: &BwTree<C>,
    threads: usize,
    work: impl Fn(usize) + Sync,
) -> Result<(f64, f64)>
where
    BwTree<C>: Sync,
{
    let counted = || {
        let counters = tree.counters();
        let of = |name| counters.get(name).unwrap_or(0.0);
        (of("retries"), of("root_retries"))
    };
    let before = counted();
    at_once(threads, |thread| {
        work(thread);
        Ok(())
    })?;
    let after = counted();
    Ok((after.0 - before.0, after.1 - before.1))
}

fn push(answer: &mut Answer, name: &str, (all, from_root): (f64, f64), operations: usize) {
    let columns = [
        (name.to_owned(), all),
        (format!("{name}, from the root"), from_root),
    ];
    for (column, count) in columns {
        let share = 100.0 * count / operations as f64;
        answer.push(&column, "% of operations", Better::Lower, share);
    }
}

/// Looks every key up.
fn check<C: Configuration>(tree: &BwTree<C>, keys: &Keys, added: u64) -> Result<()> {
    for key in keys.iter() {
        let right = value_of(key).wrapping_add(added).to_le_bytes();
        if tree.get_with(key, |value| value == right) != Some(true) {
            let what = format!("\"{}\" is lost or old", key.escape_ascii());
            return Err(LabError::WrongAnswer(what));
        }
    }
    Ok(())
}
