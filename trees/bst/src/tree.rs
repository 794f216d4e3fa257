//! What all trees of this crate have in common beyond the map.

use hedgerow_index::{ConcurrentIntMap, IntKey};
use hedgerow_memory::{Placement, VisitNodes};

/// One of the ten trees, in one of its forms.
pub trait SearchTree<K: IntKey>: ConcurrentIntMap<K> + VisitNodes + Sized {
    /// The name of the tree in Table 1 of "Getting to the Root of Concurrent Binary Search Tree
    /// Performance".
    const NAME: &'static str;

    /// An empty tree whose nodes come from there.
    fn with_placement(placement: Placement) -> Self;

    /// An empty tree whose nodes of each type have a pool of their own.
    fn segregated() -> Self {
        Self::with_placement(Placement::Segregated)
    }
}
