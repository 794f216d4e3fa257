//! Runs one operation on the tree for one writer or on the one for many threads, by one thread, so
//! that their instructions can be counted side by side:
//!
//! ```text
//! cargo build --release -p hedgerow-lab-own --example shared_cost
//! valgrind --tool=callgrind target/release/examples/shared_cost shared adaptive random insert 54000
//! ```
//!
//! The tree is filled with some keys in random order first, and the operation then runs once for
//! each of them, or, `insert`, for as many others. `none` does only the former, to be subtracted.
//! Keys are random numbers of eight bytes, or keys of sixteen that all begin with `key:` and end in
//! a number of twelve digits, or the lines of a file, such as `lab/data/samples/words.txt` and
//! `paths.txt`, which have enough for 2000. The operations whose names end in `-many` run in groups
//! of sixteen keys: lookups as one call, changes one by one behind a call that prefetches them, as
//! the server's are.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::configuration::{
    Adaptive, Baseline, Configuration, Fingerprint, FullyDense, Heads, Hints, Prefix, SemiDense,
    WideHeads, WideHints,
};
use hedgerow_btree::{BTree, BTreeIndex};
use hedgerow_index::{Direction, Index};
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const USAGE: &str = "shared_cost single|shared LAYOUT random|digits|FILE \
                     none|get|get-many|overwrite|overwrite-many|insert|insert-many|scan COUNT, \
                     where LAYOUT is the name of a configuration, such as adaptive";

/// Keys of a group.
const GROUP: usize = 16;

/// Pairs that a scan visits.
const SCANNED: usize = 25;

/// The operations under comparison.
trait Map {
    fn get(&mut self, key: &[u8]) -> Option<u64>;
    fn get_many(&mut self, keys: &[&[u8]], read: impl FnMut(usize, Option<u64>));
    /// Does nothing where a tree prefetches no changes.
    fn prefetch_many(&mut self, _keys: &[&[u8]]) {}
    fn insert(&mut self, key: &[u8], value: u64) -> bool;
    fn scan(&mut self, from: &[u8], visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>);
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

impl<C: Configuration> Map for BTree<C> {
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        BTree::get(self, key, word)
    }

    fn get_many(&mut self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<u64>)) {
        BTree::get_many(self, keys, |index, value| read(index, value.map(word)));
    }

    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        BTree::insert(self, key, &value.to_le_bytes())
    }

    fn scan(&mut self, from: &[u8], visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) {
        BTree::scan(self, Bound::Included(from), Direction::Forward, visit);
    }
}

impl<C: Configuration> Map for BTreeIndex<C> {
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        BTreeIndex::get(self, key, word).expect("pages in memory")
    }

    fn get_many(&mut self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<u64>)) {
        BTreeIndex::get_many(self, keys, |index, value| read(index, value.map(word)))
            .expect("pages in memory");
    }

    fn prefetch_many(&mut self, keys: &[&[u8]]) {
        Index::prefetch_many(self, keys);
    }

    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        BTreeIndex::insert(self, key, &value.to_le_bytes()).expect("pages in memory")
    }

    fn scan(&mut self, from: &[u8], visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) {
        BTreeIndex::scan(self, Bound::Included(from), Direction::Forward, visit)
            .expect("pages in memory");
    }
}

fn shared<C: Configuration>() -> Result<BTreeIndex<C>, String> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let mut options = Options::new(1 << 30);
    // Valgrind has no room for as many as could be.
    options.most_pages = 1 << 18;
    let pool = Pool::open(&vfs, Path::new("/pages"), &options);
    let pool = pool.map_err(|error| error.to_string())?;
    BTreeIndex::create(Arc::new(pool)).map_err(|error| error.to_string())
}

