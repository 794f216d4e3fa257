//! Unbalanced binary trees for any number of threads: the first four steps of the factor
//! analysis.
//!
//! Random insertion keeps them within a small factor of the least depth. A node is a full key
//! (up to 16 bytes), a value and two links: 40 bytes with links into an arena, as in the paper,
//! and 48 with the pointers of the boxed form.
//!
//! They are lock-free: a node is written before it is in the tree, then comes in by one
//! compare-and-swap of the empty link that the search ended at. Who loses that race searches on
//! from the same link. Nodes never leave, so a search needs no versions and never starts again.
//! A value is replaced by one store, and removal marks the key.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;
use once_cell::race::OnceBox;

use super::arena::{Arena, NONE};
use super::key::{ByBytes, Comparison, NodeKey, Probe, Slot, Tails};

/// Which of two children comes next, or none when the key is here.
#[inline(always)]
fn side(order: Ordering) -> Option<usize> {
    match order {
        Ordering::Less => Some(0),
        Ordering::Equal => None,
        Ordering::Greater => Some(1),
    }
}

/// A key and its value, in a node of any of these trees.
#[derive(Default)]
pub(super) struct Pair<C> {
    /// The key.
    pub key: Slot<C>,
    value: AtomicU64,
}

impl<C: Comparison> Pair<C> {
    /// Fills a pair that no other thread can see.
    pub fn fill(&self, probe: &Probe<'_>, value: u64, tails: &Tails) {
        self.key.store(Slot::<C>::of(probe, tails));
        self.value.store(value, Relaxed);
    }

    /// Replaces the value.
    #[inline]
    pub fn replace(&self, value: u64) {
        self.value.store(value, Relaxed);
        self.key.set_removed(false);
    }

    /// The value, unless the key is removed.
    #[inline]
    pub fn value(&self) -> Option<u64> {
        (!self.key.is_removed()).then(|| self.value.load(Relaxed))
    }

    /// Removes the key; whether it was there.
    pub fn remove(&self) -> bool {
        !self.key.set_removed(true)
    }
}

#[derive(Default)]
struct BoxedNode {
    pair: Pair<ByBytes>,
    children: [BoxedLink; 2],
}

/// A child, or none yet: set once, by compare-and-swap.
type BoxedLink = OnceBox<BoxedNode>;

/// Nodes from the system's allocator, keys compared as strings ("Binary").
#[derive(Default)]
pub struct BoxedBinary {
    root: BoxedLink,
    tails: Tails,
}

impl BoxedBinary {
    /// The key's node at or below a link, or the empty link where it would be.
    #[inline(always)]
    fn search<'a>(
        &'a self,
        probe: &Probe<'_>,
        mut link: &'a BoxedLink,
    ) -> Result<&'a BoxedNode, &'a BoxedLink> {
        while let Some(node) = link.get() {
            match side(node.pair.key.compare(probe, &self.tails)) {
                Some(side) => link = &node.children[side],
                None => return Ok(node),
            }
        }
        Err(link)
    }

    fn found(&self, key: &[u8]) -> Option<&Pair<ByBytes>> {
        let found = self.search(&Probe::new(key), &self.root).ok();
        found.map(|node| &node.pair)
    }
}

impl Map for BoxedBinary {
    fn put(&self, key: &[u8], value: u64) {
        let probe = Probe::new(key);
        let mut link = &self.root;
        let mut new = None;
        loop {
            match self.search(&probe, link) {
                Ok(node) => return node.pair.replace(value),
                Err(empty) => link = empty,
            }
            let node = new.take().unwrap_or_else(|| {
                let node = Box::<BoxedNode>::default();
                node.pair.fill(&probe, value, &self.tails);
                node
            });
            match link.set(node) {
                Ok(()) => return,
                Err(node) => new = Some(node),
            }
        }
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.found(key)?.value()
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.found(key).is_some_and(Pair::remove)
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}

#[derive(Default)]
struct Node<C> {
    pair: Pair<C>,
    children: [AtomicU32; 2],
}

/// Nodes in an arena ("+Flow"), keys compared as strings or integers ("+IntCmp").
#[derive(Default)]
pub struct Binary<C> {
    root: AtomicU32,
    nodes: Arena<Node<C>>,
    tails: Tails,
}

impl<C: Comparison> Binary<C> {
    /// The key's node at or below a link, or the empty link where it would be.
    #[inline(always)]
    fn search<'a>(
        &'a self,
        probe: &Probe<'_>,
        mut link: &'a AtomicU32,
    ) -> Result<&'a Node<C>, &'a AtomicU32> {
        loop {
            let at = link.load(Acquire);
            if at == NONE {
                return Err(link);
            }
            let node = self.nodes.get(at);
            match side(node.pair.key.compare(probe, &self.tails)) {
                Some(side) => link = &node.children[side],
                None => return Ok(node),
            }
        }
    }

    fn found(&self, key: &[u8]) -> Option<&Pair<C>> {
        let found = self.search(&Probe::new(key), &self.root).ok();
        found.map(|node| &node.pair)
    }
}

impl<C: Comparison> Map for Binary<C> {
    fn put(&self, key: &[u8], value: u64) {
        let probe = Probe::new(key);
        let mut link = &self.root;
        let mut new = NONE;
        loop {
            match self.search(&probe, link) {
                // A node that was made for this key, if any, stays unused.
                Ok(node) => return node.pair.replace(value),
                Err(empty) => link = empty,
            }
            if new == NONE {
                new = self.nodes.take();
                let node = self.nodes.get(new);
                node.pair.fill(&probe, value, &self.tails);
            }
            if link.compare_exchange(NONE, new, Release, Relaxed).is_ok() {
                return;
            }
        }
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.found(key)?.value()
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.found(key).is_some_and(Pair::remove)
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}

const _: () = assert!(size_of::<Node<ByBytes>>() == 40 && size_of::<BoxedNode>() == 48);
