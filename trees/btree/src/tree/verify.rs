//! Whether a tree is one: every invariant of every page.

use std::collections::HashMap;

use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::key::{key_prefix_bytes, layer_root};
use crate::node::layout::Kind;
use crate::node::page::{DISABLED_COUNTER, Image, PageNumber, Tag, shared};
use crate::node::shared_overflow::{self, SLOTS, SlotSet};
use crate::node::slotted::Comparison;
use crate::tree::lost::span;
use crate::tree::walk::ReadPages;

/// What a walk over a tree counts.
#[derive(Default)]
pub(crate) struct Seen {
    pub keys: usize,
    pub pages: usize,
    /// Slots of shared overflow pages that are taken, but that no record names.
    pub unnamed: u32,
    /// Shared overflow pages: their class and the slots that records name, as bits.
    slot_pages: HashMap<PageNumber, SlotSet>,
}

/// A node of a layer that the walk has still to visit.
struct OpenNode {
    page: PageNumber,
    /// Levels above it in the layer.
    depth: usize,
    /// Its fences, as its parent's keys say.
    lower: Vec<u8>,
    upper: Vec<u8>,
}

impl Seen {
    /// Walks over a tree, checking every page.
    pub(crate) fn of_tree<C: Configuration, const PAGE: usize>(
        pages: &impl ReadPages<PAGE>,
        root: PageNumber,
    ) -> Result<Self, String> {
        let mut seen = Self::default();
        seen.layer::<C, PAGE>(pages, root, &[])?;
        for (&page, &named) in &seen.slot_pages {
            seen.unnamed += shared_overflow::verify(&*pages.read(page)?, named, root)
                .map_err(|what| format!("page {page}: {what}"))?;
        }
        seen.pages += seen.slot_pages.len();
        Ok(seen)
    }

    fn layer<C: Configuration, const PAGE: usize>(
        &mut self,
        pages: &impl ReadPages<PAGE>,
        root: PageNumber,
        prefix: &[u8],
    ) -> Result<(), String> {
        let mut leaf_depth = None;
        let mut open = vec![OpenNode {
            page: root,
            depth: 0,
            lower: Vec::new(),
            upper: Vec::new(),
        }];
        while let Some(node) = open.pop() {
            let OpenNode {
                page,
                depth,
                lower,
                upper,
            } = node;
            self.pages += 1;
            let image = pages
                .read(page)
                .map_err(|what| format!("{what}; {} need it", span(prefix, &lower, &upper)))?;
            verify_page::<C, PAGE>(&image, &lower, &upper)
                .map_err(|what| format!("page {page}: {what}"))?;
            if image.is_leaf() {
                if *leaf_depth.get_or_insert(depth) != depth {
                    return Err(format!("page {page}: a leaf at depth {depth}"));
                }
                let layers = self.leaf::<C, PAGE>(pages, &image, prefix)?;
                // Its latch, too.
                drop(image);
                for (root, prefix) in layers {
                    self.layer::<C, PAGE>(pages, root, &prefix)?;
                }
                continue;
            }
            let mut low = lower;
            for index in 0..=image.count() {
                let mut high = Vec::new();
                if index < image.count() {
                    image.node_key::<C>(index, &mut high);
                } else {
                    high.clone_from(&upper);
                }
                open.push(OpenNode {
                    page: image.child::<Comparison<C>>(index),
                    depth: depth + 1,
                    lower: low,
                    upper: high.clone(),
                });
                low = high;
            }
        }
        Ok(())
    }

    /// Counts the records of a leaf and looks at their chains; the layers below it, with what
    /// their keys begin with.
    fn leaf<C: Configuration, const PAGE: usize>(
        &mut self,
        pages: &impl ReadPages<PAGE>,
        image: &Image<PAGE>,
        prefix: &[u8],
    ) -> Result<Vec<(PageNumber, Vec<u8>)>, String> {
        let mut layers = Vec::new();
        for index in image.all_taken::<C>() {
            let payload = image.payload(image.leaf_record::<C>(index));
            let key_prefix = || {
                let mut key = Vec::new();
                image.node_key::<C>(index, &mut key);
                [prefix, &key].concat()
            };
            if payload.kind == Kind::Layer {
                layers.push((layer_root(payload), key_prefix()));
                continue;
            }
            self.keys += 1;
            if payload.kind != Kind::Inline {
                self.chain(pages, &Chain::read::<PAGE>(payload))
                    .map_err(|what| {
                        format!("{what}; key {} needs it", key_prefix().escape_ascii())
                    })?;
            }
        }
        Ok(layers)
    }

