//! Taking empty layers away.

use hedgerow_simd::Kernel;
use hedgerow_sync::epoch::Guard;

use super::entry::{BUCKET_TAG, Entry, LAYER_TAG, entry, is_long, retire};
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::slice::slice;
use super::update::gather;
use crate::shared::tree::Tree;
use crate::shared::{Capacity, Change};

/// A layer, and where the word that names it stands.
struct Hung<'g, C: Capacity> {
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

impl<C: Capacity> MatryoshkaIndex<C> {
    /// Takes the layers on the way of `key` away that are empty, the deepest first.
    #[cold]
    #[inline(never)]
    pub(crate) fn prune<N: Kernel>(&self, key: &[u8], guard: &Guard) {
        while let Some(hung) = self.deepest::<N>(key, guard) {
            // SAFETY: reached under the guard.
            let layer = unsafe { Layer::<C>::load(hung.word) };
            if !layer.tree.is_empty_page() {
                return;
            }
            // Should it not hang there any more, or hold a key again, the next look tells.
            self.unhang::<N>(&hung, guard);
        }
    }

    /// The deepest layer on the way of `key`.
    fn deepest<'g, N: Kernel>(&'g self, key: &[u8], _guard: &'g Guard) -> Option<Hung<'g, C>> {
        let (mut tree, mut offset, mut deepest) = (&self.tree, 0, None);
        loop {
            let at = slice(key, offset);
            let word = tree.get::<N>(at, &self.events).ok().flatten();
            let Some(word) = word.and_then(|word| layer_word::<C>(word, key, offset)) else {
                return deepest;
            };
            deepest = Some(Hung {
                parent: tree,
                slice: at,
                word,
            });
            // SAFETY: read just now, under the guard.
            let layer = unsafe { Layer::<C>::load(word) };
            if key.len() <= layer.prefix.len() {
                return deepest;
            }
            (tree, offset) = (layer.tree, layer.prefix.len());
        }
    }

    /// Closes and unlinks a layer if it is still there and still empty.
    fn unhang<N: Kernel>(&self, hung: &Hung<'_, C>, guard: &Guard) {
        let mut bucket_word = None;
        let closed = hung
            .parent
            .modify::<N, bool>(hung.slice, &self.events, guard, |word| {
                let Some(word) = word else {
                    return Change::Keep(false);
                };
                // SAFETY: read under a latch, under the guard.
                let held = unsafe { entry::<C>(word) };
                let layer = match &held {
                    Entry::Layer(layer) if word == hung.word => *layer,
                    Entry::Bucket(bucket) if bucket.layer == hung.word => {
                        // SAFETY: a linked bucket names a linked layer.
                        unsafe { Layer::load(bucket.layer) }
                    }
                    _ => return Change::Keep(false),
                };
                if !layer.tree.close(guard) {
                    return Change::Keep(false);
                }
                match held {
                    Entry::Bucket(bucket) => {
                        bucket_word = Some(word);
                        // SAFETY: the bucket's items are linked.
                        Change::Put(unsafe { gather(&bucket.words(), 0) }, true)
                    }
                    _ => Change::Remove(true),
                }
            });
        let layer_word = Some(hung.word).filter(|_| closed == Ok(true));
        for word in bucket_word.into_iter().chain(layer_word) {
            // SAFETY: unlinked above.
            unsafe { retire::<C>(guard, word) };
        }
    }
}
