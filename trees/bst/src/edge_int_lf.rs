//! `edge-int-lf`: the lock-free internal tree that marks links, without descriptors (Ramachandran,
//! Mittal: "A Fast Lock-Free Internal Binary Search Tree", ICDCN 2015).
//!
//! ```text
//!  removal of 20, which has two children       i: intent, d: delete, p: promote
//!
//!      │i          1. intent: the link to it        │        4. the replacement: 20's place,
//!    ┌─┴──┐        2. its links are frozen        ┌─┴──┐        and the pair of 30
//!    │ 20 │                                       │ 30 │
//!   d└┬──┬┘d       3. the least node to the       └┬──┬┘p    5. 30's node is unlinked
//!    10  40           right is promoted:          10  40     6. the flag p is taken away
//!      ┌─┘            its left null has p           ┌─┘
//!      30 p                                         30 p
//! ```
//!
//! # Operations
//!
//! A link is where it leads and a [`Flag`](node::Flag); every step is one compare-and-swap of a
//! link, and whoever meets a flag takes the next steps.
//!
//! * An **insertion** swaps a clean null for a leaf.
//! * A **removal** is injected by [`Intent`](node::Flag::Intent) on the link to the node. Then the
//!   node's left and right link are frozen by [`Delete`](node::Flag::Delete). If a link is null the
//!   other child takes the node's place. Otherwise the next greater pair's node is discovered, and
//!   promoted: its left null gets [`Promote`](node::Flag::Promote), its right link is frozen. A new
//!   node with that pair takes the place of the removed one; then the promoted node is unlinked.
//! * The left link of a node decides whether it is removed or promoted: it is frozen once. A
//!   removal that finds its node promoted begins again, with the node that has the pair now. The
//!   intent is then no obstacle to the unlinking.
//! * A link that has an intent is not frozen, and a frozen one gets no intent: so each step waits
//!   only for steps further down (a child's removal before the freezing), except for a promotion,
//!   which is completed from the removed node further up. A descent from the root helps the first
//!   flag that it meets, so it always finds what everything else waits for.
//!
//! # Why answers are right
//!
//! A node has its key and value for life, and a node that is linked stands for its pair in the map:
//! also a promoted one, since its replacement is not removed before it is unlinked (the flag on the
//! replacement's right link prevents its freezing). A lookup that finds its key in a node has seen
//! it linked since the lookup began, so it validates nothing.
//!
//! A lookup that ends at a null may have missed a pair that was promoted past it. That pair takes
//! the place of the node at which the lookup last went to the right, whose right link is frozen
//! before. So a null counts if it has no flag, and if that right link is not frozen afterwards. An
//! insertion's null is moreover the same one when it is swapped: nulls are numbered and never come
//! again (module `node`), and promoting its node would have flagged it.
//!
//! Helpers that are late do no harm: the link to a removed node, a clean link that is frozen, and a
//! null that is promoted never come again. The least node is promoted only if its null was read
//! before a check that the removed node is still linked: if it is replaced afterwards, then by the
//! pair of this node, or after an insertion that swapped this null.
//!
//! # Memory
//!
//! Whoever's compare-and-swap unlinks a node retires it (the one that installs a replacement
//! retires the removed node, and the promoted one if that was its child). No link names a node that
//! the thread did not reach from the root under its own pin: helpers know an operation by the links
//! that they met, so one grace period does.
//!
//! # Departures from the paper
//!
//! Values. A promotion puts the pair into a new node at once, where the paper writes the key into
//! the old node and then replaces that; so nodes have no words but links that change, pairs are
//! consistent, and hits need no validation. A promoted node does not point back to the node that
//! its pair goes to, which may be freed before; descents find that. Nulls are numbered, where the
//! paper's keep an address, which may come again once memory is reclaimed. Lookups do not help.

mod core;
mod node;
mod promote;
mod seek;
mod update;
mod walk;

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

use hedgerow_index::{ConcurrentIntMap, IntKey, Statistics};
use hedgerow_memory::{PlacedNode, Placement, VisitNodes};
use hedgerow_sync::epoch;

use self::core::Core;
use crate::form::{Form, HeavyLookups, Improved};
use crate::interleave::interleave;
use crate::tree::SearchTree;
use crate::twin::TreeWord;

/// The lock-free internal tree that marks links. Nodes take 32 bytes.
///
/// # Examples
///
/// ```
/// use hedgerow_bst::{EdgeIntLf, SearchTree};
/// use hedgerow_index::ConcurrentIntMap;
///
/// let map: EdgeIntLf<u32> = EdgeIntLf::segregated();
/// assert_eq!(map.insert(3, 30), None);
/// assert_eq!(map.insert(3, 31), Some(30));
/// assert_eq!(map.get(3), Some(30));
/// assert_eq!(map.remove(3), Some(30));
/// ```
pub struct EdgeIntLf<K, F: Form = Improved, W: TreeWord = AtomicU64> {
    core: Core<F, W>,
    keys: PhantomData<fn() -> K>,
}

/// As published: lookups take the descent of updates (Table 3).
pub type BaselineEdgeIntLf<K> = EdgeIntLf<K, HeavyLookups<Improved>>;

impl<K: IntKey, F: Form, W: TreeWord> SearchTree<K> for EdgeIntLf<K, F, W> {
    const NAME: &'static str = "edge-int-lf";

    fn with_placement(placement: Placement) -> Self {
        Self {
            core: Core::new(placement),
            keys: PhantomData,
        }
    }
}

impl<K: IntKey, F: Form, W: TreeWord> ConcurrentIntMap<K> for EdgeIntLf<K, F, W> {
    fn get(&self, key: K) -> Option<u64> {
        self.core.get(key.encode().into(), &epoch::pin())
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<u64>)) {
        let guard = epoch::pin();
        interleave(
            keys,
            |key| self.core.lookup(key.encode().into(), &guard),
            |lookup| self.core.step_of_many(lookup),
            read,
        );
    }

    fn insert(&self, key: K, word: u64) -> Option<u64> {
        self.core.insert(key.encode().into(), word, &epoch::pin())
    }

    fn remove(&self, key: K) -> Option<u64> {
        self.core.remove(key.encode().into(), &epoch::pin())
    }

    fn statistics(&self) -> Statistics {
        self.core.statistics()
    }

    fn verify(&self) -> Result<(), String> {
        self.core.verify()
    }
}

impl<K, F: Form, W: TreeWord> VisitNodes for EdgeIntLf<K, F, W> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.core.visit_nodes(visit);
    }
}
