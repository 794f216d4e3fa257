//! A page: one fixed-size array of bytes that means the same wherever it lies.
//!
//! Nothing in a page is an address. Places within it are offsets, other pages are numbers, and
//! every integer is little-endian, so that a page can be written to a file, read back and moved.
//! Every node begins with the header below; what follows depends on its `Tag`.
//!
//! ```text
//!  0      1        2      4            8           12
//! +-----+--------+------+------------+-----------+-----------+
//! | tag | counter| count| upper child| heap start| heap used |
//! +-----+--------+------+------------+-----------+-----------+
//! 16          18          20       22       24      26       28        32
//! +-----------+-----------+--------+--------+-------+--------+---------+
//! | lower len | upper len | lower  | upper  | prefix| sorted | built | – |
//! +-----------+-----------+--------+--------+-------+--------+---------+
//! ```
//!
//! Tag and counter are one byte, the upper child and both words of the heap four, all else two.
//! Fences lie in the heap, at offsets `lower` and `upper`; one of length 0 is open. Keys leave out
//! the first *prefix* bytes, which are those of the lower fence.
//!
//! *Built* is the last byte before which the heap grew since the node was made (see `runs`).
//! In dense leaves the number of the reference key is in the place of the upper child, the number
//! of places in that of `sorted`, and the last four bytes are the lengths of keys and values.

use std::cmp::Ordering;
use std::ops::Range;

use hedgerow_memory::prefetch_line;
use hedgerow_pages::{Restart, View, ViewMut};

/// The number of a page.
pub(crate) type PageNumber = u32;

/// Bytes of the header.
pub(crate) const HEADER: usize = 32;

// Where each field of the header begins: behind the one before.
pub(crate) const COUNTER_AT: usize = size_of::<Tag>();
pub(crate) const COUNT_AT: usize = COUNTER_AT + size_of::<u8>();
pub(crate) const UPPER_CHILD_AT: usize = COUNT_AT + size_of::<u16>();
/// Where the heap starts and how much of it is used: two fields that are written as one.
pub(crate) const HEAP_AT: usize = UPPER_CHILD_AT + size_of::<PageNumber>();
pub(crate) const HEAP_USED_AT: usize = HEAP_AT + size_of::<u32>();
const LOWER_LEN_AT: usize = HEAP_USED_AT + size_of::<u32>();
const UPPER_LEN_AT: usize = LOWER_LEN_AT + size_of::<u16>();
pub(crate) const LOWER_AT: usize = UPPER_LEN_AT + size_of::<u16>();
const UPPER_AT: usize = LOWER_AT + size_of::<u16>();
pub(crate) const PREFIX_AT: usize = UPPER_AT + size_of::<u16>();
pub(crate) const SORTED_AT: usize = PREFIX_AT + size_of::<u16>();
const BUILT_AT: usize = SORTED_AT + size_of::<u16>();

// Fields of dense leaves, in the places of others.
pub(crate) const REFERENCE_AT: usize = UPPER_CHILD_AT;
pub(crate) const PLACES_AT: usize = SORTED_AT;
pub(crate) const KEY_LEN_AT: usize = BUILT_AT;
pub(crate) const VALUE_LEN_AT: usize = KEY_LEN_AT + size_of::<u16>();

// The header as it is drawn above.
const _: () = {
    assert!(COUNTER_AT == 1 && COUNT_AT == 2 && UPPER_CHILD_AT == 4);
    assert!(HEAP_AT == 8 && HEAP_USED_AT == 12 && LOWER_LEN_AT == 16 && UPPER_LEN_AT == 18);
    assert!(LOWER_AT == 20 && UPPER_AT == 22 && PREFIX_AT == 24 && SORTED_AT == 26);
    assert!(BUILT_AT == 28 && VALUE_LEN_AT + size_of::<u16>() == HEADER);
};

/// What a page is; its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    /// Separators and child pages.
    Inner = 1,
    /// Records in key order.
    Comparison = 2,
    /// Records found by a one-byte hash of their keys.
    Fingerprint = 3,
    /// Offsets of values, one for each key that could be there.
    SemiDense = 5,
    /// Values, with room for each key that could be there.
    FullyDense = 6,
    /// A piece of a value (or of a long key) that did not fit its leaf.
    Overflow = 4,
    /// The ends of several such values.
    SharedOverflow = 7,
}

/// The bytes of one page: an image as a provider of pages has it, under a name of ours, so that
/// it can have the methods of a node.
#[derive(Debug, Clone)]
#[repr(transparent)]
pub struct Image<const PAGE: usize>(hedgerow_pages::Image<PAGE>);

