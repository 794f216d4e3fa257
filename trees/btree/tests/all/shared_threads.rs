//! The tree on a pool that is too small for it, changed and read by several threads at once, with
//! checkpoints beside them, and on a disk that is slow and full at times.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_index::{Decision, Direction, Index};
use hedgerow_pages::{Error, Options, PageId, Pool};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const PAGE: usize = 1024;
const THREADS: u64 = 3;

type Tree = BTreeIndex<Adaptive, PAGE>;

fn open(vfs: &Arc<dyn Vfs>) -> Arc<Pool<PAGE>> {
    let budget = (4 * 8 + 200) * PAGE as u64 + 128 * 1024;
    Arc::new(Pool::open(vfs, Path::new("/pages"), &Options::new(budget)).unwrap())
}

fn owner(tree: &Tree) -> Vec<u8> {
    let mut bytes = tree.root().0.to_le_bytes().to_vec();
    bytes.extend_from_slice(&tree.len().to_le_bytes());
    bytes
}

/// What a crash now would leave.
fn reopened(memory: &MemoryVfs) -> Tree {
    let vfs: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
    let pool = open(&vfs);
    let owner = pool.owner();
    let root = u32::from_le_bytes(owner[..4].try_into().unwrap());
    let len = u64::from_le_bytes(owner[4..].try_into().unwrap());
    Tree::open(pool, PageId(root), len)
}

