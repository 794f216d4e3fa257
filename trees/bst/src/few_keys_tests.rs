//! Each tree with few keys, compared with a model, and by two threads: small enough for Miri, which
//! sees reads of freed and of unwritten memory and data races.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::thread;

use hedgerow_index::{ConcurrentIntMap, Direction, OrderedIntMap};
use hedgerow_memory::Placement;
use hedgerow_sync::epoch;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{
    BaselineCitrus, BaselineEdgeIntLf, BaselineExtLf, BaselineIntLf, BaselineLogInt,
    BaselineTicket, Citrus, EdgeExtLf, EdgeExtLf2, EdgeIntLf, ExtLf, IntLf, LogInt, OccAvl,
    OccAvl2, OccAvl2Ret, SearchTree, Ticket,
};

const KEYS: u64 = if cfg!(miri) { 12 } else { 24 };
const THREADS: u64 = 2;

/// Steps of one thread.
const STEPS: usize = if cfg!(miri) { 60 } else { 5_000 };

/// A tree whose nodes the system allocates, so that Miri knows which are freed.
fn empty<T: SearchTree<u64>>() -> T {
    T::with_placement(Placement::System)
}

/// Frees what was retired, if no other thread is pinned.
fn collect() {
    for _ in 0..8 {
        epoch::pin().flush();
    }
}

/// One step on a key; words are ten times the key.
fn step(tree: &impl ConcurrentIntMap<u64>, random: &mut StdRng, key: u64) -> Option<u64> {
    match random.random_range(0..5) {
        0 | 1 => tree.insert(key, key * 10),
        2 | 3 => tree.remove(key),
        _ => tree.get(key),
    }
}

/// Compares every answer with the model's, lookups of all keys at once too.
fn beside_a_model<T: SearchTree<u64>>() -> T {
    let tree = empty::<T>();
    let mut model = BTreeMap::new();
    let mut random = StdRng::seed_from_u64(18);
    for _ in 0..STEPS {
        let key = random.random_range(0..KEYS);
        let expected = model.get(&key).copied();
        match random.random_range(0..5) {
            0 | 1 => {
                assert_eq!(tree.insert(key, key * 10), expected, "insert {key}");
                model.entry(key).or_insert(key * 10);
            }
            2 | 3 => {
                assert_eq!(tree.remove(key), expected, "remove {key}");
                model.remove(&key);
            }
            _ => assert_eq!(tree.get(key), expected, "get {key}"),
        }
    }
    let keys: Vec<u64> = (0..KEYS).collect();
    tree.get_many(&keys, |at, word| {
        assert_eq!(word, model.get(&keys[at]).copied(), "get_many {at}");
    });
    tree.verify().expect("sound");
    tree
}

/// Two threads take steps on the same keys: each answer is nothing or the key's own word.
fn between_threads<T: SearchTree<u64>>() {
    let tree = empty::<T>();
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let tree = &tree;
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                for _ in 0..STEPS {
                    let key = random.random_range(0..KEYS);
                    let answer = step(tree, &mut random, key);
                    assert!(
                        answer.is_none_or(|word| word == key * 10),
                        "{key}: {answer:?}"
                    );
                }
                collect();
            });
        }
    });
    tree.verify().expect("sound");
}

fn check<T: SearchTree<u64>>() {
    drop(beside_a_model::<T>());
    between_threads::<T>();
    collect();
}

/// As `check`, and compares scans in both directions.
fn check_ordered<T: SearchTree<u64> + OrderedIntMap<u64>>() {
    let tree = beside_a_model::<T>();
    let present: Vec<u64> = (0..KEYS).filter(|&key| tree.get(key).is_some()).collect();
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut seen = Vec::new();
        tree.scan(Bound::Unbounded, direction, |key, word| {
            assert_eq!(word, key * 10);
            seen.push(key);
            ControlFlow::Continue(())
        });
        if direction == Direction::Reverse {
            seen.reverse();
        }
        assert_eq!(seen, present, "{direction:?}");
    }
    between_threads::<T>();
    collect();
}

#[test]
fn occ_avl() {
    check_ordered::<OccAvl<u64>>();
    check_ordered::<OccAvl2<u64>>();
    check_ordered::<OccAvl2Ret<u64>>();
}

#[test]
fn log_int() {
    check_ordered::<LogInt<u64>>();
    check_ordered::<BaselineLogInt<u64>>();
}

#[test]
fn edge_ext_lf() {
    check_ordered::<EdgeExtLf<u64>>();
    check_ordered::<EdgeExtLf2<u64>>();
}

#[test]
fn ext_lf() {
    check::<ExtLf<u64>>();
    check::<BaselineExtLf<u64>>();
}

#[test]
fn citrus() {
    check::<Citrus<u64>>();
    check::<BaselineCitrus<u64>>();
}

#[test]
fn ticket() {
    check::<Ticket<u64>>();
    check::<BaselineTicket<u64>>();
}

#[test]
fn int_lf() {
    check::<IntLf<u64>>();
    check::<BaselineIntLf<u64>>();
}

#[test]
fn edge_int_lf() {
    check::<EdgeIntLf<u64>>();
    check::<BaselineEdgeIntLf<u64>>();
}
