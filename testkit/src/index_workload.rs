//! Random work on an index: by one thread beside the model, and by many threads with a recorded
//! history.
//!
//! Both drivers take any [`Index`], so every tree of the family (and the model itself) does the
//! same work; as `dyn Index`, so that they are compiled once. Few keys and adversarial shapes make
//! conflicts, splits and layer changes frequent. Values carry a number of their own and a padding
//! that depends on it: a value that is torn, stale or freed too early cannot pass for a right one.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Barrier;

use hedgerow_index::{Decision, Direction, Index, IndexExt, ScanRange, ValuePart};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::history::{Action, Clock, ScanBound, ThreadHistory, Violation, check};

/// How a concurrent run is shaped.
#[derive(Debug, Clone)]
pub struct ConcurrentRun {
    /// The keys that all threads work on.
    pub keys: Vec<Vec<u8>>,
    /// Threads, each with a random stream of its own.
    pub threads: usize,
    /// Operations of each thread.
    pub operations: usize,
    /// Out of 100: how often an operation removes.
    pub remove_percent: u32,
    /// Seed of all random choices (not of the interleaving, which is the machine's).
    pub seed: u64,
}

/// These drivers run where nothing breaks.
const FAILS: &str = "the index failed";

/// The bytes stored for `number`: 8 to 71 bytes, all determined by it.
pub fn encode_value(number: u64, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&number.to_le_bytes());
    let padding = (number % 8) as usize * 9;
    bytes.resize(8 + padding, number.to_le_bytes()[0] ^ 0x5a);
}

/// The number in a value, or `None` if the bytes are not what [`encode_value`] makes.
pub fn decode_value(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(bytes.first_chunk().copied()?);
    let mut expected = Vec::new();
    encode_value(number, &mut expected);
    (expected == bytes).then_some(number)
}

fn decoded(bytes: &[u8]) -> u64 {
    decode_value(bytes).unwrap_or_else(|| panic!("a value that nobody wrote: {bytes:?}"))
}

fn put(index: &dyn Index, key: &[u8], number: u64, buffer: &mut Vec<u8>) {
    index
        .update(key, ValuePart::Whole, buffer, &mut |_, new| {
            encode_value(number, new);
            Decision::Put(())
        })
        .expect(FAILS);
}

fn remove(index: &dyn Index, key: &[u8], buffer: &mut Vec<u8>) -> bool {
    index
        .modify(key, ValuePart::Whole, buffer, |old, _| match old {
            Some(_) => Decision::Remove(true),
            None => Decision::Keep(false),
        })
        .expect(FAILS)
}

/// Runs `run` on an index and checks what the threads saw. The index may hold other keys only
/// if nothing else removes or adds keys among `run.keys` meanwhile; those of `run.keys` must be
/// absent at the start.
pub fn check_concurrent(index: &dyn Index, run: &ConcurrentRun) -> Result<(), Violation> {
    let clock = Clock::start();
    let barrier = Barrier::new(run.threads);
    let histories: Vec<ThreadHistory> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..run.threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    one_thread(index, run, ThreadHistory::new(clock, thread), thread)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a worker panicked"))
            .collect()
    });
    check(&run.keys, &histories, |_| None)?;
    index
        .verify()
        .map_err(|problem| Violation(format!("verify after the run: {problem}")))
}

