//! Whether a tree is one: every invariant of every page.

use crate::adapt::DISABLED;
use crate::configuration::Configuration;
use crate::page::{Image, shared};
use crate::pages::{Owned, PageNumber, Pages, ReadPages};
use crate::slotted::{Comparison, Kind};
use crate::statistics::chain_pages;
use crate::tree::{BTree, layer_root, stem_bytes};

/// What a walk over a tree counts.
#[derive(Default)]
pub(crate) struct Seen {
    pub keys: usize,
    pub pages: usize,
    layers: Vec<PageNumber>,
}

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> BTree<C, PAGE, P> {
    /// Checks every structural invariant and returns the first violation in words.
    ///
    /// # Errors
    ///
    /// The violation, with the page where it is.
    pub fn verify(&self) -> Result<(), String> {
        let seen = Seen::of_tree::<C, PAGE>(&Owned(&self.pages), self.root)?;
        if seen.keys != self.len {
            return Err(format!("{} keys, but {} counted", seen.keys, self.len));
        }
        if seen.pages != self.pages.live() {
            let live = self.pages.live();
            return Err(format!("{} pages reached, but {live} in use", seen.pages));
        }
        Ok(())
    }
}

impl Seen {
    /// Walks over a tree, checking every page.
    pub(crate) fn of_tree<C: Configuration, const PAGE: usize>(
        pages: &impl ReadPages<PAGE>,
        root: PageNumber,
    ) -> Result<Self, String> {
        let mut seen = Self::default();
        seen.layers.push(root);
        while let Some(root) = seen.layers.pop() {
            seen.layer::<C, PAGE>(pages, root)?;
        }
        Ok(seen)
    }

    fn layer<C: Configuration, const PAGE: usize>(
        &mut self,
        pages: &impl ReadPages<PAGE>,
        root: PageNumber,
    ) -> Result<(), String> {
        let mut leaf_depth = None;
        let mut open = vec![(root, 0, Vec::new(), Vec::new())];
        while let Some((page, depth, lower, upper)) = open.pop() {
            self.pages += 1;
            let image = pages.read(page)?;
            verify_page::<C, PAGE>(&image, &lower, &upper)
                .map_err(|what| format!("page {page}: {what}"))?;
            if image.is_leaf() {
                if *leaf_depth.get_or_insert(depth) != depth {
                    return Err(format!("page {page}: a leaf at depth {depth}"));
                }
                self.count_leaf::<C, PAGE>(&image);
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
                let child = image.child::<Comparison<C>>(index);
                open.push((child, depth + 1, low, high.clone()));
                low = high;
            }
        }
        Ok(())
    }

    fn count_leaf<C: Configuration, const PAGE: usize>(&mut self, image: &Image<PAGE>) {
        for index in image.all_taken::<C>() {
            let payload = image.payload(image.leaf_record::<C>(index));
            if payload.kind == Kind::Layer {
                self.layers.push(layer_root(payload));
            } else {
                self.keys += 1;
                self.pages += chain_pages::<PAGE>(payload);
            }
        }
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
        image.shape().stem_len()
    } else if C::PREFIX && !upper.is_empty() {
        shared(lower, upper)
    } else {
        0
    };
    if image.prefix_len() != prefix {
        return Err(format!("a prefix of {}, not {prefix}", image.prefix_len()));
    }
    image.verify_form::<C>()?;
    let counts = image.counter() < 4 || image.counter() == DISABLED;
    if !counts || image.is_dense() && image.counter() != DISABLED {
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
        let long = key.len() >= stem_bytes::<C, PAGE>();
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
