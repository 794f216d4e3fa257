//! Border nodes: keys of one layer, with their values or deeper layers, in three widths.
//!
//! ```text
//! full: 15 slots, 320 bytes
//! line 0   │ version 0 │ permutation 8 │ width 16 │ lengths 17..32         │
//!          │ next 32   │ prev 40       │ parent 48      │ suffixes 56     │
//! line 1   │ slices[0..8]                                                 │
//! line 2   │ slices[8..15]                              │ low             │
//! line 3   │ values[0..8]                                                 │
//! line 4   │ values[8..15]                              │ removed, lines  │
//! line 5…  │ inline suffix bag, lines × 64 bytes (often none)             │
//!
//! narrow: W = 2 slots in 64 bytes, or W = 6 in 128
//!          │ version 0 │ permutation 8 │ width 16 │ lengths 17..23 │ removed 23 │
//!          │ suffixes 24 │ slices[0..W] from 32 │ values[0..W]              │
//! ```
//!
//! (At the 70 % fill of random inserts, a full node takes 30 bytes per key.)
//!
//! * Slot `i` is `lengths[i]`, `slices[i]`, `values[i]` and, for long keys, suffix `i`. Which
//!   slots are live, and their order, says the permutation alone.
//! * `lengths[i]`: 0 to 8, the key ends in this slice; [`SUFFIX`], it goes on in the bag;
//!   [`LAYER`], the value is the root of a deeper layer; [`UNSTABLE`], on the way between.
//! * `low` is the lowest slice the node was made for; it never changes (Fig. 7's `lowkey`).
//! * `removed` has a bit for every free slot that held a key which a reader with the present
//!   version may have found: reusing it must count as an insert (§4.6.5).
//!
//! **Narrow nodes.** Most deeper layers hold two or three keys for good, so a layer begins as
//! a narrow node: its root and its only border node, without siblings and without a parent. A
//! narrow node that overflows is replaced by a wider one and *forwards* to it from then on
//! (module `widen`): its root bit is clear, and the word at byte 48, where full nodes keep their
//! parent, holds its replacement. So an operation that climbs from an old root to the present one,
//! or follows a split to the right, reaches it without knowing about widths.
//!
//! A [`Border`] is the first line, which all widths have; what lies behind it is reached by
//! the node's exposed address, for a reference to the first line may not be used beyond it.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

use hedgerow_memory::WrittenFields;
use hedgerow_simd::{Kernel, Slots};
use hedgerow_sync::VersionWord;

use super::sizes::{NARROW, NARROW_HEADER_BYTES, border_bytes};
use super::{Interior, NODE_BYTES, Node, NodeBlocks, Permutation, SuffixBag, WIDTH};

/// Length class of a key that goes on beyond its slice; its rest is in the suffix bag.
pub(crate) const SUFFIX: u8 = 9;
/// Length class of a slot whose value is the root of a deeper layer.
pub(crate) const LAYER: u8 = 10;
/// Length class of a slot that is being turned into a layer or back.
pub(crate) const UNSTABLE: u8 = 11;

/// The word behind the slices, and the one behind the values: no slot has them.
const BEHIND_SLOTS: usize = WIDTH;

/// Which word of the block the slices begin at: in narrow nodes, in full ones.
const SLICES: [usize; 2] = [4, 8];

/// Which word of a full block the values begin at.
const FULL_VALUES: usize = SLICES[1] + WIDTH + 1;

/// What every border node begins with: the whole first line of a full one.
#[repr(C, align(64))]
pub(crate) struct Border {
    /// Latch, dirty bits, counters, kind.
    pub version: VersionWord,
    /// Live slots and their order.
    pub permutation: AtomicU64,
    /// How many slots there are; never changes.
    width: u8,
    /// Length class of each slot; only the first `width` are lengths.
    lengths: [AtomicU8; WIDTH],
    /// Full: right sibling, protected by this node's latch.
    next: AtomicPtr<Border>,
    /// Full: left sibling, protected by that sibling's latch; null for the leftmost node.
    prev: AtomicPtr<Border>,
    /// Full: the interior node above, protected by that node's latch; null for a root.
    /// Narrow: a slot's word, or, once replaced, the replacement.
    pub parent: AtomicPtr<Interior>,
    suffixes: AtomicPtr<SuffixBag>,
}

