//! Base nodes: sorted items in one immutable block, at the end of a chunk.
//!
//! ```text
//! byte 0    │ attributes (module `record`)                                           │ 32
//! byte 32   │ low_bytes │ high_bytes │ prefix_bytes │ stride │ value_length │ heads_at │ 6 × u32
//! byte 56   │ prefix │ low key │ high key │ – │ heads: u32 × size │ …
//!
//! then, of a leaf whose items have all the same size (`stride` says which):
//!           │ (value │ suffix) × size
//! of another leaf:
//!           │ starts: u32 × (size + 1) │ (length word u32 │ value or its block │ suffix) × size
//! of an inner node:
//!           │ children: u32 × size │ starts: u32 × (size + 1) │ suffix × size
//! ```
//!
//! All keys of a node begin with its **prefix**, which is stored once; an item has the rest, its
//! suffix. A suffix's first four bytes as an integer are its **head**. A search compares heads,
//! which lie side by side, and reads suffixes only where heads are equal. The first item of an
//! inner node has the node's low key, which is not stored again and never compared: a search that
//! has come here has a key that is not below it.
//!
//! What a lookup reads lies in as few cache lines as can be, and where they lie is known early: the
//! attributes and fences share a line or two at the node's beginning, heads follow, and the place
//! of an item of a leaf with a stride follows from its index.

use std::cmp::Ordering;

use hedgerow_memory::prefetch_line;

use crate::mapping_table::NodeId;
use crate::node::item::{Item, KeyParts};
use crate::node::key::{compare, equal, head_of};
use crate::node::record::{HEADER_BYTES, Kind, LINE_BYTES, RecordRef};
use crate::value::Stored;

pub(super) const LOW_BYTES_AT: usize = HEADER_BYTES;
pub(super) const HIGH_BYTES_AT: usize = 36;
pub(super) const PREFIX_BYTES_AT: usize = 40;
pub(super) const STRIDE_AT: usize = 44;
pub(super) const VALUE_LENGTH_AT: usize = 48;
pub(super) const HEADS_AT_AT: usize = 52;
pub(super) const PREFIX_AT: usize = 56;

const _: () = assert!(LOW_BYTES_AT == 32 && PREFIX_AT == HEADS_AT_AT + 4);

/// The `high_bytes` of the last node of a level.
pub(super) const NO_HIGH: u32 = u32::MAX;

/// The `stride` of a node whose items differ in size.
pub(super) const NO_STRIDE: u32 = 0;

/// A base node.
#[derive(Clone, Copy)]
pub(crate) struct Base<'g>(RecordRef<'g>);

/// Heads that are compared at once.
const WINDOW: usize = 16;

