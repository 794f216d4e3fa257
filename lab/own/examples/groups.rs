//! Measures single lookups against `get_many` with several group sizes; prints nanoseconds
//! per key. `cargo run --release -p hedgerow-lab-own --example groups [KEYS]`.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::time::Instant;

use hedgerow_masstree::{Direction, Masstree, pin};

fn key(number: u64) -> [u8; 8] {
    number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .to_be_bytes()
}

fn measure(name: &str, operations: u64, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    let nanoseconds = start.elapsed().as_nanos() as f64 / operations as f64;
    println!("{name:<16} {nanoseconds:8.1} ns");
}

fn batches<const G: usize>(tree: &Masstree<u64>, keys: &[[u8; 8]]) {
    measure(&format!("group {G}"), keys.len() as u64, || {
        for some in keys.chunks(64) {
            let mut slices = [&[][..]; 64];
            for (slice, key) in slices.iter_mut().zip(some) {
                *slice = key;
            }
            tree.get_many_in_groups::<G>(&slices[..some.len()], |_, value| {
                black_box(value);
            });
        }
    });
}

fn main() {
    let count: u64 = std::env::args()
        .nth(1)
        .map_or(2_000_000, |count| count.parse().expect("a number of keys"));
    let tree: Masstree<u64> = Masstree::new();
    measure("insert", count, || {
        (0..count).for_each(|n| assert!(tree.put(&key(n), n).is_none()))
    });
    let sample: Vec<[u8; 8]> = (0..1_000_000_u64)
        .map(|n| key(n.wrapping_mul(0x5851_f42d_4c95_7f2d) % count))
        .collect();
    for _ in 0..2 {
        measure("get", sample.len() as u64, || {
            let _pin = pin();
            for key in &sample {
                black_box(tree.get(key));
            }
        });
        measure("get, own pin", sample.len() as u64, || {
            for key in &sample {
                black_box(tree.get(key));
            }
        });
        batches::<8>(&tree, &sample);
        batches::<16>(&tree, &sample);
        batches::<32>(&tree, &sample);
        batches::<64>(&tree, &sample);
        measure("scan 50", 100_000, || {
            for key in &sample[..100_000] {
                let mut left = 50;
                tree.scan(Bound::Included(key), Direction::Forward, |_, value| {
                    black_box(value);
                    left -= 1;
                    if left == 0 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
            }
        });
    }
}
