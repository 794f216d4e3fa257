//! Skew against hard partitioning (§6.6, Fig. 11).
//!
//! Hard-partitioned: each thread owns a Masstree of its own, built for one thread, and serves
//! the requests for its partition; the throughput is that of all requests together when the
//! slowest is done, as clients keep to the skew. Shared: one concurrent Masstree, and every
//! thread serves an equal part of the same requests. There are as many partitions as threads:
//! one for each core, up to the paper's 16 (at least two), so a machine of few cores can show
//! no more than a factor of as many. All threads are on one chip here, where the paper had
//! three, so partitioning gains no nearer memory.

use std::sync::Barrier;

use hedgerow_lab_contender::{Map, NewMap, Tally, value_of};
use hedgerow_lab_data::random::Random;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::{pin_this_thread, timed};
use crate::pace;
use crate::registry::Registry;
use crate::verify::{SCRIPT_KEYS, verify_entry};
use crate::{LabError, Result};

const SHARED: &str = "hedgerow inline";
const PARTITIONED: &str = "hedgerow hard-partitioned";

/// What a partition's thread runs.
const ALONE: &str = "hedgerow single-threaded";

/// The experiment.
pub struct Skew;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    keys: usize,
    requests: usize,
    partitions: usize,
    /// How many times more requests than another the hot partition gets on top.
    skew: usize,
}

