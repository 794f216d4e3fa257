//! `log-int`: an internal tree with an ordered list through its nodes, the *logical ordering*
//! (Drachsler, Vechev, Yahav: "Practical Concurrent Binary Search Trees via Logical Ordering",
//! PPoPP 2014), not balanced.
//!
//! ```text
//!   0     8       16      24      32      40      48      56           60          64
//!  ┌─────┬───────┬───────┬───────┬───────┬───────┬───────┬────────────┬───────────┐
//!  │ key │ left  │ right │ succ  │ word  │ pred  │ parent│ succ lock  │ tree lock │
//!  └─────┴───────┴───────┴───────┴───────┴───────┴───────┴────────────┴───────────┘
//! ```
//!
//! Every node has a key with its word, and stands in the tree and in the list. *succ* and *pred*
//! are its neighbours in the list; bit 0 of *succ* says that the node was removed. Two nodes
//! without keys are the ends of the list, recognised by their addresses. The greater of them is
//! also the root: the tree is below its left link.
//!
//! # Protocol
//!
//! A key is in the map exactly while a node with it is in the list and not marked as removed. The
//! tree only leads searches to the right part of the list. So a search that meets an unmarked node
//! with its key is done. Any other search may have been misled by a node that changed its place,
//! and asks the list ([`LogInt::around`]): it steps back until it is at an unmarked node below the
//! key, and then forward. What it steps to was in the list at a moment since the search began.
//!
//! A node's *succ lock* covers the gap between it and its successor: the node's *succ*, its mark,
//! and the successor's *pred*. A node's *tree lock* covers its links to children, and *parent* of
//! these children. Updates lock gaps in ascending order first, tree locks afterwards.
//!
//! * An insert locks the gap, chooses the one neighbour that has room for a child there, locks
//!   that, and links the new node: *succ* first, which is when the key is in the map, then *pred*,
//!   then the tree.
//! * A removal locks the gap before the node and the one after it, then the node, its parent, and
//!   if the node has two children, its successor and the successor's parent. It marks the node,
//!   which is when the key is gone, unlinks it from the list, and then from the tree: its only
//!   child takes its place, or its successor does.
//!
//! A removal waits for the tree lock of a parent only while it has the lock of that parent's child.
//! For every other lock it tries once, and on failure gives all tree locks back. Nodes move up
//! in the tree only, and only while their locks are taken, so those who wait for each other
//! stand in the order of the tree, and none of them waits for itself.
//!
//! # Memory
//!
//! A removal keeps both gaps locked until the node is out of the tree as well. So the neighbours of
//! a half-removed node cannot be removed: whoever comes to that node may go on to them. When the
//! node is out, no node in list or tree leads to it, neither by *succ*, *pred*, a child link nor
//! *parent*; the removal retires it. Its own fields stay as they are, and lead to nodes that were
//! in the list when it left; a thread that may still read them pinned before these are retired.
//!
//! # Departures from the paper
//!
//! * The paper unlocks the gaps before it unlinks a node from the tree, and links an inserted node
//!   into the tree after it unlocked the gap. Then a key could be inserted again while the
//!   removed node with the same key was still in the tree, and lead searches for it astray; and a
//!   neighbour could be freed that the removed node leads to.
//! * A search steps back over removed nodes, not only over those above its key.
//! * *succ* is linked before *pred*, so that a key appears at one moment for both directions. So
//!   the gap after a new node must be locked until its *pred* is linked.
//! * Children are not locked: that serves rotations.

mod inspect;
mod scan;
mod update;

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::{ConcurrentIntMap, IntKey, Statistics};
use hedgerow_memory::{Placement, prefetch_line};
use hedgerow_sync::CachePadded;
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use crate::form::{BloatedLocks, Fields, Form, Improved, ScatteredFields};
use crate::interleave::{Step, interleave};
use crate::lock::NodeLock;
use crate::node_pool::NodePool;
use crate::planted::{PlantedBug, planted};
use crate::tree::SearchTree;

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// A link to no node.
const NONE: u64 = 0;

