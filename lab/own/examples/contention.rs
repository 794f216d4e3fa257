//! Threads that update keys of which a few are written far more often than others, with leaves
//! divided when writers wait for them (§7.3), and without, in turn:
//!
//! ```text
//! cargo build --release -p hedgerow-lab-own --example contention
//! target/release/examples/contention titles.txt 2 1000 5
//! ```
//!
//! As in the paper the tree has 5,000 titles, or the first so many lines of any file, in their
//! order, so that those that are written often are neighbours: the first of them most (Zipf, α =
//! 1). For pages of 2 to 32 KiB it says millions of updates in a second, the medians of the rounds,
//! and how many leaves were divided.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_index::Decision;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const USAGE: &str = "contention FILE THREADS MILLISECONDS ROUNDS";
const TITLES: usize = 5000;
/// Keys of which a page of 2 KiB takes some.
const LONGEST: usize = 450;
/// Updates between two looks at the clock.
const STRIDE: u64 = 256;

/// Sums of 1/rank, to choose a rank by.
fn weights(count: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let ranks = 1..=count;
    ranks
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect()
}

/// Updates in a second by so many threads, and divisions for their sake.
fn round<const PAGE: usize>(
    keys: &[Vec<u8>],
    weights: &[f64],
    threads: usize,
    time: Duration,
    divides: bool,
) -> Result<(f64, f64), String> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(1 << 28));
    let pool = Arc::new(pool.map_err(|error| error.to_string())?);
    let tree = BTreeIndex::<Adaptive, PAGE>::create(pool).map_err(|error| error.to_string())?;
    let tree = if divides {
        tree
    } else {
        tree.without_contention_splits()
    };
    for key in keys {
        tree.insert(key, &[0; 8]).map_err(|e| e.to_string())?;
    }
    let (begun, updates, done) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (tree, updates, done) = (&tree, &updates, &done);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(thread as u64);
                let (mut new, all) = (Vec::new(), weights[weights.len() - 1]);
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..STRIDE {
                        let point = random.random::<f64>() * all;
                        let rank = weights.partition_point(|&weight| weight < point);
                        let key = &keys[rank.min(keys.len() - 1)];
                        let updated = tree.update(key, &mut new, |old, new| {
                            let mut count = [0; 8];
                            count.copy_from_slice(old.expect("no key is removed"));
                            let count = u64::from_le_bytes(count) + 1;
                            new.extend_from_slice(&count.to_le_bytes());
                            Decision::Put(())
                        });
                        updated.expect("all pages are in memory");
                    }
                    updates.fetch_add(STRIDE, Ordering::Relaxed);
                    done.fetch_or(begun.elapsed() > time, Ordering::Relaxed);
                }
            });
        }
    });
    let rate = updates.into_inner() as f64 / begun.elapsed().as_secs_f64();
    let splits = tree.statistics().get("contention_splits");
    Ok((rate, splits.unwrap_or_default()))
}

/// Both ways in turn with one size of pages.
fn compare<const PAGE: usize>(
    keys: &[Vec<u8>],
    threads: usize,
    time: Duration,
    rounds: usize,
) -> Result<(), String> {
    let weights = weights(keys.len());
    let (mut with, mut without, mut splits) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..rounds {
        without.push(round::<PAGE>(keys, &weights, threads, time, false)?.0);
        let (rate, divided) = round::<PAGE>(keys, &weights, threads, time, true)?;
        with.push(rate);
        splits = divided;
    }
    with.sort_unstable_by(f64::total_cmp);
    without.sort_unstable_by(f64::total_cmp);
    let (with, without) = (with[rounds / 2], without[rounds / 2]);
    println!(
        "pages of {PAGE:>5}: {:.2} M/s without, {:.2} with ({:.2} times), {splits} leaves divided",
        without / 1e6,
        with / 1e6,
        with / without
    );
    Ok(())
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, threads, milliseconds, rounds] = arguments.as_slice() else {
        return Err(format!("usage: {USAGE}"));
    };
    let number = |text: &String| text.parse::<usize>().map_err(|_| format!("usage: {USAGE}"));
    let (threads, rounds) = (number(threads)?.max(1), number(rounds)?.max(1));
    let time = Duration::from_millis(number(milliseconds)? as u64);
    let text = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let lines = text.split(|&byte| byte == b'\n');
    let mut keys: Vec<Vec<u8>> = lines
        .filter(|line| !line.is_empty() && line.len() <= LONGEST)
        .take(TITLES)
        .map(<[u8]>::to_vec)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Err(format!("{file} has no keys"));
    }
    compare::<2048>(&keys, threads, time, rounds)?;
    compare::<4096>(&keys, threads, time, rounds)?;
    compare::<8192>(&keys, threads, time, rounds)?;
    compare::<16384>(&keys, threads, time, rounds)?;
    compare::<32768>(&keys, threads, time, rounds)
}
