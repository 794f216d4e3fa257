//! A tree for the longer keys of one slice: those that go on after `prefix`, by their next slices.

use std::ptr::NonNull;

use super::tag::LAYER_TAG;
use crate::served::Capacity;
use crate::served::tree::Tree;

/// The beginning of a layer's block; the bytes of the prefix follow.
#[repr(C)]
struct LayerHeader<C: Capacity> {
    tree: Tree<C>,
    prefix_bytes: usize,
}

/// A view of a layer.
pub(crate) struct Layer<'g, C: Capacity> {
    pub(crate) tree: &'g Tree<C>,
    /// What all keys of the layer begin with and go on after; a multiple of eight bytes.
    pub(crate) prefix: &'g [u8],
}

impl<C: Capacity> Clone for Layer<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Capacity> Copy for Layer<'_, C> {}

fn block_bytes<C: Capacity>(prefix_bytes: usize) -> usize {
    size_of::<LayerHeader<C>>() + prefix_bytes
}

impl<'g, C: Capacity> Layer<'g, C> {
    /// A new layer; its word.
    pub(crate) fn store(prefix: &[u8], tree: Tree<C>) -> u64 {
        let block = hedgerow_memory::allocate(block_bytes::<C>(prefix.len())).as_ptr();
        let head = LayerHeader {
            tree,
            prefix_bytes: prefix.len(),
        };
        // SAFETY: the block is new, aligned to 8, and has room for the head and the prefix.
        unsafe {
            block.cast::<LayerHeader<C>>().write(head);
            let bytes = block.add(size_of::<LayerHeader<C>>());
            std::ptr::copy_nonoverlapping(prefix.as_ptr(), bytes, prefix.len());
        }
        block.expose_provenance() as u64 | LAYER_TAG
    }

    /// The layer of a word.
    ///
    /// # Safety
    ///
    /// `word` came from [`store`](Self::store), and the layer is not released during `'g`.
    #[inline(always)]
    pub(crate) unsafe fn load(word: u64) -> Self {
        let block = std::ptr::with_exposed_provenance::<u8>((word & !LAYER_TAG) as usize);
        // SAFETY: the block is alive; the prefix is unchanged since `store` wrote it, and the tree
        // changes through its atomics only.
        unsafe {
            let head = &*block.cast::<LayerHeader<C>>();
            let prefix = block.add(size_of::<LayerHeader<C>>());
            Self {
                tree: &head.tree,
                prefix: std::slice::from_raw_parts(prefix, head.prefix_bytes),
            }
        }
    }

    /// Gives a layer's memory and its tree's nodes back; what the tree's words name stays.
    ///
    /// # Safety
    ///
    /// `word` came from [`store`](Self::store), and nobody uses the layer any more.
    pub(crate) unsafe fn release(word: u64) {
        let block = std::ptr::with_exposed_provenance_mut::<u8>((word & !LAYER_TAG) as usize);
        let Some(block) = NonNull::new(block) else {
            return;
        };
        // SAFETY: alive, and ours alone; allocated by `store` with this size.
        unsafe {
            let head = block.cast::<LayerHeader<C>>();
            let bytes = block_bytes::<C>((*head.as_ptr()).prefix_bytes);
            head.drop_in_place();
            hedgerow_memory::release(block, bytes);
        }
    }

    pub(crate) fn block_bytes(&self) -> usize {
        block_bytes::<C>(self.prefix.len())
    }
}
