//! `edge-ext-lf`: Natarajan and Mittal, "Fast Concurrent Lock-Free Binary Search Trees" (PPoPP
//! 2014). Items are in leaves; removals own edges, not nodes, through two marks in the links.
//!
//! # Structure
//!
//! ```text
//! node, 32 bytes        0    key            inner node: keys below it are on the left
//!                       8    left link      leaf: 0
//!                      16    right link     leaf: 0
//!                      24    word           inner node: 0
//!
//! link                 63..3 address        bit 2: leaf   bit 1: tag   bit 0: flag
//! ```
//!
//! Leaves and inner nodes are of one type, as published, so that the inner node and the leaf of an
//! insertion, which are allocated one after the other, can share a cache line (Arbel-Raviv et al.,
//! §3.2.4). [`EdgeExtLf::shifted`] is the tree of their Figure 3, whose pairs share none.
//!
//! The published tree has three keys above all others. Here it is the structure that stands for
//! them, and every key of the type is usable. The root link leads to nothing while the tree is
//! empty, and else to a *top* node whose key no search reads: its left link leads to the tree, its
//! right link to nothing. The first insertion makes it as insertions make inner nodes, and the
//! removal of the last key unlinks it as removals do.
//!
//! # Protocol
//!
//! An insertion replaces the link to a leaf by a link to a new inner node over that leaf and a new
//! one: a compare-and-swap. A removal takes three steps, of which other threads complete the last
//! two when they meet them:
//!
//! 1. It *flags* the edge to its leaf, which claims the removal.
//! 2. It *tags* the edge to the leaf's sibling. Flagged and tagged edges never change again, so
//!    nobody inserts below the parent any more.
//! 3. It swings the *ancestor's* edge to the sibling. The ancestor has the last edge on the path
//!    that is not tagged; it leads to the *successor*. Between successor and parent all edges of
//!    the path are tagged: other removals were about to unlink these nodes, and are done now.
//!
//! A flag on the sibling's edge moves up with it: that removal goes on there.
//!
//! # Reclamation
//!
//! The swing that succeeds unlinks the inner nodes from successor to parent and one flagged leaf
//! below each. Every one of these nodes has one incoming edge in the tree, the tree's edges are
//! clean where a swing replaces them, and both edges of an unlinked node are marked for ever. So no
//! other swing can replace an edge within the chain, and none can unlink its nodes again: the
//! winner retires each, once. It knows the chain without help from others: each inner node of it
//! but the parent has one leaf, which is the flagged one. A thread that pins later starts at the
//! root, and reaches no unlinked node: links to those are in unlinked nodes alone.
//!
//! An address that is compared is that of a node the thread reached under its guard, so it is not
//! that of a later node: no ABA. The empty root link can come back; then the tree is empty again,
//! and the insertion that finds it is right.

mod node;
mod scan;
mod seek;
mod shape;
mod update;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::{ConcurrentIntMap, IntKey, Statistics};
use hedgerow_memory::{Placement, prefetch_line};
use hedgerow_sync::Counters;
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use crate::form::{Form, Improved, Padded};
use crate::interleave::{Step, interleave};
use crate::node_pool::NodePool;
use crate::planted::{PlantedBug, planted};
use crate::tagged_link::{LEAF, is_leaf, link_to, node, pointer};
use crate::tree::SearchTree;
use node::Node;

/// Mark: the leaf that the link leads to is being removed.
pub(crate) const FLAG: u64 = 1;
/// Mark: the node that has the link is being unlinked, and the link moves up.
pub(crate) const TAG: u64 = 2;
/// A link to nothing, which counts as a leaf. It is never flagged, for no key is there to be
/// removed. The top node's right link is tagged when the last key goes, and the top node with it;
/// the root link, to which it moves, gets no tag.
const NOTHING: u64 = LEAF;

/// Counter: removals of other threads that an operation completed, or tried to.
const HELPS: usize = 0;
/// Counter: updates that began again.
const RETRIES: usize = 1;

/// The lock-free external tree of Natarajan and Mittal; the module describes it.
pub struct EdgeExtLf<K: IntKey, F: Form = Improved, W: Word + 'static = AtomicU64> {
    /// The edge to the top node.
    root: W,
    pool: NodePool<Node<K, F, W>>,
    counters: Counters<2>,
    /// The node that was allocated to shift the others.
    shift: Option<u64>,
}

/// The tree as it was published: it has no flaw.
pub type BaselineEdgeExtLf<K> = EdgeExtLf<K, Improved>;

/// `edge-ext-lf-2`: the same tree with nodes that are padded to a cache line. Without its flaw it
/// is [`EdgeExtLf`].
pub type EdgeExtLf2<K> = EdgeExtLf<K, Padded>;

/// `edge-ext-lf-2` as it was published: bloated.
pub type BaselineEdgeExtLf2<K> = EdgeExtLf2<K>;

