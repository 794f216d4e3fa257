//! Shared overflow pages: overflow pages that several records share.
//!
//! A shared overflow page has slots of one size, its class, each for the end of one record's
//! value. Which are taken is a bit each in the header:
//!
//! ```text
//!  0     1       2       4                8              32
//! +-----+-------+-------+----------------+--------------+---------------------------+
//! | tag | class | taken | the tree: root | bits of 16   | slots, equal, 2–16 of them |
//! +-----+-------+-------+----------------+--------------+---------------------------+
//! ```
//!
//! *Taken* is how many slots are. Classes 1 to 7 have 2, 3, 4, 6, 8, 12 and 16 slots of a whole
//! number of words.
//!
//! A tree remembers pages of its own that have a free slot, if it filled or freed a slot there
//! since it was opened ([`KnownFreeSlots`]). A page without any taken slot is released. To free a
//! slot a tree must change the page, which other records use, too. It need not read a page whose
//! slots it frees [all at once](crate::tree).

use crate::node::edit::Edit;
use crate::node::page::PageNumber;
use crate::node::page::{COUNT_AT, COUNTER_AT, HEADER, HEAP_AT, Image, Tag, UPPER_CHILD_AT};

/// Classes of slots, from 1 on.
pub(crate) const CLASSES: usize = 7;

/// How many slots a shared overflow page of a class has. Class 0 is none.
pub(crate) const SLOTS: [usize; CLASSES + 1] = [0, 2, 3, 4, 6, 8, 12, 16];

/// Where the bits of taken slots are.
const BITS_AT: usize = HEAP_AT;

// The header as it is drawn above: class, count and tree are in the places of other fields.
const _: () = {
    assert!(COUNTER_AT == 1 && COUNT_AT == 2 && UPPER_CHILD_AT == 4 && BITS_AT == 8);
    assert!(HEADER == 32 && SLOTS[CLASSES] == u16::BITS as usize);
};

/// Shared overflow pages that a tree remembers of each class.
const MOST_KNOWN: usize = 2048;

/// Bytes of a slot: whole words.
pub(crate) const fn slot_bytes<const PAGE: usize>(class: usize) -> usize {
    (PAGE - HEADER) / SLOTS[class] / 8 * 8
}

/// Where a slot begins.
pub(crate) const fn slot_at<const PAGE: usize>(class: usize, slot: usize) -> usize {
    HEADER + slot * slot_bytes::<PAGE>(class)
}

/// The bits of all slots of a class.
pub(crate) fn all_bits(class: usize) -> u16 {
    ((1_u32 << SLOTS[class]) - 1) as u16
}

/// The bits of taken slots.
pub(crate) fn taken_bits<const PAGE: usize>(page: &Image<PAGE>) -> u16 {
    page.u16_at(BITS_AT) as u16
}

/// An empty shared overflow page of a tree.
pub(crate) fn start<const PAGE: usize>(class: usize, tree: PageNumber) -> Image<PAGE> {
    let mut page = Image::zeroed();
    page.set_tag(Tag::SharedOverflow);
    page.set_counter(class);
    page.set_upper_child(tree as usize);
    page
}

/// Whether a page is a shared overflow page of this class and tree.
pub(crate) fn is_shared_overflow<const PAGE: usize>(
    page: &Image<PAGE>,
    class: usize,
    tree: PageNumber,
) -> bool {
    page.is(Tag::SharedOverflow) && page.counter() == class && page.upper_child() == tree as usize
}

/// Some slots of a shared overflow page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotSet {
    /// The class of the page.
    pub class: u8,
    /// A bit for each slot.
    pub bits: u16,
}

impl SlotSet {
    /// No slot.
    pub(crate) fn empty(class: usize) -> Self {
        let class = class as u8;
        Self { class, bits: 0 }
    }

    /// Whether these are all slots of a page.
    pub(crate) fn is_whole(self) -> bool {
        self.bits == all_bits(self.class.into())
    }
}

/// What is wrong with a shared overflow page of which records name these slots; else how many
/// slots are taken in vain: nobody names one that could not be made free, since the disk was
/// full or the shared overflow page could not be read at that moment.
pub(crate) fn verify<const PAGE: usize>(
    page: &Image<PAGE>,
    SlotSet { class, bits }: SlotSet,
    tree: PageNumber,
) -> Result<u32, String> {
    if !is_shared_overflow(page, class.into(), tree) {
        return Err("it is to be a shared overflow page of long values, but is not".into());
    }
    let (taken, count) = (taken_bits(page), page.count());
    if bits & !taken != 0 || count != taken.count_ones() as usize {
        return Err(format!(
            "slots {taken:#b} of a shared overflow page are taken and {count} counted, but \
             {bits:#b} are named"
        ));
    }
    Ok((taken & !bits).count_ones())
}

/// Puts bytes into a free slot, if there is one, and says which.
pub(crate) fn fill<const PAGE: usize>(
    page: &mut impl Edit<PAGE>,
    class: usize,
    bytes: &[u8],
) -> Option<usize> {
    let (taken, count) = (taken_bits(page.node()), page.node().count());
    let slot = (!taken).trailing_zeros() as usize;
    if slot >= SLOTS[class] {
        return None;
    }
    page.put(slot_at::<PAGE>(class, slot), bytes);
    page.put_u16(BITS_AT, taken | 1 << slot);
    page.put_u16(COUNT_AT, count as u16 + 1);
    Some(slot)
}

/// Makes slots free, which are taken.
pub(crate) fn free_slots<const PAGE: usize>(page: &mut impl Edit<PAGE>, bits: u16) {
    let (taken, count) = (taken_bits(page.node()), page.node().count());
    page.put_u16(BITS_AT, taken & !bits);
    page.put_u16(COUNT_AT, count as u16 - bits.count_ones() as u16);
}

/// The shared overflow pages of a tree, by class, that are known to have free slots. What is
/// here is a hint: whoever takes one looks at it.
#[derive(Debug, Default)]
pub(crate) struct KnownFreeSlots {
    known: [Vec<PageNumber>; CLASSES + 1],
}

impl KnownFreeSlots {
    /// The shared overflow page that was met last; it is his who takes it, until he offers it
    /// again.
    pub(crate) fn take(&mut self, class: usize) -> Option<PageNumber> {
        self.known[class].pop()
    }

    /// Those that will be taken next.
    pub(crate) fn next(&self, class: usize) -> impl Iterator<Item = &PageNumber> {
        self.known[class].iter().rev()
    }

    /// Says that a shared overflow page has a free slot.
    pub(crate) fn offer(&mut self, class: usize, slot_page: PageNumber) {
        let known = &mut self.known[class];
        if known.len() < MOST_KNOWN && !known.contains(&slot_page) {
            known.push(slot_page);
        }
    }

    /// Says that a page is no shared overflow page any more.
    pub(crate) fn forget(&mut self, class: usize, slot_page: PageNumber) {
        self.known[class].retain(|&known| known != slot_page);
    }
}
