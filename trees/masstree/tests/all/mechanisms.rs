//! Every mechanism that the tree counts is really at work: a small workload for each, and its
//! counter afterwards. A mechanism that quietly stopped would still give right answers (slots
//! never reused, layers never collapsed), so the other tests could not tell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow_masstree::Masstree;

type Tree = Masstree<u64>;

type Workload = fn(&Tree);

/// Each counted mechanism, and what sets it to work.
const MECHANISMS: [(&str, Workload); 12] = [
    ("border_splits", scattered_inserts),
    ("sequential_splits", ascending_inserts),
    ("interior_splits", scattered_inserts),
    ("root_retries", a_writer_meets_an_unlinked_node),
    ("local_retries", readers_meet_a_writer),
    ("forwards", a_writer_meets_a_split),
    ("layer_creations", long_keys_of_one_slice),
    ("layer_collapses", layers_that_empty),
    ("node_deletions", removes_of_everything),
    ("slot_reuses", inserts_after_removes),
    ("suffix_growths", longer_and_longer_suffixes),
    ("widenings", many_keys_of_one_slice),
];

fn count(tree: &Tree, name: &str) -> f64 {
    let statistics = tree.statistics();
    statistics
        .get(name)
        .unwrap_or_else(|| panic!("no number is called {name}"))
}

#[test]
fn every_mechanism_counts_when_it_works_and_not_before() {
    for (name, workload) in MECHANISMS {
        let tree = Tree::new();
        assert_eq!(count(&tree, name), 0.0, "{name} in a new tree");
        workload(&tree);
        assert!(count(&tree, name) > 0.0, "{name} after its workload");
        tree.verify()
            .unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
}

#[test]
fn no_counter_is_left_out() {
    let tree = Tree::new();
    scattered_inserts(&tree);
    removes_of_everything(&tree);
    // Counters stand behind the numbers that describe the tree's present shape.
    let statistics = tree.statistics();
    let counters = statistics
        .iter()
        .map(|statistic| statistic.name)
        .skip_while(|name| *name != "bytes_per_key")
        .skip(1);
    assert!(counters.eq(MECHANISMS.map(|(name, _)| name)));
}

#[test]
fn counters_count_what_happened() {
    let tree = Tree::new();
    // Fifteen keys to a node, each node left full: one split for every fifteen after the first.
    fill(&tree, 0..150);
    assert_eq!(count(&tree, "border_splits"), 9.0);
    assert_eq!(count(&tree, "sequential_splits"), 9.0);
    assert_eq!(count(&tree, "border_nodes"), 10.0);
    assert_eq!(count(&tree, "border_fill"), 1.0);
    // The last of a node goes and its like comes back into the only free slot.
    come_and_go(&tree, 14);
    assert_eq!(count(&tree, "slot_reuses"), 1.0);
    // Nine nodes go, the leftmost stays.
    (0..150).for_each(|number| {
        tree.remove(&key(number)).expect("present");
    });
    assert_eq!(count(&tree, "border_nodes"), 1.0);
    assert!(count(&tree, "node_deletions") >= 9.0);
    // Two keys that share three slices: three layers made, and folded away again.
    let long = |tail: u8| [&[b's'; 24][..], &[tail; 12]].concat();
    tree.put(&long(b'a'), 1);
    tree.put(&long(b'b'), 2);
    assert_eq!(count(&tree, "layer_creations"), 3.0);
    assert_eq!(count(&tree, "deepest_layer"), 3.0);
    tree.remove(&long(b'a')).expect("present");
    tree.collapse_deferred();
    assert_eq!(count(&tree, "layer_collapses"), 3.0);
    assert_eq!(tree.get(&long(b'b')), Some(2));
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn fill(tree: &Tree, numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|number| {
        tree.put(&key(number), number);
    });
}

fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn scattered_inserts(tree: &Tree) {
    fill(tree, (0..1_000).map(scattered));
}

fn ascending_inserts(tree: &Tree) {
    fill(tree, 0..100);
}

fn removes_of_everything(tree: &Tree) {
    scattered_inserts(tree);
    (0..1_000).map(scattered).for_each(|number| {
        tree.remove(&key(number)).expect("present");
    });
}

fn inserts_after_removes(tree: &Tree) {
    fill(tree, 0..15);
    come_and_go(tree, 7);
}

/// Removes a key of a node that is otherwise full, and puts it into the same slot again.
fn come_and_go(tree: &Tree, number: u64) {
    tree.remove(&key(number)).expect("present");
    tree.put(&key(number), number);
}

fn long_keys_of_one_slice(tree: &Tree) {
    tree.put(b"slice-01, one", 1);
    tree.put(b"slice-01, two", 2);
}

fn many_keys_of_one_slice(tree: &Tree) {
    for tail in 0..20_u8 {
        tree.put(&[&b"slice-01"[..], &[tail, b'+']].concat(), tail.into());
    }
}

fn layers_that_empty(tree: &Tree) {
    long_keys_of_one_slice(tree);
    tree.remove(b"slice-01, one").expect("present");
    tree.remove(b"slice-01, two").expect("present");
    tree.collapse_deferred();
}

fn longer_and_longer_suffixes(tree: &Tree) {
    for (slice, length) in (0_u8..10).zip([10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120]) {
        let mut key = vec![slice; 8 + length];
        key[0] = b's';
        tree.put(&key, length as u64);
    }
}

/// Runs `change` on `held` under its node's latch while `arrive` comes to wait for that latch.
fn meet_at_latch(tree: &Tree, held: u64, change: Option<u64>, arrive: impl FnOnce() + Send) {
    let latched = AtomicBool::new(false);
    let coming = AtomicBool::new(false);
    let wait_for = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_for(&latched);
            coming.store(true, Ordering::Release);
            arrive();
        });
        tree.update(&key(held), |_| {
            latched.store(true, Ordering::Release);
            wait_for(&coming);
            thread::sleep(Duration::from_millis(1));
            change
        });
    });
}

/// Repeats a meeting until it took place: nothing tells when the other waits for the latch.
fn until_counted(tree: &Tree, name: &str, mut meeting: impl FnMut()) {
    const MAX_MEETINGS: usize = 10_000;
    for _ in 0..MAX_MEETINGS {
        meeting();
        if count(tree, name) > 0.0 {
            return;
        }
    }
}

fn a_writer_meets_a_split(tree: &Tree) {
    let mut first = 0;
    until_counted(tree, "forwards", || {
        // A full node, the middle of it, and a place that its split gives to the right half.
        fill(tree, (first + 10..=first + 150).step_by(10));
        meet_at_latch(tree, first + 75, Some(75), || {
            fill(tree, [first + 145].into_iter())
        });
        first += 1_000;
    });
}

fn a_writer_meets_an_unlinked_node(tree: &Tree) {
    until_counted(tree, "root_retries", || {
        // Two nodes: fifteen keys, and one behind them.
        fill(tree, (10..=150).step_by(10).chain([160]));
        meet_at_latch(tree, 160, None, || fill(tree, [165].into_iter()));
        (10..=170).step_by(5).for_each(|number| {
            tree.remove(&key(number));
        });
    });
}

/// Readers of a key whose node changes all the time, in more threads than most machines have to
/// spare.
fn readers_meet_a_writer(tree: &Tree) {
    fill(tree, 0..15);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(tree.get(&key(7)), Some(7));
                }
            });
        }
        until_counted(tree, "local_retries", || {
            for _ in 0..1_000 {
                come_and_go(tree, 14);
            }
        });
        done.store(true, Ordering::Relaxed);
    });
}
