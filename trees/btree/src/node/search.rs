//! Search within a slotted page: heads first, hints before them, tails last.
//!
//! Heads are compared as integers, without branches on keys: heads of four bytes eight or sixteen
//! at a time, others by a binary search. 16 of them, the hints, lie at the start of the page and
//! say where to begin. Only records with equal heads are read, and of their keys what follows the
//! bytes that all of them are known to share.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use hedgerow_pages::{Restart, View};
use hedgerow_simd::{Kernel, below_32};

use crate::node::first_word::{first_word, first_word_from};
use crate::node::layout::{
    HINTS, Kind, LAYER_BYTES, LONGEST_SHORT_KEY, LONGEST_SHORT_VALUE, Layout, Record,
};
use crate::node::page::{COUNT_AT, HEADER, HEAP_USED_AT, Image, PREFIX_AT, Tag, UPPER_CHILD_AT};

/// Where a search may end.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    /// The first of these slots.
    low: usize,
    /// The last.
    high: usize,
}

/// A search among heads of which the hints said where it goes on.
#[derive(Clone, Copy)]
pub(crate) struct HeadSearch {
    head: u64,
    /// Records of the node.
    pub count: usize,
    slots: Slots,
}

/// Which heads a search leaves behind.
#[derive(Clone, Copy)]
pub(crate) enum Before {
    /// Those below a key's.
    Below,
    /// Those, and equal ones.
    Upto,
}

impl Before {
    #[inline(always)]
    fn holds(self, other: u64, head: u64) -> bool {
        match self {
            Before::Below => other < head,
            Before::Upto => other <= head,
        }
    }
}

/// Heads of four bytes that are compared at once, or half as many where those are enough.
const WINDOW: usize = 16;

/// What a record says of its value.
pub(crate) struct ValueMark {
    pub kind: Kind,
    /// Bytes of the value.
    pub len: usize,
    /// The offset behind what says so.
    pub end: usize,
}

/// Bytes of a node, three lines, that a search reads first: the header, and hints or fingerprints.
pub(crate) const FIRST_BYTES: usize = 192;

/// Bytes of a node, two lines, that say what a search reads next: the header and hints.
pub(crate) const HINT_BYTES: usize = 128;

/// The head of a key, which compares as its bytes do.
#[inline(always)]
pub(crate) fn head_of<L: Layout>(key: &[u8]) -> u64 {
    head_of_word::<L>(first_word(key))
}

/// The head of a key by its first eight bytes.
#[inline(always)]
pub(crate) fn head_of_word<L: Layout>(word: u64) -> u64 {
    if L::HEAD == 8 { word } else { word >> 32 }
}

/// The part of a node that a search reads, of any kind of view: bytes that nobody changes, or
/// bytes that may be changing, of which nothing is true before they were validated.
pub(crate) trait Node: View {
    /// Asks for what a search reads first: the header, and hints or fingerprints.
    #[inline(always)]
    fn prefetch_first(self) {
        for at in (0..FIRST_BYTES).step_by(64) {
            self.prefetch(at);
        }
    }

    /// Whether the page is of this kind.
    #[inline(always)]
    fn has_tag(self, tag: Tag) -> Result<bool, Restart> {
        Ok(self.u8(0)? == tag as u8)
    }

    /// Whether the page is a leaf, of whatever layout.
    #[inline(always)]
    fn is_leaf(self) -> Result<bool, Restart> {
        let tag = self.u8(0)?;
        let is = |kind: Tag| tag == kind as u8;
        Ok(
            is(Tag::Comparison)
                || is(Tag::Fingerprint)
                || is(Tag::SemiDense)
                || is(Tag::FullyDense),
        )
    }

    /// How many records there are.
    #[inline(always)]
    fn records(self) -> Result<usize, Restart> {
        Ok(usize::from(self.u16(COUNT_AT)?))
    }

    /// Bytes that records may still take, after others were moved together if need be.
    #[inline(always)]
    fn free_bytes<L: Layout>(self) -> Result<usize, Restart> {
        let arrays = self.records()? * (L::SIDE + 2);
        let used = L::BODY + arrays + self.u32(HEAP_USED_AT)? as usize;
        self.page_bytes().checked_sub(used).ok_or(Restart)
    }

