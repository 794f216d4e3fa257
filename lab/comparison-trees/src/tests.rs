//! The comparison trees beside a model, and shared by threads.

use std::collections::BTreeMap;
use std::sync::Barrier;

use hedgerow_lab_contender::{Map, NewMap, value_of};
use hedgerow_lab_data::random::Random;
use hedgerow_lab_data::{KeySet, Keys};

use super::{FIXED, HASH, NAMES, tree};

type NewShared = fn() -> Box<dyn Map + Send + Sync>;

/// Every tree that threads can share, by name, with what makes one.
fn shared() -> Vec<(&'static str, NewShared)> {
    let trees = NAMES.into_iter().filter_map(|name| {
        let entry = tree(name).expect(name);
        match entry.build {
            Ok(NewMap::Concurrent(new)) => Some((name, new)),
            _ => None,
        }
    });
    trees.collect()
}

/// The shapes of keys that a tree takes, from those that fit a node to those that do not.
fn sets(name: &str) -> &'static [&'static str] {
    match name {
        FIXED | HASH => &["sparse-u64", "prefixed-decimal:0"],
        _ => &["decimal", "prefixed-decimal:40", "path"],
    }
}

fn keys(set: &str, count: usize) -> Keys {
    let set: KeySet = set.parse().expect("a key set");
    set.keys(count).expect("keys")
}

#[test]
fn all_but_the_static_trees_can_be_shared() {
    assert_eq!(shared().len(), NAMES.len() - 2);
}

#[test]
fn every_answer_is_that_of_a_model() {
    for (name, new) in shared() {
        for set in sets(name) {
            let keys = keys(set, 400);
            let (map, mut model) = (new(), BTreeMap::new());
            let mut random = Random::new(3);
            for step in 0..20_000_u64 {
                let key = keys.get(random.below(keys.len() as u64) as usize);
                let said = format!("{name}, {set}, step {step}");
                match random.below(4) {
                    0 | 1 => {
                        map.put(key, step);
                        model.insert(key, step);
                    }
                    2 => assert_eq!(map.remove(key), model.remove(key).is_some(), "{said}"),
                    _ => assert_eq!(map.get(key), model.get(key).copied(), "{said}"),
                }
            }
            for key in keys.iter() {
                assert_eq!(map.get(key), model.get(key).copied(), "{name}, {set}");
            }
        }
    }
}

#[test]
fn keys_that_begin_alike_and_end_in_zeros_are_told_apart() {
    let long = [b'x'; 600];
    let mut keys: Vec<Vec<u8>> = (0..40).map(|len| vec![0; len]).collect();
    keys.extend((0..40).map(|len| [&long[..16 + len], &[0]].concat()));
    keys.extend((1..=600).map(|len| long[..len].to_vec()));
    let fixed = [FIXED, HASH];
    let trees = shared().into_iter();
    for (name, new) in trees.filter(|(name, _)| !fixed.contains(name)) {
        let map = new();
        for (nth, key) in keys.iter().enumerate() {
            assert_eq!(map.get(key), None, "{name}, {nth}");
            map.put(key, nth as u64);
        }
        for (nth, key) in keys.iter().enumerate() {
            assert_eq!(map.get(key), Some(nth as u64), "{name}, {nth}");
        }
    }
}

/// Calls `work` with the number of each of so many threads, all at once.
fn together(threads: usize, work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(thread);
            });
        }
    });
}

#[test]
fn no_key_that_threads_insert_beside_readers_is_lost() {
    for (name, new) in shared() {
        for set in sets(name) {
            let keys = keys(set, 12_000);
            let map = new();
            together(4, |thread| {
                for nth in (thread..keys.len()).step_by(4) {
                    let key = keys.get(nth);
                    map.put(key, value_of(key));
                    assert_eq!(map.get(key), Some(value_of(key)), "{name}, {set}");
                    // Another thread's, which may not be there yet.
                    let other = keys.get(nth * 7 % keys.len());
                    let seen = map.get(other);
                    assert!(
                        seen.is_none_or(|seen| seen == value_of(other)),
                        "{name}, {set}"
                    );
                }
            });
            for key in keys.iter() {
                assert_eq!(map.get(key), Some(value_of(key)), "{name}, {set}");
            }
        }
    }
}

/// All threads put the same keys, then remove them: each is there once, with one of the values.
#[test]
fn racing_inserts_of_a_key_leave_one_value() {
    for (name, new) in shared() {
        for set in sets(name) {
            let keys = keys(set, 3000);
            let map = new();
            together(4, |thread| {
                for key in keys.iter() {
                    map.put(key, thread as u64);
                }
            });
            for key in keys.iter() {
                assert!(map.get(key).is_some_and(|value| value < 4), "{name}, {set}");
                map.put(key, 9);
                assert_eq!(map.get(key), Some(9), "{name}, {set}");
                assert!(map.remove(key), "{name}, {set}");
                assert_eq!((map.get(key), map.remove(key)), (None, false), "{name}");
            }
        }
    }
}

/// Removed keys make room for others in the same leaves: what a reader finds under a key is never
/// another key's.
#[test]
fn readers_beside_removals_see_no_other_keys_value() {
    for (name, new) in shared() {
        let keys = keys(sets(name)[0], 60);
        let map = new();
        together(3, |thread| {
            let mut random = Random::new(thread as u64);
            for _ in 0..20_000 {
                let key = keys.get(random.below(keys.len() as u64) as usize);
                match (thread, random.below(2)) {
                    (0, 0) => map.put(key, value_of(key)),
                    (0, _) => drop(map.remove(key)),
                    _ => {
                        let seen = map.get(key);
                        assert!(seen.is_none_or(|seen| seen == value_of(key)), "{name}");
                    }
                }
            }
        });
    }
}

#[test]
fn the_hash_table_tells_its_own_marks_from_keys_and_values() {
    let Ok(NewMap::Concurrent(new)) = tree(HASH).expect("a hash table").build else {
        panic!("a shared one");
    };
    let map = new();
    for key in [0_u64, 1, 2] {
        for value in [0, 1, u64::MAX, 0] {
            map.put(&key.to_le_bytes(), value);
            assert_eq!(map.get(&key.to_le_bytes()), Some(value), "{key}");
        }
        assert!(map.remove(&key.to_le_bytes()));
        assert!(!map.remove(&key.to_le_bytes()));
        assert_eq!(map.get(&key.to_le_bytes()), None);
    }
}
