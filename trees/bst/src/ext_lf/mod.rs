//! `ext-lf`: Ellen, Fatourou, Ruppert and van Breugel, "Non-blocking Binary Search Trees" (PODC
//! 2010). Items are in leaves; an update announces itself in the inner nodes that it changes, with
//! a descriptor by which others can complete it.
//!
//! # Structure
//!
//! ```text
//! inner node, 32 bytes   0    key            keys below it are on the left
//!                        8    left link
//!                       16    right link
//!                       24    update word
//! leaf, 16 bytes         0    key
//!                        8    word
//!
//! link                  63..3 address           bit 2: leaf
//! update word           63..2 version           bits 1, 0: clean (0)
//!                       63..2 descriptor        bits 1, 0: insertion (1), removal (2), marked (3)
//! insertion, 40 bytes   owner, edge, old, new, clean
//! removal, 48 bytes     owner, edge, parent, parent_seen, leaf_edge, clean
//! ```
//!
//! The published tree has two keys above all others. Here it is the structure that stands for them,
//! and every key of the type is usable: the *top* has an update word and one link. While the tree
//! is empty that leads to nothing (a leaf by its mark, with a number in place of the address); else
//! to an inner node whose key no search reads, with the tree on its left and nothing on its right.
//!
//! # Protocol
//!
//! An insertion *flags* the leaf's parent, replaces the parent's link to the leaf by one to a new
//! inner node over a copy of the leaf and the new one, and makes the parent clean again.
//!
//! A removal flags the leaf's grandparent, *marks* the parent for ever, replaces the grandparent's
//! link to the parent by that to the leaf's sibling, and makes the grandparent clean again. If the
//! parent changed since the removal saw it, the removal cannot mark it: it makes the grandparent
//! clean and begins again. Marking freezes the parent's links, so the sibling that moves up is the
//! one that is there.
//!
//! Each step is one compare-and-swap, and the descriptor says all that they need. Who finds a node
//! flagged or marked takes the steps that are left, then begins again.
//!
//! # Versions
//!
//! In the published tree a clean update word names the last descriptor still: nothing frees that,
//! so no value of the word comes back. Here a clean word has a version, and an update which saw
//! version *n* leaves *n* + 1. So no clean value comes back either, and a descriptor need not
//! outlive its update; a tree at rest has none.
//!
//! With descriptors in clean words this would be wrong even with epochs. A helper can read a
//! removal that gives up, and pause before it marks the parent. It compares the parent's word with
//! the one that the removal saw: a descriptor that may have been retired before the helper pinned,
//! and whose memory a later update of the parent may use. The helper would mark a parent for a
//! removal that is over.
//!
//! # Reclamation
//!
//! The thread whose compare-and-swap makes the flagged node clean retires what its update replaced,
//! and the descriptor. One thread succeeds, since a flag that names a descriptor is set once.
//! Whoever holds the descriptor read it in a flagged or marked word under a guard: before the
//! flagged node was clean, or in the parent, which it reached before that was unlinked. Either is
//! before the descriptor was retired. That the replaced leaf waits as well keeps a late helper of
//! an insertion from finding that leaf's address again in a new leaf: its compare-and-swap of the
//! link fails. For the same reason insertions copy the leaf, as published, and links to nothing
//! have numbers: a link that was replaced does not come back.

mod descriptor;
mod node;
mod search;
mod shape;
mod update;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::{ConcurrentIntMap, IntKey, Statistics};
use hedgerow_memory::{Placement, prefetch_line};
use hedgerow_sync::Counters;
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use crate::form::{Form, HeavyLookups, Improved, Padded};
use crate::interleave::{Step, interleave};
use crate::node_pool::NodePool;
use crate::planted::{PlantedBug, planted};
use crate::tagged_link::{LEAF, is_leaf, node, pointer};
use crate::tree::SearchTree;
use descriptor::{Insertion, Removal, first_version};
use node::{Inner, Leaf};

/// Counter: updates of other threads that an operation took steps of.
const HELPS: usize = 0;
/// Counter: updates that began again.
const RETRIES: usize = 1;

/// What stands above the tree, as an inner node would.
struct Top<W> {
    update: W,
    edge: W,
}

/// The lock-free external tree of Ellen, Fatourou, Ruppert and van Breugel; the module describes
/// it.
pub struct ExtLf<K: IntKey, F: Form = Improved, W: Word + 'static = AtomicU64> {
    top: Top<W>,
    inner_nodes: NodePool<Inner<K, F, W>>,
    leaves: NodePool<Leaf<K, F>>,
    insertions: NodePool<Insertion<W>>,
    removals: NodePool<Removal<W>>,
    counters: Counters<2>,
}

