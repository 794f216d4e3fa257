//! The slotted page: two small arrays growing upwards, and a heap growing down towards them.
//!
//! ```text
//! +--------+-------+---------+---------+------------+-------------------------+
//! | header | hints | heads   | slots   |   free     | heap: records, fences   |
//! +--------+-------+---------+---------+------------+-------------------------+
//!                   count × HEAD  count × 2
//! ```
//!
//! A slot is the offset of a record, which [`layout`](crate::node::layout) draws. A head is the
//! number that a key's first bytes are, big endian, padded with zeros, stored little-endian. In
//! inner nodes a record is a separator and the number (4) of the child below it; that of the last
//! child is the header's upper child.
//!
//! The paper's slots hold a head, an offset and two lengths in ten bytes (§3.2). Here the heads
//! stand together, so that a search passes over a third of the cache lines, and a head is no
//! copy: the heap holds only what the head could not. With lengths of one byte for short records
//! an integer key costs four bytes a record less than half a slot.
//!
//! A record has of a key what is left after the page's prefix.

use std::marker::PhantomData;
use std::ops::Range;

use hedgerow_pages::ViewMut;
use hedgerow_simd::{Kernel, Scalar};

use crate::configuration::Configuration;
use crate::node::edit::Edit;
use crate::node::first_word::{first_word, first_word_from};
use crate::node::form::Form;
use crate::node::layout::{Layout, Payload, Record, record_size};
use crate::node::page::Image;
use crate::node::search::{Node, head_of_word, infallible};

/// Sorted slots with the heads of configuration `C`: inner nodes and comparison leaves. Their
/// search is compiled for kernel `K`.
pub(crate) struct Comparison<C, K = Scalar>(PhantomData<(C, K)>);

impl<C: Configuration, K: Kernel> Layout for Comparison<C, K> {
    const SIDE: usize = C::HEAD;
    const HEAD: usize = C::HEAD;
    const HINTED: bool = C::HINTS;
    type Kernel = K;

    #[inline(always)]
    fn put_side<const PAGE: usize>(
        page: &mut impl ViewMut<PAGE>,
        at: usize,
        key: &[u8],
        prefix: usize,
    ) {
        if C::HEAD > 0 {
            page.put_head::<Self>(at, head_of_word::<Self>(first_word_from(key, prefix)));
        }
    }
}

/// Bytes beyond a key that a buffer for keys must have.
pub(crate) const SLACK: usize = 32;

impl<const PAGE: usize> Image<PAGE> {
    #[inline(always)]
    pub(crate) fn slots_at<L: Layout>(&self) -> usize {
        L::BODY + self.count() * L::SIDE
    }

    /// Bytes between the arrays and the heap.
    #[inline(always)]
    fn gap<L: Layout>(&self) -> usize {
        self.heap_start() - L::BODY - self.count() * (L::SIDE + 2)
    }

    /// Bytes that are free once the heap is compacted.
    pub(crate) fn free<L: Layout>(&self) -> usize {
        infallible(self.free_bytes::<L>())
    }

    #[inline(always)]
    pub(crate) fn record_at<L: Layout>(&self, index: usize) -> Record {
        self.record_from::<L>(self.u16_at(self.slots_at::<L>() + 2 * index))
    }

    /// The record at an offset of the heap.
    #[inline(always)]
    pub(crate) fn record_from<L: Layout>(&self, at: usize) -> Record {
        infallible(self.record_at_offset::<L>(at))
    }

