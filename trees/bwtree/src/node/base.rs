//! Base nodes: sorted items in one immutable block, at the end of a chunk.
//!
//! ```text
//! byte 0    │ attributes (module `record`)                              │ 32
//! byte 32   │ chunk_distance │ low_bytes │ high_bytes │ prefix_bytes    │ 4 × u32
//! byte 48   │ heads: u32 × size │ starts: u32 × (size + 1)              │
//!           │ low key │ high key │ prefix │ items …                     │
//! item of a leaf:         │ meta u32 │ value or its block │ suffix │
//! item of an inner node:  │ child u32 │ suffix │
//! ```
//!
//! All keys of a node begin with its **prefix**, which is stored once; an item has the rest, its
//! suffix. A suffix's first four bytes as an integer are its **head**. A search compares heads,
//! which lie side by side, and reads suffixes only where heads are equal. The first item of an
//! inner node has the node's low key, which is not stored again and never compared: a search that
//! has come here has a key that is not below it.

use std::cmp::Ordering;

use hedgerow_memory::prefetch_line;

use crate::mapping_table::NodeId;
use crate::node::item::{Item, KeyParts};
use crate::node::record::{HEADER_BYTES, Kind, RecordRef};
use crate::value::Stored;

pub(super) const CHUNK_DISTANCE_AT: usize = HEADER_BYTES;
pub(super) const LOW_BYTES_AT: usize = 36;
pub(super) const HIGH_BYTES_AT: usize = 40;
pub(super) const PREFIX_BYTES_AT: usize = 44;
pub(super) const HEADS_AT: usize = 48;

const _: () = assert!(CHUNK_DISTANCE_AT == 32 && HEADS_AT == PREFIX_BYTES_AT + 4);

/// The `high_bytes` of the last node of a level.
pub(super) const NO_HIGH: u32 = u32::MAX;

/// A base node.
#[derive(Clone, Copy)]
pub(crate) struct Base<'g>(RecordRef<'g>);

/// The first four bytes of a suffix as an integer that compares as they do.
#[inline(always)]
fn short_head(suffix: &[u8]) -> u32 {
    match suffix.first_chunk() {
        Some(chunk) => u32::from_be_bytes(*chunk),
        None => {
            let mut bytes = [0; 4];
            bytes[..suffix.len()].copy_from_slice(suffix);
            u32::from_be_bytes(bytes)
        }
    }
}

impl<'g> Base<'g> {
    #[inline(always)]
    pub fn new(record: RecordRef<'g>) -> Self {
        debug_assert_eq!(record.kind(), Kind::Base);
        Self(record)
    }

