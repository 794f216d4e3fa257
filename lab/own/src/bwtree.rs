//! Our Bw-tree, in any of its configurations, as the engine uses it: values are byte strings.
//!
//! A bulk load makes a new tree, so the tree lies in a cell that is filled with its first use: one
//! load and one branch for each operation.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use hedgerow_bwtree::{BwTree, Configuration, Standard};
use hedgerow_index::{Decision, ScanRange};

use super::masstree::InlinedIndex;

/// A Bw-tree that is empty, or bulk loaded, at its first use.
pub struct Delta<C: Configuration = Standard>(OnceLock<BwTree<C>>);

impl<C: Configuration> Default for Delta<C> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<C: Configuration> Delta<C> {
    /// The tree, made at its first use.
    #[inline]
    pub fn tree(&self) -> &BwTree<C> {
        self.0.get_or_init(BwTree::new)
    }
}

impl<C: Configuration> InlinedIndex for Delta<C> {
    #[inline]
    fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.tree().get_with(key, read)
    }

    #[inline]
    fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<&[u8]>)) {
        self.tree().get_many(keys, read);
    }

    #[inline]
    fn update_with<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> R {
        self.tree().update_with(key, new, decide)
    }

    #[inline]
    fn scan_range(
        &self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        self.tree().scan_range(range, visit);
    }

    fn bulk_load<'k>(&self, pairs: impl Iterator<Item = (&'k [u8], [u8; 8])>) -> bool {
        if self.0.get().is_some() {
            return false;
        }
        let tree = BwTree::bulk_load(pairs).expect("a sorted run of keys ascends");
        self.0.set(tree).is_ok()
    }
}
