//! Trees that are filled and emptied again and again by several threads take no more memory than
//! the first times. A process of its own, since other tests' memory and pins would count.
//!
//! `HEDGEROW_TEST_SCALE` multiplies the keys.

use hedgerow_bst::{
    BaselineEdgeIntLf, BaselineIntLf, Citrus, EdgeExtLf, EdgeIntLf, ExtLf, IntLf, LogInt, OccAvl,
    OccAvl2Ret, SearchTree, Ticket,
};
use hedgerow_sync::epoch;
use hedgerow_testkit::concurrent_ints;

const KEYS: f64 = 6_000.0;
const THREADS: u64 = 3;
const ROUNDS: usize = 10;

/// What the interleaving may change: descriptors that nodes name.
const SLACK_BYTES: usize = 1 << 20;

fn churn<T: SearchTree<u64>>() {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    let keys = (KEYS * scale) as u64;
    let tree = T::segregated();
    let sizes = concurrent_ints::churn(&tree, keys, THREADS, ROUNDS, live_bytes);
    println!("{}: bytes by rounds: {sizes:?}", T::NAME);
    // A tree that gave nothing back would take ten times as much in the last round.
    assert!(
        sizes[ROUNDS - 1] <= 2 * sizes[1] + SLACK_BYTES,
        "{}: bytes by rounds: {sizes:?}",
        T::NAME
    );
}

/// The bytes in use once everything that was retired is freed: no thread but this one is pinned.
fn live_bytes() -> usize {
    for _ in 0..5_000 {
        epoch::pin().flush();
    }
    hedgerow_memory::live_bytes()
}

#[test]
fn memory_is_used_again() {
    churn::<EdgeIntLf<u64>>();
    churn::<BaselineEdgeIntLf<u64>>();
    churn::<IntLf<u64>>();
    churn::<BaselineIntLf<u64>>();
    churn::<OccAvl<u64>>();
    churn::<OccAvl2Ret<u64>>();
    churn::<EdgeExtLf<u64>>();
    churn::<ExtLf<u64>>();
    churn::<LogInt<u64>>();
    churn::<Citrus<u64>>();
    churn::<Ticket<u64>>();
}
