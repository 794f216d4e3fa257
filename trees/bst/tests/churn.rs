//! Trees that are filled and emptied again and again by several threads take no more memory than
//! the first times. A process of its own, since other tests' memory and pins would count.
//!
//! `HEDGEROW_TEST_SCALE` multiplies the keys.

use hedgerow_bst::{EdgeExtLf, ExtLf, OccAvl, OccAvl2Ret, SearchTree};
use hedgerow_testkit::concurrent_ints;

const KEYS: f64 = 6_000.0;
const THREADS: u64 = 3;
const ROUNDS: usize = 10;

/// What is retired and not yet released at any time, beside what a round leaves behind.
const SLACK_BYTES: usize = 1 << 20;

fn churn<T: SearchTree<u64>>() {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    let keys = (KEYS * scale) as u64;
    let tree = T::segregated();
    let sizes = concurrent_ints::churn(&tree, keys, THREADS, ROUNDS, hedgerow_memory::live_bytes);
    println!("{}: bytes by rounds: {sizes:?}", T::NAME);
    // A tree that gave nothing back would take ten times as much in the last round.
    assert!(
        sizes[ROUNDS - 1] <= 2 * sizes[1] + SLACK_BYTES,
        "{}: bytes by rounds: {sizes:?}",
        T::NAME
    );
}

#[test]
fn memory_is_used_again() {
    churn::<OccAvl<u64>>();
    churn::<OccAvl2Ret<u64>>();
    churn::<EdgeExtLf<u64>>();
    churn::<ExtLf<u64>>();
}