    /// Checks the pages of a chain, and remembers which slot of which shared overflow page it has.
    fn chain<const PAGE: usize>(
        &mut self,
        pages: &impl ReadPages<PAGE>,
        chain: &Chain,
    ) -> Result<(), String> {
        self.pages += chain.pages;
        let mut next = 0;
        for index in 0..chain.pages {
            let number = chain.number(index).unwrap_or(next);
            if index > 0 && number != next {
                return Err(format!(
                    "page {number} is named, but {next} by the one before"
                ));
            }
            let page = pages.read(number)?;
            if !page.is(Tag::Overflow) {
                return Err(format!(
                    "page {number}: it is to be of a long value, but is not"
                ));
            }
            next = page.upper_child() as u32;
        }
        if chain.class == 0 {
            return Ok(());
        }
        // The rest of it is looked at when all of its slots that are named are known.
        if !pages.read(chain.slot_page)?.is(Tag::SharedOverflow) {
            return Err(format!(
                "page {}: it is to be a shared overflow page of long values, but is not",
                chain.slot_page
            ));
        }
        let slots = self
            .slot_pages
            .entry(chain.slot_page)
            .or_insert(SlotSet::empty(chain.class));
        let bit = if chain.slot < SLOTS[chain.class] {
            1 << chain.slot
        } else {
            // No slot of a shared overflow page: as wrong as one that is another's.
            u16::MAX
        };
        if usize::from(slots.class) != chain.class || slots.bits & bit != 0 || bit == u16::MAX {
            let slot = chain.slot;
            return Err(format!(
                "page {}: slot {slot} is named as another's, too",
                chain.slot_page
            ));
        }
        slots.bits |= bit;
        Ok(())
    }
}

/// One page by itself: fences, prefix, order, heap.
fn verify_page<C: Configuration, const PAGE: usize>(
    image: &Image<PAGE>,
    lower: &[u8],
    upper: &[u8],
) -> Result<(), String> {
    if !image.is_inner() && !image.is_leaf() {
        return Err("neither an inner node nor a leaf".into());
    }
    if image.lower() != lower || image.upper() != upper {
        return Err("its fences are not its parent's keys".into());
    }
    let prefix = if image.is_dense() {
        image.shape().prefix_len()
    } else if C::PREFIX && !upper.is_empty() {
        shared(lower, upper)
    } else {
        0
    };
    if image.prefix_len() != prefix {
        return Err(format!("a prefix of {}, not {prefix}", image.prefix_len()));
    }
    image.verify_form::<C>()?;
    let counts = image.counter() <= C::THRESHOLDS.most || image.counter() == DISABLED_COUNTER;
    if !counts || image.is_dense() && image.counter() != DISABLED_COUNTER {
        return Err(format!("a counter of {}", image.counter()));
    }
    let mut image = image.clone();
    image.order::<C>();
    let (mut last, mut key) = (Vec::new(), Vec::new());
    let mut taken = 0;
    for index in image.all_taken::<C>() {
        image.node_key::<C>(index, &mut key);
        if taken > 0 && last >= key {
            return Err(format!("key {index} is not above the one before"));
        }
        if image.locate::<C>(&key) != (index, true) {
            return Err(format!("key {index} is not found"));
        }
        taken += 1;
        if *key < *lower || (!upper.is_empty() && *key >= *upper) {
            return Err(format!("key {index} is beyond a fence"));
        }
        let long = key.len() >= key_prefix_bytes::<C, PAGE>();
        let kind = image.leaf_record::<C>(index).kind;
        if !image.is_inner() && long != matches!(kind, Kind::Long | Kind::Layer) {
            return Err(format!(
                "key {index} has {} bytes and is {kind:?}",
                key.len()
            ));
        }
        std::mem::swap(&mut last, &mut key);
    }
    if taken != image.count() {
        return Err(format!("{taken} records, but {} counted", image.count()));
    }
    Ok(())
}
