//! The tree beside a `BTreeMap`: every answer compared, every invariant verified, with nodes so
//! small that each change of the structure happens all the time.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow_bwtree::{
    BwTree, Configuration, Placement, Standard, Tiny, WithoutChunks, WithoutMappingTable,
};
use hedgerow_index::{Direction, Index, NotAscending, ScanRange};
use hedgerow_memory::VisitNodes;
use hedgerow_testkit::index_properties::{
    any_key, any_scan, check_batch, check_even_partitions,
    check_even_partitions_of_nested_prefixes, check_every_shape, check_scan, keys_of_every_shape,
};
use hedgerow_testkit::index_workload::check_sequential;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

#[test]
fn every_key_shape_matches_the_model() {
    check_every_shape(BwTree::<Standard>::new, 4_000);
}

#[test]
fn every_key_shape_matches_the_model_in_tiny_nodes() {
    check_every_shape(BwTree::<Tiny>::new, 4_000);
}

#[test]
fn nodes_of_every_placement_match_the_model() {
    fn check<C: Configuration>()
    where
        BwTree<C>: Index,
    {
        let keys = keys_of_every_shape(60, 9);
        for placement in [Placement::Segregated, Placement::Merged, Placement::System] {
            let tree = BwTree::<C>::with_placement(placement).expect("address space");
            check_sequential(&tree, &keys, 6_000, 3)
                .unwrap_or_else(|violation| panic!("{placement:?}: {violation}"));
            tree.verify().expect("sound");
        }
    }
    check::<Tiny>();
    check::<WithoutChunks<Tiny>>();
}

#[test]
fn a_tree_fills_and_empties_down_to_one_leaf() {
    let tree = BwTree::<Tiny>::new();
    let mut rng = StdRng::seed_from_u64(11);
    let mut keys: Vec<u64> = (0..3_000).map(|_| rng.random()).collect();
    for round in 0..3_u64 {
        for &key in &keys {
            assert!(!tree.put(&key.to_be_bytes(), &(key ^ round).to_le_bytes()));
        }
        tree.verify().expect("sound when full");
        let statistics = tree.statistics();
        assert_eq!(statistics.get("keys"), Some(3_000.0));
        assert!(statistics.get("height") > Some(4.0), "{statistics:?}");
        keys.shuffle(&mut rng);
        for (done, &key) in keys.iter().enumerate() {
            assert!(tree.remove(&key.to_be_bytes()));
            if done % 250 == 0 {
                tree.verify().expect("sound while shrinking");
            }
        }
        tree.verify().expect("sound when empty");
        let statistics = tree.statistics();
        assert_eq!(statistics.get("leaves"), Some(1.0), "{statistics:?}");
        assert_eq!(statistics.get("height"), Some(1.0));
    }
    let statistics = tree.statistics();
    for event in [
        "leaf_splits",
        "inner_splits",
        "root_growths",
        "merges",
        "aborts",
        "root_shrinks",
        "consolidations",
        "ids_recycled",
    ] {
        assert!(statistics.get(event) > Some(0.0), "{event}: {statistics:?}");
    }
}

