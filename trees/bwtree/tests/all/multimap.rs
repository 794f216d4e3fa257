//! Non-unique keys beside a set of pairs.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering};

use hedgerow_bwtree::{BwMultimap, Configuration, PairTooLong, Standard, Tiny};
use hedgerow_index::{Direction, KeyBound, MAX_KEY_BYTES, ScanRange};
use hedgerow_testkit::index_properties::any_key;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Pairs = BTreeSet<(Vec<u8>, Vec<u8>)>;

fn values<C: Configuration>(map: &BwMultimap<C>, key: &[u8]) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    map.values(key, |value| {
        values.push(value.to_vec());
        ControlFlow::Continue(())
    });
    values
}

fn scan<C: Configuration>(map: &BwMultimap<C>, range: &ScanRange<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    map.scan(range, |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    pairs
}

fn all(direction: Direction) -> ScanRange<'static> {
    ScanRange::starting_at(Bound::Unbounded, direction)
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>, Vec<u8>),
    /// Removes the pair that stands at this place among all, modulo their number.
    RemovePresent(usize),
    /// Removes the first value of a key that is not below the other.
    RemoveFirst(Vec<u8>, Vec<u8>),
    RemoveAll(Vec<u8>),
    Scan(Bound<Vec<u8>>, Bound<Vec<u8>>, usize),
}

/// Few keys, of which some begin with others, so that they have many values.
fn few_keys() -> impl Strategy<Value = Vec<u8>> {
    let keys: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\xff", b"ab"];
    let few = (0..keys.len()).prop_map(move |index| keys[index].to_vec());
    prop_oneof![6 => few, 1 => any_key()]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        few_keys().prop_map(Bound::Included),
        few_keys().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (few_keys(), any_key()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => (few_keys(), any_key()).prop_map(|(key, value)| Step::Remove(key, value)),
        6 => any::<usize>().prop_map(Step::RemovePresent),
        2 => (few_keys(), any_key()).prop_map(|(key, least)| Step::RemoveFirst(key, least)),
        1 => few_keys().prop_map(Step::RemoveAll),
        1 => (bound(), bound(), 0..60_usize).prop_map(|(l, u, limit)| Step::Scan(l, u, limit)),
    ]
}

fn expected_scan(pairs: &Pairs, range: &ScanRange<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (lower, upper) = range.bounds();
    let (lower, upper) = (KeyBound::of(lower), KeyBound::of(upper));
    let is_inside = |key: &[u8]| {
        lower.is_none_or(|bound| bound.admits_from(key, Direction::Forward))
            && upper.is_none_or(|bound| bound.admits_before(key, Direction::Forward))
    };
    let inside = pairs.iter().filter(|(key, _)| is_inside(key)).cloned();
    let mut inside: Vec<_> = inside.collect();
    if range.direction == Direction::Reverse {
        inside.reverse();
    }
    inside.truncate(range.limit);
    inside
}

fn take<C: Configuration>(map: &BwMultimap<C>, model: &mut Pairs, step: &Step) {
    match step {
        Step::Insert(key, value) => {
            let is_new = model.insert((key.clone(), value.clone()));
            assert_eq!(map.insert(key, value), Ok(is_new));
            assert!(map.contains(key, value));
        }
        Step::Remove(key, value) => {
            let was_there = model.remove(&(key.clone(), value.clone()));
            assert_eq!(map.remove(key, value), was_there);
        }
        Step::RemovePresent(place) => {
            let place = place % model.len().max(1);
            let Some(pair) = model.iter().nth(place).cloned() else {
                return;
            };
            assert!(map.remove(&pair.0, &pair.1));
            assert!(!map.contains(&pair.0, &pair.1));
            model.remove(&pair);
        }
        Step::RemoveFirst(key, least) => {
            let wanted = |(other, value): &&(Vec<u8>, Vec<u8>)| other == key && value >= least;
            let first = model.iter().find(wanted).cloned();
            let removed = map.remove_first(key, |value| value >= least.as_slice());
            assert_eq!(removed, first.is_some_and(|pair| model.remove(&pair)));
        }
        Step::RemoveAll(key) => {
            let before = model.len();
            model.retain(|(other, _)| other != key);
            assert_eq!(map.remove_all(key), before - model.len());
            assert_eq!(map.count(key), 0);
        }
        Step::Scan(lower, upper, limit) => {
            let bounds = (
                lower.as_ref().map(Vec::as_slice),
                upper.as_ref().map(Vec::as_slice),
            );
            for direction in [Direction::Forward, Direction::Reverse] {
                let range = ScanRange::between(bounds, direction).limited(*limit);
                assert_eq!(scan(map, &range), expected_scan(model, &range), "{range:?}");
            }
        }
    }
}

