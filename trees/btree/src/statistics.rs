//! What a tree consists of, by kind of page.

use hedgerow_index::Statistics;

use crate::configuration::Configuration;
use crate::overflow;
use crate::pages::{PageNumber, Pages};
use crate::slotted::{Comparison, Kind, Payload};
use crate::tree::{BTree, Chain, layer_root};

#[derive(Default)]
struct Counts {
    inner: usize,
    comparison: usize,
    fingerprint: usize,
    overflow: usize,
    layers: usize,
    depth: usize,
    prefix_bytes: usize,
    free_bytes: usize,
}

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> BTree<C, PAGE, P> {
    /// Bytes of memory that the tree holds, free pages of the last block included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.pages.held_bytes()
    }

    /// Numbers that show every mechanism at work. Walks all pages.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counts = self.counts();
        let leaves = (counts.comparison + counts.fingerprint) as f64;
        let live = self.pages.live();
        let mut all = Statistics::new();
        let mut push = |name, value: f64, help| all.push(name, value, help);
        push("keys", self.len as f64, "Keys in the tree.");
        push(
            "depth_levels",
            counts.depth as f64,
            "Levels of the first layer.",
        );
        push("inner_nodes", counts.inner as f64, "Nodes of separators.");
        push(
            "comparison_leaves",
            counts.comparison as f64,
            "Leaves in key order.",
        );
        push(
            "fingerprint_leaves",
            counts.fingerprint as f64,
            "Leaves of fingerprints.",
        );
        push(
            "overflow_pages",
            counts.overflow as f64,
            "Pages of long values and keys.",
        );
        push(
            "layers",
            counts.layers as f64,
            "Trees, the first and those of long keys.",
        );
        push("page_bytes", PAGE as f64, "Size of a page.");
        push("live_bytes", (live * PAGE) as f64, "Bytes of pages in use.");
        push(
            "bytes_per_key",
            (live * PAGE) as f64 / self.len.max(1) as f64,
            "Bytes of pages in use for each key.",
        );
        push(
            "leaf_prefix_bytes",
            counts.prefix_bytes as f64 / leaves,
            "Bytes that the keys of a leaf leave out, on average.",
        );
        push(
            "leaf_fill_ratio",
            1.0 - counts.free_bytes as f64 / (leaves * PAGE as f64),
            "Part of the leaves' bytes that is in use.",
        );
        all
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let mut open: Vec<(PageNumber, usize)> = vec![(self.root, 1)];
        counts.layers = 1;
        let mut first_layer = true;
        while let Some((page, depth)) = open.pop() {
            let image = self.pages.page(page);
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
            let kind = if image.hashed::<C>() {
                &mut counts.fingerprint
            } else {
                &mut counts.comparison
            };
            *kind += 1;
            counts.prefix_bytes += image.prefix_len();
            counts.free_bytes += image.node_free::<C>().0;
            for index in 0..image.count() {
                let payload = image.payload(image.leaf_record::<C>(index));
                if payload.kind == Kind::Layer {
                    counts.layers += 1;
                    open.push((layer_root(payload), depth + 1));
                }
                counts.overflow += Self::chain_pages(payload);
            }
        }
        counts
    }

    /// Overflow pages of a record.
    pub(crate) fn chain_pages(payload: Payload<'_>) -> usize {
        match payload.kind {
            Kind::Overflow | Kind::Long => overflow::pages_of::<PAGE>(Chain::read(payload).len),
            Kind::Inline | Kind::Layer => 0,
        }
    }
}
