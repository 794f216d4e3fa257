//! Trees built from sorted pairs: they hold what was given, as full as was asked for.

use std::ops::{Bound, ControlFlow};

use hedgerow_btree::BTree;
use hedgerow_btree::configuration::{
    Adaptive, Baseline, Configuration, Fingerprint, FullyDense, Hints, SemiDense,
};
use hedgerow_index::Direction;

type Pair = (Vec<u8>, Vec<u8>);

fn check<C: Configuration, const PAGE: usize>(pairs: &[Pair], fill: f64) -> BTree<C, PAGE> {
    let mut tree = BTree::<C, PAGE>::default();
    tree.insert(b"gone", b"afterwards");
    tree.bulk_load(pairs.iter().map(|(key, value)| (key, value)), fill)
        .unwrap();
    tree.verify().unwrap();
    assert_eq!(tree.len(), pairs.len());
    let mut left = pairs.iter();
    tree.scan(Bound::Unbounded, Direction::Forward, |key, value| {
        let (expected, its_value) = left.next().expect("no more than were loaded");
        assert_eq!((key, value), (&expected[..], &its_value[..]));
        ControlFlow::Continue(())
    });
    assert_eq!(left.next(), None);
    for (key, value) in pairs {
        assert_eq!(tree.get(key, |found| found == value), Some(true));
    }
    tree
}

fn in_all(pairs: &[Pair]) {
    for fill in [0.0, 0.5, 0.9, 1.0] {
        check::<Baseline, 1024>(pairs, fill);
        check::<Hints, 512>(pairs, fill);
        check::<Hints, 4096>(pairs, fill);
        check::<Fingerprint, 1024>(pairs, fill);
        check::<SemiDense, 1024>(pairs, fill);
        check::<FullyDense, 512>(pairs, fill);
        check::<Adaptive, 1024>(pairs, fill);
    }
}

fn pairs(keys: impl Iterator<Item = Vec<u8>>) -> Vec<Pair> {
    let mut keys: Vec<_> = keys.collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().map(|key| (key, vec![7; 8])).collect()
}

fn paths() -> Vec<Pair> {
    pairs((0..6000_u32).map(|n| {
        let n = n.wrapping_mul(2_654_435_761);
        format!("/usr/share/doc/{}/{}/README.{n}", n % 7, n % 101).into_bytes()
    }))
}

#[test]
fn of_integers_paths_and_nothing() {
    in_all(&[]);
    in_all(&pairs((0..3000_u32).map(|n| n.to_be_bytes().to_vec())));
    in_all(&pairs(
        (0..3000_u64).map(|n| (n * n).to_be_bytes().to_vec()),
    ));
    in_all(&paths());
}

#[test]
fn of_keys_and_values_too_long_for_a_leaf() {
    let mut all = pairs((0..900_usize).map(|n| {
        let mut key = vec![b'k'; n % 300];
        key.push((n % 250) as u8);
        key
    }));
    for (number, (_, value)) in all.iter_mut().enumerate() {
        value.resize(if number % 50 == 0 { 3000 } else { number % 40 }, 1);
    }
    in_all(&all);
}

/// Insertions fill a leaf, and the pair that comes next closes it, with a separator that is as long
/// as its key. The leaf may have room for that in another form than its own alone.
#[test]
fn leaves_that_insertions_filled_are_closed_in_a_form_that_has_room() {
    let (mut all, mut number) = (Vec::new(), 0_u16);
    for run in 0..400 {
        let mut key = Vec::new();
        for _ in 0..1 + run % 7 {
            number += 1;
            key = [&number.to_be_bytes()[..], &[b'x'; 90]].concat();
            // Too long for a leaf: a pair of these is inserted.
            let len = 130 + usize::from(number) * 37 % 90;
            all.push((key.clone(), vec![1; len]));
        }
        key.push(1);
        all.push((key, vec![2; 10]));
    }
    check::<Fingerprint, 1024>(&all, 1.0);
    check::<Adaptive, 1024>(&all, 1.0);
}

#[test]
fn leaves_are_as_full_as_was_asked_for() {
    let all = paths();
    let bytes = |fill| {
        let statistics = check::<Hints, 4096>(&all, fill).statistics();
        statistics.get("leaf_fill_ratio").expect("counted")
    };
    assert!((0.45..0.55).contains(&bytes(0.5)), "{}", bytes(0.5));
    assert!((0.85..0.95).contains(&bytes(0.9)), "{}", bytes(0.9));
    assert!(bytes(1.0) > 0.95, "{}", bytes(1.0));
}

#[test]
fn keys_that_do_not_ascend_are_refused() {
    let mut tree = BTree::<Hints>::default();
    let refused = tree.bulk_load([("a", "1"), ("c", "2"), ("b", "3")], 1.0);
    assert_eq!(refused.unwrap_err().position, 2);
    assert!(tree.is_empty());
    assert!(tree.bulk_load([("a", "1"), ("a", "2")], 1.0).is_err());
    tree.verify().unwrap();
}
