//! Key sets of one shape, large enough for several levels, in every configuration.

use std::ops::{Bound, ControlFlow};

use hedgerow_btree::BTree;
use hedgerow_btree::configuration::{
    Baseline, Configuration, Fingerprint, Heads, Hints, Prefix, WideHeads, WideHints,
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

fn in_all(keys: &[Vec<u8>]) {
    fill_and_drain::<Baseline, 1024>(keys);
    fill_and_drain::<Prefix, 1024>(keys);
    fill_and_drain::<Heads, 1024>(keys);
    fill_and_drain::<WideHeads, 1024>(keys);
    fill_and_drain::<Hints, 1024>(keys);
    fill_and_drain::<WideHints, 1024>(keys);
    fill_and_drain::<Fingerprint, 1024>(keys);
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