fn check<C: Configuration>(steps: &[Step]) {
    let (map, mut model) = (BwMultimap::<C>::new(), Pairs::new());
    for step in steps {
        take(&map, &mut model, step);
    }
    map.verify().expect("sound");
    let keys: BTreeSet<&Vec<u8>> = model.iter().map(|(key, _)| key).collect();
    for key in keys {
        let of_key = model.iter().filter(|(other, _)| other == key);
        let expected: Vec<_> = of_key.map(|(_, value)| value.clone()).collect();
        assert_eq!(values(&map, key), expected, "values of {key:?}");
        assert_eq!(map.count(key), expected.len());
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let range = all(direction);
        assert_eq!(scan(&map, &range), expected_scan(&model, &range));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pairs_match_a_set_in_tiny_nodes(steps in prop::collection::vec(step(), 1..300)) {
        check::<Tiny>(&steps);
    }

    #[test]
    fn pairs_match_a_set(steps in prop::collection::vec(step(), 1..600)) {
        check::<Standard>(&steps);
    }
}

#[test]
fn a_pair_beyond_the_limit_is_an_error_that_says_what_to_do() {
    let map = BwMultimap::<Standard>::new();
    // A zero byte counts twice, and two bytes stand between key and value.
    let key = vec![0; 1_000];
    let most = vec![7; MAX_KEY_BYTES - 2_002];
    assert_eq!(map.insert(&key, &most), Ok(true));
    assert_eq!(values(&map, &key), std::slice::from_ref(&most));
    let more = [&most[..], &[7]].concat();
    let error = PairTooLong {
        bytes: MAX_KEY_BYTES + 1,
    };
    assert_eq!(map.insert(&key, &more), Err(error));
    assert!(
        error.to_string().contains("store the value elsewhere"),
        "{error}"
    );
    assert!(!map.contains(&key, &more) && !map.remove(&key, &more));
    assert_eq!(map.remove_all(&key), 1);
    map.verify().expect("sound");
}

/// A leaf stores the key that its pairs share once.
#[test]
fn many_values_of_a_long_key_are_cheap() {
    let map = BwMultimap::<Standard>::new();
    let key = [b'k'; 400];
    for value in 0..20_000_u64 {
        assert_eq!(map.insert(&key, &value.to_be_bytes()), Ok(true));
    }
    let bytes = map.statistics().get("bytes_per_key").expect("counted");
    assert!(bytes < 60.0, "{bytes} bytes for each value of 8");
    assert_eq!(map.count(&key), 20_000);
    assert_eq!(map.remove_all(&key), 20_000);
    map.verify().expect("sound");
    assert_eq!(map.statistics().get("leaves"), Some(1.0));
}

const KEYS: u64 = 20;

/// Threads insert and remove the same pairs: of each pair, insertions that succeed and removals
/// that succeed alternate. Every tenth value stays, and every walk over values finds it.
#[test]
fn threads_that_insert_and_remove_the_same_pairs_agree() {
    let map = BwMultimap::<Tiny>::new();
    let pair = |key: u64, value: u64| (key.to_be_bytes(), value.to_be_bytes());
    for (key, value) in (0..KEYS).flat_map(|key| (0..40).step_by(10).map(move |v| pair(key, v))) {
        assert_eq!(map.insert(&key, &value), Ok(true));
    }
    let working = AtomicUsize::new(3);
    let changes: i64 = std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|thread| {
            let (map, working) = (&map, &working);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(thread);
                let mut sum = 0;
                for _ in 0..6_000 {
                    let (key, value) = (rng.random_range(0..KEYS), rng.random_range(0..40));
                    if value % 10 == 0 {
                        continue;
                    }
                    let (key, value) = pair(key, value);
                    if rng.random() {
                        sum += i64::from(map.insert(&key, &value).expect("short"));
                    } else {
                        sum -= i64::from(map.remove(&key, &value));
                    }
                }
                working.fetch_sub(1, Ordering::Release);
                sum
            })
        });
        while working.load(Ordering::Acquire) > 0 {
            for key in 0..KEYS {
                let found = values(&map, &key.to_be_bytes());
                assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
                for value in (0..40_u64).step_by(10) {
                    assert!(
                        found.contains(&value.to_be_bytes().to_vec()),
                        "{value} stays"
                    );
                }
            }
        }
        threads
            .map(|thread| thread.join().expect("a thread ended well"))
            .iter()
            .sum()
    });
    map.verify().expect("sound");
    let left = scan(&map, &all(Direction::Forward)).len();
    assert_eq!(left as i64, changes + 4 * KEYS as i64);
}
