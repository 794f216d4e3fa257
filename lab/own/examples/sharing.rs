//! Runs one operation on the map for one thread or on the one for many, by one thread, so that
//! their instructions can be counted side by side; or lookups of both in turn, so that a shared
//! machine slows both alike:
//!
//! ```text
//! cargo build --release -p hedgerow-lab-own --example sharing
//! HEDGEROW_SIMD=avx2 valgrind --tool=callgrind target/release/examples/sharing single get 100000
//! target/release/examples/sharing flat compare 4000000
//! ```
//!
//! The map is filled with random keys first; `none` does only that, to be subtracted; `ascend` and
//! `load` fill it with keys in order instead. `compare` takes
//! rounds of lookups in the form named and in the map for many threads in turn.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hedgerow_index::IntIndex;
use hedgerow_matryoshka::{Fence, Flat, Matryoshka, Plain, SharedMatryoshka, Strategy};

fn key(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// As `key`, of 32 bits.
fn narrow(number: u64) -> u32 {
    let mixed = (number as u32).wrapping_mul(0x9e37_79b9).rotate_left(13);
    mixed.wrapping_mul(0xbf58_476d)
}

/// The operations under comparison, on the key of a number.
trait Map {
    fn get(&self, number: u64) -> Option<u64>;
    fn insert(&mut self, number: u64, word: u64) -> Option<u64>;
    fn remove(&mut self, number: u64) -> Option<u64>;
}

impl<S: Strategy> Map for Matryoshka<u64, u64, S> {
    fn get(&self, number: u64) -> Option<u64> {
        IntIndex::get(self, key(number))
    }

    fn insert(&mut self, number: u64, word: u64) -> Option<u64> {
        IntIndex::insert(self, key(number), word)
    }

    fn remove(&mut self, number: u64) -> Option<u64> {
        IntIndex::remove(self, key(number))
    }
}

impl Map for SharedMatryoshka {
    fn get(&self, number: u64) -> Option<u64> {
        Self::get(self, key(number))
    }

    fn insert(&mut self, number: u64, word: u64) -> Option<u64> {
        Self::insert(self, key(number), word)
    }

    fn remove(&mut self, number: u64) -> Option<u64> {
        Self::remove(self, key(number))
    }
}

impl Map for SharedMatryoshka<u32> {
    fn get(&self, number: u64) -> Option<u64> {
        Self::get(self, narrow(number))
    }

    fn insert(&mut self, number: u64, word: u64) -> Option<u64> {
        Self::insert(self, narrow(number), word)
    }

    fn remove(&mut self, number: u64) -> Option<u64> {
        Self::remove(self, narrow(number))
    }
}

fn run(mut map: impl Map, operation: &str, count: u64) -> Result<(), String> {
    (0..count).for_each(|number| {
        map.insert(number, number);
    });
    let wrong = match operation {
        "none" => 0,
        "get" => (0..count)
            .filter(|&number| black_box(map.get(number)) != Some(number))
            .count(),
        "insert" => (count..2 * count)
            .filter(|&number| black_box(map.insert(number, number)).is_some())
            .count(),
        "remove" => (0..count)
            .filter(|&number| black_box(map.remove(number)) != Some(number))
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
    let mut shared = SharedMatryoshka::<u64>::new();
    for number in 0..count {
        single.insert(number, number);
        Map::insert(&mut shared, number, number);
    }
    let mut wrong = 0;
    let mut time = |get: &dyn Fn(u64) -> Option<u64>, round: u64| {
        let start = Instant::now();
        for number in round * ROUND..(round + 1) * ROUND {
            let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count;
            wrong += u64::from(black_box(get(number)) != Some(number));
        }
        start.elapsed()
    };
    let mut times = [Duration::ZERO; 2];
    for round in 0..ROUNDS {
        // Neither finds what the other has just read.
        times[0] += time(&|number| single.get(number), 2 * round);
        times[1] += time(&|number| Map::get(&shared, number), 2 * round + 1);
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

/// Fills a map with keys in order, one by one or by a bulk load.
fn fill_in_order(operation: &str, count: u64) -> Result<(), String> {
    let map = SharedMatryoshka::<u64>::new();
    let mut pairs = (0..count).map(|number| (number, number));
    if operation == "load" {
        map.bulk_load(pairs).map_err(|error| error.to_string())?;
    } else if !pairs.all(|(key, word)| map.insert(key, word).is_none()) {
        return Err("a key was there before it was inserted".to_owned());
    }
    black_box(&map);
    Ok(())
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [form, operation, count] = &arguments[..] else {
        let usage = "sharing single|flat|fence|shared|shared32 none|get|insert|remove|compare \
            COUNT, or \
                     sharing shared ascend|load COUNT";
        return Err(usage.to_owned());
    };
    let count = count.parse().map_err(|_| format!("no number: {count:?}"))?;
    match form.as_str() {
        "single" => single(Matryoshka::<u64, u64, Plain>::new(), operation, count),
        "flat" => single(Matryoshka::<u64, u64, Flat>::new(), operation, count),
        "fence" => single(Matryoshka::<u64, u64, Fence>::new(), operation, count),
        "shared" if matches!(operation.as_str(), "ascend" | "load") => {
            fill_in_order(operation, count)
        }
        "shared" => run(SharedMatryoshka::<u64>::new(), operation, count),
        "shared32" => run(SharedMatryoshka::<u32>::new(), operation, count),
        other => {
            let forms = "single, flat, fence, shared, shared32";
            Err(format!("no form {other:?}: {forms}"))
        }
    }
}
