//! The tree beside a `BTreeMap`: every answer compared, every invariant verified, on key
//! shapes that lead down the rare paths.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, ScanRange};
use hedgerow_masstree::{Bytes, Level, Masstree, SingleThreaded};
use hedgerow_testkit::index_workload::check_sequential;
use hedgerow_testkit::keys::KeyShape;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

#[test]
fn every_key_shape_matches_the_model() {
    for (number, shape) in KeyShape::all().into_iter().enumerate() {
        let mut rng = StdRng::seed_from_u64(number as u64);
        for few in [12, 60, 600] {
            let keys: Vec<Vec<u8>> = (0..few).map(|_| shape.key(&mut rng)).collect();
            let tree: Masstree<Bytes> = Masstree::new();
            check_sequential(&tree, &keys, 6_000, number as u64)
                .unwrap_or_else(|violation| panic!("{shape:?}, {few} keys: {violation:?}"));
        }
    }
}

#[test]
fn every_search_kernel_matches_the_model() {
    let mut rng = StdRng::seed_from_u64(7);
    let keys: Vec<Vec<u8>> = KeyShape::all()
        .into_iter()
        .flat_map(|shape| (0..20).map(move |_| shape))
        .map(|shape| shape.key(&mut rng))
        .collect();
    for level in Level::supported() {
        let tree: Masstree<Bytes> = Masstree::with_level(level);
        check_sequential(&tree, &keys, 8_000, 3)
            .unwrap_or_else(|violation| panic!("{}: {violation:?}", level.name()));
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
    tree.maintain();
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
    tree.maintain();
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
    tree.maintain();
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
    let key = |fill: u8, count: usize| vec![fill; count];
    let mut model = BTreeMap::new();
    for count in [0, 1, 7, 8, 9, 4_095, 65_528, 65_535, 65_536] {
        for fill in [0, 7, 255] {
            let value = vec![fill; count * 3 % 100_000];
            tree.put(&key(fill, count), &value);
            model.insert(key(fill, count), value);
        }
    }
    // Fifteen long suffixes in one node: the wide kind of suffix bag.
    for first in 0..15_u8 {
        let mut long = vec![first; 65_536];
        long[0] = 100;
        tree.put(&long, &[first]);
        model.insert(long, vec![first]);
    }
    tree.verify().expect("sound");
    let mut seen = Vec::new();
    tree.scan(Bound::Unbounded, Direction::Forward, |key, value| {
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
    tree.maintain();
    tree.verify().expect("sound");
    assert_eq!(tree.statistics().get("layers"), Some(1.0));
}

#[test]
fn partitions_cut_evenly() {
    let tree: Masstree<u64> = Masstree::new();
    for number in 0..20_000_u64 {
        tree.put(
            &number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(),
            number,
        );
    }
    let cuts = tree.partition(8);
    assert_eq!(cuts.len(), 7);
    let mut from = Bound::Unbounded;
    for cut in cuts.iter().map(Some).chain([None]) {
        let mut count = 0;
        tree.scan(from, Direction::Forward, |key, _| {
            if cut.is_some_and(|cut| key >= cut.as_slice()) {
                return ControlFlow::Break(());
            }
            count += 1;
            ControlFlow::Continue(())
        });
        assert!((1_250..5_000).contains(&count), "a part of {count} keys");
        from = cut.map_or(Bound::Unbounded, |cut| Bound::Included(cut.as_slice()));
    }
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

fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(b'a'), Just(255_u8), any::<u8>()];
    prop_oneof![
        proptest::collection::vec(byte.clone(), 0..12),
        (0..65_usize, proptest::collection::vec(byte, 0..10)).prop_map(|(prefix, tail)| [
            vec![b'a'; prefix],
            tail
        ]
        .concat()),
        (0..40_usize).prop_map(|count| vec![0; count]),
        (0..2_000_000_000_u32).prop_map(|number| number.to_string().into_bytes()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn batches_find_what_single_gets_find(
        present in proptest::collection::vec(key(), 0..200),
        absent in proptest::collection::vec(key(), 0..60),
    ) {
        let tree: Masstree<Bytes> = Masstree::new();
        for (number, key) in present.iter().enumerate() {
            tree.put(key, &number.to_le_bytes());
        }
        let keys: Vec<&[u8]> = present.iter().chain(&absent).map(Vec::as_slice).collect();
        let mut answers = vec![None; keys.len()];
        tree.get_many(&keys, |index, value| {
            assert!(answers[index].is_none(), "answered twice");
            answers[index] = Some(value.map(<[u8]>::to_vec));
        });
        for (key, answer) in keys.iter().zip(answers) {
            prop_assert_eq!(answer, Some(tree.get_with(key, <[u8]>::to_vec)));
        }
        tree.prefetch_many(&keys);
    }

    #[test]
    fn a_scan_visits_what_lies_between_any_bounds(
        keys in proptest::collection::vec(key(), 0..120),
        ends in (key(), key()),
        kinds in (0..3, 0..3),
        limit in prop_oneof![0..50_usize, Just(usize::MAX)],
    ) {
        let tree: Masstree<Bytes> = Masstree::new();
        let mut model = BTreeMap::new();
        for (number, key) in keys.into_iter().enumerate() {
            tree.put(&key, &number.to_le_bytes());
            model.insert(key, number);
        }
        let bound = |key, kind| match kind {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        let bounds = (bound(&ends.0[..], kinds.0), bound(&ends.1[..], kinds.1));
        for direction in [Direction::Forward, Direction::Reverse] {
            let range = ScanRange::between(bounds, direction).limited(limit);
            let mut seen = Vec::new();
            tree.scan_range(&range, |key, value| {
                seen.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            });
            let pair = |(key, value): (&Vec<u8>, &usize)| {
                (key.clone(), value.to_le_bytes().to_vec())
            };
            let expected: Vec<_> = if range.is_empty() {
                Vec::new()
            } else {
                let pairs = model.range::<[u8], _>(bounds);
                match direction {
                    Direction::Forward => pairs.take(limit).map(pair).collect(),
                    Direction::Reverse => pairs.rev().take(limit).map(pair).collect(),
                }
            };
            prop_assert_eq!(&seen, &expected);
            let mut keys = Vec::new();
            tree.scan_range(&range.keys_only(), |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            });
            prop_assert!(keys.iter().eq(expected.iter().map(|(key, _)| key)));
        }
    }
}
