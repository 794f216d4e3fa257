//! Random work on an index of integers, beside a `BTreeMap`: every answer compared, the
//! invariants verified again and again.
//!
//! Keys come from shapes that lead down the rare paths of search trees: dense runs that split at
//! the right edge, few keys that come and go, the ends of the key space (where padding and
//! arithmetic go wrong), and keys that share most bits. A run goes through phases that mostly
//! grow and phases that mostly shrink, so that splits, merges and the collapse of roots all
//! happen, whatever the capacities.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{BulkLoad, Direction, IntIndex, IntKey};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// How the keys of a run are made from random words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntShape {
    /// All of the key space.
    Uniform,
    /// Small numbers next to one another.
    Dense,
    /// Within a few of the least and the greatest key.
    Ends,
    /// Few bits set, far apart.
    Sparse,
}

impl IntShape {
    /// Every shape.
    pub const ALL: [Self; 4] = [Self::Uniform, Self::Dense, Self::Ends, Self::Sparse];

    fn word(self, rng: &mut StdRng, range: u64) -> u64 {
        let number = rng.random_range(0..range.max(1));
        match self {
            // A bijection of the number, so that keys are met again.
            Self::Uniform => number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            Self::Dense => number,
            Self::Ends if number.is_multiple_of(2) => number / 2,
            Self::Ends => u64::MAX - number / 2,
            Self::Sparse => (number & 0xff) << 56 | (number >> 8 & 0xff) << 20 | number >> 16,
        }
    }
}

/// Keys that random words can be made into.
pub trait RandomKey: IntKey {
    /// A key that keeps the word's upper and lower ends.
    fn from_word(word: u64) -> Self;
}

impl RandomKey for u64 {
    fn from_word(word: u64) -> Self {
        word
    }
}

impl RandomKey for i64 {
    fn from_word(word: u64) -> Self {
        Self::decode(word)
    }
}

impl RandomKey for u32 {
    fn from_word(word: u64) -> Self {
        (word >> 32) as u32 ^ word as u32 ^ if word >> 63 == 1 { u32::MAX } else { 0 }
    }
}

impl RandomKey for i32 {
    fn from_word(word: u64) -> Self {
        Self::decode(u32::from_word(word))
    }
}

/// Values that a run stores.
pub trait RandomValue: Copy + PartialEq + Debug {
    /// A value for the `number`-th write.
    fn numbered(number: u64) -> Self;
}

impl RandomValue for u64 {
    fn numbered(number: u64) -> Self {
        number
    }
}

impl RandomValue for u32 {
    fn numbered(number: u64) -> Self {
        number as u32
    }
}

impl RandomValue for () {
    fn numbered(_: u64) -> Self {}
}

/// How a run is shaped.
#[derive(Debug, Clone, Copy)]
pub struct IntRun {
    /// The shape of its keys.
    pub shape: IntShape,
    /// How many different keys there are, about.
    pub range: u64,
    /// Operations in all.
    pub operations: usize,
    /// The invariants are verified after so many operations.
    pub verify_every: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

impl IntRun {
    /// The next key.
    pub(crate) fn random_key<K: RandomKey>(&self, rng: &mut StdRng) -> K {
        K::from_word(self.shape.word(rng, self.range))
    }
}

/// Runs `run` on an empty index beside the model.
///
/// # Errors
///
/// The first difference, or violated invariant, in words.
pub fn check_int_index<K, I>(index: &mut I, run: &IntRun) -> Result<(), String>
where
    K: RandomKey,
    I: IntIndex<K>,
    I::Value: RandomValue,
{
    let mut rng = StdRng::seed_from_u64(run.seed);
    let mut model: BTreeMap<K, I::Value> = BTreeMap::new();
    // Grow, shrink, grow beyond, then to nothing: four phases.
    let phase = run.operations.div_ceil(4).max(1);
    for number in 0..run.operations {
        let key = run.random_key::<K>(&mut rng);
        let inserts = if (number / phase).is_multiple_of(2) {
            80
        } else {
            12
        };
        if rng.random_range(0..100) < inserts {
            let value = I::Value::numbered(number as u64);
            let (got, want) = (index.insert(key, value), model.insert(key, value));
            same(&format!("insert {key:?}"), got, want)?;
        } else {
            let (got, want) = (index.remove(key), model.remove(&key));
            same(&format!("remove {key:?}"), got, want)?;
        }
        same("len", index.len(), model.len())?;
        let asked = run.random_key::<K>(&mut rng);
        check_searches(index, &model, asked)?;
        if number.is_multiple_of(64) {
            check_scans(index, &model, asked, rng.random_range(1..200))?;
        }
        if number.is_multiple_of(run.verify_every.max(1)) {
            index
                .verify()
                .map_err(|problem| format!("after operation {number}: {problem}"))?;
        }
    }
    check_batches(index, &model, run, &mut rng)?;
    empty_out(index, model, &mut rng, run.verify_every)
}

fn same<T: PartialEq + Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, the model says {want:?}"))
    }
}

