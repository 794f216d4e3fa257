//! Writing a base node.

use std::ptr::NonNull;

use hedgerow_memory::Placement;

use crate::chunk::{self, ChunkPlan};
use crate::chunk_word::ChunkWord;
use crate::mapping_table::NodeId;
use crate::node::base::{
    HEADS_AT_AT, HIGH_BYTES_AT, LOW_BYTES_AT, NO_HIGH, NO_STRIDE, PREFIX_AT, PREFIX_BYTES_AT,
    STRIDE_AT, VALUE_LENGTH_AT,
};
use crate::node::item::{Item, shared_bytes};
use crate::node::key::head_of;
use crate::node::record::{Header, Kind};
use crate::value::Stored;

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
    /// Bytes of each item of a leaf, and the length word of its value; 0 if they differ.
    stride: usize,
    value_length: u32,
    heads_at: usize,
    /// Where the items' own bytes begin.
    heap_at: usize,
    bytes: usize,
}

impl<'a> Draft<'a, '_> {
    /// Items whose suffixes are stored: all but the first one of an inner node.
    fn stored_items(&self) -> &[Item<'a>] {
        &self.items[usize::from(self.level > 0).min(self.items.len())..]
    }

    /// The bytes of each key and the length word of each value, where all items of a leaf have the
    /// same.
    fn same_sizes(&self) -> Option<(usize, u32)> {
        let first = self.items.first().filter(|_| self.level == 0)?;
        let (key_bytes, length_word) = (first.key.len(), first.value.length_word());
        let mut items = self.items.iter();
        let same = items.all(|i| i.key.len() == key_bytes && i.value.length_word() == length_word);
        (same && first.value.block().is_none()).then_some((key_bytes, length_word))
    }

    fn measure(&self) -> Measure {
        let stored = self.stored_items();
        let prefix_bytes = match (stored.first(), stored.last()) {
            (Some(first), Some(last)) => shared_bytes(first.key, last.key),
            _ => 0,
        };
        let count = self.items.len();
        let fences = self.low.len() + self.high.map_or(0, <[u8]>::len);
        let heads_at = (PREFIX_AT + prefix_bytes + fences).next_multiple_of(4);
        let behind_heads = heads_at + 4 * count;
        let sizes = self.same_sizes().map(|(key_bytes, length_word)| {
            let stride = key_bytes - prefix_bytes + Stored::bytes_of(length_word);
            (stride, length_word)
        });
        if let Some((stride, value_length)) = sizes.filter(|(stride, _)| *stride > 0) {
            return Measure {
                prefix_bytes,
                stride,
                value_length,
                heads_at,
                heap_at: behind_heads,
                bytes: behind_heads + stride * count,
            };
        }
        let children = if self.level > 0 { 4 * count } else { 0 };
        let heap_at = behind_heads + children + 4 * (count + 1);
        let value = |item: &Item<'_>| match self.level {
            0 => 4 + item.value.bytes().len(),
            _ => 0,
        };
        let values: usize = self.items.iter().map(value).sum();
        let suffixes: usize = stored.iter().map(|i| i.key.len() - prefix_bytes).sum();
        Measure {
            prefix_bytes,
            stride: NO_STRIDE as usize,
            value_length: 0,
            heads_at,
            heap_at,
            bytes: heap_at + values + suffixes,
        }
    }

    /// Writes the node into a new chunk with room for `delta_bytes` of deltas.
    pub fn build<W: ChunkWord>(&self, placement: Placement, delta_bytes: usize) -> NonNull<u8> {
        let measure = self.measure();
        let output = Output::new::<W>(ChunkPlan {
            placement,
            level: self.level,
            delta_bytes,
            base_bytes: measure.bytes,
        });
        let mut prefix = Vec::with_capacity(measure.prefix_bytes);
        if let Some(first) = self.stored_items().first() {
            let copy = |_, bytes: &[u8]| prefix.extend_from_slice(bytes);
            first.key.copy_range(0, measure.prefix_bytes, copy);
        }
        let layout = Layout {
            level: self.level,
            count: self.items.len(),
            right: self.right,
            prefix: &prefix,
            low: self.low,
            high: self.high,
            stride: measure.stride,
            value_length: measure.value_length,
        };
        debug_assert_eq!(layout.heads_at(), measure.heads_at);
        layout.write(&output);
        self.write_items(&output, &measure);
        output.base()
    }

    fn write_items(&self, output: &Output, measure: &Measure) {
        let count = self.items.len();
        let is_leaf = self.level == 0;
        let has_stride = measure.stride != NO_STRIDE as usize;
        let heads_at = measure.heads_at;
        let starts_at = heads_at + 4 * count + if is_leaf { 0 } else { 4 * count };
        let mut at = measure.heap_at;
        for (index, item) in self.items.iter().enumerate() {
            if !has_stride {
                output.put_u32(starts_at + 4 * index, at);
            }
            if is_leaf {
                if !has_stride {
                    output.put_u32(at, item.value.length_word() as usize);
                    at += 4;
                }
                output.put(at, item.value.bytes());
                at += item.value.bytes().len();
            } else {
                let child = item.value.child() as usize;
                output.put_u32(heads_at + 4 * count + 4 * index, child);
            }
            let mut head = 0;
            if index > 0 || is_leaf {
                let suffix_bytes = item.key.len() - measure.prefix_bytes;
                let copy = |offset, bytes: &[u8]| output.put(at + offset, bytes);
                item.key
                    .copy_range(measure.prefix_bytes, item.key.len(), copy);
                head = head_of(output.written(at, suffix_bytes)) >> 32;
                at += suffix_bytes;
            }
            output.put_u32(heads_at + 4 * index, head as usize);
        }
        if !has_stride {
            output.put_u32(starts_at + 4 * count, at);
        }
    }
}

