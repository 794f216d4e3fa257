//! Random steps on keys chosen to hurt, taken by a tree and by the standard library's map.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Decision, Direction, ScanRange};
use proptest::prelude::*;

/// What both trees can do.
pub trait Map {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool;
    fn remove(&mut self, key: &[u8]) -> bool;
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>>;
    fn get_many(&mut self, keys: &[&[u8]], read: impl FnMut(usize, Option<&[u8]>));
    fn update(
        &mut self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<()>,
    );
    fn scan(
        &mut self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    );
    /// A scan of a range. The tree for one writer knows no ends: there the caller finds them.
    fn scan_range(
        &mut self,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        let mut left = range.limit;
        if range.is_empty() {
            return;
        }
        self.scan(range.from, range.direction, |key, value| {
            if left == 0 || range.ends_before(key) {
                return ControlFlow::Break(());
            }
            left -= 1;
            visit(key, value)
        });
    }
    fn verify(&self) -> Result<(), String>;
}

/// One step.
#[derive(Debug, Clone)]
pub enum Step {
    Insert(Vec<u8>, Vec<u8>),
    /// Consecutive numbers behind a prefix, with values of one length: what dense leaves are for.
    Run(Numbers, usize),
    RemoveRun(Numbers),
    Remove(Vec<u8>),
    RemoveNth(usize),
    Get(Vec<u8>),
    GetMany(Vec<Vec<u8>>),
    Append(Vec<u8>, u8),
    Scan(Option<(Vec<u8>, bool)>, bool, usize),
    ScanRange(AnyRange),
    Verify,
}

/// Consecutive numbers behind a prefix.
#[derive(Debug, Clone)]
pub struct Numbers {
    prefix: Vec<u8>,
    /// Bytes of a number.
    width: usize,
    first: u32,
    count: u32,
    step: u32,
    descending: bool,
}

impl Numbers {
    fn keys(&self) -> Vec<Vec<u8>> {
        let numbers = (0..self.count).map(|n| self.first.saturating_add(n * self.step));
        let key = |number: u32| {
            let mut key = self.prefix.clone();
            key.extend_from_slice(&number.to_be_bytes()[4 - self.width..]);
            key
        };
        let mut keys: Vec<_> = numbers.map(key).collect();
        if self.descending {
            keys.reverse();
        }
        keys
    }
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let prefix = prop_oneof![
        Just(Vec::new()),
        Just(b"p".to_vec()),
        (0..3_u32).prop_map(|n| n.to_be_bytes().to_vec()),
    ];
    let first = prop_oneof![
        4 => 0..200_u32,
        1 => Just(u32::MAX - 30),
        1 => (0..4_u32).prop_map(|n| n * 1000),
    ];
    let width = prop_oneof![6 => Just(4_usize), 1 => 1..4_usize];
    let step = prop_oneof![4 => Just(1_u32), 1 => 2..5_u32];
    (prefix, width, first, 1..60_u32, step, any::<bool>()).prop_map(
        |(prefix, width, first, count, step, descending)| Numbers {
            prefix,
            width,
            first,
            count,
            step,
            descending,
        },
    )
}

