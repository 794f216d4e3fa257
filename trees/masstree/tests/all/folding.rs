//! Layers that hold nothing of their own go with the keys that made them, without any call of
//! `collapse_deferred`.

use std::thread;

use hedgerow_masstree::{Bytes, Concurrent, Configuration, Masstree, SingleThreaded};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Two keys that alone share `slices` whole slices.
fn pair(number: u64, slices: usize) -> [Vec<u8>; 2] {
    let shared = [&number.to_be_bytes()[..], &vec![b's'; 8 * (slices - 1)]].concat();
    [b'a', b'b'].map(|tail| [&shared[..], &[tail; 12]].concat())
}

fn number<C: Configuration>(tree: &Masstree<u64, C>, name: &str) -> f64 {
    tree.statistics().get(name).expect("a statistic")
}

fn assert_is_empty<C: Configuration>(tree: &Masstree<u64, C>, case: &str) {
    tree.verify()
        .unwrap_or_else(|problem| panic!("{case}: {problem}"));
    for (name, count) in [("keys", 0.0), ("layers", 1.0), ("border_nodes", 1.0)] {
        assert_eq!(number(tree, name), count, "{name}, {case}");
    }
}

fn pairs_leave_nothing_behind<C: Configuration>() {
    for (slices, pairs) in [(1, 500), (2, 500), (4, 500), (6, 500), (200, 20)] {
        let case = format!("{pairs} pairs of {slices} slices");
        let tree = Masstree::<u64, C>::new();
        let all = || (0..pairs).map(|number| pair(number, slices));
        // Both keys of a pair one after the other.
        for keys in all() {
            keys.iter().for_each(|key| {
                tree.put(key, 1);
            });
            keys.iter().for_each(|key| {
                tree.remove(key).expect("present");
            });
        }
        assert_is_empty(&tree, &case);
        // All of the tree, and then the first of each pair before the second of any.
        for key in all().flatten() {
            tree.put(&key, 2);
        }
        let layers = 1.0 + (pairs as usize * slices) as f64;
        assert_eq!(number(&tree, "layers"), layers, "{case}");
        for which in 0..2 {
            for keys in all() {
                assert_eq!(tree.remove(&keys[which]), Some(2), "{case}");
                if which == 0 {
                    assert_eq!(tree.get(&keys[1]), Some(2), "{case}");
                }
            }
            assert_eq!(number(&tree, "layers"), 1.0, "{case}, {which}");
        }
        assert_is_empty(&tree, &case);
    }
}

#[test]
fn removals_of_pairs_leave_no_layer_behind() {
    pairs_leave_nothing_behind::<Concurrent>();
}

#[test]
fn removals_of_pairs_leave_no_layer_behind_in_a_tree_of_one_thread() {
    pairs_leave_nothing_behind::<SingleThreaded>();
}

/// A key ends in each of the layers that one long prefix passes through.
#[test]
fn removals_in_any_order_leave_no_layer_behind() {
    let path = [b'p'; 160];
    let keys: Vec<Vec<u8>> = (0..20_usize)
        .flat_map(|layer| [(layer, 3), (layer, 8)])
        .map(|(layer, more)| path[..8 * layer + more].to_vec())
        .collect();
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let tree: Masstree<u64> = Masstree::new();
        for key in &keys {
            tree.put(key, key.len() as u64);
        }
        assert_eq!(number(&tree, "layers"), 20.0);
        let mut left = keys.clone();
        while !left.is_empty() {
            let at = match seed {
                0 => 0,
                1 => left.len() - 1,
                _ => random.random_range(0..left.len()),
            };
            let gone = left.swap_remove(at);
            left.sort();
            assert_eq!(tree.remove(&gone), Some(gone.len() as u64));
            tree.verify().expect("sound");
            for key in &left {
                assert_eq!(tree.get(key), Some(key.len() as u64));
            }
        }
        assert_is_empty(&tree, "keys in each layer of one path");
    }
}

#[test]
fn a_key_that_is_folded_through_many_layers_keeps_its_value() {
    let tree: Masstree<Bytes> = Masstree::new();
    let value = |number: u64| vec![number as u8; 100];
    for number in 0..200 {
        let keys = pair(number, 1 + number as usize % 70);
        keys.iter().for_each(|key| {
            tree.put(key, &value(number));
        });
        assert!(tree.remove(&keys[number as usize % 2]));
    }
    tree.verify().expect("sound");
    assert_eq!(tree.statistics().get("layers"), Some(1.0));
    for number in 0..200 {
        let keys = pair(number, 1 + number as usize % 70);
        let stays = &keys[1 - number as usize % 2];
        assert_eq!(tree.get_with(stays, <[u8]>::to_vec), Some(value(number)));
    }
}

/// Keys of several threads share layers at several depths, which come and go all the time.
#[test]
fn threads_that_share_layers_leave_none_behind() {
    let key = |path: usize, layer: usize, tail: u8| {
        let slices = [&[b'a' + path as u8; 8][..], &vec![b's'; 8 * layer]].concat();
        [&slices[..], &[tail; 10]].concat()
    };
    for round in 0..10 {
        let tree: Masstree<u64> = Masstree::new();
        thread::scope(|scope| {
            for tail in 0..3_u8 {
                let tree = &tree;
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(round * 3 + u64::from(tail));
                    for step in 0..3_000_u64 {
                        let key = key(random.random_range(0..3), random.random_range(0..6), tail);
                        let before = tree.get(&key);
                        if random.random_range(0..2) == 0 {
                            assert_eq!(tree.put(&key, step), before, "a key of its own");
                        } else {
                            assert_eq!(tree.remove(&key), before, "a key of its own");
                        }
                    }
                    for (path, layer) in (0..3).flat_map(|path| (0..6).map(move |at| (path, at))) {
                        tree.remove(&key(path, layer, tail));
                    }
                });
            }
        });
        // What met other threads too often waits.
        tree.collapse_deferred();
        assert_is_empty(&tree, "threads of shared layers");
    }
}