/// Keys that end with the thread's number: numbers, names, and long ones that share their key
/// prefixes with those of other threads.
fn key(random: &mut StdRng, thread: u64) -> Vec<u8> {
    let n = random.random_range(0..1500_u64) * THREADS + thread;
    match random.random_range(0..10) {
        0..5 => n.to_be_bytes().to_vec(),
        5..8 => format!("name/{:x}/{n}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes(),
        _ => {
            let mut key = vec![b'l'; 100 + 60 * (n as usize % 5)];
            key.extend_from_slice(&(n % 40).to_be_bytes());
            key.push(thread as u8);
            key
        }
    }
}

fn value(random: &mut StdRng) -> Vec<u8> {
    let len = match random.random_range(0..12) {
        0 => random.random_range(0..40),
        1 => random.random_range(200..4000),
        _ => 8,
    };
    vec![random.random(); len]
}

/// The keys of the next steps, from the last on. Many of them are prefetched, mostly in the order
/// in which they come, and beside others.
fn some_keys(tree: &Tree, random: &mut StdRng, thread: u64) -> Vec<Vec<u8>> {
    let count = random.random_range(1..50);
    let keys: Vec<Vec<u8>> = (0..count).map(|_| key(random, thread)).collect();
    let mut slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    if random.random_range(0..4) > 0 {
        slices.reverse();
    }
    slices.retain(|_| random.random_range(0..8) > 0);
    if random.random_range(0..3) > 0 {
        Index::prefetch_many(tree, &slices);
    }
    keys
}

/// What a thread put, and how often the disk was too full for a change.
#[derive(Default)]
struct Done {
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    refused: usize,
}

impl Done {
    /// The answer to a change, unless the disk was full: then it changed nothing.
    fn answer(&mut self, changed: Result<bool, Error>) -> Option<bool> {
        match changed {
            Err(error) if error.is_disk_full() => {
                self.refused += 1;
                None
            }
            changed => Some(changed.unwrap()),
        }
    }
}

/// Takes steps with keys of one's own and checks each answer.
fn work(tree: &Tree, thread: u64, steps: usize) -> Done {
    let mut random = StdRng::seed_from_u64(thread);
    let mut done = Done::default();
    let mut next_keys = Vec::new();
    for step in 0..steps {
        if next_keys.is_empty() {
            next_keys = some_keys(tree, &mut random, thread);
        }
        let key = next_keys.pop().expect("some keys");
        // Phases of growth and of decay.
        let removes = if step % 8000 < 5000 { 1 } else { 9 };
        if random.random_range(0..10) < removes {
            if let Some(removed) = done.answer(tree.remove(&key)) {
                assert_eq!(removed, done.model.remove(&key).is_some());
            }
        } else if random.random_range(0..3) > 0 {
            let value = value(&mut random);
            if let Some(new) = done.answer(tree.insert(&key, &value)) {
                assert_eq!(new, done.model.insert(key, value).is_none());
            }
        } else {
            let model = &done.model;
            let found = tree.get(&key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_ref(), model.get(&key));
            let keys: Vec<&[u8]> = model.keys().take(20).map(Vec::as_slice).collect();
            let mut answers = 0;
            tree.get_many(&keys, |index, value| {
                answers += 1;
                assert_eq!(value, model.get(keys[index]).map(Vec::as_slice));
            })
            .unwrap();
            assert_eq!(answers, keys.len());
        }
    }
    // Most of the tree goes, so that nodes merge.
    let mut model = std::mem::take(&mut done.model);
    let mut number = 0;
    model.retain(|key, _| {
        number += 1;
        number % 8 == 0 || done.answer(tree.remove(key)) != Some(true)
    });
    Done { model, ..done }
}

/// Scans both ways and checks that keys only ascend, or descend.
fn scan(tree: &Tree, random: &mut StdRng) {
    for direction in [Direction::Forward, Direction::Reverse] {
        let start = key(random, 0);
        let mut last: Option<Vec<u8>> = None;
        let mut left = random.random_range(1..600);
        tree.scan(Bound::Included(&start), direction, |key, _| {
            let (before, bound) = match (&last, direction) {
                (None, Direction::Forward) => (true, key >= &start[..]),
                (None, Direction::Reverse) => (true, key <= &start[..]),
                (Some(last), Direction::Forward) => (&last[..] < key, true),
                (Some(last), Direction::Reverse) => (&last[..] > key, true),
            };
            assert!(before && bound, "{key:?} after {last:?}, from {start:?}");
            last = Some(key.to_vec());
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    }
}

/// Counts a thread that ends, also by a panic: else the others would wait for it for ever.
struct Ends<'a>(&'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Has threads work, scan and adapt leaves, with checkpoints beside them, each of which is a whole
/// tree after a crash, also if it failed on a full disk; then compares. Returns how many changes
/// and how many checkpoints a full disk refused.
fn compare_beside_checkpoints(
    memory: &MemoryVfs,
    tree: &Tree,
    steps: usize,
    beside: impl Fn(&dyn Fn() -> bool) + Sync,
    heal: impl Fn(),
) -> (usize, usize) {
    let running = AtomicUsize::new(THREADS as usize);
    let runs = || running.load(Ordering::Relaxed) > 0;
    let (mut refused, mut failed) = (0, 0);
    let all = std::thread::scope(|scope| {
        let (running, runs) = (&running, &runs);
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let _ends = Ends(running);
                    work(tree, thread, steps)
                })
            })
            .collect();
        scope.spawn(move || {
            let mut random = StdRng::seed_from_u64(99);
            let mut adapted = Vec::new();
            while runs() {
                scan(tree, &mut random);
                let next = tree.adapt_to_keys(&adapted, 16).unwrap();
                adapted = next.unwrap_or_default();
            }
        });
        scope.spawn(|| beside(runs));
        while runs() {
            match tree.pool().checkpoint(|| owner(tree)) {
                Err(error) if error.is_disk_full() => failed += 1,
                taken => taken.unwrap(),
            }
            reopened(memory).verify().unwrap();
        }
        let mut all = BTreeMap::new();
        for worker in workers {
            let done = worker.join().unwrap();
            refused += done.refused;
            all.extend(done.model);
        }
        all
    });
    heal();
    compare(memory, tree, &all);
    (refused, failed)
}