    /// The index of the first record at or above `key`, which begins with the page's prefix, and
    /// whether it is equal.
    #[inline(always)]
    fn find_slot<L: Layout>(self, key: &[u8]) -> Result<(usize, bool), Restart> {
        let (count, suffix) = (self.records()?, self.suffix_of(key)?);
        if L::HEAD == 0 {
            let (low, high) = (0, count);
            return self.find_tail::<L>(Slots { low, high }, count, suffix);
        }
        let head = self.head_of_suffix::<L>(key)?;
        let firsts = self.slots_by_hints::<L>(Before::Below, head, count)?;
        let first = self.first_head::<L>(firsts, Before::Below, head)?;
        if first == count || self.head::<L>(first)? != head {
            return Ok((first, false));
        }
        let mut end = first + 1;
        if end < count && self.head::<L>(end)? == head {
            let ends = self.slots_by_hints::<L>(Before::Upto, head, count)?;
            end = end.max(ends.low);
            if end < ends.high && self.head::<L>(end)? == head {
                end = self.first_head::<L>(Slots { low: end, ..ends }, Before::Upto, head)?;
            }
        }
        let (low, high) = (first, end);
        self.find_tail::<L>(Slots { low, high }, count, suffix)
    }

    /// Begins a search among heads by the hints, and asks for the heads that it will compare and
    /// for their slots.
    #[inline(always)]
    fn begin_search<L: Layout>(self, key: &[u8]) -> Result<HeadSearch, Restart> {
        let (head, count) = (self.head_of_suffix::<L>(key)?, self.records()?);
        let slots = self.slots_by_hints::<L>(Before::Below, head, count)?;
        self.prefetch(L::BODY + slots.low * L::SIDE);
        self.prefetch(L::BODY + slots.high * L::SIDE);
        Ok(HeadSearch { head, count, slots })
    }

    /// The first index whose head is not below a key's: that of the key's record, unless other
    /// records have its head.
    #[inline(always)]
    fn likely_slot<L: Layout>(self, search: HeadSearch) -> Result<usize, Restart> {
        self.first_head::<L>(search.slots, Before::Below, search.head)
    }

    /// Whether the record at an index, which may be beyond the last, has the head that a search is
    /// for.
    #[inline(always)]
    fn has_head<L: Layout>(self, index: usize, search: HeadSearch) -> Result<bool, Restart> {
        Ok(index < search.count && self.head::<L>(index)? == search.head)
    }

    /// The record at an index, which may be beyond the last, if it is that of a key.
    #[inline(always)]
    fn record_if_of<L: Layout>(self, index: usize, key: &[u8]) -> Result<Option<Record>, Restart> {
        let count = self.records()?;
        if L::HEAD == 0
            || index >= count
            || self.head::<L>(index)? != self.head_of_suffix::<L>(key)?
        {
            return Ok(None);
        }
        let suffix = self.suffix_of(key)?;
        let record = self.record::<L>(index, count)?;
        if record.key_len != suffix.len() {
            return Ok(None);
        }
        // Short keys are no more than their heads.
        let other = suffix.get(L::HEAD..).unwrap_or(&[]);
        let is_it = match other.len() {
            0 => true,
            1..8 => self
                .order_of_few(record.tail_at, other, first_word(other))?
                .is_eq(),
            _ => self
                .compare(record.tail_at..record.value_at, other)?
                .is_eq(),
        };
        Ok(is_it.then_some(record))
    }

    /// What [`find_slot`](Self::find_slot) says, if that is this index and the heads beside it tell
    /// so. `None` says nothing, as the page may have changed since somebody found the index.
    #[inline(always)]
    fn confirm_slot<L: Layout>(
        self,
        index: usize,
        key: &[u8],
    ) -> Result<Option<(usize, bool)>, Restart> {
        let count = self.records()?;
        if L::HEAD == 0 || index > count {
            return Ok(None);
        }
        let head = self.head_of_suffix::<L>(key)?;
        if index > 0 && self.head::<L>(index - 1)? >= head {
            return Ok(None);
        }
        if index == count {
            return Ok(Some((index, false)));
        }
        let here = self.head::<L>(index)?;
        if here != head {
            return Ok((here > head).then_some((index, false)));
        }
        let order = self.compare_to::<L>(index, count, self.suffix_of(key)?)?;
        Ok((order == Ordering::Equal).then_some((index, true)))
    }

