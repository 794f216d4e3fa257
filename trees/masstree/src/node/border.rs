//! Border nodes: up to 15 keys of one layer, with their values or deeper layers.
//!
//! ```text
//! line 0   │ version 0 │ permutation 8 │ lengths 16..31, inline_lines 31 │
//!          │ next 32   │ prev 40       │ parent 48      │ suffixes 56    │
//! line 1   │ slices[0..8]                                                │
//! line 2   │ slices[8..15]                              │ low            │
//! line 3   │ values[0..8]                                                │
//! line 4   │ values[8..15]                              │ removed        │
//! line 5…  │ inline suffix bag, inline_lines × 64 bytes (often none)     │
//! ```
//!
//! (5 × 64 = 320 bytes; at the 70 % fill of random inserts, 30 bytes per key.)
//!
//! * Slot `i` is `lengths[i]`, `slices[i]`, `values[i]` and, for long keys, suffix `i`. Which
//!   slots are live, and their order, says the permutation alone.
//! * `lengths[i]`: 0 to 8, the key ends in this slice; [`SUFFIX`], it goes on in the bag;
//!   [`LAYER`], the value is the root of a deeper layer; [`UNSTABLE`], on the way between.
//! * `low` is the lowest slice the node was made for; it never changes (Fig. 7's `lowkey`).
//! * `removed` has a bit for every free slot that held a key which a reader with the present
//!   version may have found: reusing it must count as an insert (§4.6.5).

use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

use hedgerow_simd::Slots;
use hedgerow_sync::VersionWord;

use super::{Interior, NODE_BYTES, Node, Permutation, SuffixBag, WIDTH};

/// Length class of a key that goes on beyond its slice; its rest is in the suffix bag.
pub const SUFFIX: u8 = 9;
/// Length class of a slot whose value is the root of a deeper layer.
pub const LAYER: u8 = 10;
/// Length class of a slot that is being turned into a layer or back.
pub const UNSTABLE: u8 = 11;

const EXTRA: usize = WIDTH;

/// A border node.
#[repr(C, align(64))]
pub struct Border {
    /// Latch, dirty bits, counters, kind.
    pub version: VersionWord,
    /// Live slots and their order.
    pub permutation: AtomicU64,
    /// Length class of each slot.
    pub lengths: [AtomicU8; WIDTH],
    inline_lines: u8,
    /// Right sibling, protected by this node's latch.
    pub next: AtomicPtr<Border>,
    /// Left sibling, protected by that sibling's latch; null for the leftmost node.
    pub prev: AtomicPtr<Border>,
    /// The interior node above, protected by that node's latch; null for a root.
    pub parent: AtomicPtr<Interior>,
    /// The suffix bag, or null.
    pub suffixes: AtomicPtr<SuffixBag>,
    /// Key slices; the last word is `low`.
    pub slices: Slots,
    /// Values or layers; the last word is `removed`.
    pub values: [AtomicU64; WIDTH + 1],
}

impl Border {
    /// A new empty node with room for `suffix_lines` lines of inline suffixes (0 for none).
    pub fn allocate(version: VersionWord, low: u64, suffix_lines: usize) -> *mut Border {
        let inline_lines = if suffix_lines == 0 {
            0
        } else {
            suffix_lines + 1
        };
        debug_assert!(inline_lines < 256);
        let block = hedgerow_memory::allocate(NODE_BYTES + 64 * inline_lines).as_ptr();
        let bag = if suffix_lines == 0 {
            std::ptr::null_mut()
        } else {
            // SAFETY: the block has `64 + 64 * suffix_lines` bytes from offset 320 on, which
            // is a multiple of 64 in a 64-byte aligned block.
            unsafe {
                let bag = block.add(NODE_BYTES).cast::<SuffixBag>();
                SuffixBag::initialise(bag, suffix_lines);
                bag
            }
        };
        let node = block.cast::<Border>();
        // SAFETY: the block is new, at least this long and 64-byte aligned.
        unsafe {
            node.write(Border {
                version,
                permutation: AtomicU64::new(Permutation::empty().raw()),
                lengths: std::array::from_fn(|_| AtomicU8::new(0)),
                inline_lines: inline_lines as u8,
                next: AtomicPtr::default(),
                prev: AtomicPtr::default(),
                parent: AtomicPtr::default(),
                suffixes: AtomicPtr::new(bag),
                slices: std::array::from_fn(|i| AtomicU64::new(if i == EXTRA { low } else { 0 })),
                values: std::array::from_fn(|_| AtomicU64::new(0)),
            });
        }
        node
    }

