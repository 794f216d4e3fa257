//! What every form of every tree must pass.

use hedgerow_bst::{Placement, SearchTree};
use hedgerow_index::OrderedIntMap;
use hedgerow_testkit::concurrent_ints::{
    ConcurrentIntRun, check_concurrent, check_concurrent_scans, check_scans, check_sequential,
};
use hedgerow_testkit::int_workload::{IntRun, IntShape, RandomKey};

/// Where nodes may come from.
const PLACEMENTS: [Placement; 3] = [Placement::Segregated, Placement::Merged, Placement::System];

/// The seed of a test's choices.
fn seed() -> u64 {
    let seed = rand::random();
    println!("seed {seed}");
    seed
}

/// A tenth of the work under Miri, which is slow.
fn scaled(operations: usize) -> usize {
    if cfg!(miri) {
        operations / 50
    } else {
        operations
    }
}

/// Every answer beside the model, over keys of all shapes, from all placements.
pub fn answers_like_a_model<K: RandomKey, T: SearchTree<K>>() {
    for (shape, placement) in IntShape::ALL
        .into_iter()
        .zip(PLACEMENTS.into_iter().cycle())
    {
        for range in [12, 700] {
            let run = IntRun {
                shape,
                range,
                operations: scaled(6_000),
                verify_every: scaled(500).max(1),
                seed: seed(),
            };
            let map = T::with_placement(placement);
            check_sequential::<K, T>(&map, &run).unwrap_or_else(|e| panic!("{run:?}: {e}"));
        }
    }
}

/// Histories of threads that meet at few keys.
pub fn is_linearizable<T: SearchTree<u64>>() {
    for keys in [3, 8, 40] {
        for _ in 0..6 {
            let run = ConcurrentIntRun {
                keys,
                threads: 4,
                operations: scaled(1_200),
                seed: seed(),
            };
            let map = T::segregated();
            check_concurrent(&map, &run).unwrap_or_else(|e| panic!("{run:?}: {e}"));
        }
    }
}

/// Scans, successors and predecessors beside the model.
pub fn scans_like_a_model<K: RandomKey, T: SearchTree<K> + OrderedIntMap<K>>() {
    for shape in IntShape::ALL {
        let run = IntRun {
            shape,
            range: 400,
            operations: scaled(3_000),
            verify_every: scaled(100).max(1),
            seed: seed(),
        };
        check_scans::<K, T>(&T::segregated(), &run).unwrap_or_else(|e| panic!("{run:?}: {e}"));
    }
}

/// Histories with scans.
pub fn scans_are_linearizable_per_key<T: SearchTree<u64> + OrderedIntMap<u64>>() {
    for keys in [3, 40] {
        for _ in 0..6 {
            let run = ConcurrentIntRun {
                keys,
                threads: 4,
                operations: scaled(1_200),
                seed: seed(),
            };
            let map = T::segregated();
            check_concurrent_scans(&map, &run).unwrap_or_else(|e| panic!("{run:?}: {e}"));
        }
    }
}

/// The tests of a form: `suite!(name, K, Tree<K, Form>)`.
macro_rules! suite {
    ($name:ident, $key:ident, $tree:ty) => {
        mod $name {
            use super::*;
            type Tree<$key> = $tree;

            #[test]
            fn answers_like_a_model() {
                crate::suite::answers_like_a_model::<u64, Tree<u64>>();
                crate::suite::answers_like_a_model::<i64, Tree<i64>>();
                crate::suite::answers_like_a_model::<u32, Tree<u32>>();
                crate::suite::answers_like_a_model::<i32, Tree<i32>>();
            }

            #[test]
            fn is_linearizable() {
                crate::suite::is_linearizable::<Tree<u64>>();
            }
        }
    };
}

/// The tests of a form of a tree with scans: `ordered_suite!(name, K, Tree<K, Form>)`.
macro_rules! ordered_suite {
    ($name:ident, $key:ident, $tree:ty) => {
        mod $name {
            use super::*;
            type Tree<$key> = $tree;

            #[test]
            fn scans_like_a_model() {
                crate::suite::scans_like_a_model::<u64, Tree<u64>>();
                crate::suite::scans_like_a_model::<i64, Tree<i64>>();
                crate::suite::scans_like_a_model::<u32, Tree<u32>>();
                crate::suite::scans_like_a_model::<i32, Tree<i32>>();
            }

            #[test]
            fn scans_are_linearizable_per_key() {
                crate::suite::scans_are_linearizable_per_key::<Tree<u64>>();
            }
        }
    };
}
pub(crate) use {ordered_suite, suite};
