//! Removing the keys between two bounds, beside a model and beside other threads.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow_bwtree::{BwTree, Configuration, CopyAndReplace, Standard, Tiny};
use hedgerow_index::{Direction, KeyBound, RANGE_VALUE_BYTES, ScanRange};
use hedgerow_testkit::index_properties::any_key;
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A removal between two bounds; every so many pairs stay, and after so many more it stops.
#[derive(Debug, Clone)]
struct Removal {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    stays: usize,
    most: usize,
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        2 => Just(Bound::Unbounded),
        3 => any_key().prop_map(Bound::Included),
        3 => any_key().prop_map(Bound::Excluded),
    ]
}

fn removal() -> impl Strategy<Value = Removal> {
    let stays = prop_oneof![3 => Just(usize::MAX), 1 => 1..20_usize];
    let most = prop_oneof![5 => Just(usize::MAX), 1 => 0..100_usize];
    (bound(), bound(), stays, most).prop_map(|(from, to, stays, most)| Removal {
        from,
        to,
        stays,
        most,
    })
}

fn pairs<C: Configuration>(tree: &BwTree<C>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    tree.scan_range(&all, |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    pairs
}

/// Removes a range from both; compares what was asked and what is left.
fn remove<C: Configuration>(tree: &BwTree<C>, model: &mut Model, removal: &Removal) {
    let from = removal.from.as_ref().map(Vec::as_slice);
    let to = removal.to.as_ref().map(Vec::as_slice);
    let (mut asked, mut gone) = (Vec::new(), Vec::new());
    tree.remove_range(from, to, |key, value| {
        if asked.len() == removal.most {
            return ControlFlow::Break(());
        }
        asked.push((key.to_vec(), value.to_vec()));
        let goes = asked.len() % removal.stays != 0;
        if goes {
            gone.push(key.to_vec());
        }
        ControlFlow::Continue(goes)
    });
    let (lower, upper) = (KeyBound::of(from), KeyBound::of(to));
    let inside = model.iter().filter(|(key, _)| {
        lower.is_none_or(|bound| bound.admits_from(key, Direction::Forward))
            && upper.is_none_or(|bound| bound.admits_before(key, Direction::Forward))
    });
    let expected: Vec<_> = inside.take(removal.most).collect();
    assert_eq!(asked.len(), expected.len());
    for ((key, shown), (expected, value)) in asked.iter().zip(expected) {
        assert_eq!(key, expected);
        assert!(value.starts_with(shown) && shown.len() >= value.len().min(RANGE_VALUE_BYTES));
    }
    gone.iter().for_each(|key| drop(model.remove(key)));
    let left = model
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()));
    assert_eq!(pairs(tree), left.collect::<Vec<_>>());
    tree.verify().expect("sound");
}

fn everything() -> Removal {
    Removal {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
        stays: usize::MAX,
        most: usize::MAX,
    }
}

fn check<C: Configuration>(rounds: &[(Vec<Vec<u8>>, Removal)]) {
    let (tree, mut model) = (BwTree::<C>::new(), Model::new());
    for (round, (keys, removal)) in rounds.iter().enumerate() {
        for (number, key) in keys.iter().enumerate() {
            // Some values have a block of their own.
            let bytes = if number % 5 == 0 { 700 } else { number % 90 };
            let value = vec![round as u8; bytes];
            let is_there = model.insert(key.clone(), value.clone()).is_some();
            assert_eq!(tree.put(key, &value), is_there);
        }
        remove(&tree, &mut model, removal);
    }
    remove(&tree, &mut model, &everything());
    assert_eq!(tree.statistics().get("leaves"), Some(1.0));
}

fn rounds() -> impl Strategy<Value = Vec<(Vec<Vec<u8>>, Removal)>> {
    let keys = prop::collection::vec(any_key(), 1..200);
    prop::collection::vec((keys, removal()), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn ranges_are_removed_from_tiny_nodes(rounds in rounds()) {
        check::<Tiny>(&rounds);
    }

    #[test]
    fn ranges_are_removed(rounds in rounds()) {
        check::<Standard>(&rounds);
        check::<CopyAndReplace>(&rounds);
    }
}

/// Each leaf of a range is looked at once, replaced once, and merged at most once, however many
/// keys it has.
#[test]
fn a_range_is_removed_leaf_by_leaf() {
    let tree = BwTree::<Standard>::new();
    (0..40_000_u32).for_each(|number| {
        tree.put(&number.to_be_bytes(), &number.to_le_bytes());
    });
    let leaves = tree.statistics().get("leaves").expect("counted");
    let count = |name: &str| tree.counters().get(name).expect("counted");
    let before = ["consolidations", "aborts"].map(count);
    let (from, to) = (100_u32.to_be_bytes(), 39_900_u32.to_be_bytes());
    let mut asked = 0;
    tree.remove_range(Bound::Included(&from), Bound::Excluded(&to), |_, _| {
        asked += 1;
        ControlFlow::Continue(true)
    });
    tree.verify().expect("sound");
    assert_eq!((asked, pairs(&tree).len()), (39_800, 200));
    let range_leaves = count("range_leaves");
    assert!(range_leaves <= leaves, "{range_leaves} of {leaves} leaves");
    assert!(
        range_leaves >= leaves - 4.0,
        "{range_leaves} of {leaves} leaves"
    );
    let after = ["consolidations", "aborts"].map(count);
    let (consolidations, aborts) = (after[0] - before[0], after[1] - before[1]);
    // The emptied leaf, the one that it merges into, and the parents of both.
    assert!(
        consolidations <= 4.0 * range_leaves && aborts <= 1.2 * range_leaves,
        "{consolidations} consolidations and {aborts} merges for {range_leaves} leaves"
    );
    let left = tree.statistics().get("leaves").expect("counted");
    assert!(left <= 5.0, "{left} leaves for 200 keys");
}

const THREADS: u64 = 4;
const OWN: u64 = 60;

/// Each thread fills a range of its own and removes it at once, while its neighbours do so in
/// leaves that they share; between the ranges lie keys that stay.
#[test]
fn threads_remove_ranges_that_share_leaves() {
    let tree = BwTree::<Tiny>::new();
    let key = |number: u64| number.to_be_bytes();
    let stays = |thread: u64| key(thread * 1_000);
    (0..=THREADS).for_each(|thread| {
        tree.put(&stays(thread), b"stays");
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tree = &tree;
            scope.spawn(move || {
                let first = thread * 1_000 + 1;
                let (from, to) = (key(first), key(first + OWN));
                let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
                for round in 0..150_u64 {
                    // The order differs by thread and round; 7 and 60 have no common divisor.
                    for number in (0..OWN).map(|n| first + (n * 7 + round + thread) % OWN) {
                        assert!(!tree.put(&key(number), &key(number)));
                    }
                    let mut expected = first..first + OWN;
                    tree.remove_range(from, to, |found, _| {
                        assert_eq!(
                            expected.next().map(key).as_ref().map(|k| &k[..]),
                            Some(found)
                        );
                        ControlFlow::Continue(true)
                    });
                    assert_eq!(expected.next(), None, "the range was asked about whole");
                    tree.remove_range(from, to, |found, _| panic!("{found:?} was removed"));
                    for near in [thread, thread + 1] {
                        assert!(tree.contains(&stays(near)), "a key that stays is lost");
                    }
                }
            });
        }
    });
    tree.verify().expect("sound");
    let left: Vec<_> = pairs(&tree).into_iter().map(|(key, _)| key).collect();
    let expected: Vec<_> = (0..=THREADS).map(|thread| stays(thread).to_vec()).collect();
    assert_eq!(left, expected);
}
