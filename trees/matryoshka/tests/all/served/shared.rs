//! The map of words for many threads: beside the model, with recorded histories, and under stress,
//! with nodes so small that splits, merges and the collapse of roots happen all the time.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hedgerow_index::{
    Decide, Decision, Direction, Index, IndexError, IntKey, NotAscending, ScanRange, Statistics,
    StatisticsKind, ValuePart, Visit,
};
use hedgerow_matryoshka::{Capacity, Change, Full, LoadError, SharedMatryoshka, SharedNodeKey};
use hedgerow_memory::Placement;
use hedgerow_simd::Level;
use hedgerow_testkit::concurrent_ints::{self, ConcurrentIntRun};
use hedgerow_testkit::index_workload::{
    ConcurrentRun, check_concurrent, check_sequential, decode_value, encode_value,
};
use hedgerow_testkit::int_workload::{IntRun, IntShape};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// The smallest nodes there can be.
struct Tiny;

impl Capacity for Tiny {
    const LINES: usize = 3;
    const FAN_OUT: usize = 4;
}

/// Pages of several sizes below several inner levels.
struct Small;

impl Capacity for Small {
    const LINES: usize = 15;
    const FAN_OUT: usize = 6;
}

/// A key as the drivers of `testkit` know it: bytes that sort as it does.
trait Key: IntKey<Encoded: SharedNodeKey> {
    fn of(bytes: &[u8]) -> Self;
    fn bytes(self) -> Vec<u8>;
    /// A key for every number that fits the width; two numbers may share one.
    fn numbered(number: u64) -> Self;
}

macro_rules! key {
    ($($key:ty, $word:ty);*) => {$(
        impl Key for $key {
            fn of(bytes: &[u8]) -> Self {
                let bytes = bytes.first_chunk().expect("as many bytes as a key has");
                Self::decode(<$word>::from_be_bytes(*bytes))
            }

            fn bytes(self) -> Vec<u8> {
                self.encode().to_be_bytes().to_vec()
            }

            fn numbered(number: u64) -> Self {
                number as Self
            }
        }
    )*};
}

key!(u64, u64; i64, u64; u32, u32; i32, u32);

/// The map behind the interface that the drivers of `testkit` know: keys of four or eight bytes,
/// and values that are numbers in disguise.
struct ByNumber<K: Key, C: Capacity>(SharedMatryoshka<K, C>);