/// Twice as many keys as asked for, in random order.
fn keys(source: &str, count: usize) -> Result<Vec<Vec<u8>>, String> {
    let mut random = StdRng::seed_from_u64(1);
    let mut keys: Vec<Vec<u8>> = if source == "random" {
        let mut key = || random.random::<u64>().to_be_bytes().to_vec();
        (0..2 * count).map(|_| key()).collect()
    } else if source == "digits" {
        let key = |number| format!("key:{number:012}").into_bytes();
        (0..2 * count).map(key).collect()
    } else {
        let text = std::fs::read(source).map_err(|error| format!("{source}: {error}"))?;
        let lines = text.split(|&byte| byte == b'\n');
        lines
            .filter(|key| !key.is_empty())
            .map(<[u8]>::to_vec)
            .collect()
    };
    keys.sort_unstable();
    keys.dedup();
    keys.shuffle(&mut random);
    if keys.len() < 2 * count {
        return Err(format!(
            "{source}: only {} keys, not {}",
            keys.len(),
            2 * count
        ));
    }
    keys.truncate(2 * count);
    Ok(keys)
}

/// Keys in groups.
fn groups(keys: &[Vec<u8>]) -> impl Iterator<Item = Vec<&[u8]>> {
    let groups = keys.chunks(GROUP);
    groups.map(|group| group.iter().map(Vec::as_slice).collect())
}

fn run(mut map: impl Map, keys: &[Vec<u8>], operation: &str) -> Result<(), String> {
    let (old, new) = keys.split_at(keys.len() / 2);
    for (value, key) in (0..).zip(old) {
        map.insert(key, value);
    }
    let mut right = 0;
    match operation {
        "none" => right = old.len(),
        "get" => {
            for (value, key) in (0..).zip(old) {
                right += usize::from(black_box(map.get(key)) == Some(value));
            }
        }
        "get-many" => {
            for (number, group) in groups(old).enumerate() {
                map.get_many(&group, |index, value| {
                    let expected = (number * GROUP + index) as u64;
                    right += usize::from(black_box(value) == Some(expected));
                });
            }
        }
        "overwrite" => {
            for key in old {
                right += usize::from(!black_box(map.insert(key, 7)));
            }
        }
        "overwrite-many" => {
            for group in groups(old) {
                map.prefetch_many(&group);
                for key in group {
                    right += usize::from(!black_box(map.insert(key, 7)));
                }
            }
        }
        "insert" => {
            for key in new {
                right += usize::from(black_box(map.insert(key, 7)));
            }
        }
        "insert-many" => {
            for group in groups(new) {
                map.prefetch_many(&group);
                for key in group {
                    right += usize::from(black_box(map.insert(key, 7)));
                }
            }
        }
        "scan" => {
            for key in old {
                let mut left = SCANNED;
                map.scan(key, |key, value| {
                    black_box((key, value));
                    left -= 1;
                    if left == 0 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                right += usize::from(left < SCANNED);
            }
        }
        other => return Err(format!("no operation {other:?}: {USAGE}")),
    }
    if right == old.len() {
        Ok(())
    } else {
        Err(format!("only {right} right answers of {}", old.len()))
    }
}

fn run_tree<C: Configuration>(tree: &str, keys: &[Vec<u8>], operation: &str) -> Result<(), String> {
    match tree {
        "single" => run(BTree::<C>::default(), keys, operation),
        "shared" => run(shared::<C>()?, keys, operation),
        other => Err(format!("no tree {other:?}: {USAGE}")),
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tree, layout, source, operation, count] = &arguments[..] else {
        return Err(USAGE.to_owned());
    };
    let count = count.parse().map_err(|_| format!("no number: {count:?}"))?;
    let keys = keys(source, count)?;
    match layout.as_str() {
        Adaptive::NAME => run_tree::<Adaptive>(tree, &keys, operation),
        Baseline::NAME => run_tree::<Baseline>(tree, &keys, operation),
        Prefix::NAME => run_tree::<Prefix>(tree, &keys, operation),
        Heads::NAME => run_tree::<Heads>(tree, &keys, operation),
        Hints::NAME => run_tree::<Hints>(tree, &keys, operation),
        WideHeads::NAME => run_tree::<WideHeads>(tree, &keys, operation),
        WideHints::NAME => run_tree::<WideHints>(tree, &keys, operation),
        Fingerprint::NAME => run_tree::<Fingerprint>(tree, &keys, operation),
        SemiDense::NAME => run_tree::<SemiDense>(tree, &keys, operation),
        FullyDense::NAME => run_tree::<FullyDense>(tree, &keys, operation),
        other => Err(format!("no layout {other:?}: {USAGE}")),
    }
}
