//! Nodes of the B+-tree. Their fields are atomic words, so that a reader may look at a node while
//! a writer changes it, and ask the node's version afterwards whether what it saw was consistent.
//!
//! What changes a node needs its latch. What moves keys within or out of a node marks the version
//! first; only an insertion with a permutation is one store that no reader need know of.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use hedgerow_sync::VersionWord;

use super::order::{Order, WIDTH};
use crate::key::{NodeKey, Probe, Tails};

/// Keys that stay in a node that splits.
const LEFT_KEYS: usize = WIDTH / 2;

#[repr(C, align(64))]
pub struct Leaf<K> {
    pub version: VersionWord,
    /// Which slots are in use, in key order. Always the identity where keys are kept in order.
    order: AtomicU64,
    keys: [K; WIDTH],
    pub values: [AtomicU64; WIDTH],
    /// Whether a key was removed: then a free slot may be one that a reader still looks at.
    had_removals: AtomicBool,
}

impl<K: NodeKey> Default for Leaf<K> {
    fn default() -> Self {
        Self {
            version: VersionWord::new(true, false),
            order: AtomicU64::new(Order::identity(0).0),
            keys: Default::default(),
            values: Default::default(),
            had_removals: AtomicBool::new(false),
        }
    }
}

impl<K: NodeKey> Leaf<K> {
    /// The slots in use. The keys in them are there.
    #[inline(always)]
    pub fn order(&self) -> Order {
        Order(self.order.load(Acquire))
    }

    fn set_order(&self, order: Order) {
        self.order.store(order.0, Release);
    }

    /// How many keys are below the probe, and whether the next one is it.
    #[inline(always)]
    pub fn rank(&self, order: Order, probe: &Probe<'_>, tails: &Tails) -> (usize, bool) {
        let count = order.count();
        for rank in 0..count {
            match self.keys[order.slot(rank)].compare(probe, tails) {
                Ordering::Less => return (rank, false),
                Ordering::Equal => return (rank, true),
                Ordering::Greater => {}
            }
        }
        (count, false)
    }

    fn write(&self, slot: usize, key: K::Key, value: u64) {
        self.keys[slot].store(key);
        self.values[slot].store(value, Relaxed);
    }

    /// What is in `slot` also into `to`.
    fn copy(&self, slot: usize, to: &Self, to_slot: usize) {
        to.write(
            to_slot,
            self.keys[slot].load(),
            self.values[slot].load(Relaxed),
        );
    }

    /// Inserts at a rank into a leaf with room. The caller holds the latch.
    pub fn insert<const PERMUTER: bool>(&self, rank: usize, key: K::Key, value: u64) {
        let order = self.order();
        let count = order.count();
        if PERMUTER {
            if self.had_removals.load(Relaxed) {
                self.version.mark_inserting();
            }
            // The first free slot takes the key; only the permutation is rearranged.
            self.write(order.slot(count), key, value);
            self.set_order(order.inserted(rank));
        } else {
            self.version.mark_inserting();
            for slot in (rank..count).rev() {
                self.copy(slot, self, slot + 1);
            }
            self.write(rank, key, value);
            self.set_order(order.truncated(count + 1));
        }
    }

    /// Removes the key of a rank. The caller holds the latch.
    pub fn remove<const PERMUTER: bool>(&self, rank: usize) {
        let order = self.order();
        if PERMUTER {
            self.had_removals.store(true, Relaxed);
            self.set_order(order.removed(rank));
        } else {
            self.version.mark_inserting();
            for slot in rank + 1..order.count() {
                self.copy(slot, self, slot - 1);
            }
            self.set_order(order.truncated(order.count() - 1));
        }
    }

    /// Moves the upper half to an empty leaf, in order; how many keys stay. The caller holds both
    /// latches and has marked both as splitting.
    pub fn split(&self, right: &Self) -> usize {
        let order = self.order();
        for rank in LEFT_KEYS..WIDTH {
            self.copy(order.slot(rank), right, rank - LEFT_KEYS);
        }
        right.set_order(Order::identity(WIDTH - LEFT_KEYS));
        self.set_order(order.truncated(LEFT_KEYS));
        LEFT_KEYS
    }

    /// The lowest key of a leaf that is not empty.
    pub fn first_key(&self) -> K::Key {
        self.keys[self.order().slot(0)].load()
    }
}

#[repr(C, align(64))]
pub struct Interior<K> {
    pub version: VersionWord,
    count: AtomicU32,
    keys: [K; WIDTH],
    children: [AtomicU32; WIDTH + 1],
}

impl<K: NodeKey> Default for Interior<K> {
    fn default() -> Self {
        Self {
            version: VersionWord::new(false, false),
            count: AtomicU32::new(0),
            keys: Default::default(),
            children: Default::default(),
        }
    }
}

impl<K: NodeKey> Interior<K> {
    #[inline(always)]
    fn count(&self) -> usize {
        (self.count.load(Relaxed) as usize).min(WIDTH)
    }

    pub fn is_full(&self) -> bool {
        self.count() == WIDTH
    }

    /// The child to descend to: as many keys are not above the probe.
    #[inline(always)]
    pub fn child(&self, probe: &Probe<'_>, tails: &Tails) -> u32 {
        let keys = &self.keys[..self.count()];
        let above = keys
            .iter()
            .position(|key| key.compare(probe, tails) == Ordering::Less);
        self.children[above.unwrap_or(keys.len())].load(Acquire)
    }

    /// Begins a root that no other thread can see with its first child.
    pub fn plant(&self, child: u32) {
        self.children[0].store(child, Release);
    }

    /// Inserts a key, and behind it the right neighbour of `left`, into a node with room. The
    /// caller holds the latch and has marked the node.
    pub fn insert(&self, left: u32, key: K::Key, right: u32) {
        let count = self.count();
        let children = &self.children[..=count];
        let at = children
            .iter()
            .position(|child| child.load(Relaxed) == left);
        let at = at.expect("the parent of a node that splits has it as a child");
        for rank in (at..count).rev() {
            self.keys[rank + 1].store(self.keys[rank].load());
            let child = self.children[rank + 1].load(Relaxed);
            self.children[rank + 2].store(child, Release);
        }
        self.keys[at].store(key);
        self.children[at + 1].store(right, Release);
        self.count.store(count as u32 + 1, Relaxed);
    }

    /// Moves the upper half to an empty node; the key between the halves, which goes up. The
    /// caller holds both latches and has marked both as splitting.
    pub fn split(&self, right: &Self) -> K::Key {
        for rank in LEFT_KEYS + 1..WIDTH {
            right.keys[rank - LEFT_KEYS - 1].store(self.keys[rank].load());
        }
        for rank in LEFT_KEYS + 1..=WIDTH {
            let child = self.children[rank].load(Relaxed);
            right.children[rank - LEFT_KEYS - 1].store(child, Release);
        }
        right.count.store((WIDTH - LEFT_KEYS - 1) as u32, Relaxed);
        self.count.store(LEFT_KEYS as u32, Relaxed);
        self.keys[LEFT_KEYS].load()
    }
}
