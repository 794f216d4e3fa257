//! Properties that every index of byte keys has, each checked on an index that the caller makes.
//!
//! The trees' own tests run them, so that each tree meets the same keys and the same bounds. All
//! panic with what is wrong; the last two return it, so that proptest shrinks the case. Each check
//! calls the index through `dyn Index`, so it is compiled once for all of them.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Decision, Direction, Index, IndexExt, KeyBound, ScanRange, ValuePart};
use proptest::collection::vec;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::index_workload::{ConcurrentRun, check_concurrent, check_sequential};
use crate::keys::KeyShape;

const FAILS: &str = "the index failed";

/// Some keys of each shape, `each` at most, the same for the same seed.
pub fn keys_of_every_shape(each: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let shapes = KeyShape::all().into_iter();
    shapes
        .flat_map(|shape| shape.distinct(each, &mut rng))
        .collect()
}

/// Compares so many operations on keys of each shape with the model; few, some and many keys.
pub fn check_every_shape<I: Index>(make: impl Fn() -> I, operations: usize) {
    for (seed, shape) in (0..).zip(KeyShape::all()) {
        for count in [12, 60, 600] {
            let keys = shape.distinct(count, &mut StdRng::seed_from_u64(seed));
            check_sequential(&make(), &keys, operations, seed)
                .unwrap_or_else(|violation| panic!("{shape:?}, {count} keys: {violation}"));
        }
    }
}

/// Records what three threads do with `count` keys of each shape, and checks each key's history.
/// `rest` then checks the index once more.
pub fn check_histories_of_every_shape<I: Index>(
    make: impl Fn() -> I,
    count: usize,
    operations: usize,
    rest: impl Fn(&I),
) {
    for (seed, shape) in (0..).zip(KeyShape::all()) {
        let index = make();
        let run = ConcurrentRun {
            keys: shape.distinct(count, &mut StdRng::seed_from_u64(seed)),
            threads: 3,
            operations,
            remove_percent: 35,
            seed,
        };
        check_concurrent(&index, &run)
            .unwrap_or_else(|violation| panic!("{shape:?}, {count} keys: {violation}"));
        rest(&index);
    }
}

fn put(index: &dyn Index, key: &[u8], value: &[u8]) {
    let store = |_: Option<&[u8]>, new: &mut Vec<u8>| {
        new.extend_from_slice(value);
        Decision::Put(())
    };
    let mut buffer = Vec::new();
    index
        .modify(key, ValuePart::Whole, &mut buffer, store)
        .expect(FAILS);
}

fn remove(index: &dyn Index, key: &[u8]) -> bool {
    let drop = |old: Option<&[u8]>, _: &mut Vec<u8>| Decision::Remove(old.is_some());
    let mut buffer = Vec::new();
    index
        .modify(key, ValuePart::Whole, &mut buffer, drop)
        .expect(FAILS)
}

fn get(index: &dyn Index, key: &[u8]) -> Option<Vec<u8>> {
    index
        .read(key, ValuePart::Whole, <[u8]>::to_vec)
        .expect(FAILS)
}

fn pairs(index: &dyn Index, range: &ScanRange<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    index
        .scan(range, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .expect(FAILS);
    pairs
}

/// Stores keys of up to 64 KiB with values of all sizes in an empty index, finds and removes them.
pub fn check_long_keys(index: &dyn Index) {
    let mut model = BTreeMap::new();
    for count in [0, 1, 7, 8, 9, 4_095, 65_528, 65_535, 65_536] {
        for fill in [0, 7, 255] {
            model.insert(vec![fill; count], vec![fill; count * 3 % 100_000]);
        }
    }
    // Long ends of one slice each, more than any node has room for.
    for first in 0..40_u8 {
        let mut long = vec![first; 65_536];
        long[0] = 100;
        model.insert(long, vec![first]);
    }
    model.iter().for_each(|(key, value)| put(index, key, value));
    index.verify().expect("sound");
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    let seen = pairs(index, &all);
    let expected = model.iter();
    assert!(
        seen.iter().map(|(key, value)| (key, value)).eq(expected),
        "the scan differs"
    );
    for (key, value) in &model {
        assert!(get(index, key).as_ref() == Some(value), "another value");
    }
    for key in model.keys() {
        assert!(remove(index, key), "a key is missing");
    }
    index.verify().expect("sound when empty");
    assert!(pairs(index, &all).is_empty(), "keys are left");
}

/// Fills an empty index with 20,000 keys that begin with `prefix`, and checks that eight parts of
/// it have similar sizes.
pub fn check_even_partitions(index: &dyn Index, prefix: &[u8]) {
    for number in 0..20_000_u64 {
        let tail = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        put(index, &[prefix, &tail].concat(), b"v");
    }
    check_eight_parts(index);
}

/// As [`check_even_partitions`], with a few keys beside 20,000 of which one half has a prefix that
/// begins with the other's.
pub fn check_even_partitions_of_nested_prefixes(index: &dyn Index) {
    let prefix = "a tenant:0001:user:";
    for number in 0..20_000 {
        let key = match number % 2 {
            0 => format!("{prefix}{number:09}:profile"),
            _ => format!("{prefix}archive:of:last:year:{number:09}"),
        };
        put(index, key.as_bytes(), b"v");
    }
    for few in ["a", "a tenant", "zebra"] {
        put(index, few.as_bytes(), b"v");
    }
    check_eight_parts(index);
}

/// Checks that eight parts of an index of 20,000 keys have similar sizes.
fn check_eight_parts(index: &dyn Index) {
    let cuts = index.partition(8).expect(FAILS);
    assert_eq!(cuts.len(), 7);
    assert!(cuts.windows(2).all(|two| two[0] < two[1]), "not ascending");
    let mut from = Bound::Unbounded;
    for cut in cuts.iter().map(Some).chain([None]) {
        let to = cut.map_or(Bound::Unbounded, |cut| Bound::Excluded(cut.as_slice()));
        let range = ScanRange::between((from, to), Direction::Forward);
        let count = pairs(index, &range).len();
        assert!((1_250..5_000).contains(&count), "a part of {count} keys");
        from = cut.map_or(Bound::Unbounded, |cut| Bound::Included(cut.as_slice()));
    }
}

/// Keys that share long prefixes, differ in length only, or are numbers.
pub fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(b'a'), Just(255_u8), any::<u8>()];
    let prefixed = (0..65_usize, vec(byte.clone(), 0..10));
    prop_oneof![
        vec(byte, 0..12),
        prefixed.prop_map(|(prefix, tail)| [vec![b'a'; prefix], tail].concat()),
        (0..40_usize).prop_map(|count| vec![0; count]),
        (0..2_000_000_000_u32).prop_map(|number| number.to_string().into_bytes()),
    ]
}

