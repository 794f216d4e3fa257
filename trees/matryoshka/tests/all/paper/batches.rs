//! Batches of inserts and removals beside the model, and every position of a node under every
//! search kernel.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{BulkLoad, Direction, IntIndex};
use hedgerow_matryoshka::{
    AllProposals, Eytzinger, Fence, FenceSuperpage, Flat, FlatFast, FlatSuperpage, Matryoshka,
    Plain, Reported, Strategy, WithPipelining, WithSuperpages, WithoutBranches,
};
use hedgerow_simd::Level;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// Keys of a batch: all over, next to one another, or behind all others.
fn batch(rng: &mut StdRng, round: u64, size: usize) -> Vec<u64> {
    let start = rng.random_range(0..100_000);
    (0..size as u64)
        .map(|number| match round % 3 {
            0 => rng.random_range(0..100_000),
            1 => start + number,
            _ => 100_000 + round * 1_000 + number,
        })
        .collect()
}

fn pairs_of<S: Strategy>(tree: &Matryoshka<u64, u64, S>) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    tree.scan(Bound::Unbounded, Direction::Forward, |key, value| {
        pairs.push((key, value));
        ControlFlow::Continue(())
    });
    pairs
}

fn batches_match<S: Strategy>() {
    let mut rng = StdRng::seed_from_u64(11);
    let mut tree: Matryoshka<u64, u64, S> = Matryoshka::new();
    let mut model = BTreeMap::new();
    for round in 0..400_u64 {
        let size = [0, 1, 31, 32, 33, 700][round as usize % 6];
        let mut keys = batch(&mut rng, round, size);
        let before = model.len();
        if rng.random_range(0..100) < if round < 200 { 75 } else { 40 } {
            let mut pairs: Vec<(u64, u64)> = keys.iter().map(|&key| (key, rng.random())).collect();
            for &(key, value) in &pairs {
                model.insert(key, value);
            }
            assert_eq!(tree.insert_many(&mut pairs), model.len() - before);
        } else {
            keys.extend(model.keys().skip(size).take(size));
            for key in &keys {
                model.remove(key);
            }
            assert_eq!(tree.remove_many(&mut keys), before - model.len());
        }
        tree.verify().expect("sound after a batch");
        assert_eq!(tree.len(), model.len());
    }
    assert!(model.into_iter().eq(pairs_of(&tree)));
}

#[test]
fn batches_match_the_model() {
    batches_match::<Plain>();
    batches_match::<Fence>();
    batches_match::<Eytzinger>();
    batches_match::<Flat>();
    batches_match::<FlatFast>();
    batches_match::<FenceSuperpage>();
    batches_match::<FlatSuperpage>();
    batches_match::<Reported>();
    batches_match::<WithPipelining>();
    batches_match::<AllProposals>();
}

/// Every second key of a batch lies all over, the others crowd on a few pages: those are cut and
/// joined while other keys of the batch are on their way to them. Keys come several times.
fn scattered_batches_match<S: Strategy>() {
    let mut rng = StdRng::seed_from_u64(12);
    let mut tree: Matryoshka<u64, u64, S> = Matryoshka::new();
    let mut model: BTreeMap<u64, u64> = (0..45_000).map(|key| (8 * key, key)).collect();
    tree.bulk_load(model.iter().map(|(&key, &value)| (key, value)))
        .expect("ascending");
    for round in 0..600_u64 {
        let crowd = rng.random_range(0..350_000);
        let keys = (0..100).map(|number| match number % 2 {
            0 => rng.random_range(0..360_000),
            _ => rng.random_range(crowd..crowd + 600),
        });
        let mut keys: Vec<u64> = keys.collect();
        let before = model.len();
        if round % 100 < 50 {
            let mut pairs: Vec<(u64, u64)> = keys.iter().map(|&key| (key, rng.random())).collect();
            model.extend(pairs.iter().copied());
            assert_eq!(tree.insert_many(&mut pairs), model.len() - before);
        } else {
            keys.extend(model.range(crowd..).take(90).map(|pair| *pair.0));
            keys.shuffle(&mut rng);
            for key in &keys {
                model.remove(key);
            }
            assert_eq!(tree.remove_many(&mut keys), before - model.len());
        }
        tree.verify().expect("sound after a batch");
    }
    assert!(model.into_iter().eq(pairs_of(&tree)));
}

#[test]
fn scattered_batches_match_the_model() {
    scattered_batches_match::<Plain>();
    scattered_batches_match::<Eytzinger>();
    scattered_batches_match::<Flat>();
    scattered_batches_match::<FlatSuperpage>();
    scattered_batches_match::<Reported>();
    scattered_batches_match::<WithSuperpages>();
    scattered_batches_match::<WithPipelining>();
}

/// As many keys as make every line and node up to two inner nodes full in turn; all kernels must
/// find each key, and what is next to it, at its very position.
fn positions_match<S: Strategy>() {
    let sizes = (1..=130).chain([363, 364, 365, 2_000, 20_000]);
    for size in sizes {
        for level in Level::supported() {
            let mut tree: Matryoshka<u64, u64, S> = Matryoshka::with_level(level);
            tree.bulk_load((1..=size).map(|key| (2 * key, key)))
                .expect("ascending");
            for key in 1..=size {
                let seen = (tree.get(2 * key), tree.get(2 * key + 1));
                assert_eq!(seen, (Some(key), None), "{key} of {size}, {}", level.name());
                assert_eq!(tree.predecessor(2 * key + 1), Some((2 * key, key)));
                assert_eq!(tree.successor(2 * key - 1), Some((2 * key, key)));
            }
        }
    }
}

/// The same for 32-bit keys, in the order that leaves full lines and in random order.
fn narrow_positions_match<S: Strategy>() {
    let mut rng = StdRng::seed_from_u64(2);
    for size in (1..=20).chain([207, 208, 209, 854, 855, 856, 5_000]) {
        for level in Level::supported() {
            let mut tree: Matryoshka<i32, u32, S> = Matryoshka::with_level(level);
            let mut keys: Vec<i32> = (1..=size).map(|key| 2 * key - 1_000).collect();
            if size % 2 == 0 {
                keys.shuffle(&mut rng);
            }
            for &key in &keys {
                assert_eq!(tree.insert(key, key as u32), None);
            }
            for key in keys {
                let seen = (tree.get(key), tree.get(key + 1));
                assert_eq!(
                    seen,
                    (Some(key as u32), None),
                    "{key} of {size}, {}",
                    level.name()
                );
                assert_eq!(tree.predecessor(key + 1), Some((key, key as u32)));
                assert_eq!(tree.successor(key - 1), Some((key, key as u32)));
            }
        }
    }
}

#[test]
fn kernels_agree_at_every_narrow_position() {
    narrow_positions_match::<Plain>();
    narrow_positions_match::<Eytzinger>();
    narrow_positions_match::<Flat>();
}

#[test]
fn kernels_agree_at_every_position() {
    positions_match::<Plain>();
    positions_match::<Fence>();
    positions_match::<Eytzinger>();
    positions_match::<Flat>();
    positions_match::<FlatFast>();
    positions_match::<FenceSuperpage>();
    positions_match::<FlatSuperpage>();
    positions_match::<Reported>();
    positions_match::<WithoutBranches>();
}
