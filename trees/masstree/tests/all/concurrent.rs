//! Many threads at once: recorded histories checked per key, scans checked for order and
//! completeness, and the invariants verified when the threads are done.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::Direction;
use hedgerow_masstree::{Bytes, Masstree};
use hedgerow_testkit::index_properties::check_histories_of_every_shape;
use hedgerow_testkit::side_by_side::Side;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[test]
fn histories_are_linearizable_per_key_on_every_shape() {
    for count in [8, 40] {
        check_histories_of_every_shape(Masstree::<Bytes>::new, count, 1_500, |tree| {
            tree.collapse_deferred();
            tree.verify().expect("sound at rest");
        });
    }
}

/// A layer that comes and goes is an entry that is a value and a pointer in turns: what is no
/// pointer must not be followed.
#[test]
fn a_tree_can_be_verified_while_layers_come_and_go() {
    let tree: Masstree<u64> = Masstree::new();
    let (writes, checks) = (Side::new(2, 4_000), Side::new(2, 2_000));
    std::thread::scope(|scope| {
        for thread in 0..2_u8 {
            let (tree, writes, checks) = (&tree, &writes, &checks);
            scope.spawn(move || {
                let [one, other] = [b'a', b'b'].map(|last| [&[thread; 8][..], &[last]].concat());
                tree.put(&one, 7);
                let mut share = writes.share();
                while share.continues(checks) {
                    tree.put(&other, 9);
                    tree.remove(&other);
                    tree.collapse_deferred();
                }
            });
            scope.spawn(move || {
                let mut share = checks.share();
                while share.continues(writes) {
                    // It may complain: of a tree that is not at rest.
                    let _ = tree.verify();
                }
            });
        }
    });
    tree.verify().expect("sound at rest");
}

fn key(number: u64, layered: bool) -> Vec<u8> {
    if layered {
        let group = (number / 64).to_be_bytes();
        [&group[..], b"shared--", &number.to_be_bytes()[6..]].concat()
    } else {
        number
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes()
            .to_vec()
    }
}

/// Writers make the tree split, empty, unlink and collapse around keys that stay; readers and
/// scans must find those, always.
fn keys_that_stay_are_always_found(layered: bool) {
    const KEYS: u64 = 3_000;
    let tree: Masstree<u64> = Masstree::new();
    let stays = |number: u64| number.is_multiple_of(50);
    for number in (0..KEYS).filter(|&number| stays(number)) {
        tree.put(&key(number, layered), number);
    }
    let (writes, reads) = (Side::new(2, 12), Side::new(2, 20));
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (tree, writes, reads) = (&tree, &writes, &reads);
            scope.spawn(move || {
                let mine = |number: &u64| number % 2 == thread && !stays(*number);
                let mut share = writes.share();
                while share.continues(reads) {
                    let round = share.rounds() as u64;
                    for number in (0..KEYS).filter(mine) {
                        assert_eq!(tree.put(&key(number, layered), number + round), None);
                    }
                    for number in (0..KEYS).filter(mine) {
                        let removed = tree.remove(&key(number, layered));
                        assert_eq!(removed, Some(number + round), "lost key {number}");
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut rng = StdRng::seed_from_u64(1);
            let mut share = reads.share();
            while share.continues(&writes) {
                let number = rng.random_range(0..KEYS / 50) * 50;
                assert_eq!(
                    tree.get(&key(number, layered)),
                    Some(number),
                    "lost key {number}"
                );
                let keys: Vec<Vec<u8>> = (0..40).map(|i| key(i * 50, layered)).collect();
                let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                tree.get_many(&slices, |i, value| assert_eq!(value, Some(i as u64 * 50)));
            }
        });
        scope.spawn(|| {
            let mut share = reads.share();
            while share.continues(&writes) {
                for direction in [Direction::Forward, Direction::Reverse] {
                    scan_sees_what_stays(&tree, direction, KEYS / 50, stays);
                }
            }
        });
    });
    tree.collapse_deferred();
    tree.verify().expect("sound at rest");
    assert_eq!(tree.statistics().get("keys"), Some((KEYS / 50) as f64));
    let statistics = tree.statistics();
    assert!(statistics.get("node_deletions") > Some(0.0) || layered);
    assert!(statistics.get("layer_collapses") > Some(0.0) || !layered);
}

fn scan_sees_what_stays(
    tree: &Masstree<u64>,
    direction: Direction,
    expected: u64,
    stays: impl Fn(u64) -> bool,
) {
    let mut staying = 0;
    let mut last: Option<Vec<u8>> = None;
    tree.scan(Bound::Unbounded, direction, |key, value| {
        if let Some(last) = &last {
            let ascending = last.as_slice() < key;
            assert_eq!(
                ascending,
                direction == Direction::Forward,
                "scan out of order"
            );
            assert_ne!(last.as_slice(), key, "visited twice");
        }
        last = Some(key.to_vec());
        staying += u64::from(stays(value) && is_original(key, value));
        ControlFlow::Continue(())
    });
    assert_eq!(staying, expected, "{direction:?} scan lost keys that stay");
}

/// Whether `value` is that of a key that stays (others carry number + round).
fn is_original(found: &[u8], value: u64) -> bool {
    found == key(value, true) || found == key(value, false)
}

#[test]
fn staying_keys_are_found_in_one_layer() {
    keys_that_stay_are_always_found(false);
}

#[test]
fn staying_keys_are_found_across_layers() {
    keys_that_stay_are_always_found(true);
}

#[test]
fn increments_under_the_latch_are_never_lost() {
    let tree: Masstree<u64> = Masstree::new();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let tree = &tree;
            scope.spawn(move || {
                for i in 0..5_000_u64 {
                    let key = format!("counter-{:03}", (i * 7 + thread) % 40);
                    tree.update(key.as_bytes(), |count| Some(count.unwrap_or(0) + 1));
                }
            });
        }
    });
    let mut sum = 0;
    tree.scan(Bound::Unbounded, Direction::Forward, |_, count| {
        sum += count;
        ControlFlow::Continue(())
    });
    assert_eq!(sum, 15_000);
}
