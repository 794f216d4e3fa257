//! Pairs of very uneven lengths beside the standard library's map: keys from none to the longest
//! of a leaf and beyond it, many of which begin with the same hundreds of bytes, values from none
//! to pages of their own. What a leaf has room for then depends on its form, its prefix and its
//! fences, all of which change as it is split, merged, loaded or adapted. A form without room shows
//! as a panic, as records that are gone, or in `verify`.
//!
//! `HEDGEROW_TEST_SCALE` multiplies the rounds, `HEDGEROW_SEED` repeats them.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::configuration::{Adaptive, Configuration, Fingerprint, FullyDense, SemiDense};
use hedgerow_btree::{BTree, BTreeIndex};
use hedgerow_index::Direction;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Pair = (Vec<u8>, Vec<u8>);

const ROUNDS: f64 = 12.0;
const STEPS: usize = 30;
/// Steps between verifications.
const VERIFY_EVERY: usize = 4;

fn rounds() -> usize {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    (ROUNDS * scale) as usize
}

fn seed() -> u64 {
    let seed = std::env::var("HEDGEROW_SEED").map_or_else(
        |_| rand::random(),
        |seed| seed.parse().expect("HEDGEROW_SEED is a number"),
    );
    println!("seed {seed}");
    seed
}

/// What a scan calls with each pair.
type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// What both trees do, each in its way.
trait Tree {
    fn empty() -> Self;
    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool;
    fn remove(&mut self, key: &[u8]) -> bool;
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>>;
    /// Removes these keys, which are all from the first to the last.
    fn remove_all(&mut self, keys: &[Vec<u8>]);
    /// Replaces all pairs by others.
    fn load(&mut self, pairs: &Model, fill: f64);
    fn scan(&mut self, from: Bound<&[u8]>, direction: Direction, visit: &mut Visit<'_>);
    fn adapt(&mut self);
    fn verify(&self) -> Result<(), String>;
}

impl<C: Configuration, const PAGE: usize> Tree for BTree<C, PAGE> {
    fn empty() -> Self {
        Self::default()
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        BTree::insert(self, key, value)
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        BTree::remove(self, key)
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        BTree::get(self, key, <[u8]>::to_vec)
    }

    fn remove_all(&mut self, keys: &[Vec<u8>]) {
        for key in keys {
            assert!(BTree::remove(self, key));
        }
    }

    fn load(&mut self, pairs: &Model, fill: f64) {
        self.bulk_load(pairs, fill).expect("a map ascends");
    }

    fn scan(&mut self, from: Bound<&[u8]>, direction: Direction, visit: &mut Visit<'_>) {
        BTree::scan(self, from, direction, visit);
    }

    fn adapt(&mut self) {
        self.adapt_to_keys();
    }

    fn verify(&self) -> Result<(), String> {
        BTree::verify(self)
    }
}

impl<C: Configuration, const PAGE: usize> Tree for BTreeIndex<C, PAGE> {
    fn empty() -> Self {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(64 << 20)).unwrap();
        BTreeIndex::create(Arc::new(pool)).unwrap()
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        BTreeIndex::insert(self, key, value).unwrap()
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        BTreeIndex::remove(self, key).unwrap()
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        BTreeIndex::get(self, key, <[u8]>::to_vec).unwrap()
    }

    fn remove_all(&mut self, keys: &[Vec<u8>]) {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return;
        };
        let mut left = keys.iter();
        let (from, to) = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        self.remove_range(from, to, &mut |key, _| {
            assert_eq!(Some(key), left.next().map(Vec::as_slice));
            ControlFlow::Continue(true)
        })
        .unwrap();
        assert_eq!(left.next(), None);
    }

    /// There are no loads: pairs come in the order of their keys.
    fn load(&mut self, pairs: &Model, _fill: f64) {
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        self.remove_range(from, to, &mut |_, _| ControlFlow::Continue(true))
            .unwrap();
        assert!(self.is_empty());
        for (key, value) in pairs {
            assert!(BTreeIndex::insert(self, key, value).unwrap());
        }
    }

    fn scan(&mut self, from: Bound<&[u8]>, direction: Direction, visit: &mut Visit<'_>) {
        BTreeIndex::scan(self, from, direction, visit).unwrap();
    }

    fn adapt(&mut self) {
        let mut next = Some(Vec::new());
        while let Some(from) = next {
            next = self.adapt_to_keys(&from, 50).unwrap();
        }
    }

    fn verify(&self) -> Result<(), String> {
        BTreeIndex::verify(self)
    }
}

