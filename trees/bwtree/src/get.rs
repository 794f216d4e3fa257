//! Looking up one key: a descent, then its chain.
//!
//! A lookup takes effect when it loads the word of the leaf: at that moment the leaf was
//! responsible for the key, and what its chain says of it was true.

use crate::configuration::Configuration;
use crate::descend::Help;
use crate::epochs::Epochs;
use crate::node::route::Target;
use crate::tree::BwTree;

impl<C: Configuration> BwTree<C> {
    /// Runs `read` on the value of a key; `None` if there is none.
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let guard = self.epochs.pin();
        let leaf = self.find_leaf(Target::At(key), Help::Least, &guard);
        let value = leaf.head.lookup(key).value;
        self.count_lookup(leaf, key, &guard);
        Some(read(value?.get()))
    }

    /// Whether a key is there.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.get_with(key, |_| ()).is_some()
    }
}
