//! A B+-tree of fanout 15 as the paper's last steps have it: with or without prefetching of
//! whole nodes, and with or without a permutation in its leaves.
//!
//! Nodes hold the first 16 bytes of each key (`Slot`) or exactly 8 (`Fixed`); a longer key's
//! end lies elsewhere, a cache miss per comparison: what Fig. 9 is about. Search is linear, as
//! in the paper. Removal leaves nodes as empty as they become.

use std::cell::RefCell;
use std::cmp::Ordering;

use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;
use hedgerow_memory::prefetch_lines;

use super::arena::Arena;
use super::key::{NodeKey, Probe, Tails};

/// Keys of a node.
const WIDTH: usize = 15;

/// More levels than 2^32 nodes can have, even half full.
const MOST_LEVELS: usize = 16;

#[repr(C, align(64))]
struct Interior<K> {
    keys: [K; WIDTH],
    children: [u32; WIDTH + 1],
    count: usize,
}

#[repr(C, align(64))]
struct Leaf<K> {
    keys: [K; WIDTH],
    values: [u64; WIDTH],
    /// How many, and where each of them is; the identity where keys are kept in order.
    order: Order,
}

/// Slots in key order, then free ones: the paper's permutation, an array instead of nibbles.
#[derive(Clone, Copy)]
struct Order {
    count: u8,
    slots: [u8; WIDTH],
}

impl Order {
    fn new(count: usize) -> Self {
        Self {
            count: count as u8,
            slots: std::array::from_fn(|slot| slot as u8),
        }
    }

    #[inline(always)]
    fn slot(&self, rank: usize) -> usize {
        usize::from(self.slots[rank])
    }
}

/// The tree; see the module.
pub struct BTree<K, const PREFETCH: bool, const PERMUTER: bool>(RefCell<Inner<K>>);

struct Inner<K> {
    interiors: Arena<Interior<K>>,
    leaves: Arena<Leaf<K>>,
    tails: Tails,
    root: u32,
    /// Levels of interior nodes.
    levels: usize,
}

impl<K: NodeKey, const PREFETCH: bool, const PERMUTER: bool> Default
    for BTree<K, PREFETCH, PERMUTER>
{
    fn default() -> Self {
        let mut leaves = Arena::default();
        let root = leaves.push(Leaf::new());
        Self(RefCell::new(Inner {
            interiors: Arena::default(),
            leaves,
            tails: Tails::default(),
            root,
            levels: 0,
        }))
    }
}

/// The way down: each level's interior node and the child taken.
type Path = [(u32, usize); MOST_LEVELS];

impl<K: NodeKey> Leaf<K> {
    fn new() -> Self {
        Self {
            keys: [K::default(); WIDTH],
            values: [0; WIDTH],
            order: Order::new(0),
        }
    }

    /// How many keys are below the probe, and whether the next one is it.
    #[inline(always)]
    fn rank(&self, probe: &Probe<'_>, tails: &Tails) -> (usize, bool) {
        let count = usize::from(self.order.count);
        for rank in 0..count {
            match self.keys[self.order.slot(rank)].compare(probe, tails) {
                Ordering::Less => return (rank, false),
                Ordering::Equal => return (rank, true),
                Ordering::Greater => {}
            }
        }
        (count, false)
    }

    fn insert<const PERMUTER: bool>(&mut self, rank: usize, key: K, value: u64) {
        let count = usize::from(self.order.count);
        let slot = if PERMUTER {
            // The first free slot takes the key; only the permutation is rearranged.
            let slot = self.order.slots[count];
            self.order.slots.copy_within(rank..count, rank + 1);
            self.order.slots[rank] = slot;
            usize::from(slot)
        } else {
            self.keys.copy_within(rank..count, rank + 1);
            self.values.copy_within(rank..count, rank + 1);
            rank
        };
        self.keys[slot] = key;
        self.values[slot] = value;
        self.order.count += 1;
    }

    fn remove<const PERMUTER: bool>(&mut self, rank: usize) {
        let count = usize::from(self.order.count);
        if PERMUTER {
            self.order.slots[rank..count].rotate_left(1);
        } else {
            self.keys.copy_within(rank + 1..count, rank);
            self.values.copy_within(rank + 1..count, rank);
        }
        self.order.count -= 1;
    }

    /// Moves the upper half out, in order.
    fn split(&mut self) -> Self {
        let mut right = Self::new();
        let keep = WIDTH / 2;
        for rank in keep..WIDTH {
            let slot = self.order.slot(rank);
            right.keys[rank - keep] = self.keys[slot];
            right.values[rank - keep] = self.values[slot];
        }
        right.order = Order::new(WIDTH - keep);
        self.order.count = keep as u8;
        right
    }
}

