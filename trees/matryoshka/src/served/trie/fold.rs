//! Folding layers that are down to a few keys, or to one layer, or to nothing.
//!
//! A layer's page takes at least 1,280 bytes; without it, its keys are a word in the tree above, or
//! a bucket there.

use hedgerow_simd::Kernel;
use hedgerow_sync::epoch::Guard;

use super::entry::{Entry, entry, is_long, retire};
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::slice::slice;
use super::tag::{BUCKET_TAG, LAYER_TAG};
use super::update::entry_word;
use crate::served::node::page::Page;
use crate::served::tree::Tree;
use crate::served::{Capacity, Change};

/// A layer, and the entry whose word names it.
struct LayerReference<'g, C: Capacity> {
    parent: &'g Tree<C>,
    slice: u64,
    word: u64,
}

/// The word of the layer behind the word of a slice, if `key` may be there.
fn layer_word<C: Capacity>(word: u64, key: &[u8], offset: usize) -> Option<u64> {
    let word = match word & (BUCKET_TAG | LAYER_TAG) {
        LAYER_TAG => Some(word),
        // SAFETY: read just now, under the operation's guard.
        BUCKET_TAG => match unsafe { entry::<C>(word) } {
            Entry::Bucket(bucket) => Some(bucket.layer).filter(|&layer| layer != 0),
            _ => None,
        },
        _ => None,
    };
    word.filter(|_| is_long(key, offset))
}

/// How many items a layer folds into a bucket, or beside those of one: a quarter of what a bucket
/// has before it gets a layer, so that a key that comes and goes does not make and fold one each
/// time. Nor beside a bucket: at most nine keys end within a slice (they differ in their zeros),
/// which makes thirteen of the sixteen that a bucket has before that.
const fn fold_limit<C: Capacity>() -> usize {
    if C::BUCKET < 8 { 1 } else { C::BUCKET / 4 }
}

/// Whether a layer's tree has so few keys that it may fold.
#[inline(always)]
pub(crate) fn may_fold<C: Capacity>(tree: &Tree<C>) -> bool {
    tree.keys_of_one_page()
        .is_some_and(|keys| keys <= fold_limit::<C>())
}

/// What takes a layer's place: items beside those that are there, and perhaps a layer below it.
struct Folded {
    items: Vec<u64>,
    layer: u64,
    /// Buckets that the items were in.
    buckets: Vec<u64>,
}

/// What the pairs of a layer become in a bucket that has so many items already; `None` when they
/// are too many, or of a kind that needs the layer.
///
/// # Safety
///
/// As for [`entry`], for all words.
unsafe fn fold<C: Capacity>(pairs: &[(u64, u64)], beside: usize) -> Option<Folded> {
    let mut folded = Folded {
        items: Vec::new(),
        layer: 0,
        buckets: Vec::new(),
    };
    for &(_, word) in pairs {
        // SAFETY: as the caller promises.
        match unsafe { entry::<C>(word) } {
            Entry::Item(_) => folded.items.push(word),
            Entry::Bucket(bucket) if bucket.layer == 0 => {
                folded.items.extend(bucket.words());
                folded.buckets.push(word);
            }
            // A layer alone takes the place of the one above it.
            Entry::Layer(_) if pairs.len() == 1 => folded.layer = word,
            _ => return None,
        }
    }
    let items = folded.items.len();
    let fits = items == 0 || (items <= fold_limit::<C>() && beside + items <= C::BUCKET);
    fits.then_some(folded)
}

/// The outcome of an attempt to fold a layer.
enum Outcome {
    Folded,
    /// The entry names it no more.
    Moved,
    /// Its keys need a layer.
    Needed,
}

impl<C: Capacity> MatryoshkaIndex<C> {
    /// Folds the layers on the way of `key` that are down to a few keys, the deepest first; before
    /// these, layers that are down to another layer.
    #[cold]
    #[inline(never)]
    pub(crate) fn fold_layers<N: Kernel>(&self, key: &[u8], guard: &Guard) {
        while let Some(reference) = self.deepest::<N>(key, guard) {
            // SAFETY: reached under the guard.
            let layer = unsafe { Layer::<C>::load(reference.word) };
            if !may_fold::<C>(layer.tree) {
                return;
            }
            if let Outcome::Needed = self.fold_layer::<N>(&reference, guard) {
                return;
            }
        }
    }

