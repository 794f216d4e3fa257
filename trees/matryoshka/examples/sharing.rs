//! Runs one operation on the map for one thread or on the one for many, by one thread, so that
//! their instructions can be counted side by side; or lookups of both in turn, so that a shared
//! machine slows both alike:
//!
//! ```text
//! cargo build --release -p hedgerow-matryoshka --example sharing
//! HEDGEROW_SIMD=avx2 valgrind --tool=callgrind target/release/examples/sharing single get 100000
//! target/release/examples/sharing flat compare 4000000
//! ```
//!
//! The map is filled with random keys first; `none` does only that, to be subtracted. `compare` takes
//! rounds of lookups in the form named and in the map for many threads in turn.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hedgerow_index::IntIndex;
use hedgerow_matryoshka::{Fence, Flat, Full, Matryoshka, Plain, SharedMatryoshka, Strategy};

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

/// Lookups that follow one another in one map before the other's turn.
const ROUND: u64 = 2048;

/// Rounds of each map.
const ROUNDS: u64 = 400;

/// Looks up the same keys in both maps, round by round; prints what one lookup took in each.
fn compare(mut single: impl Map, count: u64) -> Result<(), String> {
    if count == 0 {
        return Err("there is nothing to look up in an empty map".to_owned());
    }
    let shared = SharedMatryoshka::<Full>::new();
    for number in 0..count {
        single.insert(key(number), number);
        shared.insert(key(number), number);
    }
    let mut wrong = 0;
    let mut time = |get: &dyn Fn(u64) -> Option<u64>, round: u64| {
        let start = Instant::now();
        for number in round * ROUND..(round + 1) * ROUND {
            let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count;
            wrong += u64::from(black_box(get(key(number))) != Some(number));
        }
        start.elapsed()
    };
    let mut times = [Duration::ZERO; 2];
    for round in 0..ROUNDS {
        // Neither finds what the other has just read.
        times[0] += time(&|key| single.get(key), 2 * round);
        times[1] += time(&|key| Map::get(&shared, key), 2 * round + 1);
    }
    let [single, shared] = times.map(|time| time.as_secs_f64() * 1e9 / (ROUND * ROUNDS) as f64);
    let ratio = shared / single;
    println!("get: {single:.0} ns by one thread's map, {shared:.0} ns by the shared: {ratio:.2}");
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} wrong answers"))
    }
}

/// One operation alone, or both maps in turn.
fn single(map: impl Map, operation: &str, count: u64) -> Result<(), String> {
    match operation {
        "compare" => compare(map, count),
        alone => run(map, alone, count),
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [form, operation, count] = &arguments[..] else {
        let usage = "sharing single|flat|fence|shared none|get|insert|remove|compare COUNT";
        return Err(usage.to_owned());
    };
    let count = count.parse().map_err(|_| format!("no number: {count:?}"))?;
    match form.as_str() {
        "single" => single(Matryoshka::<u64, u64, Plain>::new(), operation, count),
        "flat" => single(Matryoshka::<u64, u64, Flat>::new(), operation, count),
        "fence" => single(Matryoshka::<u64, u64, Fence>::new(), operation, count),
        "shared" => run(SharedMatryoshka::<Full>::new(), operation, count),
        other => Err(format!("no form {other:?}: single, flat, fence, shared")),
    }
}