impl<K: IntKey, F: Form, W: Word + 'static> EdgeExtLf<K, F, W> {
    /// An empty tree.
    fn new(kind: &'static str, placement: Placement) -> Self {
        const { assert!(W::SHARED, "threads share the tree") };
        Self {
            root: W::new(NOTHING),
            pool: NodePool::new(kind, placement),
            counters: Counters::new(),
            shift: None,
        }
    }

    /// The first edge of a search, as it is now: that of the top node to the tree.
    #[inline]
    fn first(&self, guard: &Guard) -> u64 {
        let top = self.root.load(Ordering::Acquire);
        if is_leaf(top) {
            return NOTHING;
        }
        // SAFETY: the root is reachable, and leads to an inner node.
        let top = unsafe { node::<Node<K, F, W>>(top, guard) };
        top.left().load(Ordering::Acquire)
    }

    /// The word of a key in the leaf that its search found.
    #[inline]
    fn word_in(link: u64, key: K, guard: &Guard) -> Option<u64> {
        // SAFETY: the link was read under the guard from a reachable node.
        let leaf = (link != NOTHING).then(|| unsafe { node::<Node<K, F, W>>(link, guard) })?;
        (leaf.key() == key).then(|| leaf.word())
    }

    /// The leaf on a key's path, or nothing.
    #[inline]
    fn find(&self, key: K, guard: &Guard) -> u64 {
        let mut link = self.first(guard);
        while !is_leaf(link) {
            // SAFETY: the link was read under the guard from a reachable node.
            let inner = unsafe { node::<Node<K, F, W>>(link, guard) };
            link = inner.edge(key).load(Ordering::Acquire);
        }
        link
    }
}

impl<K: IntKey, F: Form> EdgeExtLf<K, F> {
    /// An empty tree that allocates one node before all others, and keeps it: where the pool gives
    /// out nodes one after the other, the inner node and the leaf of each insertion then lie in
    /// two cache lines, not in one (Arbel-Raviv et al., Figure 3).
    #[must_use]
    pub fn shifted(placement: Placement) -> Self {
        let mut tree = Self::new("edge-ext-lf shifted node", placement);
        tree.shift = Some(link_to(tree.pool.allocate()));
        tree
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> SearchTree<K> for EdgeExtLf<K, F, W> {
    // The trees are one but for the padding.
    const NAME: &'static str = match align_of::<F::Line>() {
        64 => "edge-ext-lf-2",
        _ => "edge-ext-lf",
    };

    fn with_placement(placement: Placement) -> Self {
        Self::new("edge-ext-lf node", placement)
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> ConcurrentIntMap<K> for EdgeExtLf<K, F, W> {
    #[inline]
    fn get(&self, key: K) -> Option<u64> {
        let guard = &epoch::pin();
        let leaf = if F::LIGHT_LOOKUPS {
            self.find(key, guard)
        } else {
            self.seek(key, guard)?.unmarked_leaf()
        };
        Self::word_in(leaf, key, guard)
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        let guard = &epoch::pin();
        let start = |key| (key, self.first(guard));
        let step = |(key, link): &mut (K, u64)| {
            if is_leaf(*link) {
                return Step::Found(Self::word_in(*link, *key, guard));
            }
            // SAFETY: the link was read under the guard from a reachable node.
            let inner = unsafe { node::<Node<K, F, W>>(*link, guard) };
            *link = inner.edge(*key).load(Ordering::Acquire);
            prefetch_line(pointer::<Node<K, F, W>>(*link));
            Step::Pending
        };
        interleave(keys, start, step, read);
    }

    fn insert(&self, key: K, word: u64) -> Option<u64> {
        self.insert_leaf(key, word, &epoch::pin())
    }

    fn remove(&self, key: K) -> Option<u64> {
        self.remove_leaf(key, &epoch::pin())
    }

    fn statistics(&self) -> Statistics {
        self.shape_statistics()
    }

    fn verify(&self) -> Result<(), String> {
        self.verify_shape()
    }
}

/// Whether this process has the bug that unlinks what others still reach. Nothing is freed then, so
/// that what goes wrong is an answer, not a search without end in memory that is used again.
fn keeps_memory() -> bool {
    planted(PlantedBug::EdgeExtLfSiblingNotTagged)
}

impl<K: IntKey, F: Form, W: Word + 'static> Drop for EdgeExtLf<K, F, W> {
    fn drop(&mut self) {
        if keeps_memory() {
            return;
        }
        let mut links = vec![self.root.load(Ordering::Acquire)];
        while let Some(link) = links.pop() {
            let Some(node) = NonNull::new(pointer::<Node<K, F, W>>(link)) else {
                continue;
            };
            // SAFETY: nobody else has the tree, and each of its nodes has one link.
            unsafe {
                if !is_leaf(link) {
                    let edges = [node.as_ref().left(), node.as_ref().right()];
                    links.extend(edges.map(|edge| edge.load(Ordering::Acquire)));
                }
                self.pool.free(node);
            }
        }
        if let Some(block) = self.shift.and_then(|link| NonNull::new(pointer(link))) {
            // SAFETY: the block came from this pool, and holds nothing.
            unsafe { self.pool.release(block) };
        }
    }
}
