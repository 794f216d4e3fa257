//! Writing a base node.

use std::ptr::NonNull;

use hedgerow_sync::word::Word;

use crate::chunk;
use crate::mapping_table::NodeId;
use crate::node::base::{
    CHUNK_DISTANCE_AT, HEADS_AT, HIGH_BYTES_AT, LOW_BYTES_AT, NO_HIGH, PREFIX_BYTES_AT,
};
use crate::node::item::{Item, shared_bytes};
use crate::node::record::{Header, Kind};

/// What a base node is made from.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a, 'i> {
    pub level: u8,
    pub low: &'a [u8],
    pub high: Option<&'a [u8]>,
    pub right: NodeId,
    pub items: &'i [Item<'a>],
}

/// Bytes of ascending items in one node: keys, whose common prefix counts once, and values.
pub(crate) fn item_bytes(items: &[Item<'_>]) -> usize {
    let (Some(first), Some(last)) = (items.first(), items.last()) else {
        return 0;
    };
    let prefix_bytes = shared_bytes(first.key, last.key);
    let bytes = items
        .iter()
        .map(|item| item.key.len() - prefix_bytes + item.value.bytes().len() + 4);
    prefix_bytes + bytes.sum::<usize>()
}

/// Sizes of a base node that is to be written.
struct Measure {
    prefix_bytes: usize,
    heap_at: usize,
    bytes: usize,
}

impl<'a> Draft<'a, '_> {
    /// Items whose suffixes are stored: all but the first one of an inner node.
    fn stored_items(&self) -> &[Item<'a>] {
        &self.items[usize::from(self.level > 0).min(self.items.len())..]
    }

    fn measure(&self) -> Measure {
        let stored = self.stored_items();
        let prefix_bytes = match (stored.first(), stored.last()) {
            (Some(first), Some(last)) => shared_bytes(first.key, last.key),
            _ => 0,
        };
        let arrays = 4 * (2 * self.items.len() + 1);
        let fences = self.low.len() + self.high.map_or(0, <[u8]>::len);
        let heap_at = HEADS_AT + arrays + fences + prefix_bytes;
        let values: usize = self.items.iter().map(|i| 4 + i.value.bytes().len()).sum();
        let suffixes: usize = stored.iter().map(|i| i.key.len() - prefix_bytes).sum();
        let bytes = (heap_at + values + suffixes).next_multiple_of(8);
        Measure {
            prefix_bytes,
            heap_at,
            bytes,
        }
    }

    /// Writes the node into a new chunk with room for `delta_bytes` of deltas.
    pub fn build<W: Word>(&self, delta_bytes: usize) -> NonNull<u8> {
        let measure = self.measure();
        let chunk = chunk::allocate::<W>(delta_bytes, measure.bytes);
        // SAFETY: the chunk is new, with `measure.bytes` for the base node.
        unsafe { self.write(&chunk, &measure) };
        chunk.base
    }

    /// # Safety
    ///
    /// The chunk is new and has room for the measured node.
    unsafe fn write(&self, chunk: &chunk::NewChunk, measure: &Measure) {
        let base = chunk.base;
        let count = self.items.len();
        let put = |at: usize, bytes: &[u8]| {
            debug_assert!(at + bytes.len() <= measure.bytes);
            // SAFETY: all bytes lie within the measured node, which is the caller's alone.
            unsafe {
                base.add(at)
                    .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            }
        };
        let put_u32 = |at: usize, number: usize| put(at, &(number as u32).to_ne_bytes());
        let header = Header {
            kind: Kind::Base,
            level: self.level,
            depth: 0,
            size: count as u32,
            right: self.right,
            offset: 0,
            next: 0,
            base: 0,
            bound: 0,
            key_bytes: 0,
        };
        // SAFETY: as above; chunks are 8-byte aligned and so are base nodes in them.
        unsafe { base.cast::<Header>().write(header) };
        put_u32(CHUNK_DISTANCE_AT, chunk.base_at as usize);
        put_u32(LOW_BYTES_AT, self.low.len());
        put_u32(
            HIGH_BYTES_AT,
            self.high.map_or(NO_HIGH as usize, <[u8]>::len),
        );
        put_u32(PREFIX_BYTES_AT, measure.prefix_bytes);
        let mut at = HEADS_AT + 4 * (2 * count + 1);
        put(at, self.low);
        at += self.low.len();
        let high = self.high.unwrap_or_default();
        put(at, high);
        at += high.len();
        if let Some(first) = self.stored_items().first() {
            first
                .key
                .copy_range(0, measure.prefix_bytes, |offset, bytes| {
                    put(at + offset, bytes)
                });
        }
        at = measure.heap_at;
        for (index, item) in self.items.iter().enumerate() {
            let mut head = [0; 4];
            put_u32(HEADS_AT + 4 * (count + index), at);
            put_u32(at, item.value.meta() as usize);
            put(at + 4, item.value.bytes());
            at += 4 + item.value.bytes().len();
            if index > 0 || self.level == 0 {
                let key_bytes = item.key.len();
                item.key
                    .copy_range(measure.prefix_bytes, key_bytes, |offset, bytes| {
                        put(at + offset, bytes);
                        let room = head.len().saturating_sub(offset).min(bytes.len());
                        if room > 0 {
                            head[offset..offset + room].copy_from_slice(&bytes[..room]);
                        }
                    });
                at += key_bytes - measure.prefix_bytes;
            }
            put_u32(HEADS_AT + 4 * index, u32::from_be_bytes(head) as usize);
        }
        put_u32(HEADS_AT + 4 * (2 * count), at);
    }
}