/// Compares a tree, and what a crash after a checkpoint leaves of it, with all that was put.
fn compare(memory: &MemoryVfs, tree: &Tree, all: &BTreeMap<Vec<u8>, Vec<u8>>) {
    assert_eq!(
        tree.verified_pages().unwrap() as u64,
        tree.pool().statistics().live
    );
    tree.pool().checkpoint(|| owner(tree)).unwrap();
    let later = reopened(memory);
    for tree in [tree, &later] {
        tree.verify().unwrap();
        let mut found = BTreeMap::new();
        tree.scan(Bound::Unbounded, Direction::Forward, |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(found == *all, "{} keys, not {}", found.len(), all.len());
    }
    let pool = tree.pool().statistics();
    assert!(pool.reads > 1000 && pool.writes > 1000, "{pool:?}");
    let statistics = tree.statistics();
    for event in ["splits", "merges", "restarts"] {
        assert!(statistics.get(event) > Some(20.0), "{statistics:?}");
    }
}

#[test]
fn threads_find_what_they_put_and_every_checkpoint_is_a_tree() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let tree = Tree::create(open(&vfs)).unwrap();
    tree.pool().checkpoint(|| owner(&tree)).unwrap();
    let refused = compare_beside_checkpoints(&memory, &tree, 24_000, |_| {}, || {});
    assert_eq!(refused, (0, 0));
}

