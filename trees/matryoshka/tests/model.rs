//! Every strategy, key type and search kernel beside the model, with pages and inner nodes so
//! small that splits, merges and the collapse of roots happen all the time.

use hedgerow_index::{IntIndex, IntKey};
use hedgerow_matryoshka::{Fence, Lane, Matryoshka, Plain, Strategy};
use hedgerow_simd::Level;
use hedgerow_testkit::int_workload::{
    IntRun, IntShape, RandomKey, RandomValue, check_bulk_load, check_int_index,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// The smallest nodes there can be.
struct Tiny<S>(S);

impl<S: Strategy> Strategy for Tiny<S> {
    const FENCES: bool = S::FENCES;
    const SLOTS: usize = 5;
    const FAN_OUT: usize = 4;
}

/// Pages whose sub-trees reach two inner levels.
struct Small<S>(S);

impl<S: Strategy> Strategy for Small<S> {
    const FENCES: bool = S::FENCES;
    const SLOTS: usize = 21;
    const FAN_OUT: usize = 6;
}

fn runs<K, V, S>(ranges: &[u64], verify_every: usize)
where
    K: RandomKey + IntKey<Encoded: Lane>,
    V: RandomValue + Default,
    S: Strategy,
{
    for level in Level::supported() {
        for shape in IntShape::ALL {
            for &range in ranges {
                let run = IntRun {
                    shape,
                    range,
                    operations: 3_000 + range as usize,
                    verify_every,
                    seed: range,
                };
                let mut tree: Matryoshka<K, V, S> = Matryoshka::with_level(level);
                check_int_index(&mut tree, &run).unwrap_or_else(|problem| {
                    panic!("{}, {run:?}: {problem}", level.name());
                });
            }
        }
    }
}

#[test]
fn tiny_nodes_match_the_model() {
    runs::<u64, u64, Tiny<Plain>>(&[40, 1_500], 7);
    runs::<u32, u32, Tiny<Fence>>(&[40, 1_500], 7);
    runs::<i32, (), Tiny<Plain>>(&[40, 1_500], 7);
    runs::<i64, u64, Tiny<Fence>>(&[40, 1_500], 7);
}

#[test]
fn small_nodes_match_the_model() {
    runs::<u64, u64, Small<Fence>>(&[4_000], 50);
    runs::<u32, u64, Small<Plain>>(&[4_000], 50);
}

#[test]
fn full_size_nodes_match_the_model() {
    runs::<u64, u64, Plain>(&[20_000], 1_000);
    runs::<i32, (), Fence>(&[20_000], 1_000);
}

#[test]
fn bulk_loads_of_any_size_hold() {
    let sizes = [0, 1, 7, 8, 300, 302, 5_000];
    check_bulk_load(&mut Matryoshka::<u64, u64, Plain>::new(), &sizes).expect("plain");
    check_bulk_load(&mut Matryoshka::<u32, (), Fence>::new(), &sizes).expect("fence");
    check_bulk_load(&mut Matryoshka::<i64, u32, Tiny<Fence>>::new(), &sizes).expect("tiny");
}

/// The workload on which the report's superpages hung: everything deleted, in random order.
#[test]
fn deleting_everything_ends() {
    let count = if cfg!(debug_assertions) {
        200_000
    } else {
        2_000_000
    };
    let mut rng = StdRng::seed_from_u64(3);
    let mut keys: Vec<u64> = (0..count).map(|_| rng.random()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.shuffle(&mut rng);
    let mut tree: Matryoshka<u64, u64, Fence> = Matryoshka::new();
    for &key in &keys {
        assert_eq!(tree.insert(key, !key), None);
    }
    tree.verify().expect("sound when full");
    keys.shuffle(&mut rng);
    for (done, &key) in keys.iter().enumerate() {
        assert_eq!(tree.remove(key), Some(!key));
        if done.is_multiple_of(count / 16) {
            tree.verify().expect("sound while shrinking");
        }
    }
    assert!(tree.is_empty());
    let statistics = tree.statistics();
    assert_eq!(statistics.get("pages"), Some(1.0));
    assert_eq!(statistics.get("outer_height"), Some(0.0));
}