    #[inline(always)]
    pub fn record(self) -> RecordRef<'g> {
        self.0
    }

    /// How many items it has.
    #[inline(always)]
    pub fn size(self) -> usize {
        self.0.header().size as usize
    }

    #[inline(always)]
    fn is_leaf(self) -> bool {
        self.0.header().level == 0
    }

    #[inline(always)]
    fn u32_at(self, at: usize) -> u32 {
        // SAFETY: callers name fields of a base node, which is immutable and 8-byte aligned.
        unsafe { self.0.address().add(at).cast::<u32>().read() }
    }

    #[inline(always)]
    fn bytes_at(self, at: usize, count: usize) -> &'g [u8] {
        // SAFETY: callers name bytes of this base node, which is immutable for `'g`.
        unsafe { std::slice::from_raw_parts(self.0.address().as_ptr().add(at), count) }
    }

    /// Bytes from the chunk's start to this node.
    #[inline(always)]
    pub fn chunk_distance(self) -> usize {
        self.u32_at(CHUNK_DISTANCE_AT) as usize
    }

    #[inline(always)]
    fn heads(self) -> &'g [u32] {
        // SAFETY: a base node has `size` heads, 4-byte aligned, immutable for `'g`.
        unsafe {
            let heads = self.0.address().as_ptr().add(HEADS_AT).cast::<u32>();
            std::slice::from_raw_parts(heads, self.size())
        }
    }

    #[inline(always)]
    fn start(self, index: usize) -> usize {
        debug_assert!(index <= self.size());
        self.u32_at(HEADS_AT + 4 * (self.size() + index)) as usize
    }

    #[inline(always)]
    fn low_at(self) -> usize {
        HEADS_AT + 4 * (2 * self.size() + 1)
    }

    /// The lowest key that belongs here.
    #[inline]
    pub fn low(self) -> &'g [u8] {
        self.bytes_at(self.low_at(), self.u32_at(LOW_BYTES_AT) as usize)
    }

    /// The first key beyond, when the node was made.
    #[inline(always)]
    pub fn high(self) -> Option<&'g [u8]> {
        let bytes = self.u32_at(HIGH_BYTES_AT);
        let at = self.low_at() + self.u32_at(LOW_BYTES_AT) as usize;
        (bytes != NO_HIGH).then(|| self.bytes_at(at, bytes as usize))
    }

    #[inline(always)]
    fn prefix(self) -> &'g [u8] {
        let high_bytes = match self.u32_at(HIGH_BYTES_AT) {
            NO_HIGH => 0,
            bytes => bytes as usize,
        };
        let at = self.low_at() + self.u32_at(LOW_BYTES_AT) as usize + high_bytes;
        self.bytes_at(at, self.u32_at(PREFIX_BYTES_AT) as usize)
    }

    /// The value word of an item and the byte at which its suffix begins.
    #[inline(always)]
    fn value_at(self, index: usize) -> (Stored<'g>, usize) {
        let start = self.start(index);
        // SAFETY: an item begins with four bytes for its meta word or child.
        let meta = unsafe { self.0.address().add(start).cast::<u32>().read_unaligned() };
        let bytes = if self.is_leaf() {
            Stored::bytes_of(meta)
        } else {
            0
        };
        let value = Stored::new(meta, self.bytes_at(start + 4, bytes));
        (value, start + 4 + bytes)
    }

    #[inline(always)]
    fn suffix(self, index: usize) -> &'g [u8] {
        let (_, at) = self.value_at(index);
        self.bytes_at(at, self.start(index + 1) - at)
    }

    /// The value of an item; of an inner node's, its meta word is the child.
    #[inline(always)]
    pub fn value(self, index: usize) -> Stored<'g> {
        self.value_at(index).0
    }

    /// The child of an item of an inner node.
    #[inline(always)]
    pub fn child(self, index: usize) -> NodeId {
        self.value(index).meta()
    }

    /// An item.
    #[inline]
    pub fn item(self, index: usize) -> Item<'g> {
        let (value, at) = self.value_at(index);
        let key = if index == 0 && !self.is_leaf() {
            KeyParts::whole(self.low())
        } else {
            let suffix = self.bytes_at(at, self.start(index + 1) - at);
            KeyParts::new(self.prefix(), suffix)
        };
        Item { key, value }
    }

    /// The index of a key, or that at which it would be. The first item of an inner node counts as
    /// lower than every key.
    #[inline]
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        let first = usize::from(!self.is_leaf());
        let heads = self.heads();
        if heads.len() <= first {
            return Err(first.min(heads.len()));
        }
        let prefix = self.prefix();
        let common = prefix.len().min(key.len());
        match key[..common].cmp(&prefix[..common]) {
            Ordering::Less => return Err(first),
            Ordering::Greater => return Err(heads.len()),
            Ordering::Equal if common < prefix.len() => return Err(first),
            Ordering::Equal => {}
        }
        let suffix = &key[common..];
        let head = short_head(suffix);
        let mut low = first + heads[first..].partition_point(|&other| other < head);
        let mut high = low;
        while high < heads.len() && heads[high] == head {
            high += 1;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.suffix(middle).cmp(suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Asks for the lines that a search reads first.
    #[inline]
    pub fn prefetch_heads(self) {
        let heads = self.0.address().as_ptr().wrapping_add(HEADS_AT);
        for line in 0..(4 * self.size()).div_ceil(64) {
            prefetch_line(heads.wrapping_add(64 * line));
        }
    }
}

impl<'g> RecordRef<'g> {
    /// The base node of the chain; of a merge, that of the left part.
    #[inline(always)]
    pub fn base(self) -> Base<'g> {
        debug_assert_ne!(self.kind(), Kind::Remove);
        Base::new(self.follow(self.header().base))
    }

    /// The lowest key of the node, or the key below all.
    #[inline]
    pub fn low(self) -> &'g [u8] {
        self.base().low()
    }

    /// The first key beyond the node; `None` if it is the last of its level.
    #[inline]
    pub fn high(self) -> Option<&'g [u8]> {
        debug_assert_ne!(self.kind(), Kind::Remove);
        if self.kind() == Kind::Merge {
            return self.chain().high();
        }
        let bound = self.bound();
        match bound.kind() {
            Kind::Split => Some(bound.key()),
            _ => Base::new(bound).high(),
        }
    }
}
