//! The seven workloads of the Matryoshka report (its Table 2), as a test: every answer is known
//! beforehand, the invariants are verified, and at the end *everything* is deleted in random order.
//!
//! The report's superpages were never measured on three of the seven, those that delete the most:
//! they did not end. So what matters here is that each run ends, that it ends empty, and that it
//! does so at the report's sizes, millions of keys; a model that is a tree itself would take most
//! of the time, therefore an array says which numbers are stored.
//!
//! Keys ascend as their numbers do, with random gaps between them.

use std::fmt::Debug;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{BulkLoad, Direction, IntKey};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::int_workload::RandomValue;

/// One of the seven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportWorkload {
    /// Insert all keys in ascending order.
    SeqInsert,
    /// Insert all keys in random order.
    RandInsert,
    /// 95 % appends, 5 % searches.
    YcsbA,
    /// Load all keys, delete them in random order.
    RandDelete,
    /// Load all keys, then append and delete in turn, as often as there are keys.
    Mixed,
    /// Load all keys, then half deletes, half searches, until half of the keys are gone.
    YcsbB,
    /// Load all keys, replace a quarter of them, then search.
    SearchAfterChurn,
}

impl ReportWorkload {
    /// All seven, in the report's order.
    pub const ALL: [Self; 7] = [
        Self::SeqInsert,
        Self::RandInsert,
        Self::YcsbA,
        Self::RandDelete,
        Self::Mixed,
        Self::YcsbB,
        Self::SearchAfterChurn,
    ];

    /// The report's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SeqInsert => "seq_insert",
            Self::RandInsert => "rand_insert",
            Self::YcsbA => "ycsb_a",
            Self::RandDelete => "rand_delete",
            Self::Mixed => "mixed",
            Self::YcsbB => "ycsb_b",
            Self::SearchAfterChurn => "search_after_churn",
        }
    }
}

/// The greatest number of keys: their numbers, twice as many, have to fit into 32-bit keys.
pub const MOST_KEYS: u32 = 1 << 30;

/// Searches of the last workload, at most.
const MOST_SEARCHES: u32 = 5_000_000;

/// An index under work, and which numbers it holds.
struct Run<'a, K, I> {
    index: &'a mut I,
    stored: Vec<bool>,
    /// The numbers that are stored, in the order in which they are to be deleted.
    live: Vec<u32>,
    /// Number `n` has the keys from `n << gap` on to itself.
    gap: u32,
    rng: StdRng,
    key: std::marker::PhantomData<K>,
}

/// Runs a workload of so many keys on an empty index, and deletes what it leaves.
///
/// # Errors
///
/// The first wrong answer, or violated invariant, in words.
pub fn run<K, I>(
    index: &mut I,
    workload: ReportWorkload,
    keys: u32,
    seed: u64,
) -> Result<(), String>
where
    K: IntKey<Encoded: From<u32>>,
    I: BulkLoad<K, Value: RandomValue>,
{
    if keys == 0 || keys > MOST_KEYS {
        return Err(format!("{keys} keys: 1 to {MOST_KEYS} are possible"));
    }
    let mut run = Run {
        index,
        stored: vec![false; 2 * keys as usize],
        live: Vec::with_capacity(2 * keys as usize),
        gap: (2 * keys - 1).leading_zeros(),
        rng: StdRng::seed_from_u64(seed),
        key: std::marker::PhantomData,
    };
    run.work(workload, keys)?;
    run.index.verify()?;
    run.delete_everything()
}

