//! The slotted page: two small arrays growing upwards, and a heap growing down towards them.
//!
//! ```text
//! +--------+-------+---------+---------+------------+-------------------------+
//! | header | hints | heads   | slots   |   free     | heap: records, fences   |
//! +--------+-------+---------+---------+------------+-------------------------+
//!                   count × HEAD  count × 2
//!
//! record: | key length | value length or kind | key past its head | value |
//!           1 or 3       1 or 3                 0…                  0…
//! ```
//!
//! The paper's slots hold a head, an offset and two lengths in ten bytes (§3.2). Here the heads
//! stand together, so that a search passes over a third of the cache lines, and a head is no
//! copy: the heap holds only what the head could not. With lengths of one byte for short records
//! an integer key costs four bytes a record less than half a slot.
//!
//! A key here is always what is left after the page's prefix.

use std::cmp::Ordering;
use std::marker::PhantomData;

use crate::configuration::Configuration;
use crate::page::{HEADER, Image, Tag};

/// How a slotted page divides its keys.
pub(crate) trait Layout {
    /// Bytes beside each slot.
    const SIDE: usize;
    /// Bytes of the key that are not in the heap.
    const HEAD: usize;
    /// Whether the header is followed by hints.
    const HINTED: bool;
    /// Where the arrays begin.
    const BODY: usize = HEADER + if Self::HINTED { HINTS * Self::HEAD } else { 0 };
}

/// Sorted slots with the heads of configuration `C`: inner nodes and comparison leaves.
pub(crate) struct Comparison<C>(PhantomData<C>);

impl<C: Configuration> Layout for Comparison<C> {
    const SIDE: usize = C::HEAD;
    const HEAD: usize = C::HEAD;
    const HINTED: bool = C::HINTS;
}

/// Heads that are repeated at the start of a page.
const HINTS: usize = 16;

/// What a record's second length says of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The value's bytes.
    Inline,
    /// A value in overflow pages: page (4 bytes), length (8).
    Overflow,
    /// A key longer than a stem, and its value, in overflow pages: page (4), bytes of the key (4),
    /// bytes of both (8).
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
const LONGEST_SHORT_VALUE: usize = 250;
const LONGEST_SHORT_KEY: usize = 254;

impl Kind {
    const fn mark(self) -> u8 {
        match self {
            Kind::Inline => 251,
            Kind::Overflow => 252,
            Kind::Long => 253,
            Kind::Layer => 254,
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Kind::Inline => 0,
            Kind::Overflow => 12,
            Kind::Long => 16,
            Kind::Layer => 4,
        }
    }
}

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

/// Bytes of heap that a record will take.
pub(crate) fn record_size<L: Layout>(key_len: usize, payload: Payload<'_>) -> usize {
    let key = if key_len > LONGEST_SHORT_KEY { 3 } else { 1 };
    let inline_long = payload.kind == Kind::Inline && payload.bytes.len() > LONGEST_SHORT_VALUE;
    let value = if inline_long { 3 } else { 1 };
    key + value + key_len.saturating_sub(L::HEAD) + payload.bytes.len()
}

/// The head of a key, which compares as its bytes do.
#[inline(always)]
fn head_of<L: Layout>(key: &[u8]) -> u64 {
    let word = match key.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => short_word(key),
    };
    if L::HEAD == 8 { word } else { word >> 32 }
}

/// Up to seven bytes, padded with zeros; no call to copy them.
#[inline(always)]
fn short_word(key: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let high = u64::from(u32::from_be_bytes(*first)) << 32;
        let low = u64::from(u32::from_be_bytes(*last)) << 32;
        return high | low >> (8 * (key.len() - 4));
    }
    let mut word = 0;
    for &byte in key {
        word = word << 8 | u64::from(byte);
    }
    if key.is_empty() {
        0
    } else {
        word << (64 - 8 * key.len())
    }
}

impl<const PAGE: usize> Image<PAGE> {
    #[inline(always)]
    fn slots_at<L: Layout>(&self) -> usize {
        L::BODY + self.count() * L::SIDE
    }

    /// Bytes between the arrays and the heap.
    fn gap<L: Layout>(&self) -> usize {
        self.heap_start() - L::BODY - self.count() * (L::SIDE + 2)
    }

