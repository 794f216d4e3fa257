//! What a tree consists of, by kind of page.

use std::collections::HashSet;

use hedgerow_index::Statistics;

use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::key::layer_root;
use crate::node::layout::Kind;
use crate::node::leaf::FormOf;
use crate::node::page::PageNumber;
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
        let mut open: Vec<(PageNumber, usize)> = vec![(root, 1)];
        counts.layers = 1;
        let mut first_layer = true;
        while let Some((page, depth)) = open.pop() {
            let image = pages.read(page)?;
            counts.nodes += 1;
            if image.is_inner() {
                counts.inner += 1;
                for index in 0..=image.count() {
                    open.push((image.child::<Comparison<C>>(index), depth + 1));
                }
                continue;
            }
            if first_layer {
                counts.depth = depth;
                first_layer = false;
            }
            let kind = match image.form::<C>() {
                FormOf::Comparison => &mut counts.comparison,
                FormOf::Fingerprint => &mut counts.fingerprint,
                FormOf::SemiDense => &mut counts.semi_dense,
                FormOf::FullyDense => &mut counts.fully_dense,
            };
            *kind += 1;
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
                    open.push((layer_root(payload), depth + 1));
                }
                if matches!(payload.kind, Kind::Overflow | Kind::Long) {
                    counts.chain::<PAGE>(&Chain::read::<PAGE>(payload));
                }
            }
        }
        Ok(counts)
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