/// Keys that hurt.
pub fn key() -> impl Strategy<Value = Vec<u8>> {
    let tail = prop::collection::vec(prop_oneof![Just(0_u8), Just(b'a'), any::<u8>()], 0..6);
    let lengths = prop_oneof![Just(0_usize), 0..12_usize, 0..65_usize, 100..700_usize];
    prop_oneof![
        1 => Just(Vec::new()),
        2 => (0..40_usize).prop_map(|len| vec![0; len]),
        4 => any::<u16>().prop_map(|n| u32::from(n).to_be_bytes().to_vec()),
        4 => (0..512_u64).prop_map(|n| n.to_be_bytes().to_vec()),
        6 => (lengths, tail).prop_map(|(shared, tail)| {
            let mut key = vec![b'p'; shared];
            key.extend(tail);
            key
        }),
        3 => "[a-c]{0,3}/[a-c]{0,3}/[a-z]{0,9}".prop_map(String::into_bytes),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![8 => Just(8_usize), 2 => 0..30_usize, 1 => 30..2000_usize];
    (len, any::<u8>()).prop_map(|(len, byte)| vec![byte; len])
}

/// Any step.
pub fn step() -> impl Strategy<Value = Step> {
    let bound = prop::option::of((key(), any::<bool>()));
    prop_oneof![
        12 => (key(), value()).prop_map(|(key, value)| Step::Insert(key, value)),
        3 => (numbers(), prop_oneof![4 => Just(8_usize), 1 => 0..20_usize])
            .prop_map(|(numbers, len)| Step::Run(numbers, len)),
        1 => numbers().prop_map(Step::RemoveRun),
        2 => key().prop_map(Step::Remove),
        6 => any::<usize>().prop_map(Step::RemoveNth),
        3 => key().prop_map(Step::Get),
        1 => prop::collection::vec(key(), 0..40).prop_map(Step::GetMany),
        1 => (key(), any::<u8>()).prop_map(|(key, byte)| Step::Append(key, byte)),
        2 => (bound, any::<bool>(), 0..30_usize).prop_map(|(from, up, n)| Step::Scan(from, up, n)),
        3 => any_range().prop_map(Step::ScanRange),
        1 => Just(Step::Verify),
    ]
}

/// What a scan visits, between any bounds.
#[derive(Debug, Clone)]
pub struct AnyRange {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    up: bool,
    limit: usize,
    values: bool,
}

fn any_range() -> impl Strategy<Value = AnyRange> {
    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        prop_oneof![
            1 => Just(Bound::Unbounded),
            3 => key().prop_map(Bound::Included),
            3 => key().prop_map(Bound::Excluded),
        ]
    }
    let limit = prop_oneof![2 => 0..3_usize, 2 => 3..60_usize, 4 => Just(usize::MAX)];
    (bound(), bound(), any::<bool>(), limit, any::<bool>()).prop_map(
        |(lower, upper, up, limit, values)| AnyRange {
            lower,
            upper,
            up,
            limit,
            values,
        },
    )
}