    /// Bytes that are free once the heap is compacted.
    pub(crate) fn free<L: Layout>(&self) -> usize {
        PAGE - L::BODY - self.count() * (L::SIDE + 2) - self.heap_used()
    }

    #[inline(always)]
    pub(crate) fn record_at<L: Layout>(&self, index: usize) -> Record {
        self.record_from::<L>(self.u16_at(self.slots_at::<L>() + 2 * index))
    }

    /// The record at an offset of the heap.
    #[inline(always)]
    pub(crate) fn record_from<L: Layout>(&self, at: usize) -> Record {
        let mut next = at + 2;
        let mut key_len = self.u8_at(at);
        let mark;
        if key_len > LONGEST_SHORT_KEY {
            key_len = self.u16_at(at + 1);
            mark = self.u8_at(at + 3);
            next = at + 4;
        } else {
            mark = self.u8_at(at + 1);
        }
        let (kind, value_len) = match mark {
            0..=LONGEST_SHORT_VALUE => (Kind::Inline, mark),
            251 => {
                next += 2;
                (Kind::Inline, self.u16_at(next - 2))
            }
            252 => (Kind::Overflow, Kind::Overflow.bytes()),
            253 => (Kind::Long, Kind::Long.bytes()),
            _ => (Kind::Layer, Kind::Layer.bytes()),
        };
        Record {
            at,
            key_len,
            tail_at: next,
            value_at: next + key_len.saturating_sub(L::HEAD),
            value_len,
            kind,
        }
    }