/// How many of the heads, which ascend, are below one. No branch depends on a head: the last of
/// each sixteen tell how many sixteens are below, and all of the next sixteen are compared at once.
#[inline(always)]
fn count_below(heads: &[u32], head: u32) -> usize {
    let below = |some: &[u32]| {
        some.iter()
            .map(|&other| u32::from(other < head))
            .sum::<u32>()
    };
    let Some(last_window) = heads.len().checked_sub(WINDOW) else {
        return below(heads) as usize;
    };
    let (windows, _) = heads.as_chunks::<WINDOW>();
    let whole = windows
        .iter()
        .map(|window| usize::from(window[WINDOW - 1] < head));
    let from = (whole.sum::<usize>() * WINDOW).min(last_window);
    match heads[from..].first_chunk::<WINDOW>() {
        Some(window) => from + below(window) as usize,
        None => from,
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
    pub(super) fn bytes_at(self, at: usize, count: usize) -> &'g [u8] {
        // SAFETY: callers name bytes of this base node, which is immutable for `'g`.
        unsafe { std::slice::from_raw_parts(self.0.address().as_ptr().add(at), count) }
    }

    #[inline(always)]
    pub(super) fn heads_at(self) -> usize {
        self.u32_at(HEADS_AT_AT) as usize
    }

    #[inline(always)]
    fn heads(self) -> &'g [u32] {
        // SAFETY: a base node has `size` heads, 4-byte aligned, immutable for `'g`.
        unsafe {
            let heads = self.0.address().as_ptr().add(self.heads_at());
            std::slice::from_raw_parts(heads.cast::<u32>(), self.size())
        }
    }

    /// Bytes of each item of a leaf; `None` if they differ.
    #[inline(always)]
    pub(super) fn stride(self) -> Option<usize> {
        match self.u32_at(STRIDE_AT) {
            NO_STRIDE => None,
            stride => Some(stride as usize),
        }
    }

    /// The length word of each value of a leaf with a stride.
    #[inline(always)]
    pub(super) fn value_length(self) -> u32 {
        self.u32_at(VALUE_LENGTH_AT)
    }

    /// Where what follows the heads begins.
    #[inline(always)]
    pub(super) fn behind_heads(self) -> usize {
        self.heads_at() + 4 * self.size()
    }

    /// Where an item's own bytes begin, in a node without a stride.
    #[inline(always)]
    fn start(self, index: usize) -> usize {
        debug_assert!(index <= self.size());
        let children = if self.is_leaf() { 0 } else { 4 * self.size() };
        self.u32_at(self.behind_heads() + children + 4 * index) as usize
    }

    #[inline(always)]
    fn low_at(self) -> usize {
        PREFIX_AT + self.u32_at(PREFIX_BYTES_AT) as usize
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
    pub(super) fn prefix(self) -> &'g [u8] {
        self.bytes_at(PREFIX_AT, self.u32_at(PREFIX_BYTES_AT) as usize)
    }

    /// The value and the suffix of an item of a leaf.
    #[inline(always)]
    fn leaf_item(self, index: usize) -> (Stored<'g>, &'g [u8]) {
        let (length_word, at, end) = match self.stride() {
            Some(stride) => {
                let at = self.behind_heads() + stride * index;
                (self.value_length(), at, at + stride)
            }
            None => {
                let start = self.start(index);
                // SAFETY: such an item begins with four bytes for its length word.
                let length_word =
                    unsafe { self.0.address().add(start).cast::<u32>().read_unaligned() };
                (length_word, start + 4, self.start(index + 1))
            }
        };
        let bytes = Stored::bytes_of(length_word);
        let value = Stored::new(length_word, self.bytes_at(at, bytes));
        (value, self.bytes_at(at + bytes, end - at - bytes))
    }

    /// The items of a leaf where all have the same size.
    #[inline]
    pub(super) fn rows(self) -> Option<Rows<'g>> {
        let stride = self.stride()?;
        Some(Rows {
            prefix: self.prefix(),
            items: self.bytes_at(self.behind_heads(), stride * self.size()),
            stride,
            value_length: self.value_length(),
        })
    }

    #[inline(always)]
    fn suffix(self, index: usize) -> &'g [u8] {
        if self.is_leaf() {
            return self.leaf_item(index).1;
        }
        let start = self.start(index);
        self.bytes_at(start, self.start(index + 1) - start)
    }

    /// The value of an item; of an inner node's, the child.
    #[inline(always)]
    pub fn value(self, index: usize) -> Stored<'g> {
        if self.is_leaf() {
            self.leaf_item(index).0
        } else {
            Stored::of_child(self.child(index))
        }
    }

    /// The child of an item of an inner node.
    #[inline(always)]
    pub fn child(self, index: usize) -> NodeId {
        debug_assert!(!self.is_leaf() && index < self.size());
        self.u32_at(self.behind_heads() + 4 * index)
    }

    /// The key of an item.
    #[inline]
    pub fn key(self, index: usize) -> KeyParts<'g> {
        if index == 0 && !self.is_leaf() {
            KeyParts::whole(self.low())
        } else {
            KeyParts::new(self.prefix(), self.suffix(index))
        }
    }

    /// An item.
    #[inline]
    pub fn item(self, index: usize) -> Item<'g> {
        if self.is_leaf() {
            let (value, suffix) = self.leaf_item(index);
            let key = KeyParts::new(self.prefix(), suffix);
            Item { key, value }
        } else {
            let (key, value) = (self.key(index), self.value(index));
            Item { key, value }
        }
    }

    /// The index of a key, or that at which it would be. The first item of an inner node counts as
    /// lower than every key.
    #[inline]
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        if self.is_leaf() {
            self.search_level(key, 0)
        } else {
            self.search_level(key, 1)
        }
    }

    /// As [`search`](Self::search), of which the caller knows whether the first item counts as
    /// lower than every key: `first` is 1 in inner nodes.
    #[inline(always)]
    pub fn search_level(self, key: &[u8], first: usize) -> Result<usize, usize> {
        match self.candidate(key, first) {
            Ok(candidate) => self.search_equal(candidate),
            Err(index) => Err(index),
        }
    }

    /// The first item whose head is that of a key; where there is none, the index at which the key
    /// would be. Reads heads alone.
    #[inline(always)]
    pub fn candidate<'k>(self, key: &'k [u8], first: usize) -> Result<Candidate<'k>, usize> {
        debug_assert_eq!(first, usize::from(!self.is_leaf()));
        let heads = self.heads();
        if heads.len() <= first {
            return Err(first.min(heads.len()));
        }
        let prefix = self.prefix();
        let suffix = match key.split_at_checked(prefix.len()) {
            Some((begin, suffix)) if equal(begin, prefix) => suffix,
            _ if key < prefix => return Err(first),
            _ => return Err(heads.len()),
        };
        let head = (head_of(suffix) >> 32) as u32;
        let index = first + count_below(&heads[first..], head);
        if index == heads.len() || heads[index] != head {
            return Err(index);
        }
        Ok(Candidate {
            index,
            head,
            suffix,
        })
    }

    /// What is read first of an item of a leaf, to prefetch it.
    #[inline(always)]
    pub fn item_address(self, index: usize) -> *const u8 {
        let at = match self.stride() {
            Some(stride) => self.behind_heads() + stride * index,
            None => self.behind_heads() + 4 * index,
        };
        self.0.address().as_ptr().wrapping_add(at)
    }

    /// The index of a key, whose candidate is known, or that at which it would be.
    #[inline]
    pub fn search_equal(self, candidate: Candidate<'_>) -> Result<usize, usize> {
        let mut low = candidate.index;
        let equal_heads = self.heads()[low..]
            .iter()
            .take_while(|&&other| other == candidate.head);
        let mut high = low + equal_heads.count();
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(self.suffix(middle), candidate.suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }
}