/// What a base node has besides its items.
pub(super) struct Layout<'a> {
    pub level: u8,
    pub count: usize,
    pub right: NodeId,
    pub prefix: &'a [u8],
    pub low: &'a [u8],
    pub high: Option<&'a [u8]>,
    /// Bytes of each item of a leaf, and the length word of its value; 0 if they differ.
    pub stride: usize,
    pub value_length: u32,
}

impl Layout<'_> {
    /// Where the heads begin.
    pub fn heads_at(&self) -> usize {
        let fences = self.low.len() + self.high.map_or(0, <[u8]>::len);
        (PREFIX_AT + self.prefix.len() + fences).next_multiple_of(4)
    }

    /// Writes all that lies before the heads.
    pub fn write(&self, output: &Output) {
        output.put_header(self.level, self.count, self.right);
        let high_bytes = self.high.map_or(NO_HIGH as usize, <[u8]>::len);
        output.put_u32(LOW_BYTES_AT, self.low.len());
        output.put_u32(HIGH_BYTES_AT, high_bytes);
        output.put_u32(PREFIX_BYTES_AT, self.prefix.len());
        output.put_u32(STRIDE_AT, self.stride);
        output.put_u32(VALUE_LENGTH_AT, self.value_length as usize);
        output.put_u32(HEADS_AT_AT, self.heads_at());
        output.put(PREFIX_AT, self.prefix);
        let low_at = PREFIX_AT + self.prefix.len();
        output.put(low_at, self.low);
        output.put(low_at + self.low.len(), self.high.unwrap_or_default());
    }
}

/// A base node that is being written: the bytes of a new chunk behind its header.
pub(super) struct Output {
    base: NonNull<u8>,
    bytes: usize,
}

impl Output {
    /// Room for a base node, in a new chunk.
    pub fn new<W: ChunkWord>(plan: ChunkPlan) -> Self {
        let base = chunk::allocate::<W>(plan);
        let bytes = plan.base_bytes;
        Self { base, bytes }
    }

    /// The node.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Writes the attributes that all records have.
    #[inline]
    fn put_header(&self, level: u8, size: usize, right: NodeId) {
        let header = Header {
            kind: Kind::Base,
            level,
            depth: 0,
            size: size as u32,
            right,
            offset: 0,
            next: 0,
            base: 0,
            bound: 0,
            key_bytes: 0,
        };
        // SAFETY: the chunk is new and has room for the node; base nodes are 8-byte aligned.
        unsafe { self.base.cast::<Header>().write(header) };
    }

    #[inline(always)]
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.bytes);
        // SAFETY: all bytes lie within the measured node, which is the writer's alone.
        unsafe {
            let from = NonNull::from(bytes).cast();
            self.base
                .add(at)
                .copy_from_nonoverlapping(from, bytes.len());
        }
    }

    #[inline(always)]
    pub(super) fn put_u32(&self, at: usize, number: usize) {
        self.put(at, &(number as u32).to_ne_bytes());
    }

    /// Bytes that were written.
    #[inline(always)]
    fn written(&self, at: usize, count: usize) -> &[u8] {
        debug_assert!(at + count <= self.bytes);
        // SAFETY: the caller has written these bytes of the node.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at), count) }
    }
}
