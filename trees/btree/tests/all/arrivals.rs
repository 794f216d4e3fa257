//! Keys that arrive in some order: ascending, descending, in many ranges at once, or almost so.
//! Trees are right whatever it is, their leaves full where an order lasts, and never mostly empty.

use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::configuration::{
    Adaptive, Baseline, Configuration, Fingerprint, FullyDense, Hints, SemiDense, WideHints,
};
use hedgerow_btree::{BTree, BTreeIndex};
use hedgerow_index::Statistics;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::steps::arrivals;
use crate::{model, shared_model};

macro_rules! models {
    ($module:ident $cases:literal: $($name:ident $config:ident $page:literal;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: $cases, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(steps in arrivals()) {
                    $module::check::<$config, $page>(&steps);
                }
            )*
        }
    };
}

models! {
    model 48:
    baseline Baseline 256;
    hints_512 Hints 512;
    wide_hints WideHints 512;
    fingerprint Fingerprint 1024;
    semi_dense SemiDense 256;
    fully_dense FullyDense 512;
    adaptive Adaptive 256;
    adaptive_1024 Adaptive 1024;
}

models! {
    shared_model 8:
    shared_hints Hints 1024;
    shared_fingerprint Fingerprint 1024;
    shared_semi_dense SemiDense 1024;
    shared_adaptive Adaptive 1024;
}

/// Keys of a kind, ascending.
type Kind = fn(u64) -> Vec<u8>;

/// Far apart, so that no leaf is an array of values.
fn integers(n: u64) -> Vec<u8> {
    (1000 * n).to_be_bytes().to_vec()
}

fn decimals(n: u64) -> Vec<u8> {
    format!("{:010}", 7 * n).into_bytes()
}

fn orders(n: u64) -> Vec<u8> {
    format!("customer-{:05}/order-{:08}", n / 500, 3 * (n % 500)).into_bytes()
}

/// Heads that say little.
fn folders(n: u64) -> Vec<u8> {
    format!("dir-{:04}/some/where/file-{}", n / 10, n % 10).into_bytes()
}

const KINDS: [Kind; 4] = [integers, decimals, orders, folders];
const KEYS: u64 = 20_000;

fn ascending(kind: Kind) -> Vec<Vec<u8>> {
    (0..KEYS).map(kind).collect()
}

/// The next of one of so many ranges, by chance.
fn partitioned(kind: Kind, partitions: u64, descending: bool) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(5);
    let each = KEYS / partitions;
    let mut ranges: Vec<_> = (0..partitions).map(|p| (p * each, each)).collect();
    let mut keys = Vec::new();
    while !ranges.is_empty() {
        let range = random.random_range(0..ranges.len());
        let (first, left) = &mut ranges[range];
        *left -= 1;
        let at = if descending { *left } else { each - 1 - *left };
        keys.push(kind(*first + at));
        if *left == 0 {
            ranges.swap_remove(range);
        }
    }
    keys
}

/// Ascending, but for up to so many places.
fn jittered(kind: Kind, places: u64) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(6);
    let mut numbers: Vec<_> = (0..KEYS)
        .map(|n| (n + random.random_range(0..=places), n))
        .collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|(_, n)| kind(n)).collect()
}

/// Consecutive keys together, these in random order.
fn bursts(kind: Kind, each: usize) -> Vec<Vec<u8>> {
    let keys = ascending(kind);
    let mut bursts: Vec<_> = keys.chunks(each).map(<[Vec<u8>]>::to_vec).collect();
    bursts.shuffle(&mut StdRng::seed_from_u64(7));
    bursts.concat()
}

fn filled<C: Configuration, const PAGE: usize>(keys: &[Vec<u8>]) -> Statistics {
    let mut tree = BTree::<C, PAGE>::default();
    for key in keys {
        assert!(tree.insert(key, &[7; 8]));
    }
    tree.verify().unwrap();
    tree.statistics()
}

fn filled_shared<C: Configuration, const PAGE: usize>(keys: &[Vec<u8>]) -> Statistics {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(64 << 20)).unwrap();
    let tree = BTreeIndex::<C, PAGE>::create(Arc::new(pool)).unwrap();
    for key in keys {
        assert!(tree.insert(key, &[7; 8]).unwrap());
    }
    tree.verify().unwrap();
    tree.statistics()
}