    /// The first layer on the way of `key` that holds nothing but another one, or else the deepest.
    fn deepest<'g, N: Kernel>(
        &'g self,
        key: &[u8],
        _guard: &'g Guard,
    ) -> Option<LayerReference<'g, C>> {
        let (mut tree, mut offset, mut deepest) = (&self.tree, 0, None);
        loop {
            let at = slice(key, offset);
            let word = tree.get::<N>(at, &self.events).ok().flatten();
            let Some(word) = word.and_then(|word| layer_word::<C>(word, key, offset)) else {
                return deepest;
            };
            deepest = Some(LayerReference {
                parent: tree,
                slice: at,
                word,
            });
            // SAFETY: read just now, under the guard.
            let layer = unsafe { Layer::<C>::load(word) };
            if key.len() <= layer.prefix.len() || self.is_one_layer(layer.tree) {
                return deepest;
            }
            (tree, offset) = (layer.tree, layer.prefix.len());
        }
    }

    /// Whether a tree holds another layer and nothing else.
    pub(crate) fn is_one_layer(&self, tree: &Tree<C>) -> bool {
        tree.keys_of_one_page() == Some(1) && self.only_layer(tree).is_some()
    }

    /// The layer that holds all of a tree, if one does.
    fn only_layer<'g>(&'g self, tree: &'g Tree<C>) -> Option<Layer<'g, C>> {
        let pages = tree.nodes().into_iter().filter_map(|node| node.pairs());
        let words: Vec<u64> = pages.flatten().map(|pair| pair.1).collect();
        match words[..] {
            // SAFETY: read and validated under the caller's guard.
            [word] => match unsafe { entry::<C>(word) } {
                Entry::Layer(layer) => Some(layer),
                _ => None,
            },
            _ => None,
        }
    }

    /// Folds a layer, if it is still where it was and still small.
    fn fold_layer<N: Kernel>(&self, reference: &LayerReference<'_, C>, guard: &Guard) -> Outcome {
        let mut unlinked = Vec::new();
        let outcome =
            reference
                .parent
                .modify::<N, Outcome>(reference.slice, &self.events, guard, |word| {
                    let Some(word) = word else {
                        return Change::Keep(Outcome::Moved);
                    };
                    // SAFETY: read under a latch, under the guard.
                    let (layer, mut items) = match unsafe { entry::<C>(word) } {
                        Entry::Layer(layer) if word == reference.word => (layer, Vec::new()),
                        Entry::Bucket(bucket) if bucket.layer == reference.word => {
                            unlinked.push(word);
                            // SAFETY: a linked bucket names a linked layer.
                            (unsafe { Layer::load(bucket.layer) }, bucket.words())
                        }
                        _ => return Change::Keep(Outcome::Moved),
                    };
                    // SAFETY: what a linked layer's page names is linked, too.
                    let decide =
                        |page: &Page<u64>| unsafe { fold::<C>(&page.pairs(), items.len()) };
                    let Some(folded) = layer.tree.close(decide) else {
                        unlinked.clear();
                        return Change::Keep(Outcome::Needed);
                    };
                    // Longer keys of the slice sort behind those that end in it.
                    items.extend(folded.items);
                    unlinked.extend(folded.buckets);
                    unlinked.push(reference.word);
                    if items.is_empty() && folded.layer == 0 {
                        return Change::Remove(Outcome::Folded);
                    }
                    // SAFETY: all items, and the layer, are linked.
                    Change::Put(unsafe { entry_word(&items, folded.layer) }, Outcome::Folded)
                });
        for word in unlinked {
            // SAFETY: unlinked above.
            unsafe { retire::<C>(guard, word) };
        }
        // A parent that was removed is searched again, as is a layer.
        outcome.unwrap_or(Outcome::Moved)
    }
}
