//! An engine must answer rightly before it is timed.
//!
//! A script of puts, removes, lookups, batches and scans runs on the engine and on a model, and
//! every answer is compared; a durable engine is closed and opened again in the midst of it.

use std::collections::BTreeMap;
use std::ops::Bound;

use hedgerow_lab_contender::{Store, StoreEntry, StoreError};
use hedgerow_lab_data::random::Random;
use hedgerow_lab_data::{KeySet, Keys};
use tempfile::TempDir;

use super::values::Values;
use super::{Commits, StoreWorkload};
use crate::{LabError, Result};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of a script.
const KEYS: usize = 1000;

/// Runs the script with a workload's keys, values and settings; the engine's own words where it
/// cannot honour these.
///
/// # Errors
///
/// The first difference, in words, or that the engine fails.
pub(super) fn verify(entry: &StoreEntry, workload: &StoreWorkload) -> Result<Option<String>> {
    let open = entry.open.as_ref().map_err(LabError::unavailable)?;
    let name = entry.entry.name;
    let set: KeySet = workload.set.parse()?;
    let keys = set.up_to(KEYS)?;
    let (steps, opens) = match (workload.commits, entry.entry.promises.durable) {
        (Commits::Sync, _) => (200, 2),
        (_, true) => (4000, 2),
        (_, false) => (8000, 1),
    };
    let directory = TempDir::with_prefix("hedgerow-lab-")?;
    let mut script = Script {
        name,
        keys: &keys,
        values: Values::new(workload.value_bytes),
        random: Random::new(11),
        model: Model::new(),
    };
    for turn in 0..opens {
        let store = match open(directory.path(), &workload.settings()) {
            Ok(store) => store,
            // An engine says at once what it cannot honour; later it has no excuse.
            Err(why) if turn == 0 => return Ok(Some(why.to_string())),
            Err(why) => return Err(LabError::Process(format!("{name} does not reopen: {why}"))),
        };
        let engine = |error: StoreError| LabError::Process(format!("{name} failed: {error}"));
        script.steps(&*store, steps).map_err(engine)??;
        script.scans(&*store).map_err(engine)??;
        if entry.entry.promises.durable {
            script.batch(&*store).map_err(engine)?;
            store.sync().map_err(engine)?;
        }
        script.scans(&*store).map_err(engine)??;
    }
    Ok(None)
}

/// What the engine fails with, and what it answers wrongly.
type Compared = std::result::Result<Result<()>, StoreError>;

struct Script<'a> {
    name: &'a str,
    keys: &'a Keys,
    values: Values,
    random: Random,
    model: Model,
}

impl Script<'_> {
    fn key(&mut self) -> Vec<u8> {
        let nth = self.random.below(self.keys.len() as u64) as usize;
        self.keys.get(nth).to_vec()
    }

    fn wrong(&self, what: &str, key: &[u8]) -> Result<()> {
        let key = key.escape_ascii();
        let what = format!("{}: {what} \"{key}\" is not the model's", self.name);
        Err(LabError::WrongAnswer(what))
    }

    fn steps(&mut self, store: &dyn Store, steps: u64) -> Compared {
        let (mut value, mut found) = (Vec::new(), Vec::new());
        for step in 0..steps {
            let key = self.key();
            match self.random.below(8) {
                0..=3 => {
                    self.values.make(&key, step, &mut value);
                    store.put(&key, &value)?;
                    self.model.insert(key, value.clone());
                }
                4 => {
                    store.remove(&key)?;
                    self.model.remove(&key);
                }
                _ => {
                    let there = store.get(&key, &mut found)?;
                    if there.then_some(&found) != self.model.get(&key) {
                        return Ok(self.wrong("get", &key));
                    }
                }
            }
        }
        Ok(Ok(()))
    }

    fn batch(&mut self, store: &dyn Store) -> std::result::Result<(), StoreError> {
        let mut pairs = Model::new();
        for nth in 0..40 {
            let key = self.key();
            let mut value = Vec::new();
            self.values.make(&key, nth, &mut value);
            pairs.insert(key, value);
        }
        let borrowed: Vec<(&[u8], &[u8])> = pairs.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        store.put_all(&borrowed)?;
        self.model.append(&mut pairs);
        Ok(())
    }

    fn scans(&self, store: &dyn Store) -> Compared {
        let all = self.model.len() + 10;
        for (nth, (from, _)) in self.model.iter().enumerate().step_by(37) {
            let count = if nth == 0 { all } else { 50 };
            let mut seen = Vec::new();
            store.scan(from, count, &mut |key, value| {
                seen.push((key.to_vec(), value.to_vec()));
            })?;
            let range = (Bound::Included(from.as_slice()), Bound::Unbounded);
            let right = self.model.range::<[u8], _>(range).take(count);
            if !right.eq(seen.iter().map(|(key, value)| (key, value))) {
                return Ok(self.wrong("a scan from", from));
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use hedgerow_lab_contender::{OpenStore, StoreSettings};

    use super::*;
    use crate::registry::Registry;

    /// An engine that loses one record in a hundred: what a broken contender looks like.
    #[derive(Default)]
    struct Leaky(Mutex<(u64, Model)>);

    impl Store for Leaky {
        fn put(&self, key: &[u8], value: &[u8]) -> std::result::Result<(), StoreError> {
            let mut inner = self.0.lock().expect("no panic");
            inner.0 += 1;
            if !inner.0.is_multiple_of(100) {
                inner.1.insert(key.to_vec(), value.to_vec());
            }
            Ok(())
        }
        fn get(&self, key: &[u8], value: &mut Vec<u8>) -> std::result::Result<bool, StoreError> {
            let inner = self.0.lock().expect("no panic");
            value.clear();
            let found = inner.1.get(key);
            value.extend(found.into_iter().flatten());
            Ok(found.is_some())
        }
        fn remove(&self, key: &[u8]) -> std::result::Result<(), StoreError> {
            self.0.lock().expect("no panic").1.remove(key);
            Ok(())
        }
        fn scan(
            &self,
            _from: &[u8],
            _count: usize,
            _visit: &mut dyn FnMut(&[u8], &[u8]),
        ) -> std::result::Result<usize, StoreError> {
            Ok(0)
        }
        fn put_all(&self, _: &[(&[u8], &[u8])]) -> std::result::Result<(), StoreError> {
            Ok(())
        }
        fn sync(&self) -> std::result::Result<(), StoreError> {
            Ok(())
        }
    }

    fn leaky(
        _: &Path,
        _: &StoreSettings,
    ) -> std::result::Result<Box<dyn Store + Send + Sync>, StoreError> {
        Ok(Box::new(Leaky::default()))
    }

    #[test]
    fn an_engine_that_loses_records_is_caught_and_those_of_this_build_are_right() {
        let registry = Registry::new();
        let workload = StoreWorkload::new("decimal", 1000, 100, Commits::Never);
        for entry in registry.stores.iter().filter(|store| store.open.is_ok()) {
            let refused = verify(entry, &workload).expect(entry.entry.name);
            assert_eq!(refused, None, "{}", entry.entry.name);
        }
        let broken = StoreEntry {
            open: Ok(leaky as OpenStore),
            ..registry.stores[0].clone()
        };
        let error = verify(&broken, &workload).expect_err("it is broken");
        assert!(error.to_string().contains("is not the model's"), "{error}");
    }
}