/// Bytes of a pair in a leaf of fingerprints without a prefix.
fn fingerprinted_bytes((key, value): &Pair) -> usize {
    let long = usize::from(key.len() > 254) + usize::from(value.len() > 250);
    5 + 2 * long + key.len() + value.len()
}

/// Makes keys and values of uneven lengths.
struct Lengths {
    random: StdRng,
    page: usize,
    /// Bytes after which keys are cut.
    key_prefix: usize,
    /// What many keys begin with.
    prefixes: Vec<Vec<u8>>,
}

impl Lengths {
    fn new(random: StdRng, page: usize) -> Self {
        // As trees with hints have it: see `key_prefix_bytes` of the crate.
        let key_prefix = (page - 32 - 64 - 48) / 8;
        let mut lengths = Self {
            random,
            page,
            key_prefix,
            prefixes: Vec::new(),
        };
        for _ in 0..4 {
            let prefix = lengths.prefix();
            lengths.prefixes.push(prefix);
        }
        lengths
    }

    /// Below so many, or 0.
    fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end.max(1))
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// Of the lengths that a key in a leaf may have, short ones and the longest more often.
    fn key_len(&mut self) -> usize {
        let longest = self.key_prefix - 1;
        match self.below(4) {
            0 => self.below(5),
            1 => longest - self.below(5),
            _ => self.below(longest + 1),
        }
    }

    fn prefix(&mut self) -> Vec<u8> {
        let len = self.key_len();
        let byte = [b'm', 0, 0xff, b'a'][self.below(4)];
        let mut prefix = vec![byte; len];
        // A few bytes before make other heads of it.
        let own = self.below(4).min(len);
        prefix[..own].fill_with(|| self.below(256) as u8);
        prefix
    }

    fn any_prefix(&mut self) -> Vec<u8> {
        let number = self.below(self.prefixes.len());
        self.prefixes[number].clone()
    }

    fn key(&mut self) -> Vec<u8> {
        let mut key = self.any_prefix();
        match self.below(8) {
            0 => key.clear(),
            1 | 2 => key.truncate(self.below(key.len() + 1)),
            // Longer than a leaf takes.
            3 => key.resize(self.key_prefix + self.below(9), b'l'),
            _ => {}
        }
        for _ in 0..self.below(5) {
            key.push([0, b'a', self.below(256) as u8][self.below(3)]);
        }
        key
    }

    /// The longest value that is in the leaf with such a key.
    fn longest_value(&self, key: &[u8]) -> usize {
        (2 * self.key_prefix).saturating_sub(key.len())
    }

    fn value(&mut self, key: &[u8]) -> Vec<u8> {
        let longest = self.longest_value(key);
        let len = match self.below(16) {
            0..5 => 0,
            5..8 => 8,
            8..10 => self.below(20),
            10..13 => self.below(longest + 1),
            13 => longest,
            14 => longest.saturating_sub(self.below(9)),
            _ => longest + self.below(3 * self.page),
        };
        vec![self.below(256) as u8; len]
    }

    fn pair(&mut self) -> Pair {
        let key = self.key();
        let value = self.value(&key);
        (key, value)
    }

    /// Consecutive numbers behind a prefix that leaves room for them.
    fn numbers(&mut self) -> Vec<Pair> {
        let mut prefix = self.any_prefix();
        prefix.truncate(self.key_prefix - 5);
        let (first, step) = (self.below(60) as u32, 1 + self.below(3) as u32 / 2);
        let len = [0, 1, 8, 40][self.below(4)];
        let uneven = self.one_in(3);
        let count = 1 + self.below(120) as u32;
        let pairs = (0..count).map(|n| {
            let key = [&prefix[..], &(first + n * step).to_be_bytes()].concat();
            let len = if uneven { self.below(len + 1) } else { len };
            (key, vec![7_u8; len])
        });
        pairs.collect()
    }

    /// A few records that take most of a leaf, and begin with the same bytes; then small ones in
    /// ascending order up to them, which leave next to no room; and some that begin as the few do.
    /// So a run ends before few records, where a fence is long and most bytes are behind it. Of
    /// pages of 4096 bytes about a tenth of these have room for the few by fingerprints alone.
    fn few_behind_a_run(&mut self) -> (Vec<Pair>, Vec<Pair>) {
        let region = [&b"r"[..], &[]][self.below(2)].to_vec();
        let longest = self.key_prefix - 4 - region.len();
        let same = longest - self.below(longest / 6);
        let prefix = [&region[..], &vec![b'm'; same][..]].concat();
        let spare = self.key_prefix / 6 + self.key_prefix / 48 + self.below(self.key_prefix / 24);
        let large = (0..4_u8).map(|n| {
            let key = [&prefix[..], &[b'm', n]].concat();
            let len = self.longest_value(&key) - spare;
            (key, vec![n; len])
        });
        let large: Vec<Pair> = large.collect();
        let count = 60 + self.below(10) as u8;
        let mut small: Vec<Pair> = (1..=count)
            .map(|n| {
                // Of two lengths, so that they are no array of values.
                let tail = vec![n; 2 - usize::from(n % 2)];
                ([&region[..], &tail[..]].concat(), Vec::new())
            })
            .collect();
        let last = prefix[..region.len() + same.min(4 + self.below(40))].to_vec();
        let taken: usize = large.iter().chain(&small).map(fingerprinted_bytes).sum();
        let left = self.page.saturating_sub(32 + taken + 5 + last.len());
        let len = left.saturating_sub(self.below(60));
        let len = len.min(self.longest_value(&last));
        small.push((last, vec![0; len]));
        for _ in 0..8 {
            let cut = prefix.len() - self.below(prefix.len() / 8);
            let byte = [b'a', b'a', b'a', b'z'][self.below(4)];
            small.push(([&prefix[..cut], &[byte]].concat(), Vec::new()));
        }
        (large, small)
    }

    /// What a load meets: ascending keys of which some have values too long for a leaf, and of
    /// which some only add a byte to the one before. Insertions fill leaves then, and the pair that
    /// comes next closes its leaf with a fence as long as its key.
    fn sorted(&mut self) -> Model {
        let (mut pairs, mut number) = (Model::new(), 0_u32);
        for _ in 0..20 + self.below(100) {
            let len = self.key_len().min(self.key_prefix - 6);
            let mut key = Vec::new();
            for _ in 0..1 + self.below(7) {
                number += 1 + 300 * u32::from(self.one_in(3));
                key = [&number.to_be_bytes()[..], &vec![b'x'; len][..]].concat();
                let longest = self.longest_value(&key);
                let value = vec![1; longest + self.below(self.key_prefix) - self.below(longest)];
                pairs.insert(key.clone(), value);
            }
            key.push(1);
            let value = vec![2; self.below(12)];
            pairs.insert(key, value);
        }
        pairs
    }
}

