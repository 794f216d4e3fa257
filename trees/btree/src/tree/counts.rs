//! What a tree consists of, by kind of page.

use std::collections::HashSet;

use hedgerow_index::Statistics;

use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::key::layer_root;
use crate::node::layout::Kind;
use crate::node::leaf::FormOf;
use crate::node::page::{Image, PageNumber};
use crate::node::shared_overflow::slot_bytes;
use crate::node::slotted::Comparison;
use crate::tree::walk::ReadPages;

/// Pages by kind, and what is in them.
#[derive(Default)]
pub(crate) struct Counts {
    nodes: usize,
    inner: usize,
    comparison: usize,
    fingerprint: usize,
    semi_dense: usize,
    fully_dense: usize,
    places: usize,
    dense_records: usize,
    overflow: usize,
    slot_pages: HashSet<PageNumber>,
    /// Bytes of shared overflow pages' slots that records have, their unused ends included.
    slot_bytes: usize,
    layers: usize,
    depth: usize,
    prefix_bytes: usize,
    free_bytes: usize,
    /// Children of all inner nodes.
    children: usize,
    /// Records of all leaves.
    records: usize,
    /// Inner nodes of the first layer by level, that of its root first.
    levels: Vec<Level>,
    leaf_heads: Heads,
    inner_heads: Heads,
    leaf_ranges: HintedRanges,
}

/// Pairs of adjacent keys in nodes that keep heads (§4.2).
#[derive(Default)]
struct Heads {
    pairs: usize,
    distinct: usize,
}

impl Heads {
    /// Counts the pairs of a sorted node.
    fn add<C: Configuration, const PAGE: usize>(&mut self, image: &Image<PAGE>) {
        if C::HEAD == 0 {
            return;
        }
        let head = |index| image.head_at::<Comparison<C>>(index);
        let pairs = 1..image.count();
        self.pairs += pairs.len();
        self.distinct += pairs.filter(|&n| head(n) != head(n - 1)).count();
    }

    /// Adds the part of the pairs that heads tell apart, if there are any pairs.
    fn push(&self, all: &mut Statistics, name: &'static str, help: &'static str) {
        if self.pairs > 0 {
            all.push(name, self.distinct as f64 / self.pairs as f64, help);
        }
    }
}

/// What hints leave to searches for the records of sorted leaves (§4.3).
#[derive(Default)]
struct HintedRanges {
    records: usize,
    /// For each of the records, the part of its leaf that is left.
    parts: f64,
}

impl HintedRanges {
    /// Counts a search for each record of a sorted leaf.
    fn add<C: Configuration, const PAGE: usize>(&mut self, leaf: &Image<PAGE>) {
        let records = leaf.count();
        let left = (0..records).map(|index| leaf.hinted_records::<Comparison<C>>(index));
        self.records += records;
        self.parts += left.sum::<usize>() as f64 / records.max(1) as f64;
    }

    /// Adds the mean part, if there are any records.
    fn push(&self, all: &mut Statistics) {
        if self.records > 0 {
            all.push(
                "leaf_hinted_range_ratio",
                self.parts / self.records as f64,
                "Part of a comparison leaf's records that hints leave to a search for one of them, \
                 on average.",
            );
        }
    }
}

/// Inner nodes that are equally far from the root.
#[derive(Clone, Default)]
struct Level {
    nodes: usize,
    children: usize,
}

/// Statistics of the levels of inner nodes, those right above the leaves first. Where inner nodes
/// have ten children each, a tree with more levels has over a million leaves.
const LEVELS: [(&str, &str); 6] = [
    (
        "level_1_children",
        "Children of an inner node right above the leaves of the first layer, on average.",
    ),
    (
        "level_2_children",
        "Children of an inner node one level further up, on average.",
    ),
    (
        "level_3_children",
        "Children of an inner node two levels further up, on average.",
    ),
    (
        "level_4_children",
        "Children of an inner node three levels further up, on average.",
    ),
    (
        "level_5_children",
        "Children of an inner node four levels further up, on average.",
    ),
    (
        "level_6_children",
        "Children of an inner node five levels further up, on average.",
    ),
];

/// A node that the walk has still to visit.
struct OpenNode {
    page: PageNumber,
    /// The levels down to it, its own included.
    depth: usize,
    /// Whether it is of the first layer.
    first: bool,
}

impl Counts {
    /// Adds what was counted of a tree with so many keys and pages.
    pub(crate) fn push<const PAGE: usize>(&self, all: &mut Statistics, keys: usize, live: usize) {
        all.push("keys", keys as f64, "Keys in the tree.");
        all.push(
            "depth_levels",
            self.depth as f64,
            "Levels of the first layer.",
        );
        self.push_nodes(all);
        self.push_fan_out(all);
        self.push_overflow::<PAGE>(all);
        let mut push = |name, value: f64, help| all.push(name, value, help);
        push(
            "layers",
            self.layers as f64,
            "Trees, the first and those of long keys.",
        );
        push("page_bytes", PAGE as f64, "Size of a page.");
        push("live_bytes", (live * PAGE) as f64, "Bytes of pages in use.");
        push(
            "bytes_per_key",
            (live * PAGE) as f64 / keys.max(1) as f64,
            "Bytes of pages in use for each key.",
        );
        let leaves = self.leaves() as f64;
        push(
            "leaf_prefix_bytes",
            self.prefix_bytes as f64 / leaves,
            "Bytes that the keys of a leaf leave out, on average.",
        );
        push(
            "leaf_fill_ratio",
            1.0 - self.free_bytes as f64 / (leaves * PAGE as f64),
            "Part of the leaves' bytes that is in use.",
        );
    }