    #[inline(always)]
    pub(crate) fn payload(&self, record: Record) -> Payload<'_> {
        Payload {
            kind: record.kind,
            bytes: self.slice(record.value_at..record.value_at + record.value_len),
        }
    }

    #[inline(always)]
    pub(crate) fn head_at<L: Layout>(&self, index: usize) -> u64 {
        infallible(self.head::<L>(index))
    }

    /// The [first word](first_word) of a string of the page, without a branch that its length
    /// decides.
    #[inline(always)]
    pub(crate) fn first_word_at(&self, at: usize, len: usize) -> u64 {
        match self.from(at).first_chunk() {
            Some(bytes) => {
                let beyond = u64::MAX.checked_shr(8 * len as u32).unwrap_or(0);
                u64::from_be_bytes(*bytes) & !beyond
            }
            None => first_word(self.slice(at..at + len)),
        }
    }

    /// The head that the key of a record with a head would have without its first `more` bytes, of
    /// which there are eight at most.
    #[inline(always)]
    pub(crate) fn head_beyond<L: Layout>(&self, index: usize, more: usize) -> u64 {
        let offset = self.u16_at(self.slots_at::<L>() + 2 * index);
        let (len, tail_at) = infallible(self.key_at_offset(offset));
        let tail = self.first_word_at(tail_at, len.saturating_sub(L::HEAD));
        let head = u128::from(self.head_at::<L>(index)) << (128 - 8 * L::HEAD);
        let key = head | u128::from(tail) << (64 - 8 * L::HEAD);
        (key << (8 * more) >> (128 - 8 * L::HEAD)) as u64
    }

    /// Writes the key of a record (without the page's prefix) at the start of `to`, which must
    /// have [`SLACK`] bytes more than the key, and returns its length.
    ///
    /// A head is one store, a short tail another. What they write beyond the key is overwritten
    /// by the next.
    #[inline(always)]
    pub(crate) fn write_slot_suffix<L: Layout>(
        &self,
        index: usize,
        record: Record,
        to: &mut [u8],
    ) -> usize {
        if L::HEAD > 0 {
            let word = self.head_at::<L>(index) << (64 - 8 * L::HEAD);
            *to.first_chunk_mut().expect("slack") = word.to_be_bytes();
        }
        let len = record.value_at - record.tail_at;
        if len > 0 {
            self.copy_out(record.tail_at, len, &mut to[L::HEAD..]);
        }
        record.key_len
    }

    /// Copies bytes of the page to the start of `to`, and maybe some beyond them.
    #[inline(always)]
    fn copy_out(&self, at: usize, len: usize, to: &mut [u8]) {
        const STEP: usize = SLACK / 2;
        let from = self.from(at);
        if len <= STEP
            && let (Some(from), Some(to)) = (from.first_chunk::<STEP>(), to.first_chunk_mut())
        {
            *to = *from;
        } else {
            to[..len].copy_from_slice(&from[..len]);
        }
    }

    /// Puts a record at `index`, or says that there is no room even in a compact heap.
    #[must_use]
    #[inline]
    pub(crate) fn insert<L: Layout>(
        &mut self,
        index: usize,
        suffix: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        if !self.has_gap_for::<L>(suffix.len(), payload)
            && !self.make_gap_for::<L>(suffix.len(), payload)
        {
            return false;
        }
        self.put_record::<L>(index, suffix, 0, payload);
        true
    }

    /// Whether there is room for a record between the arrays and the heap.
    #[inline(always)]
    pub(crate) fn has_gap_for<L: Layout>(&self, key_len: usize, payload: Payload<'_>) -> bool {
        self.gap::<L>() >= record_size::<L>(key_len, payload) + L::SIDE + 2
    }

    /// Compacts the heap if that makes room for a record.
    #[cold]
    pub(crate) fn make_gap_for<L: Layout>(&mut self, key_len: usize, payload: Payload<'_>) -> bool {
        let room = self.free::<L>() >= record_size::<L>(key_len, payload) + L::SIDE + 2;
        if room {
            self.compact::<L>();
        }
        room
    }

    /// Puts other bytes in place of a record's value, if they fit where it is.
    #[must_use]
    pub(crate) fn overwrite(&mut self, record: Record, payload: Payload<'_>) -> bool {
        let fits = record.kind == payload.kind && record.value_len == payload.bytes.len();
        if fits {
            self.put_value(record.value_at, payload.bytes);
        }
        fits
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
        self.end_build();
    }

    /// Whether what the header says of the heap is right.
    pub(crate) fn verify_heap<L: Layout>(&self) -> Result<(), String> {
        let sizes = (0..self.count()).map(|index| self.record_at::<L>(index).size());
        let used = self.lower_len() + self.upper_len() + sizes.sum::<usize>();
        let said = self.heap_used();
        if used != said {
            return Err(format!("{used} bytes in the heap, not {said}"));
        }
        let (start, built) = (self.heap_start(), self.built());
        // Pages of before that was noted have a zero there.
        if built > 0 && start > built + 1 {
            return Err(format!("a heap from {start} on, which was at {built}"));
        }
        Ok(())
    }

    /// Copies a record of another page to right before `end`, and if it is short some bytes more
    /// before it: those down to `floor` are free.
    #[inline(always)]
    fn copy_record(&mut self, end: usize, from: &Self, record: Record, floor: usize) {
        const STEP: usize = 32;
        let (size, from_end) = (record.size(), record.at + record.size());
        if size <= STEP && end >= floor + STEP && from_end >= STEP {
            let bytes: &[u8; STEP] = from.array(from_end - STEP);
            self.slice_mut(end - STEP..end).copy_from_slice(bytes);
        } else {
            self.put(end - size, from.slice(record.at..from_end));
        }
    }

    /// Appends records of another slotted page, all of them above those here, and whose bytes the
    /// caller counted.
    ///
    /// # Panics
    ///
    /// If there is no room for them.
    pub(crate) fn append<L: Layout, F: Layout>(&mut self, from: &Self, indices: Range<usize>) {
        let (old, more) = (self.count(), indices.len());
        let slots = self.slots_at::<L>();
        self.shift(slots..slots + 2 * old, slots + L::SIDE * more);
        self.set_count(old + more);
        let slots = self.slots_at::<L>() + 2 * old;
        let side = L::BODY + old * L::SIDE;
        let prefix = self.prefix_len();
        // What lies beside slots is of another size in each layout.
        let same = L::SIDE == F::SIDE && prefix == from.prefix_len();
        let mut key = Vec::new();
        if same {
            let sides = L::BODY + indices.start * L::SIDE;
            self.put(side, from.slice(sides..sides + more * L::SIDE));
        } else {
            key.extend_from_slice(from.prefix());
            // Keys of inner nodes and leaves are at most about an eighth of a page.
            key.resize(PAGE / 8 + SLACK, 0);
        }
        let arrays_end = L::BODY + (old + more) * (L::SIDE + 2);
        let mut at = self.heap_start();
        for (number, index) in indices.enumerate() {
            let record = from.record_at::<F>(index);
            if same {
                self.copy_record(at, from, record, arrays_end);
                at -= record.size();
            } else {
                let start = from.prefix_len();
                let end = start + from.write_slot_suffix::<F>(index, record, &mut key[start..]);
                let (suffix, payload) = (&key[prefix..end], from.payload(record));
                at -= record_size::<L>(suffix.len(), payload);
                self.write_record::<L>(at, suffix, payload);
                L::put_side(self, side + number * L::SIDE, suffix, 0);
            }
            self.put(slots + 2 * number, &(at as u16).to_le_bytes());
        }
        assert!(
            arrays_end <= at,
            "a node has no room: its arrays end at {arrays_end}, its heap begins at {at}"
        );
        self.set_heap_used(self.heap_used() + self.heap_start() - at);
        self.set_heap_start(at);
        self.end_build();
        self.renew_hints::<L>(0);
    }
}

