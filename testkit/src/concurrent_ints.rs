//! Random work on a concurrent map from integers: by one thread beside the model, and by many
//! threads with a recorded history.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Bound, ControlFlow};
use std::sync::Barrier;

use hedgerow_index::{ConcurrentIntMap, Direction, OrderedIntMap};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::history::{Action, Clock, ScanBound, ThreadHistory, Violation, check};
use crate::int_workload::{IntRun, RandomKey};

/// How a run of many threads is shaped.
#[derive(Debug, Clone, Copy)]
pub struct ConcurrentIntRun {
    /// The keys that all threads work on: 0, 1, … in a scattered order of insertion, and so few
    /// that threads meet.
    pub keys: u64,
    /// Threads, each with a random stream of its own.
    pub threads: usize,
    /// Operations of each thread.
    pub operations: usize,
    /// Seed of all random choices (not of the interleaving, which is the machine's).
    pub seed: u64,
}

fn same<T: PartialEq + Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, the model says {want:?}"))
    }
}

/// Runs `run` on an empty map beside the model; the map is empty again afterwards.
///
/// # Errors
///
/// The first difference, or violated invariant, in words.
pub fn check_sequential<K, M>(map: &M, run: &IntRun) -> Result<(), String>
where
    K: RandomKey,
    M: ConcurrentIntMap<K>,
{
    let mut rng = StdRng::seed_from_u64(run.seed);
    let mut model: BTreeMap<K, u64> = BTreeMap::new();
    // Grow, shrink, grow, shrink.
    let phase = run.operations.div_ceil(4).max(1);
    for number in 0..run.operations {
        let key = run.random_key(&mut rng);
        let inserts = if (number / phase).is_multiple_of(2) {
            80
        } else {
            12
        };
        if rng.random_range(0..100) < inserts {
            let present = model.get(&key).copied();
            model.entry(key).or_insert(number as u64);
            same(
                &format!("insert {key:?}"),
                map.insert(key, number as u64),
                present,
            )?;
        } else {
            same(
                &format!("remove {key:?}"),
                map.remove(key),
                model.remove(&key),
            )?;
        }
        let asked: K = run.random_key(&mut rng);
        same(
            &format!("get {asked:?}"),
            map.get(asked),
            model.get(&asked).copied(),
        )?;
        if number.is_multiple_of(run.verify_every.max(1)) {
            check_all(map, &model).map_err(|e| format!("after operation {number}: {e}"))?;
        }
    }
    while let Some((key, word)) = model.pop_last() {
        same(&format!("remove {key:?}"), map.remove(key), Some(word))?;
    }
    check_all(map, &model)
}

/// Invariants, number of keys, and a batch of all keys.
fn check_all<K, M>(map: &M, model: &BTreeMap<K, u64>) -> Result<(), String>
where
    K: RandomKey,
    M: ConcurrentIntMap<K>,
{
    map.verify()?;
    same(
        "keys",
        map.statistics().get("keys"),
        Some(model.len() as f64),
    )?;
    let keys: Vec<K> = model.keys().copied().chain([K::from_word(77)]).collect();
    let mut found = vec![None; keys.len()];
    let mut calls = 0;
    map.get_many(&keys, |at, word| {
        found[at] = word;
        calls += 1;
    });
    same("calls of get_many", calls, keys.len())?;
    let wanted: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
    same("get_many", found, wanted)
}

/// Compares scans from random keys, neighbours and both ways with the model's, on a map that is
/// filled for it.
///
/// # Errors
///
/// The first difference in words.
pub fn check_scans<K, M>(map: &M, run: &IntRun) -> Result<(), String>
where
    K: RandomKey,
    M: OrderedIntMap<K>,
{
    let mut rng = StdRng::seed_from_u64(run.seed);
    let mut model: BTreeMap<K, u64> = BTreeMap::new();
    for number in 0..run.operations {
        let key = run.random_key(&mut rng);
        if rng.random_range(0..3) == 0 {
            map.remove(key);
            model.remove(&key);
        } else {
            map.insert(key, number as u64);
            model.entry(key).or_insert(number as u64);
        }
        if number.is_multiple_of(run.verify_every.max(1)) {
            let key: K = run.random_key(&mut rng);
            scans_from(map, &model, key, rng.random_range(1..200))?;
        }
    }
    Ok(())
}

fn scans_from<K, M>(map: &M, model: &BTreeMap<K, u64>, key: K, most: usize) -> Result<(), String>
where
    K: RandomKey,
    M: OrderedIntMap<K>,
{
    let pair = |(key, word): (&K, &u64)| (*key, *word);
    same(
        "successor",
        map.successor(key),
        model.range(key..).next().map(pair),
    )?;
    same(
        "predecessor",
        map.predecessor(key),
        model.range(..=key).next_back().map(pair),
    )?;
    for from in [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded] {
        let forward = model.range((from, Bound::Unbounded)).map(pair);
        let wanted: Vec<_> = forward.take(most).collect();
        let what = format!("scan from {from:?}");
        same(&what, pairs(map, from, Direction::Forward, most), wanted)?;
        let reverse = model.range((Bound::Unbounded, from)).rev().map(pair);
        let wanted: Vec<_> = reverse.take(most).collect();
        let what = format!("reverse {what}");
        same(&what, pairs(map, from, Direction::Reverse, most), wanted)?;
    }
    Ok(())
}

