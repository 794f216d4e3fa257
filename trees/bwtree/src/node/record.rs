//! What all records of a logical node have in common: the attributes of Table 1, and how a chain is
//! followed.
//!
//! A logical node is a chain of delta records that ends in a base node. The mapping table names
//! its newest record. Deltas and their base lie in one chunk (module `chunk`), newer ones in front
//! of older ones, so links are distances in units of 8 bytes. (As a form for comparison, deltas lie
//! in blocks of their own, module `delta_blocks`; distances may then be negative.)
//!
//! ```text
//! byte  0      1      2       4      8       12       16     20     24      28
//!      │ kind │ level │ depth │ size │ right │ offset │ next │ base │ bound │ key_bytes │
//!        u8     u8      u16     u32    u32     u32      u32    u32    u32     u32        = 32
//!
//! deltas of leaves, and splits, from byte 32:
//!      │ filter u64 │ length word u32 │ – u32 │ key … │ value …
//! separators:
//!      │ – u64 │ child u32 │ child_high_bytes u32 │ key … │ the child's high key …
//! merge:   │ chain u64 │                 the newest record of what was the right neighbour
//! abort:   │ left u32 │ removed u32 │     the nodes that are being merged
//! remove:  │ chain u64 │ into u32 │ – u32 │ key … │   the frozen chain, the node that takes its keys,
//!                                                  its low key
//! ```
//!
//! | attribute of Table 1 | here |
//! |---|---|
//! | low key | of the base node: it never changes while the node lives |
//! | high key | of the record that `bound` names: the base node, or the split above it |
//! | right neighbour, size, depth, offset | fields of the same names |
//!
//! A delta of a leaf has a **filter**: two bits for each key that it or an older delta of its chain
//! is about. A lookup whose key lacks one in the newest delta's filter goes to the base node at
//! once.
//!
//! The mapping table's word for a chain is the newest record's address with, in its upper 16 bits,
//! the distance from there to the base node in units of 8 bytes (0 if that is too far). So a reader
//! who has the word can ask for both at the same time.
//!
//! A record is written before the compare-and-swap that publishes it and is immutable afterwards,
//! so readers need no atomics once they have loaded the mapping table's word.

use std::marker::PhantomData;
use std::mem::{offset_of, size_of};
use std::ptr::NonNull;

use hedgerow_memory::prefetch_line;

use crate::mapping_table::{ADDRESS_BITS, NodeId, address_of};
use crate::node::key::equal;
use crate::value::Stored;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A base node, the end of every chain.
    Base,
    /// A new key of a leaf.
    Insert,
    /// Another value of a key that is there.
    Update,
    /// A key of a leaf is gone.
    Delete,
    /// A new child of an inner node.
    InsertSeparator,
    /// A child of an inner node was merged into its left neighbour.
    DeleteSeparator,
    /// Keys from the split key on belong to the right neighbour.
    Split,
    /// The keys of what was the right neighbour belong to this node.
    Merge,
    /// Two children are being merged: nobody else changes this inner node meanwhile.
    Abort,
    /// The node is frozen; its keys go to another one.
    Remove,
}

/// The attributes of Table 1.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Header {
    pub kind: Kind,
    /// 0 for leaves, the parent's is one more.
    pub level: u8,
    /// Delta records from this one to the base node.
    pub depth: u16,
    /// Items of the logical node.
    pub size: u32,
    pub right: NodeId,
    /// Where in the base node the key is or would be, with [`IN_BASE`]; of a split, how many of
    /// the base node's items stay.
    pub offset: u32,
    /// Distance from this record to the next older one.
    pub next: u32,
    /// Distance from this record to the base node.
    pub base: u32,
    /// Distance from this record to the one that has the high key.
    pub bound: u32,
    /// Bytes of a delta's key.
    pub key_bytes: u32,
}

/// The bit of an offset that says that the base node has the key.
pub(crate) const IN_BASE: u32 = 1 << 31;

/// Bytes of the attributes.
pub(crate) const HEADER_BYTES: usize = 32;
pub(super) const BODY_AT: usize = 32;
const LENGTH_WORD_AT: usize = 40;
/// The child of a separator; of a remove record, the node that takes the keys.
pub(super) const CHILD_AT: usize = LENGTH_WORD_AT;
const CHILD_HIGH_BYTES_AT: usize = 44;
/// Bytes of a delta before its key.
pub(crate) const KEYED_BYTES: usize = 48;
/// Bytes of a merge or abort record.
pub(crate) const FIXED_BYTES: usize = 48;

