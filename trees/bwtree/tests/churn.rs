//! A tree that is filled and emptied again and again takes no more ids and no more memory than the
//! first times. A process of its own, since other tests' memory and pins would count.
//!
//! `HEDGEROW_TEST_SCALE` multiplies the keys; 67 makes 2 million. With `--nocapture` it prints each
//! round, the memory that the process has resident included.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow_bwtree::{BwTree, Configuration, Standard, WithoutChunks, WithoutMappingTable};

const KEYS: f64 = 30_000.0;
const ROUNDS: usize = 10;

/// Locked by the test that runs: what is measured is that of the whole process.
static RUNNING: Mutex<()> = Mutex::new(());

fn run_alone() -> MutexGuard<'static, ()> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Spreads numbers, so that keys come in no order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn keys() -> u64 {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    (KEYS * scale) as u64
}

/// The memory that the process has resident, in KiB, where the kernel says it.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whole MiB.
fn mib(bytes: usize) -> usize {
    bytes >> 20
}

fn fill(tree: &BwTree<impl Configuration>, keys: u64, long: &[u8]) {
    for number in 0..keys {
        // Some values have a block of their own.
        let value = if number % 16 == 0 { long } else { &key(number) };
        assert!(!tree.put(&key(number), value));
    }
    tree.verify().expect("sound when full");
}

fn empty(tree: &BwTree<impl Configuration>, keys: u64, round: usize) {
    for number in 0..keys {
        // Another order in each round: keys is a multiple of 8.
        assert!(tree.remove(&key(number ^ (round as u64 & 7))));
    }
    tree.verify().expect("sound when empty");
}

#[test]
fn ids_and_memory_are_used_again() {
    let _alone = run_alone();
    churn::<Standard>();
    churn::<WithoutChunks>();
    churn::<WithoutMappingTable>();
}

/// Pairs of which the last repeats a key, some of the others with values in blocks of their own.
fn refused_pairs(keys: u64, long: &[u8]) -> impl Iterator<Item = ([u8; 8], &[u8])> {
    let numbers = (0..keys).chain([keys - 1]);
    numbers.map(move |number| {
        let value = if number % 16 == 0 { long } else { b"short" };
        (number.to_be_bytes(), value)
    })
}

#[test]
fn a_refused_load_keeps_nothing() {
    let _alone = run_alone();
    refuse_loads::<Standard>();
    refuse_loads::<WithoutMappingTable>();
}

fn refuse_loads<C: Configuration>() {
    let long = [7; 1000];
    let mut live = Vec::new();
    for round in 0..8 {
        let pairs = refused_pairs(20_000, &long);
        let load = || match round % 2 {
            0 => BwTree::<C>::bulk_load(pairs).map(drop),
            _ => BwTree::<C>::bulk_load(pairs.inspect(|(key, _)| {
                assert!(
                    *key != 15_000_u64.to_be_bytes(),
                    "the source of pairs fails"
                );
            }))
            .map(drop),
        };
        let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(load));
        assert!(!matches!(loaded, Ok(Ok(()))), "refused, or a panic");
        live.push(hedgerow_memory::live_bytes());
    }
    let [before, after] = [live[1], live[7]].map(mib);
    assert!(after <= before + 1, "{before} MiB, then {after}");
}

fn churn<C: Configuration>() {
    let keys = keys().next_multiple_of(8);
    let tree = BwTree::<C>::new();
    println!("{}", std::any::type_name::<C>());
    let long = vec![7; 1_000];
    let (mut ids, mut bytes, mut reserved) = (Vec::new(), Vec::new(), Vec::new());
    println!("round  ids ever used  recycled  live MiB full, empty  reserved  resident");
    for round in 0..ROUNDS {
        fill(&tree, keys, &long);
        let full_bytes = hedgerow_memory::live_bytes();
        empty(&tree, keys, round);
        let statistics = tree.statistics();
        assert_eq!(statistics.get("leaves"), Some(1.0), "{statistics:?}");
        // What is retired last is freed when other pins follow.
        (0..10_000).for_each(|number| assert!(!tree.contains(&key(number))));
        ids.push(statistics.get("ids_ever_used").expect("counted"));
        bytes.push(hedgerow_memory::live_bytes());
        // Trees without a mapping table have their chunks in a region.
        let region_bytes = statistics.get("region_bytes").unwrap_or(0.0) as usize;
        reserved.push(hedgerow_memory::reserved_bytes() + region_bytes);
        println!(
            "{:>5}  {:>13}  {:>8}  {:>13}, {:>5}  {:>8}  {:>8}",
            round + 1,
            ids[round],
            statistics.get("ids_recycled").expect("counted"),
            mib(full_bytes),
            mib(bytes[round]),
            mib(reserved[round]),
            resident_kib().map_or_else(|| "–".to_owned(), |kib| (kib >> 10).to_string()),
        );
    }
    assert!(
        ids[ROUNDS - 1] <= 1.5 * ids[1],
        "ids of the mapping table, by rounds: {ids:?}"
    );
    // The root alone has an id without a mapping table.
    let recycled = tree.counters().get("ids_recycled");
    assert!(
        recycled > Some(ids[0]) || ids[0] == 1.0,
        "{recycled:?} ids used again"
    );
    assert!(
        bytes[ROUNDS - 1] <= bytes[1] + (1 << 20),
        "bytes in use when empty, by rounds: {bytes:?}"
    );
    assert!(
        reserved[ROUNDS - 1] <= reserved[1] + reserved[1] / 4,
        "bytes taken from the system, by rounds: {reserved:?}"
    );
}
