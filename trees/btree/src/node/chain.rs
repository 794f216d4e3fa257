//! What a record says of a value that does not fit its leaf, and how such a value is split.
//!
//! The bytes are those of the value, after the rest of a key that is longer than a key prefix.
//! Their beginning, the *head*, stays in the record; then come whole pages; the end is a slot of a
//! page that several records share, a [shared overflow page](crate::node::shared_overflow):
//!
//! ```text
//! bytes   | head | page | page | … | slot of a shared overflow page |
//!
//! record  | class, slot | length | of it key | of it head | page of slot | pages: 1–4 × 4 | head |
//!           1             varint   varint      varint       4                               0…
//! ```
//!
//! The first byte is class + 8 × slot; the length is that of all these bytes. The key's length is
//! there in records of long keys, the shared overflow page if the class is not 0, the numbers of
//! the first pages if there are any; later pages are named by the page before. So short chains are
//! given back without a look at them.
//!
//! The first bytes of a value are always in the head, unless a key's rest comes before them: who
//! removes a range is asked about these, and need not look at a page for them.
//!
//! **How bytes are split** follows from what it costs. A byte of the head costs 1.5, since leaves
//! are two thirds full; a slot costs its part of a page, and a page costs a page, however much of
//! it is used. The cheapest layout is taken whose head leaves the record within its limit. So a
//! last page that is not full is filled to three quarters at least (or the head has no room), and
//! a value takes at most about 1.5 times its bytes.
//!
//! Records of values in a leaf have the same limit: with the key
//! prefix at most [two key prefixes](CutKey::fits).
//! Splits would allow three (`split`), but no more than three such records fit a leaf, and leaves
//! of two or three use 1.7 times the bytes of their records: shared overflow pages are better
//! from there on.

use hedgerow_index::RANGE_VALUE_BYTES;
use hedgerow_sync::varint;

use crate::node::key::CutKey;
use crate::node::layout::{Kind, Payload};
use crate::node::page::{HEADER, PageNumber};
use crate::node::shared_overflow::{CLASSES, SLOTS, slot_bytes};

/// Pages that a record names, at most.
const LISTED: usize = 4;

// The first byte of a record as it is described above.
const _: () = assert!(CLASSES + 1 == 8 && CLASSES + 8 * (SLOTS[CLASSES] - 1) <= u8::MAX as usize);

/// What ten bytes of a head cost, in bytes of pages.
const COST_OF_TEN: usize = 15;

/// Where the bytes of a record are that are not in its leaf, and how many are what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    /// [`Kind::Overflow`] or [`Kind::Long`].
    pub kind: Kind,
    /// Bytes of the key before the value.
    pub key_len: usize,
    /// Bytes of both.
    pub len: usize,
    /// Bytes that are in the record.
    pub head: usize,
    /// Whole pages.
    pub pages: usize,
    /// The class of the slot that has the end; 0 if there is none.
    pub class: usize,
    pub slot: usize,
    pub slot_page: PageNumber,
    /// The first pages, of which so many are named.
    pub numbers: [PageNumber; LISTED],
    pub listed: usize,
}

/// Bytes in an overflow page.
pub(crate) const fn page_room<const PAGE: usize>() -> usize {
    PAGE - HEADER
}

/// Takes bytes off a record.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    #[inline(always)]
    fn byte(&mut self) -> usize {
        let (&byte, rest) = self.0.split_first().expect("a whole record");
        self.0 = rest;
        usize::from(byte)
    }

    #[inline(always)]
    fn varint(&mut self) -> usize {
        varint::take(&mut self.0).expect("a whole record") as usize
    }

    #[inline(always)]
    fn page(&mut self) -> PageNumber {
        let (word, rest) = self.0.split_first_chunk().expect("a whole record");
        self.0 = rest;
        PageNumber::from_le_bytes(*word)
    }
}

impl CutKey<'_> {
    /// Whether a value is put into the leaf, if keys are cut after `key_prefix` bytes.
    #[inline(always)]
    pub(crate) fn fits(self, value: &[u8], key_prefix: usize) -> bool {
        self.rest.is_none() && self.key_prefix.len() + value.len() <= 2 * key_prefix
    }
}