// Nodes as they are drawn above: the first line; lines 1 and 3 of a full node, and its last words;
// where the slices of a narrow one begin; and what it has in common with interior nodes.
const _: () = {
    assert!(offset_of!(Border, version) == 0 && offset_of!(Border, permutation) == 8);
    assert!(offset_of!(Border, width) == 16 && offset_of!(Border, lengths) == 17);
    assert!(offset_of!(Border, next) == 32 && offset_of!(Border, prev) == 40);
    assert!(offset_of!(Border, parent) == 48 && offset_of!(Border, suffixes) == 56);
    assert!(size_of::<Border>() == 64);
    assert!(offset_of!(Node, version) == offset_of!(Border, version));
    assert!(offset_of!(Node, parent) == offset_of!(Border, parent));
    assert!(8 * SLICES[1] == 64 && 8 * FULL_VALUES == 192);
    assert!(
        8 * (FULL_VALUES + BEHIND_SLOTS + 1) == NODE_BYTES && 8 * SLICES[0] == NARROW_HEADER_BYTES
    );
    assert!(border_bytes(NARROW[0]) == 64 && border_bytes(NARROW[1]) == 128);
};

impl Border {
    /// A new empty full node with room for `suffix_lines` lines of inline suffixes (0 for none).
    pub(crate) fn allocate(
        blocks: &NodeBlocks,
        version: VersionWord,
        low: u64,
        suffix_lines: usize,
    ) -> *mut Border {
        let inline_lines = if suffix_lines == 0 {
            0
        } else {
            suffix_lines + 1
        };
        let node = Self::initialise(blocks, version, WIDTH, 64 * inline_lines);
        // SAFETY: new and ours.
        let border = unsafe { &*node };
        border
            .word(SLICES[1] + BEHIND_SLOTS)
            .store(low, Ordering::Relaxed);
        border
            .word(FULL_VALUES + BEHIND_SLOTS)
            .store((inline_lines as u64) << 32, Ordering::Relaxed);
        if suffix_lines != 0 {
            // SAFETY: the block has `64 + 64 * suffix_lines` bytes from offset 320 on, which
            // is a multiple of 64 in a 64-byte aligned block.
            unsafe {
                let bag = node.cast::<u8>().add(NODE_BYTES).cast::<SuffixBag>();
                SuffixBag::initialise(bag, suffix_lines);
                border.suffixes.store(bag, Ordering::Relaxed);
            }
        }
        node
    }

    /// A new empty layer of its own, with at least `slots` slots.
    pub(crate) fn allocate_layer(blocks: &NodeBlocks, slots: usize) -> *mut Border {
        let version = VersionWord::new(true, true);
        match NARROW.into_iter().find(|&width| width >= slots) {
            Some(width) => Self::initialise(blocks, version, width, 0),
            None => Self::allocate(blocks, version, 0, 0),
        }
    }

    /// A zeroed block of this width and `more_bytes`, with its first words written.
    fn initialise(
        blocks: &NodeBlocks,
        version: VersionWord,
        width: usize,
        more_bytes: usize,
    ) -> *mut Border {
        let block = blocks.border(width, more_bytes).as_ptr();
        block.expose_provenance();
        let node = block.cast::<Border>();
        // SAFETY: the block is new, at least this long and 64-byte aligned.
        unsafe {
            block.write_bytes(0, border_bytes(width));
            (&raw mut (*node).version).write(version);
            (&raw mut (*node).permutation).write(AtomicU64::new(Permutation::empty().raw()));
            (&raw mut (*node).width).write(width as u8);
        }
        node
    }

    /// How many keys the node has room for.
    #[inline(always)]
    pub(crate) fn width(&self) -> usize {
        usize::from(self.width)
    }

    /// Whether the node is a narrow one.
    #[inline(always)]
    pub(crate) fn is_narrow(&self) -> bool {
        self.width() != WIDTH
    }

