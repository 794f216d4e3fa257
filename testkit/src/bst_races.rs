//! Race tests on the concurrent binary search trees.
//!
//! Operations on one key call nothing back, so no thread can be stopped in the middle of one. So
//! each tree gets threads that meet at few keys, with recorded histories, and readers of keys that
//! stay while writers insert and remove the keys between them, which makes nodes change their
//! places. Batches and scans call back between their steps: there another thread makes a rotation,
//! always at the same place.

use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use hedgerow_bst::{
    Citrus, EdgeExtLf, EdgeIntLf, ExtLf, IntLf, LogInt, OccAvl2Ret, SearchTree, Ticket,
};
use hedgerow_index::{ConcurrentIntMap, Direction, OrderedIntMap};

use crate::concurrent_ints::{ConcurrentIntRun, check_concurrent, check_concurrent_scans};
use crate::tree_races::RaceTest;

const fn few_keys<T: SearchTree<u64>>(name: &'static str) -> RaceTest {
    RaceTest {
        name,
        run: |rounds| with_histories(rounds, check_concurrent::<T>),
        rounds: 1_000,
    }
}

const fn few_keys_with_scans<T: SearchTree<u64> + OrderedIntMap<u64>>(
    name: &'static str,
) -> RaceTest {
    RaceTest {
        name,
        run: |rounds| with_histories(rounds, check_concurrent_scans::<T>),
        rounds: 1_000,
    }
}

const fn keys_that_stay<T: SearchTree<u64>>(name: &'static str) -> RaceTest {
    RaceTest {
        name,
        run: staying::<T>,
        rounds: 10_000,
    }
}

const fn pairs_that_move<T: SearchTree<u64>>(name: &'static str) -> RaceTest {
    RaceTest {
        name,
        run: moving::<T>,
        rounds: 5_000,
    }
}

/// All race tests. Of the forms of `occ-avl` the one that restarts from the root: a planted bug
/// makes the recursive ones search for ever.
pub const RACE_TESTS: [RaceTest; 21] = [
    RaceTest {
        name: "occ-avl-2-ret, a batch at a node that shrinks",
        run: batch_at_a_rotation,
        rounds: 1,
    },
    RaceTest {
        name: "occ-avl-2-ret, a scan at a node that shrinks",
        run: scan_at_a_rotation,
        rounds: 1,
    },
    few_keys_with_scans::<OccAvl2Ret<u64>>("occ-avl-2-ret, scans of few keys"),
    keys_that_stay::<OccAvl2Ret<u64>>("occ-avl-2-ret, keys that stay"),
    pairs_that_move::<IntLf<u64>>("int-lf, pairs that move"),
    pairs_that_move::<EdgeIntLf<u64>>("edge-int-lf, pairs that move"),
    few_keys::<EdgeIntLf<u64>>("edge-int-lf, few keys"),
    keys_that_stay::<EdgeIntLf<u64>>("edge-int-lf, keys that stay"),
    few_keys::<LogInt<u64>>("log-int, few keys"),
    few_keys_with_scans::<LogInt<u64>>("log-int, scans of few keys"),
    keys_that_stay::<LogInt<u64>>("log-int, keys that stay"),
    few_keys::<Citrus<u64>>("citrus, few keys"),
    keys_that_stay::<Citrus<u64>>("citrus, keys that stay"),
    few_keys::<IntLf<u64>>("int-lf, few keys"),
    keys_that_stay::<IntLf<u64>>("int-lf, keys that stay"),
    few_keys_with_scans::<EdgeExtLf<u64>>("edge-ext-lf, scans of few keys"),
    keys_that_stay::<EdgeExtLf<u64>>("edge-ext-lf, keys that stay"),
    few_keys::<Ticket<u64>>("ticket, few keys"),
    keys_that_stay::<Ticket<u64>>("ticket, keys that stay"),
    few_keys::<ExtLf<u64>>("ext-lf, few keys"),
    keys_that_stay::<ExtLf<u64>>("ext-lf, keys that stay"),
];