/// A provider's page as a node.
#[inline(always)]
#[expect(unsafe_code, reason = "a cast that keeps the layout")]
pub(crate) fn node<const PAGE: usize>(image: &hedgerow_pages::Image<PAGE>) -> &Image<PAGE> {
    let image: *const hedgerow_pages::Image<PAGE> = image;
    // SAFETY: the layout is the same (`repr(transparent)`), and so are what is borrowed and for
    // how long.
    unsafe { &*image.cast::<Image<PAGE>>() }
}

/// A provider's page as a node to be changed.
#[inline(always)]
#[expect(unsafe_code, reason = "a cast that keeps the layout")]
pub(crate) fn node_mut<const PAGE: usize>(
    image: &mut hedgerow_pages::Image<PAGE>,
) -> &mut Image<PAGE> {
    let image: *mut hedgerow_pages::Image<PAGE> = image;
    // SAFETY: as above.
    unsafe { &mut *image.cast::<Image<PAGE>>() }
}

impl<const PAGE: usize> View for &Image<PAGE> {
    #[inline(always)]
    fn page_bytes(self) -> usize {
        PAGE
    }

    #[inline(always)]
    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Restart> {
        Ok(*Image::array(self, at))
    }

    #[inline(always)]
    fn prefetch(self, at: usize) {
        prefetch_line(self.bytes().as_ptr().wrapping_add(at));
    }

    #[inline(always)]
    fn copy(self, at: usize, into: &mut [u8]) -> Result<(), Restart> {
        into.copy_from_slice(self.slice(at..at + into.len()));
        Ok(())
    }

    #[inline(always)]
    fn compare(self, range: Range<usize>, other: &[u8]) -> Result<Ordering, Restart> {
        Ok(compare(self.slice(range), other))
    }
}

impl<const PAGE: usize> ViewMut<PAGE> for Image<PAGE> {
    #[inline(always)]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        Image::put(self, at, bytes);
    }

    #[inline(always)]
    fn fill(&mut self, range: Range<usize>, byte: u8) {
        self.slice_mut(range).fill(byte);
    }

    #[inline(always)]
    fn shift(&mut self, range: Range<usize>, to: usize) {
        Image::shift(self, range, to);
    }

    #[inline(always)]
    fn image(&self) -> &hedgerow_pages::Image<PAGE> {
        &self.0
    }
}

/// The counter of a leaf whose heads are good, or that is dense: its scans are not counted (§5.1).
pub(crate) const DISABLED_COUNTER: usize = 255;

/// A header field: how it is read and written.
macro_rules! field {
    ($get:ident, $set:ident, $offset:expr, $type:ty) => {
        #[inline(always)]
        pub(crate) fn $get(&self) -> usize {
            const BYTES: usize = size_of::<$type>();
            <$type>::from_le_bytes(*self.array::<BYTES>($offset)) as usize
        }

        #[inline(always)]
        pub(crate) fn $set(&mut self, value: usize) {
            debug_assert!(value <= <$type>::MAX as usize);
            self.put($offset, &(value as $type).to_le_bytes());
        }
    };
}

impl<const PAGE: usize> Image<PAGE> {
    /// A page of zeros.
    #[must_use]
    pub const fn zeroed() -> Self {
        assert!(PAGE >= 256 && PAGE <= 65536 && PAGE.is_multiple_of(64));
        Self(hedgerow_pages::Image::zeroed())
    }

