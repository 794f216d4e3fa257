//! Runs one kind of lookup many times on a set of `i32` or a map of `u64`, so that its instructions
//! can be counted, or its time taken:
//!
//! ```text
//! cargo build --release -p hedgerow-lab-own --example lookups
//! HEDGEROW_SIMD=avx2 valgrind --tool=callgrind --vex-iropt-level=0 target/release/examples/lookups predecessor i32 4194304 200000
//! ```
//!
//! The arguments are what to look up (`get`, `predecessor`, `successor`; `none` looks nothing up,
//! to be subtracted; `check` compares the answers of all three with a sorted list), `i32`, `u64`,
//! `i32-fast` or `u64-fast` (one line a level above pages), how many keys there are, how many
//! lookups, and how often they are repeated, if not once. Keys are loaded in order and an eighth of
//! them replaced by others; half of the lookups are of keys that are not there.

use std::hint::black_box;
use std::time::Instant;

use hedgerow_index::{BulkLoad, IntKey};
use hedgerow_matryoshka::{Flat, FlatFast, Matryoshka};

/// A bijection of 32-bit numbers.
fn scatter(number: u32) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b9).rotate_left(13);
    mixed.wrapping_mul(0xbf58_476d)
}

/// A number below `most` that depends on `number` alone.
fn draw(number: u32, most: u32) -> u32 {
    ((u64::from(scatter(number)) * u64::from(most)) >> 32) as u32
}

/// An index, and, where answers are checked, the numbers of its keys in order.
struct Bench<K, I> {
    index: I,
    /// Keys that were loaded.
    count: u32,
    numbers: Vec<u32>,
    /// Keys ascend as their numbers do.
    key: fn(u32) -> K,
}

impl<K: IntKey, I: BulkLoad<K, Value: Default + PartialEq>> Bench<K, I> {
    fn new(mut index: I, key: fn(u32) -> K, count: u32, checks: bool) -> Result<Self, String> {
        let odd = (0..count).map(|at| 2 * at + 1);
        let pairs = odd.clone().map(|number| (key(number), I::Value::default()));
        index.bulk_load(pairs).map_err(|error| error.to_string())?;
        let listed = odd.filter(|_| checks);
        let mut numbers: std::collections::BTreeSet<u32> = listed.collect();
        for at in 0..count / 8 {
            let gone = 2 * draw(at, count) + 1;
            let new = 2 * draw(at + count, count);
            index.remove(key(gone));
            index.insert(key(new), I::Value::default());
            if checks {
                numbers.remove(&gone);
                numbers.insert(new);
            }
        }
        let numbers = numbers.into_iter().collect();
        Ok(Self {
            index,
            count,
            numbers,
            key,
        })
    }

    fn probes(&self, lookups: u32) -> impl Iterator<Item = K> {
        let (key, most) = (self.key, 2 * self.count + 1);
        (0..lookups).map(move |at| key(draw(at ^ 0x5555_5555, most)))
    }

    /// How many of the lookups found something.
    fn run(&self, what: &str, lookups: u32) -> Result<usize, String> {
        let probes = self.probes(lookups);
        let index = &self.index;
        Ok(match what {
            "none" => probes.filter(|&key| black_box(key) == key).count(),
            "get" => probes
                .filter(|&key| black_box(index.get(key)).is_some())
                .count(),
            "predecessor" => probes
                .filter(|&key| black_box(index.predecessor(key)).is_some())
                .count(),
            "successor" => probes
                .filter(|&key| black_box(index.successor(key)).is_some())
                .count(),
            other => {
                return Err(format!(
                    "{other:?} is none of none, check, get, predecessor, successor"
                ));
            }
        })
    }

    fn check(&self, lookups: u32) -> Result<usize, String> {
        let keys: Vec<K> = self.numbers.iter().map(|&n| (self.key)(n)).collect();
        let mut wrong = 0;
        for probe in self.probes(lookups) {
            let at = keys.partition_point(|&key| key < probe);
            let found = keys.get(at) == Some(&probe);
            let before = (at + usize::from(found)).checked_sub(1).map(|at| keys[at]);
            let (predecessor, successor) =
                (self.index.predecessor(probe), self.index.successor(probe));
            wrong += usize::from(
                self.index.get(probe).is_some() != found
                    || predecessor.map(|pair| pair.0) != before
                    || successor.map(|pair| pair.0) != keys.get(at).copied(),
            );
        }
        self.index.verify()?;
        if wrong == 0 {
            Ok(lookups as usize)
        } else {
            Err(format!("{wrong} wrong answers"))
        }
    }

    fn go(&self, what: &str, lookups: u32, rounds: u32) -> Result<(), String> {
        for _ in 0..rounds {
            let start = Instant::now();
            let found = match what {
                "check" => self.check(lookups)?,
                one => self.run(one, lookups)?,
            };
            let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(lookups);
            println!("{what}: {found} of {lookups} found something, {each:.1} ns each");
        }
        Ok(())
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "lookups none|check|get|predecessor|successor i32|u64|i32-fast|u64-fast KEYS \
        LOOKUPS [ROUNDS]";
    let [what, kind, numbers @ ..] = &arguments[..] else {
        return Err(usage.to_owned());
    };
    let numbers: Result<Vec<u32>, _> = numbers.iter().map(|number| number.parse()).collect();
    let (count, lookups, rounds) = match numbers.map_err(|e| format!("{e}: {usage}"))?[..] {
        [count, lookups] => (count, lookups, 1),
        [count, lookups, rounds] => (count, lookups, rounds),
        _ => return Err(usage.to_owned()),
    };
    if count == 0 || count > 1 << 29 || lookups == 0 {
        return Err("1 to 536870912 keys, and at least one lookup".to_owned());
    }
    let checks = what == "check";
    let narrow = |number: u32| number as i32;
    let wide = |number: u32| u64::from(number) << 20 | u64::from(scatter(number) >> 12);
    match kind.as_str() {
        "i32" => Bench::new(Matryoshka::<i32, (), Flat>::new(), narrow, count, checks)?
            .go(what, lookups, rounds),
        "i32-fast" => Bench::new(
            Matryoshka::<i32, (), FlatFast>::new(),
            narrow,
            count,
            checks,
        )?
        .go(what, lookups, rounds),
        "u64" => Bench::new(Matryoshka::<u64, u64, Flat>::new(), wide, count, checks)?
            .go(what, lookups, rounds),
        "u64-fast" => Bench::new(Matryoshka::<u64, u64, FlatFast>::new(), wide, count, checks)?
            .go(what, lookups, rounds),
        other => Err(format!("no kind {other:?}: {usage}")),
    }
}