fn number(all: &Statistics, name: &str) -> f64 {
    all.get(name).unwrap_or_else(|| panic!("no {name}"))
}

/// How full leaves are of each kind of keys, in one tree and in the other.
fn fills(arrange: impl Fn(Kind) -> Vec<Vec<u8>>) -> Vec<f64> {
    let fill = |all: &Statistics| number(all, "leaf_fill_ratio");
    let mut fills = Vec::new();
    for kind in KINDS {
        let keys = arrange(kind);
        fills.push(fill(&filled::<Hints, 4096>(&keys)));
        fills.push(fill(&filled::<Fingerprint, 1024>(&keys)));
        fills.push(fill(&filled::<Adaptive, 4096>(&keys)));
        fills.push(fill(&filled_shared::<Hints, 1024>(&keys)));
        fills.push(fill(&filled_shared::<Adaptive, 1024>(&keys)));
    }
    fills
}

#[track_caller]
fn at_least(fills: &[f64], least: f64) {
    assert!(fills.iter().all(|&fill| fill >= least), "{fills:.2?}");
}

#[test]
fn leaves_are_full_where_keys_ascend() {
    at_least(&fills(ascending), 0.78);
}

#[test]
fn leaves_are_full_where_keys_descend() {
    let descending = |kind| ascending(kind).into_iter().rev().collect();
    at_least(&fills(descending), 0.7);
}

#[test]
fn leaves_are_full_where_keys_ascend_or_descend_in_many_ranges() {
    at_least(&fills(|kind| partitioned(kind, 4, false)), 0.72);
    at_least(&fills(|kind| partitioned(kind, 4, true)), 0.7);
}

#[test]
fn leaves_stay_as_full_where_keys_come_at_random() {
    let shuffled = |kind| {
        let mut keys = ascending(kind);
        keys.shuffle(&mut StdRng::seed_from_u64(8));
        keys
    };
    let fills = fills(shuffled);
    assert!(
        fills.iter().all(|fill| (0.6..0.8).contains(fill)),
        "{fills:.2?}"
    );
}

#[test]
fn no_order_leaves_most_of_the_leaves_empty() {
    for places in [8, 1000] {
        at_least(&fills(|kind| jittered(kind, places)), 0.33);
    }
    for each in [3, 10, 30, 100, 300] {
        at_least(&fills(|kind| bursts(kind, each)), 0.4);
    }
    let ends_inwards = |kind| {
        let keys = ascending(kind);
        let (low, high) = keys.split_at(keys.len() / 2);
        let both = low.iter().zip(high.iter().rev());
        both.flat_map(|(low, high)| [low.clone(), high.clone()])
            .collect()
    };
    at_least(&fills(ends_inwards), 0.55);
}

#[test]
fn nodes_above_are_full_as_well() {
    for kind in KINDS {
        let mut bulk = BTree::<Hints, 512>::default();
        let pairs = ascending(kind).into_iter().map(|key| (key, [7; 8]));
        bulk.bulk_load(pairs, 1.0).unwrap();
        let (all, bulk) = (filled::<Hints, 512>(&ascending(kind)), bulk.statistics());
        for name in ["inner_nodes", "bytes_per_key"] {
            let (found, least) = (number(&all, name), number(&bulk, name));
            assert!(found <= 1.5 * least, "{name} {found:.1}, not {least:.1}");
        }
    }
}

#[test]
fn numbers_that_ascend_in_many_ranges_become_arrays_of_values() {
    let mut random = StdRng::seed_from_u64(9);
    let mut counters = [0_u32; 20];
    let keys: Vec<_> = (0..100_000)
        .map(|_| {
            let range = random.random_range(0..counters.len());
            counters[range] += 1;
            let id = (range as u64) << 32 | u64::from(counters[range]);
            id.to_be_bytes().to_vec()
        })
        .collect();
    let all = filled::<Adaptive, 4096>(&keys);
    assert!(number(&all, "fully_dense_leaves") > 5.0 * number(&all, "comparison_leaves"));
    assert!(number(&all, "bytes_per_key") < 11.0);
}
