//! The adaptive threshold: what is written has long chains, what is read has short ones.

use std::ops::{Bound, ControlFlow};

use hedgerow_bwtree::{BwTree, Configuration, FixedThreshold, Standard, Threshold};
use hedgerow_index::{Direction, ScanRange};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const KEYS: u64 = 2_000;

/// [`Standard`] with room for twice its longest fixed chain in each chunk.
enum Roomy {}

impl Configuration for Roomy {
    type Entries = <Standard as Configuration>::Entries;
    type Epochs = <Standard as Configuration>::Epochs;
    const LEAF_ITEMS: usize = Standard::LEAF_ITEMS;
    const INNER_ITEMS: usize = Standard::INNER_ITEMS;
    const NODE_BYTES: usize = Standard::NODE_BYTES;
    const LEAF_CHAIN: u16 = Standard::LEAF_CHAIN;
    const INNER_CHAIN: u16 = Standard::INNER_CHAIN;
    const LEAF_DELTA_BYTES: usize = 2 * 64 * Standard::LEAF_CHAIN as usize;
    const INNER_DELTA_BYTES: usize = Standard::INNER_DELTA_BYTES;
    const THRESHOLD: Threshold = Standard::THRESHOLD;
}

fn filled<C: Configuration>() -> BwTree<C> {
    let tree = BwTree::new();
    let mut keys: Vec<u64> = (0..KEYS).collect();
    keys.shuffle(&mut StdRng::seed_from_u64(3));
    for key in keys {
        tree.put(&key.to_be_bytes(), &key.to_le_bytes());
    }
    tree
}

fn count<C: Configuration>(tree: &BwTree<C>, name: &str) -> f64 {
    tree.statistics().get(name).expect("counted")
}

fn update<C: Configuration>(tree: &BwTree<C>, rng: &mut StdRng, value: u64) {
    let key: u64 = rng.random_range(0..KEYS);
    assert!(tree.put(&key.to_be_bytes(), &value.to_le_bytes()));
}

fn scan_one<C: Configuration>(tree: &BwTree<C>, key: u64) {
    let from = key.to_be_bytes();
    let range = ScanRange::starting_at(Bound::Included(&from), Direction::Forward).limited(1);
    tree.scan_range(&range, |_, _| ControlFlow::Continue(()));
}

#[test]
fn what_is_only_written_has_chains_as_long_as_chunks_permit() {
    let (adaptive, fixed) = (filled::<Roomy>(), filled::<FixedThreshold<Roomy>>());
    let mut rng = StdRng::seed_from_u64(4);
    for value in 0..20_000 {
        update(&adaptive, &mut rng.clone(), value);
        update(&fixed, &mut rng, value);
    }
    let most = f64::from(Standard::LEAF_CHAIN);
    assert!(count(&adaptive, "longest_chain") > most);
    assert!(count(&fixed, "longest_chain") <= most);
    assert!(count(&adaptive, "consolidations") < 0.7 * count(&fixed, "consolidations"));
    assert_eq!(count(&adaptive, "read_consolidations"), 0.0);
}

/// Deltas of a chain that is consolidated, on average, with so many reads for each update.
fn mean_chain<C: Configuration>(reads: u64, by_scans: bool) -> f64 {
    let tree = filled::<C>();
    let mut rng = StdRng::seed_from_u64(5);
    let mut reader = StdRng::seed_from_u64(6);
    let names = ["consolidated_deltas", "consolidations"];
    let before = names.map(|name| count(&tree, name));
    for value in 0..10_000 {
        update(&tree, &mut rng, value);
        for _ in 0..reads {
            let key = reader.random_range(0..KEYS);
            if by_scans {
                scan_one(&tree, key);
            } else {
                assert!(tree.contains(&key.to_be_bytes()));
            }
        }
    }
    tree.verify().expect("sound");
    let after = names.map(|name| count(&tree, name));
    (after[0] - before[0]) / (after[1] - before[1])
}

#[test]
fn chains_are_the_shorter_the_more_reads_there_are_for_each_write() {
    for (by_scans, least_ratio) in [(false, 1.5), (true, 4.0)] {
        let means = [0, 4, 16, 64].map(|reads| mean_chain::<Roomy>(reads, by_scans));
        assert!(means.is_sorted_by(|few, many| few > many), "{means:?}");
        assert!(means[0] > least_ratio * means[3], "{means:?}");
    }
    let fixed = [0, 16].map(|reads| mean_chain::<FixedThreshold<Roomy>>(reads, false));
    assert_eq!(fixed[0].to_bits(), fixed[1].to_bits(), "{fixed:?}");
}

#[test]
fn what_is_only_read_soon_has_no_chains() {
    let (adaptive, fixed) = (filled::<Standard>(), filled::<FixedThreshold>());
    let before = [count(&adaptive, "deltas"), count(&fixed, "deltas")];
    let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_be_bytes).collect();
    let refs: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    for _ in 0..30 {
        for key in 0..KEYS {
            adaptive.contains(&key.to_be_bytes());
            fixed.contains(&key.to_be_bytes());
        }
        adaptive.get_many(&refs, |_, value| assert!(value.is_some()));
        fixed.get_many(&refs, |_, value| assert!(value.is_some()));
    }
    assert!(count(&adaptive, "deltas") < before[0] / 10.0);
    assert!(count(&adaptive, "read_consolidations") > 0.0);
    assert_eq!(count(&fixed, "deltas"), before[1]);
}

/// Scans consolidate the leaves before the deletes would, which look for neighbours to merge with
/// only when they consolidate.
#[test]
fn leaves_that_reads_consolidate_are_merged() {
    let tree = filled::<Standard>();
    let mut keys: Vec<u64> = (0..KEYS).filter(|key| key % 16 > 0).collect();
    keys.shuffle(&mut StdRng::seed_from_u64(6));
    for key in keys {
        assert!(tree.remove(&key.to_be_bytes()));
        scan_one(&tree, key);
        scan_one(&tree, key);
    }
    tree.verify().expect("sound");
    assert!(count(&tree, "read_consolidations") > 100.0);
    let leaves = count(&tree, "leaves");
    assert!(leaves <= 4.0, "{leaves} leaves for {} keys", KEYS / 16);
}
