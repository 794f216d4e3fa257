//! Fingerprinting leaves: records found by a one-byte hash of their keys (§3.4).
//!
//! ```text
//! +--------+--------------------+---------------+------+---------+
//! | header | fingerprints       | slots         | free | heap    |
//! |        | sorted  | unsorted | as the left   |      |         |
//! +--------+--------------------+---------------+------+---------+
//! ```
//!
//! A lookup compares the hash with sixteen fingerprints at a time and reads the few records that
//! match. New records go to the end, so nothing is shifted; the header says how many from the
//! start are in order. A scan, a split or a merge sorts first.

use std::cmp::Ordering;
use std::ops::Range;

use hedgerow_pages::{Restart, View, ViewMut};
use hedgerow_simd::{Scalar, equal_bytes};

use crate::node::edit::Edit;
use crate::node::form::Form;
use crate::node::layout::{Layout, Payload, Record};
use crate::node::page::{Image, SORTED_AT};
use crate::node::search::{Node, infallible};

/// The layout: whole keys in the heap, a fingerprint beside each slot.
pub(crate) struct Fingerprints;

impl Layout for Fingerprints {
    const SIDE: usize = 1;
    const HEAD: usize = 0;
    const HINTED: bool = false;
    type Kernel = Scalar;

    #[inline(always)]
    fn put_side<const PAGE: usize>(
        page: &mut impl ViewMut<PAGE>,
        at: usize,
        key: &[u8],
        prefix: usize,
    ) {
        page.put(at, &[fingerprint(&key[prefix..])]);
    }
}

