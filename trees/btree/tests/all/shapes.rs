//! Key sets of one shape, large enough for several levels, in every configuration.

use std::ops::{Bound, ControlFlow};

use hedgerow_btree::BTree;
use hedgerow_btree::configuration::{
    Adaptive, AdaptiveBy, Baseline, Configuration, Fingerprint, FullyDense, Heads, Hints, Prefix,
    SemiDense, SemiDenseBy, WideHeads, WideHints,
};
use hedgerow_index::Direction;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

fn fill_and_drain<C: Configuration, const PAGE: usize>(keys: &[Vec<u8>]) {
    let mut tree = BTree::<C, PAGE>::default();
    for key in keys {
        assert!(tree.insert(key, key));
    }
    tree.verify().unwrap();
    let mut sorted = keys.to_vec();
    sorted.sort();
    let mut found = Vec::new();
    tree.scan(Bound::Unbounded, Direction::Forward, |key, value| {
        assert_eq!(key, value);
        found.push(key.to_vec());
        ControlFlow::Continue(())
    });
    assert_eq!(found, sorted);
    for key in keys {
        assert_eq!(tree.get(key, |value| value == key), Some(true));
        assert!(!tree.insert(key, b"other"));
    }
    tree.verify().unwrap();
    for (number, key) in keys.iter().enumerate() {
        assert!(tree.remove(key) && !tree.remove(key));
        assert_eq!(tree.get(key, |_| ()), None);
        if number % 1000 == 0 {
            tree.verify().unwrap();
        }
    }
    assert!(tree.is_empty());
    tree.verify().unwrap();
    let live = tree.statistics().get("live_bytes");
    assert_eq!(
        live,
        Some(PAGE as f64),
        "all pages but the root are given back"
    );
}

/// In page sizes of other tests, where they hold such keys: each pair is a tree to compile.
fn in_all(keys: &[Vec<u8>]) {
    fill_and_drain::<Baseline, 1024>(keys);
    fill_and_drain::<Prefix, 512>(keys);
    fill_and_drain::<Heads, 512>(keys);
    fill_and_drain::<WideHeads, 512>(keys);
    fill_and_drain::<Hints, 512>(keys);
    fill_and_drain::<WideHints, 512>(keys);
    fill_and_drain::<Fingerprint, 1024>(keys);
    fill_and_drain::<SemiDense, 1024>(keys);
    fill_and_drain::<FullyDense, 512>(keys);
    fill_and_drain::<Adaptive, 1024>(keys);
    fill_and_drain::<Adaptive, 4096>(keys);
    fill_and_drain::<Hints, 4096>(keys);
    fill_and_drain::<Hints, 65536>(keys);
}

fn shuffled(mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    keys.shuffle(&mut StdRng::seed_from_u64(7));
    keys
}

