//! One binary search tree by itself, each operation under a pin of its own:
//!
//! ```text
//! cargo build --release -p hedgerow-lab-own --example binary_trees
//! cd target/release/examples
//! ./binary_trees mixes occ-avl-2 1048576 500
//! ./binary_trees batches occ-avl-2 10000000 500000
//! valgrind --tool=cachegrind ./binary_trees lookups occ-avl-2 65536 100000
//! ```
//!
//! Keys are random ones of a range that has at least twice as many, up to a power of two. The
//! tree's invariants and its number of keys are checked at the end. An argument more says where
//! nodes come from: `segregated`, `merged` or `system`.
//!
//! - `mixes` draws as ASCYLIB's driver does, to be run beside that: of a random number of 32 bits
//!   the low ones are the key, and the whole is compared with the shares of updates. Three mixes
//!   run one after the other on the same tree, each with one thread and then with two, for so many
//!   milliseconds: lookups; 5 % insertions and 5 % removals; 25 % of each. A line has insertions in
//!   percent, threads, and million operations a second.
//! - `batches` looks up so many keys one by one and in batches of 64, in turn, five times; a line
//!   has million keys a second of both, and their ratio, in the middle one of the five.
//! - `lookups` does no more than so many lookups, so that they can be counted.

use std::error::Error;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow_bst::{
    Citrus, EdgeExtLf, EdgeExtLf2, EdgeIntLf, ExtLf, IntLf, LogInt, OccAvl, OccAvl2, OccAvl2Ret,
    SearchTree, Ticket,
};
use hedgerow_lab_data::random::Random;
use hedgerow_memory::Placement;

type Outcome = Result<(), Box<dyn Error>>;

/// Insertions in percent, of each mix; as many are removals.
const INSERTIONS: [u64; 3] = [0, 5, 25];
const BATCH: usize = 64;
const ROUNDS: usize = 5;

const USAGE: &str = "binary_trees mixes|batches|lookups TREE KEYS NUMBER [PLACEMENT]";

/// What one command line asks for.
struct Run<'a> {
    what: &'a str,
    keys: u64,
    number: u64,
    placement: Placement,
}

/// A tree and how many keys it should have.
struct Bench<T> {
    tree: T,
    /// The range of keys less one: all of its bits are set.
    mask: u64,
    keys: AtomicI64,
}

/// Random numbers of 32 bits, as quickly made as ASCYLIB's: Marsaglia's xorshift.
struct Xorshift(u64);

impl Xorshift {
    fn of_thread(thread: usize) -> Self {
        Self(Random::for_thread(0x0A5C, thread as u64).next_u64() | 1)
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 32
    }
}

impl<T: SearchTree<u64>> Bench<T> {
    /// Fills the tree by so many threads.
    fn new(run: &Run<'_>, threads: usize) -> Self {
        let keys = run.keys;
        let bench = Self {
            tree: T::with_placement(run.placement),
            mask: (2 * keys).next_power_of_two() - 1,
            keys: AtomicI64::new(keys as i64),
        };
        thread::scope(|scope| {
            for nth in 0..threads {
                let bench = &bench;
                scope.spawn(move || {
                    pin_to_core(nth);
                    let mut random = Xorshift::of_thread(8 + nth);
                    let mut missing = keys / threads as u64;
                    while missing > 0 {
                        let key = random.draw() & bench.mask;
                        missing -= u64::from(bench.tree.insert(key, key).is_none());
                    }
                });
            }
        });
        bench
    }

    fn check(&self) -> Outcome {
        self.tree.verify()?;
        let there = (0..=self.mask).filter(|&key| self.tree.get(key) == Some(key));
        let (there, expected) = (there.count() as i64, self.keys.load(Ordering::Relaxed));
        match there == expected {
            true => Ok(()),
            false => Err(format!("the tree has {there} keys, not {expected}").into()),
        }
    }

    /// Runs the mix on one thread until told to stop; returns the operations.
    fn mix(&self, random: &mut Xorshift, insertions: u64, stop: &AtomicBool) -> u64 {
        let inserted = (insertions << 32) / 100;
        let (mut operations, mut added, mut found) = (0, 0, 0);
        while !stop.load(Ordering::Relaxed) {
            let drawn = random.draw();
            let key = drawn & self.mask;
            if drawn < inserted {
                added += i64::from(self.tree.insert(key, key).is_none());
            } else if drawn < 2 * inserted {
                added -= i64::from(self.tree.remove(key).is_some());
            } else {
                found += u64::from(self.tree.get(key).is_some());
            }
            operations += 1;
        }
        black_box(found);
        self.keys.fetch_add(added, Ordering::Relaxed);
        operations
    }

