//! Tree contenders: one small adaptor each.
//!
//! An adaptor offers single operations, used to check its answers against a model, and runs
//! over slices of keys, used for timing. The defaults of the runs call the single operations;
//! an adaptor overrides a run where its users would do better, such as holding a guard.

use std::hint::black_box;

use crate::keys::Key;
use crate::{LabError, Result};

mod hedgerow_masstree;
#[cfg(feature = "peers")]
mod masstree_crate;
mod standard;

pub use hedgerow_masstree::{Alone, Indexed, Inline};
#[cfg(feature = "peers")]
pub use masstree_crate::MasstreeCrate;
pub use standard::BTreeMark;

/// What a timed run adds up, so that its answers can be checked and are not optimised away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Keys found or pairs visited.
    pub hits: u64,
    /// Wrapping sum of the values seen.
    pub sum: u64,
}

impl Tally {
    /// Counts one value, or a miss.
    #[inline]
    pub fn count(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.hits += 1;
            self.sum = self.sum.wrapping_add(value);
        }
    }

    /// Both tallies together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

/// An ordered map from keys to 8-byte values.
pub trait ContenderMap: Sized {
    /// An empty map.
    fn new() -> Self;

    /// Inserts or replaces.
    fn put(&self, key: &Key, value: u64);

    /// Looks up.
    fn get(&self, key: &Key) -> Option<u64>;

    /// Removes; whether the key was there.
    fn remove(&self, key: &Key) -> bool;

    /// Visits up to `count` pairs in order from `from` on.
    fn scan(&self, from: &Key, count: usize, visit: impl FnMut(&[u8], u64));

    /// Puts every key with its value plus `add`.
    fn put_run(&self, keys: &[Key], add: u64) {
        for key in keys {
            self.put(key, key.value().wrapping_add(add));
        }
    }

    /// Looks up every key, one after the other, none waiting for another's answer.
    fn get_run(&self, keys: &[Key]) -> Tally {
        let mut tally = Tally::default();
        for key in keys {
            tally.count(self.get(key));
        }
        tally
    }

    /// Looks up every key; which one is next depends on the last answer, so nothing overlaps.
    fn dependent_run(&self, keys: &[Key]) -> Tally {
        let zero = black_box(0u64);
        let mut tally = Tally::default();
        let mut last = 0;
        for index in 0..keys.len() as u64 {
            let value = self.get(&keys[(index + (last & zero)) as usize]);
            last = value.unwrap_or(0);
            tally.count(value);
        }
        tally
    }

    /// Looks up every key in groups of `group`, if the map can overlap their misses.
    fn get_many_run(&self, keys: &[Key], group: usize) -> Tally {
        let _ = group;
        self.get_run(keys)
    }

    /// Whether [`Self::get_many_run`] is more than single gets.
    const BATCHES: bool = false;

    /// Scans `count` pairs from every key.
    fn scan_run(&self, keys: &[Key], count: usize) -> Tally {
        let mut tally = Tally::default();
        for key in keys {
            self.scan(key, count, |key_bytes, value| {
                black_box(key_bytes);
                tally.count(Some(value));
            });
        }
        tally
    }

    /// Removes every key; how many were there.
    fn remove_run(&self, keys: &[Key]) -> u64 {
        keys.iter().filter(|key| self.remove(key)).count() as u64
    }
}

/// Runs a script of operations on an empty map and on a model, and compares all answers.
///
/// # Errors
///
/// The first difference, in words.
pub fn verify<M: ContenderMap>(name: &str, map: &M, keys: &[Key]) -> Result<()> {
    let mut model = BTreeMark::new();
    let wrong = |what: String| Err(LabError::WrongAnswer(format!("{name}: {what}")));
    let mut state = 7_u64;
    for step in 0..keys.len() as u64 * 3 {
        state = state
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        let key = &keys[(state >> 33) as usize % keys.len()];
        match (state >> 20) % 8 {
            0..=3 => {
                map.put(key, state);
                model.put(key, state);
            }
            4 | 5 => {
                let (ours, right) = (map.remove(key), model.remove(key));
                if ours != right {
                    return wrong(format!(
                        "remove {key:?} at step {step}: {ours}, not {right}"
                    ));
                }
            }
            _ => {
                let (ours, right) = (map.get(key), model.get(key));
                if ours != right {
                    return wrong(format!(
                        "get {key:?} at step {step}: {ours:?}, not {right:?}"
                    ));
                }
            }
        }
    }
    compare_runs(name, map, &mut model, keys)
}