/// Splits, merges and evictions of several threads, on a disk whose writes take their time, and
/// which is full every few milliseconds, also in the middle of a write.
#[test]
fn nor_do_they_lose_anything_on_a_slow_disk_that_is_full_at_times() {
    let memory = MemoryVfs::new();
    let faulty = FaultyVfs::new(Arc::new(memory.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let tree = Tree::create(open(&vfs)).unwrap();
    tree.pool().checkpoint(|| owner(&tree)).unwrap();
    faulty.delay(CallKind::Write, Duration::from_micros(100));
    let fill_up = |runs: &dyn Fn() -> bool| {
        let mut random = StdRng::seed_from_u64(7);
        while runs() {
            std::thread::sleep(Duration::from_millis(random.random_range(1..20)));
            let full = match random.random_range(0..3) {
                0 => Fault::Error(ErrorKind::StorageFull),
                1 => Fault::ShortWrite(ErrorKind::StorageFull),
                _ => Fault::TornWrite(ErrorKind::StorageFull),
            };
            faulty.fail_from(CallKind::Write, random.random_range(0..20), full);
            std::thread::sleep(Duration::from_millis(random.random_range(1..20)));
            faulty.heal();
        }
    };
    let heal = || faulty.heal();
    let (refused, failed) = compare_beside_checkpoints(&memory, &tree, 24_000, fill_up, heal);
    println!("{refused} changes and {failed} checkpoints refused");
    assert!(refused > 20 && failed > 5, "{refused}, {failed}");
}

/// Adds to counters until a leaf was split because of that, or for so many rounds, and returns
/// what they sum up to and how many such divisions there were.
fn count_up(threads: u64, rounds: u64) -> (u64, f64) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let tree = Tree::create(open(&vfs)).unwrap();
    for n in 0..200_u64 {
        tree.insert(&(n << 20).to_be_bytes(), &[0; 8]).unwrap();
    }
    let (done, added) = (AtomicBool::new(false), AtomicUsize::new(0));
    let splits = || tree.statistics().get("contention_splits").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (tree, done, added, splits) = (&tree, &done, &added, &splits);
            scope.spawn(move || {
                let mut new = Vec::new();
                for round in (0..rounds).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let key = ((round + thread) % 6) << 20;
                    tree.update(&key.to_be_bytes(), &mut new, |old, new| {
                        // The leaf is latched: others come and wait for it. To yield is not enough
                        // where other processes want the processors.
                        std::thread::sleep(std::time::Duration::from_micros(1));
                        let old = u64::from_le_bytes(old.unwrap().try_into().unwrap());
                        new.extend_from_slice(&(old + 1).to_le_bytes());
                        Decision::Put(())
                    })
                    .unwrap();
                    added.fetch_add(1, Ordering::Relaxed);
                    if round % 1024 == 1023 && splits() > 0.0 {
                        done.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    tree.verify().unwrap();
    let mut sum = 0;
    tree.scan(Bound::Unbounded, Direction::Forward, |_, value| {
        sum += u64::from_le_bytes(value.try_into().unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(sum, added.into_inner() as u64);
    (sum, splits())
}

#[test]
fn leaves_that_writers_wait_for_are_split() {
    // Few attempts at a split come through while other processes want the processors.
    let (sum, splits) = count_up(THREADS, 400_000);
    assert!(splits > 0.0, "{sum} changes");
    let (sum, splits) = count_up(1, 20_000);
    assert_eq!((sum, splits), (20_000, 0.0));
}

#[test]
fn counters_lose_no_increment() {
    const ROUNDS: u64 = 2000;
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let tree = Tree::create(open(&vfs)).unwrap();
    let done = AtomicBool::new(false);
    let keys: Vec<Vec<u8>> = (0..60_u64)
        .map(|n| key(&mut StdRng::seed_from_u64(n), n % THREADS))
        .collect();
    let sum = |tree: &Tree| {
        let mut sum = 0;
        tree.scan(Bound::Unbounded, Direction::Forward, |_, value| {
            sum += u64::from_le_bytes(value[..8].try_into().unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
        sum
    };
    std::thread::scope(|scope| {
        let (tree, keys, done) = (&tree, &keys, &done);
        scope.spawn(move || {
            let mut least = 0;
            while !done.load(Ordering::Relaxed) {
                tree.pool().checkpoint(|| owner(tree)).unwrap();
                let later = reopened(&memory);
                later.verify().unwrap();
                let now = sum(&later);
                assert!(now >= least, "{now} after {least}");
                least = now;
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(thread);
                    let mut new = Vec::new();
                    for _ in 0..ROUNDS {
                        let key = &keys[random.random_range(0..keys.len())];
                        // The value's length changes: some are in overflow pages at times.
                        let len = if random.random_range(0..20) == 0 {
                            900
                        } else {
                            8
                        };
                        tree.update(key, &mut new, |old, new| {
                            let old = old
                                .map_or(0, |old| u64::from_le_bytes(old[..8].try_into().unwrap()));
                            new.extend_from_slice(&(old + 1).to_le_bytes());
                            new.resize(len, 7);
                            Decision::Put(())
                        })
                        .unwrap();
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    tree.verify().unwrap();
    assert_eq!(sum(&tree), THREADS * ROUNDS);
}

#[test]
fn readers_of_a_damaged_page_get_an_error_and_others_their_answers() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let tree = Tree::create(open(&vfs)).unwrap();
    let count = 4000_u64;
    for n in 0..count {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        tree.insert(&key, &n.to_le_bytes()).unwrap();
    }
    tree.pool().checkpoint(|| owner(&tree)).unwrap();
    // Flip a bit of a block in the middle of the file, which no root is.
    let file = memory.open_direct(Path::new("/pages"), hedgerow_vfs::OpenMode::ReadWrite);
    let file = file.unwrap();
    let at = file.len().unwrap() / 2 / PAGE as u64 * PAGE as u64;
    let mut block = vec![0; PAGE];
    file.read_at(at, &mut block).unwrap();
    block[77] ^= 4;
    file.write_at(at, &block).unwrap();
    let later = reopened(&memory);
    let (mut found, mut failed) = (0, 0);
    for n in 0..count {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        match later.get(&key, |value| assert_eq!(value, n.to_le_bytes())) {
            Ok(Some(())) => found += 1,
            Ok(None) => panic!("{n} is lost"),
            Err(error) => {
                assert!(error.to_string().contains("checksum"), "{error}");
                failed += 1;
            }
        }
    }
    assert!(
        found > count / 2 && failed > 0,
        "{found} found, {failed} failed"
    );
    assert!(later.verify().is_err());
    let mut visited = 0;
    let scanned = later.scan(Bound::Unbounded, Direction::Forward, |_, _| {
        visited += 1;
        ControlFlow::Continue(())
    });
    assert!(scanned.is_err() && visited < count);
}