/// A tree and what it should hold.
struct Round<T> {
    tree: T,
    model: Model,
    lengths: Lengths,
}

impl<T: Tree> Round<T> {
    fn put(&mut self, (key, value): Pair) {
        let is_new = self.tree.insert(&key, &value);
        assert_eq!(is_new, self.model.insert(key, value).is_none());
    }

    fn put_all(&mut self, pairs: Vec<Pair>) {
        pairs.into_iter().for_each(|pair| self.put(pair));
    }

    /// The keys of some records in a row, most of the time few.
    fn some_keys(&mut self) -> Vec<Vec<u8>> {
        let most = if self.lengths.one_in(3) { 300 } else { 20 };
        let first = self.lengths.below(self.model.len());
        let count = self.lengths.below(most);
        let keys = self.model.keys().skip(first).take(count);
        keys.cloned().collect()
    }

    fn any_key(&mut self) -> Option<Vec<u8>> {
        let number = self.lengths.below(self.model.len());
        self.model.keys().nth(number).cloned()
    }

    fn step(&mut self) {
        match self.lengths.below(12) {
            0 | 1 => {
                for _ in 0..self.lengths.below(40) {
                    let pair = self.lengths.pair();
                    self.put(pair);
                }
            }
            2 => {
                let pairs = self.lengths.numbers();
                self.put_all(pairs);
            }
            3 => {
                let pairs = self.lengths.numbers();
                self.put_all(pairs.into_iter().rev().collect());
            }
            4 | 5 => self.put_few_behind_a_run(),
            6 => {
                for _ in 0..self.lengths.below(30) {
                    let Some(key) = self.any_key() else { break };
                    let value = self.lengths.value(&key);
                    self.put((key, value));
                }
            }
            7 => {
                for _ in 0..self.lengths.below(40) {
                    let Some(key) = self.any_key() else { break };
                    assert!(self.tree.remove(&key) && !self.tree.remove(&key));
                    self.model.remove(&key);
                }
            }
            8 => {
                let keys = self.some_keys();
                self.tree.remove_all(&keys);
                for key in &keys {
                    self.model.remove(key);
                }
            }
            9 if self.lengths.one_in(3) => {
                self.model = self.lengths.sorted();
                let fill = [0.5, 0.9, 1.0][self.lengths.below(3)];
                self.tree.load(&self.model, fill);
            }
            9 => self.tree.adapt(),
            _ => {
                let key = self.any_key().unwrap_or_default();
                assert_eq!(self.tree.get(&key).as_ref(), self.model.get(&key));
                let up = self.lengths.one_in(2);
                self.scan(Bound::Included(&key), up, 50);
            }
        }
    }