/// Scans a range of both and compares what they visit.
fn scan_range(tree: &mut impl Map, model: &Model, any: &AnyRange) {
    let bounds = (
        any.lower.as_ref().map(Vec::as_slice),
        any.upper.as_ref().map(Vec::as_slice),
    );
    let direction = [Direction::Reverse, Direction::Forward][usize::from(any.up)];
    let range = ScanRange {
        values: any.values,
        ..ScanRange::between(bounds, direction).limited(any.limit)
    };
    let mut found = Vec::new();
    tree.scan_range(&range, |key, value| {
        let value = if any.values { value } else { &[] };
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    let mut expected = Vec::new();
    if !range.is_empty() {
        let pairs = model.range::<[u8], _>(bounds);
        let pairs = pairs.map(|(key, value)| {
            let value = if any.values { &value[..] } else { &[] };
            (key.clone(), value.to_vec())
        });
        expected.extend(match any.up {
            true => pairs.take(any.limit).collect::<Vec<_>>(),
            false => pairs.rev().take(any.limit).collect(),
        });
    }
    assert!(found == expected, "{any:?}: {found:?}, not {expected:?}");
}

/// Keys that arrive in order: the numbers behind a prefix.
#[derive(Debug, Clone)]
struct Stream {
    prefix: &'static str,
    decimal: bool,
    next: u64,
    step: u64,
    descending: bool,
    value_len: usize,
}

impl Stream {
    fn next(&mut self) -> Step {
        let mut key = self.prefix.as_bytes().to_vec();
        if self.decimal {
            key.extend_from_slice(format!("{:010}", self.next).as_bytes());
        } else {
            key.extend_from_slice(&self.next.to_be_bytes());
        }
        self.next = if self.descending {
            self.next.saturating_sub(self.step)
        } else {
            self.next + self.step
        };
        Step::Insert(key, vec![7; self.value_len])
    }
}

fn stream() -> impl Strategy<Value = Stream> {
    let prefix = prop_oneof![
        Just(""),
        Just("a"),
        Just("b"),
        Just("some/where/in/a/folder/")
    ];
    let step = prop_oneof![Just(1_u64), 2..300_u64, Just(1 << 20)];
    let value_len = prop_oneof![4 => Just(8_usize), 1 => 0..80_usize];
    let first = (0..4_u64).prop_map(|n| (1 << 32) + n * 1000);
    (prefix, any::<bool>(), first, step, any::<bool>(), value_len).prop_map(
        |(prefix, decimal, next, step, descending, value_len)| Stream {
            prefix,
            decimal,
            next,
            step,
            descending,
            value_len,
        },
    )
}

/// Steps of which most put the next keys of a few streams, and some remove what is there.
pub fn arrivals() -> impl Strategy<Value = Vec<Step>> {
    let streams = prop::collection::vec(stream(), 1..6);
    let remove = any::<usize>().prop_map(|n| vec![Step::RemoveNth(n)]);
    let other = step().prop_map(|step| vec![step]);
    // Either so many of a stream, or other steps.
    let event = prop_oneof![
        12 => (any::<usize>(), Just(1_usize)).prop_map(Ok),
        6 => (any::<usize>(), 2..80_usize).prop_map(Ok),
        4 => remove.prop_map(Err),
        1 => other.prop_map(Err),
    ];
    let events = prop::collection::vec(event, 1..300);
    (streams, events).prop_map(|(mut streams, events)| {
        let mut steps = Vec::new();
        for event in events {
            match event {
                Ok((stream, count)) => {
                    let among = streams.len();
                    let stream = &mut streams[stream % among];
                    steps.extend((0..count).map(|_| stream.next()));
                }
                Err(other) => steps.extend(other),
            }
        }
        steps
    })
}

/// What a tree should hold.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Takes a step with both and compares their answers.
pub fn take(tree: &mut impl Map, model: &mut Model, step: Step) {
    match step {
        Step::Insert(key, value) => {
            let new = tree.insert(&key, &value);
            assert_eq!(new, model.insert(key, value).is_none());
        }
        Step::Run(numbers, len) => {
            for key in numbers.keys() {
                let value = vec![7; len];
                let new = tree.insert(&key, &value);
                assert_eq!(new, model.insert(key, value).is_none());
            }
        }
        Step::RemoveRun(numbers) => {
            for key in numbers.keys() {
                assert_eq!(tree.remove(&key), model.remove(&key).is_some());
            }
        }
        Step::Remove(key) => assert_eq!(tree.remove(&key), model.remove(&key).is_some()),
        Step::RemoveNth(n) => {
            let Some(key) = model.keys().nth(n % model.len().max(1)).cloned() else {
                return;
            };
            assert!(tree.remove(&key));
            model.remove(&key);
        }
        Step::Get(key) => assert_eq!(tree.get(&key).as_ref(), model.get(&key)),
        Step::GetMany(mut keys) => {
            keys.extend(model.keys().take(20).cloned());
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut seen = vec![false; keys.len()];
            tree.get_many(&keys, |index, value| {
                assert!(!std::mem::replace(&mut seen[index], true));
                assert_eq!(value, model.get(keys[index]).map(Vec::as_slice));
            });
            assert!(seen.iter().all(|&seen| seen));
        }
        Step::Append(key, byte) => {
            let mut new = vec![1, 2, 3];
            tree.update(&key, &mut new, |old, new| {
                new.extend_from_slice(old.unwrap_or(&[]));
                new.push(byte);
                Decision::Put(())
            });
            model.entry(key).or_default().push(byte);
        }
        Step::Scan(from, up, n) => scan(tree, model, from.as_ref(), up, n),
        Step::ScanRange(range) => scan_range(tree, model, &range),
        Step::Verify => tree.verify().unwrap(),
    }
}

/// Scans both and compares what they visit.
pub fn scan(
    tree: &mut impl Map,
    model: &Model,
    from: Option<&(Vec<u8>, bool)>,
    up: bool,
    n: usize,
) {
    let bound = match from {
        None => Bound::Unbounded,
        Some((key, true)) => Bound::Included(key.as_slice()),
        Some((key, false)) => Bound::Excluded(key.as_slice()),
    };
    let all = Bound::<&[u8]>::Unbounded;
    let expected: Vec<_> = if up {
        model.range::<[u8], _>((bound, all)).take(n).collect()
    } else {
        model.range::<[u8], _>((all, bound)).rev().take(n).collect()
    };
    let mut found = Vec::new();
    let direction = if up {
        Direction::Forward
    } else {
        Direction::Reverse
    };
    tree.scan(bound, direction, |key, value| {
        if found.len() == n {
            return ControlFlow::Break(());
        }
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    assert!(
        found
            .iter()
            .map(|(k, v)| (k, v))
            .eq(expected.iter().copied()),
        "scan from {from:?} up {up} of {n}"
    );
}
