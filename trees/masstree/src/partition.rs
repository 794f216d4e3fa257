//! Cutting the key space into ranges of similar size, for parallel scans.
//!
//! Separators of interior nodes cut it well; a sample of nodes is walked breadth
//! first, from the top layer down, until there are enough split keys to choose from.

use crate::configuration::{Configuration, Latch};
use crate::key::shortest_bytes;
use crate::node::border::LAYER;
use crate::node::{Border, Interior, Node};
use crate::tree::{Masstree, layer_root};
use crate::value::Value;

/// Split keys collected per part wanted, so that choosing evenly among them evens out the parts.
const OVERSAMPLING: usize = 16;

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Up to `parts - 1` ascending keys that cut the key space into ranges of roughly equal
    /// numbers of keys; fewer when the tree is small.
    pub fn partition(&self, parts: usize) -> Vec<Vec<u8>> {
        let guard = C::read(&self.entry);
        let wanted = parts.saturating_sub(1);
        let mut split_keys: Vec<Vec<u8>> = Vec::new();
        let mut nodes = vec![(self.root(), Vec::new())];
        // Whole levels only: half a level would cut the left of the key space alone.
        while wanted > 0 && split_keys.len() < wanted * OVERSAMPLING && !nodes.is_empty() {
            for (node, prefix) in std::mem::take(&mut nodes) {
                self.collect_split_keys(node, &prefix, &mut split_keys, &mut nodes);
            }
        }
        drop(guard);
        split_keys.sort_unstable();
        split_keys.dedup();
        let chosen = wanted.min(split_keys.len());
        let mut keys: Vec<Vec<u8>> = (1..=chosen)
            .map(|i| {
                split_keys[(i * split_keys.len() / (chosen + 1)).min(split_keys.len() - 1)].clone()
            })
            .collect();
        keys.dedup();
        keys
    }

    /// Adds the split keys that one node offers, and the nodes below it.
    fn collect_split_keys(
        &self,
        node: *mut Node,
        prefix: &[u8],
        split_keys: &mut Vec<Vec<u8>>,
        nodes: &mut Vec<(*mut Node, Vec<u8>)>,
    ) {
        // SAFETY: reached under the caller's guard.
        let header = unsafe { &*node };
        let version = Latch::<C>::stable(&header.version);
        let mut found = Vec::new();
        let mut below = Vec::new();
        let split_key = |slice: u64| {
            let (bytes, count) = shortest_bytes(slice);
            [prefix, &bytes[..count]].concat()
        };
        if version.is_border() {
            // SAFETY: as above, and a border node.
            let border = unsafe { &*node.cast::<Border>() };
            let replacement = border.replacement();
            if !replacement.is_null() {
                nodes.push((replacement.cast(), prefix.to_vec()));
                return;
            }
            let permutation = border.permutation();
            for slot in (0..permutation.count()).map(|index| permutation.slot(index)) {
                let slice = border.slice(slot);
                found.push(split_key(slice));
                if border.length(slot) == LAYER {
                    let layer = border.value(slot);
                    if border.length(slot) == LAYER {
                        below.push((layer, [prefix, &slice.to_be_bytes()].concat()));
                    }
                }
            }
        } else {
            // SAFETY: as above, and an interior node.
            let interior = unsafe { &*node.cast::<Interior>() };
            let count = interior.count();
            found.extend((0..count).map(|index| split_key(interior.slice(index))));
            let children = (0..=count).map(|index| (interior.child(index), prefix.to_vec()));
            nodes.extend(children);
        }
        if Latch::<C>::validate(&header.version, version) {
            split_keys.append(&mut found);
            nodes.extend(
                below
                    .into_iter()
                    .map(|(word, prefix)| (layer_root(word), prefix)),
            );
        }
    }
}
