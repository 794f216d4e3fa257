//! `int-lf`: the lock-free internal tree with descriptors (Howley, Jones: "A Non-Blocking Internal
//! Binary Search Tree", SPAA 2012).
//!
//! ```text
//!            ┌──────┐                  each node: key, two links, an op word
//!            │ root │  no key          op: descriptor of the last operation, and a flag
//!            └──┬───┘
//!         ┌─────┴─────┐   Relocate     ┌───────────────────────────┐
//!         │ 20 → 30   ├───────────────►│ relocation: 20 becomes 30 │
//!         └┬─────────┬┘                └─────────▲─────────────────┘
//!       ┌──┴─┐    ┌──┴─┐   Relocate, then Mark   │
//!       │ 10 │    │ 30 ├─────────────────────────┘
//!       └────┘    └────┘
//! ```
//!
//! # Operations
//!
//! * **A change of a link** (of an insertion, or of an unlinking) is described, the parent's `op`
//!   is swapped for the descriptor with [`ChildCas`](node::Flag::ChildCas), the link is swapped,
//!   and the flag is taken away. Whoever meets the flag does the last two steps.
//! * **A key of a node with at most one child** is removed by [`Mark`](node::Flag::Mark), and the
//!   node is unlinked by a change of its parent's link.
//! * **A key of a node with two children** (the target) is replaced by the next greater pair, the
//!   source's. The source's `op` gets the relocation first, then the target's, if that has not
//!   changed since it was chosen: this decides. Then the target gets the pair and loses its flag,
//!   and the source is marked and unlinked.
//!
//! A removal takes effect when the mark or the decision is made, an insertion when its link is
//! swapped. A search that does not find its key validates two `op` words: that of the last node at
//! which it went to the right, since a relocation to that node is what moves a key off the search's
//! path; and that of the last node. Lookups that meet a flag, or fail to validate, take the descent
//! of updates, which helps.
//!
//! # Memory
//!
//! What an `op` word names is retired by whoever swaps it for another name, a node by whoever takes
//! the flag of its unlinking away. The original never frees descriptors, so that no word holds the
//! same address again ("Getting to the Root…", §3.2.3). Ours are freed, because:
//!
//! * An `op` word keeps its descriptor's address, without flag, until the next operation's is
//!   there. So it holds an address again only after that was freed and allocated once more.
//! * Nothing that an operation names is freed while a helper can have the operation. A helper finds
//!   the operation while the thread that described it is pinned, since that thread returns only
//!   when the operation's flags are gone. What the operation names was linked or named under that
//!   thread's pin. It may have been retired before the *helper* pinned: another removal may unlink
//!   a relocation's target before the source is found. One grace period would not do then. So
//!   everything is retired for two of them
//!   ([`retire_after_two_grace_periods`](hedgerow_sync::epoch::retire_after_two_grace_periods)):
//!   the first lasts until the describing thread is unpinned, the second until its helpers are.
//! * A null link is a number, greater than all that the link had before: a new leaf's nulls are
//!   greater than the null that it replaces, and the null that replaces a leaf is greater than the
//!   leaf's. (The original's null names the node that was unlinked, whose address may come again
//!   long before the null is replaced.) So a helper that is late inserts nothing twice.
//! * A relocation's descriptor stays as long as its value is in use (module `node`).
//!
//! # Departures from the paper
//!
//! Values (module `node`), numbered nulls, and reclamation; a removal returns when its node is
//! unlinked, where the original leaves that to later descents, so that a quiet tree has neither
//! marks nor flags; lookups do not help unless they must.

mod core;
mod descriptor;
mod help;
mod node;
mod seek;
mod update;
mod walk;

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

use hedgerow_index::{ConcurrentIntMap, IntKey, Statistics};
use hedgerow_memory::{PlacedNode, Placement, VisitNodes};
use hedgerow_sync::epoch;

use self::core::Core;
use crate::form::{Form, Improved, Padded};
use crate::interleave::interleave;
use crate::tree::SearchTree;
use crate::twin::TreeWord;

/// The lock-free internal tree with descriptors.
///
/// Nodes take 48 bytes and descriptors 64. With [`Padded`] nodes take 64 as well, so that
/// [`Placement::Merged`] takes both from one size class, as the original does (Table 4 of "Getting
/// to the Root of Concurrent Binary Search Tree Performance").
///
/// # Examples
///
/// ```
/// use hedgerow_bst::{IntLf, SearchTree};
/// use hedgerow_index::ConcurrentIntMap;
///
/// let map: IntLf<i32> = IntLf::segregated();
/// assert_eq!(map.insert(-3, 30), None);
/// assert_eq!(map.insert(-3, 31), Some(30));
/// assert_eq!(map.get(-3), Some(30));
/// assert_eq!(map.remove(-3), Some(30));
/// ```
pub struct IntLf<K, F: Form = Improved, W: TreeWord = AtomicU64> {
    core: Core<F, W>,
    keys: PhantomData<fn() -> K>,
}

/// With padded nodes of 64 bytes, the size of descriptors.
pub type PaddedIntLf<K> = IntLf<K, Padded>;

/// As published: nodes are padded (Table 3).
pub type BaselineIntLf<K> = PaddedIntLf<K>;

impl<K: IntKey, F: Form, W: TreeWord> SearchTree<K> for IntLf<K, F, W> {
    const NAME: &'static str = "int-lf";

    fn with_placement(placement: Placement) -> Self {
        Self {
            core: Core::new(placement),
            keys: PhantomData,
        }
    }
}

impl<K: IntKey, F: Form, W: TreeWord> ConcurrentIntMap<K> for IntLf<K, F, W> {
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

impl<K, F: Form, W: TreeWord> VisitNodes for IntLf<K, F, W> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.core.visit_nodes(visit);
    }
}
