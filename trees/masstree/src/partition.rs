//! Cutting the key space into ranges of similar size, for parallel scans.
//!
//! Separators of interior nodes already cut it well; a sample of nodes is walked breadth
//! first, from the top layer down, until there are enough cuts to choose from.

use crate::configuration::{Configuration, Latch};
use crate::key::shortest_bytes;
use crate::node::border::LAYER;
use crate::node::{Border, Interior, Node};
use crate::tree::{Masstree, layer_root};
use crate::value::Value;

/// Cuts gathered per part wanted, so that choosing evenly among them evens out the parts.
const OVERSAMPLING: usize = 16;

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Up to `parts - 1` ascending keys that cut the key space into ranges of roughly equal
    /// numbers of keys; fewer when the tree is small.
    pub fn partition(&self, parts: usize) -> Vec<Vec<u8>> {
        let guard = C::read(&self.entry);
        let wanted = parts.saturating_sub(1);
        let mut cuts: Vec<Vec<u8>> = Vec::new();
        let mut nodes = vec![(self.root(), Vec::new())];
        // Whole levels only: half a level would cut the left of the key space alone.
        while wanted > 0 && cuts.len() < wanted * OVERSAMPLING && !nodes.is_empty() {
            for (node, prefix) in std::mem::take(&mut nodes) {
                self.gather(node, &prefix, &mut cuts, &mut nodes);
            }
        }
        drop(guard);
        cuts.sort_unstable();
        cuts.dedup();
        let chosen = wanted.min(cuts.len());
        let mut keys: Vec<Vec<u8>> = (1..=chosen)
            .map(|i| cuts[(i * cuts.len() / (chosen + 1)).min(cuts.len() - 1)].clone())
            .collect();
        keys.dedup();
        keys
    }

    /// Adds the cuts that one node offers, and the nodes below it.
    fn gather(
        &self,
        node: *mut Node,
        prefix: &[u8],
        cuts: &mut Vec<Vec<u8>>,
        nodes: &mut Vec<(*mut Node, Vec<u8>)>,
    ) {
        // SAFETY: reached under the caller's guard.
        let header = unsafe { &*node };
        let version = Latch::<C>::stable(&header.version);
        let mut found = Vec::new();
        let mut below = Vec::new();
        let cut = |slice: u64| {
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
                found.push(cut(slice));
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
            found.extend((0..count).map(|index| cut(interior.slice(index))));
            let children = (0..=count).map(|index| (interior.child(index), prefix.to_vec()));
            nodes.extend(children);
        }
        if Latch::<C>::validate(&header.version, version) {
            cuts.append(&mut found);
            nodes.extend(
                below
                    .into_iter()
                    .map(|(word, prefix)| (layer_root(word), prefix)),
            );
        }
    }
}
