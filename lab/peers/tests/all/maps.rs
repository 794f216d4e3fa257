//! Every map that this build has, against a model: single operations in a random mix, scans from
//! keys and from between keys, all timed forms, and removal down to nothing.
//!
//! Each runs on the kinds of keys that its limits let through: random integers, short decimals,
//! and paths, which share long beginnings and are prefixes of each other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

use hedgerow_lab_contender::{Map, NewMap, Tally, value_of};
use hedgerow_lab_data::Keys;
use hedgerow_lab_data::random::Random;
use hedgerow_lab_peers::{MapPeer, maps};

/// Keys per set: enough for several levels of every tree.
const KEYS: usize = 20_000;

fn key_sets() -> Vec<(&'static str, Keys)> {
    let mut random = Random::new(7);
    let words = (0..KEYS).map(|_| random.next_u64().to_be_bytes()).collect();
    let decimals = (0..KEYS).map(|_| {
        let digits = 1 + random.below(10) as u32;
        random.below(10_u64.pow(digits)).to_string()
    });
    let decimals = decimals.collect();
    let folders = [
        "usr",
        "lib",
        "share",
        "doc",
        "python3",
        "x86_64-linux-gnu",
        "a",
    ];
    let paths = (0..KEYS).map(|_| {
        let mut path = String::new();
        for _ in 0..=random.below(6) {
            path.push('/');
            path.push_str(folders[random.below(folders.len() as u64) as usize]);
        }
        if random.below(2) == 0 {
            path.push_str(&format!("/file-{}.txt", random.below(5000)));
        }
        path
    });
    let paths = paths.collect();
    vec![
        ("random u64", words),
        ("decimals", decimals),
        ("paths", paths),
    ]
}

/// The model.
#[derive(Default)]
struct Model(RefCell<BTreeMap<Vec<u8>, u64>>);

impl Map for Model {
    fn put(&self, key: &[u8], value: u64) {
        self.0.borrow_mut().insert(key.to_vec(), value);
    }
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.borrow().get(key).copied()
    }
    fn remove(&self, key: &[u8]) -> bool {
        self.0.borrow_mut().remove(key).is_some()
    }
    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        let map = self.0.borrow();
        let range = map.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        range
            .take(count)
            .for_each(|(key, value)| visit(key, *value));
    }
    fn scan_run(&self, keys: hedgerow_lab_data::KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        for key in keys.iter() {
            self.scan(key, count, &mut |_, value| tally.count(Some(value)));
        }
        tally
    }
}

/// The first difference between a map and the model, in words.
fn difference(map: &dyn Map, keys: &Keys, scanned: bool) -> Result<(), String> {
    let model = Model::default();
    mixed(map, &model, keys)?;
    if scanned {
        scans(map, &model, keys)?;
    }
    runs(map, &model, keys)
}

/// The same for a map to be made, where a panic is a difference too.
fn difference_of(build: NewMap, keys: &Keys, scanned: bool) -> Result<(), String> {
    let result = std::panic::catch_unwind(|| match build {
        NewMap::Single(new) => difference(&*new(), keys, scanned),
        NewMap::Concurrent(new) => difference(&*new(), keys, scanned),
    });
    result.unwrap_or_else(|_| Err("panicked".to_owned()))
}

