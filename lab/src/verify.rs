//! A contender must answer rightly before it is timed.
//!
//! A script of puts, removes and lookups runs on an empty map and on a model, and every answer
//! is compared; then the timed forms (runs) are compared on what the script left. What a
//! contender does not promise, such as order, is not asked.

use hedgerow_lab_contender::{Map, MapEntry, NewMap, Step, Steps, Tally, value_of};
use hedgerow_lab_data::random::Random;
use hedgerow_lab_data::{KeyRange, Keys, Kind};

use crate::{LabError, Result};
use hedgerow_lab_own::BTreeMark;

/// Most keys of a script; a tree of this many has several levels.
pub const SCRIPT_KEYS: usize = 30_000;

/// Pairs that a scan of the script asks for.
const SCAN_PAIRS: usize = 50;

/// Verifies a contender of the registry on (at most [`SCRIPT_KEYS`] of) these keys.
///
/// # Errors
///
/// The first difference, in words, or that the contender cannot be had.
pub fn verify_entry(map: &MapEntry, keys: &Keys) -> Result<()> {
    let build = map.build.as_ref().map_err(LabError::unavailable)?;
    let keys = keys.select(0..keys.len().min(SCRIPT_KEYS));
    let ordered = map.entry.promises.ordered;
    match build {
        NewMap::Single(new) => verify_beside(map, &*new(), &keys, ordered),
        NewMap::Concurrent(new) => verify_beside(map, &*new(), &keys, ordered),
    }
}

/// Beside the model of what the entry says that it is.
fn verify_beside(entry: &MapEntry, map: &dyn Map, keys: &Keys, ordered: bool) -> Result<()> {
    let name = entry.entry.name;
    if entry.entry.promises.keys_only {
        run_script(name, map, &SetModel::default(), keys, ordered)
    } else {
        verify(name, map, keys, ordered)
    }
}

/// The model of a set: it forgets values, and says [`value_of`] a key that it holds.
#[derive(Default)]
struct SetModel(BTreeMark);

impl Map for SetModel {
    fn put(&self, key: &[u8], _: u64) {
        self.0.put(key, value_of(key));
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        self.0.scan(from, count, visit);
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        self.0.scan_run(keys, count)
    }
}

/// Runs a script of operations on an empty map and on a model, and compares all answers.
///
/// # Errors
///
/// The first difference, in words.
pub fn verify(name: &str, map: &dyn Map, keys: &Keys, ordered: bool) -> Result<()> {
    run_script(name, map, &BTreeMark::default(), keys, ordered)
}

fn run_script(
    name: &str,
    map: &dyn Map,
    model: &dyn Map,
    keys: &Keys,
    ordered: bool,
) -> Result<()> {
    let mut random = Random::new(7);
    for step in 0..keys.len() as u64 * 3 {
        let key = keys.get(random.below(keys.len() as u64) as usize);
        let value = random.next_u64();
        match value % 8 {
            0..=3 => {
                map.put(key, value);
                model.put(key, value);
            }
            4 | 5 => {
                let (seen, right) = (map.remove(key), model.remove(key));
                if seen != right {
                    return wrong(name, step, "remove", key, &seen, &right);
                }
            }
            _ => {
                let (seen, right) = (map.get(key), model.get(key));
                if seen != right {
                    return wrong(name, step, "get", key, &seen, &right);
                }
            }
        }
    }
    compare_lookups(name, map, model, keys)?;
    if ordered {
        compare_scans(name, map, model, keys)?;
    }
    compare_mixed(name, map, model, keys, ordered)?;
    compare_removal(name, map, model, keys)
}

fn wrong(
    name: &str,
    step: u64,
    what: &str,
    key: &[u8],
    seen: &dyn std::fmt::Debug,
    right: &dyn std::fmt::Debug,
) -> Result<()> {
    Err(LabError::WrongAnswer(format!(
        "{name}: {what} \"{}\" at step {step}: {seen:?}, not {right:?}",
        key.escape_ascii()
    )))
}

fn differ(name: &str, what: &str, seen: Tally, right: Tally) -> Result<()> {
    if seen == right {
        return Ok(());
    }
    Err(LabError::WrongAnswer(format!(
        "{name}: {what} add up to {seen:?}, not {right:?}"
    )))
}

fn compare_lookups(name: &str, map: &dyn Map, model: &dyn Map, keys: &Keys) -> Result<()> {
    let sample = || keys.range(0..keys.len().min(10_000));
    let right = model.get_run(sample());
    differ(name, "gets", map.get_run(sample()), right)?;
    differ(name, "dependent gets", map.dependent_run(sample()), right)?;
    for group in [64, 7] {
        if let Some(seen) = map.get_many_run(sample(), group) {
            differ(name, &format!("lookups in groups of {group}"), seen, right)?;
        }
    }
    Ok(())
}

fn compare_scans(name: &str, map: &dyn Map, model: &dyn Map, keys: &Keys) -> Result<()> {
    let step = keys.len().div_ceil(500).max(1);
    for key in keys.iter().step_by(step) {
        let (mut seen, mut right) = (Vec::new(), Vec::new());
        map.scan(key, SCAN_PAIRS, &mut |key, value| {
            seen.push((key.to_vec(), value));
        });
        model.scan(key, SCAN_PAIRS, &mut |key, value| {
            right.push((key.to_vec(), value));
        });
        if seen != right {
            return Err(LabError::WrongAnswer(format!(
                "{name}: a scan of {SCAN_PAIRS} from \"{}\" gives {} pairs that are not the \
                 model's {}",
                key.escape_ascii(),
                seen.len(),
                right.len()
            )));
        }
    }
    let from = || keys.range(0..keys.len().min(500));
    let right = model.scan_run(from(), 20);
    differ(name, "scans of 20", map.scan_run(from(), 20), right)
}