    /// Between which slots the first record is whose head is not `before` a key's.
    #[inline(always)]
    fn slots_by_hints<L: Layout>(
        self,
        before: Before,
        head: u64,
        count: usize,
    ) -> Result<Slots, Restart> {
        if !L::HINTED || count <= HINTS {
            let (low, high) = (0, count);
            return Ok(Slots { low, high });
        }
        let slots = self.hinted::<L>(before, head, count)?;
        // The record's slot comes with the heads, not after them.
        self.prefetch(L::BODY + count * L::SIDE + 2 * slots.low);
        Ok(slots)
    }

    /// The head at an index.
    #[inline(always)]
    fn head<L: Layout>(self, index: usize) -> Result<u64, Restart> {
        let at = L::BODY + index * L::SIDE;
        if L::HEAD == 8 {
            self.u64(at)
        } else {
            Ok(u64::from(self.aligned_u32(at)?))
        }
    }

    /// The offset in the heap of the record at an index, of `count`.
    #[inline(always)]
    fn slot<L: Layout>(self, index: usize, count: usize) -> Result<usize, Restart> {
        let at = L::BODY + count * L::SIDE + 2 * index;
        let offset = if L::SIDE.is_multiple_of(2) {
            self.aligned_u16(at)?
        } else {
            self.u16(at)?
        };
        Ok(usize::from(offset))
    }

    /// Between which slots the hints place the first record whose head is not `before` a key's:
    /// between two hints, or before the first, or behind the last.
    #[inline(always)]
    fn hinted<L: Layout>(self, before: Before, head: u64, count: usize) -> Result<Slots, Restart> {
        let step = count / (HINTS + 1);
        let rank = if L::HEAD == 4 {
            let are_before = self.heads_before::<L, { HINTS / 2 }>(HEADER, before, head as u32)?;
            are_before.trailing_ones() as usize
        } else if Self::BY_WORDS {
            self.rank_by_words::<L>(before, head)?
        } else {
            let bytes = self.array::<{ 8 * HINTS }>(HEADER)?;
            let hints = bytes.as_chunks().0.iter();
            let are_before = hints.map(|hint| before.holds(u64::from_le_bytes(*hint), head));
            are_before.map(usize::from).sum()
        };
        let high = if rank == HINTS {
            count
        } else {
            (rank + 1) * step
        };
        let low = rank * step;
        Ok(Slots { low, high })
    }

    /// How many hints of eight bytes are `before` a head, by as few loads as it takes.
    #[inline(always)]
    fn rank_by_words<L: Layout>(self, before: Before, head: u64) -> Result<usize, Restart> {
        let hint = |index: usize| self.u64(HEADER + index * L::HEAD);
        let mut rank = 0;
        for half in [HINTS / 2, HINTS / 4, HINTS / 8, HINTS / 16] {
            let is_before = before.holds(hint(rank + half - 1)?, head);
            rank = select_unpredictable(is_before, rank + half, rank);
        }
        Ok(rank + usize::from(before.holds(hint(rank)?, head)))
    }

    /// The first index from `low` to `high` whose head is not `before` a key's.
    #[inline(always)]
    fn first_head<L: Layout>(
        self,
        Slots { low, high }: Slots,
        before: Before,
        head: u64,
    ) -> Result<usize, Restart> {
        let mut base = low;
        let mut len = high - low;
        while len > 1 {
            if L::HEAD == 4
                && len < WINDOW
                && let Some(found) = self.first_in_window::<L>(base, len, before, head as u32)?
            {
                return Ok(found);
            }
            let half = len / 2;
            let is_before = before.holds(self.head::<L>(base + half - 1)?, head);
            base = select_unpredictable(is_before, base + half, base);
            len -= half;
        }
        Ok(base + usize::from(len == 1 && before.holds(self.head::<L>(base)?, head)))
    }

    /// What [`first_head`](Self::first_head) says of fewer than sixteen heads from an index on,
    /// compared at once; `None` where that many do not lie within the page.
    #[inline(always)]
    fn first_in_window<L: Layout>(
        self,
        index: usize,
        len: usize,
        before: Before,
        head: u32,
    ) -> Result<Option<usize>, Restart> {
        const {
            assert!(
                L::HEAD != 4 || L::SIDE == 4 && L::BODY.is_multiple_of(8),
                "two heads of four bytes are a word"
            );
        }
        // Heads are loaded two by two.
        let skip = index % 2;
        let at = L::BODY + 4 * (index - skip);
        if at + 4 * WINDOW > self.page_bytes() {
            return Ok(None);
        }
        // Between two hints there are few heads in most leaves, and more in inner nodes.
        let are_before = if skip + len <= WINDOW / 2 {
            self.heads_before::<L, { WINDOW / 4 }>(at, before, head)?
        } else {
            self.heads_before::<L, { WINDOW / 2 }>(at, before, head)?
        };
        let bits = (are_before >> skip) & !(u32::MAX << len);
        Ok(Some(index + bits.trailing_ones() as usize))
    }