    fn mixes(&self, length: Duration) {
        for insertions in INSERTIONS {
            for threads in [1, 2] {
                let (stop, operations) = (AtomicBool::new(false), AtomicU64::new(0));
                let start = Barrier::new(threads + 1);
                let took = thread::scope(|scope| {
                    for nth in 0..threads {
                        let (start, stop, operations) = (&start, &stop, &operations);
                        scope.spawn(move || {
                            pin_to_core(nth);
                            let mut random = Xorshift::of_thread(nth);
                            start.wait();
                            let done = self.mix(&mut random, insertions, stop);
                            operations.fetch_add(done, Ordering::Relaxed);
                        });
                    }
                    start.wait();
                    let started = Instant::now();
                    thread::sleep(length);
                    stop.store(true, Ordering::Relaxed);
                    started.elapsed()
                });
                let mops = operations.into_inner() as f64 / took.as_secs_f64() / 1e6;
                println!("{insertions} {threads} {mops:.4}");
            }
        }
    }

    fn batches(&self, lookups: usize) {
        let mut random = Xorshift::of_thread(3);
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let mut draw = || random.draw() & self.mask;
            let keys: Vec<u64> = (0..lookups).map(|_| draw()).collect();
            let others: Vec<u64> = (0..lookups).map(|_| draw()).collect();
            let single = mops(lookups, || {
                for &key in &keys {
                    black_box(self.tree.get(key));
                }
            });
            let many = mops(lookups, || {
                for some in others.chunks(BATCH) {
                    self.tree.get_many(some, |_, word| {
                        black_box(word);
                    });
                }
            });
            rounds.push((many / single, single, many));
        }
        rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (ratio, single, many) = rounds[ROUNDS / 2];
        println!("{single:.3} {many:.3} {ratio:.2}");
    }
}

fn mops(operations: usize, work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    operations as f64 / started.elapsed().as_secs_f64() / 1e6
}

fn pin_to_core(nth: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(core) = cores.get(nth) {
        core_affinity::set_for_current(*core);
    }
}

fn run<T: SearchTree<u64>>(run: &Run<'_>) -> Outcome {
    match run.what {
        "mixes" => {
            let bench: Bench<T> = Bench::new(run, 1);
            bench.mixes(Duration::from_millis(run.number));
            bench.check()
        }
        "batches" => {
            let bench: Bench<T> = Bench::new(run, 2);
            bench.batches(run.number as usize);
            bench.check()
        }
        "lookups" => {
            let bench: Bench<T> = Bench::new(run, 1);
            let mut random = Xorshift::of_thread(0);
            for _ in 0..run.number {
                black_box(bench.tree.get(random.draw() & bench.mask));
            }
            Ok(())
        }
        other => Err(format!("{other:?}: {USAGE}").into()),
    }
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, tree, keys, number, rest @ ..] = &arguments[..] else {
        return Err(USAGE.into());
    };
    let placement = match rest {
        [] => Placement::Segregated,
        [name, ..] => Placement::from_name(name).ok_or(USAGE)?,
    };
    let asked = Run {
        what,
        keys: keys.parse()?,
        number: number.parse()?,
        placement,
    };
    match tree.as_str() {
        "occ-avl" => run::<OccAvl<u64>>(&asked),
        "occ-avl-2" => run::<OccAvl2<u64>>(&asked),
        "occ-avl-2-ret" => run::<OccAvl2Ret<u64>>(&asked),
        "edge-int-lf" => run::<EdgeIntLf<u64>>(&asked),
        "log-int" => run::<LogInt<u64>>(&asked),
        "citrus" => run::<Citrus<u64>>(&asked),
        "int-lf" => run::<IntLf<u64>>(&asked),
        "edge-ext-lf" => run::<EdgeExtLf<u64>>(&asked),
        "edge-ext-lf-2" => run::<EdgeExtLf2<u64>>(&asked),
        "ticket" => run::<Ticket<u64>>(&asked),
        "ext-lf" => run::<ExtLf<u64>>(&asked),
        other => Err(format!("no tree {other:?}").into()),
    }
}