/// The loop that takes a different operation with every key.
fn compare_mixed(
    name: &str,
    map: &dyn Map,
    model: &dyn Map,
    keys: &Keys,
    ordered: bool,
) -> Result<()> {
    let mut random = Random::new(11);
    let mut used = Keys::new();
    let mut steps = Vec::new();
    for _ in 0..keys.len().min(20_000) {
        let kind = Kind::ALL[random.below(Kind::ALL.len() as u64) as usize];
        let length = 1 + random.below(20) as u32;
        steps.push(match kind {
            Kind::Scan if ordered => Step::new(kind, length),
            Kind::Scan => continue,
            kind => Step::new(kind, 0),
        });
        used.push(keys.get(random.below(keys.len() as u64) as usize));
    }
    let steps = Steps::new(&used, &steps);
    let right = model.mixed_run(&steps);
    differ(name, "mixed operations", map.mixed_run(&steps), right)?;
    let right = model.get_run(keys.all());
    let seen = map.get_run(keys.all());
    differ(name, "gets after mixed operations", seen, right)
}

fn compare_removal(name: &str, map: &dyn Map, model: &dyn Map, keys: &Keys) -> Result<()> {
    let (seen, right) = (map.remove_run(keys.all()), model.remove_run(keys.all()));
    if seen != right {
        return Err(LabError::WrongAnswer(format!(
            "{name}: {seen} keys removed, not {right}"
        )));
    }
    differ(
        name,
        "gets after removing all",
        map.get_run(keys.all()),
        Tally::default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use hedgerow_lab_comparison_trees as comparison_trees;
    use hedgerow_lab_data::KeySet;

    fn keys(set: &str, count: usize) -> Keys {
        let set: KeySet = set.parse().expect("a key set");
        set.keys(count).expect("keys")
    }

    /// A map whose scans stop one pair early: what a broken contender looks like.
    struct Forgetful(BTreeMark);

    impl Map for Forgetful {
        fn put(&self, key: &[u8], value: u64) {
            self.0.put(key, value);
        }
        fn get(&self, key: &[u8]) -> Option<u64> {
            self.0.get(key)
        }
        fn remove(&self, key: &[u8]) -> bool {
            self.0.remove(key)
        }
        fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
            self.0.scan(from, count.min(SCAN_PAIRS - 1), visit);
        }
        fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
            self.0.scan_run(keys, count)
        }
    }

    #[test]
    fn a_wrong_contender_is_caught() {
        let keys = keys("decimal", 3000);
        let check = |ordered| verify("x", &Forgetful(BTreeMark::default()), &keys, ordered);
        let error = check(true).unwrap_err().to_string();
        assert!(error.contains("a scan of 50"), "{error}");
        check(false).expect("nobody asked for order");
    }

    #[test]
    fn every_ordered_map_answers_rightly_on_every_shape_of_keys() {
        let registry = Registry::new();
        let sets = [
            "sparse-u64",
            "decimal",
            "prefixed-decimal:40",
            "dense-u32",
            "path",
            "email",
        ];
        for set in sets {
            let keys = keys(set, 8000);
            for map in registry.ordered_maps().filter(|map| map.build.is_ok()) {
                let limits = registry.limits(map.entry.name);
                if limits.scan_refusal(&keys).is_none() {
                    verify_entry(map, &keys).unwrap_or_else(|error| panic!("{set}: {error}"));
                }
            }
        }
    }

    #[test]
    fn every_set_answers_rightly_and_no_map_passes_for_one() {
        let registry = Registry::new();
        for (set, bytes) in [("dense-u32", 4), ("monotone-u32", 4), ("sparse-u64", 8)] {
            let keys = keys(set, 8000);
            let of_width = |map: &&MapEntry| {
                map.build.is_ok() && map.entry.promises.longest_key == Some(bytes)
            };
            for entry in registry.sets.iter().filter(of_width) {
                verify_entry(entry, &keys).unwrap_or_else(|error| panic!("{set}: {error}"));
            }
            let flat = format!("matryoshka flat u{}", 8 * bytes);
            let mut map = registry.map(&flat).expect("a map").clone();
            map.entry.promises.keys_only = true;
            verify_entry(&map, &keys).expect_err("it keeps values");
        }
    }

    #[test]
    fn every_comparison_tree_answers_rightly() {
        for name in comparison_trees::NAMES {
            let tree = comparison_trees::tree(name).expect(name);
            let sets: &[&str] = match tree.entry.promises.longest_key {
                None => &["sparse-u64", "decimal", "prefixed-decimal:40", "email"],
                Some(4) => &["dense-u32", "monotone-u32"],
                Some(_) => &["sparse-u64", "prefixed-decimal:0", "dense-u64"],
            };
            for set in sets {
                let set: KeySet = set.parse().expect("a key set");
                let keys = set.keys(20_000).expect("keys");
                verify_entry(&tree, &keys).unwrap_or_else(|error| panic!("{set}: {error}"));
            }
        }
        assert!(comparison_trees::tree("no tree").is_none());
    }
}