    /// Most of the time in a tree of their own, where no other record is in the way.
    fn put_few_behind_a_run(&mut self) {
        if !self.lengths.one_in(4) {
            self.model.clear();
            self.tree.load(&self.model, 1.0);
        }
        let (large, small) = self.lengths.few_behind_a_run();
        self.put_all(large);
        if !self.lengths.one_in(4) {
            self.tree.adapt();
        }
        self.put_all(small);
    }

    /// Scans both and compares what they visit.
    fn scan(&mut self, from: Bound<&[u8]>, up: bool, limit: usize) {
        let all = Bound::<&[u8]>::Unbounded;
        let expected: Vec<_> = if up {
            self.model
                .range::<[u8], _>((from, all))
                .take(limit)
                .collect()
        } else {
            let pairs = self.model.range::<[u8], _>((all, from));
            pairs.rev().take(limit).collect()
        };
        let direction = [Direction::Reverse, Direction::Forward][usize::from(up)];
        let mut left = expected.iter();
        let mut visited = 0;
        self.tree.scan(from, direction, &mut |key, value| {
            if visited == limit {
                return ControlFlow::Break(());
            }
            visited += 1;
            let pair = left.next().map(|(key, value)| (&key[..], &value[..]));
            // Not all bytes of pairs that may be pages long.
            assert!(pair == Some((key, value)), "pair {visited}, {key:?}");
            ControlFlow::Continue(())
        });
        assert_eq!(visited, expected.len(), "a scan from {from:?}, up: {up}");
    }

    fn verify(&mut self) {
        self.tree.verify().unwrap();
        self.scan(Bound::Unbounded, true, usize::MAX);
        self.scan(Bound::Unbounded, false, usize::MAX);
    }
}

fn check<T: Tree>(page: usize) {
    let seed = seed();
    for round in 0..rounds() as u64 {
        let mut round = Round {
            tree: T::empty(),
            model: Model::new(),
            lengths: Lengths::new(StdRng::seed_from_u64(seed.wrapping_add(round)), page),
        };
        for step in 1..=STEPS {
            round.step();
            if step.is_multiple_of(VERIFY_EVERY) {
                round.verify();
            }
        }
        round.verify();
        for (key, value) in &round.model {
            assert_eq!(round.tree.get(key).as_ref(), Some(value));
        }
        let keys: Vec<_> = round.model.into_keys().collect();
        round.tree.remove_all(&keys);
        round.tree.verify().unwrap();
    }
}

macro_rules! checks {
    ($($name:ident $tree:ident $config:ident $page:literal;)*) => {
        $(
            #[test]
            fn $name() {
                check::<$tree<$config, $page>>($page);
            }
        )*
    };
}

checks! {
    adaptive_1024 BTree Adaptive 1024;
    adaptive_4096 BTree Adaptive 4096;
    fingerprint_1024 BTree Fingerprint 1024;
    fingerprint_4096 BTree Fingerprint 4096;
    fully_dense_1024 BTree FullyDense 1024;
    fully_dense_4096 BTree FullyDense 4096;
    semi_dense_1024 BTree SemiDense 1024;
    semi_dense_4096 BTree SemiDense 4096;
    shared_adaptive_1024 BTreeIndex Adaptive 1024;
    shared_adaptive_4096 BTreeIndex Adaptive 4096;
    shared_fingerprint_1024 BTreeIndex Fingerprint 1024;
    shared_fingerprint_4096 BTreeIndex Fingerprint 4096;
    shared_fully_dense_1024 BTreeIndex FullyDense 1024;
    shared_fully_dense_4096 BTreeIndex FullyDense 4096;
    shared_semi_dense_1024 BTreeIndex SemiDense 1024;
    shared_semi_dense_4096 BTreeIndex SemiDense 4096;
}