    /// Word `index` of the node's block.
    #[inline(always)]
    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < border_bytes(self.width()) / 8);
        let block = std::ptr::from_ref(self).addr();
        let words = std::ptr::with_exposed_provenance::<AtomicU64>(block);
        // SAFETY: the block is allocated while `self` is borrowed, its address was exposed,
        // and callers name words within it; all are only used as atomics.
        unsafe { &*words.add(index) }
    }

    /// The slices of a full node, for the search kernels.
    #[inline(always)]
    fn slots(&self) -> &Slots {
        debug_assert!(!self.is_narrow());
        let slots = std::ptr::from_ref(self.word(SLICES[1])).addr();
        // SAFETY: as in `word`: a full node has sixteen words from here on.
        unsafe { &*std::ptr::with_exposed_provenance::<Slots>(slots) }
    }

    #[inline(always)]
    fn slice_word(&self, slot: usize) -> &AtomicU64 {
        self.word(SLICES[usize::from(!self.is_narrow())] + slot)
    }

    #[inline(always)]
    fn value_word(&self, slot: usize) -> &AtomicU64 {
        let values = if self.is_narrow() {
            SLICES[0] + self.width()
        } else {
            FULL_VALUES
        };
        self.word(values + slot)
    }

    /// A bit for every slot whose slice equals `slice`; free slots may be among them.
    #[inline(always)]
    pub(crate) fn equal<K: Kernel>(&self, permutation: Permutation, slice: u64) -> u32 {
        if !self.is_narrow() {
            return K::equal(self.slots(), permutation.raw(), slice);
        }
        (0..self.width()).fold(0, |mask, slot| {
            mask | u32::from(self.slice(slot) == slice) << slot
        })
    }

    /// How many live slots hold a slice below `slice`.
    #[inline(always)]
    pub(crate) fn below<K: Kernel>(&self, permutation: Permutation, slice: u64) -> usize {
        if !self.is_narrow() {
            return K::below(self.slots(), permutation.raw(), slice);
        }
        (0..permutation.count())
            .filter(|&index| self.slice(permutation.slot(index)) < slice)
            .count()
    }

    /// This node as what both kinds have in common.
    #[inline(always)]
    pub(crate) fn as_node(&self) -> *mut Node {
        std::ptr::from_ref(self).cast::<Node>().cast_mut()
    }

    /// The permutation. Acquire: what it names was written before.
    #[inline(always)]
    pub(crate) fn permutation(&self) -> Permutation {
        Permutation::from_raw(self.permutation.load(Ordering::Acquire))
    }

    /// Publishes a permutation.
    #[inline(always)]
    pub(crate) fn publish(&self, permutation: Permutation) {
        self.permutation.store(permutation.raw(), Ordering::Release);
    }

    /// The slice of a slot.
    #[inline(always)]
    pub(crate) fn slice(&self, slot: usize) -> u64 {
        self.slice_word(slot).load(Ordering::Relaxed)
    }

    /// The length class of a slot.
    #[inline(always)]
    pub(crate) fn length(&self, slot: usize) -> u8 {
        self.lengths[slot].load(Ordering::Acquire)
    }

    /// Changes the length class of a slot.
    pub(crate) fn set_length(&self, slot: usize, length: u8) {
        self.lengths[slot].store(length, Ordering::Release);
    }

    /// The value word of a slot.
    #[inline(always)]
    pub(crate) fn value(&self, slot: usize) -> u64 {
        self.value_word(slot).load(Ordering::Acquire)
    }

    /// Changes the value word of a slot. For the latch holder.
    #[inline(always)]
    pub(crate) fn set_value(&self, slot: usize, value: u64) {
        self.value_word(slot).store(value, Ordering::Release);
    }

    /// The lowest slice of this node's range, constant over its life.
    #[inline(always)]
    pub(crate) fn low(&self) -> u64 {
        if self.is_narrow() {
            return 0;
        }
        self.word(SLICES[1] + BEHIND_SLOTS).load(Ordering::Relaxed)
    }

    /// The right sibling; for a narrow node that was replaced, the replacement.
    #[inline(always)]
    pub(crate) fn next(&self) -> *mut Border {
        if self.is_narrow() {
            return self.replacement();
        }
        self.next.load(Ordering::Acquire)
    }

    /// What replaced this narrow node, or null.
    pub(crate) fn replacement(&self) -> *mut Border {
        // The replacement was stored before the root bit went.
        if !self.is_narrow() || self.version.load().is_root() {
            return std::ptr::null_mut();
        }
        self.parent.load(Ordering::Acquire).cast()
    }

    /// Empties this narrow node and makes it forward to `wider`, except for clearing its root
    /// bit, which is what publishes `wider`. For the latch holder, who marked the node.
    pub(crate) fn set_replacement(&self, wider: *mut Border) {
        debug_assert!(self.is_narrow());
        self.publish(Permutation::empty());
        self.parent.store(wider.cast(), Ordering::Release);
    }

    /// Links the right sibling of a full node.
    pub(crate) fn set_next(&self, next: *mut Border) {
        debug_assert!(!self.is_narrow());
        self.next.store(next, Ordering::Release);
    }

    /// The left sibling.
    #[inline(always)]
    pub(crate) fn prev(&self) -> *mut Border {
        if self.is_narrow() {
            return std::ptr::null_mut();
        }
        self.prev.load(Ordering::Acquire)
    }

    /// Links the left sibling of a full node.
    pub(crate) fn set_prev(&self, prev: *mut Border) {
        debug_assert!(!self.is_narrow());
        self.prev.store(prev, Ordering::Release);
    }

    /// Free slots whose reuse must count as an insert. For the latch holder.
    pub(crate) fn removed(&self) -> u64 {
        if self.is_narrow() {
            return self.lengths[NARROW[1]].load(Ordering::Relaxed).into();
        }
        self.word(FULL_VALUES + BEHIND_SLOTS)
            .load(Ordering::Relaxed)
            & 0xffff
    }

    /// Sets [`removed`](Self::removed). For the latch holder.
    pub(crate) fn set_removed(&self, slots: u64) {
        if self.is_narrow() {
            self.lengths[NARROW[1]].store(slots as u8, Ordering::Relaxed);
            return;
        }
        let word = self.word(FULL_VALUES + BEHIND_SLOTS);
        let lines = word.load(Ordering::Relaxed) & !0xffff;
        word.store(lines | slots, Ordering::Relaxed);
    }

    /// Writes slice, length and value of a slot that no reader looks at (free, or under a
    /// dirty mark).
    pub(crate) fn fill(&self, slot: usize, slice: u64, length: u8, value: u64) {
        self.slice_word(slot).store(slice, Ordering::Relaxed);
        self.lengths[slot].store(length, Ordering::Relaxed);
        self.set_value(slot, value);
    }

    /// Where the pointer to the bag is: byte 24 of a narrow node, 56 of a full one.
    #[inline(always)]
    fn bag_word(&self) -> &AtomicPtr<SuffixBag> {
        if !self.is_narrow() {
            return &self.suffixes;
        }
        let address = std::ptr::from_ref(self.word(3)).addr();
        // SAFETY: as in `word`; in narrow nodes this word is only used as this pointer.
        unsafe { &*std::ptr::with_exposed_provenance::<AtomicPtr<SuffixBag>>(address) }
    }

    /// The suffix bag, or null.
    #[inline(always)]
    pub(crate) fn bag(&self) -> *mut SuffixBag {
        self.bag_word().load(Ordering::Acquire)
    }

    /// Publishes another bag. For the latch holder.
    pub(crate) fn set_bag(&self, bag: *mut SuffixBag) {
        self.bag_word().store(bag, Ordering::Release);
    }

    /// The suffix of `slot`, or `None` if the present bag has none: a torn read, since the rest
    /// of a long key is never empty.
    ///
    /// A bag that replaces a full one receives the suffixes of live long keys only, and that alone
    /// ends no reader's version. So a reader whose permutation or length class is from before may
    /// look here for what was left behind; it must read the node again.
    ///
    /// # Safety
    ///
    /// The node is owned or was reached under a pin that outlives `'a`.
    #[inline(always)]
    pub(crate) unsafe fn suffix<'a>(&self, slot: usize) -> Option<&'a [u8]> {
        let bag = self.bag();
        if bag.is_null() {
            return None;
        }
        // SAFETY: bags live as long as their node or are retired when replaced; the caller's
        // pin (or ownership) covers both.
        let suffix = unsafe { SuffixBag::get(bag, slot) };
        (!suffix.is_empty()).then_some(suffix)
    }

    /// Whether the present bag lies in the node's own block.
    pub(crate) fn has_inline_bag(&self) -> bool {
        let bag = self.bag();
        !self.is_narrow() && bag.addr() == std::ptr::from_ref(self).addr() + NODE_BYTES
    }

    /// The external bag, or null.
    pub(crate) fn external_bag(&self) -> *mut SuffixBag {
        if self.has_inline_bag() {
            std::ptr::null_mut()
        } else {
            self.bag()
        }
    }

    /// Bytes of the node's own block.
    pub(crate) fn block_bytes(&self) -> usize {
        border_bytes(self.width()) + self.inline_suffix_bytes()
    }

    /// What updates write: all but the width, and of a full node `low` and the inline bag's
    /// capacity.
    pub(crate) fn written_fields(&self) -> WrittenFields {
        let bytes = border_bytes(self.width());
        let written = WrittenFields::NONE
            .and_field::<VersionWord>(offset_of!(Self, version))
            .and_field::<AtomicU64>(offset_of!(Self, permutation));
        let lengths = offset_of!(Self, lengths);
        if self.is_narrow() {
            return written.and(lengths..bytes);
        }
        let written = written
            .and(lengths..8 * (SLICES[1] + BEHIND_SLOTS))
            .and(8 * FULL_VALUES..bytes);
        let bag = SuffixBag::written_fields(self.inline_suffix_bytes());
        let in_node = |range: Range<usize>| bytes + range.start..bytes + range.end;
        bag.ranges()
            .fold(written, |written, range| written.and(in_node(range)))
    }

    /// Bytes of inline suffix space in the node's own block.
    pub(crate) fn inline_suffix_bytes(&self) -> usize {
        if self.is_narrow() {
            return 0;
        }
        64 * (self
            .word(FULL_VALUES + BEHIND_SLOTS)
            .load(Ordering::Relaxed)
            >> 32) as usize
    }
}
