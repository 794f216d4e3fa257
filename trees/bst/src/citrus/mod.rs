//! `citrus`: an internal tree whose searches take no locks and never begin again, and whose updates
//! wait for searches in one case (Arbel, Attiya: "Concurrent Updates with RCU: Search Tree as an
//! Example", PODC 2014).
//!
//! ```text
//!  node, 48 bytes                                        state
//!   0     8       16      24      32      40     44       63        32 31        1   0
//!  ┌─────┬───────┬───────┬───────┬───────┬──────┬────┐   ┌────────────┬───────────┬────────┐
//!  │ key │ left  │ right │ word  │ state │ lock │    │   │ right tag  │ left tag  │ marked │
//!  └─────┴───────┴───────┴───────┴───────┴──────┴────┘   └────────────┴───────────┴────────┘
//! ```
//!
//! Every node has a key with its word. The root has no key and is never removed; the tree is below
//! its left link. A *marked* node was removed. A *tag* counts how often the link lost its
//! node: an update that saw an empty link knows by the tag whether it was empty ever since.
//!
//! # Protocol
//!
//! A search follows links within a read-side section ([`grace_period`](crate::grace_period)), and
//! reads nothing but keys and links. An update searches, locks the nodes that it is to change from
//! the top down, and checks that they are not marked and linked as it saw them; otherwise it
//! searches again. A node's lock covers its links and its state.
//!
//! * An insert locks the node with the empty link, and links the new node there.
//! * A removal of a node with at most one child locks the node and its parent, marks the node, and
//!   puts the child in its place.
//! * A removal of a node with two children also locks the node's successor and the successor's
//!   parent. It replaces the node by a *copy* of the successor. Now the successor's key is in two
//!   places. Searches that passed the replaced node before can find the old successor only,
//!   so the removal waits for a grace period before it unlinks it.
//!
//! Searches take no locks within their sections, so a removal may wait for them with its locks
//! taken. Batched lookups call back outside of sections, so a callback may update the tree.
//!
//! # Memory
//!
//! A node is retired when its parent's link was replaced, and all updates hold the parent's lock
//! for that. From then on only removed nodes lead to it, which left the tree before and which a
//! thread that pins from now on cannot come to. The old successor is retired after the grace
//! period, when it is unlinked. The grace period frees nothing: updates, which are
//! outside of sections when they lock what they found, are protected by their pin alone.
//!
//! # Departures from the paper
//!
//! Memory comes back (the published code retires nothing). Tags and the mark are one word. A tag
//! is read once, at the end of the search.

mod inspect;
mod update;

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::{ConcurrentIntMap, IntKey, Statistics};
use hedgerow_memory::Placement;
use hedgerow_sync::CachePadded;
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use crate::form::{BloatedLocks, Fields, Form, Improved};
use crate::grace_period::{GracePeriods, ProcessReaders};
use crate::interleave::{Step, interleave, prefetch_fields};
use crate::lock::NodeLock;
use crate::node_pool::NodePool;
use crate::tree::SearchTree;

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// A link to no node.
const NONE: u64 = 0;

/// Bit 0 of a node's state: the node was removed.
const MARKED: u64 = 1;

/// The bits of a state where the tag of each link is, and the lowest of them.
const TAGS: [(u64, u64); 2] = [(0xffff_fffe, 1 << 1), (0xffff_ffff << 32, 1 << 32)];

/// How many keys of a batch are looked up in one section.
const KEYS_PER_SECTION: usize = 64;

/// What searches read of a node.
#[repr(C)]
struct NodeSearch<K, W> {
    /// Not written in the root.
    key: MaybeUninit<K>,
    links: [W; 2],
    word: u64,
}

/// What only updates need.
#[repr(C)]
struct NodeUpdate<L, W> {
    state: W,
    lock: L,
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
    assert!(size_of::<Node<u64, Improved, AtomicU64>>() == 48);
    assert!(size_of::<Node<u32, Improved, AtomicU64>>() == 48);
    assert!(size_of::<Node<u64, BloatedLocks, AtomicU64>>() == 80);
};

/// A concurrent map from integers to words: the search tree `citrus`.
///
/// # Examples
///
/// ```
/// use hedgerow_bst::{Citrus, SearchTree};
/// use hedgerow_index::ConcurrentIntMap;
///
/// let map = Citrus::<u64>::segregated();
/// for key in [5, 2, 8] {
///     assert_eq!(map.insert(key, key * 10), None);
/// }
/// // Its successor takes the place of a node with two children.
/// assert_eq!((map.remove(5), map.get(5), map.get(8)), (Some(50), None, Some(80)));
/// ```
pub struct Citrus<
    K: IntKey,
    F: Form = Improved,
    W: Word + 'static = AtomicU64,
    G: GracePeriods = ProcessReaders,
> {
    root: NonNull<Node<K, F, W>>,
    nodes: NodePool<Node<K, F, W>>,
    sections: G,
    /// Searches that updates began again.
    retries: CachePadded<AtomicU64>,
    /// Grace periods that removals waited for.
    grace_periods: CachePadded<AtomicU64>,
}

