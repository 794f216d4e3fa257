//! `ticket`, or BST-TK: an external tree whose searches know nothing of locks, and whose updates
//! lock by version (David, Guerraoui, Trigonakis: "Asynchronized Concurrency", ASPLOS 2015).
//!
//! ```text
//!  inner node                                        leaf
//!   0            8      16       24        32         0            8         16
//!  ┌────────────┬──────┬────────┬──────────┐         ┌────────────┬─────────┐
//!  │ key        │ left │ right  │ locks    │         │ key        │ word    │
//!  └────────────┴──────┴────────┴──────────┘         └────────────┴─────────┘
//! ```
//!
//! Leaves have the keys and their words. An inner node has two links: to keys below its own, and to
//! keys at or above it. Bit 0 of a link says that it leads to a leaf; an empty tree's only link,
//! in the head of the tree, is that bit alone. Node and links never change places: an insert
//! replaces a leaf by an inner node above that leaf and a new one, a removal replaces an inner node
//! by the sibling of the leaf that goes.
//!
//! # Protocol
//!
//! Each link has a lock with a version ([`edge_locks`]). An update's search reads a node's versions
//! *before* the link that it follows. To lock a link, the update compares and swaps the version
//! that it saw: if that succeeds, the link is what the search saw, and its node is in the tree.
//!
//! * An insert locks the link to the leaf that it found.
//! * A removal locks the link to the leaf's parent, then both links of the parent in one step. The
//!   parent stays locked for ever, so no update gets a version with which it could change a node
//!   that left the tree.
//! * Whoever cannot lock gives back what it locked and searches again. Nobody waits for a lock
//!   while it has one, so there is no deadlock.
//!
//! A lookup reads links only. It may pass through nodes that left the tree since it came to them;
//! their links are as they were when they left. So the leaf that it ends at was the one for
//! its key at a moment since the lookup began.
//!
//! # Memory
//!
//! A removal retires the leaf and its parent once the link above leads to the sibling. From then on
//! no link in the tree leads to them, nor can one again: a link to the leaf could only be copied
//! from the parent, whose locks nobody gets any more. Links to them remain in nodes that left the
//! tree before them, which a thread that pins from now on cannot come to either.
//!
//! # Departures from the paper
//!
//! The published nodes serve as inner nodes and as leaves; here a leaf is half as large as an inner
//! node. Versions have 31 bits, not 16. The published tree has leaves with keys that nobody may
//! use; here the head's link may be empty. Nodes have no other lock, so
//! [`BloatedLocks`](crate::BloatedLocks) changes nothing.

mod edge_locks;
mod inspect;
mod update;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::{ConcurrentIntMap, IntKey, Statistics};
use hedgerow_memory::{Placement, prefetch_line};
use hedgerow_sync::CachePadded;
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use self::edge_locks::{EdgeLocks, Side, Versions};
use crate::form::{Fields, Form, Improved, Padded};
use crate::interleave::{Step, interleave};
use crate::node_pool::NodePool;
use crate::tree::SearchTree;

/// Bit 0 of a link: it leads to a leaf.
const LEAF: u64 = 1;

/// The head's link in an empty tree.
const EMPTY: u64 = LEAF;

/// What searches read of an inner node.
#[repr(C)]
struct InnerSearch<K, W> {
    key: K,
    /// To keys below `key`, and to those at or above it.
    links: [W; 2],
}

type InnerFields<K, F, W> = Fields<<F as Form>::Order, InnerSearch<K, W>, EdgeLocks<W>>;

/// An inner node.
#[repr(C)]
struct Inner<K, F: Form, W> {
    fields: InnerFields<K, F, W>,
    line: F::Line,
}

/// A leaf.
#[repr(C)]
struct Leaf<K, F: Form> {
    key: K,
    word: u64,
    line: F::Line,
}

