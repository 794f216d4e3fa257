//! Runs one operation on the map for one thread or on the one for many, by one thread, so that
//! their instructions can be counted side by side:
//!
//! ```text
//! cargo build --release -p hedgerow-matryoshka --example shared_cost
//! HEDGEROW_SIMD=avx2 valgrind --tool=callgrind target/release/examples/shared_cost single get 100000
//! ```
//!
//! The map is filled with random keys first; `none` does only that, to be subtracted.

use std::hint::black_box;

use hedgerow_index::IntIndex;
use hedgerow_matryoshka::{Fence, Matryoshka, Plain, SharedMatryoshka, Strategy};

fn key(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The operations under comparison.
trait Map {
    fn get(&self, key: u64) -> Option<u64>;
    fn insert(&mut self, key: u64, word: u64) -> Option<u64>;
    fn remove(&mut self, key: u64) -> Option<u64>;
}

impl<S: Strategy> Map for Matryoshka<u64, u64, S> {
    fn get(&self, key: u64) -> Option<u64> {
        IntIndex::get(self, key)
    }

    fn insert(&mut self, key: u64, word: u64) -> Option<u64> {
        IntIndex::insert(self, key, word)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        IntIndex::remove(self, key)
    }
}

impl Map for SharedMatryoshka {
    fn get(&self, key: u64) -> Option<u64> {
        Self::get(self, key)
    }

    fn insert(&mut self, key: u64, word: u64) -> Option<u64> {
        Self::insert(self, key, word)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        Self::remove(self, key)
    }
}

fn run(mut map: impl Map, operation: &str, count: u64) -> Result<(), String> {
    (0..count).for_each(|number| {
        map.insert(key(number), number);
    });
    let wrong = match operation {
        "none" => 0,
        "get" => (0..count)
            .filter(|&number| black_box(map.get(key(number))) != Some(number))
            .count(),
        "insert" => (count..2 * count)
            .filter(|&number| black_box(map.insert(key(number), number)).is_some())
            .count(),
        "remove" => (0..count)
            .filter(|&number| black_box(map.remove(key(number))) != Some(number))
            .count(),
        other => return Err(format!("no operation {other:?}: none, get, insert, remove")),
    };
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} wrong answers"))
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [form, operation, count] = &arguments[..] else {
        return Err("shared_cost single|fence|shared none|get|insert|remove COUNT".to_owned());
    };
    let count = count.parse().map_err(|_| format!("no number: {count:?}"))?;
    match form.as_str() {
        "single" => run(Matryoshka::<u64, u64, Plain>::new(), operation, count),
        "fence" => run(Matryoshka::<u64, u64, Fence>::new(), operation, count),
        "shared" => run(
            SharedMatryoshka::<hedgerow_matryoshka::Full>::new(),
            operation,
            count,
        ),
        other => Err(format!("no form {other:?}: single, fence, shared")),
    }
}