    /// All leaves.
    fn leaves(&self) -> usize {
        self.comparison + self.fingerprint + self.semi_dense + self.fully_dense
    }

    /// Adds the nodes by kind.
    fn push_nodes(&self, all: &mut Statistics) {
        let mut push = |name, value: f64, help| all.push(name, value, help);
        push("inner_nodes", self.inner as f64, "Nodes of separators.");
        push(
            "comparison_leaves",
            self.comparison as f64,
            "Leaves in key order.",
        );
        push(
            "fingerprint_leaves",
            self.fingerprint as f64,
            "Leaves of fingerprints.",
        );
        push(
            "semi_dense_leaves",
            self.semi_dense as f64,
            "Leaves with a slot for each possible key.",
        );
        push(
            "fully_dense_leaves",
            self.fully_dense as f64,
            "Leaves that are arrays of values.",
        );
        push(
            "dense_taken_ratio",
            self.dense_records as f64 / self.places.max(1) as f64,
            "Part of the places of dense leaves that is taken.",
        );
    }

    /// Adds how many children inner nodes have, and records leaves (§4.4). Of the levels, those
    /// that the tree has.
    fn push_fan_out(&self, all: &mut Statistics) {
        let mean = |sum: usize, count: usize| sum as f64 / count.max(1) as f64;
        all.push(
            "inner_children",
            mean(self.children, self.inner),
            "Children of an inner node, on average.",
        );
        for (level, (name, help)) in self.levels.iter().rev().zip(LEVELS) {
            all.push(name, mean(level.children, level.nodes), help);
        }
        all.push(
            "leaf_records",
            mean(self.records, self.leaves()),
            "Records of a leaf, on average.",
        );
        self.leaf_heads.push(
            all,
            "leaf_distinct_heads_ratio",
            "Part of adjacent keys in comparison leaves whose heads differ.",
        );
        self.inner_heads.push(
            all,
            "inner_distinct_heads_ratio",
            "Part of adjacent keys in inner nodes whose heads differ.",
        );
        self.leaf_ranges.push(all);
    }

    /// Adds the pages of long values.
    fn push_overflow<const PAGE: usize>(&self, all: &mut Statistics) {
        let mut push = |name, value: f64, help| all.push(name, value, help);
        push(
            "overflow_pages",
            self.overflow as f64,
            "Pages of long values and keys that one record has for itself.",
        );
        push(
            "shared_overflow_pages",
            self.slot_pages.len() as f64,
            "Pages that the ends of several long values share.",
        );
        push(
            "shared_overflow_taken_ratio",
            self.slot_bytes as f64 / (self.slot_pages.len() * PAGE).max(1) as f64,
            "Part of such pages that is taken.",
        );
    }

    /// Walks over a tree.
    pub(crate) fn of_tree<C: Configuration, const PAGE: usize>(
        pages: &impl ReadPages<PAGE>,
        root: PageNumber,
    ) -> Result<Self, String> {
        let mut counts = Self::default();
        let below = |page, depth, first| OpenNode { page, depth, first };
        let mut open = vec![below(root, 1, true)];
        counts.layers = 1;
        while let Some(OpenNode { page, depth, first }) = open.pop() {
            let image = pages.read(page)?;
            counts.nodes += 1;
            if image.is_inner() {
                counts.inner_node(image.count() + 1, depth, first);
                counts.inner_heads.add::<C, PAGE>(&image);
                for index in 0..=image.count() {
                    open.push(below(image.child::<Comparison<C>>(index), depth + 1, first));
                }
                continue;
            }
            // All leaves of a layer are equally deep.
            if first {
                counts.depth = depth;
            }
            counts.records += image.count();
            let kind = match image.form::<C>() {
                FormOf::Comparison => &mut counts.comparison,
                FormOf::Fingerprint => &mut counts.fingerprint,
                FormOf::SemiDense => &mut counts.semi_dense,
                FormOf::FullyDense => &mut counts.fully_dense,
            };
            *kind += 1;
            if image.form::<C>() == FormOf::Comparison {
                counts.leaf_heads.add::<C, PAGE>(&image);
                counts.leaf_ranges.add::<C, PAGE>(&image);
            }
            counts.prefix_bytes += image.prefix_len();
            counts.free_bytes += image.node_free::<C>().0;
            if image.is_dense() {
                counts.places += image.places();
                counts.dense_records += image.count();
            }
            for index in image.all_taken::<C>() {
                let payload = image.payload(image.leaf_record::<C>(index));
                if payload.kind == Kind::Layer {
                    counts.layers += 1;
                    open.push(below(layer_root(payload), depth + 1, false));
                }
                if matches!(payload.kind, Kind::Overflow | Kind::Long) {
                    counts.chain::<PAGE>(&Chain::read::<PAGE>(payload));
                }
            }
        }
        Ok(counts)
    }

    fn inner_node(&mut self, children: usize, depth: usize, first: bool) {
        self.inner += 1;
        self.children += children;
        if first {
            let levels = self.levels.len().max(depth);
            self.levels.resize(levels, Level::default());
            self.levels[depth - 1].nodes += 1;
            self.levels[depth - 1].children += children;
        }
    }

    fn chain<const PAGE: usize>(&mut self, chain: &Chain) {
        self.overflow += chain.pages;
        if chain.class > 0 {
            self.slot_pages.insert(chain.slot_page);
            self.slot_bytes += slot_bytes::<PAGE>(chain.class);
        }
    }

    /// All pages that were counted.
    pub(crate) fn pages(&self) -> usize {
        self.nodes + self.overflow + self.slot_pages.len()
    }
}