/// The items of a leaf of one size, to walk them: what says where they lie is read once.
#[derive(Clone, Copy)]
pub(super) struct Rows<'g> {
    prefix: &'g [u8],
    items: &'g [u8],
    stride: usize,
    value_length: u32,
}

impl<'g> Rows<'g> {
    /// The items from `from` to before `to`.
    #[inline(always)]
    pub fn between(
        self,
        from: usize,
        to: usize,
    ) -> impl DoubleEndedIterator<Item = Item<'g>> + ExactSizeIterator {
        let value_bytes = Stored::bytes_of(self.value_length);
        let items = &self.items[self.stride * from..self.stride * to];
        items.chunks_exact(self.stride).map(move |item| {
            let (value, suffix) = item.split_at(value_bytes);
            Item {
                key: KeyParts::new(self.prefix, suffix),
                value: Stored::new(self.value_length, value),
            }
        })
    }
}

/// What a search knows of a key once it has counted heads: the first item with the same one.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'k> {
    index: usize,
    head: u32,
    /// The key behind the node's prefix.
    suffix: &'k [u8],
}

impl Candidate<'_> {
    /// Which item it is.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.index
    }
}

/// Asks for the first `lines` cache lines of the base node of a chain, by its word in the mapping
/// table alone: attributes, fences, and heads.
#[inline(always)]
pub(crate) fn prefetch_base(word: u64, lines: usize) {
    let base = RecordRef::base_line_of(word);
    for line in 0..lines {
        prefetch_line(base.wrapping_add(LINE_BYTES * line));
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