/// The `child_high_bytes` of a separator whose child has no high key.
pub(crate) const NO_CHILD_HIGH: u32 = u32::MAX;

const _: () = {
    assert!(size_of::<Header>() == HEADER_BYTES);
    assert!(offset_of!(Header, level) == 1 && offset_of!(Header, depth) == 2);
    assert!(offset_of!(Header, size) == 4 && offset_of!(Header, right) == 8);
    assert!(offset_of!(Header, offset) == 12 && offset_of!(Header, next) == 16);
    assert!(offset_of!(Header, base) == 20 && offset_of!(Header, bound) == 24);
    assert!(offset_of!(Header, key_bytes) == 28);
    assert!(LENGTH_WORD_AT == BODY_AT + 8 && CHILD_HIGH_BYTES_AT == CHILD_AT + 4);
    assert!(KEYED_BYTES == CHILD_HIGH_BYTES_AT + 4);
};

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Cache lines of one node that are asked for at once: about as many as a core has under way.
pub(crate) const MOST_LINES: usize = 16;

/// Bytes between the beginning of a cache line and a base node: its chunk's header.
pub(crate) const BEFORE_BASE_BYTES: usize = 16;

/// Bytes in which distances between records are counted.
const DISTANCE_UNIT: u32 = 8;

/// A published record, which stays as it is for `'g`.
///
/// Invariant: the address is that of a record that was completely written before it was published,
/// in memory that is not freed during `'g`; so is everything that it links to.
#[derive(Clone, Copy)]
pub(crate) struct RecordRef<'g> {
    address: NonNull<u8>,
    alive: PhantomData<&'g [u8]>,
}

impl PartialEq for RecordRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<'g> RecordRef<'g> {
    /// The record at an address.
    ///
    /// # Safety
    ///
    /// The type's invariant holds for `'g`.
    #[inline(always)]
    pub unsafe fn new(address: NonNull<u8>) -> Self {
        Self {
            address,
            alive: PhantomData,
        }
    }

    /// The record of a word of the mapping table.
    ///
    /// # Safety
    ///
    /// The word was loaded from the table under a guard that lives for `'g`, and is no free entry.
    #[inline(always)]
    pub unsafe fn of_word(word: u64) -> Self {
        let raw = std::ptr::with_exposed_provenance_mut::<u8>(address_of(word));
        debug_assert!(!raw.is_null());
        // SAFETY: words of used entries are addresses of records and never 0; what the table names
        // is retired, not freed, so it outlives the guard.
        unsafe { Self::new(NonNull::new_unchecked(raw)) }
    }

    #[inline(always)]
    pub fn address(self) -> NonNull<u8> {
        self.address
    }

    /// The word of the mapping table that names it.
    #[inline(always)]
    pub fn word(self) -> u64 {
        let header = self.header();
        let units = match header.kind {
            Kind::Remove => 0,
            _ => u64::from(header.base),
        };
        let address = self.address.as_ptr().expose_provenance() as u64;
        debug_assert!(address < 1 << ADDRESS_BITS);
        let fits = units < 1 << (u64::BITS - ADDRESS_BITS);
        address | if fits { units } else { 0 } << ADDRESS_BITS
    }

    /// The address of the newest record, by the word of a chain; to prefetch it.
    #[inline(always)]
    pub fn address_of_word(word: u64) -> *const u8 {
        std::ptr::without_provenance(address_of(word))
    }

    /// Where the base node's first cache line begins, by the word of a chain; a guess, to prefetch
    /// it.
    #[inline(always)]
    pub fn base_line_of(word: u64) -> *const u8 {
        let distance = (word >> ADDRESS_BITS) as usize * DISTANCE_UNIT as usize;
        let base = std::ptr::without_provenance::<u8>(address_of(word) + distance);
        base.wrapping_sub(BEFORE_BASE_BYTES)
    }

    /// The distance from this record to another one of its chain.
    #[inline(always)]
    pub fn distance_to(self, other: Self) -> u32 {
        let bytes = other.address.addr().get() as isize - self.address.addr().get() as isize;
        debug_assert!(i32::try_from(bytes / DISTANCE_UNIT as isize).is_ok());
        (bytes / DISTANCE_UNIT as isize) as u32
    }

    /// The record that has the high key of a chain in one chunk.
    #[inline(always)]
    pub fn bound(self) -> Self {
        debug_assert!(!matches!(self.kind(), Kind::Merge | Kind::Remove));
        self.follow(self.header().bound)
    }