impl Experiment for Skew {
    fn about(&self) -> About {
        About {
            name: "masstree/fig11",
            title: "Skewed gets: one shared tree or a tree for each core",
            source: "Masstree, §6.6, Fig. 11",
            claim: "Hard partitioning does 1.5 times the uniform gets of a shared Masstree, and \
                    falls behind as skew grows: at δ = 9 the shared tree does 3.5 times its gets.",
            x_label: Some("skew δ"),
            x_log: false,
            baseline: PARTITIONED,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let named = |name: &'static str, map: &str| {
            let mut entry = registry.map(map)?.entry.clone();
            entry.name = name;
            Some(Participant {
                entry,
                available: Ok(()),
                environment: Vec::new(),
            })
        };
        let both = [named(SHARED, SHARED), named(PARTITIONED, ALONE)];
        both.into_iter().flatten().collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let keys = settings.keys(20_000, 2_000_000, 140_000_000);
        let partitions = settings.cores.clamp(2, 16);
        let requests = keys.min(20_000_000);
        let skews: &[usize] = settings
            .scale
            .pick(&[0, 9], &[0, 1, 3, 6, 9], &[0, 1, 3, 6, 9]);
        let points = skews.iter().map(|&skew| {
            let workload = Workload {
                keys,
                requests,
                partitions,
                skew,
            };
            Ok(Point {
                parameters: [
                    ("keys".to_owned(), keys.into()),
                    ("key set".to_owned(), "decimal".into()),
                    ("partitions".to_owned(), partitions.into()),
                ]
                .into(),
                x: Some(X::Number(skew as f64)),
                contenders: vec![SHARED, PARTITIONED],
                need: Need {
                    memory_bytes: keys as u64 * 180 + requests as u64 * 20 + (64 << 20),
                    disk_bytes: 0,
                    shared_seconds: 0.05 + (keys + requests) as f64 * 0.2e-6,
                    own_seconds: (keys + 2 * requests) as f64 * 0.7e-6 / partitions as f64,
                    verify_seconds: pace::VERIFY_SECONDS,
                },
                verified_by: serde_json::json!(keys.min(SCRIPT_KEYS)),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let partitioned = job.contender == PARTITIONED;
        let name = if partitioned { ALONE } else { SHARED };
        let map = registry
            .map(name)
            .ok_or_else(|| LabError::Usage(format!("this build has no {name}")))?;
        let keys = KeySet::Decimal.keys(workload.keys)?;
        if job.stage == Stage::Verify {
            verify_entry(map, &keys.select(0..keys.len().min(SCRIPT_KEYS)))?;
            return Ok(Answer::default());
        }
        let shares = shares(&workload, &keys, partitioned);
        match map.build.as_ref().map_err(LabError::unavailable)? {
            NewMap::Concurrent(new) => {
                let map = new();
                serve(&shares, &|work| work(&*map))
            }
            NewMap::Single(new) => serve(&shares, &|work| work(&*new())),
        }
    }
}

/// One thread's part: the keys that it inserts, and the requests that it serves.
struct Share {
    load: Keys,
    requests: Keys,
}

/// Draws the requests, the same for both contenders, and deals them out: by partition, or
/// evenly. Key `n` belongs to partition `n` modulo their number; the hot one is the first.
fn shares(workload: &Workload, keys: &Keys, partitioned: bool) -> Vec<Share> {
    let &Workload {
        requests,
        partitions,
        skew,
        ..
    } = workload;
    let mut random = Random::new(11);
    let mut drawn: Vec<Vec<usize>> = vec![Vec::new(); partitions];
    let each = keys.len() / partitions;
    for request in 0..requests {
        // The hot partition has 1 + δ lots, every other one.
        let lot = random.below((partitions + skew) as u64) as usize;
        let partition = lot.saturating_sub(skew);
        let key = random.below(each as u64) as usize * partitions + partition;
        let server = if partitioned {
            partition
        } else {
            request % partitions
        };
        drawn[server].push(key);
    }
    let load = |thread: usize| keys.select((thread..keys.len()).step_by(partitions));
    let shares = drawn.into_iter().enumerate();
    shares
        .map(|(thread, drawn)| Share {
            load: load(thread),
            requests: keys.select(drawn),
        })
        .collect()
}

/// Hands a thread its map: the shared one, or one of its own.
type WithMap<'a> = &'a (dyn Fn(&mut dyn FnMut(&dyn Map)) + Sync);

/// Loads and serves all shares, a pinned thread each; `with_map` hands a thread its map.
fn serve(shares: &[Share], with_map: WithMap<'_>) -> Result<Answer> {
    let barrier = Barrier::new(shares.len());
    let results: Vec<(f64, Tally)> = std::thread::scope(|scope| {
        let workers: Vec<_> = shares
            .iter()
            .enumerate()
            .map(|(thread, share)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    pin_this_thread(thread);
                    let mut result = (0.0, Tally::default());
                    with_map(&mut |map| {
                        map.put_run(share.load.all(), 0);
                        barrier.wait();
                        let few = share.requests.len().div_ceil(16);
                        std::hint::black_box(map.get_run(share.requests.range(0..few)));
                        barrier.wait();
                        result = timed(|| map.get_run(share.requests.all()));
                    });
                    result
                })
            })
            .collect();
        let results = workers.into_iter();
        results
            .map(|worker| worker.join().expect("a timed run panicked"))
            .collect()
    });
    for (share, (_, seen)) in shares.iter().zip(&results) {
        let mut right = Tally::default();
        let keys = share.requests.iter();
        keys.for_each(|key| right.count(Some(value_of(key))));
        if *seen != right {
            return Err(LabError::WrongAnswer(format!(
                "gets in a timed run: {seen:?}, not {right:?}"
            )));
        }
    }
    let slowest = results
        .iter()
        .map(|(seconds, _)| *seconds)
        .fold(0.0, f64::max);
    let busy: f64 = results.iter().map(|(seconds, _)| seconds).sum();
    let requests = shares.iter().map(|share| share.requests.len()).sum();
    let mut answer = Answer::default();
    answer.push_mops("get", requests, slowest);
    let idle = 100.0 * (1.0 - busy / (slowest * shares.len() as f64));
    answer.push("idle", "% of cores", Better::Lower, idle.max(0.0));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_gives_the_hot_partition_its_share_and_both_the_same_requests() {
        let workload = Workload {
            keys: 4000,
            requests: 40_000,
            partitions: 4,
            skew: 9,
        };
        let keys = KeySet::Decimal.keys(workload.keys).expect("keys");
        let parts = shares(&workload, &keys, true);
        let sizes: Vec<usize> = parts.iter().map(|share| share.requests.len()).collect();
        // (1 + 9) / (4 + 9) of the requests.
        assert!((30_000..31_500).contains(&sizes[0]), "{sizes:?}");
        assert!(parts.iter().all(|share| share.load.len() == 1000));
        let sorted = |shares: Vec<Share>| {
            let mut all: Vec<Vec<u8>> = shares
                .iter()
                .flat_map(|share| share.requests.iter().map(<[u8]>::to_vec))
                .collect();
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(parts), sorted(shares(&workload, &keys, false)));
    }
}