#[test]
fn integers_in_order_and_at_random() {
    let ascending: Vec<_> = (0..4000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
    in_all(&ascending);
    in_all(&ascending.iter().rev().cloned().collect::<Vec<_>>());
    in_all(&shuffled(ascending));
}

#[test]
fn random_words() {
    let mut random = StdRng::seed_from_u64(1);
    let keys: Vec<_> = (0..4000)
        .map(|_| random.random::<u64>().to_be_bytes().to_vec())
        .collect();
    in_all(&keys);
}

#[test]
fn paths() {
    let keys = (0..4000_u32)
        .map(|n| format!("/usr/share/doc/{}/{}/README.{}", n % 7, n % 101, n).into_bytes())
        .collect();
    in_all(&shuffled(keys));
}

#[test]
fn lengths_alone() {
    let keys = (0..1500).map(|len| vec![0; len]).collect();
    in_all(&shuffled(keys));
}

#[test]
fn prefixes_of_every_length() {
    let keys = (0..65_usize)
        .flat_map(|shared| {
            (0..40_u8).map(move |n| {
                let mut key = vec![b'x'; shared];
                key.push(n);
                key
            })
        })
        .collect();
    in_all(&shuffled(keys));
}

#[test]
fn keys_and_values_of_64_kib() {
    let mut tree = BTree::<Hints, 4096>::default();
    let key = |n: u8, len: usize| {
        let mut key = vec![b'k'; len];
        key.push(n);
        key
    };
    for len in [0, 480, 490, 500, 4096, 65535] {
        for n in 0..20 {
            assert!(tree.insert(&key(n, len), &vec![n; 7000 * usize::from(n)]));
        }
    }
    tree.verify().unwrap();
    for len in [0, 480, 490, 500, 4096, 65535] {
        for n in 0..20 {
            let expected = vec![n; 7000 * usize::from(n)];
            assert_eq!(
                tree.get(&key(n, len), |value| value == expected),
                Some(true)
            );
            assert!(tree.get(&key(n + 20, len), |_| ()).is_none());
        }
    }
    let mut count = 0;
    tree.scan(
        Bound::Excluded(&key(5, 65535)),
        Direction::Reverse,
        |_, _| {
            count += 1;
            ControlFlow::Continue(())
        },
    );
    // A shorter key ends in a byte below `k`, so all of them sort before the longest.
    assert_eq!(count, 5 * 20 + 5);
    for len in [0, 480, 490, 500, 4096, 65535] {
        for n in 0..20 {
            assert!(tree.remove(&key(n, len)));
        }
    }
    tree.verify().unwrap();
    assert_eq!(tree.statistics().get("live_bytes"), Some(4096.0));
}

fn number<C: Configuration>(tree: &BTree<C>, name: &str) -> f64 {
    let found = tree.statistics().get(name);
    found.unwrap_or_else(|| panic!("no statistic {name}"))
}

fn filled<C: Configuration>(keys: &[Vec<u8>]) -> BTree<C> {
    let mut tree = BTree::<C>::default();
    for key in keys {
        tree.insert(key, &[7; 8]);
    }
    tree.verify().unwrap();
    tree
}

/// Whether the means of levels and leaves multiply to what there is.
fn check_fan_out<C: Configuration>(keys: &[Vec<u8>]) -> [f64; 2] {
    let tree = filled::<C>(keys);
    let leaves: f64 = ["comparison", "fingerprint", "semi_dense", "fully_dense"]
        .iter()
        .map(|kind| number(&tree, &format!("{kind}_leaves")))
        .sum();
    let levels = number(&tree, "depth_levels") as usize - 1;
    assert!(levels >= 2, "{} has too few levels", C::NAME);
    let (mut nodes, mut children) = (0.0, 1.0);
    for level in (1..=levels).rev() {
        nodes += children;
        children *= number(&tree, &format!("level_{level}_children"));
    }
    let near = |one: f64, other: f64| (one - other).abs() < 1e-6 * other;
    assert!(near(children, leaves), "{}: {children} leaves", C::NAME);
    assert!(near(nodes, number(&tree, "inner_nodes")), "{}", C::NAME);
    let inner = number(&tree, "inner_children");
    assert!(near(inner * nodes, nodes - 1.0 + leaves), "{}", C::NAME);
    let records = number(&tree, "leaf_records");
    assert!(near(records * leaves, keys.len() as f64), "{}", C::NAME);
    let above = format!("level_{}_children", levels + 1);
    assert_eq!(tree.statistics().get(&above), None, "{}", C::NAME);
    [inner, records]
}

/// What optimisations do to fan-out (§4.4).
#[test]
fn fan_out_follows_what_nodes_leave_out_and_add() {
    let numbers = |n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes().to_vec();
    let integers: Vec<_> = (0..200_000).map(numbers).collect();
    let paths: Vec<_> = (0..120_000_u32)
        .map(|n| format!("/usr/share/doc/{:03}/{:02}/README.{}", n % 700, n % 17, n).into_bytes())
        .collect();
    let paths = shuffled(paths);
    check_fan_out::<Adaptive>(&integers);
    check_fan_out::<Adaptive>(&paths);
    check_fan_out::<Fingerprint>(&paths);
    let baseline = check_fan_out::<Baseline>(&paths);
    let prefix = check_fan_out::<Prefix>(&paths);
    assert!(prefix[0] > 1.1 * baseline[0], "{prefix:?}, {baseline:?}");
    assert!(prefix[1] > 1.2 * baseline[1], "{prefix:?}, {baseline:?}");
    check_fan_out::<Heads>(&integers);
}

#[test]
fn heads_tell_integers_apart_and_not_paths_alike() {
    let numbers = |n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes().to_vec();
    let integers = filled::<Hints>(&(0..20_000).map(numbers).collect::<Vec<_>>());
    assert_eq!(number(&integers, "leaf_distinct_heads_ratio"), 1.0);
    assert_eq!(number(&integers, "inner_distinct_heads_ratio"), 1.0);
    let strings = filled::<Hints>(&alike());
    assert!(number(&strings, "leaf_distinct_heads_ratio") < 0.5);
    let none = filled::<Prefix>(&alike()).statistics();
    assert_eq!(none.get("leaf_distinct_heads_ratio"), None);
}

#[test]
fn hints_narrow_searches_as_far_as_heads_differ() {
    let ratio = |keys: &[Vec<u8>]| {
        let leaf = filled::<Hints>(keys);
        assert_eq!(number(&leaf, "comparison_leaves"), 1.0);
        number(&leaf, "leaf_hinted_range_ratio")
    };
    let evenly = |count: u32| -> Vec<_> { (0..count).map(|n| n.to_be_bytes().to_vec()).collect() };
    // 16 hints cut 170 records into 17 tens. A record that a hint repeats may be in that before it
    // or in that behind it, as others may have its head.
    let expected = (154.0 * 10.0 + 16.0 * 20.0) / (170.0 * 170.0);
    assert!((ratio(&evenly(170)) - expected).abs() < 1e-12);
    // Of 180 records the last 20 are together, and the last hint's may be in 30.
    let expected = (145.0 * 10.0 + 15.0 * 20.0 + 30.0 + 19.0 * 20.0) / (180.0 * 180.0);
    assert!((ratio(&evenly(180)) - expected).abs() < 1e-12);
    let equal: Vec<_> = (0..170_u32)
        .map(|n| [b"same".as_slice(), &n.to_be_bytes()].concat())
        .collect();
    assert_eq!(ratio(&equal), 1.0);
    assert_eq!(ratio(&evenly(16)), 1.0, "too few records for hints");
    let unhinted = filled::<Heads>(&evenly(170));
    assert_eq!(number(&unhinted, "leaf_hinted_range_ratio"), 1.0);
}

fn partitioned(partitions: u32, each: u32) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(3);
    let mut next = vec![0_u32; partitions as usize];
    (0..partitions * each)
        .map(|_| {
            let partition = random.random_range(0..partitions);
            let counter = &mut next[partition as usize];
            *counter += 1;
            let mut key = partition.to_be_bytes().to_vec();
            key.extend_from_slice(&counter.to_be_bytes());
            key
        })
        .collect()
}