    /// A bit for each of the two heads in each of so many words that is `before` a head.
    #[inline(always)]
    fn heads_before<L: Layout, const WORDS: usize>(
        self,
        at: usize,
        before: Before,
        head: u32,
    ) -> Result<u32, Restart> {
        let above = match before {
            Before::Below => Some(head),
            Before::Upto => head.checked_add(1),
        };
        let Some(above) = above else {
            return Ok((1 << (2 * WORDS)) - 1);
        };
        match self.shared_words::<WORDS>(at)? {
            Some(words) => Ok(L::Kernel::below_shared_32(words, above)),
            None => Ok(below_32(self.words::<WORDS>(at)?, above)),
        }
    }

    /// The search among records whose heads are equal (or absent), of `count`.
    #[inline(always)]
    fn find_tail<L: Layout>(
        self,
        slots: Slots,
        count: usize,
        suffix: &[u8],
    ) -> Result<(usize, bool), Restart> {
        let other = suffix.get(L::HEAD..).unwrap_or(&[]);
        if other.len() < 8 {
            return self.find_short_tail::<L>(slots, count, suffix.len(), other);
        }
        let Slots { mut low, mut high } = slots;
        let first = first_word(other);
        // How many bytes of the tail the records at both ends have, and so all between them.
        let (mut below, mut above) = (0, 0);
        while low < high {
            let middle = (low + high) / 2;
            let at = self.slot::<L>(middle, count)?;
            let (key_len, tail_at) = self.key_at_offset(at)?;
            let both = key_len.saturating_sub(L::HEAD).min(other.len());
            let (order, shared) = if both >= 8 {
                self.order_by_words(tail_at, &other[..both], below.min(above))?
            } else {
                (self.order_of_few(tail_at, &other[..both], first)?, 0)
            };
            match order.then(key_len.cmp(&suffix.len())) {
                Ordering::Less => (low, below) = (middle + 1, shared),
                Ordering::Greater => (high, above) = (middle, shared),
                Ordering::Equal => return Ok((middle, true)),
            }
        }
        Ok((low, false))
    }

    /// The same for a key of `len` bytes with fewer than eight behind its head, which are `other`:
    /// no branch depends on how keys compare, which is as good as random.
    #[inline(always)]
    fn find_short_tail<L: Layout>(
        self,
        slots: Slots,
        count: usize,
        len: usize,
        other: &[u8],
    ) -> Result<(usize, bool), Restart> {
        let Slots { mut low, mut high } = slots;
        let (first, mut found) = (first_word(other), false);
        while low < high {
            let middle = (low + high) / 2;
            let at = self.slot::<L>(middle, count)?;
            let (key_len, tail_at) = self.key_at_offset(at)?;
            let both = key_len.saturating_sub(L::HEAD).min(other.len());
            let mask = !(u64::MAX >> (8 * both));
            let (mine, theirs) = (self.word_from(tail_at)? & mask, first & mask);
            let is_same = mine == theirs;
            let is_below = mine < theirs || is_same && key_len < len;
            // There is one such key, and nothing below it is behind it.
            found |= is_same && key_len == len;
            low = select_unpredictable(is_below, middle + 1, low);
            high = select_unpredictable(is_below, high, middle);
        }
        Ok((low, found))
    }

    /// Eight bytes from an offset on as a number that compares as they do; beyond the end of the
    /// page they are zeros.
    #[inline(always)]
    fn word_from(self, at: usize) -> Result<u64, Restart> {
        let mut bytes = [0; 8];
        if at + 8 <= self.page_bytes() {
            bytes = self.array(at)?;
        } else {
            let left = self.page_bytes().checked_sub(at).ok_or(Restart)?;
            self.copy(at, &mut bytes[..left])?;
        }
        Ok(u64::from_be_bytes(bytes))
    }

