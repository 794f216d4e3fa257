//! The tree beside a `BTreeMap`: every answer compared, every invariant verified, on key
//! shapes that lead down the rare paths.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, MAX_KEY_BYTES};
use hedgerow_masstree::{Bytes, Level, Masstree, Placement, SingleThreaded};
use hedgerow_testkit::index_properties::{
    any_key, any_scan, check_batch, check_even_partitions,
    check_even_partitions_of_nested_prefixes, check_every_shape, check_long_keys, check_scan,
    keys_of_every_shape,
};
use hedgerow_testkit::index_workload::check_sequential;
use hedgerow_testkit::keys::KeyShape;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

#[test]
fn every_key_shape_matches_the_model() {
    check_every_shape(Masstree::<Bytes>::new, 6_000);
}

#[test]
fn every_search_kernel_matches_the_model() {
    let keys = keys_of_every_shape(20, 7);
    for level in Level::supported() {
        let tree: Masstree<Bytes> = Masstree::with_level(level);
        check_sequential(&tree, &keys, 8_000, 3)
            .unwrap_or_else(|violation| panic!("{}: {violation}", level.name()));
    }
}

/// Nodes that the pools of a tree's kinds have handed out, and whether there are pools.
fn segregated_nodes() -> (usize, bool) {
    let pools = hedgerow_memory::inspect().classes;
    let kinds = pools.iter().filter(|pool| {
        let kind = pool.kind.unwrap_or_default();
        kind.starts_with("masstree")
    });
    (kinds.map(|kind| kind.live).sum(), !pools.is_empty())
}

// The only test that segregates nodes, so that it may count them.
#[test]
fn nodes_of_any_placement_match_the_model_and_go_back_where_they_came_from() {
    let segregated = Placement::Segregated;
    let mut keys = keys_of_every_shape(300, 9);
    keys.sort();
    keys.dedup();
    // Of one thread, where what is retired is freed at once.
    let tree: Masstree<u64, SingleThreaded> = Masstree::with_placement(Level::detect(), segregated);
    for round in 0..3 {
        for key in &keys {
            tree.put(key, round);
        }
        tree.verify().expect("sound when full");
        let (live, pooled) = segregated_nodes();
        assert_eq!(live > 100, pooled, "{live} nodes");
        for key in &keys {
            assert_eq!(tree.remove(key), Some(round));
        }
    }
    drop(tree);
    assert_eq!(segregated_nodes().0, 0, "nodes went to other pools");
    for placement in [segregated, Placement::System] {
        let tree: Masstree<Bytes> = Masstree::with_placement(Level::detect(), placement);
        check_sequential(&tree, &keys, 8_000, 3)
            .unwrap_or_else(|violation| panic!("{placement:?}: {violation}"));
        tree.verify().expect("sound");
    }
}

#[test]
fn integer_keys_fill_empty_and_fill_the_tree_again() {
    let tree: Masstree<u64> = Masstree::new();
    let mut rng = StdRng::seed_from_u64(11);
    let mut keys: Vec<u64> = (0..20_000).map(|_| rng.random()).collect();
    for round in 0..3 {
        for &key in &keys {
            assert_eq!(tree.put(&key.to_be_bytes(), key ^ round), None);
        }
        tree.verify().expect("sound when full");
        let statistics = tree.statistics();
        assert_eq!(statistics.get("keys"), Some(20_000.0));
        keys.shuffle(&mut rng);
        for (done, &key) in keys.iter().enumerate() {
            assert_eq!(tree.remove(&key.to_be_bytes()), Some(key ^ round));
            if done % 1_000 == 0 {
                tree.verify().expect("sound while shrinking");
            }
        }
        tree.verify().expect("sound when empty");
        assert_eq!(tree.statistics().get("border_nodes"), Some(1.0));
    }
    let statistics = tree.statistics();
    for event in [
        "border_splits",
        "interior_splits",
        "node_deletions",
        "slot_reuses",
    ] {
        assert!(statistics.get(event) > Some(0.0), "{event}");
    }
}

#[test]
fn ascending_inserts_leave_full_nodes_behind() {
    let tree: Masstree<u64> = Masstree::new();
    for key in 0..15_000_u64 {
        tree.put(&key.to_be_bytes(), key);
    }
    tree.verify().expect("sound");
    let statistics = tree.statistics();
    assert!(statistics.get("border_fill") > Some(0.99), "{statistics:?}");
    assert!(statistics.get("sequential_splits") > Some(900.0));
}

#[test]
fn ten_keys_of_one_slice_stay_together() {
    let tree: Masstree<u64> = Masstree::new();
    // Many slices around, so that the node with the crowded slice splits.
    for other in 0..200_u64 {
        tree.put(&(other << 48).to_be_bytes(), other);
    }
    let mut keys: Vec<Vec<u8>> = (0..=20).map(|count| vec![0; count]).collect();
    keys.shuffle(&mut StdRng::seed_from_u64(5));
    for key in &keys {
        tree.put(key, key.len() as u64);
        tree.verify().expect("sound");
    }
    for key in &keys {
        assert_eq!(tree.get(key), Some(key.len() as u64));
    }
}