/// Compares scans and the timed forms of lookups on the map that `verify` built.
fn compare_runs<M: ContenderMap>(
    name: &str,
    map: &M,
    model: &mut BTreeMark,
    keys: &[Key],
) -> Result<()> {
    let wrong = |what: String| Err(LabError::WrongAnswer(format!("{name}: {what}")));
    for key in keys.iter().step_by(keys.len().div_ceil(500)) {
        let (mut ours, mut right) = (Vec::new(), Vec::new());
        map.scan(key, 50, |key, value| ours.push((key.to_vec(), value)));
        model.scan(key, 50, |key, value| right.push((key.to_vec(), value)));
        if ours != right {
            return wrong(format!(
                "scan of 50 from {key:?}: {} pairs differ",
                ours.len()
            ));
        }
    }
    let sample = &keys[..keys.len().min(10_000)];
    let right = model.get_run(sample);
    for (form, ours) in [
        ("gets", map.get_run(sample)),
        ("dependent gets", map.dependent_run(sample)),
        ("get_many(64)", map.get_many_run(sample, 64)),
        ("get_many(7)", map.get_many_run(sample, 7)),
    ] {
        if ours != right {
            return wrong(format!("{form} add up to {ours:?}, not {right:?}"));
        }
    }
    let from = &sample[..sample.len().min(500)];
    let (ours, right) = (map.scan_run(from, 20), model.scan_run(from, 20));
    if ours != right {
        return wrong(format!("scans of 20 add up to {ours:?}, not {right:?}"));
    }
    let (ours, right) = (map.remove_run(keys), model.remove_run(keys));
    if ours != right {
        return wrong(format!("{ours} keys removed, not {right}"));
    }
    match map.get_run(keys).hits {
        0 => Ok(()),
        left => wrong(format!("{left} keys left after removing all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeySet;

    /// A map that forgets one removal: what a broken contender looks like.
    struct Forgetful(BTreeMark);

    impl ContenderMap for Forgetful {
        fn new() -> Self {
            Self(BTreeMark::new())
        }
        fn put(&self, key: &Key, value: u64) {
            self.0.put(key, value);
        }
        fn get(&self, key: &Key) -> Option<u64> {
            self.0.get(key)
        }
        fn remove(&self, key: &Key) -> bool {
            self.0.remove(key)
        }
        fn scan(&self, from: &Key, count: usize, visit: impl FnMut(&[u8], u64)) {
            self.0.scan(from, count.min(49), visit);
        }
    }

    #[test]
    fn the_model_agrees_with_itself() {
        for set in [KeySet::RandomU64, KeySet::Decimal] {
            verify("model", &BTreeMark::new(), &set.keys(3000)).expect("the mark is right");
        }
    }

    #[test]
    fn a_wrong_contender_is_caught() {
        let error = verify("forgetful", &Forgetful::new(), &KeySet::Decimal.keys(3000));
        assert!(error.unwrap_err().to_string().contains("scan of 50"));
    }

    #[test]
    fn our_masstree_answers_rightly_in_every_configuration() {
        for set in [KeySet::RandomU64, KeySet::Decimal, KeySet::Sequential] {
            let keys = set.keys(20_000);
            verify("inline", &Inline::new(), &keys).expect("right");
            verify("alone", &Alone::new(), &keys).expect("right");
            verify("indexed", &Indexed::new(), &keys).expect("right");
        }
    }

    #[cfg(feature = "peers")]
    #[test]
    fn the_masstree_crate_answers_rightly_on_our_sets() {
        for set in [KeySet::RandomU64, KeySet::Decimal] {
            verify("masstree crate", &MasstreeCrate::new(), &set.keys(20_000)).expect("right");
        }
    }
}