    #[inline(always)]
    pub(crate) fn payload(&self, record: Record) -> Payload<'_> {
        Payload {
            kind: record.kind,
            bytes: self.slice(record.value_at..record.value_at + record.value_len),
        }
    }

    #[inline(always)]
    fn head_at<L: Layout>(&self, index: usize) -> u64 {
        let at = L::BODY + index * L::SIDE;
        if L::HEAD == 8 {
            u64::from_le_bytes(*self.array(at))
        } else {
            u64::from(self.u32_at(at))
        }
    }

    #[inline(always)]
    fn put_head<L: Layout>(&mut self, at: usize, head: u64) {
        if L::HEAD == 8 {
            self.put(at, &head.to_le_bytes());
        } else {
            self.put(at, &(head as u32).to_le_bytes());
        }
    }

    /// Appends the key of a record (without the page's prefix) to `key`.
    #[inline(always)]
    pub(crate) fn push_suffix<L: Layout>(&self, index: usize, key: &mut Vec<u8>) {
        let record = self.record_at::<L>(index);
        if L::HEAD > 0 {
            let word = self.head_at::<L>(index) << (64 - 8 * L::HEAD);
            let bytes = word.to_be_bytes();
            key.extend_from_slice(&bytes[..record.key_len.min(L::HEAD)]);
        }
        key.extend_from_slice(self.slice(record.tail_at..record.value_at));
    }

    /// The index of the first record at or above `suffix`, and whether it is equal.
    #[inline(always)]
    pub(crate) fn search<L: Layout>(&self, suffix: &[u8]) -> (usize, bool) {
        let count = self.count();
        if L::HEAD == 0 {
            return self.search_tails::<L>(0, count, suffix);
        }
        let head = head_of::<L>(suffix);
        let (low, high) = if L::HINTED && count > HINTS {
            self.hinted::<L>(head, count)
        } else {
            (0, count)
        };
        let first = self.first_head::<L>(low, high, |other| other < head);
        if first == count || self.head_at::<L>(first) != head {
            return (first, false);
        }
        let mut end = first + 1;
        if end < high && self.head_at::<L>(end) == head {
            end = self.first_head::<L>(end, high, |other| other <= head);
        }
        self.search_tails::<L>(first, end, suffix)
    }

    /// Between which slots the hints place a head.
    #[inline(always)]
    fn hinted<L: Layout>(&self, head: u64, count: usize) -> (usize, usize) {
        let step = count / (HINTS + 1);
        let (below, upto) = if L::HEAD == 8 {
            let hints: [u64; HINTS] =
                std::array::from_fn(|i| u64::from_le_bytes(*self.array(HEADER + 8 * i)));
            rank(&hints, head)
        } else {
            let bytes: &[u8; 4 * HINTS] = self.array(HEADER);
            let hints: [u32; HINTS] = std::array::from_fn(|i| {
                u32::from_le_bytes([
                    bytes[4 * i],
                    bytes[4 * i + 1],
                    bytes[4 * i + 2],
                    bytes[4 * i + 3],
                ])
            });
            rank(&hints, head as u32)
        };
        let high = if upto == HINTS {
            count
        } else {
            (upto + 1) * step
        };
        (below * step, high)
    }

    /// The first index of `low..high` whose head is not `before`, without a branch that the keys
    /// decide.
    #[inline(always)]
    fn first_head<L: Layout>(
        &self,
        low: usize,
        high: usize,
        before: impl Fn(u64) -> bool,
    ) -> usize {
        let mut base = low;
        let mut len = high - low;
        while len > 1 {
            let half = len / 2;
            base += half * usize::from(before(self.head_at::<L>(base + half - 1)));
            len -= half;
        }
        base + usize::from(len == 1 && before(self.head_at::<L>(base)))
    }

    /// The search among records whose heads are equal (or absent).
    #[inline(always)]
    fn search_tails<L: Layout>(
        &self,
        mut low: usize,
        mut high: usize,
        suffix: &[u8],
    ) -> (usize, bool) {
        while low < high {
            let middle = (low + high) / 2;
            match self.compare_tail::<L>(middle, suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return (middle, true),
            }
        }
        (low, false)
    }

    /// Compares the key of a record with `suffix`, given that their heads are equal.
    ///
    /// A head pads short keys with zeros, so tails decide first and lengths then: `a` and
    /// `a\0` have one head and two lengths.
    #[inline(always)]
    pub(crate) fn compare_tail<L: Layout>(&self, index: usize, suffix: &[u8]) -> Ordering {
        let record = self.record_at::<L>(index);
        let tail = self.slice(record.tail_at..record.value_at);
        let other = suffix.get(L::HEAD..).unwrap_or(&[]);
        tail.cmp(other).then(record.key_len.cmp(&suffix.len()))
    }

    /// Puts a record at `index`, or says that there is no room even in a compact heap.
    #[must_use]
    pub(crate) fn insert<L: Layout>(
        &mut self,
        index: usize,
        suffix: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        let size = record_size::<L>(suffix.len(), payload);
        let need = size + L::SIDE + 2;
        if self.gap::<L>() < need {
            if self.free::<L>() < need {
                return false;
            }
            self.compact::<L>();
        }
        let at = self.heap_start() - size;
        self.set_heap_start(at);
        self.set_heap_used(self.heap_used() + size);
        self.write_record::<L>(at, suffix, payload);
        self.open_slot::<L>(index, at);
        if L::HEAD > 0 {
            self.put_head::<L>(L::BODY + index * L::SIDE, head_of::<L>(suffix));
            self.update_hints::<L>(index);
        }
        true
    }

    fn write_record<L: Layout>(&mut self, at: usize, suffix: &[u8], payload: Payload<'_>) {
        let mut next = at;
        if suffix.len() > LONGEST_SHORT_KEY {
            self.put(next, &[255]);
            self.put(next + 1, &(suffix.len() as u16).to_le_bytes());
            next += 3;
        } else {
            self.put(next, &[suffix.len() as u8]);
            next += 1;
        }
        let len = payload.bytes.len();
        if payload.kind == Kind::Inline && len <= LONGEST_SHORT_VALUE {
            self.put(next, &[len as u8]);
            next += 1;
        } else {
            self.put(next, &[payload.kind.mark()]);
            next += 1;
            if payload.kind == Kind::Inline {
                self.put(next, &(len as u16).to_le_bytes());
                next += 2;
            }
        }
        let tail = suffix.get(L::HEAD..).unwrap_or(&[]);
        self.put(next, tail);
        self.put(next + tail.len(), payload.bytes);
    }

    /// Makes room in both arrays for one more entry.
    fn open_slot<L: Layout>(&mut self, index: usize, offset: usize) {
        let count = self.count();
        let old = self.slots_at::<L>();
        let new = old + L::SIDE;
        self.shift(old + 2 * index..old + 2 * count, new + 2 * index + 2);
        if L::SIDE > 0 {
            self.shift(old..old + 2 * index, new);
            let side = L::BODY + index * L::SIDE;
            self.shift(side..old, side + L::SIDE);
        }
        self.put(new + 2 * index, &(offset as u16).to_le_bytes());
        self.set_count(count + 1);
    }

    /// Removes a record; its bytes stay in the heap until the next compaction.
    pub(crate) fn remove<L: Layout>(&mut self, index: usize) {
        let size = self.record_at::<L>(index).size();
        let count = self.count();
        let old = self.slots_at::<L>();
        let new = old - L::SIDE;
        if L::SIDE > 0 {
            let side = L::BODY + index * L::SIDE;
            self.shift(side + L::SIDE..old, side);
            self.shift(old..old + 2 * index, new);
        }
        self.shift(old + 2 * index + 2..old + 2 * count, new + 2 * index);
        self.set_count(count - 1);
        self.set_heap_used(self.heap_used() - size);
        if L::HEAD > 0 {
            self.update_hints::<L>(index);
        }
    }

    /// Puts other bytes in place of a record's value, if they fit where it is.
    #[must_use]
    pub(crate) fn overwrite(&mut self, record: Record, payload: Payload<'_>) -> bool {
        let fits = record.kind == payload.kind && record.value_len == payload.bytes.len();
        if fits {
            self.put(record.value_at, payload.bytes);
        }
        fits
    }

    /// Renews the hints after a change at `index`: those from there on, or all of them when their
    /// spacing changed.
    fn update_hints<L: Layout>(&mut self, index: usize) {
        if !L::HINTED {
            return;
        }
        let count = self.count();
        let step = count / (HINTS + 1);
        if step == 0 {
            return;
        }
        // After an insertion a new spacing shows in a remainder of nothing, after a removal in
        // the largest.
        let rest = count % (HINTS + 1);
        let moved = rest == 0 || rest == HINTS;
        let first = if moved {
            0
        } else {
            (index / step).saturating_sub(1)
        };
        for hint in first.min(HINTS)..HINTS {
            let head = self.head_at::<L>(step * (hint + 1));
            self.put_head::<L>(HEADER + hint * L::HEAD, head);
        }
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

    /// Packs all live records at the end of the page.
    pub(crate) fn compact<L: Layout>(&mut self) {
        let old = self.clone();
        self.set_heap_start(PAGE);
        self.set_heap_used(0);
        self.push_fences(old.lower(), old.upper());
        let slots = self.slots_at::<L>();
        for index in 0..old.count() {
            let record = old.record_at::<L>(index);
            let at = self.push_bytes(old.slice(record.at..record.at + record.size()));
            self.put(slots + 2 * index, &(at as u16).to_le_bytes());
        }
    }

    /// Whether an inner node.
    #[inline(always)]
    pub(crate) fn is_inner(&self) -> bool {
        self.is(Tag::Inner)
    }

    /// The child that covers `key`, and its index.
    #[inline(always)]
    pub(crate) fn child_for<L: Layout>(&self, key: &[u8]) -> (u32, usize) {
        let (index, equal) = self.search::<L>(key.get(self.prefix_len()..).unwrap_or(&[]));
        let index = index + usize::from(equal);
        (self.child::<L>(index), index)
    }

    /// A child by its index; that at `count` is the last.
    #[inline(always)]
    pub(crate) fn child<L: Layout>(&self, index: usize) -> u32 {
        if index == self.count() {
            return self.upper_child() as u32;
        }
        self.u32_at(self.record_at::<L>(index).value_at)
    }

    /// Makes a child another page.
    pub(crate) fn set_child<L: Layout>(&mut self, index: usize, child: u32) {
        if index == self.count() {
            self.set_upper_child(child as usize);
        } else {
            let at = self.record_at::<L>(index).value_at;
            self.put(at, &child.to_le_bytes());
        }
    }
}

/// How many hints are below a head, and how many at or below.
#[inline(always)]
fn rank<T: Copy + Ord>(hints: &[T; HINTS], head: T) -> (usize, usize) {
    let (mut below, mut upto) = (0_u32, 0_u32);
    for &hint in hints {
        below += u32::from(hint < head);
        upto += u32::from(hint <= head);
    }
    (below as usize, upto as usize)
}