    /// The bytes, as they would lie in a file.
    #[must_use]
    #[inline(always)]
    pub fn bytes(&self) -> &[u8; PAGE] {
        self.0.bytes()
    }

    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        self.0.bytes_mut()
    }

    field!(count, set_count, COUNT_AT, u16);
    field!(upper_child, set_upper_child, UPPER_CHILD_AT, u32);
    field!(heap_start, set_heap_start, HEAP_AT, u32);
    field!(heap_used, set_heap_used, HEAP_USED_AT, u32);
    field!(prefix_len, set_prefix_len, PREFIX_AT, u16);
    field!(sorted, set_sorted, SORTED_AT, u16);
    field!(built, set_built, BUILT_AT, u16);
    field!(lower_len, set_lower_len, LOWER_LEN_AT, u16);
    field!(upper_len, set_upper_len, UPPER_LEN_AT, u16);
    field!(lower_at, set_lower_at, LOWER_AT, u16);
    field!(upper_at, set_upper_at, UPPER_AT, u16);
    // Of leaves that adapt.
    field!(counter, set_counter, COUNTER_AT, u8);
    // Of dense leaves, which have neither a child nor an order to keep.
    field!(reference, set_reference, REFERENCE_AT, u32);
    field!(places, set_places, PLACES_AT, u16);
    field!(key_len, set_key_len, KEY_LEN_AT, u16);
    field!(dense_value_len, set_dense_value_len, VALUE_LEN_AT, u16);

    #[inline(always)]
    pub(crate) fn is(&self, tag: Tag) -> bool {
        self.bytes()[0] == tag as u8
    }

    pub(crate) fn set_tag(&mut self, tag: Tag) {
        self.bytes_mut()[0] = tag as u8;
    }

    #[inline(always)]
    pub(crate) fn array<const N: usize>(&self, at: usize) -> &[u8; N] {
        // One comparison with a constant; those of the slice go away.
        assert!(at <= PAGE - N, "an offset within the page");
        let bytes = &self.bytes()[at..at + N];
        bytes.first_chunk().expect("as many bytes")
    }

    #[inline(always)]
    pub(crate) fn u8_at(&self, at: usize) -> usize {
        usize::from(self.bytes()[at])
    }

    #[inline(always)]
    pub(crate) fn u16_at(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes(*self.array(at)))
    }

    #[inline(always)]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes()[range]
    }

    #[inline(always)]
    pub(crate) fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes_mut()[range]
    }

    /// Everything from an offset on.
    #[inline(always)]
    pub(crate) fn from(&self, at: usize) -> &[u8] {
        &self.bytes()[at..]
    }

    #[inline(always)]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Makes a range the same as in another page.
    #[inline(always)]
    pub(crate) fn copy_range(&mut self, from: &Self, range: Range<usize>) {
        self.slice_mut(range.clone())
            .copy_from_slice(from.slice(range));
    }

    #[inline(always)]
    pub(crate) fn shift(&mut self, from: Range<usize>, to: usize) {
        self.bytes_mut().copy_within(from, to);
    }

    /// The lowest key that may lie in this node; empty in the leftmost of a level.
    #[inline]
    pub(crate) fn lower(&self) -> &[u8] {
        let at = self.lower_at();
        &self.bytes()[at..at + self.lower_len()]
    }

    /// The first key beyond this node; empty in the rightmost of a level, which has no bound.
    #[inline]
    pub(crate) fn upper(&self) -> &[u8] {
        let at = self.upper_at();
        &self.bytes()[at..at + self.upper_len()]
    }

    /// What all keys of this node begin with, and none of them repeats.
    #[inline]
    pub(crate) fn prefix(&self) -> &[u8] {
        let at = self.lower_at();
        &self.bytes()[at..at + self.prefix_len()]
    }

    /// Makes an empty node between two fences.
    pub(crate) fn reset(&mut self, tag: Tag, lower: &[u8], upper: &[u8], truncate: bool) {
        self.bytes_mut()[..HEADER].fill(0);
        self.set_tag(tag);
        self.set_heap_start(PAGE);
        self.push_fences(lower, upper);
        if truncate && !upper.is_empty() {
            self.set_prefix_len(shared(lower, upper));
        }
        self.end_build();
    }

    /// Says that the records of a slotted node are those that it was made of: what is put from
    /// now on came later.
    pub(crate) fn end_build(&mut self) {
        // Less one, since a heap may begin at the end of the largest page.
        self.set_built(self.heap_start() - 1);
    }

    /// Puts the fences where the heap begins; the heap must be empty.
    pub(crate) fn push_fences(&mut self, lower: &[u8], upper: &[u8]) {
        // An empty fence lies nowhere: an offset of zero is inside every page.
        let at = self.push_bytes(lower);
        self.set_lower_at(if lower.is_empty() { 0 } else { at });
        self.set_lower_len(lower.len());
        let at = self.push_bytes(upper);
        self.set_upper_at(if upper.is_empty() { 0 } else { at });
        self.set_upper_len(upper.len());
    }

    /// Takes room from the heap; the caller saw to it that there is some.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> usize {
        let at = self.heap_start() - bytes.len();
        self.put(at, bytes);
        self.set_heap_start(at);
        self.set_heap_used(self.heap_used() + bytes.len());
        at
    }
}

/// The order of two byte strings of one byte or more. Most differ in their first eight.
#[inline(always)]
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    if let (Some(x), Some(y)) = (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        let (x, y) = (u64::from_be_bytes(*x), u64::from_be_bytes(*y));
        if x != y {
            return x.cmp(&y);
        }
    }
    a.cmp(b)
}

/// How many leading bytes two keys share.
pub(crate) fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