/// The first `most` pairs, which are not 0.
fn pairs<K, M>(map: &M, from: Bound<K>, direction: Direction, most: usize) -> Vec<(K, u64)>
where
    K: RandomKey,
    M: OrderedIntMap<K>,
{
    let mut seen = Vec::new();
    map.scan(from, direction, |key, word| {
        seen.push((key, word));
        match seen.len() == most {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    seen
}

/// What a thread may ask beside `get`, `get_many`, `insert` and `remove`: nothing, or scans.
trait Asks<M>: Sync {
    fn scan(&self, map: &M, history: &mut ThreadHistory, keys: u64, rng: &mut StdRng);
}

struct NoScans;
struct Scans;

impl<M> Asks<M> for NoScans {
    fn scan(&self, _: &M, _: &mut ThreadHistory, _: u64, _: &mut StdRng) {}
}

impl<M: OrderedIntMap<u64>> Asks<M> for Scans {
    fn scan(&self, map: &M, history: &mut ThreadHistory, keys: u64, rng: &mut StdRng) {
        let direction = match rng.random_bool(0.5) {
            true => Direction::Forward,
            false => Direction::Reverse,
        };
        let from = rng.random_range(0..keys);
        let most = rng.random_range(1..=keys as usize + 1);
        let bound = ScanBound {
            from: Bound::Included(from.to_be_bytes().to_vec()),
            direction,
        };
        history.record_scan(bound, || {
            let seen = pairs(map, Bound::Included(from), direction, most);
            let reached_end = seen.len() < most;
            let bytes = |(key, word): (u64, u64)| (key.to_be_bytes().to_vec(), word);
            (seen.into_iter().map(bytes).collect(), reached_end)
        });
    }
}

/// Runs `run` on an empty map by many threads and checks that what they saw is linearizable.
///
/// # Errors
///
/// The key and the operations that no order explains, or the violated invariant.
pub fn check_concurrent<M: ConcurrentIntMap<u64>>(
    map: &M,
    run: &ConcurrentIntRun,
) -> Result<(), Violation> {
    concurrent(map, run, &NoScans)
}

/// As [`check_concurrent`], with scans among the operations.
///
/// # Errors
///
/// As [`check_concurrent`].
pub fn check_concurrent_scans<M: OrderedIntMap<u64>>(
    map: &M,
    run: &ConcurrentIntRun,
) -> Result<(), Violation> {
    concurrent(map, run, &Scans)
}

fn concurrent<M: ConcurrentIntMap<u64>>(
    map: &M,
    run: &ConcurrentIntRun,
    asks: &impl Asks<M>,
) -> Result<(), Violation> {
    let (clock, barrier) = (Clock::start(), Barrier::new(run.threads));
    let histories: Vec<ThreadHistory> = std::thread::scope(|scope| {
        let work = |thread| {
            let (barrier, history) = (&barrier, ThreadHistory::new(clock, thread));
            scope.spawn(move || {
                barrier.wait();
                one_thread(map, run, asks, history, thread)
            })
        };
        let threads: Vec<_> = (0..run.threads).map(work).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|h| h.expect("a worker panicked")).collect()
    });
    let keys: Vec<Vec<u8>> = (0..run.keys)
        .map(|key| key.to_be_bytes().to_vec())
        .collect();
    check(&keys, &histories, |_| None)?;
    map.verify()
        .map_err(|problem| Violation(format!("verify after the run: {problem}")))
}

fn one_thread<M: ConcurrentIntMap<u64>>(
    map: &M,
    run: &ConcurrentIntRun,
    asks: &impl Asks<M>,
    mut history: ThreadHistory,
    thread: usize,
) -> ThreadHistory {
    let mut rng = StdRng::seed_from_u64(run.seed ^ (thread as u64).wrapping_mul(0x9e37_79b9));
    for _ in 0..run.operations {
        let key = rng.random_range(0..run.keys);
        match rng.random_range(0..16) {
            0..5 => {
                let word = history.fresh_value();
                history.record(key as usize, || {
                    let found = map.insert(key, word);
                    let new = Some(found.unwrap_or(word));
                    (Action::Update { found, new }, ())
                });
            }
            5..10 => history.record(key as usize, || {
                let found = map.remove(key);
                (Action::Update { found, new: None }, ())
            }),
            10..14 => history.record(key as usize, || {
                let found = map.get(key);
                (Action::Get { found }, ())
            }),
            14 => {
                let count = rng.random_range(1..=20);
                let keys: Vec<u64> = (0..count).map(|_| rng.random_range(0..run.keys)).collect();
                history.record_many(|| {
                    let mut found = vec![None; keys.len()];
                    map.get_many(&keys, |at, word| found[at] = word);
                    keys.iter().map(|&key| key as usize).zip(found).collect()
                });
            }
            _ => asks.scan(map, &mut history, run.keys, &mut rng),
        }
    }
    history
}
