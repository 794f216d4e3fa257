//! How the records of a slotted page are laid out: what a [`Layout`] keeps beside their slots, and
//! their parts in the heap.
//!
//! ```text
//! record: | key length | value length or kind | key past its head | value |
//!           1 or 3       1 or 3                 0…                  0…
//!
//! key length:  0–254, or 255 and two bytes
//! kind:        0–250 a value of this length · 251 and two bytes a longer one ·
//!              252 and two bytes the chain of a value · 253 and two bytes the chain of the rest of
//!              a key and a value (both: `chain`) · 254 the root (4) of a layer (`key`)
//! ```
//!
//! A record has of a key what is left after the page's prefix.

use hedgerow_pages::ViewMut;
use hedgerow_simd::Kernel;

use crate::node::page::HEADER;

/// Heads that are repeated at the start of a page.
pub(crate) const HINTS: usize = 16;

/// How a slotted page splits its keys.
pub(crate) trait Layout {
    /// Bytes beside each slot.
    const SIDE: usize;
    /// Bytes of the key that are not in the heap.
    const HEAD: usize;
    /// Whether the header is followed by hints.
    const HINTED: bool;
    /// How heads of four bytes are compared that others may be changing.
    type Kernel: Kernel;
    /// Where the arrays begin.
    const BODY: usize = HEADER + if Self::HINTED { HINTS * Self::HEAD } else { 0 };

    /// Writes what lies beside the slot of a key, of which the page leaves out the first `prefix`
    /// bytes.
    fn put_side<const PAGE: usize>(
        page: &mut impl ViewMut<PAGE>,
        at: usize,
        key: &[u8],
        prefix: usize,
    );
}

/// What a record's second length says of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The value's bytes.
    Inline,
    /// A value that is not in its leaf, but for its beginning: see `chain`.
    Overflow,
    /// A key longer than a key prefix, and its value: the same.
    Long,
    /// The root (4) of a tree of all longer keys that begin with this one.
    Layer,
}

/// A value as it lies in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload<'a> {
    pub kind: Kind,
    pub bytes: &'a [u8],
}

/// Lengths from here on are marks of the other kinds, or of a two-byte length.
pub(crate) const LONGEST_SHORT_VALUE: usize = 250;
pub(crate) const LONGEST_SHORT_KEY: usize = 254;

impl Kind {
    pub(crate) const fn mark(self) -> u8 {
        match self {
            Kind::Inline => 251,
            Kind::Overflow => 252,
            Kind::Long => 253,
            Kind::Layer => 254,
        }
    }
}

// Lengths and kinds as they are drawn above.
const _: () = {
    assert!(LONGEST_SHORT_KEY == 254 && LONGEST_SHORT_VALUE == 250);
    assert!(Kind::Inline.mark() == 251 && Kind::Overflow.mark() == 252);
    assert!(Kind::Long.mark() == 253 && Kind::Layer.mark() == 254 && LAYER_BYTES == 4);
};

/// A record's parts, as offsets into its page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub at: usize,
    pub key_len: usize,
    pub tail_at: usize,
    pub value_at: usize,
    pub value_len: usize,
    pub kind: Kind,
}

impl Record {
    /// Bytes of heap.
    pub(crate) fn size(&self) -> usize {
        self.value_at + self.value_len - self.at
    }
}

/// Bytes of the number of a layer's root.
pub(crate) const LAYER_BYTES: usize = 4;

/// Bytes that say of what kind and length a value is.
pub(crate) fn mark_len(payload: Payload<'_>) -> usize {
    match payload.kind {
        Kind::Inline if payload.bytes.len() <= LONGEST_SHORT_VALUE => 1,
        Kind::Layer => 1,
        _ => 3,
    }
}

/// Bytes of heap that a record will take.
pub(crate) fn record_size<L: Layout>(key_len: usize, payload: Payload<'_>) -> usize {
    let key = if key_len > LONGEST_SHORT_KEY { 3 } else { 1 };
    key + mark_len(payload) + key_len.saturating_sub(L::HEAD) + payload.bytes.len()
}
