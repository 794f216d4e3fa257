//! The index of byte keys: beside the model, with recorded histories, and under stress, on key
//! shapes that lead down the rare paths.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hedgerow_index::{Decision, Direction, Index, IndexExt, NotAscending, StatisticsKind};
use hedgerow_matryoshka::{Capacity, Full, LoadError, MatryoshkaIndex};
use hedgerow_simd::Level;
use hedgerow_testkit::index_properties::{
    ScanCase, any_key, any_scan, check_batch, check_even_partitions,
    check_even_partitions_of_nested_prefixes, check_every_shape, check_histories_of_every_shape,
    check_long_keys, check_scan, keys_of_every_shape,
};
use hedgerow_testkit::index_workload::check_sequential;
use hedgerow_testkit::keys::KeyShape;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// The smallest nodes there can be, and a layer for every two long keys.
struct Tiny;

impl Capacity for Tiny {
    const LINES: usize = 3;
    const FAN_OUT: usize = 4;
    const BUCKET: usize = 1;
}

/// Small nodes and small buckets.
struct Small;

impl Capacity for Small {
    const LINES: usize = 6;
    const FAN_OUT: usize = 5;
    const BUCKET: usize = 4;
}

fn put<C: Capacity>(index: &MatryoshkaIndex<C>, key: &[u8], value: &[u8]) -> bool {
    index.update_with(key, &mut Vec::new(), |old, new| {
        new.extend_from_slice(value);
        Decision::Put(old.is_some())
    })
}

fn remove<C: Capacity>(index: &MatryoshkaIndex<C>, key: &[u8]) -> bool {
    index.update_with(key, &mut Vec::new(), |old, _| {
        Decision::Remove(old.is_some())
    })
}

fn get<C: Capacity>(index: &MatryoshkaIndex<C>, key: &[u8]) -> Option<Vec<u8>> {
    index.get_with(key, <[u8]>::to_vec)
}

fn statistic<C: Capacity>(index: &MatryoshkaIndex<C>, name: &str) -> Option<f64> {
    index.statistics(StatisticsKind::All).unwrap().get(name)
}