const _: () = {
    assert!(size_of::<Inner<u64, Improved, AtomicU64>>() == 32);
    assert!(size_of::<Inner<u32, Improved, AtomicU64>>() == 32);
    assert!(size_of::<Leaf<u64, Improved>>() == 16 && size_of::<Leaf<u32, Improved>>() == 16);
    assert!(size_of::<Inner<u64, Padded, AtomicU64>>() == 64);
    assert!(size_of::<Leaf<u64, Padded>>() == 64);
};

/// The link above the topmost node, with its lock; the right one is not used.
struct Head<W> {
    link: W,
    locks: EdgeLocks<W>,
}

/// A concurrent map from integers to words: the search tree `ticket`.
///
/// # Examples
///
/// ```
/// use hedgerow_bst::{SearchTree, Ticket};
/// use hedgerow_index::ConcurrentIntMap;
///
/// let map = Ticket::<u64>::segregated();
/// assert_eq!(map.insert(7, 70), None);
/// assert_eq!(map.insert(7, 71), Some(70));
/// assert_eq!((map.get(7), map.remove(7), map.get(7)), (Some(70), Some(70), None));
/// ```
pub struct Ticket<K: IntKey, F: Form = Improved, W: Word + 'static = AtomicU64> {
    head: CachePadded<Head<W>>,
    inners: NodePool<Inner<K, F, W>>,
    leaves: NodePool<Leaf<K, F>>,
    /// Searches that updates began again.
    retries: CachePadded<AtomicU64>,
}

/// `ticket` as it was published: nodes of a whole cache line.
pub type BaselineTicket<K> = Ticket<K, Padded>;

/// A link with the lock of it, and the versions that a search saw before it read the link.
struct Edge<'g, W> {
    link: &'g W,
    locks: &'g EdgeLocks<W>,
    side: Side,
    seen: Versions,
}

impl<W: Word> Edge<'_, W> {
    fn try_lock(&self) -> bool {
        self.locks.try_lock(self.side, self.seen)
    }

    /// Changes the link, which is locked, and unlocks it.
    fn replace(&self, link: u64) {
        self.link.store(link, Ordering::Release);
        self.locks.unlock(self.side);
    }
}

/// The node above a leaf that was found.
struct Parent<'g, K, F: Form, W> {
    node: &'g Inner<K, F, W>,
    /// The link to it.
    above: Edge<'g, W>,
}

/// Where an update's search ended.
struct Found<'g, K, F: Form, W> {
    /// The node above the leaf; `None` if the head is above the leaf.
    parent: Option<Parent<'g, K, F, W>>,
    /// The link to the leaf.
    edge: Edge<'g, W>,
    /// The leaf; `None` in an empty tree.
    leaf: Option<&'g Leaf<K, F>>,
}

impl<K: IntKey, F: Form, W: Word> Inner<K, F, W> {
    fn new(key: K, links: [u64; 2]) -> Self {
        let links = links.map(W::new);
        Self {
            fields: Fields::new(InnerSearch { key, links }, EdgeLocks::new()),
            line: F::Line::default(),
        }
    }

    fn locks(&self) -> &EdgeLocks<W> {
        self.fields.update()
    }

    /// The side where `key` is.
    #[inline(always)]
    fn side(&self, key: K) -> Side {
        Side::of(key >= self.fields.search().key)
    }

    #[inline(always)]
    fn link(&self, side: Side) -> &W {
        &self.fields.search().links[side as usize]
    }

    /// The link of `side` as an edge; reads the versions now.
    fn edge(&self, side: Side) -> Edge<'_, W> {
        Edge {
            link: self.link(side),
            locks: self.locks(),
            side,
            seen: self.locks().versions(),
        }
    }
}

/// The address of a node as a link.
fn link_to_inner<K, F: Form, W>(inner: NonNull<Inner<K, F, W>>) -> u64 {
    inner.as_ptr() as u64
}

/// The address of a leaf as a link.
fn link_to_leaf<K, F: Form>(leaf: NonNull<Leaf<K, F>>) -> u64 {
    leaf.as_ptr() as u64 | LEAF
}