/// Bit 0 of a node's *succ*: the node was removed.
const REMOVED: u64 = 1;

/// What searches read of a node.
#[repr(C)]
struct NodeSearch<K, W> {
    /// Not written in the ends of the list.
    key: MaybeUninit<K>,
    /// The children.
    links: [W; 2],
    succ: W,
    word: u64,
    pred: W,
}

/// What only updates need.
#[repr(C)]
struct NodeUpdate<L, W> {
    parent: W,
    succ_lock: L,
    tree_lock: L,
}

type NodeFields<K, F, W> =
    Fields<<F as Form>::Order, NodeSearch<K, W>, NodeUpdate<<F as Form>::Lock, W>>;

/// A node. A reference to one lives no longer than the guard under which it was come to.
#[repr(C)]
struct Node<K, F: Form, W> {
    fields: NodeFields<K, F, W>,
    line: F::Line,
}

const _: () = {
    assert!(size_of::<Node<u64, Improved, AtomicU64>>() == 64);
    assert!(size_of::<Node<u32, Improved, AtomicU64>>() == 64);
    // 40 + 40 bytes of locks, 56 of everything else.
    assert!(size_of::<Node<u64, BloatedLocks<ScatteredFields>, AtomicU64>>() == 136);
};

/// A concurrent map from integers to words: the search tree `log-int`.
///
/// # Examples
///
/// ```
/// use hedgerow_bst::{LogInt, SearchTree};
/// use hedgerow_index::{ConcurrentIntMap, OrderedIntMap};
///
/// let map = LogInt::<i32>::segregated();
/// assert_eq!(map.insert(-7, 70), None);
/// assert_eq!(map.insert(7, 71), None);
/// assert_eq!((map.get(-7), map.successor(0)), (Some(70), Some((7, 71))));
/// ```
pub struct LogInt<K: IntKey, F: Form = Improved, W: Word + 'static = AtomicU64> {
    /// The end of the list below all keys.
    least: NonNull<Node<K, F, W>>,
    /// The end above all keys, and the root.
    greatest: NonNull<Node<K, F, W>>,
    nodes: NodePool<Node<K, F, W>>,
    /// Attempts that updates began again.
    retries: CachePadded<AtomicU64>,
}

// SAFETY: the ends are nodes, which are made of keys, words and locks that threads share; the tree
// frees them when it is dropped, and nobody else has their addresses.
unsafe impl<K: IntKey, F: Form, W: Word + 'static> Send for LogInt<K, F, W> {}
// SAFETY: as above.
unsafe impl<K: IntKey, F: Form, W: Word + 'static> Sync for LogInt<K, F, W> {}

/// `log-int` as it was published: locks as large as a mutex, before the fields of searches.
pub type BaselineLogInt<K> = LogInt<K, BloatedLocks<ScatteredFields>>;

/// Where the keys end that a walk may come to.
#[derive(Clone, Copy)]
enum Limit<K> {
    /// Below the key.
    Below(K),
    /// At the key.
    At(K),
    /// Nowhere.
    End,
}

impl<K: IntKey, F: Form, W: Word> Node<K, F, W> {
    fn new(key: MaybeUninit<K>, word: u64) -> Self {
        let link = || W::new(NONE);
        let search = NodeSearch {
            key,
            links: [link(), link()],
            succ: link(),
            word,
            pred: link(),
        };
        let update = NodeUpdate {
            parent: link(),
            succ_lock: F::Lock::new(),
            tree_lock: F::Lock::new(),
        };
        Self {
            fields: Fields::new(search, update),
            line: F::Line::default(),
        }
    }

    #[inline(always)]
    fn search(&self) -> &NodeSearch<K, W> {
        self.fields.search()
    }

    fn update(&self) -> &NodeUpdate<F::Lock, W> {
        self.fields.update()
    }

    /// The key.
    ///
    /// # Safety
    ///
    /// The node is not an end of the list.
    #[inline(always)]
    unsafe fn key(&self) -> K {
        // SAFETY: every node but the ends has a key from the start.
        unsafe { self.search().key.assume_init() }
    }