/// Keys, and the bounds and limit of a scan over them.
#[derive(Debug, Clone)]
pub struct ScanCase {
    /// The keys of the index, in the order in which they are stored.
    pub keys: Vec<Vec<u8>>,
    /// The lower bound of the scan.
    pub lower: Bound<Vec<u8>>,
    /// The upper bound.
    pub upper: Bound<Vec<u8>>,
    /// The most pairs.
    pub limit: usize,
}

fn any_bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        any_key().prop_map(Bound::Included),
        any_key().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

/// Up to 150 keys, and any bounds, in the right order or not.
pub fn any_scan() -> impl Strategy<Value = ScanCase> {
    let limit = prop_oneof![0..50_usize, Just(usize::MAX)];
    let parts = (vec(any_key(), 0..150), any_bound(), any_bound(), limit);
    parts.prop_map(|(keys, lower, upper, limit)| ScanCase {
        keys,
        lower,
        upper,
        limit,
    })
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Stores the keys of a case in an empty index, and scans both ways, with values and without.
pub fn check_scan(index: &dyn Index, case: &ScanCase) -> Result<(), TestCaseError> {
    let mut model = BTreeMap::new();
    for (number, key) in (0_usize..).zip(&case.keys) {
        put(index, key, &number.to_le_bytes());
        model.insert(key.clone(), number.to_le_bytes().to_vec());
    }
    index.verify().map_err(TestCaseError::fail)?;
    let bounds = (borrowed(&case.lower), borrowed(&case.upper));
    let (lower, upper) = (KeyBound::of(bounds.0), KeyBound::of(bounds.1));
    let is_inside = |key: &[u8]| {
        lower.is_none_or(|bound| bound.admits_from(key, Direction::Forward))
            && upper.is_none_or(|bound| bound.admits_before(key, Direction::Forward))
    };
    let inside: Vec<_> = model
        .into_iter()
        .filter(|(key, _)| is_inside(key))
        .collect();
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut expected = inside.clone();
        if direction == Direction::Reverse {
            expected.reverse();
        }
        expected.truncate(case.limit);
        let range = ScanRange::between(bounds, direction).limited(case.limit);
        prop_assert_eq!(&pairs(index, &range), &expected);
        let without = pairs(index, &range.keys_only()).into_iter();
        let keys = expected.into_iter().map(|(key, _)| key);
        prop_assert!(without.map(|(key, _)| key).eq(keys), "keys without values");
    }
    Ok(())
}

/// Stores the keys `present` in an empty index, and looks up these and `absent` in one batch.
pub fn check_batch(
    index: &dyn Index,
    present: &[Vec<u8>],
    absent: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    let mut model = BTreeMap::new();
    for (number, key) in (0_usize..).zip(present) {
        put(index, key, &number.to_le_bytes());
        model.insert(key, number.to_le_bytes().to_vec());
    }
    let keys: Vec<&Vec<u8>> = present.iter().chain(absent).collect();
    let slices: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
    let mut answers = vec![None; keys.len()];
    index
        .get_many(&slices, &mut |at, value| {
            assert!(answers[at].is_none(), "answered twice");
            answers[at] = Some(value.map(<[u8]>::to_vec));
        })
        .expect(FAILS);
    for (key, answer) in keys.into_iter().zip(answers) {
        let expected = model.get(key).cloned();
        prop_assert_eq!(get(index, key), expected.clone());
        prop_assert_eq!(answer, Some(expected));
    }
    index.prefetch_many(&slices);
    Ok(())
}
