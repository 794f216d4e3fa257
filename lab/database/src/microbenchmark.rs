//! The microbenchmark of §3.1 on a map as a database's index has it: threads that look up, insert
//! and remove keys of a space of which half is there.

use std::sync::atomic::{AtomicI64, Ordering};

use hedgerow_lab_data::random::{Random, mix64};

use crate::error::{Error, Result};
use crate::key_map::KeyMap;
use crate::outcome::Outcome;
use crate::workers::{self, Harness, Worker};

/// Operations of a step, between which a thread looks whether another is done.
const STEP: u64 = 64;

/// A run. Its outcome counts operations as index operations and steps as committed.
#[derive(Debug, Clone, Copy)]
pub struct Microbenchmark {
    /// Keys that are there to begin with; the space has twice as many.
    pub keys: u64,
    /// Threads.
    pub threads: usize,
    /// Operations of each thread. The run ends when the first thread has done its own.
    pub operations: u64,
    /// Lookups among a hundred operations; the rest are insertions and removals alike.
    pub lookup_percent: u64,
    /// What random numbers are made from.
    pub seed: u64,
}

impl Microbenchmark {
    /// Fills an empty map and runs the operations.
    ///
    /// # Errors
    ///
    /// [`Error::Inconsistent`] if the map is broken, or its keys are not those that were inserted
    /// and not removed.
    pub fn run(&self, map: &dyn KeyMap, harness: Harness) -> Result<Outcome> {
        let space = self.keys * 2;
        let mut random = Random::for_thread(self.seed, u64::MAX);
        let mut present = 0;
        while present < self.keys {
            let key = mix64(random.below(space));
            present += u64::from(map.insert(key, key).is_none());
        }
        let added = AtomicI64::new(0);
        let worker = |thread| Client {
            map,
            space,
            lookup_percent: self.lookup_percent,
            random: Random::for_thread(self.seed, thread as u64),
            operations: 0,
            added: 0,
            found: 0,
            all_added: &added,
        };
        let steps = self.operations.div_ceil(STEP);
        let outcome = workers::run(self.threads, steps, harness, worker)?;
        map.verify().map_err(Error::Inconsistent)?;
        let expected = self.keys as i64 + added.into_inner();
        let keys = (0..space).map(mix64);
        let found = keys.filter(|key| map.get(*key) == Some(*key)).count() as i64;
        match found == expected {
            true => Ok(outcome),
            false => Err(Error::Inconsistent(format!(
                "the map has {found} of {expected} keys"
            ))),
        }
    }
}

struct Client<'a> {
    map: &'a dyn KeyMap,
    space: u64,
    lookup_percent: u64,
    random: Random,
    operations: u64,
    /// Keys inserted less keys removed.
    added: i64,
    /// A sum of what was found, so that lookups are not optimised away.
    found: u64,
    all_added: &'a AtomicI64,
}

impl Worker for Client<'_> {
    fn step(&mut self) -> Result<()> {
        for _ in 0..STEP {
            let key = mix64(self.random.below(self.space));
            let drawn = self.random.below(200);
            if drawn < 2 * self.lookup_percent {
                self.found = self
                    .found
                    .wrapping_add(self.map.get(key).unwrap_or_default());
            } else if drawn.is_multiple_of(2) {
                self.added += i64::from(self.map.insert(key, key).is_none());
            } else {
                self.added -= i64::from(self.map.remove(key).is_some());
            }
        }
        self.operations += STEP;
        Ok(())
    }

    fn outcome(&self, seconds: f64) -> Outcome {
        Outcome {
            threads: 1,
            committed: self.operations / STEP,
            index_operations: self.operations,
            seconds,
            index_seconds: seconds,
            ..Outcome::default()
        }
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        std::hint::black_box(self.found);
        self.all_added.fetch_add(self.added, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_matryoshka::SharedMatryoshka;

    use super::*;

    /// A map that loses every hundredth removal, and says that it did not.
    struct Forgetful(SharedMatryoshka<u64>);

    impl KeyMap for Forgetful {
        fn get(&self, key: u64) -> Option<u64> {
            self.0.get(key)
        }

        fn insert(&self, key: u64, word: u64) -> Option<u64> {
            self.0.insert(key, word)
        }

        fn remove(&self, key: u64) -> Option<u64> {
            match key % 100 {
                0 => self.0.get(key),
                _ => self.0.remove(key),
            }
        }

        fn verify(&self) -> std::result::Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_map_that_loses_a_removal_is_found() {
        let run = Microbenchmark {
            keys: 300,
            threads: 2,
            operations: 20_000,
            lookup_percent: 50,
            seed: 3,
        };
        let outcome = run
            .run(&SharedMatryoshka::<u64>::new(), Harness::default())
            .expect("all keys");
        assert!(outcome.index_operations >= 20_000);
        let lost = run.run(&Forgetful(SharedMatryoshka::new()), Harness::default());
        assert!(
            lost.expect_err("too many keys")
                .to_string()
                .contains("keys")
        );
    }
}