    /// The address, as links have it.
    #[inline(always)]
    fn address(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }

    /// Whether the node was removed.
    #[inline(always)]
    fn is_removed(&self) -> bool {
        self.search().succ.load(Ordering::Acquire) & REMOVED != 0
    }

    /// The node at an address, or none.
    ///
    /// # Safety
    ///
    /// The address was read just now from a link of this node. A reference to a node lives no
    /// longer than the guard under which the node was come to; the module's documentation says why
    /// none of the nodes that it leads to is freed before that guard ends.
    #[inline(always)]
    unsafe fn follow(&self, address: u64) -> Option<&Self> {
        // SAFETY: the caller's promise.
        (address != NONE).then(|| unsafe { &*(address as *const Self) })
    }

    #[inline(always)]
    fn child(&self, side: usize) -> Option<&Self> {
        let child = self.search().links[side].load(Ordering::Acquire);
        // SAFETY: it is a link of this node.
        unsafe { self.follow(child) }
    }

    fn parent(&self) -> Option<&Self> {
        let parent = self.update().parent.load(Ordering::Acquire);
        // SAFETY: it is a link of this node.
        unsafe { self.follow(parent) }
    }

    /// The next node of the list; of the last one, itself.
    #[inline(always)]
    fn succ(&self) -> &Self {
        let succ = self.search().succ.load(Ordering::Acquire);
        // SAFETY: it is a link of this node.
        unsafe { self.follow(succ & !REMOVED) }.unwrap_or(self)
    }

    /// The node before; of the first one, itself.
    fn pred(&self) -> &Self {
        let pred = self.search().pred.load(Ordering::Acquire);
        // SAFETY: it is a link of this node.
        unsafe { self.follow(pred) }.unwrap_or(self)
    }

    /// Prefetches what a search reads of the child of `side`.
    #[inline(always)]
    fn prefetch_child(&self, side: usize) {
        let child = self.search().links[side].load(Ordering::Acquire) as usize;
        prefetch_line((child + NodeFields::<K, F, W>::search_offset()) as *const u8);
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> LogInt<K, F, W> {
    /// An empty tree.
    fn empty(placement: Placement) -> Self {
        const { assert!(W::SHARED, "threads share the tree") };
        let nodes = NodePool::new("log-int node", placement);
        let end = || nodes.place(Node::new(MaybeUninit::uninit(), 0));
        let tree = Self {
            least: end(),
            greatest: end(),
            nodes,
            retries: CachePadded::new(AtomicU64::new(0)),
        };
        let guard = epoch::pin();
        let (least, greatest) = (tree.least(&guard), tree.greatest(&guard));
        let (first, last) = (&least.search().succ, &greatest.search().pred);
        first.store(greatest.address(), Ordering::Release);
        last.store(least.address(), Ordering::Release);
        tree
    }

    /// The end of the list below all keys.
    #[inline(always)]
    fn least<'g>(&'g self, _guard: &'g Guard) -> &'g Node<K, F, W> {
        // SAFETY: the tree has the node until it is dropped.
        unsafe { self.least.as_ref() }
    }

    /// The end of the list above all keys, and the root.
    #[inline(always)]
    fn greatest<'g>(&'g self, _guard: &'g Guard) -> &'g Node<K, F, W> {
        // SAFETY: as above.
        unsafe { self.greatest.as_ref() }
    }

    /// The node's key; `None` for the ends.
    fn key(&self, node: &Node<K, F, W>) -> Option<K> {
        let node_ptr = std::ptr::from_ref(node);
        let is_end = node_ptr == self.least.as_ptr() || node_ptr == self.greatest.as_ptr();
        // SAFETY: it is no end.
        (!is_end).then(|| unsafe { node.key() })
    }

    /// Whether the node is above the limit.
    #[inline(always)]
    fn is_above(&self, node: &Node<K, F, W>, limit: Limit<K>) -> bool {
        let Some(node_key) = self.key(node) else {
            return std::ptr::eq(node, self.greatest.as_ptr());
        };
        match limit {
            Limit::Below(key) => node_key >= key,
            Limit::At(key) => node_key > key,
            Limit::End => false,
        }
    }

    /// The node where a search of the tree for `key` ends, and whether it has that key.
    #[inline(always)]
    fn descend<'g>(&'g self, key: K, guard: &'g Guard) -> (&'g Node<K, F, W>, bool) {
        let mut node = self.greatest(guard);
        let mut side = LEFT;
        while let Some(child) = node.child(side) {
            node = child;
            // SAFETY: nodes in the tree below the root are no ends.
            let node_key = unsafe { node.key() };
            if node_key == key {
                return (node, true);
            }
            side = usize::from(key > node_key);
        }
        (node, false)
    }

    /// The last node that is not above the limit, and the one after it, as they followed each other
    /// at a moment since the call; a search of the tree ended at `start`.
    #[inline]
    fn around<'g>(
        &self,
        start: &'g Node<K, F, W>,
        limit: Limit<K>,
    ) -> (&'g Node<K, F, W>, &'g Node<K, F, W>) {
        let mut node = start;
        while node.is_removed() || self.is_above(node, limit) {
            node = node.pred();
        }
        loop {
            let succ = node.succ();
            if self.is_above(succ, limit) {
                return (node, succ);
            }
            node = succ;
        }
    }

