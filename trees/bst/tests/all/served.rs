//! The index of keyspaces beside the oracle of all indexes, on keys of 8 bytes.

use std::ops::{Bound, ControlFlow};
use std::thread;

use hedgerow_bst::BstIndex;
use hedgerow_index::{
    Decision, Direction, Index, IndexErrorKind, IndexExt, LockedMap, RangeDecision, ScanRange,
    StatisticsKind, ValuePart,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn put(index: &dyn Index, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let put = index.modify(key, ValuePart::Whole, &mut Vec::new(), |old, new| {
        new.extend_from_slice(value);
        Decision::Put(old.map(<[u8]>::to_vec))
    });
    put.expect("a key of 8 bytes")
}

fn remove(index: &dyn Index, key: &[u8]) -> Option<Vec<u8>> {
    let remove = index.modify(key, ValuePart::Whole, &mut Vec::new(), |old, _| {
        Decision::Remove(old.map(<[u8]>::to_vec))
    });
    remove.expect("a key of 8 bytes")
}

fn get(index: &dyn Index, key: &[u8]) -> Option<Vec<u8>> {
    let found = index.read(key, ValuePart::Whole, <[u8]>::to_vec);
    found.expect("an index in memory")
}

fn pairs(index: &dyn Index, range: &ScanRange<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    index.scan(range, visit).expect("an index in memory");
    pairs
}

/// A bound of any width near some keys.
fn random_bound(rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = rng.random_range(0..300_u64).to_be_bytes().to_vec();
    match rng.random_range(0..4) {
        0 => bytes.truncate(rng.random_range(0..8)),
        1 => bytes.push(rng.random()),
        _ => {}
    }
    bytes
}

fn bound<'b>(bytes: &'b [u8], rng: &mut StdRng) -> Bound<&'b [u8]> {
    match rng.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(bytes),
        _ => Bound::Excluded(bytes),
    }
}

#[test]
fn answers_like_the_oracle() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (index, oracle) = (BstIndex::new(), LockedMap::new());
    for number in 0..6_000_u64 {
        let key = rng.random_range(0..300_u64).to_be_bytes();
        if rng.random_bool(0.6) {
            let value = vec![number as u8; rng.random_range(0..100)];
            assert_eq!(put(&index, &key, &value), put(&oracle, &key, &value));
        } else {
            assert_eq!(remove(&index, &key), remove(&oracle, &key));
        }
        if number % 10 == 0 {
            let (one, other) = (random_bound(&mut rng), random_bound(&mut rng));
            let bounds = (bound(&one, &mut rng), bound(&other, &mut rng));
            let direction = Direction::of(rng.random());
            let limit = rng.random_range(0..400);
            let range = ScanRange::between(bounds, direction).limited(limit);
            assert_eq!(pairs(&index, &range), pairs(&oracle, &range), "{range:?}");
            assert_eq!(get(&index, &one), get(&oracle, &one));
        }
        if number % 500 == 0 {
            index.verify().expect("sound");
        }
    }
    let (from, to) = (100_u64.to_be_bytes(), 200_u64.to_be_bytes());
    for index in [&index as &dyn Index, &oracle] {
        let odd =
            &mut |key: &[u8], _: &[u8]| -> RangeDecision { ControlFlow::Continue(key[7] % 2 == 1) };
        let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        index.remove_range(from, to, odd).expect("in memory");
    }
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    assert_eq!(pairs(&index, &all), pairs(&oracle, &all));
    index.verify().expect("sound");
}

#[test]
fn a_batch_finds_what_is_there_whatever_the_widths() {
    let index = BstIndex::new();
    let keys: Vec<Vec<u8>> = (0..200_u64)
        .map(|number| match number % 5 {
            0 => vec![7; number as usize % 7],
            _ => number.to_be_bytes().to_vec(),
        })
        .collect();
    for key in keys.iter().filter(|key| key.len() == 8 && key[7] % 2 == 0) {
        put(&index, key, key);
    }
    let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut calls = 0;
    let read = &mut |at: usize, value: Option<&[u8]>| {
        calls += 1;
        let key = asked[at];
        let wanted = (key.len() == 8 && key[7].is_multiple_of(2)).then_some(key);
        assert_eq!(value, wanted, "{key:?}");
    };
    index.get_many(&asked, read).expect("in memory");
    assert_eq!(calls, keys.len());
}

#[test]
fn a_key_of_another_width_is_refused_and_never_found() {
    let index = BstIndex::new();
    for key in [&b""[..], b"1234567", b"123456789"] {
        let refused = index.modify(key, ValuePart::Head, &mut Vec::new(), |_, _| {
            Decision::Put(())
        });
        let refused = refused.expect_err("of another width");
        assert_eq!(refused.kind(), IndexErrorKind::KeyWidth);
        let words = refused.to_string();
        assert!(words.contains(&format!("{} bytes", key.len())), "{words}");
        assert!(
            words.contains("bst") && words.contains("8 bytes"),
            "{words}"
        );
        assert_eq!((get(&index, key), remove(&index, key)), (None, None));
    }
}

#[test]
fn partitions_are_even() {
    let index = BstIndex::new();
    assert!(index.partition(4).expect("in memory").is_empty());
    for number in 0..10_000_u64 {
        put(&index, &(number * 7919).to_be_bytes(), b"");
    }
    let cuts = index.partition(8).expect("in memory");
    assert_eq!(cuts.len(), 7);
    let count = |from, to| {
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        pairs(&index, &ScanRange::between(bounds, Direction::Forward)).len()
    };
    for pair in cuts.windows(2) {
        let keys = count(&pair[0], &pair[1]);
        assert!((600..2_500).contains(&keys), "{keys} keys in a part");
    }
    let statistics = index.statistics(StatisticsKind::All).expect("in memory");
    assert_eq!(statistics.get("keys"), Some(10_000.0));
}

/// Threads count under few keys, and remove what they have counted to a round number.
#[test]
fn updates_of_many_threads_lose_nothing() {
    const ROUNDS: u64 = 3_000;
    let index = BstIndex::new();
    let removed: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let index = &index;
                scope.spawn(move || {
                    let mut removed = 0;
                    for round in 0..ROUNDS {
                        let key = ((round * 5 + thread) % 16).to_be_bytes();
                        let count = |old: Option<&[u8]>, new: &mut Vec<u8>| {
                            let old = old.and_then(|old| old.try_into().ok());
                            let sum = old.map_or(0, u64::from_le_bytes) + 1;
                            new.extend_from_slice(&sum.to_le_bytes());
                            match sum {
                                10 => Decision::Remove(10),
                                _ => Decision::Put(0),
                            }
                        };
                        let part = ValuePart::Whole;
                        let counted = index.modify(&key, part, &mut Vec::new(), count);
                        removed += counted.expect("of 8 bytes");
                    }
                    removed
                })
            })
            .collect();
        let threads = threads.into_iter().map(thread::ScopedJoinHandle::join);
        threads.map(|removed| removed.expect("ends well")).sum()
    });
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    let left = pairs(&index, &all).into_iter().map(|(_, value)| {
        let bytes = value.try_into().expect("a number");
        u64::from_le_bytes(bytes)
    });
    assert_eq!(left.sum::<u64>() + removed, 4 * ROUNDS);
    index.verify().expect("sound");
}