#[test]
fn layers_are_made_and_collapse_again() {
    let tree: Masstree<Bytes> = Masstree::new();
    let prefix = [b'p'; 64];
    let key = |tail: &[u8]| [&prefix[..], tail].concat();
    tree.put(&key(b"one"), b"1");
    assert_eq!(
        tree.statistics().get("layers"),
        Some(1.0),
        "one long key needs no layer"
    );
    tree.put(&key(b"two and a long tail behind it"), b"2");
    assert_eq!(
        tree.statistics().get("layers"),
        Some(9.0),
        "64 shared bytes are 8 layers"
    );
    tree.verify().expect("sound with layers");
    assert!(tree.remove(&key(b"one")));
    tree.collapse_deferred();
    tree.verify().expect("sound after folding");
    let statistics = tree.statistics();
    assert_eq!(
        statistics.get("layers"),
        Some(1.0),
        "a single key folds back: {statistics:?}"
    );
    assert_eq!(statistics.get("layer_collapses"), Some(8.0));
    let found = tree.get_with(&key(b"two and a long tail behind it"), <[u8]>::to_vec);
    assert_eq!(found.as_deref(), Some(&b"2"[..]));
    tree.put(&key(b"three"), b"3");
    assert!(tree.remove(&key(b"two and a long tail behind it")) && tree.remove(&key(b"three")));
    tree.collapse_deferred();
    tree.verify().expect("sound when empty");
    assert_eq!(
        tree.statistics().get("layers"),
        Some(1.0),
        "empty layers go"
    );
    assert_eq!(tree.statistics().get("keys"), Some(0.0));
}

#[test]
fn a_large_layer_that_empties_goes_with_all_its_nodes() {
    let tree: Masstree<u64> = Masstree::new();
    let key = |number: u64| [&b"prefix8b"[..], &number.to_be_bytes()].concat();
    tree.put(b"other", 0);
    for number in 0..5_000_u64 {
        tree.put(&key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), number);
    }
    tree.verify().expect("sound");
    for number in 0..5_000_u64 {
        tree.remove(&key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .expect("present");
    }
    tree.collapse_deferred();
    tree.verify().expect("sound");
    let statistics = tree.statistics();
    assert_eq!(statistics.get("layers"), Some(1.0));
    assert_eq!(statistics.get("border_nodes"), Some(1.0));
    assert_eq!(
        statistics.get("interior_nodes"),
        Some(0.0),
        "{statistics:?}"
    );
}

#[test]
fn keys_of_64_kib_and_values_of_all_sizes() {
    let tree: Masstree<Bytes> = Masstree::new();
    check_long_keys(&tree);
    tree.collapse_deferred();
    tree.verify().expect("sound");
    assert_eq!(tree.statistics().get("layers"), Some(1.0));
}

#[test]
fn partitions_cut_evenly() {
    for prefix in [&b""[..], b"shared:", &[b'p'; 200]] {
        check_even_partitions(&Masstree::<Bytes>::new(), prefix);
    }
    check_even_partitions_of_nested_prefixes(&Masstree::<Bytes>::new());
}

#[test]
fn the_single_threaded_tree_gives_the_same_answers() {
    let tree: Masstree<Bytes, SingleThreaded> = Masstree::new();
    let mut model = BTreeMap::new();
    let mut rng = StdRng::seed_from_u64(23);
    let shapes = KeyShape::all();
    for step in 0..60_000_u32 {
        let shape = shapes[rng.random_range(0..shapes.len())];
        let key = shape.key(&mut rng);
        if rng.random_bool(0.5) {
            assert_eq!(tree.remove(&key), model.remove(&key).is_some());
        } else {
            tree.put(&key, &step.to_le_bytes());
            model.insert(key, step);
        }
        if step % 5_000 == 0 {
            tree.verify().expect("sound");
            for (key, value) in &model {
                let found = tree.get_with(key, <[u8]>::to_vec);
                assert_eq!(found.as_deref(), Some(&value.to_le_bytes()[..]));
            }
        }
    }
}

#[test]
#[should_panic(expected = "re-entered")]
fn a_callback_may_not_change_a_single_threaded_tree() {
    let tree: Masstree<u64, SingleThreaded> = Masstree::new();
    tree.put(b"a", 1);
    tree.scan(Bound::Unbounded, Direction::Forward, |_, _| {
        tree.remove(b"a");
        ControlFlow::Continue(())
    });
}

#[test]
fn a_decision_that_panics_leaves_the_tree_usable() {
    let tree: Masstree<u64> = Masstree::new();
    tree.put(b"a", 1);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tree.update(b"a", |_| panic!("by the caller"))
    }));
    assert!(outcome.is_err());
    assert_eq!(tree.put(b"a", 2), Some(1));
    tree.verify().expect("sound");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn batches_find_what_single_gets_find(
        present in proptest::collection::vec(any_key(), 0..200),
        absent in proptest::collection::vec(any_key(), 0..60),
    ) {
        check_batch(&Masstree::<Bytes>::new(), &present, &absent)?;
    }

    #[test]
    fn a_scan_visits_what_lies_between_any_bounds(case in any_scan()) {
        check_scan(&Masstree::<Bytes>::new(), &case)?;
    }
}

/// The suffix of a key of one byte more would have no length in a node.
#[test]
fn keys_that_are_too_long_are_refused_before_anything_changes() {
    let tree: Masstree<u64> = Masstree::new();
    tree.put(&[7; MAX_KEY_BYTES], 1);
    for length in [MAX_KEY_BYTES + 1, 65_544, 65_600, 200_000] {
        let key = vec![7; length];
        let put = || tree.put(&key, 2);
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(put));
        assert!(refused.is_err(), "{length} bytes");
        assert_eq!((tree.get(&key), tree.remove(&key)), (None, None));
    }
    assert_eq!(tree.put(&[7; MAX_KEY_BYTES], 3), Some(1));
    tree.verify().expect("sound");
}
