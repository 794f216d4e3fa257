//! A tree that one thread uses, where its type must be one that threads can share.
//!
//! The compiler refuses to share a tree without compare-and-swap. A benchmark or a test may still
//! hold its maps behind an interface that asks for `Sync`, and use them from one thread. This type
//! checks that it does.

use hedgerow_sync::threads;

use crate::configuration::Configuration;
use crate::tree::BwTree;

/// A tree for the thread that made it.
pub struct OneThread<C: Configuration> {
    tree: BwTree<C>,
    /// The number of the thread that made it.
    owner: usize,
}

// SAFETY: only the thread that made it gets a reference to the tree, since numbers of threads are
// never used again; so no two threads ever use the tree at once.
unsafe impl<C: Configuration> Sync for OneThread<C> {}

impl<C: Configuration> OneThread<C> {
    /// A tree for the calling thread.
    pub fn new(tree: BwTree<C>) -> Self {
        Self {
            tree,
            owner: threads::number(),
        }
    }

    /// The tree. Costs a load and a comparison.
    ///
    /// # Panics
    ///
    /// On any thread but the one that made it.
    #[inline]
    pub fn tree(&self) -> &BwTree<C> {
        assert_eq!(
            threads::number(),
            self.owner,
            "this form of the Bw-tree is for the thread that made it"
        );
        &self.tree
    }

    /// The tree, for another thread.
    pub fn into_tree(self) -> BwTree<C> {
        self.tree
    }
}