impl<K: IntKey, F: Form, W: Word + 'static> Ticket<K, F, W> {
    /// An empty tree.
    fn empty(placement: Placement) -> Self {
        const { assert!(W::SHARED, "threads share the tree") };
        let head = Head {
            link: W::new(EMPTY),
            locks: EdgeLocks::new(),
        };
        Self {
            head: CachePadded::new(head),
            inners: NodePool::new("ticket inner node", placement),
            leaves: NodePool::new("ticket leaf", placement),
            retries: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// The inner node of a link, unless it leads to a leaf or is empty.
    ///
    /// # Safety
    ///
    /// The link was read in this tree under `_guard`, or nobody else has the tree.
    #[inline(always)]
    unsafe fn inner<'g>(&self, link: u64, _guard: &'g Guard) -> Option<&'g Inner<K, F, W>> {
        // SAFETY: a link without the leaf's bit is the address of an inner node, which was in the
        // tree under the guard, so it is not freed before the guard ends.
        (link & LEAF == 0).then(|| unsafe { &*(link as *const Inner<K, F, W>) })
    }

    /// The leaf of a link that does not lead to an inner node, unless it is empty.
    ///
    /// # Safety
    ///
    /// As for [`inner`](Self::inner); and the link has the leaf's bit.
    #[inline(always)]
    unsafe fn leaf<'g>(&self, link: u64, _guard: &'g Guard) -> Option<&'g Leaf<K, F>> {
        debug_assert!(link & LEAF != 0);
        // SAFETY: as in `inner`; a link with the leaf's bit and an address leads to a leaf.
        (link != EMPTY).then(|| unsafe { &*((link & !LEAF) as *const Leaf<K, F>) })
    }

    /// The word of the leaf at `link`, if its key is `key`.
    ///
    /// # Safety
    ///
    /// As for [`leaf`](Self::leaf).
    #[inline(always)]
    unsafe fn word(&self, link: u64, key: K, guard: &Guard) -> Option<u64> {
        // SAFETY: the caller's promise.
        let leaf = unsafe { self.leaf(link, guard) };
        leaf.filter(|leaf| leaf.key == key).map(|leaf| leaf.word)
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> ConcurrentIntMap<K> for Ticket<K, F, W> {
    #[inline]
    fn get(&self, key: K) -> Option<u64> {
        let guard = epoch::pin();
        if !F::LIGHT_LOOKUPS {
            let leaf = self.find(key, &guard).leaf;
            return leaf.filter(|leaf| leaf.key == key).map(|leaf| leaf.word);
        }
        let mut link = self.head.link.load(Ordering::Acquire);
        // SAFETY: each link was read in this tree under the guard.
        while let Some(inner) = unsafe { self.inner(link, &guard) } {
            link = inner.link(inner.side(key)).load(Ordering::Acquire);
        }
        // SAFETY: as above; the loop ended at a link with the leaf's bit.
        unsafe { self.word(link, key, &guard) }
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        let guard = epoch::pin();
        let start = |key| (key, self.head.link.load(Ordering::Acquire));
        let step = |(key, link): &mut (K, u64)| {
            // SAFETY: each link was read in this tree under the guard.
            let Some(inner) = (unsafe { self.inner(*link, &guard) }) else {
                // SAFETY: as above; and the link has the leaf's bit.
                return Step::Found(unsafe { self.word(*link, *key, &guard) });
            };
            *link = inner.link(inner.side(*key)).load(Ordering::Acquire);
            prefetch_line((*link & !LEAF) as *const u8);
            Step::Pending
        };
        interleave(keys, start, step, read);
    }

    fn insert(&self, key: K, word: u64) -> Option<u64> {
        self.insert_leaf(key, word)
    }

    fn remove(&self, key: K) -> Option<u64> {
        self.remove_leaf(key)
    }

    fn statistics(&self) -> Statistics {
        self.count()
    }

    fn verify(&self) -> Result<(), String> {
        self.check()
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> SearchTree<K> for Ticket<K, F, W> {
    const NAME: &'static str = "ticket";

    fn with_placement(placement: Placement) -> Self {
        Self::empty(placement)
    }
}