/// The tree as it was published: bloated nodes, heavy traversals.
pub type BaselineExtLf<K> = ExtLf<K, Padded<HeavyLookups>>;

/// A link to nothing; no two of them are the same in one tree.
fn nothing(version: u64) -> u64 {
    version << 3 | LEAF
}

impl<K: IntKey, F: Form, W: Word + 'static> ExtLf<K, F, W> {
    /// An empty tree.
    fn new(placement: Placement) -> Self {
        const { assert!(W::SHARED, "threads share the tree") };
        let top = Top {
            update: W::new(first_version()),
            edge: W::new(nothing(0)),
        };
        Self {
            top,
            inner_nodes: NodePool::new("ext-lf inner node", placement),
            leaves: NodePool::new("ext-lf leaf", placement),
            insertions: NodePool::new("ext-lf insertion", placement),
            removals: NodePool::new("ext-lf removal", placement),
            counters: Counters::new(),
        }
    }

    /// The first link of a search, or `None` in an empty tree.
    #[inline]
    fn first(&self, guard: &Guard) -> Option<u64> {
        let link = self.top.edge.load(Ordering::Acquire);
        if is_leaf(link) {
            return None;
        }
        // SAFETY: the top is reachable, and its link, if not to nothing, is to an inner node.
        let inner = unsafe { node::<Inner<K, F, W>>(link, guard) };
        Some(inner.left().load(Ordering::Acquire))
    }

    /// The word of a key in the leaf that its search found.
    #[inline]
    fn word_in(link: u64, key: K, guard: &Guard) -> Option<u64> {
        // SAFETY: the link to a leaf was read under the guard from a reachable node.
        let leaf = unsafe { node::<Leaf<K, F>>(link, guard) };
        (leaf.key == key).then_some(leaf.word)
    }

    /// One step of a lookup down.
    #[inline]
    fn child(link: u64, key: K, guard: &Guard) -> u64 {
        // SAFETY: the link to an inner node was read under the guard from a reachable node.
        let inner = unsafe { node::<Inner<K, F, W>>(link, guard) };
        inner.edge(key).load(Ordering::Acquire)
    }

    /// The leaf on a key's path.
    #[inline]
    fn find(&self, key: K, guard: &Guard) -> Option<u64> {
        let mut link = self.first(guard)?;
        while !is_leaf(link) {
            link = Self::child(link, key, guard);
        }
        Some(link)
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> SearchTree<K> for ExtLf<K, F, W> {
    const NAME: &'static str = "ext-lf";

    fn with_placement(placement: Placement) -> Self {
        Self::new(placement)
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> ConcurrentIntMap<K> for ExtLf<K, F, W> {
    #[inline]
    fn get(&self, key: K) -> Option<u64> {
        let guard = &epoch::pin();
        let leaf = if F::LIGHT_LOOKUPS {
            self.find(key, guard)
        } else {
            self.search(key, guard).leaf
        };
        Self::word_in(leaf?, key, guard)
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        let guard = &epoch::pin();
        let start = |key| (key, self.first(guard));
        let step = |(key, link): &mut (K, Option<u64>)| match *link {
            None => Step::Found(None),
            Some(leaf) if is_leaf(leaf) => Step::Found(Self::word_in(leaf, *key, guard)),
            Some(inner) => {
                let child = Self::child(inner, *key, guard);
                prefetch_line(pointer::<u8>(child));
                *link = Some(child);
                Step::Pending
            }
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
    planted(PlantedBug::ExtLfParentNotMarked)
}

impl<K: IntKey, F: Form, W: Word + 'static> Drop for ExtLf<K, F, W> {
    fn drop(&mut self) {
        if keeps_memory() {
            return;
        }
        let top = self.top.edge.load(Ordering::Acquire);
        let mut links = Vec::new();
        if let Some(inner) = NonNull::new(pointer::<Inner<K, F, W>>(top))
            && !is_leaf(top)
        {
            // SAFETY: nobody else has the tree. The first inner node has nothing on its right.
            unsafe {
                links.push(inner.as_ref().left().load(Ordering::Acquire));
                self.inner_nodes.free(inner);
            }
        }
        while let Some(link) = links.pop() {
            // SAFETY: nobody else has the tree, and each of its nodes has one link.
            unsafe {
                if is_leaf(link) {
                    self.leaves.free(NonNull::new_unchecked(pointer(link)));
                    continue;
                }
                let inner = NonNull::new_unchecked(pointer::<Inner<K, F, W>>(link));
                let edges = [inner.as_ref().left(), inner.as_ref().right()];
                links.extend(edges.map(|edge| edge.load(Ordering::Acquire)));
                self.inner_nodes.free(inner);
            }
        }
    }
}
