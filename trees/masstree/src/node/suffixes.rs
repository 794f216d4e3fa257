//! Where a border node keeps the rest of keys that are longer than its slice (§4.2).
//!
//! ```text
//!  0        2      4                             64
//! ┌────────┬──────┬─────────────────────────────┬───────────────────────────────┐
//! │capacity│ used │ entries: 15 × (offset, len) │ suffix bytes, appended only   │
//! └────────┴──────┴─────────────────────────────┴───────────────────────────────┘
//!    u16     u16    u16 + u16 in one u32          capacity × 64 bytes
//! ```
//!
//! A bag lies either behind its node in the same block (*inline*) or in a block of its own
//! (*external*). Both adapt: a node made by a split gets an inline bag when the suffixes it
//! receives are short and none when it receives none; a bag that runs full is replaced by an
//! external one, sized from what is live.
//!
//! Bytes of a bag are written once, before the entry that names them is published (release),
//! and never again: a reader that loads an entry (acquire) may read its bytes without racing,
//! even if the slot was reused meanwhile; the version check then discards the answer. Replaced
//! external bags are retired through the epoch.
//!
//! Arithmetic: 15 suffixes of at most 65,528 bytes are under 1 MiB. Offsets count bytes while
//! the bag is under 64 KiB, else 16-byte units, so that both fit 16 bits.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use hedgerow_memory::WrittenFields;

use super::NodeBlocks;
use super::permutation::WIDTH;

/// Header of a bag; the bytes follow.
#[repr(C, align(64))]
pub(crate) struct SuffixBag {
    capacity_lines: u16,
    used_units: AtomicU16,
    entries: [AtomicU32; WIDTH],
}

// The header as it is drawn above.
const _: () = {
    assert!(std::mem::offset_of!(SuffixBag, used_units) == 2);
    assert!(std::mem::offset_of!(SuffixBag, entries) == 4 && size_of::<SuffixBag>() == 64);
};

/// An external bag that its node names no more. It is retired once no node is latched.
#[must_use]
pub(crate) struct ReplacedBag(pub(crate) NonNull<SuffixBag>);

const MAX_LINES: usize = 16_383;

impl SuffixBag {
    /// Payload lines for `bytes` of suffixes in `count` pieces.
    pub(crate) fn lines_for(bytes: usize, count: usize) -> usize {
        let lines = bytes.div_ceil(64).max(1);
        if lines < 1024 {
            lines
        } else {
            (bytes + 16 * count).div_ceil(64).min(MAX_LINES)
        }
    }

    /// Bytes of a bag with `lines` payload lines.
    pub(crate) const fn block_bytes(lines: usize) -> usize {
        64 + 64 * lines
    }

    /// Writes an empty header at `at`.
    ///
    /// # Safety
    ///
    /// `at` is 64-byte aligned and owns [`block_bytes`](Self::block_bytes)`(lines)` bytes that
    /// nobody else sees yet.
    pub(crate) unsafe fn initialise(at: *mut SuffixBag, lines: usize) {
        debug_assert!(lines <= MAX_LINES);
        let bag = SuffixBag {
            capacity_lines: lines as u16,
            used_units: AtomicU16::new(0),
            entries: std::array::from_fn(|_| AtomicU32::new(0)),
        };
        // SAFETY: the caller owns the aligned bytes.
        unsafe { at.write(bag) }
    }

    /// A new external bag with `lines` payload lines.
    pub(crate) fn allocate(blocks: &NodeBlocks, lines: usize) -> *mut SuffixBag {
        let block = blocks.bag(Self::block_bytes(lines));
        let bag = block.as_ptr().cast::<SuffixBag>();
        // SAFETY: the block is new, of this size, and 64-byte aligned (a multiple of 64).
        unsafe { Self::initialise(bag, lines) };
        bag
    }

    /// Payload lines.
    pub(crate) fn lines(&self) -> usize {
        usize::from(self.capacity_lines)
    }

    /// What updates write of a bag of so many bytes: all but its capacity.
    pub(crate) const fn written_fields(bytes: usize) -> WrittenFields {
        WrittenFields::NONE.and(offset_of!(Self, used_units)..bytes)
    }

    fn unit_shift(&self) -> u32 {
        if self.capacity_lines < 1024 { 0 } else { 4 }
    }

    /// The suffix that `slot`'s entry names.
    ///
    /// # Safety
    ///
    /// `this` points to a bag that stays allocated for `'a` (owned, or under a pin), through
    /// a pointer valid for the whole block.
    #[inline(always)]
    pub(crate) unsafe fn get<'a>(this: *const SuffixBag, slot: usize) -> &'a [u8] {
        // SAFETY: the caller keeps the bag alive; the header is all atomics and constants.
        let bag = unsafe { &*this };
        let entry = bag.entries[slot].load(Ordering::Acquire);
        let offset = ((entry >> 16) as usize) << bag.unit_shift();
        // SAFETY: every entry ever stored names bytes inside this bag that were written before
        // it and are never written again (`append`), so they are readable and not racing.
        unsafe {
            std::slice::from_raw_parts(
                this.cast::<u8>().add(64 + offset),
                (entry & 0xffff) as usize,
            )
        }
    }

    /// Appends `bytes` as the suffix of `slot`, or returns `false` when they do not fit.
    ///
    /// # Safety
    ///
    /// As [`get`](Self::get), and the caller is the only writer (owner or latch holder).
    pub(crate) unsafe fn append(this: *mut SuffixBag, slot: usize, bytes: &[u8]) -> bool {
        // SAFETY: the caller keeps the bag alive.
        let bag = unsafe { &*this };
        let shift = bag.unit_shift();
        debug_assert!(u16::try_from(bytes.len()).is_ok());
        let used = usize::from(bag.used_units.load(Ordering::Relaxed));
        let after = used + bytes.len().div_ceil(1 << shift);
        if after << shift > bag.lines() * 64 || after > usize::from(u16::MAX) {
            return false;
        }
        // SAFETY: the range lies within the payload (checked above) and beyond everything
        // that an entry names, so no reader looks at it.
        unsafe {
            let target = this.cast::<u8>().add(64 + (used << shift));
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        bag.used_units.store(after as u16, Ordering::Relaxed);
        bag.entries[slot].store(
            ((used as u32) << 16) | bytes.len() as u32,
            Ordering::Release,
        );
        true
    }
}
