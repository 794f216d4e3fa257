//! What the tree looks like and what happened in it, as numbers.
//!
//! The shape is found by walking the whole tree; events are counted as they happen, in sharded
//! counters and only on rare paths.

use hedgerow_index::Statistics;

use crate::configuration::Configuration;
use crate::node::border::{LAYER, SUFFIX};
use crate::node::{Border, Interior, NODE_BYTES, Node, SuffixBag};
use crate::release::root_at_rest;
use crate::tree::{Masstree, layer_root};
use crate::value::Value;

/// Things that are counted when they happen.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Event {
    Split,
    SequentialSplit,
    InteriorSplit,
    RootRetry,
    LocalRetry,
    Forward,
    LayerCreation,
    LayerCollapse,
    NodeDeletion,
    SlotReuse,
    SuffixGrowth,
    Widening,
}

/// How many kinds of events there are.
pub(crate) const EVENTS: usize = 12;

const EVENT_NAMES: [(&str, &str); EVENTS] = [
    (
        "border_splits",
        "Border nodes split because they were full.",
    ),
    (
        "sequential_splits",
        "Splits that left the full node full, as keys arrive in order.",
    ),
    (
        "interior_splits",
        "Interior nodes split because they were full.",
    ),
    (
        "root_retries",
        "Descents begun again at a root, after a split or a deleted node.",
    ),
    (
        "local_retries",
        "Nodes read again because a writer changed them meanwhile.",
    ),
    (
        "forwards",
        "Steps to a right sibling that a split had made responsible.",
    ),
    (
        "layer_creations",
        "Layers made when two long keys shared a slice.",
    ),
    (
        "layer_collapses",
        "Empty or single-keyed layers taken away.",
    ),
    ("node_deletions", "Empty nodes unlinked."),
    (
        "slot_reuses",
        "Inserts into a slot whose removed key a reader might still see.",
    ),
    (
        "suffix_growths",
        "Suffix bags replaced by a larger external one.",
    ),
    (
        "widenings",
        "Narrow nodes replaced by wider ones because they were full.",
    ),
];

/// The shape of a tree at rest.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Shape {
    pub keys: usize,
    pub border_nodes: usize,
    pub narrow_nodes: usize,
    pub slots: usize,
    pub interior_nodes: usize,
    pub layers: usize,
    pub layer_1_trees: usize,
    pub layer_1_keys: usize,
    pub deepest_layer: usize,
    pub height: usize,
    pub border_bytes: usize,
    pub inline_suffix_bytes: usize,
    pub external_suffix_bytes: usize,
    pub suffix_bytes: usize,
    pub value_bytes: usize,
}

impl Shape {
    /// Adds what was counted.
    fn push(&self, statistics: &mut Statistics) {
        self.push_counts(statistics);
        self.push_sizes(statistics);
    }

    fn push_counts(&self, statistics: &mut Statistics) {
        let counts = [
            ("keys", self.keys, "Keys in the tree."),
            (
                "border_nodes",
                self.border_nodes,
                "Border nodes, all layers.",
            ),
            (
                "narrow_nodes",
                self.narrow_nodes,
                "Of these, those of two or six slots.",
            ),
            (
                "interior_nodes",
                self.interior_nodes,
                "Interior nodes, all layers.",
            ),
            (
                "layers",
                self.layers,
                "B+-trees, the first layer's included.",
            ),
            (
                "layer_1_trees",
                self.layer_1_trees,
                "Of these, those one layer below the first.",
            ),
            (
                "layer_1_keys",
                self.layer_1_keys,
                "Keys in those, not in deeper ones.",
            ),
            (
                "deepest_layer",
                self.deepest_layer,
                "Layers above the deepest one.",
            ),
            ("height", self.height, "Levels of the first layer's tree."),
        ];
        for (name, count, help) in counts {
            statistics.push(name, count as f64, help);
        }
    }

    fn push_sizes(&self, statistics: &mut Statistics) {
        let interior_bytes = self.interior_nodes * NODE_BYTES;
        let total =
            self.border_bytes + interior_bytes + self.external_suffix_bytes + self.value_bytes;
        let entries = (self.keys + self.layers.saturating_sub(1)) as f64;
        let slots = self.slots as f64;
        let per_key = |bytes: usize| bytes as f64 / (self.keys.max(1)) as f64;
        let sizes = [
            (
                "border_fill",
                entries / slots.max(1.0),
                "Share of border slots in use.",
            ),
            (
                "node_bytes",
                (self.border_bytes + interior_bytes) as f64,
                "Bytes of all nodes.",
            ),
            (
                "inline_suffix_bytes",
                self.inline_suffix_bytes as f64,
                "Of these, suffix room.",
            ),
            (
                "external_suffix_bytes",
                self.external_suffix_bytes as f64,
                "External bags.",
            ),
            (
                "suffix_bytes",
                self.suffix_bytes as f64,
                "Bytes of live suffixes.",
            ),
            (
                "value_bytes",
                self.value_bytes as f64,
                "Bytes of value blocks.",
            ),
            ("total_bytes", total as f64, "Nodes, bags and value blocks."),
            ("bytes_per_key", per_key(total), "The same, per key."),
        ];
        for (name, value, help) in sizes {
            statistics.push(name, value, help);
        }
    }
}