impl<K: NodeKey> Interior<K> {
    /// The child to descend to: how many keys are not above the probe.
    #[inline(always)]
    fn child(&self, probe: &Probe<'_>, tails: &Tails) -> usize {
        let keys = &self.keys[..self.count];
        let above = keys
            .iter()
            .position(|key| key.compare(probe, tails) == Ordering::Less);
        above.unwrap_or(self.count)
    }

    fn insert(&mut self, at: usize, key: K, child: u32) {
        self.keys.copy_within(at..self.count, at + 1);
        self.children.copy_within(at + 1..=self.count, at + 2);
        self.keys[at] = key;
        self.children[at + 1] = child;
        self.count += 1;
    }

    /// Moves the upper half out; the key between the halves goes up.
    fn split(&mut self) -> (K, Self) {
        let keep = WIDTH / 2;
        let moved = WIDTH - keep - 1;
        let mut right = Self {
            keys: [K::default(); WIDTH],
            children: [0; WIDTH + 1],
            count: moved,
        };
        right.keys[..moved].copy_from_slice(&self.keys[keep + 1..]);
        right.children[..=moved].copy_from_slice(&self.children[keep + 1..]);
        self.count = keep;
        (self.keys[keep], right)
    }
}

/// Asks for all lines of a node at once: eight with 16-byte keys, up to five with 8-byte ones.
#[inline(always)]
fn prefetch<N>(node: &N) {
    if size_of::<N>() > 5 * 64 {
        prefetch_lines::<8, _>(std::ptr::from_ref(node));
    } else {
        prefetch_lines::<5, _>(std::ptr::from_ref(node));
    }
}

impl<K: NodeKey> Inner<K> {
    #[inline(always)]
    fn descend<const PREFETCH: bool>(&self, probe: &Probe<'_>, path: &mut Path) -> u32 {
        let mut at = self.root;
        for step in path.iter_mut().take(self.levels) {
            let node = self.interiors.get(at);
            if PREFETCH {
                prefetch(node);
            }
            let child = node.child(probe, &self.tails);
            *step = (at, child);
            at = node.children[child];
        }
        if PREFETCH {
            prefetch(self.leaves.get(at));
        }
        at
    }

    /// Hangs a new right neighbour into the parents, splitting those that are full.
    fn grow(&mut self, path: &Path, mut key: K, mut right: u32) {
        for &(at, child) in path[..self.levels].iter().rev() {
            let node = self.interiors.get_mut(at);
            if node.count < WIDTH {
                node.insert(child, key, right);
                return;
            }
            let (middle, mut other) = node.split();
            if child > node.count {
                other.insert(child - node.count - 1, key, right);
            } else {
                node.insert(child, key, right);
            }
            key = middle;
            right = self.interiors.push(other);
        }
        let mut root = Interior {
            keys: [K::default(); WIDTH],
            children: [0; WIDTH + 1],
            count: 0,
        };
        root.children[0] = self.root;
        root.insert(0, key, right);
        self.root = self.interiors.push(root);
        self.levels += 1;
    }
}

impl<K: NodeKey, const PREFETCH: bool, const PERMUTER: bool> Map for BTree<K, PREFETCH, PERMUTER> {
    fn put(&self, key: &[u8], value: u64) {
        let inner = &mut *self.0.borrow_mut();
        let probe = Probe::new(key);
        let mut path = [(0, 0); MOST_LEVELS];
        let at = inner.descend::<PREFETCH>(&probe, &mut path);
        let leaf = inner.leaves.get_mut(at);
        let (rank, found) = leaf.rank(&probe, &inner.tails);
        if found {
            leaf.values[leaf.order.slot(rank)] = value;
            return;
        }
        let key = K::new(&probe, &mut inner.tails);
        if usize::from(leaf.order.count) < WIDTH {
            leaf.insert::<PERMUTER>(rank, key, value);
            return;
        }
        let mut right = leaf.split();
        let kept = usize::from(leaf.order.count);
        if rank > kept {
            right.insert::<PERMUTER>(rank - kept, key, value);
        } else {
            leaf.insert::<PERMUTER>(rank, key, value);
        }
        let separator = right.keys[right.order.slot(0)];
        let right = inner.leaves.push(right);
        inner.grow(&path, separator, right);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let inner = &*self.0.borrow();
        let probe = Probe::new(key);
        let at = inner.descend::<PREFETCH>(&probe, &mut [(0, 0); MOST_LEVELS]);
        let leaf = inner.leaves.get(at);
        let (rank, found) = leaf.rank(&probe, &inner.tails);
        found.then(|| leaf.values[leaf.order.slot(rank)])
    }

    fn remove(&self, key: &[u8]) -> bool {
        let inner = &mut *self.0.borrow_mut();
        let probe = Probe::new(key);
        let at = inner.descend::<PREFETCH>(&probe, &mut [(0, 0); MOST_LEVELS]);
        let leaf = inner.leaves.get_mut(at);
        let (rank, found) = leaf.rank(&probe, &inner.tails);
        if found {
            leaf.remove::<PERMUTER>(rank);
        }
        found
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}
