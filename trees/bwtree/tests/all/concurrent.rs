//! Threads on tiny nodes: recorded histories, and keys that must always be found.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering};

use hedgerow_bwtree::{BwTree, Tiny};
use hedgerow_index::{Decision, Direction, ScanRange};
use hedgerow_testkit::index_workload::{ConcurrentRun, check_concurrent};
use hedgerow_testkit::keys::KeyShape;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[test]
fn histories_in_tiny_nodes_are_linearizable() {
    for seed in 0..4 {
        for (count, remove_percent) in [(6, 45), (40, 45), (150, 25), (150, 45)] {
            let keys = KeyShape::Decimal.distinct(count, &mut StdRng::seed_from_u64(seed));
            let run = ConcurrentRun {
                keys,
                threads: 4,
                operations: 1_500,
                remove_percent,
                seed,
            };
            check_concurrent(&BwTree::<Tiny>::new(), &run)
                .unwrap_or_else(|violation| panic!("{count} keys, seed {seed}: {violation}"));
        }
    }
}

#[test]
fn increments_are_never_lost() {
    let tree = BwTree::<Tiny>::new();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let tree = &tree;
            scope.spawn(move || {
                let mut new = Vec::new();
                for i in 0..5_000_u64 {
                    let key = format!("counter-{:03}", (i * 7 + thread) % 40);
                    tree.update_with(key.as_bytes(), &mut new, |old, new| {
                        let old =
                            old.map_or(0, |old| u64::from_le_bytes(old.try_into().expect("8")));
                        new.extend_from_slice(&(old + 1).to_le_bytes());
                        Decision::Put(())
                    });
                }
            });
        }
    });
    let mut sum = 0;
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    tree.scan_range(&all, |_, count| {
        sum += u64::from_le_bytes(count.try_into().expect("8 bytes"));
        ControlFlow::Continue(())
    });
    assert_eq!(sum, 15_000);
    tree.verify().expect("sound");
}

const STAYING: u64 = 200;

/// Every tenth number stays; those between come and go, in runs, so that leaves fill and empty.
#[test]
fn keys_that_stay_are_always_found() {
    let tree = BwTree::<Tiny>::new();
    let key = |number: u64| number.to_be_bytes();
    (0..STAYING).for_each(|number| {
        tree.put(&key(number * 10), b"stays");
    });
    let working = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (tree, working) = (&tree, &working);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(thread);
                for _ in 0..150 {
                    let start = rng.random_range(0..STAYING * 10 - 200);
                    let numbers = || (start..start + 200).filter(|n| n % 10 != 0);
                    numbers().for_each(|number| {
                        tree.put(&key(number), b"goes");
                    });
                    numbers().for_each(|number| {
                        tree.remove(&key(number));
                    });
                }
                working.fetch_sub(1, Ordering::Release);
            });
        }
        while working.load(Ordering::Acquire) > 0 {
            for direction in [Direction::Forward, Direction::Reverse] {
                let mut staying = 0;
                let mut last: Option<Vec<u8>> = None;
                tree.scan_range(
                    &ScanRange::starting_at(Bound::Unbounded, direction),
                    |key, value| {
                        let forward = direction == Direction::Forward;
                        assert!(
                            last.as_deref()
                                .is_none_or(|last| (last < key) == forward && last != key)
                        );
                        last = Some(key.to_vec());
                        staying += u64::from(value == b"stays");
                        ControlFlow::Continue(())
                    },
                );
                assert_eq!(staying, STAYING, "{direction:?} scan lost keys that stay");
            }
            let keys: Vec<[u8; 8]> = (0..STAYING).map(|number| key(number * 10)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            tree.get_many(&keys, |index, value| {
                assert_eq!(value, Some(&b"stays"[..]), "get_many lost key {index}");
            });
            for key in keys {
                assert!(tree.contains(key), "get lost a key that stays");
            }
        }
    });
    tree.verify().expect("sound");
}

/// What a tree retired is released by whichever thread collects, also while the tree is dropped.
#[test]
fn trees_are_dropped_while_others_release_what_they_retired() {
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            scope.spawn(move || {
                for round in 0..400 {
                    let tree = BwTree::<Tiny>::new();
                    let keys = (0..600_u64).map(|key| (key * 7 + thread + round) % 601);
                    for key in keys.clone() {
                        tree.put(&key.to_be_bytes(), b"value");
                    }
                    for key in keys.filter(|key| key % 50 != 0) {
                        tree.remove(&key.to_be_bytes());
                    }
                }
            });
        }
    });
}