/// A node that a walk has still to visit.
struct Unvisited {
    node: *mut Node,
    /// Layers above its own.
    layer: usize,
    /// From 1 at the root of its layer.
    level: usize,
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Numbers that show every mechanism at work. Walks the whole tree.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::new();
        self.shape().push(&mut statistics);
        self.push_counters(&mut statistics);
        statistics
    }

    /// What was counted as it happened. Walks nothing.
    pub fn counters(&self) -> Statistics {
        let mut statistics = Statistics::new();
        self.push_counters(&mut statistics);
        statistics
    }

    fn push_counters(&self, statistics: &mut Statistics) {
        for (index, (name, help)) in EVENT_NAMES.into_iter().enumerate() {
            statistics.push(name, self.counters.sum(index) as f64, help);
        }
    }

    /// Walks the tree. Beside writers, nodes are counted as they are met: a walk is safe, but
    /// its sums are only exact at rest.
    pub(crate) fn shape(&self) -> Shape {
        let guard = C::read(&self.entry);
        let mut shape = Shape::default();
        let root_of = |node, layer| {
            let level = 1;
            Unvisited { node, layer, level }
        };
        let mut nodes = vec![root_of(self.root(), 0)];
        while let Some(Unvisited { node, layer, level }) = nodes.pop() {
            shape.layers += usize::from(level == 1);
            shape.layer_1_trees += usize::from(level == 1 && layer == 1);
            let keys_before = shape.keys;
            shape.deepest_layer = shape.deepest_layer.max(layer);
            // SAFETY: reached under the guard through links read under it.
            let border = unsafe { (*node).version.stable() }.is_border();
            if layer == 0 {
                shape.height = shape.height.max(level);
            }
            if border {
                // SAFETY: as above, and a border node.
                let border = unsafe { &*node.cast::<Border>() };
                self.add_border(&mut shape, border, |root| {
                    // SAFETY: a layer pointer read under the guard.
                    nodes.push(root_of(unsafe { root_at_rest(root) }, layer + 1));
                });
            } else {
                shape.interior_nodes += 1;
                // SAFETY: as above, and not a border node.
                let interior = unsafe { &*node.cast::<Interior>() };
                nodes.extend((0..=interior.count()).map(|index| Unvisited {
                    node: interior.child(index),
                    layer,
                    level: level + 1,
                }));
            }
            if layer == 1 {
                shape.layer_1_keys += shape.keys - keys_before;
            }
        }
        drop(guard);
        shape
    }

    fn add_border(&self, shape: &mut Shape, border: &Border, mut layer: impl FnMut(*mut Node)) {
        shape.border_nodes += 1;
        shape.narrow_nodes += usize::from(border.is_narrow());
        shape.slots += border.width();
        shape.border_bytes += border.block_bytes();
        shape.inline_suffix_bytes += border.inline_suffix_bytes();
        // SAFETY: an external bag is alive as long as the guard's pin.
        if let Some(bag) = unsafe { border.external_bag().as_ref() } {
            shape.external_suffix_bytes += SuffixBag::block_bytes(bag.lines());
        }
        let version = border.version.stable();
        let permutation = border.permutation();
        for slot in (0..permutation.count()).map(|index| permutation.slot(index)) {
            let (length, value) = (border.length(slot), border.value(slot));
            if length != border.length(slot) || !border.version.validate(version) {
                continue; // a writer is here: this slot may be anything
            }
            match length {
                0..=SUFFIX => {
                    shape.keys += 1;
                    // SAFETY: a validated read of a live slot under the guard.
                    shape.value_bytes += unsafe { V::owned_bytes(value) };
                    if length == SUFFIX {
                        // SAFETY: the node is pinned.
                        shape.suffix_bytes += unsafe { border.suffix(slot) }.map_or(0, <[u8]>::len);
                    }
                }
                LAYER => layer(layer_root(value)),
                _ => {}
            }
        }
    }
}
