//! Cutting the key space into parts of similar numbers of keys: what a node leads to.
//!
//! A slice may lead to one key or to a layer of millions, so [`hedgerow_index::split_keys`]
//! estimates how many keys there are.

use hedgerow_index::{Add, Below, split_keys};
use hedgerow_sync::epoch;

use super::entry::{Entry, entry};
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::scan::least_key;
use crate::served::Capacity;
use crate::served::tree::Node;

/// A node, and what its keys begin with.
type Place<'g> = (Node<u64>, &'g [u8]);

/// Tells what a node leads to; nothing if it is not linked any more.
///
/// # Safety
///
/// The node was linked under a guard that lasts for `'g`.
unsafe fn open<'g, C: Capacity>((node, prefix): Place<'g>, add: &mut Add<'_, Place<'g>>) {
    if let Some((separators, children)) = node.branches() {
        let froms = separators
            .iter()
            .map(|&separator| least_key(prefix, separator.saturating_add(1)));
        for (from, &child) in std::iter::once(prefix.to_vec()).chain(froms).zip(&children) {
            add(&from, Below::Node((child, prefix)));
        }
        return;
    }
    for (slice, word) in node.pairs().unwrap_or_default() {
        // SAFETY: read and validated just now, under the caller's guard.
        let (keys, layer) = unsafe { contents::<C>(word) };
        if keys > 0 {
            add(&least_key(prefix, slice), Below::Keys(keys));
        }
        if let Some(layer) = layer
            && let Some(top) = layer.tree.top()
        {
            add(layer.prefix, Below::Node((top, layer.prefix)));
        }
    }
}

/// What the word of a slice names: so many items, and the layer of longer keys.
///
/// # Safety
///
/// As for [`entry`].
unsafe fn contents<'g, C: Capacity>(word: u64) -> (u64, Option<Layer<'g, C>>) {
    // SAFETY: as the caller promises; a linked bucket names a linked layer.
    unsafe {
        match entry::<C>(word) {
            Entry::Item(_) => (1, None),
            Entry::Layer(layer) => (0, Some(layer)),
            Entry::Bucket(bucket) => {
                let layer = (bucket.layer != 0).then(|| Layer::load(bucket.layer));
                (bucket.heads.len() as u64, layer)
            }
        }
    }
}

impl<C: Capacity> MatryoshkaIndex<C> {
    /// Up to `parts - 1` ascending keys that cut the key space into parts of similar numbers of
    /// keys, in whatever layers they are.
    pub(crate) fn split_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        let guard = epoch::pin();
        let Some(top) = self.tree.top() else {
            return Vec::new();
        };
        let keys = split_keys(parts, (top, &[][..]), |&place, add| {
            // SAFETY: reached from the top, under the guard.
            unsafe { open::<C>(place, add) };
        });
        drop(guard);
        keys
    }
}
