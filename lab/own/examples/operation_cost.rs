//! Runs one operation of the engine by one thread, so that its instructions can be counted:
//!
//! ```text
//! cargo build --release -p hedgerow-lab-own --example operation_cost
//! valgrind --tool=callgrind --toggle-collect='*run_operations*' \
//!     target/release/examples/operation_cost masstree short get 4000
//! ```
//!
//! A keyspace on files in memory is filled with 20,000 keys in random order first. Then the
//! operation runs so many times on random keys; only that is counted. Loop and dispatch take what
//! `none` takes.
//!
//! Valgrind does not reserve the terabyte of addresses of a B-tree's pool: for `btree`, build with
//! `1 << 22` as the default of `hedgerow_pages::Options::most_pages`.
//!
//! Short keys have 8 bytes. Long ones share a prefix of 24 bytes and have 40.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow::{Db, Direction, Durability, IndexKind, Keyspace};
use hedgerow_vfs::MemoryVfs;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const USAGE: &str = "operation_cost masstree|btree|matryoshka|bwtree short|long \
                     none|get|put|insert|scan|reverse|range|keys|get_many COUNT";

/// Keys that are there before the operation.
const FILLED: u64 = 20_000;
/// Rows that a scan visits.
const SCANNED: usize = 50;
/// Keys of a batch.
const BATCH: usize = 16;
const VALUE: [u8; 8] = *b"hedgerow";

type Key = Vec<u8>;

/// The `n`th key. Neighbouring numbers are far from each other.
fn key(is_long: bool, n: u64) -> Key {
    let spread = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    match is_long {
        false => spread.to_be_bytes().to_vec(),
        true => format!("customer:berlin:orders::{spread:016x}").into_bytes(),
    }
}

fn scan(keyspace: &Keyspace, range: (Bound<&[u8]>, Bound<&[u8]>), direction: Direction) {
    let mut bytes = 0;
    keyspace
        .scan_up_to(range, direction, SCANNED, |key, row| {
            bytes += key.len() + row.value().map_or(0, <[u8]>::len);
            ControlFlow::Continue(())
        })
        .expect("it scans");
    black_box(bytes);
}

fn scan_keys(keyspace: &Keyspace, from: &[u8]) {
    let (mut rows, mut bytes) = (0, 0);
    let range = (Bound::Included(from), Bound::Unbounded);
    keyspace
        .scan_keys(range, Direction::Forward, |key| {
            rows += 1;
            bytes += key.len();
            match rows < SCANNED {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })
        .expect("it scans");
    black_box(bytes);
}

fn get_many(keyspace: &Keyspace, keys: &[Key]) {
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut bytes = 0;
    keyspace
        .get_many(&keys, |_, row| {
            bytes += row.and_then(|row| row.value()).map_or(0, <[u8]>::len);
        })
        .expect("it reads");
    black_box(bytes);
}

/// The keys of operations, made before these are counted.
struct Keys {
    /// A batch of present ones for each operation.
    batches: Vec<[Key; BATCH]>,
    /// An absent one for each operation.
    absent: Vec<Key>,
    /// All present ones in order.
    sorted: Vec<Key>,
}

impl Keys {
    fn new(is_long: bool, count: usize) -> Keys {
        let mut random = StdRng::seed_from_u64(2);
        let mut present = || key(is_long, random.random_range(0..FILLED));
        let mut sorted: Vec<Key> = (0..FILLED).map(|n| key(is_long, n)).collect();
        sorted.sort_unstable();
        Keys {
            batches: (0..count)
                .map(|_| std::array::from_fn(|_| present()))
                .collect(),
            absent: (FILLED..).map(|n| key(is_long, n)).take(count).collect(),
            sorted,
        }
    }
}

/// Callgrind is told to count while this runs.
#[inline(never)]
fn run_operations(keyspace: &Keyspace, operation: &str, keys: &Keys) {
    for (n, batch) in keys.batches.iter().enumerate() {
        let some = &batch[0];
        let from = Bound::Included(some.as_slice());
        match operation {
            "none" => _ = black_box(some),
            "get" => {
                let length = keyspace.read(some, |row| row.value().map(<[u8]>::len));
                assert_eq!(length.expect("it reads"), Some(Some(VALUE.len())));
            }
            "put" => _ = keyspace.put(some, &VALUE).expect("it writes"),
            "insert" => _ = keyspace.put(&keys.absent[n], &VALUE).expect("it writes"),
            "scan" => scan(keyspace, (from, Bound::Unbounded), Direction::Forward),
            "reverse" => scan(keyspace, (Bound::Unbounded, from), Direction::Reverse),
            "range" => {
                let first = n % (keys.sorted.len() - SCANNED);
                let range = (
                    Bound::Included(keys.sorted[first].as_slice()),
                    Bound::Excluded(keys.sorted[first + SCANNED].as_slice()),
                );
                scan(keyspace, range, Direction::Forward);
            }
            "keys" => scan_keys(keyspace, some),
            "get_many" => get_many(keyspace, batch),
            _ => panic!("{USAGE}"),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [index, keys, operation, count] = arguments.as_slice() else {
        panic!("{USAGE}");
    };
    let index = IndexKind::from_name(index).expect(USAGE);
    let is_long = keys == "long";
    let db = Db::builder()
        .index(index)
        .workers(1)
        .durability(Durability::None)
        .memory_limit((index == IndexKind::BTree).then_some(64 << 20))
        .vfs(Arc::new(MemoryVfs::new()))
        .open(Path::new("/database"))
        .expect("it opens");
    let keyspace = db.keyspace("default").expect("it is created");
    let mut numbers: Vec<u64> = (0..FILLED).collect();
    numbers.shuffle(&mut StdRng::seed_from_u64(1));
    for n in numbers {
        keyspace.put(&key(is_long, n), &VALUE).expect("it writes");
    }
    let keys = Keys::new(is_long, count.parse().expect(USAGE));
    run_operations(&keyspace, operation, &keys);
}
