//! Every strategy, key type and search kernel beside the model, with pages and inner nodes so
//! small that splits, merges and the collapse of roots happen all the time.

use hedgerow_index::{BulkLoad, IntIndex};
use hedgerow_matryoshka::{
    AllProposals, Eytzinger, Fence, FenceSuperpage, FenceWithoutMassPrefetch, Flat, FlatFast,
    FlatSuperpage, MapKey, Matryoshka, NodeKey, Plain, Reported, Strategy, WithFastNodes,
    WithSuperpages, WithoutBranches,
};
use hedgerow_simd::Level;
use hedgerow_testkit::int_workload::{
    IntRun, IntShape, RandomKey, RandomValue, check_bulk_load, check_int_index,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// The smallest nodes there can be.
pub struct Tiny<S>(S);

impl<S: Strategy> Strategy for Tiny<S> {
    type Head<L: NodeKey> = S::Head<L>;
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = S::Page<L, V, C>;
    type Search = S::Search;
    const FENCES: bool = S::FENCES;
    const MASS_PREFETCH: bool = S::MASS_PREFETCH;
    const COMPILED: bool = S::COMPILED;
    const PIPELINED: bool = S::PIPELINED;
    const SLOTS: usize = 5;
    const FAN_OUT: usize = 4;
}

/// Pages whose sub-trees reach two inner levels.
pub struct Small<S>(S);

impl<S: Strategy> Strategy for Small<S> {
    type Head<L: NodeKey> = S::Head<L>;
    type Page<L: NodeKey, V: Copy + Default, C: Strategy> = S::Page<L, V, C>;
    type Search = S::Search;
    const FENCES: bool = S::FENCES;
    const MASS_PREFETCH: bool = S::MASS_PREFETCH;
    const COMPILED: bool = S::COMPILED;
    const PIPELINED: bool = S::PIPELINED;
    const SLOTS: usize = 21;
    const FAN_OUT: usize = 6;
}

fn runs<K, V, S>(ranges: &[u64], verify_every: usize)
where
    K: RandomKey + MapKey,
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

/// Tiny nodes of one key type, and small nodes of another: with those of the other strategies,
/// each key type has been in each form of page. `report.rs` uses the same trees.
macro_rules! matches_the_model {
    ($test:ident, $strategy:ty, $tiny:ty => $tiny_value:ty, $small:ty => $small_value:ty) => {
        #[test]
        fn $test() {
            runs::<$tiny, $tiny_value, Tiny<$strategy>>(&[40, 1_500], 7);
            runs::<$small, $small_value, Small<$strategy>>(&[4_000], 50);
            runs::<u64, u64, $strategy>(&[20_000], 1_000);
        }
    };
}

matches_the_model!(plain_matches, Plain, u32 => u32, i64 => u64);
matches_the_model!(fence_matches, Fence, i32 => (), u64 => u64);
matches_the_model!(fence_alone_matches, FenceWithoutMassPrefetch, i32 => (), u64 => u64);
matches_the_model!(eytzinger_matches, Eytzinger, u64 => u64, i32 => ());
matches_the_model!(flat_matches, Flat, u64 => u64, i32 => ());
matches_the_model!(flat_matches_with_others, Flat, u32 => u32, i64 => u64);
matches_the_model!(fast_nodes_match, FlatFast, i64 => u64, u32 => u32);
matches_the_model!(what_was_reported_matches, Reported, u32 => u32, u64 => ());
matches_the_model!(reported_superpages_match, WithSuperpages, i32 => (), u64 => u64);
matches_the_model!(branch_free_nodes_match, WithoutBranches, u64 => u64, i32 => ());
matches_the_model!(reported_fast_nodes_match, WithFastNodes, i32 => (), u64 => u64);
matches_the_model!(all_proposals_match, AllProposals, i32 => (), i64 => u64);
matches_the_model!(superpages_match, FenceSuperpage, u64 => u64, u32 => u32);
matches_the_model!(flat_superpages_match, FlatSuperpage, i32 => (), i64 => u64);

fn bulk_loads<S: Strategy>() {
    let sizes = [0, 1, 7, 8, 300, 302, 5_000, 40_000];
    check_bulk_load(&mut Matryoshka::<u64, u64, S>::new(), &sizes).expect("any size");
}

#[test]
fn bulk_loads_of_any_size_hold() {
    bulk_loads::<Plain>();
    bulk_loads::<Fence>();
    bulk_loads::<Eytzinger>();
    bulk_loads::<Flat>();
    bulk_loads::<FlatFast>();
    bulk_loads::<FenceSuperpage>();
    bulk_loads::<FlatSuperpage>();
    let mut tiny = Matryoshka::<u64, u64, Tiny<FenceSuperpage>>::new();
    check_bulk_load(&mut tiny, &[27, 100, 101, 5_000]).expect("tiny superpages");
}

/// The workload on which the report's superpages hung: everything deleted, in random order.
fn delete_everything<S: Strategy>() {
    let count = 2_000_000;
    let mut rng = StdRng::seed_from_u64(3);
    let mut keys: Vec<u64> = (0..count).map(|_| rng.random()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.shuffle(&mut rng);
    let mut tree: Matryoshka<u64, u64, S> = Matryoshka::new();
    for &key in &keys {
        assert_eq!(tree.insert(key, !key), None);
    }
    tree.verify().expect("sound when full");
    keys.shuffle(&mut rng);
    for (done, &key) in keys.iter().enumerate() {
        assert_eq!(tree.remove(key), Some(!key));
        if done.is_multiple_of(count / 4) {
            tree.verify().expect("sound while shrinking");
        }
    }
    assert!(tree.is_empty());
    let statistics = tree.statistics();
    assert_eq!(statistics.get("pages"), Some(1.0));
    assert_eq!(statistics.get("outer_height"), Some(0.0));
}

#[test]
fn deleting_everything_ends_with_fences() {
    delete_everything::<Fence>();
}

#[test]
fn deleting_everything_ends_with_superpages() {
    delete_everything::<FenceSuperpage>();
}

#[test]
fn deleting_everything_ends_with_flat_pages() {
    delete_everything::<Flat>();
}

fn a_load_panics<S: Strategy>() {
    let mut map = Matryoshka::<u64, u64, S>::new();
    map.insert(7, 7);
    let pairs = (0..5_000).map(|number| {
        assert!(number != 4_500, "the source of pairs fails");
        (number, number)
    });
    let load = std::panic::AssertUnwindSafe(|| map.bulk_load(pairs));
    assert!(std::panic::catch_unwind(load).is_err());
    assert_eq!(map.len(), 0);
    map.verify().expect("sound");
    map.insert(9, 9);
    assert_eq!((map.len(), map.get(9)), (1, Some(9)));
}

#[test]
fn a_load_whose_pairs_end_in_a_panic_leaves_an_empty_map() {
    a_load_panics::<Plain>();
    a_load_panics::<Eytzinger>();
    a_load_panics::<Flat>();
    a_load_panics::<FlatSuperpage>();
}