/// Records what threads see that meet at few keys of an empty tree, and checks it.
fn with_histories<T: SearchTree<u64>, E: ToString>(
    rounds: usize,
    check: fn(&T, &ConcurrentIntRun) -> Result<(), E>,
) -> Result<(), String> {
    for seed in 0..rounds as u64 {
        let run = ConcurrentIntRun {
            keys: [3, 8, 40][seed as usize % 3],
            threads: 4,
            operations: 300,
            seed,
        };
        check(&T::segregated(), &run).map_err(|violation| violation.to_string())?;
    }
    Ok(())
}

/// Keys of a tree of [`staying`]: the odd ones stay, two writers share the even ones.
const KEYS: u64 = 64;
const WRITERS: u64 = 2;
const READERS: usize = 2;

/// The keys in an order in which an unbalanced tree is not much higher than a balanced one; another
/// one for each `round`.
fn scattered(round: u64) -> impl Iterator<Item = u64> {
    (0..KEYS).map(move |number| (number * 37 + round * 11) % KEYS)
}

/// Readers look for keys that stay while writers remove and insert the others.
fn staying<T: SearchTree<u64>>(rounds: usize) -> Result<(), String> {
    let map = T::segregated();
    for key in scattered(0) {
        map.insert(key, key);
    }
    let writing = AtomicUsize::new(WRITERS as usize);
    let complaint = Mutex::new(None);
    let report = |outcome: Result<(), String>| {
        if let (Err(what), Ok(mut complaint)) = (outcome, complaint.lock()) {
            complaint.get_or_insert(what);
        }
    };
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (map, report, writing) = (&map, &report, &writing);
            scope.spawn(move || {
                let mut rounds = 0..rounds as u64;
                let written = catch_unwind(AssertUnwindSafe(|| {
                    rounds.try_for_each(|round| rewrite(map, writer, round))
                }));
                // Readers would wait for a writer that is gone without a word.
                report(written.unwrap_or_else(|_| Err("a writer panicked".to_owned())));
                writing.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut is_sound = Ok(());
                while is_sound.is_ok() && writing.load(Ordering::Relaxed) > 0 {
                    is_sound = read(&map);
                }
                report(is_sound);
            });
        }
    });
    match complaint.into_inner() {
        Ok(None) => map.verify(),
        Ok(Some(complaint)) => Err(complaint),
        Err(_) => Err("a thread panicked".to_owned()),
    }
}

/// Removes a writer's keys and inserts them again.
fn rewrite<T: ConcurrentIntMap<u64>>(map: &T, writer: u64, round: u64) -> Result<(), String> {
    let mine = |key: &u64| key % (2 * WRITERS) == 2 * writer;
    for key in scattered(round).filter(mine) {
        if map.remove(key) != Some(key) {
            return Err(format!("{key} was lost before its removal"));
        }
    }
    for key in scattered(round + 1).filter(mine) {
        if map.insert(key, key).is_some() {
            return Err(format!("{key} came back after its removal"));
        }
    }
    Ok(())
}

/// Looks for all keys that stay.
fn read<T: ConcurrentIntMap<u64>>(map: &T) -> Result<(), String> {
    let mut stay = scattered(0).filter(|key| key % 2 == 1);
    match stay.find(|&key| map.get(key) != Some(key)) {
        Some(key) => Err(format!("{key}, which stays, was not found")),
        None => Ok(()),
    }
}

/// Keys of a tree of [`moving`], but for the least.
const CHAIN: u64 = 300;

/// The least key's parent is the root, and all others are a chain to the left below it: each key
/// that is removed is the root's, and the end of the chain takes its place, while a reader on its
/// way down the chain looks for it.
fn moving<T: SearchTree<u64>>(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let map = T::segregated();
        for key in [1, 0].into_iter().chain((2..CHAIN).rev()) {
            map.insert(key, key);
        }
        let removing = AtomicU64::new(0);
        thread::scope(|scope| {
            let reader = scope.spawn(|| follow(&map, &removing));
            {
                let _end = EndOfChain(&removing);
                for key in 1..CHAIN {
                    removing.store(key, Ordering::SeqCst);
                    map.remove(key);
                }
            }
            reader
                .join()
                .map_err(|_| "the reader panicked".to_owned())?
        })?;
        map.verify()?;
    }
    Ok(())
}