impl<K: Key, C: Capacity> Index for ByNumber<K, C> {
    fn get(
        &self,
        key: &[u8],
        _part: ValuePart,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError> {
        if let Some(word) = self.0.get(K::of(key)) {
            read(&value(word));
        }
        Ok(())
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        let keys: Vec<K> = keys.iter().map(|key| K::of(key)).collect();
        self.0
            .get_many(&keys, |at, word| read(at, word.map(value).as_deref()));
        Ok(())
    }

    fn update(
        &self,
        key: &[u8],
        _part: ValuePart,
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        self.0.update(K::of(key), |word| {
            new.clear();
            match decide(word.map(value).as_deref(), new) {
                Decision::Keep(()) => Change::Keep(()),
                Decision::Put(()) => {
                    Change::Put(decode_value(new).expect("a value of the driver's"), ())
                }
                Decision::Remove(()) => Change::Remove(()),
            }
        });
        Ok(())
    }

    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError> {
        let mut left = range.limit;
        self.0
            .scan(range.from.map(K::of), range.direction, |key, word| {
                let key = key.bytes();
                if left == 0 || range.ends_before(&key) {
                    return ControlFlow::Break(());
                }
                left -= 1;
                visit(&key, &value(word))
            });
        Ok(())
    }

    fn partition(&self, _parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        Ok(Vec::new())
    }

    fn statistics(&self, _kind: StatisticsKind) -> Result<Statistics, IndexError> {
        Ok(self.0.statistics())
    }

    fn verify(&self) -> Result<(), String> {
        self.0.verify()
    }
}

fn value(word: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_value(word, &mut bytes);
    bytes
}

/// Keys at both ends of the key space, in a dense run, and all over.
fn keys<K: Key>(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut keys: Vec<K> = (0..count as u64)
        .map(|at| match at % 4 {
            0 => K::numbered(at),
            1 => K::numbered(u64::MAX - at / 4),
            2 => K::numbered(1 << 40 | 1 << 30 | at),
            _ => K::numbered(rng.random()),
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(K::bytes).collect()
}

fn sequential<K: Key, C: Capacity>(sizes: &[usize], operations: usize) {
    for level in Level::supported() {
        for &size in sizes {
            let map = ByNumber(SharedMatryoshka::<K, C>::with_level(level));
            check_sequential(&map, &keys::<K>(size, size as u64), operations, size as u64)
                .unwrap_or_else(|violation| panic!("{}: {violation:?}", level.name()));
        }
    }
}

#[test]
fn nodes_of_every_placement_match_the_model() {
    fn check<K: Key, C: Capacity>() {
        for placement in [Placement::Segregated, Placement::Merged, Placement::System] {
            let map = SharedMatryoshka::<K, C>::with_placement(Level::detect(), placement);
            let map = ByNumber(map);
            check_sequential(&map, &keys::<K>(600, 9), 6_000, 9)
                .unwrap_or_else(|violation| panic!("{placement:?}: {violation:?}"));
            let map = SharedMatryoshka::<K, C>::with_placement(Level::detect(), placement);
            let pairs = (0..4_000).map(|number| (K::numbered(number), number));
            map.bulk_load(pairs).expect("ascending");
            (0..4_000).for_each(|number| {
                assert_eq!(map.remove(K::numbered(number)), Some(number));
            });
            map.verify().expect("sound when empty");
        }
    }
    check::<u64, Tiny>();
    check::<i32, Small>();
}

#[test]
fn tiny_nodes_match_the_model() {
    sequential::<u64, Tiny>(&[20, 400], 8_000);
    sequential::<i64, Tiny>(&[400], 4_000);
    sequential::<u32, Tiny>(&[20, 400, 1_000], 8_000);
    sequential::<i32, Tiny>(&[400], 4_000);
}

#[test]
fn small_nodes_match_the_model() {
    sequential::<u64, Small>(&[600, 3_000], 20_000);
    sequential::<i32, Small>(&[600, 3_000], 20_000);
}

#[test]
fn full_nodes_match_the_model() {
    sequential::<u64, Full>(&[8_000], 60_000);
    sequential::<u32, Full>(&[8_000], 20_000);
}

fn histories<K: Key, C: Capacity>(count: usize, remove_percent: u32, seed: u64) {
    let map = ByNumber(SharedMatryoshka::<K, C>::new());
    let run = ConcurrentRun {
        keys: keys::<K>(count, seed),
        threads: 4,
        operations: 3_000,
        remove_percent,
        seed,
    };
    check_concurrent(&map, &run)
        .unwrap_or_else(|violation| panic!("{count} keys, seed {seed}: {violation:?}"));
    map.0.verify().expect("sound at rest");
}

#[test]
fn histories_are_linearizable_per_key() {
    for (seed, remove_percent) in [5, 25, 45].into_iter().enumerate() {
        histories::<u64, Tiny>(8, remove_percent, seed as u64);
        histories::<u64, Tiny>(120, remove_percent, seed as u64);
        histories::<u64, Small>(400, remove_percent, seed as u64);
        histories::<u64, Full>(30, remove_percent, seed as u64);
        histories::<i32, Tiny>(8, remove_percent, seed as u64);
        histories::<i32, Tiny>(200, remove_percent, seed as u64);
        histories::<u32, Small>(800, remove_percent, seed as u64);
    }
}

/// Even numbers stay throughout, odd ones come and go.
fn spread<K: Key>(number: u64) -> K {
    // The product with an odd number differs in its lower half, too.
    K::numbered(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Inserts and removes all numbers of a writer that do not stay, in random order.
fn churn<K: Key, C: Capacity>(
    map: &SharedMatryoshka<K, C>,
    writer: u64,
    numbers: u64,
    rounds: usize,
) {
    let mut rng = StdRng::seed_from_u64(writer);
    let mut mine: Vec<u64> = (0..numbers)
        .filter(|number| !number.is_multiple_of(32) && number % 2 == writer)
        .collect();
    for round in 0..rounds {
        mine.shuffle(&mut rng);
        for &number in &mine {
            assert_eq!(map.insert(spread::<K>(number), number), None);
        }
        mine.shuffle(&mut rng);
        for &number in &mine {
            assert_eq!(map.remove(spread::<K>(number)), Some(number), "{round}");
        }
    }
}

/// Finds all of the ascending keys in a batch, and in a scan.
fn find_all<K: Key, C: Capacity>(map: &SharedMatryoshka<K, C>, stay: &[K], direction: Direction) {
    let mut found = 0;
    map.get_many(stay, |at, word| {
        assert_eq!(word.map(spread::<K>), Some(stay[at]), "in a batch");
        found += 1;
    });
    assert_eq!(found, stay.len());
    let (mut seen, mut last) = (Vec::new(), None);
    map.scan(Bound::Unbounded, direction, |key, word| {
        assert_eq!(key, spread::<K>(word), "a word of another key");
        let ordered = last.is_none_or(|last| match direction {
            Direction::Forward => last < key,
            Direction::Reverse => last > key,
        });
        assert!(ordered, "{key:?} after {last:?}");
        last = Some(key);
        if word % 32 == 0 {
            seen.push(key);
        }
        ControlFlow::Continue(())
    });
    if direction == Direction::Reverse {
        seen.reverse();
    }
    assert_eq!(seen, stay, "a scan left keys out");
}

/// Writers make nodes split, merge and collapse around keys that stay; readers, batches and scans
/// must find those, always.
fn keys_that_stay_are_found<K: Key, C: Capacity>(numbers: u64, rounds: usize) {
    let map = SharedMatryoshka::<K, C>::new();
    (0..numbers).step_by(32).for_each(|number| {
        map.insert(spread::<K>(number), number);
    });
    let (done, passes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let map = &map;
        let writers = [0, 1].map(|writer| scope.spawn(move || churn(map, writer, numbers, rounds)));
        for direction in [Direction::Forward, Direction::Reverse] {
            let (done, passes) = (&done, &passes);
            scope.spawn(move || {
                let mut stay: Vec<K> = (0..numbers).step_by(32).map(spread).collect();
                stay.sort_unstable();
                while !done.load(Ordering::Relaxed) || passes.load(Ordering::Relaxed) < 2 {
                    find_all(map, &stay, direction);
                    passes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let outcomes = writers.map(|writer| writer.join());
        done.store(true, Ordering::Relaxed);
        outcomes
            .into_iter()
            .for_each(|outcome| outcome.expect("a writer"));
    });
    map.verify().expect("sound at rest");
    let statistics = map.statistics();
    assert_eq!(statistics.get("keys"), Some(numbers.div_ceil(32) as f64));
    for event in ["page_splits", "page_merges"] {
        assert!(statistics.get(event) > Some(0.0), "{event}: {statistics:?}");
    }
}

#[test]
fn keys_that_stay_are_found_whatever_the_writers_do() {
    keys_that_stay_are_found::<u64, Tiny>(2_048, 6);
    keys_that_stay_are_found::<u64, Small>(4_096, 4);
    keys_that_stay_are_found::<u64, Full>(20_000, 2);
    keys_that_stay_are_found::<i32, Tiny>(4_096, 4);
    keys_that_stay_are_found::<u32, Full>(20_000, 2);
}

#[test]
fn many_threads_count_one_word_exactly() {
    let map = SharedMatryoshka::<u64, Tiny>::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for step in 0..5_000_u64 {
                    map.update(step % 50, |word| Change::Put(word.unwrap_or(0) + 1, ()));
                }
            });
        }
    });
    for key in 0..50 {
        assert_eq!(map.get(key), Some(400));
    }
    map.verify().expect("sound");
}

#[test]
fn everything_removed_leaves_one_page() {
    let map: SharedMatryoshka = SharedMatryoshka::new();
    let mut rng = StdRng::seed_from_u64(3);
    let mut numbers: Vec<u64> = (0..100_000).collect();
    for _ in 0..2 {
        numbers.shuffle(&mut rng);
        for &number in &numbers {
            assert_eq!(map.insert(spread(number), number), None);
        }
        map.verify().expect("sound when full");
        assert!(map.statistics().get("outer_height") >= Some(1.0));
        numbers.shuffle(&mut rng);
        for (done, &number) in numbers.iter().enumerate() {
            assert_eq!(map.remove(spread(number)), Some(number));
            if done % 10_000 == 0 {
                map.verify().expect("sound while shrinking");
            }
        }
        map.verify().expect("sound when empty");
        let statistics = map.statistics();
        assert_eq!(statistics.get("pages"), Some(1.0));
        assert_eq!(statistics.get("outer_height"), Some(0.0));
    }
}

#[test]
fn ascending_inserts_leave_nearly_full_pages() {
    let map: SharedMatryoshka = SharedMatryoshka::new();
    (0..100_000).for_each(|key| {
        map.insert(key, key);
    });
    map.verify().expect("sound");
    let statistics = map.statistics();
    assert!(statistics.get("page_fill") > Some(0.9), "{statistics:?}");
}

fn contents<K: Key, C: Capacity>(map: &SharedMatryoshka<K, C>) -> BTreeMap<K, u64> {
    let mut contents = BTreeMap::new();
    map.scan(Bound::Unbounded, Direction::Forward, |key, word| {
        contents.insert(key, word);
        ControlFlow::Continue(())
    });
    contents
}

/// Loads maps of all these sizes, looks at them, changes them and empties them.
fn bulk_loads<K: Key, C: Capacity>(sizes: &[u64]) {
    for &size in sizes {
        let map = SharedMatryoshka::<K, C>::new();
        let mut model: BTreeMap<K, u64> = (0..size).map(|at| (spread(at), at)).collect();
        map.bulk_load(model.clone()).expect("ascending keys");
        map.verify()
            .unwrap_or_else(|error| panic!("{size}: {error}"));
        assert_eq!(contents(&map), model, "{size}");
        let mut rng = StdRng::seed_from_u64(size);
        for _ in 0..size {
            let (key, word) = (spread(rng.random_range(0..2 * size)), rng.random());
            assert_eq!(map.insert(key, word), model.insert(key, word));
            let key = spread::<K>(rng.random_range(0..2 * size));
            assert_eq!(map.remove(key), model.remove(&key));
        }
        map.verify()
            .unwrap_or_else(|error| panic!("{size}: {error}"));
        assert_eq!(contents(&map), model, "{size}");
        for (key, word) in model {
            assert_eq!(map.remove(key), Some(word));
        }
        map.verify()
            .unwrap_or_else(|error| panic!("{size}: {error}"));
        assert_eq!(map.statistics().get("pages"), Some(1.0), "{size}");
        // What was emptied can be filled again.
        assert_eq!(
            map.bulk_load([(K::numbered(1), 1), (K::numbered(2), 2)]),
            Ok(())
        );
        assert_eq!(map.get(K::numbered(2)), Some(2));
    }
}

#[test]
fn bulk_loads_of_any_size_hold() {
    bulk_loads::<u64, Tiny>(&(0..120).chain([1_000, 5_000]).collect::<Vec<_>>());
    bulk_loads::<i32, Tiny>(&(0..120).chain([1_000, 5_000]).collect::<Vec<_>>());
    bulk_loads::<i64, Small>(&[1, 90, 91, 92, 182, 183, 184, 4_000]);
    bulk_loads::<u64, Full>(&[1, 355, 356, 710, 711, 712, 50_000, 250_000]);
    bulk_loads::<u32, Full>(&[1, 525, 526, 1_050, 1_051, 50_000, 250_000]);
}

#[test]
fn a_bulk_load_is_refused_whole() {
    let map = SharedMatryoshka::<u64, Tiny>::new();
    let twice = (0..100).chain([99]).map(|key| (key, key));
    let refused = LoadError::NotAscending(NotAscending { position: 100 });
    assert_eq!(map.bulk_load(twice), Err(refused));
    assert_eq!(map.get(5), None);
    map.insert(7, 8);
    let pairs = (0..100).map(|key| (key, key));
    assert_eq!(map.bulk_load(pairs), Err(LoadError::NotEmpty));
    assert_eq!(contents(&map), BTreeMap::from([(7, 8)]));
    map.verify().expect("sound");
}

#[test]
fn a_bulk_load_leaves_pages_that_inserts_find_room_in() {
    let map: SharedMatryoshka = SharedMatryoshka::new();
    map.bulk_load((0..100_000).map(|key| (2 * key, key)))
        .expect("ascending keys");
    let loaded = map.statistics();
    assert!(loaded.get("page_fill") > Some(0.85), "{loaded:?}");
    let mut rng = StdRng::seed_from_u64(9);
    for _ in 0..2_000 {
        map.insert(2 * rng.random_range(0..100_000) + 1, 0);
    }
    map.verify().expect("sound");
    let later = map.statistics();
    assert!(later.get("page_splits") < Some(20.0), "{later:?}");
}

/// Loads, an insert and readers race for an empty map: some order of all explains what they saw.
/// In some rounds the insert comes when a load has returned, in some the loads when it has, so that
/// either side wins however the machine schedules them.
#[test]
fn a_bulk_load_is_one_moment_for_all_threads() {
    let (mut loads, mut refused) = (0, 0);
    for round in 0..300_u64 {
        let map = SharedMatryoshka::<u64, Tiny>::new();
        let start = std::sync::Barrier::new(4);
        let (loaded, inserted) = (AtomicBool::new(false), AtomicBool::new(false));
        let wait_for = |flag: &AtomicBool| {
            while !flag.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let load = |source: u64| {
                let (map, start, loaded, inserted) = (&map, &start, &loaded, &inserted);
                scope.spawn(move || {
                    let pairs: Vec<_> = (0..200).map(|key| (key, source)).collect();
                    start.wait();
                    if round % 10 == 1 {
                        wait_for(inserted);
                    }
                    let result = map.bulk_load(pairs);
                    loaded.store(true, Ordering::Release);
                    result
                })
            };
            let loaders = [load(1), load(2)];
            let inserter = scope.spawn(|| {
                start.wait();
                if round % 10 == 0 {
                    wait_for(&loaded);
                }
                for _ in 0..round * 4 {
                    std::hint::spin_loop();
                }
                let before = map.insert(round % 200, 3);
                inserted.store(true, Ordering::Release);
                before
            });
            start.wait();
            let mut seen = None;
            for key in (0..200).cycle().take(1_000) {
                let word = map.get(key).filter(|&word| word != 3);
                assert!(seen.is_none() || word == seen || key == round % 200);
                seen = seen.or(word);
            }
            let results = loaders.map(|loader| loader.join().expect("a loader"));
            let before = inserter.join().expect("an inserter");
            let winner = results.iter().position(|result| result.is_ok());
            // Whoever came first, the insert or a load, kept the (other) loads out.
            assert_eq!(before, winner.map(|winner| winner as u64 + 1));
            assert!(results.contains(&Err(LoadError::NotEmpty)));
            loads += usize::from(winner.is_some());
            refused += usize::from(winner.is_none());
            map.verify().expect("sound at rest");
            let keys = if winner.is_some() { 200 } else { 1 };
            assert_eq!(contents(&map).len(), keys);
        });
    }
    assert_eq!(loads + refused, 300);
    assert!(
        loads >= 30 && refused >= 30,
        "{loads} loads, {refused} refused"
    );
}

#[test]
fn a_change_that_panics_leaves_the_map_usable() {
    let map: SharedMatryoshka = SharedMatryoshka::new();
    map.insert(1, 1);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.update(1, |_| -> Change<()> { panic!("by the caller") })
    }));
    assert!(outcome.is_err());
    assert_eq!(map.insert(1, 2), Some(1));
    map.verify().expect("sound");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bound_starts_a_scan_rightly(
        pairs in proptest::collection::btree_map(key(), any::<u64>(), 0..200),
        removed in proptest::collection::vec(key(), 0..60),
        bound in key(),
        kind in 0..3_usize,
    ) {
        let map = SharedMatryoshka::<u64, Tiny>::new();
        let mut model: BTreeMap<u64, u64> = pairs;
        model.iter().for_each(|(&key, &word)| {
            map.insert(key, word);
        });
        for key in removed {
            prop_assert_eq!(map.remove(key), model.remove(&key));
        }
        map.verify().expect("sound");
        let bound = [Bound::Included(bound), Bound::Excluded(bound), Bound::Unbounded][kind];
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut seen = Vec::new();
            map.scan(bound, direction, |key, word| {
                seen.push((key, word));
                ControlFlow::Continue(())
            });
            let pair = |(&key, &word): (&u64, &u64)| (key, word);
            let expected: Vec<_> = match direction {
                Direction::Forward => model.range((bound, Bound::Unbounded)).map(pair).collect(),
                Direction::Reverse => {
                    let rows = model.range((Bound::Unbounded, bound));
                    rows.rev().map(pair).collect()
                }
            };
            prop_assert_eq!(seen, expected);
        }
    }
}

fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..300_u64,
        (0..50_u64).prop_map(|low| u64::MAX - low),
        any::<u64>()
    ]
}

/// As a concurrent map of words, whose inserts leave keys alone that are there.
#[test]
fn words_answer_like_a_model_and_are_linearizable() {
    let run = IntRun {
        shape: IntShape::Ends,
        range: 300,
        operations: 4_000,
        verify_every: 400,
        seed: rand::random(),
    };
    let map = SharedMatryoshka::<i32, Tiny>::new();
    concurrent_ints::check_sequential(&map, &run).unwrap_or_else(|e| panic!("{run:?}: {e}"));
    concurrent_ints::check_scans(&map, &run).unwrap_or_else(|e| panic!("{run:?}: {e}"));
    let run = ConcurrentIntRun {
        keys: 40,
        threads: 4,
        operations: 2_000,
        seed: rand::random(),
    };
    let map = SharedMatryoshka::<u64, Tiny>::new();
    concurrent_ints::check_concurrent_scans(&map, &run).unwrap_or_else(|e| panic!("{run:?}: {e}"));
}
