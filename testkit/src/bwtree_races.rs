//! Race tests on a Bw-tree: threads in exactly the situation that one step of its protocols is
//! there for, and random work on nodes of four items, in which all of them come up.
//!
//! A scan's callback runs between two leaves, so a scan can be stopped there while the leaf ahead
//! of it is merged away, or its id is used again.

use std::ops::{Bound, ControlFlow};

use hedgerow_bwtree::{BwTree, Standard, Tiny};
use hedgerow_index::{Direction, ScanRange};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::index_workload::{ConcurrentRun, check_concurrent, check_sequential};
use crate::keys::KeyShape;
use crate::tree_races::RaceTest;

/// All race tests.
pub const RACE_TESTS: [RaceTest; 5] = [
    RaceTest {
        name: "one thread beside a model",
        run: beside_a_model,
        rounds: 100,
    },
    RaceTest {
        name: "one merge",
        run: one_merge,
        rounds: 100,
    },
    RaceTest {
        name: "a scan before a leaf that is merged",
        run: scan_before_a_merge,
        rounds: 100,
    },
    RaceTest {
        name: "a scan before a leaf whose id is used again",
        run: scan_before_a_used_id,
        rounds: 100,
    },
    RaceTest {
        name: "splits beside merges",
        run: splits_beside_merges,
        rounds: 2_000,
    },
];

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn fill<C: hedgerow_bwtree::Configuration>(
    tree: &BwTree<C>,
    numbers: impl IntoIterator<Item = u64>,
) {
    numbers.into_iter().for_each(|number| {
        tree.put(&key(number), &key(number));
    });
}

/// Few operations, so that a tree that goes wrong is looked at before it is lost.
fn beside_a_model(rounds: usize) -> Result<(), String> {
    for seed in 0..rounds as u64 {
        let keys = KeyShape::Decimal.distinct(30, &mut StdRng::seed_from_u64(seed));
        check_sequential(&BwTree::<Tiny>::new(), &keys, 200, seed).map_err(|v| v.to_string())?;
    }
    Ok(())
}

/// Two leaves become one, and the parent knows.
fn one_merge(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let tree = BwTree::<Standard>::new();
        fill(&tree, 0..400);
        let merges = || tree.counters().get("merges").unwrap_or_default();
        let gone = (0..400).take_while(|&number| {
            tree.remove(&key(number * 7 % 400));
            merges() == 0.0
        });
        if gone.count() == 400 {
            return Err("no leaf was merged".to_owned());
        }
        tree.verify()?;
    }
    Ok(())
}

/// What a scan of numbers finds if `interrupt` runs once, in the middle of the scan's first leaf.
fn interrupted_scan(tree: &BwTree<Tiny>, mut interrupt: impl FnMut()) -> Vec<u64> {
    let mut found = Vec::new();
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    tree.scan_range(&all, |key, _| {
        if found.is_empty() {
            interrupt();
        }
        found.push(key.try_into().map_or(0, u64::from_be_bytes));
        ControlFlow::Continue(())
    });
    found
}

fn expect_staying(found: &[u64], staying: &[u64], what: &str) -> Result<(), String> {
    let ascending = found.windows(2).all(|pair| pair[0] < pair[1]);
    let missing = staying.iter().find(|number| !found.contains(number));
    match (ascending, missing) {
        (true, None) => Ok(()),
        (false, _) => Err(format!("{what}: out of order: {found:?}")),
        (_, Some(missing)) => Err(format!("{what}: {missing} is missing among {found:?}")),
    }
}

/// The leaf that a scan is in loses all keys, so it takes over those of the leaf ahead, of which
/// one stays.
fn scan_before_a_merge(rounds: usize) -> Result<(), String> {
    for round in 0..rounds as u64 {
        let count = 12 + round % 20;
        for staying in 2..count {
            let tree = BwTree::<Tiny>::new();
            fill(&tree, 0..count);
            let found = interrupted_scan(&tree, || {
                for number in (0..count).filter(|&number| number != staying) {
                    tree.remove(&key(number));
                }
            });
            expect_staying(&found, &[staying], "a scan before a merge")?;
            tree.verify()?;
        }
    }
    Ok(())
}

/// The leaf ahead of a scan is merged away, and leaves that split elsewhere take new ids.
fn scan_before_a_used_id(rounds: usize) -> Result<(), String> {
    for round in 0..rounds as u64 {
        let count = 16 + round % 20;
        let tree = BwTree::<Tiny>::new();
        fill(&tree, 0..count);
        let found = interrupted_scan(&tree, || {
            (1..count - 2).for_each(|number| {
                tree.remove(&key(number));
            });
            fill(&tree, 1_000..1_030);
        });
        expect_staying(
            &found,
            &[0, count - 2, count - 1],
            "a scan before a used id",
        )?;
        tree.verify()?;
    }
    Ok(())
}

/// Threads on few keys of tiny nodes; every round is checked and verified.
fn splits_beside_merges(rounds: usize) -> Result<(), String> {
    for seed in 0..rounds as u64 {
        let keys = KeyShape::Decimal.distinct(60, &mut StdRng::seed_from_u64(seed));
        let run = ConcurrentRun {
            keys,
            threads: 4,
            operations: 200,
            remove_percent: 45,
            seed,
        };
        check_concurrent(&BwTree::<Tiny>::new(), &run).map_err(|v| v.to_string())?;
    }
    Ok(())
}
