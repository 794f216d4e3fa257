//! A tree that does not change: what lookups could cost at best.
//!
//! An S+-tree as Slotin's "Static B-Trees" and Groot Koerkamp's "Static search trees" have it. A
//! node is 16 sorted integers and nothing else; its 17 children lie side by side in the next level,
//! so that the place of each follows from the node's and no link is stored. One comparison of
//! vectors per node says which child is next. Lookups in groups take each step for 32 keys before
//! the next step, and prefetch between the two.
//!
//! The lab's contenders must be able to write. What is written here waits in a map of the standard
//! library, and is merged into a new tree before the next run of lookups: experiments in which keys
//! come and go say nothing about this tree.

use std::cell::RefCell;
use std::collections::BTreeMap;

use hedgerow_lab_contender::{Map, Tally, value_of};
use hedgerow_lab_data::KeyRange;
use hedgerow_memory::prefetch_line;
use hedgerow_simd::{Kernel, Level, Task};

use hedgerow_lab_own::Integer;

/// Keys of a node.
const KEYS: usize = 16;

/// Lookups that take a step together.
const GROUP: usize = 32;

/// Changes that wait while keys are looked up one at a time.
const MOST_WAITING: usize = 1024;

/// An integer that such a tree can hold.
pub trait Lane: Integer + Default {
    /// The greatest one: places without a key hold it.
    const MAX: Self;

    /// What stands for it in nodes: a signed integer, as kernels compare those, in the same order.
    type Signed: Copy + PartialEq;

    /// What stands for it.
    fn signed(self) -> Self::Signed;

    /// The integer that this stands for.
    fn of_signed(signed: Self::Signed) -> Self;

    /// How many of 16 integers are below `key`.
    fn below<N: Kernel>(node: &[Self::Signed; KEYS], key: Self::Signed) -> usize;
}

impl Lane for u32 {
    const MAX: Self = Self::MAX;
    type Signed = i32;

    #[inline(always)]
    fn signed(self) -> i32 {
        (self ^ 1 << 31) as i32
    }

    #[inline(always)]
    fn of_signed(signed: i32) -> Self {
        signed as Self ^ 1 << 31
    }

    #[inline(always)]
    fn below<N: Kernel>(node: &[i32; KEYS], key: i32) -> usize {
        N::count_32(node, 0, key)
    }
}

impl Lane for u64 {
    const MAX: Self = Self::MAX;
    type Signed = i64;

    #[inline(always)]
    fn signed(self) -> i64 {
        (self ^ 1 << 63) as i64
    }

    #[inline(always)]
    fn of_signed(signed: i64) -> Self {
        signed as Self ^ 1 << 63
    }

    #[inline(always)]
    fn below<N: Kernel>(node: &[i64; KEYS], key: i64) -> usize {
        N::count_all_64(node.as_chunks().0.iter(), key)
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Node<K>([K; KEYS]);

impl<K> Node<K> {
    #[inline(always)]
    fn prefetch(&self) {
        for line in 0..size_of::<Self>() / 64 {
            prefetch_line(std::ptr::from_ref(self).wrapping_byte_add(64 * line));
        }
    }
}

/// The tree itself.
struct Tree<K: Lane> {
    /// The nodes of each level, the root's first; those of the last hold the keys, in order. A
    /// separator is the greatest key of the child before it.
    levels: Vec<Vec<Node<K::Signed>>>,
    /// Values at the places of their keys.
    values: Vec<u64>,
    count: usize,
}

impl<K: Lane> Tree<K> {
    fn new(pairs: &[(K, u64)]) -> Self {
        let node = |keys: &mut dyn Iterator<Item = K>| {
            let mut node = Node([K::MAX.signed(); KEYS]);
            node.0
                .iter_mut()
                .zip(keys)
                .for_each(|(lane, key)| *lane = key.signed());
            node
        };
        let keys = pairs.chunks(KEYS);
        let mut greatest: Vec<K> = keys.clone().map(|some| some[some.len() - 1].0).collect();
        let mut leaves: Vec<_> = keys
            .map(|some| node(&mut some.iter().map(|pair| pair.0)))
            .collect();
        if leaves.is_empty() {
            leaves.push(node(&mut std::iter::empty()));
        }
        let mut levels = vec![leaves];
        while greatest.len() > 1 {
            let children = greatest.chunks(KEYS + 1);
            // Nothing leads beyond the last child.
            let nodes = children
                .clone()
                .map(|some| node(&mut some[..some.len() - 1].iter().copied()));
            levels.push(nodes.collect());
            greatest = children.map(|some| some[some.len() - 1]).collect();
        }
        levels.reverse();
        Self {
            levels,
            values: pairs.iter().map(|pair| pair.1).collect(),
            count: pairs.len(),
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (K, u64)> {
        let leaves = self.levels.last().into_iter().flatten();
        let keys = leaves.flat_map(|leaf| leaf.0.map(K::of_signed));
        keys.zip(self.values.iter().copied())
    }

    /// The values of at most `MANY` keys, a step for all of them at a time.
    #[inline(always)]
    fn lookup<N: Kernel, const MANY: usize>(&self, keys: &[K]) -> [Option<u64>; MANY] {
        let (mut at, mut values) = ([0; MANY], [None; MANY]);
        for pair in self.levels.windows(2) {
            let (level, below) = (&pair[0], &pair[1]);
            for (at, &key) in at.iter_mut().zip(keys) {
                *at = *at * (KEYS + 1) + K::below::<N>(&level[*at].0, key.signed());
                below[*at].prefetch();
            }
        }
        let leaves = &self.levels[self.levels.len() - 1];
        for (at, &key) in at.iter_mut().zip(keys) {
            *at = *at * KEYS + K::below::<N>(&leaves[*at].0, key.signed());
            prefetch_line(self.values.as_ptr().wrapping_add(*at));
        }
        for ((value, &at), &key) in values.iter_mut().zip(&at).zip(keys) {
            let found = at < self.count && leaves[at / KEYS].0[at % KEYS] == key.signed();
            *value = found.then(|| self.values[at]);
        }
        values
    }
}

/// One lookup, for a kernel.
struct One<'a, K: Lane>(&'a Tree<K>, K);

impl<K: Lane> Task for One<'_, K> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<u64> {
        self.0.lookup::<N, 1>(&[self.1])[0]
    }
}

/// Lookups of many keys, `MANY` at a time, for a kernel.
struct Run<'a, K: Lane, const MANY: usize>(&'a Tree<K>, KeyRange<'a>);

impl<K: Lane, const MANY: usize> Task for Run<'_, K, MANY> {
    type Output = Tally;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Tally {
        let Self(tree, keys) = self;
        let mut tally = Tally::default();
        for some in keys.chunks(MANY) {
            let mut group = [K::default(); MANY];
            group
                .iter_mut()
                .zip(some.iter())
                .for_each(|(place, key)| *place = K::of(key));
            let values = tree.lookup::<N, MANY>(&group[..some.len()]);
            values.into_iter().for_each(|value| tally.count(value));
        }
        tally
    }
}