impl<C: Configuration> Form for Comparison<C> {
    #[inline(always)]
    fn arrays_end<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        Self::BODY + page.count() * (Self::SIDE + 2)
    }

    #[inline(always)]
    fn record<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> Record {
        page.record_at::<Self>(place)
    }

    #[inline(always)]
    fn write_suffix<const PAGE: usize>(
        page: &Image<PAGE>,
        place: usize,
        record: Record,
        to: &mut [u8],
    ) -> usize {
        page.write_slot_suffix::<Self>(place, record, to)
    }

    #[inline(always)]
    fn locate<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool) {
        page.search::<Self>(key)
    }

    #[inline(always)]
    fn lower_bound<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool) {
        Self::locate(page, key)
    }

    #[inline(always)]
    fn has_gap<const PAGE: usize>(
        page: &Image<PAGE>,
        _place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        page.has_gap_for::<Self>(key.len() - page.prefix_len(), payload)
    }

    fn make_gap<const PAGE: usize>(
        page: &mut Image<PAGE>,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        page.make_gap_for::<Self>(key.len() - page.prefix_len(), payload)
    }

    #[inline(always)]
    fn put<const PAGE: usize>(
        page: &mut impl Edit<PAGE>,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) {
        let prefix = page.node().prefix_len();
        page.put_record::<Self>(place, key, prefix, payload);
    }

    #[inline(always)]
    fn take<const PAGE: usize>(page: &mut impl Edit<PAGE>, place: usize) {
        page.remove::<Self>(place);
    }

    fn free<const PAGE: usize>(page: &Image<PAGE>) -> (usize, usize) {
        (page.free::<Self>(), PAGE - Self::BODY)
    }

    fn verify<const PAGE: usize>(page: &Image<PAGE>) -> Result<(), String> {
        page.verify_heap::<Self>()?;
        page.verify_hints::<Self>()
    }
}