impl Chain {
    /// How the rest of a key and a value are split, if keys are cut after `key_prefix` bytes. Where
    /// they are is not known yet.
    pub(crate) fn plan<const PAGE: usize>(
        cut: CutKey<'_>,
        value: &[u8],
        key_prefix: usize,
    ) -> Self {
        let key_len = cut.rest.map_or(0, <[u8]>::len);
        let len = key_len + value.len();
        let kind = if cut.rest.is_some() {
            Kind::Long
        } else {
            Kind::Overflow
        };
        let key_bytes = cut.rest.map_or(0, |_| varint::size(key_len as u64));
        // What the record has besides its head and the numbers of pages, at most.
        let fixed =
            1 + varint::size(len as u64) + key_bytes + varint::size(2 * key_prefix as u64) + 4;
        let room = (2 * key_prefix).saturating_sub(cut.key_prefix.len() + fixed);
        let room_of_head = room.saturating_sub(4 * LISTED);
        let least = match kind {
            Kind::Overflow => RANGE_VALUE_BYTES.min(len).min(room_of_head),
            _ => 0,
        };
        let split = cheapest_split::<PAGE>(len - least, room_of_head - least);
        let (head, pages) = (least + split.head, split.pages);
        let most = ((room.saturating_sub(head)) / 4).max(1);
        Self {
            kind,
            key_len,
            len,
            head,
            pages,
            class: split.class,
            slot: 0,
            slot_page: 0,
            numbers: [0; LISTED],
            listed: pages.min(LISTED).min(most),
        }
    }

    /// What a record says.
    #[inline]
    pub(crate) fn read<const PAGE: usize>(payload: Payload<'_>) -> Self {
        let mut from = Reader(payload.bytes);
        let first = from.byte();
        let (class, slot) = (first % (CLASSES + 1), first / (CLASSES + 1));
        let len = from.varint();
        let key_len = match payload.kind {
            Kind::Long => from.varint(),
            _ => 0,
        };
        let head = from.varint();
        let slot_page = if class > 0 { from.page() } else { 0 };
        let whole = (len - head) / page_room::<PAGE>();
        let part = (len - head) % page_room::<PAGE>();
        let mut numbers = [0; LISTED];
        let listed = (from.0.len() - head) / 4;
        for number in &mut numbers[..listed] {
            *number = from.page();
        }
        Self {
            kind: payload.kind,
            key_len,
            len,
            head,
            pages: whole + usize::from(class == 0 && part > 0),
            class,
            slot,
            slot_page,
            numbers,
            listed,
        }
    }

    /// The bytes in a record that says so.
    pub(crate) fn head_of<'p>(&self, payload: Payload<'p>) -> &'p [u8] {
        &payload.bytes[payload.bytes.len() - self.head..]
    }

    /// The record of this, with the bytes of its head.
    pub(crate) fn new_record(&self, head: &[u8]) -> NewRecord {
        debug_assert_eq!(head.len(), self.head);
        let mut bytes = vec![(self.class + self.slot * (CLASSES + 1)) as u8];
        varint::push(&mut bytes, self.len as u64);
        if self.kind == Kind::Long {
            varint::push(&mut bytes, self.key_len as u64);
        }
        varint::push(&mut bytes, self.head as u64);
        if self.class > 0 {
            bytes.extend_from_slice(&self.slot_page.to_le_bytes());
        }
        for number in &self.numbers[..self.listed] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(head);
        NewRecord {
            kind: self.kind,
            bytes,
        }
    }

    /// The number of page `index`, if the record has it.
    pub(crate) fn number(&self, index: usize) -> Option<PageNumber> {
        self.numbers[..self.listed].get(index).copied()
    }

    /// The pages that the record names.
    pub(crate) fn named(&self) -> impl Iterator<Item = PageNumber> {
        let slot_page = (self.class > 0).then_some(self.slot_page);
        self.numbers.into_iter().take(self.listed).chain(slot_page)
    }

    /// Which of the bytes are in page `index`.
    pub(crate) fn in_page<const PAGE: usize>(&self, index: usize) -> std::ops::Range<usize> {
        let start = self.head + index * page_room::<PAGE>();
        start..self.len.min(start + page_room::<PAGE>())
    }

    /// The bit of the slot among those of the shared overflow page; none if no shared overflow
    /// page has such a slot.
    pub(crate) fn slot_bit(&self) -> u16 {
        u16::try_from(1_u64 << self.slot).unwrap_or(0)
    }

    /// Which of the bytes are in the shared overflow page.
    pub(crate) fn in_slot<const PAGE: usize>(&self) -> std::ops::Range<usize> {
        self.head + self.pages * page_room::<PAGE>()..self.len
    }
}