    /// The word of `key`, by the list; a search of the tree ended at `start`.
    #[inline]
    fn look_up_in_list(&self, start: &Node<K, F, W>, key: K) -> Option<u64> {
        let (_, node) = self.around(start, Limit::Below(key));
        let found = self.key(node) == Some(key) && !node.is_removed();
        found.then(|| node.search().word)
    }
}

/// A lookup under way, by `get_many`: the node that it is at, and the side where it goes on.
struct Lookup<'g, K, F: Form, W> {
    key: K,
    node: &'g Node<K, F, W>,
    side: usize,
}

impl<'g, K: IntKey, F: Form, W: Word + 'static> Lookup<'g, K, F, W> {
    /// One node further down; nodes below the root have been prefetched.
    #[inline(always)]
    fn step(&mut self, map: &'g LogInt<K, F, W>) -> Step {
        let Some(child) = self.node.child(self.side) else {
            return Step::Found(map.look_up_in_list(self.node, self.key));
        };
        // SAFETY: nodes in the tree below the root are no ends.
        let child_key = unsafe { child.key() };
        self.node = child;
        if child_key == self.key {
            return Step::Found(match child.is_removed() {
                false => Some(child.search().word),
                true => map.look_up_in_list(child, self.key),
            });
        }
        self.side = usize::from(self.key > child_key);
        child.prefetch_child(self.side);
        Step::Pending
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> ConcurrentIntMap<K> for LogInt<K, F, W> {
    #[inline]
    fn get(&self, key: K) -> Option<u64> {
        let guard = epoch::pin();
        let (node, has_key) = self.descend(key, &guard);
        if F::LIGHT_LOOKUPS && has_key && !node.is_removed() {
            return Some(node.search().word);
        }
        if planted(PlantedBug::LogIntTreeTrusted) && !has_key {
            return None;
        }
        self.look_up_in_list(node, key)
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        let guard = epoch::pin();
        let root = self.greatest(&guard);
        let start = |key| Lookup {
            key,
            node: root,
            side: LEFT,
        };
        interleave(keys, start, |lookup| lookup.step(self), read);
    }

    fn insert(&self, key: K, word: u64) -> Option<u64> {
        self.insert_node(key, word)
    }

    fn remove(&self, key: K) -> Option<u64> {
        self.remove_node(key)
    }

    fn statistics(&self) -> Statistics {
        self.count()
    }

    fn verify(&self) -> Result<(), String> {
        self.check()
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> SearchTree<K> for LogInt<K, F, W> {
    const NAME: &'static str = "log-int";

    fn with_placement(placement: Placement) -> Self {
        Self::empty(placement)
    }
}