fn mixed(map: &dyn Map, model: &Model, keys: &Keys) -> Result<(), String> {
    let mut random = Random::new(11);
    for step in 0..keys.len() * 4 {
        let key = keys.get(random.below(keys.len() as u64) as usize);
        match random.below(8) {
            0..=3 => {
                // Whole words, so that a map that keeps tags in values is found out.
                let value = random.next_u64();
                map.put(key, value);
                model.put(key, value);
            }
            4 | 5 => {
                let (theirs, right) = (map.remove(key), model.remove(key));
                if theirs != right {
                    return Err(format!("remove {key:?} at step {step}: {theirs}"));
                }
            }
            _ => {
                let (theirs, right) = (map.get(key), model.get(key));
                if theirs != right {
                    return Err(format!(
                        "get {key:?} at step {step}: {theirs:?}, not {right:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn scans(map: &dyn Map, model: &Model, keys: &Keys) -> Result<(), String> {
    let few = keys.range(100..600);
    let (theirs, right) = (map.scan_run(few.clone(), 33), model.scan_run(few, 33));
    if theirs != right {
        return Err(format!("scan_run adds up to {theirs:?}, not {right:?}"));
    }
    // From keys that are there and keys that are not.
    for (index, key) in keys.iter().enumerate().step_by(17) {
        let count = [1, 3, 50, 200][index % 4];
        let (mut theirs, mut right) = (Vec::new(), Vec::new());
        map.scan(key, count, &mut |key, value| {
            theirs.push((key.to_vec(), value))
        });
        model.scan(key, count, &mut |key, value| {
            right.push((key.to_vec(), value))
        });
        if theirs != right {
            let same = theirs
                .iter()
                .zip(&right)
                .take_while(|(a, b)| a == b)
                .count();
            let text = |pairs: &[(Vec<u8>, u64)]| {
                pairs
                    .get(same)
                    .map(|(key, _)| String::from_utf8_lossy(key).into_owned())
            };
            return Err(format!(
                "scan of {count} from {:?}: pair {same} is {:?}, not {:?}",
                String::from_utf8_lossy(key),
                text(&theirs),
                text(&right)
            ));
        }
    }
    Ok(())
}

fn runs(map: &dyn Map, model: &Model, keys: &Keys) -> Result<(), String> {
    let some = keys.range(keys.len() / 3..keys.len() / 3 * 2);
    map.put_run(some.clone(), 5);
    model.put_run(some, 5);
    let forms = [
        (
            "get_run",
            map.get_run(keys.all()),
            model.get_run(keys.all()),
        ),
        (
            "dependent_run",
            map.dependent_run(keys.all()),
            model.dependent_run(keys.all()),
        ),
    ];
    for (form, theirs, right) in forms {
        if theirs != right {
            return Err(format!("{form} adds up to {theirs:?}, not {right:?}"));
        }
    }
    let (theirs, right) = (map.remove_run(keys.all()), model.remove_run(keys.all()));
    if theirs != right {
        return Err(format!("{theirs} keys removed, not {right}"));
    }
    match map.get_run(keys.all()).hits {
        0 => Ok(()),
        left => Err(format!("{left} keys left after removing all")),
    }
}

/// The maps of this build.
fn at_hand() -> impl Iterator<Item = (MapPeer, NewMap)> {
    maps()
        .into_iter()
        .filter_map(|peer| match peer.map.build.clone() {
            Ok(build) => Some((peer, build)),
            Err(unavailable) => {
                println!("skipped: {}: {unavailable}", peer.map.entry.name);
                None
            }
        })
}

#[test]
fn every_map_answers_rightly_within_its_limits() {
    let mut wrong = Vec::new();
    for (peer, build) in at_hand() {
        for (set, keys) in key_sets() {
            let name = peer.map.entry.name;
            if let Some(why) = peer.limits.refusal(&keys) {
                println!("{name}: no {set}: {why}");
                continue;
            }
            let start = std::time::Instant::now();
            let ordered = peer.map.entry.promises.ordered;
            let scan_refusal = match ordered {
                true => peer.limits.scan_refusal(&keys),
                false => Some("it has none".to_owned()),
            };
            if let Some(why) = &scan_refusal {
                println!("{name}: {set} without scans: {why}");
            }
            let result = difference_of(build, &keys, scan_refusal.is_none());
            println!("{name}: {set}: {result:?} in {:?}", start.elapsed());
            if let Err(what) = result {
                wrong.push(format!("{name} on {set}: {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn concurrent_maps_lose_nothing_of_many_threads() {
    let keys: Keys = (0..40_000_u64)
        .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes())
        .collect();
    for (peer, build) in at_hand() {
        let NewMap::Concurrent(new) = build else {
            continue;
        };
        let map = new();
        let (map, keys, quarter) = (&*map, &keys, keys.len() / 4);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let own = keys.range(thread * quarter..(thread + 1) * quarter);
                    map.put_run(own.clone(), 1);
                    assert_eq!(map.get_run(own.clone()).hits, quarter as u64);
                    let gone = keys.range(thread * quarter..thread * quarter + quarter / 2);
                    assert_eq!(map.remove_run(gone), quarter as u64 / 2);
                });
            }
        });
        let mut right = Tally::default();
        for thread in 0..4 {
            let left = keys.range(thread * quarter + quarter / 2..(thread + 1) * quarter);
            left.iter()
                .for_each(|key| right.count(Some(value_of(key).wrapping_add(1))));
        }
        let name = peer.map.entry.name;
        assert_eq!(map.get_run(keys.all()), right, "{name}");
        if !peer.map.entry.promises.ordered {
            continue;
        }
        let mut last: Vec<u8> = Vec::new();
        let mut pairs = 0;
        map.scan(&[0; 8], keys.len(), &mut |key, _| {
            assert!(
                pairs == 0 || last.as_slice() < key,
                "{name}: {key:?} after {last:?}"
            );
            last = key.to_vec();
            pairs += 1;
        });
        assert_eq!(pairs, right.hits, "{name}");
    }
}

#[test]
fn every_map_is_listed_once_with_its_version() {
    let mut names: Vec<_> = maps().iter().map(|peer| peer.map.entry.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for peer in maps() {
        let entry = &peer.map.entry;
        let here = peer.map.build.is_ok();
        assert!(!here || entry.version.contains('.'), "{}", entry.name);
        assert_eq!(entry.promises.longest_key, peer.limits.longest_key);
        assert!(!peer.licence.is_empty() && !peer.usage.is_empty());
    }
}

#[test]
fn a_wrong_map_is_found_out() {
    /// Forgets that some keys were removed.
    struct Forgetful(Model);
    impl Map for Forgetful {
        fn put(&self, key: &[u8], value: u64) {
            self.0.put(key, value);
        }
        fn get(&self, key: &[u8]) -> Option<u64> {
            self.0.get(key)
        }
        fn remove(&self, key: &[u8]) -> bool {
            self.0.get(key).is_some()
        }
        fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
            self.0.scan(from, count, visit);
        }
        fn scan_run(&self, keys: hedgerow_lab_data::KeyRange<'_>, count: usize) -> Tally {
            self.0.scan_run(keys, count)
        }
    }
    for (_, keys) in key_sets() {
        assert_eq!(difference(&Model::default(), &keys, true), Ok(()));
        assert!(difference(&Forgetful(Model::default()), &keys, true).is_err());
    }
}

#[test]
fn the_limits_stated_are_real() {
    // When a newer version is right beyond one of these, the limit can go.
    let paths = &key_sets()[2].1;
    for (peer, build) in at_hand() {
        let beyond = peer.limits.refusal(paths).is_none();
        if beyond && peer.limits.scan_refusal(paths).is_some() {
            let result = difference_of(build, paths, true);
            assert!(result.is_err(), "{} scans rightly now", peer.map.entry.name);
        }
    }
}