    #[inline(always)]
    pub fn header(self) -> &'g Header {
        // SAFETY: every record begins with its attributes, 8-byte aligned and immutable.
        unsafe { &*self.address.as_ptr().cast::<Header>() }
    }

    #[inline(always)]
    pub fn kind(self) -> Kind {
        self.header().kind
    }

    #[inline(always)]
    pub fn follow(self, distance: u32) -> Self {
        let units = distance as i32 as isize;
        let address = self.address.addr().get();
        // The other record may lie in a block of its own.
        let address = address.wrapping_add_signed(units * DISTANCE_UNIT as isize);
        let raw = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: distances lead to other records of the chain, whose blocks are exposed.
        unsafe { Self::new(NonNull::new_unchecked(raw)) }
    }

    #[inline(always)]
    fn u32_at(self, at: usize) -> u32 {
        // SAFETY: callers name a field that their kind of record has.
        unsafe { self.address.add(at).cast::<u32>().read() }
    }

    #[inline(always)]
    fn u64_at(self, at: usize) -> u64 {
        // SAFETY: as for `u32_at`.
        unsafe { self.address.add(at).cast::<u64>().read() }
    }

    #[inline(always)]
    fn bytes_at(self, at: usize, count: usize) -> &'g [u8] {
        // SAFETY: callers name bytes of this record, which are immutable for `'g`.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr().add(at), count) }
    }

    /// The next older record; of a base node, and of a record in a block of its own, none.
    #[inline(always)]
    pub fn next(self) -> Self {
        debug_assert!(!matches!(self.kind(), Kind::Base | Kind::Remove));
        self.follow(self.header().next)
    }

    /// The word of the chain that a merge or remove record leads to.
    #[inline]
    pub fn chain_word(self) -> u64 {
        debug_assert!(matches!(self.kind(), Kind::Merge | Kind::Remove));
        self.u64_at(BODY_AT)
    }

    /// What a merge leads to: the chain of the node that was removed.
    #[inline]
    pub fn chain(self) -> Self {
        debug_assert_eq!(self.kind(), Kind::Merge);
        // SAFETY: the chain is retired with the chain that has the merge.
        unsafe { Self::of_word(self.chain_word()) }
    }

    /// Whether it is a change of one key of a leaf.
    #[inline(always)]
    pub fn is_leaf_delta(self) -> bool {
        matches!(self.kind(), Kind::Insert | Kind::Update | Kind::Delete)
    }

    /// Asks for the records of a chain in one chunk, which are about a cache line each.
    #[inline(always)]
    pub fn prefetch_chain(self) {
        for line in 1..usize::from(self.header().depth).min(MOST_LINES) {
            prefetch_line(self.address.as_ptr().wrapping_add(LINE_BYTES * line));
        }
    }

    /// The bits of the keys that this and older deltas of a leaf are about.
    #[inline(always)]
    pub fn filter(self) -> u64 {
        if self.is_leaf_delta() {
            self.u64_at(BODY_AT)
        } else {
            0
        }
    }

    /// The key of a delta.
    #[inline(always)]
    pub fn key(self) -> &'g [u8] {
        self.bytes_at(KEYED_BYTES, self.header().key_bytes as usize)
    }

    /// Whether a delta is about a key.
    #[inline(always)]
    pub fn is_of(self, key: &[u8]) -> bool {
        equal(self.key(), key)
    }

    /// The value of an insert or update.
    #[inline(always)]
    pub fn value(self) -> Stored<'g> {
        let length_word = self.u32_at(LENGTH_WORD_AT);
        let at = KEYED_BYTES + self.header().key_bytes as usize;
        Stored::new(
            length_word,
            self.bytes_at(at, Stored::bytes_of(length_word)),
        )
    }

    /// The child that a separator leads to.
    #[inline(always)]
    pub fn child(self) -> NodeId {
        self.u32_at(CHILD_AT)
    }

    /// The high key of a separator's child, where the keys end that it leads there; `None` if there
    /// is none.
    #[inline(always)]
    pub fn child_high(self) -> Option<&'g [u8]> {
        let bytes = self.u32_at(CHILD_HIGH_BYTES_AT);
        let at = KEYED_BYTES + self.header().key_bytes as usize;
        (bytes != NO_CHILD_HIGH).then(|| self.bytes_at(at, bytes as usize))
    }

    /// Bytes of a delta that is about a key.
    pub fn delta_bytes(self) -> usize {
        let behind_key = match self.kind() {
            Kind::InsertSeparator | Kind::DeleteSeparator => {
                self.child_high().map_or(0, <[u8]>::len)
            }
            _ => Stored::bytes_of(self.u32_at(LENGTH_WORD_AT)),
        };
        let bytes = KEYED_BYTES + self.header().key_bytes as usize + behind_key;
        bytes.next_multiple_of(8)
    }

    /// Of a split: how many of the base node's items stay.
    #[inline(always)]
    pub fn offset(self) -> usize {
        self.header().offset as usize
    }

    /// Of an abort: the node that grows, and the one that goes.
    pub fn merging(self) -> (NodeId, NodeId) {
        debug_assert_eq!(self.kind(), Kind::Abort);
        (self.u32_at(BODY_AT), self.u32_at(BODY_AT + 4))
    }

    /// Of a remove record: the node that takes the keys.
    pub fn into_node(self) -> NodeId {
        debug_assert_eq!(self.kind(), Kind::Remove);
        self.u32_at(CHILD_AT)
    }
}

