//! One key with its value, in one block that never changes.
//!
//! ```text
//! │ key length u32 │ value length u32 │ key … │ value … │
//! ```

use std::ptr::NonNull;

/// Two lengths.
const HEADER_BYTES: usize = 2 * size_of::<u32>();

// The header as it is drawn above.
const _: () = assert!(HEADER_BYTES == 8);

/// A view of an item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'g> {
    pub(crate) key: &'g [u8],
    pub(crate) value: &'g [u8],
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("keys and values are below 4 GiB")
}

impl<'g> Item<'g> {
    /// A new item; its word.
    pub(crate) fn store(key: &[u8], value: &[u8]) -> u64 {
        let lengths = [length(key), length(value)];
        let block = hedgerow_memory::allocate(HEADER_BYTES + key.len() + value.len()).as_ptr();
        // SAFETY: the block is new, aligned to 8, and has room for lengths, key and value.
        unsafe {
            block.cast::<[u32; 2]>().write(lengths);
            let bytes = block.add(HEADER_BYTES);
            std::ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            std::ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(key.len()), value.len());
        }
        block.expose_provenance() as u64
    }

    /// The item of a word.
    ///
    /// # Safety
    ///
    /// `word` came from [`store`](Self::store), and the item is not released during `'g`.
    #[inline(always)]
    pub(crate) unsafe fn load(word: u64) -> Self {
        let block = std::ptr::with_exposed_provenance::<u8>(word as usize);
        // SAFETY: the block is alive and unchanged since `store` wrote all of it.
        unsafe {
            let [key, value] = block
                .cast::<[u32; 2]>()
                .read()
                .map(|length| length as usize);
            let bytes = block.add(HEADER_BYTES);
            Self {
                key: std::slice::from_raw_parts(bytes, key),
                value: std::slice::from_raw_parts(bytes.add(key), value),
            }
        }
    }

    /// Gives an item's memory back.
    ///
    /// # Safety
    ///
    /// `word` came from [`store`](Self::store), and nobody uses the item any more.
    pub(crate) unsafe fn release(word: u64) {
        // SAFETY: alive until the release below.
        let bytes = unsafe { Self::load(word) }.block_bytes();
        let block = std::ptr::with_exposed_provenance_mut::<u8>(word as usize);
        if let Some(block) = NonNull::new(block) {
            // SAFETY: allocated by `store` with this size, and this is its last use.
            unsafe { hedgerow_memory::release(block, bytes) }
        }
    }

    /// Bytes of the block.
    pub(crate) fn block_bytes(&self) -> usize {
        HEADER_BYTES + self.key.len() + self.value.len()
    }
}