impl<K, I> Run<'_, K, I>
where
    K: IntKey<Encoded: From<u32>>,
    I: BulkLoad<K, Value: RandomValue>,
{
    fn work(&mut self, workload: ReportWorkload, keys: u32) -> Result<(), String> {
        match workload {
            ReportWorkload::SeqInsert => (0..keys).try_for_each(|number| self.insert(number)),
            ReportWorkload::RandInsert => {
                let mut numbers: Vec<u32> = (0..keys).collect();
                numbers.shuffle(&mut self.rng);
                numbers
                    .into_iter()
                    .try_for_each(|number| self.insert(number))
            }
            ReportWorkload::YcsbA => (0..keys).try_for_each(|number| {
                self.insert(number)?;
                if number % 20 == 0 {
                    self.search(number)?;
                }
                Ok(())
            }),
            ReportWorkload::RandDelete => {
                self.load(keys)?;
                (0..keys).try_for_each(|_| self.delete())
            }
            ReportWorkload::Mixed => {
                self.load(keys)?;
                (0..keys / 2).try_for_each(|step| {
                    self.insert(keys + step)?;
                    self.delete()
                })
            }
            ReportWorkload::YcsbB => {
                self.load(keys)?;
                (0..keys / 2).try_for_each(|_| {
                    self.delete()?;
                    let number = self.rng.random_range(0..keys);
                    self.search(number)
                })
            }
            ReportWorkload::SearchAfterChurn => {
                self.load(keys)?;
                (0..keys / 4).try_for_each(|_| {
                    self.delete()?;
                    let number = self.rng.random_range(0..2 * keys);
                    self.insert(number)
                })?;
                (0..keys.min(MOST_SEARCHES)).try_for_each(|_| {
                    let number = self.rng.random_range(0..2 * keys);
                    self.search(number)
                })
            }
        }
    }

    /// The key of a number: some way into the keys that the number has to itself.
    fn key(&self, number: u32) -> K {
        let into = u64::from(number.wrapping_mul(0x9e37_79b9)) << self.gap >> 32;
        K::decode((number << self.gap | into as u32).into())
    }

    /// The last key that a number has to itself.
    fn last_key(&self, number: u32) -> K {
        K::decode((number << self.gap | ((1 << self.gap) - 1)).into())
    }

    fn load(&mut self, keys: u32) -> Result<(), String> {
        let pairs = (0..keys).map(|number| (self.key(number), I::Value::numbered(number.into())));
        let pairs: Vec<(K, I::Value)> = pairs.collect();
        let loaded = self.index.bulk_load(pairs);
        loaded.map_err(|error| error.to_string())?;
        self.stored[..keys as usize].fill(true);
        self.live.extend(0..keys);
        // What is deleted next is then random.
        self.live.shuffle(&mut self.rng);
        self.index.verify()
    }

    fn insert(&mut self, number: u32) -> Result<(), String> {
        let key = self.key(number);
        let value = I::Value::numbered(number.into());
        let stored = std::mem::replace(&mut self.stored[number as usize], true);
        same(
            "insert",
            number,
            self.index.insert(key, value),
            stored.then_some(value),
        )?;
        if !stored {
            self.live.push(number);
        }
        Ok(())
    }

    /// Deletes any of the stored keys.
    fn delete(&mut self) -> Result<(), String> {
        let at = self.rng.random_range(0..self.live.len());
        let number = self.live.swap_remove(at);
        self.stored[number as usize] = false;
        self.remove(number)
    }

    /// Removes a key that is there.
    fn remove(&mut self, number: u32) -> Result<(), String> {
        let want = I::Value::numbered(number.into());
        let got = self.index.remove(self.key(number));
        same("remove", number, got, Some(want))
    }

    /// The report's search: for the greatest key at or below one that need not be there.
    fn search(&mut self, number: u32) -> Result<(), String> {
        let found = (0..=number).rev().find(|&at| self.stored[at as usize]);
        let want = found.map(|at| (self.key(at), I::Value::numbered(at.into())));
        same(
            "predecessor",
            number,
            self.index.predecessor(self.last_key(number)),
            want,
        )
    }

    fn delete_everything(&mut self) -> Result<(), String> {
        let (mut live, count) = (std::mem::take(&mut self.live), self.index.len());
        same("len", 0, count, live.len())?;
        live.shuffle(&mut self.rng);
        for (done, &number) in live.iter().enumerate() {
            self.remove(number)?;
            if done == count / 2 || done + 100 == count {
                self.index.verify()?;
            }
        }
        self.index.verify()?;
        same("len at the end", 0, self.index.len(), 0)?;
        let mut left = None;
        self.index
            .scan(Bound::Unbounded, Direction::Forward, |key, _| {
                left = Some(key);
                ControlFlow::Break(())
            });
        same("what a scan finds at the end", 0, left, None)
    }
}

fn same<T: PartialEq + Debug>(what: &str, number: u32, got: T, want: T) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!(
            "{what}, number {number}: got {got:?}, expected {want:?}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hedgerow_index::{IntIndex, NotAscending, Statistics};

    use super::*;

    #[test]
    fn the_standard_map_passes() {
        for workload in ReportWorkload::ALL {
            let name = workload.name();
            for keys in [1, 2, 37, 3_000] {
                let mut map: BTreeMap<u64, u64> = BTreeMap::new();
                run(&mut map, workload, keys, 5).expect(name);
                let mut set: BTreeMap<i32, ()> = BTreeMap::new();
                run(&mut set, workload, keys, 5).expect(name);
            }
        }
    }

    /// A map that keeps its last key for ever, and says that it is gone.
    struct Keeps(BTreeMap<u64, u64>);

    impl IntIndex<u64> for Keeps {
        type Value = u64;

        fn len(&self) -> usize {
            self.0.len()
        }

        fn get(&self, key: u64) -> Option<u64> {
            IntIndex::get(&self.0, key)
        }

        fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
            IntIndex::insert(&mut self.0, key, value)
        }

        fn remove(&mut self, key: u64) -> Option<u64> {
            if self.0.len() == 1 {
                return IntIndex::get(&self.0, key);
            }
            IntIndex::remove(&mut self.0, key)
        }

        fn predecessor(&self, key: u64) -> Option<(u64, u64)> {
            IntIndex::predecessor(&self.0, key)
        }

        fn successor(&self, key: u64) -> Option<(u64, u64)> {
            IntIndex::successor(&self.0, key)
        }

        fn scan(
            &self,
            from: Bound<u64>,
            direction: Direction,
            visit: impl FnMut(u64, u64) -> ControlFlow<()>,
        ) {
            self.0.scan(from, direction, visit);
        }

        fn statistics(&self) -> Statistics {
            Statistics::new()
        }

        fn verify(&self) -> Result<(), String> {
            Ok(())
        }
    }

    impl BulkLoad<u64> for Keeps {
        fn bulk_load(
            &mut self,
            pairs: impl IntoIterator<Item = (u64, u64)>,
        ) -> Result<(), NotAscending> {
            self.0.bulk_load(pairs)
        }
    }

    #[test]
    fn a_key_that_stays_is_found() {
        for workload in ReportWorkload::ALL {
            let (mut index, name) = (Keeps(BTreeMap::new()), workload.name());
            run(&mut index, workload, 500, 5).expect_err(name);
        }
    }
}
