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

use hedgerow_pages::{Restart, View};
use hedgerow_simd::equal_bytes;

use crate::leaf::Form;
use crate::page::Image;
use crate::search::{Node, settled};
use crate::slotted::{Layout, Payload, Record};

/// The layout: whole keys in the heap, a fingerprint beside each slot.
pub(crate) struct Fingerprints;

impl Layout for Fingerprints {
    const SIDE: usize = 1;
    const HEAD: usize = 0;
    const HINTED: bool = false;

    #[inline(always)]
    fn put_side<const PAGE: usize>(page: &mut Image<PAGE>, at: usize, suffix: &[u8]) {
        page.put(at, &[fingerprint(suffix)]);
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
            if page.compare_to::<Fingerprints>(index, count, suffix)? == Ordering::Equal {
                return Ok(Some(index));
            }
            mask &= mask - 1;
        }
        first += 16;
    }
    Ok(None)
}

impl<const PAGE: usize> Image<PAGE> {
    /// The index of a key.
    #[inline(always)]
    pub(crate) fn find_fingerprint(&self, suffix: &[u8]) -> Option<usize> {
        settled(find_fingerprint(self, suffix))
    }

    /// Removes a record.
    pub(crate) fn remove_fingerprint(&mut self, index: usize) {
        self.remove::<Fingerprints>(index);
        let sorted = self.sorted();
        if index < sorted {
            self.set_sorted(sorted - 1);
        }
    }

    /// Puts all records in order.
    pub(crate) fn sort_fingerprints(&mut self) {
        let (count, sorted) = (self.count(), self.sorted());
        if sorted == count {
            return;
        }
        let slots = Fingerprints::BODY + count;
        let mut tail: Vec<(u16, u8)> = (sorted..count)
            .map(|i| {
                let print = self.u8_at(Fingerprints::BODY + i);
                (self.u16_at(slots + 2 * i) as u16, print as u8)
            })
            .collect();
        let mut key = Vec::new();
        // Merged from the back, the sorted part moves up only as far as it must.
        tail.sort_unstable_by(|a, b| self.key_bytes_at(a.0).cmp(self.key_bytes_at(b.0)));
        let (mut left, mut to) = (sorted, count);
        while let Some(&(offset, print)) = tail.last() {
            to -= 1;
            key.clear();
            key.extend_from_slice(self.key_bytes_at(offset));
            if left > 0 && self.compare_tail::<Fingerprints>(left - 1, &key) == Ordering::Greater {
                left -= 1;
                let slot = slots + 2 * left;
                self.shift(slot..slot + 2, slots + 2 * to);
                let side = Fingerprints::BODY + left;
                self.shift(side..side + 1, Fingerprints::BODY + to);
            } else {
                tail.pop();
                self.put(slots + 2 * to, &offset.to_le_bytes());
                self.put(Fingerprints::BODY + to, &[print]);
            }
        }
        self.set_sorted(count);
    }

    /// The key of the record at an offset of the heap.
    fn key_bytes_at(&self, offset: u16) -> &[u8] {
        let record = self.record_from::<Fingerprints>(usize::from(offset));
        self.slice(record.tail_at..record.value_at)
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
        page.search::<Self>(key.get(page.prefix_len()..).unwrap_or(&[]))
    }

    /// New records go to the end, wherever they belong.
    #[inline(always)]
    fn add<const PAGE: usize>(
        page: &mut Image<PAGE>,
        _place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        let index = page.count();
        page.insert::<Self>(index, &key[page.prefix_len()..], payload)
    }

    fn take<const PAGE: usize>(page: &mut Image<PAGE>, place: usize) {
        page.remove_fingerprint(place);
    }

    fn free<const PAGE: usize>(page: &Image<PAGE>) -> (usize, usize) {
        (page.free::<Self>(), PAGE - Self::BODY)
    }

    fn verify<const PAGE: usize>(page: &Image<PAGE>) -> Result<(), String> {
        page.verify_heap::<Self>()?;
        page.verify_fingerprints()
    }
}