fn pairs<C: Capacity>(
    index: &MatryoshkaIndex<C>,
    from: Bound<&[u8]>,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Vec::new();
    index
        .scan_from(from, direction, |key, value| {
            seen.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    seen
}

#[test]
fn every_key_shape_matches_the_model() {
    check_every_shape(MatryoshkaIndex::<Tiny>::new, 4_000);
    check_every_shape(MatryoshkaIndex::<Small>::new, 4_000);
    check_every_shape(MatryoshkaIndex::<Full>::new, 6_000);
}

#[test]
fn every_search_kernel_matches_the_model() {
    let keys = keys_of_every_shape(20, 7);
    for level in Level::supported() {
        let index = MatryoshkaIndex::<Small>::with_level(level);
        check_sequential(&index, &keys, 8_000, 3)
            .unwrap_or_else(|violation| panic!("{}: {violation}", level.name()));
    }
}

fn histories<C: Capacity>(counts: &[usize]) {
    for &count in counts {
        check_histories_of_every_shape(MatryoshkaIndex::<C>::new, count, 1_500, |index| {
            index.verify().expect("sound at rest");
        });
    }
}

#[test]
fn histories_are_linearizable_per_key_on_every_shape() {
    histories::<Tiny>(&[5, 40]);
    histories::<Full>(&[8, 200]);
}

/// Keys that share 64 bytes, or eight, or none.
fn staying(number: u64) -> Vec<u8> {
    let tail = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    match number % 3 {
        0 => [&[b'p'; 64][..], &tail].concat(),
        1 => [
            &(number / 64).to_be_bytes()[..],
            b"shared--",
            &tail[6..],
            &number.to_be_bytes(),
        ]
        .concat(),
        _ => tail.to_vec(),
    }
}

/// Writers make and empty layers around keys that stay; readers and scans must find those.
#[test]
fn keys_that_stay_are_found_whatever_the_writers_do() {
    const NUMBERS: u64 = 3_000;
    let index = MatryoshkaIndex::<Small>::new();
    (0..NUMBERS).step_by(25).for_each(|number| {
        put(&index, &staying(number), &number.to_be_bytes());
    });
    let (done, passes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = |half: u64| {
            let index = &index;
            move || {
                let mine = |number: &u64| !number.is_multiple_of(25) && number % 2 == half;
                for _ in 0..4 {
                    for number in (0..NUMBERS).filter(mine) {
                        assert!(!put(index, &staying(number), &number.to_be_bytes()));
                    }
                    for number in (0..NUMBERS).rev().filter(mine) {
                        assert!(remove(index, &staying(number)));
                    }
                }
            }
        };
        let writers = [scope.spawn(writer(0)), scope.spawn(writer(1))];
        for direction in [Direction::Forward, Direction::Reverse] {
            let (index, done, passes) = (&index, &done, &passes);
            scope.spawn(move || {
                let mut stay: Vec<u64> = (0..NUMBERS).step_by(25).collect();
                stay.sort_by_key(|&number| staying(number));
                let keys: Vec<Vec<u8>> = stay.iter().map(|&number| staying(number)).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                while !done.load(Ordering::Relaxed) || passes.load(Ordering::Relaxed) < 2 {
                    index.get_many(&keys, |at, value| {
                        assert_eq!(value, Some(&stay[at].to_be_bytes()[..]), "in a batch");
                    });
                    let mut seen = pairs(index, Bound::Unbounded, direction);
                    if direction == Direction::Reverse {
                        seen.reverse();
                    }
                    assert!(
                        seen.windows(2).all(|pair| pair[0].0 < pair[1].0),
                        "out of order"
                    );
                    let number =
                        |value: &[u8]| u64::from_be_bytes(*value.first_chunk().expect("8"));
                    let numbers = seen.iter().map(|pair| number(&pair.1));
                    assert!(
                        numbers
                            .filter(|number| number.is_multiple_of(25))
                            .eq(stay.iter().copied()),
                        "a scan left keys out"
                    );
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
    index.verify().expect("sound at rest");
    assert_eq!(statistic(&index, "keys"), Some(NUMBERS.div_ceil(25) as f64));
}

#[test]
fn one_layer_bridges_a_long_shared_prefix_and_goes_when_it_is_empty() {
    let index: MatryoshkaIndex = MatryoshkaIndex::new();
    let key = |number: u64| [&[b'p'; 100][..], &number.to_be_bytes()].concat();
    for number in 0..16 {
        put(&index, &key(number), b"v");
    }
    let layers = |index: &MatryoshkaIndex| statistic(index, "layers");
    assert_eq!(layers(&index), Some(0.0), "a bucket holds sixteen");
    put(&index, &key(16), b"v");
    index.verify().expect("sound with a layer");
    assert_eq!(
        layers(&index),
        Some(1.0),
        "{:?}",
        index.statistics(StatisticsKind::All)
    );
    // A key that leaves the prefix half way: the layer hangs below another.
    let half = [b'p'; 50];
    put(&index, &half, b"half");
    index.verify().expect("sound with a fork");
    assert_eq!(statistic(&index, "deepest_layer"), Some(2.0));
    assert_eq!(get(&index, &half).as_deref(), Some(&b"half"[..]));
    assert_eq!(get(&index, &[b'p'; 51]), None);
    for number in 0..=16 {
        assert_eq!(get(&index, &key(number)).as_deref(), Some(&b"v"[..]));
        assert!(remove(&index, &key(number)));
        index.verify().expect("sound while shrinking");
    }
    assert!(remove(&index, &half));
    index.verify().expect("sound when empty");
    assert_eq!(layers(&index), Some(0.0));
    assert_eq!(statistic(&index, "pages"), Some(1.0));
}

/// Groups of keys that share 16 bytes: many of them make a layer, a few need none.
fn grouped(group: u64, member: u64) -> Vec<u8> {
    [group.to_be_bytes(), *b"together", member.to_be_bytes()].concat()
}

#[test]
fn layers_fold_when_few_keys_are_left_and_memory_comes_back() {
    const GROUPS: u64 = 200;
    let index: MatryoshkaIndex = MatryoshkaIndex::new();
    let number = |index: &MatryoshkaIndex, name| statistic(index, name).unwrap();
    for kept in [0, 1, 4] {
        let few: MatryoshkaIndex = MatryoshkaIndex::new();
        for group in 0..GROUPS {
            // Keys that end within the slice lie beside the layer.
            put(&index, &group.to_be_bytes(), b"short");
            put(&few, &group.to_be_bytes(), b"short");
            (0..60).for_each(|member| assert!(!put(&index, &grouped(group, member), b"long")));
            (0..kept).for_each(|member| assert!(!put(&few, &grouped(group, member), b"long")));
        }
        assert_eq!(number(&index, "layers"), GROUPS as f64);
        for group in 0..GROUPS {
            for member in (kept..60).rev() {
                assert!(remove(&index, &grouped(group, member)));
            }
        }
        index.verify().expect("sound when folded");
        let all = |index| pairs(index, Bound::Unbounded, Direction::Forward);
        assert_eq!(all(&index), all(&few), "{kept}");
        assert_eq!(number(&index, "layers"), 0.0, "{kept}");
        // Pages that grew stay larger than those of a map that never was.
        let bytes = |index| number(index, "bytes_per_key") * number(index, "keys");
        assert!(bytes(&index) < 1.3 * bytes(&few), "{kept}");
        for group in 0..GROUPS {
            (0..kept).for_each(|member| assert!(remove(&index, &grouped(group, member))));
        }
    }
}

/// Beside as many keys as can end within one slice, too: nine, which differ in their zeros.
#[test]
fn a_key_that_comes_and_goes_does_not_make_and_fold_a_layer_each_time() {
    for short in 0..=9 {
        let index: MatryoshkaIndex = MatryoshkaIndex::new();
        for length in 0..short {
            put(&index, &[0; 8][..length], b"short");
        }
        let long = |number: u64| [[0; 8], number.to_be_bytes()].concat();
        (0..30).for_each(|number| assert!(!put(&index, &long(number), b"long")));
        let layers = || statistic(&index, "layers");
        for number in (0..30).rev() {
            assert!(remove(&index, &long(number)));
            let (mut before, mut changes) = (layers(), 0);
            for _ in 0..4 {
                assert!(!put(&index, &long(number), b"long"));
                changes += usize::from(layers() != before);
                before = layers();
                assert!(remove(&index, &long(number)));
                changes += usize::from(layers() != before);
                before = layers();
            }
            assert!(
                changes <= 1,
                "{changes} with {short} short and {number} long keys"
            );
            index.verify().expect("sound");
        }
        assert_eq!(layers(), Some(0.0));
    }
}

#[test]
fn a_layer_that_holds_another_alone_folds() {
    let index: MatryoshkaIndex = MatryoshkaIndex::new();
    let key = |number: u64| [&[b'p'; 100][..], &number.to_be_bytes()].concat();
    (0..40).for_each(|number| assert!(!put(&index, &key(number), &number.to_be_bytes())));
    let statistic = |name| statistic(&index, name);
    for forks in [&[50][..], &[20, 50, 90], &[96, 97, 98, 99, 100]] {
        for &fork in forks {
            assert!(!put(&index, &key(0)[..fork], b"fork"));
        }
        index.verify().expect("sound with forks");
        assert!(statistic("deepest_layer") > Some(1.0));
        for &fork in forks {
            assert!(remove(&index, &key(0)[..fork]));
        }
        index.verify().expect("sound without");
        assert_eq!(statistic("layers"), Some(1.0));
    }
    for number in 0..40 {
        assert_eq!(
            get(&index, &key(number)),
            Some(number.to_be_bytes().to_vec())
        );
    }
}

/// Layers of one group come and go under the visitor of a scan, which must go on where it stood.
#[test]
fn a_scan_goes_on_when_the_layer_that_it_is_in_folds() {
    for direction in [Direction::Forward, Direction::Reverse] {
        for stop in 0..20 {
            let index: MatryoshkaIndex = MatryoshkaIndex::new();
            // The last member's slice is the greatest, and the first the least.
            let member = |number: u64| number.wrapping_sub(1);
            let mut keys: Vec<Vec<u8>> = (0..3)
                .flat_map(|group| (0..20).map(move |at| grouped(group, member(at))))
                .chain((0..3).map(|group| grouped(group, 0)[..16].to_vec()))
                .collect();
            keys.sort();
            keys.iter().for_each(|key| assert!(!put(&index, key, b"v")));
            let (mut seen, mut inside) = (Vec::new(), 0);
            let visit = |key: &[u8], _: &[u8]| {
                seen.push(key.to_vec());
                inside += usize::from(key.len() > 16 && key[7] == 1);
                if inside == stop + 1 && key[7] == 1 {
                    // All but three of the group go, among them what comes next.
                    for at in (0..20).filter(|at| at % 7 != 3) {
                        remove(&index, &grouped(1, member(at)));
                    }
                }
                ControlFlow::Continue(())
            };
            index.scan_from(Bound::Unbounded, direction, visit).unwrap();
            if direction == Direction::Reverse {
                seen.reverse();
            }
            assert!(seen.is_sorted_by(|one, other| one < other), "{stop}");
            let left = pairs(&index, Bound::Unbounded, Direction::Forward);
            for (key, _) in left {
                assert!(
                    seen.contains(&key),
                    "{direction:?}, {stop}: {key:?} left out"
                );
            }
            // Each other group keeps its layer, and the one above for the key that ends before it.
            assert_eq!(statistic(&index, "layers"), Some(4.0));
        }
    }
}

#[test]
fn keys_within_one_slice_are_told_apart() {
    let index = MatryoshkaIndex::<Tiny>::new();
    let keys: Vec<Vec<u8>> = (0..=30).map(|count| vec![0; count]).collect();
    for (number, key) in keys.iter().enumerate().rev() {
        assert!(!put(&index, key, &[number as u8]));
        index.verify().expect("sound");
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(get(&index, key), Some(vec![number as u8]));
    }
    let seen = pairs(&index, Bound::Unbounded, Direction::Forward);
    assert!(seen.iter().map(|pair| &pair.0).eq(&keys));
    for key in &keys {
        assert!(remove(&index, key) && !remove(&index, key));
        index.verify().expect("sound");
    }
}

#[test]
fn keys_of_64_kib_and_values_of_all_sizes() {
    let index: MatryoshkaIndex = MatryoshkaIndex::new();
    check_long_keys(&index);
    assert_eq!(statistic(&index, "layers"), Some(0.0));
}

/// Layers thousands deep, which recursion would not survive.
#[test]
fn deep_layers_are_walked_without_recursion() {
    let index = MatryoshkaIndex::<Tiny>::new();
    let key = |slices: usize| vec![b'd'; 8 * slices + 1];
    let slices: Vec<usize> = (0..2_000).collect();
    for &count in &slices {
        put(&index, &key(count), b"v");
    }
    assert!(statistic(&index, "deepest_layer") >= Some(1_000.0));
    assert_eq!(
        pairs(&index, Bound::Unbounded, Direction::Reverse).len(),
        2_000
    );
    index.verify().expect("sound");
    for &count in &slices[..1_990] {
        assert!(remove(&index, &key(count)));
    }
    index.verify().expect("sound");
    assert_eq!(statistic(&index, "keys"), Some(10.0));
}

/// Loads keys of every shape, then changes and removes all of them.
fn loads_of_every_shape<C: Capacity>(counts: &[usize]) {
    for (number, shape) in KeyShape::all().into_iter().enumerate() {
        let mut rng = StdRng::seed_from_u64(number as u64);
        for &count in counts {
            let keys = (0..count).map(|_| shape.key(&mut rng));
            let model: BTreeMap<Vec<u8>, Vec<u8>> =
                keys.map(|key| (key.clone(), key.repeat(2))).collect();
            let index = MatryoshkaIndex::<C>::new();
            index.bulk_load(&model).expect("ascending keys");
            let told = format!("{shape:?}, {count} keys");
            index
                .verify()
                .unwrap_or_else(|problem| panic!("{told}: {problem}"));
            let all = pairs(&index, Bound::Unbounded, Direction::Forward);
            assert!(all.iter().map(|(k, v)| (k, v)).eq(&model), "{told}");
            for (key, value) in &model {
                assert_eq!(get(&index, key).as_ref(), Some(value), "{told}");
                assert!(put(&index, key, b"another"), "{told}");
                put(&index, &[key, &b"+ and more"[..]].concat(), b"longer");
            }
            index
                .verify()
                .unwrap_or_else(|problem| panic!("{told}: {problem}"));
            for key in model.keys() {
                assert!(remove(&index, key), "{told}");
                remove(&index, &[key, &b"+ and more"[..]].concat());
            }
            index
                .verify()
                .unwrap_or_else(|problem| panic!("{told}: {problem}"));
        }
    }
}

#[test]
fn a_bulk_load_of_any_shape_holds() {
    loads_of_every_shape::<Tiny>(&[1, 2, 3, 30, 400]);
    loads_of_every_shape::<Small>(&[5, 600]);
    loads_of_every_shape::<Full>(&[17, 3_000]);
}

#[test]
fn a_bulk_load_builds_what_inserts_build() {
    let keys: Vec<Vec<u8>> = (0..50_000_u64)
        .flat_map(|number| [staying(number), grouped(number % 100, number)])
        .chain((0..1_000).map(|slices| vec![b'd'; 8 * slices + 1]))
        .collect();
    let model: BTreeMap<Vec<u8>, Vec<u8>> = keys
        .into_iter()
        .map(|key| (key, b"value".to_vec()))
        .collect();
    let (loaded, inserted) = (MatryoshkaIndex::<Full>::new(), MatryoshkaIndex::new());
    loaded.bulk_load(&model).expect("ascending keys");
    for (key, value) in &model {
        assert!(!put::<Full>(&inserted, key, value));
    }
    loaded.verify().expect("sound");
    for name in ["keys", "layers", "buckets", "deepest_layer"] {
        let number = |index: &MatryoshkaIndex| statistic(index, name);
        assert_eq!(number(&loaded), number(&inserted), "{name}");
    }
}

#[test]
fn a_bulk_load_of_byte_keys_is_refused_whole() {
    let index: MatryoshkaIndex = MatryoshkaIndex::new();
    let none: [(&[u8], &[u8]); 0] = [];
    assert_eq!(index.bulk_load(none), Ok(()));
    let unordered = LoadError::NotAscending(NotAscending { position: 2 });
    for third in [&b"b"[..], b"a", b""] {
        let pairs = [(&b"a"[..], b"1"), (b"b", b"2"), (third, b"3")];
        assert_eq!(index.bulk_load(pairs), Err(unordered));
        assert_eq!(pairs_of(&index), []);
    }
    assert_eq!(index.bulk_load([(b"b", b"2")]), Ok(()));
    assert_eq!(index.bulk_load([(b"c", b"3")]), Err(LoadError::NotEmpty));
    let long = (0..1_000_u64).map(|number| (grouped(number / 100, number), b"v"));
    assert_eq!(index.bulk_load(long), Err(LoadError::NotEmpty));
    assert_eq!(pairs_of(&index), [(b"b".to_vec(), b"2".to_vec())]);
    index.verify().expect("sound");
}

fn pairs_of(index: &MatryoshkaIndex) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs(index, Bound::Unbounded, Direction::Forward)
}

#[test]
fn a_bulk_load_of_byte_keys_is_one_moment_for_all_threads() {
    const KEYS: u64 = 2_000;
    for _ in 0..20 {
        let index: MatryoshkaIndex = MatryoshkaIndex::new();
        let key = |number: u64| grouped(number / 50, number);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = false;
                while !seen {
                    seen = get(&index, &key(KEYS - 1)).is_some();
                    let count = pairs_of(&index).len() as u64;
                    assert!(count == KEYS || (count == 0 && !seen), "{count} keys");
                }
            });
            let pairs = (0..KEYS).map(|number| (key(number), b"v"));
            index.bulk_load(pairs).expect("an empty index");
            reader.join().expect("a reader");
        });
    }
}

#[test]
fn a_scan_visits_zeros_of_many_lengths() {
    let case = ScanCase {
        keys: [0, 32, 16, 17, 18, 9, 0].map(|len| vec![0; len]).into(),
        lower: Bound::Included(Vec::new()),
        upper: Bound::Unbounded,
        limit: usize::MAX,
    };
    check_scan(&MatryoshkaIndex::<Small>::new(), &case).expect("all of them");
}

#[test]
fn partitions_cut_evenly() {
    for prefix in [&b""[..], &b"a prefix that all keys share"[..]] {
        check_even_partitions(&<MatryoshkaIndex>::new(), prefix);
    }
    check_even_partitions_of_nested_prefixes(&<MatryoshkaIndex>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_scan_visits_what_lies_between_any_bounds(case in any_scan()) {
        check_scan(&MatryoshkaIndex::<Small>::new(), &case)?;
    }

    #[test]
    fn batches_find_what_single_gets_find(
        present in proptest::collection::vec(any_key(), 0..150),
        absent in proptest::collection::vec(any_key(), 0..40),
    ) {
        check_batch(&MatryoshkaIndex::<Small>::new(), &present, &absent)?;
    }
}
