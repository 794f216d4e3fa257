//! A tree that is filled and emptied again and again takes no more ids and no more memory than the
//! first times. A process of its own, since other tests' memory and pins would count.

use hedgerow_bwtree::{BwTree, Standard};

const KEYS: u64 = 30_000;
const ROUNDS: usize = 10;

/// Spreads numbers, so that keys come in no order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn ids_and_memory_are_used_again() {
    let tree = BwTree::<Standard>::new();
    let long = vec![7; 1_000];
    let mut ids = Vec::new();
    let mut bytes = Vec::new();
    for round in 0..ROUNDS {
        for number in 0..KEYS {
            // Some values have a block of their own.
            let value = if number % 16 == 0 {
                &long[..]
            } else {
                &key(number)[..]
            };
            assert!(!tree.put(&key(number), value));
        }
        tree.verify().expect("sound when full");
        for number in 0..KEYS {
            assert!(tree.remove(&key(number ^ (round as u64 & 7))));
        }
        tree.verify().expect("sound when empty");
        let statistics = tree.statistics();
        assert_eq!(statistics.get("leaves"), Some(1.0), "{statistics:?}");
        // What is retired last is freed when other pins follow.
        (0..10_000).for_each(|number| assert!(!tree.contains(&key(number))));
        ids.push(statistics.get("ids_ever_used").expect("counted"));
        bytes.push(hedgerow_memory::live_bytes());
    }
    assert!(
        ids[ROUNDS - 1] <= 1.5 * ids[1] && tree.counters().get("ids_recycled") > Some(ids[0]),
        "ids of the mapping table, by rounds: {ids:?}"
    );
    assert!(
        bytes[ROUNDS - 1] <= bytes[1] + (1 << 20),
        "bytes in use when empty, by rounds: {bytes:?}"
    );
}