fn check_searches<K, I>(index: &I, model: &BTreeMap<K, I::Value>, key: K) -> Result<(), String>
where
    K: IntKey,
    I: IntIndex<K>,
    I::Value: RandomValue,
{
    same(
        &format!("get {key:?}"),
        index.get(key),
        model.get(&key).copied(),
    )?;
    let (got, want) = (index.predecessor(key), IntIndex::predecessor(model, key));
    same(&format!("predecessor of {key:?}"), got, want)?;
    let (got, want) = (index.successor(key), IntIndex::successor(model, key));
    same(&format!("successor of {key:?}"), got, want)
}

fn check_scans<K, I>(
    index: &I,
    model: &BTreeMap<K, I::Value>,
    key: K,
    count: usize,
) -> Result<(), String>
where
    K: IntKey,
    I: IntIndex<K>,
    I::Value: RandomValue,
{
    for direction in [Direction::Forward, Direction::Reverse] {
        for from in [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded] {
            let got = pairs(index, from, direction, count);
            let want = pairs(model, from, direction, count);
            same(&format!("scan {direction:?} from {from:?}"), got, want)?;
        }
    }
    Ok(())
}

fn pairs<K: IntKey, I: IntIndex<K>>(
    index: &I,
    from: Bound<K>,
    direction: Direction,
    count: usize,
) -> Vec<(K, I::Value)> {
    let mut seen = Vec::new();
    index.scan(from, direction, |key, value| {
        seen.push((key, value));
        if seen.len() == count {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    seen
}

fn check_batches<K, I>(
    index: &I,
    model: &BTreeMap<K, I::Value>,
    run: &IntRun,
    rng: &mut StdRng,
) -> Result<(), String>
where
    K: RandomKey,
    I: IntIndex<K>,
    I::Value: RandomValue,
{
    for size in [0, 1, 7, 16, 17, 100] {
        let keys: Vec<K> = (0..size)
            .map(|_| K::from_word(run.shape.word(rng, run.range)))
            .collect();
        let mut next = 0;
        let mut problem = None;
        index.get_many(&keys, |position, value| {
            let want = keys.get(position).and_then(|key| model.get(key)).copied();
            if position != next || value != want {
                problem = Some(format!("get_many of {size}: {position} gave {value:?}"));
            }
            next += 1;
        });
        same("answers of get_many", next, size)?;
        problem.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Removes everything in random order: merges all the way down.
fn empty_out<K, I>(
    index: &mut I,
    model: BTreeMap<K, I::Value>,
    rng: &mut StdRng,
    verify_every: usize,
) -> Result<(), String>
where
    K: RandomKey,
    I: IntIndex<K>,
    I::Value: RandomValue,
{
    let mut left: Vec<(K, I::Value)> = model.into_iter().collect();
    left.shuffle(rng);
    while let Some((key, value)) = left.pop() {
        same(&format!("remove {key:?}"), index.remove(key), Some(value))?;
        if left.len().is_multiple_of(verify_every.max(1)) {
            index
                .verify()
                .map_err(|problem| format!("with {} keys left to remove: {problem}", left.len()))?;
        }
    }
    same("len at the end", index.len(), 0)?;
    check_scans(index, &BTreeMap::new(), K::from_word(0), 3)
}

/// Bulk loads of many sizes: everything is there, and the index can be worked on afterwards.
///
/// # Errors
///
/// The first difference, or violated invariant, in words.
pub fn check_bulk_load<K, I>(index: &mut I, sizes: &[u64]) -> Result<(), String>
where
    K: RandomKey,
    I: BulkLoad<K>,
    I::Value: RandomValue,
{
    for &size in sizes {
        let model: BTreeMap<K, I::Value> = (0..size)
            .map(|number| {
                let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (K::from_word(word), I::Value::numbered(number))
            })
            .collect();
        index
            .bulk_load(model.iter().map(|(&key, &value)| (key, value)))
            .map_err(|error| format!("a bulk load of {size}: {error}"))?;
        index
            .verify()
            .map_err(|problem| format!("after a bulk load of {size}: {problem}"))?;
        same("len after a bulk load", index.len(), model.len())?;
        check_scans(index, &model, K::from_word(0), usize::MAX)?;
        let mut rng = StdRng::seed_from_u64(size);
        let every = (model.len() / 8).max(1);
        empty_out(index, model, &mut rng, every)?;
    }
    let twice = K::from_word(1);
    let pairs = [
        (twice, I::Value::numbered(0)),
        (twice, I::Value::numbered(1)),
    ];
    if index.bulk_load(pairs).is_ok() {
        return Err("a bulk load with a key twice was accepted".to_owned());
    }
    same("len after a refused bulk load", index.len(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(shape: IntShape, range: u64) -> IntRun {
        IntRun {
            shape,
            range,
            operations: 2_000,
            verify_every: 100,
            seed: range,
        }
    }

    #[test]
    fn the_model_agrees_with_itself_on_every_shape() {
        for shape in IntShape::ALL {
            let run = run(shape, 300);
            check_int_index(&mut BTreeMap::<u64, u64>::new(), &run).expect("u64");
            check_int_index(&mut BTreeMap::<i32, ()>::new(), &run).expect("i32");
        }
        check_bulk_load(&mut BTreeMap::<u32, u32>::new(), &[0, 1, 50]).expect("bulk");
    }

    /// Forgets to remove one key in so many.
    struct Forgetful(BTreeMap<u64, u64>, usize);

    impl IntIndex<u64> for Forgetful {
        type Value = u64;

        fn len(&self) -> usize {
            self.0.len()
        }

        fn get(&self, key: u64) -> Option<u64> {
            IntIndex::get(&self.0, key)
        }

        fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
            self.0.insert(key, value)
        }

        fn remove(&mut self, key: u64) -> Option<u64> {
            self.1 += 1;
            if self.1.is_multiple_of(97) {
                return IntIndex::get(&self.0, key);
            }
            self.0.remove(&key)
        }

        fn predecessor(&self, key: u64) -> Option<(u64, u64)> {
            self.0.predecessor(key)
        }

        fn successor(&self, key: u64) -> Option<(u64, u64)> {
            self.0.successor(key)
        }

        fn scan(
            &self,
            from: Bound<u64>,
            direction: Direction,
            visit: impl FnMut(u64, u64) -> ControlFlow<()>,
        ) {
            self.0.scan(from, direction, visit);
        }

        fn statistics(&self) -> hedgerow_index::Statistics {
            self.0.statistics()
        }

        fn verify(&self) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_forgotten_removal_is_found() {
        let run = run(IntShape::Dense, 50);
        check_int_index(&mut Forgetful(BTreeMap::new(), 0), &run).expect_err("a lost removal");
    }
}