#[test]
fn keys_of_64_kib_and_values_of_all_sizes() {
    let tree = BwTree::<Standard>::new();
    let mut model = BTreeMap::new();
    for count in [0, 1, 7, 8, 9, 4_095, 65_535, 65_536] {
        for fill in [0, 7, 255] {
            let value = vec![fill; count * 3 % 100_000];
            tree.put(&vec![fill; count], &value);
            model.insert(vec![fill; count], value);
        }
    }
    for first in 0..15_u8 {
        let mut long = vec![first; 65_536];
        long[0] = 100;
        for value in [vec![first; 20_000], vec![first; 3], vec![first; 600]] {
            tree.put(&long, &value);
            model.insert(long.clone(), value);
        }
    }
    tree.verify().expect("sound");
    let mut seen = Vec::new();
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    tree.scan_range(&all, |key, value| {
        seen.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    assert!(
        seen.iter().map(|(k, v)| (k, v)).eq(model.iter()),
        "scan differs"
    );
    for (key, value) in &model {
        assert!(tree.get_with(key, |found| found == value) == Some(true));
    }
    for key in model.keys() {
        assert!(tree.remove(key));
    }
    tree.verify().expect("sound");
    assert_eq!(tree.statistics().get("leaves"), Some(1.0));
}

#[test]
fn ascending_inserts_leave_full_nodes_behind() {
    let tree = BwTree::<Standard>::new();
    for key in 0..15_000_u64 {
        tree.put(&key.to_be_bytes(), &key.to_le_bytes());
    }
    tree.verify().expect("sound");
    let leaves = tree.statistics().get("leaves").expect("counted");
    assert!(leaves < 15_000.0 / 110.0, "{leaves} leaves");
}

/// A loaded tree answers as one that was filled, and goes on from there.
fn loaded<C: Configuration>() {
    for count in [0, 1, 2, 4, 5, 9, 21, 300, 5_000_u32] {
        let pairs = || (0..count).map(|number| ((number * 3).to_be_bytes(), number.to_string()));
        let tree = BwTree::<C>::bulk_load(pairs()).expect("ascending");
        tree.verify().expect("sound when loaded");
        assert_eq!(tree.statistics().get("keys"), Some(f64::from(count)));
        let found = |number: u32| tree.get_with(&number.to_be_bytes(), <[u8]>::to_vec);
        for (key, value) in pairs() {
            assert_eq!(
                tree.get_with(&key, <[u8]>::to_vec),
                Some(value.into_bytes())
            );
        }
        assert_eq!(found(1), None);
        (0..count * 3).for_each(|number| {
            tree.put(&number.to_be_bytes(), b"more");
        });
        tree.verify().expect("sound when filled");
        (0..count * 3).for_each(|number| assert!(tree.remove(&number.to_be_bytes())));
        tree.verify().expect("sound when emptied");
        assert_eq!(tree.statistics().get("leaves"), Some(1.0));
    }
}

#[test]
fn loaded_trees_match_filled_ones() {
    loaded::<Tiny>();
    loaded::<Standard>();
    loaded::<WithoutMappingTable>();
    loaded::<WithoutMappingTable<Tiny>>();
}

#[test]
fn a_loaded_tree_takes_at_most_30_bytes_for_each_pair_of_16() {
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let mut keys: Vec<[u8; 8]> = (0..200_000).map(key).collect();
    keys.sort_unstable();
    let tree = BwTree::<Standard>::bulk_load(keys.iter().map(|key| (key, key))).expect("ascending");
    let bytes = tree.statistics().get("bytes_per_key");
    assert!(bytes.is_some_and(|bytes| bytes <= 30.0), "{bytes:?}");
}

#[test]
fn long_keys_and_values_can_be_loaded() {
    let pair = |number: u8| (vec![number; 20_000], vec![number; 5_000]);
    let tree = BwTree::<Standard>::bulk_load((0..40).map(pair)).expect("ascending");
    tree.verify().expect("sound");
    for (key, value) in (0..40).map(pair) {
        assert!(tree.get_with(&key, |found| found == value) == Some(true));
    }
}

#[test]
fn a_load_names_the_key_that_does_not_ascend() {
    for keys in [["a", "b", "b"], ["a", "c", "b"]] {
        let loaded = BwTree::<Tiny>::bulk_load(keys.map(|key| (key, "")));
        assert_eq!(loaded.err(), Some(NotAscending { position: 2 }));
    }
}

#[test]
fn partitions_cut_evenly() {
    check_even_partitions(&BwTree::<Standard>::new(), b"");
    check_even_partitions_of_nested_prefixes(&BwTree::<Standard>::new());
}

#[test]
fn any_number_of_parts_can_be_asked_for() {
    let tree = BwTree::<Tiny>::new();
    for number in 0..500_u64 {
        tree.put(&number.to_be_bytes(), b"");
    }
    for parts in [1 << 20, (1 << 60) + 1, usize::MAX] {
        assert!(!tree.partition(parts).is_empty(), "{parts} parts");
    }
}

/// As other threads may. What is missed is nobody's loss; what is visited must be a node.
#[test]
fn nodes_may_be_merged_while_they_are_visited() {
    let tree = BwTree::<Tiny>::new();
    let keys = || (0..200_u64).map(|number| number.to_be_bytes());
    for key in keys() {
        tree.put(&key, b"");
    }
    let mut leaves = 0;
    tree.visit_nodes(&mut |node| {
        leaves += usize::from(node.kind == "leaf");
        if leaves == 1 {
            for key in keys() {
                tree.remove(&key);
            }
        }
    });
    assert!(leaves > 0);
    tree.verify().expect("sound");
}

#[test]
fn a_decision_that_panics_leaves_the_tree_usable() {
    let tree = BwTree::<Standard>::new();
    tree.put(b"a", b"1");
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tree.update_with::<()>(b"a", &mut Vec::new(), |_, _| panic!("by the caller"))
    }));
    assert!(outcome.is_err());
    assert!(tree.put(b"a", b"2"));
    tree.verify().expect("sound");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batches_find_what_single_gets_find(
        present in proptest::collection::vec(any_key(), 0..200),
        absent in proptest::collection::vec(any_key(), 0..60),
    ) {
        check_batch(&BwTree::<Tiny>::new(), &present, &absent)?;
    }

    #[test]
    fn a_scan_visits_what_lies_between_any_bounds(case in any_scan()) {
        check_scan(&BwTree::<Tiny>::new(), &case)?;
    }
}