/// How bytes are split.
struct Split {
    /// Bytes of the head.
    head: usize,
    /// Whole pages.
    pages: usize,
    /// The class of the slot; 0 for none.
    class: usize,
}

/// The cheapest way to split `len` bytes, with a head of at most `room` bytes.
fn cheapest_split<const PAGE: usize>(len: usize, room: usize) -> Split {
    let (whole, part) = (len / page_room::<PAGE>(), len % page_room::<PAGE>());
    let mut best = Split {
        head: 0,
        pages: whole + usize::from(part > 0),
        class: 0,
    };
    let mut least = PAGE;
    for (class, &slots) in SLOTS.iter().enumerate() {
        let (slot, cost) = match class {
            0 => (0, 0),
            _ => (slot_bytes::<PAGE>(class), PAGE / slots),
        };
        let head = part.saturating_sub(slot);
        let cost = cost + head * COST_OF_TEN / 10;
        // A slot for nothing would not be known as one.
        if head <= room && cost < least && (class == 0 || part > 0) {
            let pages = whole;
            (best, least) = (Split { head, pages, class }, cost);
        }
    }
    best
}

/// A payload made for a new record.
pub(crate) struct NewRecord {
    kind: Kind,
    bytes: Vec<u8>,
}

impl NewRecord {
    /// The record of a layer.
    pub(crate) fn layer(root: PageNumber) -> Self {
        Self {
            kind: Kind::Layer,
            bytes: root.to_le_bytes().to_vec(),
        }
    }

    pub(crate) fn payload(&self) -> Payload<'_> {
        Payload {
            kind: self.kind,
            bytes: &self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY_PREFIX_BYTES: usize = 494;

    /// Bytes of pages that a layout costs, beside the record.
    fn bytes_of(chain: &Chain) -> usize {
        let slot = match chain.class {
            0 => 0,
            class => 4096 / SLOTS[class],
        };
        4096 * chain.pages + slot
    }

    #[test]
    fn divisions_are_read_as_they_were_made_and_waste_little() {
        let key = [1; 8];
        for len in (980..20_000).step_by(7) {
            let value = vec![3; len];
            for rest in [None, Some(&value[..len / 3])] {
                let cut = CutKey {
                    key_prefix: &key,
                    rest,
                };
                let mut chain = Chain::plan::<4096>(cut, &value, KEY_PREFIX_BYTES);
                assert!(chain.listed > 0 || chain.pages == 0);
                chain.numbers[..chain.listed].fill(77);
                (chain.slot_page, chain.slot) =
                    (if chain.class > 0 { 99 } else { 0 }, chain.class / 2);
                let head = vec![5; chain.head];
                let record = chain.new_record(&head);
                let read = Chain::read::<4096>(record.payload());
                assert_eq!(format!("{read:?}"), format!("{chain:?}"));
                assert_eq!(read.head_of(record.payload()), head);
                assert!(key.len() + record.payload().bytes.len() <= 2 * KEY_PREFIX_BYTES);
                let bytes = bytes_of(&chain) + record.payload().bytes.len() * 3 / 2;
                assert!(2 * bytes <= 3 * chain.len + 100, "{bytes} for {chain:?}");
            }
        }
    }

    #[test]
    fn a_record_of_a_tiny_page_has_room_for_what_it_must_say() {
        // Three of them must fit a page of 256 bytes: see `split`.
        let key_prefix = [0; 14];
        for len in [0, 1, 100, 223, 224, 225, 5000, 1 << 20] {
            let value = vec![0; len];
            let cut = CutKey {
                key_prefix: &key_prefix,
                rest: Some(&value[..len / 2]),
            };
            let chain = Chain::plan::<256>(cut, &value, key_prefix.len());
            let record = chain.new_record(&value[..chain.head]);
            assert!(record.payload().bytes.len() <= 24, "{len}");
        }
    }
}