fn one_thread(
    index: &dyn Index,
    run: &ConcurrentRun,
    mut history: ThreadHistory,
    thread: usize,
) -> ThreadHistory {
    let mut rng = StdRng::seed_from_u64(run.seed ^ (thread as u64).wrapping_mul(0x9e37_79b9));
    let mut buffer = Vec::new();
    for _ in 0..run.operations {
        let key = rng.random_range(0..run.keys.len());
        let bytes = run.keys[key].as_slice();
        if rng.random_range(0..100) < run.remove_percent {
            history.record(key, || {
                let existed = Some(remove(index, bytes, &mut buffer));
                (Action::Remove { existed }, ())
            });
            continue;
        }
        match rng.random_range(0..10) {
            0..4 => {
                let value = history.fresh_value();
                history.record(key, || {
                    put(index, bytes, value, &mut buffer);
                    (Action::Put { value }, ())
                });
            }
            4 => swap(index, &mut history, key, bytes, &mut buffer),
            5..8 => history.record(key, || {
                let found = index.read(bytes, ValuePart::Whole, decoded).expect(FAILS);
                (Action::Get { found }, ())
            }),
            8 => get_many(index, run, &mut history, &mut rng),
            _ => scan(index, run, &mut history, &mut rng),
        }
    }
    history
}

/// A read-modify-write: replaces what is there, and inserts where nothing is.
fn swap(
    index: &dyn Index,
    history: &mut ThreadHistory,
    key: usize,
    bytes: &[u8],
    buffer: &mut Vec<u8>,
) {
    let value = history.fresh_value();
    history.record(key, || {
        let found = index
            .modify(bytes, ValuePart::Whole, buffer, |old, new| {
                encode_value(value, new);
                Decision::Put(old.map(decoded))
            })
            .expect(FAILS);
        (
            Action::Update {
                found,
                new: Some(value),
            },
            (),
        )
    });
}

fn get_many(index: &dyn Index, run: &ConcurrentRun, history: &mut ThreadHistory, rng: &mut StdRng) {
    let count = rng.random_range(1..=20);
    let chosen: Vec<usize> = (0..count)
        .map(|_| rng.random_range(0..run.keys.len()))
        .collect();
    let keys: Vec<&[u8]> = chosen.iter().map(|&key| run.keys[key].as_slice()).collect();
    history.record_many(|| {
        let mut found: Vec<Option<Option<u64>>> = vec![None; keys.len()];
        index
            .get_many(&keys, &mut |i, value| {
                let twice = found[i].replace(value.map(decoded));
                assert_eq!(twice, None, "get_many answered key {i} twice");
            })
            .expect(FAILS);
        let answers = chosen.iter().zip(found);
        answers
            .map(|(&key, f)| (key, f.expect("get_many left a key out")))
            .collect()
    });
}

fn scan(index: &dyn Index, run: &ConcurrentRun, history: &mut ThreadHistory, rng: &mut StdRng) {
    let bound = random_bound(&run.keys, rng);
    let limit = rng.random_range(1..=run.keys.len() + 1);
    let from = bound.clone();
    history.record_scan(bound, || {
        let mut visited = Vec::new();
        let range = ScanRange::starting_at(from.from_ref(), from.direction).limited(limit);
        index
            .scan(&range, &mut |key, value| {
                visited.push((key.to_vec(), decoded(value)));
                ControlFlow::Continue(())
            })
            .expect(FAILS);
        let reached_end = visited.len() < limit;
        (visited, reached_end)
    });
}

fn random_bound(keys: &[Vec<u8>], rng: &mut StdRng) -> ScanBound {
    let key = keys[rng.random_range(0..keys.len())].clone();
    let from = match rng.random_range(0..4) {
        0 => Bound::Excluded(key),
        1 => Bound::Unbounded,
        _ => Bound::Included(key),
    };
    let forward = rng.random_bool(0.5);
    ScanBound {
        from,
        direction: if forward {
            Direction::Forward
        } else {
            Direction::Reverse
        },
    }
}