    /// Compares what lies at `at` with as many bytes, eight or more, of which `skip` are known to
    /// be equal; also how many are.
    #[inline(always)]
    fn order_by_words(
        self,
        at: usize,
        other: &[u8],
        skip: usize,
    ) -> Result<(Ordering, usize), Restart> {
        let last = other.len() - 8;
        let mut next = skip.min(last);
        loop {
            let word = u64::from_be_bytes(self.array(at + next)?);
            let bytes = other[next..].first_chunk().expect("eight from the last");
            let difference = word ^ u64::from_be_bytes(*bytes);
            if difference != 0 {
                let order = word.cmp(&u64::from_be_bytes(*bytes));
                return Ok((order, next + difference.leading_zeros() as usize / 8));
            }
            if next == last {
                return Ok((Ordering::Equal, other.len()));
            }
            next = (next + 8).min(last);
        }
    }

    /// Compares what lies at `at` with as many bytes, fewer than eight, with which the word
    /// `first` begins.
    #[inline(always)]
    fn order_of_few(self, at: usize, other: &[u8], first: u64) -> Result<Ordering, Restart> {
        if other.is_empty() {
            return Ok(Ordering::Equal);
        }
        if at + 8 > self.page_bytes() {
            return self.compare(at..at + other.len(), other);
        }
        let rest = 64 - 8 * other.len() as u32;
        let word = u64::from_be_bytes(self.array(at)?);
        Ok((word >> rest).cmp(&(first >> rest)))
    }

    /// Compares the key of a record with `suffix`, given that their heads are equal.
    ///
    /// A head pads short keys with zeros, so tails decide first and lengths then: `a` and
    /// `a\0` have one head and two lengths.
    #[inline(always)]
    fn compare_to<L: Layout>(
        self,
        index: usize,
        count: usize,
        suffix: &[u8],
    ) -> Result<Ordering, Restart> {
        let at = self.slot::<L>(index, count)?;
        let (key_len, tail_at) = self.key_at_offset(at)?;
        let tail_len = key_len.saturating_sub(L::HEAD);
        let other = suffix.get(L::HEAD..).unwrap_or(&[]);
        if tail_len > 0 && !other.is_empty() {
            let order = self.compare(tail_at..tail_at + tail_len, other)?;
            if order != Ordering::Equal {
                return Ok(order);
            }
        }
        Ok(key_len.cmp(&suffix.len()))
    }

    /// How long the key of the record at an offset of the heap is, and where it goes on behind
    /// its head. Most records are short, and these two bytes say all of it.
    #[inline(always)]
    fn key_at_offset(self, at: usize) -> Result<(usize, usize), Restart> {
        let [key_len, mark] = self.array(at)?.map(usize::from);
        if key_len <= LONGEST_SHORT_KEY && mark <= LONGEST_SHORT_VALUE {
            return Ok((key_len, at + 2));
        }
        let (key_len, next) = self.key_len(at)?;
        Ok((key_len, self.value_mark(next)?.end))
    }

    /// How long the key of the record at an offset is, and the place after what says so.
    #[inline(always)]
    fn key_len(self, at: usize) -> Result<(usize, usize), Restart> {
        let len = usize::from(self.u8(at)?);
        if len > LONGEST_SHORT_KEY {
            return Ok((usize::from(self.u16(at + 1)?), at + 3));
        }
        Ok((len, at + 1))
    }

    /// A record by its index among `count`.
    #[inline(always)]
    fn record<L: Layout>(self, index: usize, count: usize) -> Result<Record, Restart> {
        self.record_at_offset::<L>(self.slot::<L>(index, count)?)
    }

    /// The record at an offset of the heap.
    #[inline(always)]
    fn record_at_offset<L: Layout>(self, at: usize) -> Result<Record, Restart> {
        let (key_len, next) = self.key_len(at)?;
        let mark = self.value_mark(next)?;
        Ok(Record {
            at,
            key_len,
            tail_at: mark.end,
            value_at: mark.end + key_len.saturating_sub(L::HEAD),
            value_len: mark.len,
            kind: mark.kind,
        })
    }

