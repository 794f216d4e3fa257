//! A sorted handful of items whose keys share a slice, and perhaps the layer of longer ones.
//!
//! ```text
//! │ items u32 │ offset u32 │ layer word u64 │ heads u64 … │ item words u64 … │
//! ```
//!
//! All keys share their first `offset` bytes; an item's head is the slice that follows. A search
//! compares heads, side by side in the block, and then whole keys only where a head agrees. Item
//! words are the one thing that changes: an update of a value puts another item of the same key in
//! its place.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::item::Item;
use super::slice::{shared_prefix, slice};
use super::tag::BUCKET_TAG;

/// Two numbers and the layer's word.
const HEADER_BYTES: usize = 2 * size_of::<u32>() + size_of::<u64>();

// The header as it is drawn above; heads and words are aligned behind it.
const _: () = assert!(HEADER_BYTES == 16 && HEADER_BYTES.is_multiple_of(align_of::<u64>()));

/// A view of a bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket<'g> {
    pub(crate) offset: usize,
    /// The word of the layer of longer keys, or 0.
    pub(crate) layer: u64,
    pub(crate) heads: &'g [u64],
    words: &'g [AtomicU64],
}

fn block_bytes(items: usize) -> usize {
    HEADER_BYTES + 16 * items
}

impl<'g> Bucket<'g> {
    /// A new bucket of these items, ascending by key; its word.
    ///
    /// # Safety
    ///
    /// `items` are words of live items.
    pub(crate) unsafe fn store(items: &[u64], layer: u64) -> u64 {
        // SAFETY: the caller has live items.
        let key = |word: &u64| unsafe { Item::load(*word) }.key;
        let offset = match (items.first(), items.last()) {
            (Some(first), Some(last)) => shared_prefix(key(first), key(last)),
            _ => 0,
        };
        let heads = items.iter().map(|item| slice(key(item), offset));
        let block = hedgerow_memory::allocate(block_bytes(items.len())).as_ptr();
        // SAFETY: the block is new, aligned to 8, and has room for header, heads and words; keys
        // are below 4 GiB, so that the offset fits.
        unsafe {
            block
                .cast::<[u32; 2]>()
                .write([items.len() as u32, offset as u32]);
            block.add(8).cast::<u64>().write(layer);
            let words = block.add(HEADER_BYTES).cast::<u64>();
            for (at, word) in heads.chain(items.iter().copied()).enumerate() {
                words.add(at).write(word);
            }
        }
        block.expose_provenance() as u64 | BUCKET_TAG
    }

    /// The bucket of a word.
    ///
    /// # Safety
    ///
    /// `word` came from [`store`](Self::store), and the bucket is not released during `'g`.
    #[inline(always)]
    pub(crate) unsafe fn load(word: u64) -> Self {
        let block = std::ptr::with_exposed_provenance::<u8>((word & !BUCKET_TAG) as usize);
        // SAFETY: the block is alive; all but the item words, which are atomics, is unchanged
        // since `store` wrote it.
        unsafe {
            let [items, offset] = block
                .cast::<[u32; 2]>()
                .read()
                .map(|number| number as usize);
            let heads = block.add(HEADER_BYTES).cast::<u64>();
            Self {
                offset,
                layer: block.add(8).cast::<u64>().read(),
                heads: std::slice::from_raw_parts(heads, items),
                words: std::slice::from_raw_parts(heads.add(items).cast(), items),
            }
        }
    }

    /// Gives a bucket's memory back; its items and its layer stay.
    ///
    /// # Safety
    ///
    /// `word` came from [`store`](Self::store), and nobody uses the bucket any more.
    pub(crate) unsafe fn release(word: u64) {
        // SAFETY: alive until the release below.
        let bytes = unsafe { Self::load(word) }.block_bytes();
        let block = std::ptr::with_exposed_provenance_mut::<u8>((word & !BUCKET_TAG) as usize);
        if let Some(block) = NonNull::new(block) {
            // SAFETY: allocated by `store` with this size, and this is its last use.
            unsafe { hedgerow_memory::release(block, bytes) }
        }
    }

    pub(crate) fn block_bytes(&self) -> usize {
        block_bytes(self.heads.len())
    }

    /// The item at `at`.
    #[inline(always)]
    pub(crate) fn item(&self, at: usize) -> Item<'g> {
        // SAFETY: the bucket is alive during `'g` (`load`), so the word was that of a linked item
        // when it was read, and the guard that keeps the bucket keeps the item.
        unsafe { Item::load(self.word(at)) }
    }

    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Acquire)
    }

    /// The words of all items.
    pub(crate) fn words(&self) -> Vec<u64> {
        (0..self.words.len()).map(|at| self.word(at)).collect()
    }

    /// Puts another item of the same key in the place of one. The caller holds the latch of the
    /// page that names the bucket.
    pub(crate) fn replace(&self, at: usize, word: u64) {
        self.words[at].store(word, Ordering::Release);
    }

    /// The item of `key`.
    #[inline(always)]
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let head = slice(key, self.offset);
        let agrees = |at: &usize| self.heads[*at] == head && self.item(*at).key == key;
        (0..self.heads.len()).find(agrees)
    }

    /// Items with keys below `key`.
    pub(crate) fn rank(&self, key: &[u8]) -> usize {
        let below = |at: &usize| self.item(*at).key < key;
        (0..self.heads.len()).take_while(below).count()
    }
}
