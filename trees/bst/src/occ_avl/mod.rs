//! `occ-avl`: the relaxed-balance AVL tree of Bronson, Casper, Chafi and Olukotun ("A Practical
//! Concurrent Binary Search Tree", PPoPP 2010), by optimistic concurrency control.
//!
//! # Structure
//!
//! An internal tree that is partially external: a removed item with two children stays as a
//! *router*, a node without a word, until it has fewer; an insert of its key makes it an item
//! again. The root is the right child of a *holder*, a node that has no key and stays, so that
//! every key of the type can be stored. `node` draws the nodes.
//!
//! # Protocol
//!
//! Searches take no locks (`search`). A node's *version* changes when its range of keys shrinks,
//! which is when a rotation moves it down, and when it is unlinked; it does not when the range
//! grows. So a search that was in a node's range at some version still is if the version is the
//! same, and a link that it read there leads to where its key is. `Recursive` goes back one node
//! when a validation fails, and `FromRoot` starts again.
//!
//! Updates lock (`update`): an insert the node whose empty link it fills, a removal the node, and
//! its parent if it unlinks the node. Rotations (`repair`) lock the parent, the node and what
//! rises. Locks are taken from parents to children. As a node's children stay while it is locked,
//! no circle of threads can wait.
//!
//! `get` of an absent key takes effect when it reads the empty link: the node's version, read
//! afterwards, says that the key was in the node's range. `get` of a present key takes effect when
//! it reads the word, or, if the node was unlinked and its key inserted elsewhere since the search
//! passed the link to it, when that removal did.
//!
//! Scans (`scan`) are searches that remember the path.
//!
//! # Reclamation
//!
//! A node is unlinked under the locks of its parent and itself. It has at most one child, which
//! gets its parent as a parent, so afterwards neither a link nor a parent link in the tree names
//! it, and the thread that unlinked it retires it through the epochs. A thread that pins later
//! begins at the holder. It could come to the node only by way of another unlinked node, m. If m
//! left the tree first, before the thread pinned, the thread does not reach m (by the same
//! argument, as m left before the node did). If the node left first, m did not name it any more
//! when m left. So nobody reads a node that is freed.
//!
//! # What departs from the paper
//!
//! * Versions count what shrinks and not what grows, as no search asks for the latter.
//! * Words are any 64 bits, so a node's state says whether there is one; it is read before and
//!   after the word.
//! * A thread looks again at whatever it wrote (`repair` says why): at rest every node is
//!   balanced and no router lacks a child.
//! * Heights share a word with the state, under the node's lock.

mod frozen;
mod inspect;
#[cfg(test)]
mod interleavings;
mod node;
mod repair;
mod scan;
mod search;
mod update;

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use hedgerow_index::{ConcurrentIntMap, IntKey, Statistics};
use hedgerow_memory::Placement;
use hedgerow_sync::word::Word;
use hedgerow_sync::{Counters, epoch};

pub use self::frozen::FrozenOccAvl;
use self::node::{Node, Side};
pub(crate) use self::update::Change;
use crate::form::{Form, Improved, Padded};
use crate::node_pool::NodePool;
use crate::tree::SearchTree;

/// Counters: searches that went back, rotations of either kind, and nodes that were unlinked.
const RETRIES: usize = 0;
const ROTATIONS: usize = 1;
const DOUBLE_ROTATIONS: usize = 2;
const UNLINKS: usize = 3;

/// What a search does when a validation fails.
pub trait Validation: Send + Sync + 'static {
    /// The tree's name in the paper, without padding and with it.
    const NAMES: [&'static str; 2];
    /// Whether the search starts again from the root, not from the node above.
    const FROM_ROOT: bool;
    /// Whether a thread that corrected a node's height looks at the node again. The published
    /// algorithm does not; a test shows what comes of it.
    #[doc(hidden)]
    const LOOKS_AGAIN: bool = true;
}