/// The fingerprint of a key without its page's prefix.
#[inline(always)]
fn fingerprint(suffix: &[u8]) -> u8 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = suffix.len() as u64;
    let mut chunks = suffix.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(*chunk.first_chunk().expect("eight bytes"));
        hash = (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
    let rest = chunks.remainder();
    let word = if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>())
    {
        u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
    } else {
        rest.iter()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    hash = (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    (hash >> 56) as u8
}

/// The index of a key.
#[inline(always)]
pub(crate) fn find_fingerprint(page: impl View, suffix: &[u8]) -> Result<Option<usize>, Restart> {
    first_match(page, suffix, |index, count| {
        let order = page.compare_to::<Fingerprints>(index, count, suffix)?;
        Ok(order == Ordering::Equal)
    })
}

/// The index of a key if no other has its fingerprint.
#[inline(always)]
pub(crate) fn likely_index(page: impl View, suffix: &[u8]) -> Result<Option<usize>, Restart> {
    first_match(page, suffix, |_, _| Ok(true))
}

/// Whether a key is at an index, which may be beyond the last.
#[inline(always)]
pub(crate) fn is_at(page: impl View, index: usize, suffix: &[u8]) -> Result<bool, Restart> {
    let count = page.records()?;
    Ok(index < count && page.compare_to::<Fingerprints>(index, count, suffix)? == Ordering::Equal)
}

/// The first index with the fingerprint of a key of which `is_it`, also given how many records
/// there are, is true.
#[inline(always)]
fn first_match(
    page: impl View,
    suffix: &[u8],
    is_it: impl Fn(usize, usize) -> Result<bool, Restart>,
) -> Result<Option<usize>, Restart> {
    let count = page.records()?;
    let wanted = fingerprint(suffix);
    let mut first = 0;
    while first < count {
        let at = Fingerprints::BODY + first;
        // The last sixteen may reach into the slots or the heap, never past the page: a page that
        // has a fingerprint has a slot and fences or records behind it, but a very small page may
        // end sooner.
        let start = at.min(page.page_bytes() - 16);
        let prints = page.array::<16>(start)?;
        let mut mask = equal_bytes(&prints, wanted).checked_shr((at - start) as u32);
        if count - first < 16 {
            mask = mask.map(|mask| mask & ((1 << (count - first)) - 1));
        }
        let mut mask = mask.ok_or(Restart)?;
        while mask != 0 {
            let index = first + mask.trailing_zeros() as usize;
            if is_it(index, count)? {
                return Ok(Some(index));
            }
            mask &= mask - 1;
        }
        first += 16;
    }
    Ok(None)
}

/// What is sorted of a record.
#[derive(Clone, Copy)]
struct Sorted {
    /// Eight bytes of its key, most of the time the first, which are all that is looked at.
    word: u64,
    offset: u16,
    print: u8,
}

/// From here on whole keys are compared.
const MOST_BYTES_BY_WORDS: usize = 32;

/// Of a leaf one record in so many is put in its place alone. Where more are not in order, all are
/// sorted.
const FEW: usize = 16;

impl<const PAGE: usize> Image<PAGE> {
    /// The index of a key.
    #[inline(always)]
    pub(crate) fn find_fingerprint(&self, suffix: &[u8]) -> Option<usize> {
        infallible(find_fingerprint(self, suffix))
    }

    /// Puts all records in order.
    #[inline(always)]
    pub(crate) fn sort_fingerprints(&mut self) {
        let (count, sorted) = (self.count(), self.sorted());
        if sorted == count {
            return;
        }
        if FEW * (count - sorted) <= count {
            self.insert_unsorted(sorted..count);
        } else {
            self.sort_all();
        }
        self.set_sorted(count);
    }

    /// Puts records one by one among those before them, which are in order.
    #[inline(never)]
    fn insert_unsorted(&mut self, unsorted: Range<usize>) {
        let slots = Fingerprints::BODY + self.count();
        for index in unsorted {
            let record = self.sorted_record(index);
            let (mut to, mut above) = (0, index);
            while to < above {
                let middle = (to + above) / 2;
                let other = self.sorted_record(middle);
                let words = other.word.cmp(&record.word);
                if words.then_with(|| self.key_order(&other, &record)) == Ordering::Less {
                    to = middle + 1;
                } else {
                    above = middle;
                }
            }
            self.shift(slots + 2 * to..slots + 2 * index, slots + 2 * (to + 1));
            let prints = Fingerprints::BODY + to..Fingerprints::BODY + index;
            self.shift(prints.clone(), prints.start + 1);
            self.put_sorted(to, record);
        }
    }

    /// Puts all records in order.
    #[inline(never)]
    fn sort_all(&mut self) {
        let all = 0..self.count();
        let mut records: Vec<Sorted> = all.map(|index| self.sorted_record(index)).collect();
        self.sort_by_words(&mut records, 0);
        for (index, record) in records.into_iter().enumerate() {
            self.put_sorted(index, record);
        }
    }

    /// Sorts records whose words begin at `start` in their keys by these, which takes no branches
    /// that keys decide, and then those whose words are equal by the next. What is in order is
    /// merged with the rest as it is.
    fn sort_by_words(&self, records: &mut [Sorted], start: usize) {
        records.sort_by_key(|record| record.word);
        for equal in records.chunk_by_mut(|a, b| a.word == b.word) {
            if equal.len() == 1 {
                continue;
            }
            // Whole keys decide where words of zeros would not come to an end.
            if equal.len() < 4 || start >= MOST_BYTES_BY_WORDS {
                equal.sort_by(|a, b| self.key_order(a, b));
                continue;
            }
            for record in &mut *equal {
                record.word = self.key_word_at(record.offset.into(), start + 8);
            }
            self.sort_by_words(equal, start + 8);
        }
    }

    /// What is sorted of the record at an index.
    #[inline(always)]
    fn sorted_record(&self, index: usize) -> Sorted {
        let offset = self.u16_at(Fingerprints::BODY + self.count() + 2 * index);
        Sorted {
            word: self.key_word_at(offset, 0),
            offset: offset as u16,
            print: self.u8_at(Fingerprints::BODY + index) as u8,
        }
    }

    /// The first word of what the key of the record at an index has from `start` on.
    #[inline(always)]
    pub(crate) fn fingerprinted_word(&self, index: usize, start: usize) -> u64 {
        let slots = Fingerprints::BODY + self.count();
        self.key_word_at(self.u16_at(slots + 2 * index), start)
    }

    #[inline(always)]
    fn put_sorted(&mut self, index: usize, record: Sorted) {
        let slot = Fingerprints::BODY + self.count() + 2 * index;
        self.put(slot, &record.offset.to_le_bytes());
        self.put(Fingerprints::BODY + index, &[record.print]);
    }

    /// The order of two records' keys.
    #[inline(always)]
    fn key_order(&self, a: &Sorted, b: &Sorted) -> Ordering {
        let key = |record: &Sorted| self.key_bytes_at(record.offset.into());
        key(a).cmp(key(b))
    }

    /// The key of the record at an offset of the heap.
    #[inline(always)]
    fn key_bytes_at(&self, offset: usize) -> &[u8] {
        let (len, at) = infallible(self.key_at_offset(offset));
        self.slice(at..at + len)
    }

    /// The first word of what that key has from `start` on.
    #[inline(always)]
    fn key_word_at(&self, offset: usize, start: usize) -> u64 {
        let (len, at) = infallible(self.key_at_offset(offset));
        self.first_word_at(at + start.min(len), len.saturating_sub(start))
    }

    /// Whether the fingerprints are those of the keys.
    pub(crate) fn verify_fingerprints(&self) -> Result<(), String> {
        for index in 0..self.count() {
            let record = self.record_at::<Fingerprints>(index);
            let suffix = self.slice(record.tail_at..record.value_at);
            if self.u8_at(Fingerprints::BODY + index) != usize::from(fingerprint(suffix)) {
                return Err(format!("fingerprint {index} is not its key's"));
            }
        }
        Ok(())
    }
}

impl Form for Fingerprints {
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
        let suffix = key.get(page.prefix_len()..).unwrap_or(&[]);
        match page.find_fingerprint(suffix) {
            Some(index) => (index, true),
            None => (page.count(), false),
        }
    }

    #[inline(always)]
    fn lower_bound<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool) {
        page.search::<Self>(key)
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

    /// New records go to the end, wherever they belong.
    #[inline(always)]
    fn put<const PAGE: usize>(
        page: &mut impl Edit<PAGE>,
        _place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) {
        let (prefix, index) = (page.node().prefix_len(), page.node().count());
        page.put_record::<Self>(index, key, prefix, payload);
    }

    fn take<const PAGE: usize>(page: &mut impl Edit<PAGE>, place: usize) {
        page.remove::<Self>(place);
        let sorted = page.node().sorted();
        if place < sorted {
            page.put_u16(SORTED_AT, (sorted - 1) as u16);
        }
    }

    fn free<const PAGE: usize>(page: &Image<PAGE>) -> (usize, usize) {
        (page.free::<Self>(), PAGE - Self::BODY)
    }

    fn verify<const PAGE: usize>(page: &Image<PAGE>) -> Result<(), String> {
        page.verify_heap::<Self>()?;
        page.verify_fingerprints()
    }
}