/// What follows a record's attributes.
#[derive(Clone, Copy)]
pub(crate) enum Body<'a> {
    /// A delta of a leaf, or a split (with no value and no filter).
    Value {
        filter: u64,
        key: &'a [u8],
        value: Stored<'a>,
    },
    /// A separator.
    Separator {
        key: &'a [u8],
        child: NodeId,
        child_high: Option<&'a [u8]>,
    },
    Merge {
        chain: u64,
    },
    Abort {
        left: NodeId,
        removed: NodeId,
    },
    Remove {
        chain: u64,
        into: NodeId,
        key: &'a [u8],
    },
}

impl Body<'_> {
    /// Whether it is a delta about a key, not one of a split, merge or removal of a node.
    #[inline(always)]
    pub fn is_about_a_key(&self) -> bool {
        matches!(self, Body::Value { .. } | Body::Separator { .. })
    }

    /// Bytes of a record with this body, a multiple of 8.
    pub fn record_bytes(&self) -> usize {
        let bytes = match self {
            Body::Value { key, value, .. } => KEYED_BYTES + key.len() + value.bytes().len(),
            Body::Separator {
                key, child_high, ..
            } => KEYED_BYTES + key.len() + child_high.map_or(0, <[u8]>::len),
            Body::Remove { key, .. } => KEYED_BYTES + key.len(),
            Body::Merge { .. } | Body::Abort { .. } => FIXED_BYTES,
        };
        bytes.next_multiple_of(8)
    }
}

/// Writes a record.
///
/// # Safety
///
/// `at` is 8-byte aligned, with room for `body.record_bytes()` that nobody else uses.
pub(crate) unsafe fn write_record(at: NonNull<u8>, mut header: Header, body: &Body<'_>) {
    let put = |offset: usize, bytes: &[u8]| {
        // SAFETY: the caller gave room for the whole record, of which these bytes are a part.
        unsafe {
            at.add(offset)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        }
    };
    match *body {
        Body::Value { filter, key, value } => {
            header.key_bytes = key.len() as u32;
            put(BODY_AT, &filter.to_ne_bytes());
            put(LENGTH_WORD_AT, &value.length_word().to_ne_bytes());
            put(CHILD_HIGH_BYTES_AT, &0_u32.to_ne_bytes());
            put(KEYED_BYTES, key);
            put(KEYED_BYTES + key.len(), value.bytes());
        }
        Body::Separator {
            key,
            child,
            child_high,
        } => {
            header.key_bytes = key.len() as u32;
            let child_high_bytes = child_high.map_or(NO_CHILD_HIGH, |high| high.len() as u32);
            put(BODY_AT, &0_u64.to_ne_bytes());
            put(CHILD_AT, &child.to_ne_bytes());
            put(CHILD_HIGH_BYTES_AT, &child_high_bytes.to_ne_bytes());
            put(KEYED_BYTES, key);
            put(KEYED_BYTES + key.len(), child_high.unwrap_or_default());
        }
        Body::Merge { chain } => put(BODY_AT, &chain.to_ne_bytes()),
        Body::Abort { left, removed } => {
            put(BODY_AT, &left.to_ne_bytes());
            put(BODY_AT + 4, &removed.to_ne_bytes());
        }
        Body::Remove { chain, into, key } => {
            header.key_bytes = key.len() as u32;
            put(BODY_AT, &chain.to_ne_bytes());
            put(CHILD_AT, &into.to_ne_bytes());
            put(KEYED_BYTES, key);
        }
    }
    // SAFETY: as above; the alignment is the caller's promise.
    unsafe { at.cast::<Header>().write(header) };
}