/// Lets the reader end, also when the writer panics.
struct EndOfChain<'a>(&'a AtomicU64);

impl Drop for EndOfChain<'_> {
    fn drop(&mut self) {
        self.0.store(CHAIN - 1, Ordering::SeqCst);
    }
}

/// Looks for the key after the one that is being removed, which stays for now.
fn follow<T: ConcurrentIntMap<u64>>(map: &T, removing: &AtomicU64) -> Result<(), String> {
    loop {
        let key = removing.load(Ordering::SeqCst) + 1;
        if key == CHAIN {
            return Ok(());
        }
        let found = map.get(key);
        if found.is_none() && removing.load(Ordering::SeqCst) < key {
            return Err(format!(
                "{key}, which took the place of {}, was not found",
                key - 1
            ));
        }
    }
}

/// A tree in which 30 is 40's parent, until [`rotate`] makes it 40's child: then its range of keys
/// has shrunk. In the mirrored one keys and sides are exchanged.
fn before_a_rotation(mirrored: bool) -> OccAvl2Ret<u64> {
    let map = OccAvl2Ret::segregated();
    for key in [20, 10, 30, 40] {
        let key = mirror(key, mirrored);
        map.insert(key, key);
    }
    map
}

/// Another thread inserts 50.
fn rotate(map: &OccAvl2Ret<u64>, mirrored: bool) {
    thread::scope(|scope| {
        scope.spawn(|| map.insert(mirror(50, mirrored), mirror(50, mirrored)));
    });
}

/// The key in the tree's place, or its mirror image's.
fn mirror(key: u64, mirrored: bool) -> u64 {
    if mirrored { 60 - key } else { key }
}

/// An error, unless a search began again and nothing else went wrong.
fn end_of_rotation(map: &OccAvl2Ret<u64>) -> Result<(), String> {
    let statistics = map.statistics();
    if [statistics.get("rotations"), statistics.get("retries")] != [Some(1.0); 2] {
        return Err(format!("no search met one rotation: {statistics:?}"));
    }
    map.verify()
}

/// The lookup of 40 is at 30 when that of 10 calls back.
fn batch_at_a_rotation(_rounds: usize) -> Result<(), String> {
    for mirrored in [false, true] {
        let map = before_a_rotation(mirrored);
        let keys = [40, 10, 30].map(|key| mirror(key, mirrored));
        let mut found = [None; 3];
        map.get_many(&keys, |at, word| {
            found[at] = word;
            if at == 1 {
                rotate(&map, mirrored);
            }
        });
        if found != keys.map(Some) {
            return Err(format!("looked for {keys:?}, found {found:?}"));
        }
        end_of_rotation(&map)?;
    }
    Ok(())
}

/// The scan is at 30, and has shown it, when that moves below 40.
fn scan_at_a_rotation(_rounds: usize) -> Result<(), String> {
    for mirrored in [false, true] {
        let map = before_a_rotation(mirrored);
        let direction = match mirrored {
            false => Direction::Forward,
            true => Direction::Reverse,
        };
        let mut shown = Vec::new();
        map.scan(Bound::Unbounded, direction, |key, _| {
            shown.push(key);
            if key == 30 {
                rotate(&map, mirrored);
            }
            ControlFlow::Continue(())
        });
        // 50 is new, and beyond what the scan had shown when it came.
        let expected = [10, 20, 30, 40, 50].map(|key| mirror(key, mirrored));
        if shown != expected {
            return Err(format!("the scan showed {shown:?} of {expected:?}"));
        }
        end_of_rotation(&map)?;
    }
    Ok(())
}