    /// Of what kind and how long a value is.
    #[inline(always)]
    fn value_mark(self, at: usize) -> Result<ValueMark, Restart> {
        let (kind, len, bytes) = match usize::from(self.u8(at)?) {
            len @ 0..=LONGEST_SHORT_VALUE => (Kind::Inline, len, 1),
            251 => (Kind::Inline, usize::from(self.u16(at + 1)?), 3),
            252 => (Kind::Overflow, usize::from(self.u16(at + 1)?), 3),
            253 => (Kind::Long, usize::from(self.u16(at + 1)?), 3),
            _ => (Kind::Layer, LAYER_BYTES, 1),
        };
        let end = at + bytes;
        Ok(ValueMark { kind, len, end })
    }

    /// What keys leave out.
    #[inline(always)]
    fn prefix_bytes(self) -> Result<usize, Restart> {
        Ok(usize::from(self.u16(PREFIX_AT)?))
    }

    /// A key without what all keys here leave out.
    #[inline(always)]
    fn suffix_of(self, key: &[u8]) -> Result<&[u8], Restart> {
        Ok(key.get(self.prefix_bytes()?..).unwrap_or(&[]))
    }

    /// The head of a key's suffix.
    #[inline(always)]
    fn head_of_suffix<L: Layout>(self, key: &[u8]) -> Result<u64, Restart> {
        let prefix = self.prefix_bytes()?.min(key.len());
        Ok(head_of_word::<L>(first_word_from(key, prefix)))
    }

    /// A child of an inner node of `count` records by its index; that at `count` is the last.
    #[inline(always)]
    fn child_at<L: Layout>(self, index: usize, count: usize) -> Result<u32, Restart> {
        if index == count {
            return self.u32(UPPER_CHILD_AT);
        }
        self.u32(self.record::<L>(index, count)?.value_at)
    }

    /// The child that covers `key`, and its index.
    #[inline(always)]
    fn child_over<L: Layout>(self, key: &[u8]) -> Result<(u32, usize), Restart> {
        let (index, equal) = self.find_slot::<L>(key)?;
        let index = index + usize::from(equal);
        Ok((self.child_at::<L>(index, self.records()?)?, index))
    }
}

impl<V: View> Node for V {}

/// What was read of bytes that nobody changes.
#[inline(always)]
pub(crate) fn infallible<T>(read: Result<T, Restart>) -> T {
    match read {
        Ok(read) => read,
        Err(Restart) => unreachable!("nobody changes this page"),
    }
}

impl<const PAGE: usize> Image<PAGE> {
    /// Whether a leaf, of whatever layout.
    pub(crate) fn is_leaf(&self) -> bool {
        infallible(Node::is_leaf(self))
    }

    /// The index of the first record at or above `key`, and whether it is equal.
    #[inline(always)]
    pub(crate) fn search<L: Layout>(&self, key: &[u8]) -> (usize, bool) {
        infallible(self.find_slot::<L>(key))
    }

    /// How many records the hints leave to a search for the record at `index`: all, where there are
    /// no hints.
    pub(crate) fn hinted_records<L: Layout>(&self, index: usize) -> usize {
        if !L::HINTED {
            return self.count();
        }
        let (head, count) = (self.head_at::<L>(index), self.count());
        let slots = |before| infallible(self.slots_by_hints::<L>(before, head, count));
        slots(Before::Upto).high - slots(Before::Below).low
    }

    /// Whether every hint is the head that it repeats.
    pub(crate) fn verify_hints<L: Layout>(&self) -> Result<(), String> {
        if !L::HINTED || self.count() <= HINTS {
            return Ok(());
        }
        let step = self.count() / (HINTS + 1);
        for hint in 0..HINTS {
            let at = HEADER + hint * L::HEAD;
            let head = L::BODY + step * (hint + 1) * L::SIDE;
            if self.slice(at..at + L::HEAD) != self.slice(head..head + L::HEAD) {
                return Err(format!("hint {hint} is not the head that it repeats"));
            }
        }
        Ok(())
    }

    /// Whether an inner node.
    #[inline(always)]
    pub(crate) fn is_inner(&self) -> bool {
        self.is(Tag::Inner)
    }

    /// The child that covers `key`, and its index.
    #[inline(always)]
    pub(crate) fn child_for<L: Layout>(&self, key: &[u8]) -> (u32, usize) {
        infallible(self.child_over::<L>(key))
    }

    /// A child by its index; that at `count` is the last.
    #[inline(always)]
    pub(crate) fn child<L: Layout>(&self, index: usize) -> u32 {
        infallible(self.child_at::<L>(index, self.count()))
    }
}
