//! Fills a tree with keys that arrive in some order, and says what became of its pages; under
//! callgrind, also what an insertion costs:
//!
//! ```text
//! cargo build --release -p hedgerow-lab-own --example arrivals
//! target/release/examples/arrivals single adaptive integers ascending 200000
//! valgrind --tool=callgrind target/release/examples/arrivals single adaptive integers ascending 200000
//! ```
//!
//! Keys are integers of eight bytes, a thousand apart; decimals of ten digits, seven apart; orders
//! of customers by name and number; or the lines of a file. In *partitions* each key is the next of
//! one of 64 ranges, drawn by chance. Without an order (`none`) keys are made, but not inserted.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use hedgerow_btree::configuration::{Adaptive, Configuration, Fingerprint, Hints, SemiDense};
use hedgerow_btree::{BTree, BTreeIndex};
use hedgerow_index::Statistics;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const USAGE: &str = "arrivals single|shared hints|fingerprint|semi-dense|adaptive \
                     integers|dense|decimals|orders|FILE \
                     ascending|descending|partitions|bursts|random|none COUNT";

const PARTITIONS: usize = 64;

/// So many consecutive keys arrive together.
const BURST: usize = 20;

/// Keys in ascending order.
fn keys(source: &str, count: usize) -> Result<Vec<Vec<u8>>, String> {
    let all = 0..count as u64;
    let mut keys: Vec<Vec<u8>> = match source {
        "integers" => all.map(|n| (1000 * n).to_be_bytes().to_vec()).collect(),
        "dense" => all.map(|n| n.to_be_bytes().to_vec()).collect(),
        "decimals" => all.map(|n| format!("{:010}", 7 * n).into_bytes()).collect(),
        "orders" => all
            .map(|n| format!("customer-{:05}/order-{:08}", n / 5000, 3 * (n % 5000)).into_bytes())
            .collect(),
        path => {
            let text = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
            let lines = text.split(|&byte| byte == b'\n');
            lines
                .filter(|key| !key.is_empty())
                .map(<[u8]>::to_vec)
                .collect()
        }
    };
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(count);
    Ok(keys)
}

/// The same keys in an order of arrival.
fn arranged(mut keys: Vec<Vec<u8>>, order: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut random = StdRng::seed_from_u64(1);
    match order {
        "ascending" | "none" => {}
        "descending" => keys.reverse(),
        "random" => keys.shuffle(&mut random),
        "bursts" => {
            let mut bursts: Vec<_> = keys.chunks(BURST).map(<[Vec<u8>]>::to_vec).collect();
            bursts.shuffle(&mut random);
            keys = bursts.concat();
        }
        "partitions" => {
            let each = keys.len().div_ceil(PARTITIONS);
            let mut parts: Vec<_> = keys.chunks(each).map(<[Vec<u8>]>::iter).collect();
            let mut arrived = Vec::with_capacity(keys.len());
            while !parts.is_empty() {
                let part = random.random_range(0..parts.len());
                match parts[part].next() {
                    Some(key) => arrived.push(key.clone()),
                    None => drop(parts.swap_remove(part)),
                }
            }
            keys = arrived;
        }
        other => return Err(format!("{other}: no order; {USAGE}")),
    }
    Ok(keys)
}

fn single<C: Configuration>(keys: &[Vec<u8>]) -> Statistics {
    let mut tree = BTree::<C>::default();
    for key in keys {
        tree.insert(key, &[7; 8]);
    }
    tree.statistics()
}

fn shared<C: Configuration>(keys: &[Vec<u8>]) -> Result<Statistics, String> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let mut options = Options::new(1 << 30);
    // Valgrind has no room for as many as could be.
    options.most_pages = 1 << 18;
    let pool = Pool::open(&vfs, Path::new("/pages"), &options);
    let pool = pool.map_err(|error| error.to_string())?;
    let tree = BTreeIndex::<C>::create(Arc::new(pool)).map_err(|error| error.to_string())?;
    for key in keys {
        let done = tree.insert(key, &[7; 8]);
        done.map_err(|error| error.to_string())?;
    }
    Ok(tree.statistics())
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [tree, form, source, order, count] = arguments else {
        return Err(USAGE.into());
    };
    let count = count.parse().map_err(|_| USAGE.to_string())?;
    let mut keys = arranged(keys(source, count)?, order)?;
    if order == "none" {
        keys.clear();
    }
    let all = match (tree.as_str(), form.as_str()) {
        ("single", "hints") => single::<Hints>(&keys),
        ("single", "fingerprint") => single::<Fingerprint>(&keys),
        ("single", "semi-dense") => single::<SemiDense>(&keys),
        ("single", "adaptive") => single::<Adaptive>(&keys),
        ("shared", "hints") => shared::<Hints>(&keys)?,
        ("shared", "adaptive") => shared::<Adaptive>(&keys)?,
        _ => return Err(USAGE.into()),
    };
    let number = |name| all.get(name).unwrap_or(f64::NAN);
    println!(
        "{} keys: {:.2} bytes each, leaves {:.3} full, {} inner nodes, {} comparison, \
         {} fingerprint, {} semi dense, {} fully dense",
        keys.len(),
        number("bytes_per_key"),
        number("leaf_fill_ratio"),
        number("inner_nodes"),
        number("comparison_leaves"),
        number("fingerprint_leaves"),
        number("semi_dense_leaves"),
        number("fully_dense_leaves"),
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