/// Runs random operations on an empty index beside a `BTreeMap` and compares every answer; runs
/// `verify` after every hundred operations.
pub fn check_sequential(
    index: &dyn Index,
    keys: &[Vec<u8>],
    operations: usize,
    seed: u64,
) -> Result<(), Violation> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut model: BTreeMap<&[u8], u64> = BTreeMap::new();
    let mut buffer = Vec::new();
    // The run swings between growth and shrinking, so that nodes fill up and empty out.
    let mut remove_percent = 20;
    for number in 0..operations {
        if number % 500 == 0 {
            remove_percent = [10, 30, 60, 80][rng.random_range(0..4)];
        }
        if number % 100 == 0 {
            verify_against(index, &model)?;
        }
        let key = keys[rng.random_range(0..keys.len())].as_slice();
        let wrong = |what: &str| {
            Err(Violation(format!(
                "operation {number} (seed {seed}): {what} of {key:?} is wrong"
            )))
        };
        match rng.random_range(0..100) {
            percent if percent < remove_percent => {
                if remove(index, key, &mut buffer) != model.remove(key).is_some() {
                    return wrong("remove");
                }
            }
            percent if percent < 90 => {
                put(index, key, number as u64, &mut buffer);
                model.insert(key, number as u64);
            }
            percent if percent < 97 => {
                let found = index.read(key, ValuePart::Whole, decoded).expect(FAILS);
                if found != model.get(key).copied() {
                    return wrong("get");
                }
            }
            _ => {
                let range = RandomRange::new(keys, &mut rng);
                let (found, expected) = (range.scan(index), range.of_model(&model));
                if found != expected {
                    return wrong(&format!("{range:?}"));
                }
            }
        }
    }
    verify_against(index, &model)
}

/// A range of a scan between any bounds, in the right order or not.
#[derive(Debug)]
struct RandomRange {
    from: ScanBound,
    to: Bound<Vec<u8>>,
    limit: usize,
    values: bool,
}

impl RandomRange {
    fn new(keys: &[Vec<u8>], rng: &mut StdRng) -> Self {
        Self {
            from: random_bound(keys, rng),
            to: random_bound(keys, rng).from,
            limit: match rng.random_range(0..4) {
                0 => rng.random_range(0..3),
                1 => usize::MAX,
                _ => rng.random_range(3..40),
            },
            values: rng.random_bool(0.8),
        }
    }

    fn range(&self) -> ScanRange<'_> {
        ScanRange {
            to: self.to.as_ref().map(Vec::as_slice),
            limit: self.limit,
            values: self.values,
            ..ScanRange::starting_at(self.from.from_ref(), self.from.direction)
        }
    }

    /// What an index shows of the range; of values that it need not show, nothing.
    fn scan(&self, index: &dyn Index) -> Vec<(Vec<u8>, u64)> {
        let mut pairs = Vec::new();
        index
            .scan(&self.range(), &mut |key, value| {
                let value = if self.values { decoded(value) } else { 0 };
                pairs.push((key.to_vec(), value));
                ControlFlow::Continue(())
            })
            .expect(FAILS);
        pairs
    }

    fn of_model(&self, model: &BTreeMap<&[u8], u64>) -> Vec<(Vec<u8>, u64)> {
        let range = self.range();
        if range.is_empty() {
            return Vec::new();
        }
        let own =
            |(key, value): (&&[u8], &u64)| (key.to_vec(), if self.values { *value } else { 0 });
        let pairs = model.range::<[u8], _>(range.bounds());
        match range.direction {
            Direction::Forward => pairs.take(self.limit).map(own).collect(),
            Direction::Reverse => pairs.rev().take(self.limit).map(own).collect(),
        }
    }
}

fn verify_against(index: &dyn Index, model: &BTreeMap<&[u8], u64>) -> Result<(), Violation> {
    index.verify().map_err(Violation)?;
    for direction in [Direction::Forward, Direction::Reverse] {
        let all = RandomRange {
            from: ScanBound {
                from: Bound::Unbounded,
                direction,
            },
            to: Bound::Unbounded,
            limit: usize::MAX,
            values: true,
        };
        if all.scan(index) != all.of_model(model) {
            return Err(Violation(format!(
                "a whole scan {direction:?} differs from the model"
            )));
        }
    }
    Ok(())
}