/// Searches remember their path, as the recursive ones of the paper do, and a failed validation
/// goes back one node, as published. Remembering takes five instructions a node.
#[derive(Debug, Clone, Copy)]
pub struct Recursive;

impl Validation for Recursive {
    const NAMES: [&'static str; 2] = ["occ-avl", "occ-avl-2"];
    const FROM_ROOT: bool = false;
}

/// Searches are loops that remember no path; a failed validation starts again from the root (§3.3).
#[derive(Debug, Clone, Copy)]
pub struct FromRoot;

impl Validation for FromRoot {
    const NAMES: [&'static str; 2] = ["occ-avl-2-ret"; 2];
    const FROM_ROOT: bool = true;
}

/// The relaxed-balance AVL tree, `occ-avl` in the paper's tables.
///
/// # Examples
///
/// ```
/// use hedgerow_bst::{OccAvl, SearchTree};
/// use hedgerow_index::ConcurrentIntMap;
///
/// let tree: OccAvl<u64> = OccAvl::segregated();
/// assert_eq!(tree.insert(7, 70), None);
/// assert_eq!(tree.insert(7, 71), Some(70));
/// assert_eq!(tree.remove(7), Some(70));
/// assert_eq!(tree.get(7), None);
/// ```
pub struct OccAvl<
    K: IntKey,
    F: Form = Improved,
    V: Validation = Recursive,
    W: Word + 'static = AtomicU64,
> {
    holder: Box<Node<K, F, W>>,
    pool: NodePool<Node<K, F, W>>,
    counters: Counters<4>,
    validation: PhantomData<V>,
}

/// `occ-avl-2`: nodes of a cache line, searches that go back one node.
pub type OccAvl2<K, F = Improved> = OccAvl<K, Padded<F>, Recursive>;

/// `occ-avl-2-ret`: nodes of a cache line, searches that start again from the root.
pub type OccAvl2Ret<K, F = Improved> = OccAvl<K, Padded<F>, FromRoot>;

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> OccAvl<K, F, V, W> {
    fn empty(placement: Placement) -> Self {
        const { assert!(W::SHARED, "threads share the tree") };
        Self {
            holder: Box::new(Node::holder()),
            pool: NodePool::new("occ-avl node", placement),
            counters: Counters::new(),
            validation: PhantomData,
        }
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> Drop for OccAvl<K, F, V, W> {
    fn drop(&mut self) {
        let mut left = vec![self.holder.link(Side::Right)];
        while let Some(address) = left.pop() {
            let node = std::ptr::with_exposed_provenance_mut::<Node<K, F, W>>(address as usize);
            let Some(pointer) = NonNull::new(node) else {
                continue;
            };
            // SAFETY: nobody else has the tree, and each of its nodes has one link to it. Nodes
            // that were unlinked are retired and not in the tree.
            unsafe {
                let node = pointer.as_ref();
                left.extend([node.link(Side::Left), node.link(Side::Right)]);
                self.pool.free(pointer);
            }
        }
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> SearchTree<K> for OccAvl<K, F, V, W> {
    const NAME: &'static str = V::NAMES[(align_of::<F::Line>() > 1) as usize];

    fn with_placement(placement: Placement) -> Self {
        Self::empty(placement)
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> ConcurrentIntMap<K>
    for OccAvl<K, F, V, W>
{
    #[inline]
    fn get(&self, key: K) -> Option<u64> {
        self.lookup(key.encode(), &epoch::pin())
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        self.lookup_many(keys, &epoch::pin(), read);
    }

    fn insert(&self, key: K, word: u64) -> Option<u64> {
        self.insert_new(key.encode(), word, &epoch::pin())
    }

    fn remove(&self, key: K) -> Option<u64> {
        self.remove_key(key.encode(), &epoch::pin())
    }

    fn statistics(&self) -> Statistics {
        self.describe()
    }

    fn verify(&self) -> Result<(), String> {
        self.check()
    }
}