#[test]
fn dense_integers_in_any_order_become_arrays_of_values() {
    let ascending: Vec<_> = (0..50_000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let descending = ascending.iter().rev().cloned().collect();
    for keys in [ascending.clone(), descending, shuffled(ascending)] {
        let tree = filled::<FullyDense>(&keys);
        assert!(number(&tree, "comparison_leaves") < 0.1 * number(&tree, "fully_dense_leaves"));
        assert!(number(&tree, "dense_taken_ratio") > 0.85);
        assert!(number(&tree, "bytes_per_key") < 10.0);
    }
}

#[test]
fn dense_integers_at_random_become_slots_for_each_key() {
    let keys = shuffled((0..50_000_u32).map(|n| n.to_be_bytes().to_vec()).collect());
    let tree = filled::<SemiDense>(&keys);
    assert!(number(&tree, "semi_dense_leaves") > 10.0 * number(&tree, "comparison_leaves"));
    let hints = filled::<Hints>(&keys);
    assert!(number(&tree, "bytes_per_key") < 0.8 * number(&hints, "bytes_per_key"));
}

/// What semi dense leaves lack where ids ascend in several ranges, and have with options (§4.6).
#[test]
fn semi_dense_leaves_that_over_commit_serve_partitions() {
    let keys = partitioned(10, 3000);
    let plain = filled::<SemiDense>(&keys);
    let over = filled::<SemiDenseBy<true, true, true>>(&keys);
    let leaves = |tree: &dyn Fn(&str) -> f64| {
        [
            "semi_dense_leaves",
            "comparison_leaves",
            "overrun_splits",
            "bytes_per_key",
        ]
        .map(tree)
    };
    let all = [
        leaves(&|name| number(&plain, name)),
        leaves(&|name| number(&over, name)),
    ];
    assert!(all[1][0] > 2.0 * all[0][0], "{all:?}");
    assert!(all[1][2] > 10.0, "{all:?}");
    assert!(all[1][3] < 0.9 * all[0][3], "{all:?}");
    assert_eq!(over.len(), keys.len());
}

/// Where values are longer than those before, room ends before slots do.
#[test]
fn semi_dense_leaves_that_split_behind_ascending_keys_stay_full() {
    let fill = |tree: &mut dyn FnMut(&[u8], &[u8])| {
        for n in 0..20_000_u32 {
            tree(&n.to_be_bytes(), &[7; 16][..8 + (n / 5000) as usize * 2]);
        }
    };
    let (mut middle, mut end) = (
        BTree::<SemiDenseBy<false, true, false>>::default(),
        BTree::<SemiDenseBy<false, true, true>>::default(),
    );
    fill(&mut |key, value| assert!(middle.insert(key, value)));
    fill(&mut |key, value| assert!(end.insert(key, value)));
    middle.verify().unwrap();
    end.verify().unwrap();
    assert!(number(&end, "bytes_per_key") < number(&middle, "bytes_per_key"));
}

/// Scans by vectors visit what scans slot by slot visit, from everywhere and to both sides.
#[test]
fn scans_by_vectors_visit_the_same() {
    let mut random = StdRng::seed_from_u64(5);
    let keys: Vec<_> = (0..40_000_u32)
        .filter(|_| random.random_bool(0.7))
        .map(|n| n.to_be_bytes().to_vec())
        .collect();
    let keys = shuffled(keys);
    let (mut one, mut eight) = (
        filled::<SemiDense>(&keys),
        filled::<SemiDenseBy<true, false, false>>(&keys),
    );
    assert!(number(&eight, "semi_dense_leaves") > 5.0);
    for from in (0..40_000_u32).step_by(397) {
        for direction in [Direction::Forward, Direction::Reverse] {
            let from = from.to_be_bytes();
            let (mut some, mut others) = (Vec::new(), Vec::new());
            one.scan(Bound::Included(&from), direction, |key, _| {
                some.push(key.to_vec());
                if some.len() < 500 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            eight.scan(Bound::Included(&from), direction, |key, _| {
                others.push(key.to_vec());
                if others.len() < 500 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            assert_eq!(some, others);
        }
    }
}

#[test]
fn partitions_are_cut_apart() {
    let tree = filled::<FullyDense>(&partitioned(10, 3000));
    assert!(number(&tree, "overrun_splits") > 10.0);
    assert!(number(&tree, "fully_dense_leaves") > 2.0 * number(&tree, "comparison_leaves"));
}

#[test]
fn sparse_keys_are_left_alone() {
    let mut random = StdRng::seed_from_u64(1);
    let keys: Vec<_> = (0..20_000)
        .map(|_| random.random::<u32>().to_be_bytes().to_vec())
        .collect();
    let tree = filled::<FullyDense>(&keys);
    assert_eq!(number(&tree, "fully_dense_leaves"), 0.0);
}

/// Paths whose heads say nothing: ten files in each folder.
fn alike() -> Vec<Vec<u8>> {
    shuffled(
        (0..20_000_u32)
            .map(|n| format!("dir-{:04}/some/where/file-{}", n / 10, n % 10).into_bytes())
            .collect(),
    )
}

#[test]
fn the_adaptive_tree_follows_its_keys() {
    let strings = filled::<Adaptive>(&alike());
    assert_eq!(number(&strings, "comparison_leaves"), 0.0);
    assert!(number(&strings, "to_fingerprint_by_keys") > 0.0);
    let mut random = StdRng::seed_from_u64(1);
    let keys: Vec<_> = (0..20_000)
        .map(|_| random.random::<u64>().to_be_bytes().to_vec())
        .collect();
    let integers = filled::<Adaptive>(&keys);
    assert_eq!(number(&integers, "fingerprint_leaves"), 0.0);
}

#[test]
fn the_adaptive_tree_follows_what_is_done_with_it() {
    let keys = alike();
    let (early, late) = keys.split_at(keys.len() / 2);
    let mut tree = filled::<Adaptive>(early);
    let scan = |tree: &mut BTree<Adaptive>, direction| {
        tree.scan(
            Bound::Unbounded,
            direction,
            |_, _| ControlFlow::Continue(()),
        );
    };
    // Scans alone find records in order, once they were sorted.
    let leaves = number(&tree, "fingerprint_leaves");
    for _ in 0..120 {
        scan(&mut tree, Direction::Forward);
    }
    assert_eq!(number(&tree, "to_comparison_by_counter"), 0.0);
    assert_eq!(number(&tree, "fingerprint_leaves"), leaves);
    // Scans between insertions sort again and again.
    for keys in late.chunks(100) {
        for key in keys {
            assert!(tree.insert(key, b"eight by"));
        }
        scan(&mut tree, Direction::Forward);
    }
    scan(&mut tree, Direction::Reverse);
    tree.verify().unwrap();
    assert!(number(&tree, "to_comparison_by_counter") > 0.0);
    assert!(number(&tree, "comparison_leaves") > number(&tree, "fingerprint_leaves"));
    let pages = number(&tree, "live_bytes");
    // Lookups bring them back. Nobody's neighbours changed.
    for _ in 0..4 {
        for key in &keys {
            assert_eq!(tree.get(key, |value| value.len()), Some(8));
        }
    }
    tree.verify().unwrap();
    assert!(number(&tree, "to_fingerprint_by_counter") > 0.0);
    assert!(number(&tree, "comparison_leaves") < 0.1 * number(&tree, "fingerprint_leaves"));
    assert_eq!(number(&tree, "live_bytes"), pages);
}

/// Which form a leaf of given keys gets depends on the configuration's thresholds, as do the
/// operations after which it changes (§5.1).
#[test]
fn thresholds_say_which_leaves_change_and_when() {
    // Of four keys the last has the head of the one before.
    let keys: Vec<_> = (0..20_000_u32)
        .map(|n| format!("{:08}-alike-{}", n / 4 * 3 + (n % 4).min(2), n % 4).into_bytes())
        .collect();
    let keys = shuffled(keys);
    let strict = filled::<AdaptiveBy<1, 100, 3>>(&keys);
    let lenient = filled::<AdaptiveBy<64, 100, 3>>(&keys);
    assert!(number(&strict, "fingerprint_leaves") > 10.0 * number(&strict, "comparison_leaves"));
    assert_eq!(number(&lenient, "fingerprint_leaves"), 0.0);
    assert_eq!(
        number(
            &filled::<AdaptiveBy<4, 100, 3>>(&keys),
            "fingerprint_leaves"
        ),
        number(&filled::<Adaptive>(&keys), "fingerprint_leaves")
    );
    assert!(conversions::<AdaptiveBy<4, 500, 3>>() > conversions::<AdaptiveBy<4, 50, 3>>());
    assert!(conversions::<AdaptiveBy<4, 100, 3>>() > 2.0 * conversions::<AdaptiveBy<4, 100, 99>>());
}

/// How many leaves scans between insertions make compare, in a tree of fingerprints.
fn conversions<C: Configuration>() -> f64 {
    let keys = alike();
    let (early, late) = keys.split_at(keys.len() / 2);
    let mut tree = filled::<C>(early);
    for keys in late.chunks(200) {
        for key in keys {
            assert!(tree.insert(key, b"eight by"));
        }
        tree.scan(Bound::Unbounded, Direction::Forward, |_, _| {
            ControlFlow::Continue(())
        });
    }
    tree.verify().unwrap();
    number(&tree, "to_comparison_by_counter")
}

/// Keys of a group whose heads are equal, and keys of the same group whose heads differ.
fn of_groups(heads_differ: bool) -> Vec<Vec<u8>> {
    let keys = (0..20_000_u32).map(|n| {
        let (group, number) = (n / 10, n % 10);
        let first = if heads_differ {
            number as u8 * 25
        } else {
            b's'
        };
        let tail = [&[first][..], b"ame-", &[number as u8]].concat();
        [&group.to_be_bytes()[..], &tail].concat()
    });
    shuffled(keys.collect())
}

/// Where insertions and removals balance, no split looks at keys (§5.1).
#[test]
fn leaves_whose_keys_were_replaced_adapt_when_told() {
    let (old, new) = (of_groups(false), of_groups(true));
    let mut tree = filled::<Adaptive>(&old);
    assert_eq!(number(&tree, "comparison_leaves"), 0.0);
    for (old, new) in old.iter().zip(&new) {
        assert!(tree.remove(old) && tree.insert(new, &[8; 8]));
    }
    let leaves = number(&tree, "fingerprint_leaves");
    assert!(leaves > 9.0 * number(&tree, "comparison_leaves"));
    let pages = number(&tree, "live_bytes");
    assert!(tree.adapt_to_keys() as f64 >= leaves);
    tree.verify().unwrap();
    // The first and the last leaf have no prefix: their heads are of groups alone.
    assert!(number(&tree, "fingerprint_leaves") <= 2.0);
    assert!(number(&tree, "to_comparison_by_keys") >= leaves - 2.0);
    assert_eq!(number(&tree, "live_bytes"), pages);
    for key in &new {
        assert_eq!(tree.get(key, |value| value == [8; 8]), Some(true));
    }
    // And back.
    for (old, new) in old.iter().zip(&new) {
        assert!(tree.remove(new) && tree.insert(old, &[9; 8]));
    }
    tree.adapt_to_keys();
    tree.verify().unwrap();
    assert!(number(&tree, "fingerprint_leaves") > 9.0 * number(&tree, "comparison_leaves"));
}
