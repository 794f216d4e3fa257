//! What the word of a slice names: an item, a bucket or a layer. Its tag tells which.

use hedgerow_sync::epoch::{self, Guard};

use super::bucket::Bucket;
use super::item::Item;
use super::layer::Layer;
use super::slice::SLICE_BYTES;
use super::tag::{BUCKET_TAG, LAYER_TAG};
use crate::served::Capacity;

/// A view of what a word names.
pub(crate) enum Entry<'g, C: Capacity> {
    Item(Item<'g>),
    Bucket(Bucket<'g>),
    Layer(Layer<'g, C>),
}

/// What `word` names.
///
/// # Safety
///
/// `word` was read from a tree of a [`MatryoshkaIndex`](super::MatryoshkaIndex) with this capacity,
/// and a guard taken before that lasts for `'g`.
#[inline(always)]
pub(crate) unsafe fn entry<'g, C: Capacity>(word: u64) -> Entry<'g, C> {
    // SAFETY: the tag says which kind made the word; what it names was linked when it was read.
    unsafe {
        match word & (BUCKET_TAG | LAYER_TAG) {
            BUCKET_TAG => Entry::Bucket(Bucket::load(word)),
            LAYER_TAG => Entry::Layer(Layer::load(word)),
            _ => Entry::Item(Item::load(word)),
        }
    }
}

/// Prefetches the block that a word names.
#[inline(always)]
pub(crate) fn prefetch(word: u64) {
    let address = (word & !(BUCKET_TAG | LAYER_TAG)) as usize;
    hedgerow_memory::prefetch_line(std::ptr::with_exposed_provenance::<u8>(address));
}

/// Releases what a word names, but nothing that this names in turn.
///
/// # Safety
///
/// Nobody uses it any more.
pub(crate) unsafe fn release<C: Capacity>(word: u64) {
    // SAFETY: as in `entry`; the caller has the last use.
    unsafe {
        match word & (BUCKET_TAG | LAYER_TAG) {
            BUCKET_TAG => Bucket::release(word),
            LAYER_TAG => Layer::<C>::release(word),
            _ => Item::release(word),
        }
    }
}

/// [`release`]s what a word names when nobody can be using it any more.
///
/// # Safety
///
/// It is unlinked, by stores that are done.
pub(crate) unsafe fn retire<C: Capacity>(guard: &Guard, word: u64) {
    // SAFETY: it lives until it is released; who pins from now on cannot reach it; any thread may
    // release it.
    unsafe {
        let bytes = match entry::<C>(word) {
            Entry::Item(item) => item.block_bytes(),
            // What it names stays, or is retired by itself.
            Entry::Bucket(_) | Entry::Layer(_) => 0,
        };
        epoch::retire_bytes(guard, bytes, move || release::<C>(word));
    }
}

/// Whether a key goes on after the slice at `offset`.
#[inline(always)]
pub(crate) fn is_long(key: &[u8], offset: usize) -> bool {
    key.len() > offset + SLICE_BYTES
}