// SAFETY: the root is a node, which is made of keys, words and a lock that threads share; the tree
// frees it when it is dropped, and nobody else has its address.
unsafe impl<K: IntKey, F: Form, W: Word + 'static, G: GracePeriods> Send for Citrus<K, F, W, G> {}
// SAFETY: as above.
unsafe impl<K: IntKey, F: Form, W: Word + 'static, G: GracePeriods> Sync for Citrus<K, F, W, G> {}

/// `citrus` as it was published: locks as large as a mutex.
pub type BaselineCitrus<K> = Citrus<K, BloatedLocks>;

impl<K: IntKey, F: Form, W: Word> Node<K, F, W> {
    fn new(key: MaybeUninit<K>, word: u64, links: [u64; 2]) -> Self {
        let links = links.map(W::new);
        let update = NodeUpdate {
            state: W::new(0),
            lock: F::Lock::new(),
        };
        Self {
            fields: Fields::new(NodeSearch { key, links, word }, update),
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

    fn state(&self) -> u64 {
        self.update().state.load(Ordering::Acquire)
    }

    /// The key.
    ///
    /// # Safety
    ///
    /// The node is not the root.
    #[inline(always)]
    unsafe fn key(&self) -> K {
        // SAFETY: every node but the root has a key from the start.
        unsafe { self.search().key.assume_init() }
    }

    #[inline(always)]
    fn address(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    #[inline(always)]
    fn child_address(&self, side: usize) -> u64 {
        self.search().links[side].load(Ordering::Acquire)
    }

    /// The child of a side.
    #[inline(always)]
    fn child(&self, side: usize) -> Option<&Self> {
        let child = self.child_address(side);
        // SAFETY: a reference to a node lives no longer than the guard under which the node was
        // come to. Its links lead to nodes that were in the tree while it was; the module's
        // documentation says why none of them is freed before that guard ends.
        (child != NONE).then(|| unsafe { &*(child as *const Self) })
    }
}

impl<K: IntKey, F: Form, W: Word + 'static, G: GracePeriods> Citrus<K, F, W, G> {
    /// An empty tree.
    fn empty(placement: Placement) -> Self {
        const { assert!(W::SHARED, "threads share the tree") };
        let nodes = NodePool::new("citrus node", placement);
        Self {
            root: nodes.place(Node::new(MaybeUninit::uninit(), 0, [NONE; 2])),
            nodes,
            sections: G::default(),
            retries: CachePadded::new(AtomicU64::new(0)),
            grace_periods: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// The root, from which all other nodes are come to.
    #[inline(always)]
    fn root<'g>(&'g self, _guard: &'g Guard) -> &'g Node<K, F, W> {
        // SAFETY: the tree has the node until it is dropped.
        unsafe { self.root.as_ref() }
    }
}

impl<K, F, W, G> ConcurrentIntMap<K> for Citrus<K, F, W, G>
where
    K: IntKey,
    F: Form,
    W: Word + 'static,
    G: GracePeriods,
{
    #[inline]
    fn get(&self, key: K) -> Option<u64> {
        let guard = epoch::pin();
        if !F::LIGHT_LOOKUPS {
            return self.find(key, &guard).node.map(|node| node.search().word);
        }
        let _section = self.sections.enter();
        let (mut node, mut side) = (self.root(&guard), LEFT);
        while let Some(child) = node.child(side) {
            // SAFETY: a child is not the root.
            let child_key = unsafe { child.key() };
            if child_key == key {
                return Some(child.search().word);
            }
            side = usize::from(key > child_key);
            node = child;
        }
        None
    }

    fn get_many(&self, keys: &[K], mut read: impl FnMut(usize, Option<u64>)) {
        let guard = epoch::pin();
        let start = |key| (key, self.root(&guard), LEFT);
        let step = |(key, node, side): &mut (K, &Node<K, F, W>, usize)| {
            let Some(child) = node.child(*side) else {
                return Step::Found(None);
            };
            // SAFETY: a child is not the root.
            let child_key = unsafe { child.key() };
            if child_key == *key {
                return Step::Found(Some(child.search().word));
            }
            *side = usize::from(*key > child_key);
            *node = child;
            let next = child.child_address(*side) as usize;
            // A quarter of the nodes of 48 bytes have these fields on two lines.
            prefetch_fields::<NodeSearch<K, W>>(next + NodeFields::<K, F, W>::search_offset());
            Step::Pending
        };
        for (number, keys) in keys.chunks(KEYS_PER_SECTION).enumerate() {
            let mut words = [None; KEYS_PER_SECTION];
            {
                let _section = self.sections.enter();
                interleave(keys, start, step, |at, word| words[at] = word);
            }
            // Outside of the section: a callback that removes keys waits for sections.
            for (at, word) in words.into_iter().enumerate().take(keys.len()) {
                read(number * KEYS_PER_SECTION + at, word);
            }
        }
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

impl<K, F, W, G> SearchTree<K> for Citrus<K, F, W, G>
where
    K: IntKey,
    F: Form,
    W: Word + 'static,
    G: GracePeriods,
{
    const NAME: &'static str = "citrus";

    fn with_placement(placement: Placement) -> Self {
        Self::empty(placement)
    }
}