struct Inner<K: Lane> {
    level: Level,
    tree: Tree<K>,
    /// What was written since: values, and keys that were removed.
    waiting: BTreeMap<K, Option<u64>>,
}

impl<K: Lane> Inner<K> {
    fn get(&self, key: K) -> Option<u64> {
        match self.waiting.get(&key) {
            Some(&value) => value,
            None => self.level.run(One(&self.tree, key)),
        }
    }

    /// Merges what waits into a new tree.
    #[cold]
    fn rebuild(&mut self) {
        let mut pairs = Vec::with_capacity(self.tree.count + self.waiting.len());
        let mut old = self.tree.pairs().peekable();
        for (&key, &value) in &self.waiting {
            while let Some(pair) = old.next_if(|pair| pair.0 < key) {
                pairs.push(pair);
            }
            old.next_if(|pair| pair.0 == key);
            pairs.extend(value.map(|value| (key, value)));
        }
        pairs.extend(old);
        self.tree = Tree::new(&pairs);
        self.waiting.clear();
    }
}

/// The tree as a contender.
pub struct StaticTree<K: Lane>(RefCell<Inner<K>>);

impl<K: Lane> Default for StaticTree<K> {
    fn default() -> Self {
        Self(RefCell::new(Inner {
            level: Level::detect(),
            tree: Tree::new(&[]),
            waiting: BTreeMap::new(),
        }))
    }
}

impl<K: Lane> StaticTree<K> {
    fn rebuild_beyond(&self, most: usize) {
        if self.0.borrow().waiting.len() > most {
            self.0.borrow_mut().rebuild();
        }
    }
}

impl<K: Lane> Map for StaticTree<K> {
    fn put(&self, key: &[u8], value: u64) {
        self.0.borrow_mut().waiting.insert(K::of(key), Some(value));
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.rebuild_beyond(MOST_WAITING);
        self.0.borrow().get(K::of(key))
    }

    fn remove(&self, key: &[u8]) -> bool {
        let inner = &mut *self.0.borrow_mut();
        let key = K::of(key);
        let was_there = inner.get(key).is_some();
        if was_there {
            inner.waiting.insert(key, None);
        }
        was_there
    }

    fn get_run(&self, keys: KeyRange<'_>) -> Tally {
        self.rebuild_beyond(0);
        let inner = self.0.borrow();
        inner.level.run(Run::<K, 1>(&inner.tree, keys))
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        self.rebuild_beyond(0);
        let inner = self.0.borrow();
        let groups = keys.chunks(group);
        let tallies = groups.map(|some| inner.level.run(Run::<K, GROUP>(&inner.tree, some)));
        Some(tallies.fold(Tally::default(), Tally::and))
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        let pairs: Vec<_> = keys.iter().map(|key| (K::of(key), value_of(key))).collect();
        self.0.borrow_mut().tree = Tree::new(&pairs);
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_key_is_found_and_no_other<K: Lane + TryFrom<u64, Error: std::fmt::Debug>>() {
        let key = |number: u64| K::try_from(number).expect("a small number");
        for count in [0, 1, 15, 16, 17, 272, 273, 289, 290, 4_913, 5_000] {
            let mut pairs: Vec<_> = (0..count).map(|nth| (key(2 * nth + 1), nth)).collect();
            if count % 2 == 1 {
                pairs.push((K::MAX, count));
            }
            let tree = Tree::new(&pairs);
            assert!(tree.pairs().eq(pairs.iter().copied()));
            for level in Level::supported() {
                let get = |key| level.run(One(&tree, key));
                for &(key, value) in &pairs {
                    assert_eq!(get(key), Some(value), "{key:?} of {count}");
                }
                for number in 0..=count {
                    assert_eq!(get(key(2 * number)), None, "{number} of {count}");
                }
                assert_eq!(get(K::MAX).is_some(), count % 2 == 1);
            }
        }
    }

    #[test]
    fn every_key_is_found_and_no_other_in_both_widths() {
        every_key_is_found_and_no_other::<u32>();
        every_key_is_found_and_no_other::<u64>();
    }
}