    /// This node as what both kinds have in common.
    #[inline(always)]
    pub fn as_node(&self) -> *mut Node {
        std::ptr::from_ref(self).cast::<Node>().cast_mut()
    }

    /// The permutation. Acquire: what it names was written before.
    #[inline(always)]
    pub fn permutation(&self) -> Permutation {
        Permutation::from_raw(self.permutation.load(Ordering::Acquire))
    }

    /// Publishes a permutation.
    #[inline(always)]
    pub fn publish(&self, permutation: Permutation) {
        self.permutation.store(permutation.raw(), Ordering::Release);
    }

    /// The slice of a slot.
    #[inline(always)]
    pub fn slice(&self, slot: usize) -> u64 {
        self.slices[slot].load(Ordering::Relaxed)
    }

    /// The length class of a slot.
    #[inline(always)]
    pub fn length(&self, slot: usize) -> u8 {
        self.lengths[slot].load(Ordering::Acquire)
    }

    /// The value word of a slot.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> u64 {
        self.values[slot].load(Ordering::Acquire)
    }

    /// The lowest slice of this node's range, constant over its life.
    #[inline(always)]
    pub fn low(&self) -> u64 {
        self.slices[EXTRA].load(Ordering::Relaxed)
    }

    /// The right sibling.
    #[inline(always)]
    pub fn next(&self) -> *mut Border {
        self.next.load(Ordering::Acquire)
    }

    /// The left sibling.
    #[inline(always)]
    pub fn prev(&self) -> *mut Border {
        self.prev.load(Ordering::Acquire)
    }

    /// Free slots whose reuse must count as an insert. For the latch holder.
    pub fn removed(&self) -> u64 {
        self.values[EXTRA].load(Ordering::Relaxed)
    }

    /// Sets [`removed`](Self::removed). For the latch holder.
    pub fn set_removed(&self, slots: u64) {
        self.values[EXTRA].store(slots, Ordering::Relaxed);
    }

    /// Writes slice, length and value of a slot that no reader looks at (free, or under a
    /// dirty mark).
    pub fn fill(&self, slot: usize, slice: u64, length: u8, value: u64) {
        self.slices[slot].store(slice, Ordering::Relaxed);
        self.lengths[slot].store(length, Ordering::Relaxed);
        self.values[slot].store(value, Ordering::Release);
    }

    /// The suffix of `slot`, or `None` if there is no bag (a torn read).
    ///
    /// # Safety
    ///
    /// The node is owned or was reached under a pin that outlives `'a`.
    #[inline(always)]
    pub unsafe fn suffix<'a>(&self, slot: usize) -> Option<&'a [u8]> {
        let bag = self.suffixes.load(Ordering::Acquire);
        if bag.is_null() {
            return None;
        }
        // SAFETY: bags live as long as their node or are retired when replaced; the caller's
        // pin (or ownership) covers both.
        Some(unsafe { SuffixBag::get(bag, slot) })
    }

    /// Whether the present bag lies in the node's own block.
    pub fn has_inline_bag(&self) -> bool {
        let bag = self.suffixes.load(Ordering::Relaxed);
        !bag.is_null() && bag.addr() == std::ptr::from_ref(self).addr() + NODE_BYTES
    }

    /// The external bag, or null.
    pub fn external_bag(&self) -> *mut SuffixBag {
        if self.has_inline_bag() {
            std::ptr::null_mut()
        } else {
            self.suffixes.load(Ordering::Relaxed)
        }
    }

    /// Bytes of the node's own block.
    pub fn block_bytes(&self) -> usize {
        NODE_BYTES + 64 * usize::from(self.inline_lines)
    }

    /// Bytes of inline suffix space in the node's own block.
    pub fn inline_suffix_bytes(&self) -> usize {
        64 * usize::from(self.inline_lines)
    }
}
