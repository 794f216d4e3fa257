//! Compares batches with single operations on one tree, in turn, so that a shared machine slows
//! both alike; and runs either alone, so that instructions and misses can be counted:
//!
//! ```text
//! cargo build --release -p hedgerow-lab-own --example batches
//! target/release/examples/batches compare 16777216 1024 64
//! HEDGEROW_SIMD=avx2 valgrind --tool=cachegrind target/release/examples/batches insert_many 1000000 1024 64
//! ```
//!
//! The arguments are what to do (`compare`, `none`, or one of `get`, `insert`, `remove` and their
//! batches `get_many`, `insert_many`, `remove_many`), random keys in the tree before, keys in a
//! batch, and batches. `none` does only what comes before, to be subtracted.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hedgerow_index::IntIndex;
use hedgerow_matryoshka::{Flat, FlatFast, FlatSuperpage, Matryoshka, Strategy};

type Pair = (u64, u64);

/// A bijection: different numbers are different keys, all over the key space.
fn key(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

struct Bench<S: Strategy> {
    tree: Matryoshka<u64, u64, S>,
    /// Keys are those of the numbers from the first to below the second.
    live: (u64, u64),
    batch: u64,
    pairs: Vec<Pair>,
    keys: Vec<u64>,
}

impl<S: Strategy> Bench<S> {
    fn new(count: u64, batch: u64) -> Self {
        let mut bench = Self {
            tree: Matryoshka::new(),
            live: (0, 0),
            batch,
            pairs: Vec::new(),
            keys: Vec::new(),
        };
        for number in 0..count {
            bench.tree.insert(key(number), number);
        }
        bench.live.1 = count;
        bench
    }

    /// Does one batch of what is asked for; how long it took and how many keys were met.
    fn step(&mut self, what: &str, round: u64) -> Result<(Duration, u64), String> {
        let batch = self.batch;
        let first = match what {
            "insert" | "insert_many" => self.live.1,
            "remove" | "remove_many" => self.live.0,
            _ => self.live.0 + round * batch % (self.live.1 - self.live.0 - batch),
        };
        self.pairs.clear();
        self.pairs
            .extend((first..first + batch).map(|number| (key(number), number)));
        self.keys.clear();
        self.keys.extend(self.pairs.iter().map(|pair| pair.0));
        let (tree, pairs, keys) = (&mut self.tree, &mut self.pairs, &mut self.keys);
        let start = Instant::now();
        let met = match what {
            "get" => keys
                .iter()
                .filter(|&&key| black_box(tree.get(key)).is_some())
                .count(),
            "get_many" => {
                let mut met = 0;
                tree.get_many(keys, |_, value| {
                    met += usize::from(black_box(value).is_some())
                });
                met
            }
            "insert" => pairs
                .iter()
                .filter(|pair| tree.insert(pair.0, pair.1).is_none())
                .count(),
            "insert_many" => tree.insert_many(pairs),
            "remove" => keys
                .iter()
                .filter(|&&key| tree.remove(key).is_some())
                .count(),
            "remove_many" => tree.remove_many(keys),
            other => {
                return Err(format!(
                    "{other:?} is none of get, insert, remove and …_many"
                ));
            }
        };
        let took = start.elapsed();
        match what {
            "insert" | "insert_many" => self.live.1 += batch,
            "remove" | "remove_many" => self.live.0 += batch,
            _ => {}
        }
        Ok((took, met as u64))
    }

    fn many(&mut self, what: &str, rounds: u64) -> Result<(), String> {
        for round in 0..rounds {
            let (_, met) = self.step(what, round)?;
            if met != self.batch {
                return Err(format!("{met} of {} keys", self.batch));
            }
        }
        Ok(())
    }

    /// All six in turn; the number of keys stays.
    fn compare(&mut self, rounds: u64) -> Result<(), String> {
        let ways = [
            "get",
            "get_many",
            "insert",
            "insert_many",
            "remove",
            "remove_many",
        ];
        let mut times = [Duration::ZERO; 6];
        for round in 0..rounds {
            for (way, time) in ways.into_iter().zip(&mut times) {
                *time += self.step(way, round)?.0;
            }
        }
        let each = |time: Duration| time.as_secs_f64() * 1e9 / (rounds * self.batch) as f64;
        for pair in [0, 2, 4] {
            let (single, many) = (each(times[pair]), each(times[pair + 1]));
            let (name, ratio) = (ways[pair], single / many);
            println!("{name}: {single:.0} ns alone, {many:.0} ns in batches: {ratio:.2} times");
        }
        self.tree.verify()
    }
}

fn run<S: Strategy>(what: &str, count: u64, batch: u64, rounds: u64) -> Result<(), String> {
    let mut bench: Bench<S> = Bench::new(count, batch);
    match what {
        "none" => Ok(()),
        "compare" => bench.compare(rounds),
        one => bench.many(one, rounds),
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "batches compare|none|get|get_many|… KEYS BATCH BATCHES [flat|fast|superpage]";
    let [what, numbers @ ..] = &arguments[..] else {
        return Err(usage.to_owned());
    };
    let (numbers, form) = match numbers {
        [numbers @ .., form] if numbers.len() == 3 => (numbers, form.as_str()),
        _ => (numbers, "flat"),
    };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|number| number.parse()).collect();
    let &[count, batch, rounds] = &numbers.map_err(|e| format!("{e}: {usage}"))?[..] else {
        return Err(usage.to_owned());
    };
    if batch == 0 || count <= batch {
        return Err("a batch has at least one key, and fewer than the tree".to_owned());
    }
    match form {
        "flat" => run::<Flat>(what, count, batch, rounds),
        "fast" => run::<FlatFast>(what, count, batch, rounds),
        "superpage" => run::<FlatSuperpage>(what, count, batch, rounds),
        other => Err(format!("no form {other:?}: flat, fast, superpage")),
    }
}
