//! The permutation word of a border node (§4.6.2): how many keys, and in which order.
//!
//! ```text
//!  63  60            8 7   4 3   0
//! ┌──────┬─────────┬──────┬───────┐    slot(0) … slot(count-1): live, in key order
//! │slot14│  ...    │slot 0│ count │    slot(count) … slot(14): free, next to be used first
//! └──────┴─────────┴──────┴───────┘
//! ```
//!
//! All 15 slot numbers are always there, each once. An insert moves the first free slot into
//! place and a remove moves its slot to the very end, so that slots which readers may still
//! look at are the last to be used again.

/// Slots in a node.
pub(crate) const WIDTH: usize = 15;

/// The decoded word; pure value, published and read through an atomic elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Permutation(u64);

const IDENTITY: u64 = 0xedcb_a987_6543_2100;
const ONES: u64 = 0x1111_1111_1111_1111;
const TOPS: u64 = 0x8888_8888_8888_8888;

// The word as it is drawn above: a count and all slots, four bits each.
const _: () = assert!(4 * (WIDTH + 1) == u64::BITS as usize && IDENTITY >> 60 == 14);

impl Permutation {
    /// No keys; slots are used in ascending order.
    pub(crate) const fn empty() -> Self {
        Self(IDENTITY)
    }

    /// `count` keys in slots `0..count`, in this order.
    pub(crate) const fn sequential(count: usize) -> Self {
        debug_assert!(count <= WIDTH);
        Self(IDENTITY | count as u64)
    }

    /// From the word in a node.
    #[inline(always)]
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The word to store.
    #[inline(always)]
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// Live keys.
    #[inline(always)]
    pub(crate) const fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot at `index` of the order; indices from `count` on are free slots.
    #[inline(always)]
    pub(crate) const fn slot(self, index: usize) -> usize {
        ((self.0 >> (4 * index + 4)) & 15) as usize
    }

    /// Where `slot` stands in the order, live or free.
    #[inline(always)]
    pub(crate) const fn index_of(self, slot: usize) -> usize {
        let differing = (self.0 >> 4) ^ (slot as u64).wrapping_mul(ONES);
        // The lowest zero nibble; borrows only disturb nibbles above it.
        let zero = differing.wrapping_sub(ONES) & !differing & TOPS;
        zero.trailing_zeros() as usize / 4
    }

    /// Whether `slot` holds a live key.
    #[inline(always)]
    pub(crate) const fn is_live(self, slot: usize) -> bool {
        self.index_of(slot) < self.count()
    }

    /// Makes the first free slot the key at `index`; returns it and the new order.
    #[inline]
    pub(crate) const fn insert(self, index: usize) -> (usize, Self) {
        let count = self.count();
        debug_assert!(count < WIDTH && index <= count);
        let slot = self.slot(count);
        let below = (1_u64 << (4 * index + 4)) - 1;
        let above = if count == WIDTH - 1 {
            0
        } else {
            !0_u64 << (4 * count + 8)
        };
        let here = 15_u64 << (4 * index + 4);
        let moved = (self.0 << 4) & !(below | here | above);
        let raw = (self.0 & (below | above)) | ((slot as u64) << (4 * index + 4)) | moved;
        (slot, Self(raw + 1))
    }

    /// Takes the key at `index` out; its slot becomes the last free one of a node that has
    /// `width` slots.
    #[inline]
    pub(crate) const fn remove(self, index: usize, width: usize) -> Self {
        debug_assert!(index < self.count() && self.count() <= width && width <= WIDTH);
        let slot = self.slot(index) as u64;
        let below = (1_u64 << (4 * index + 4)) - 1;
        let last = 4 * width;
        // Places of slots that the node does not have stay as they are.
        let beyond = if last == 60 { 0 } else { !0_u64 << (last + 4) };
        let moved = (self.0 >> 4) & !below & !beyond & !(15 << last);
        let raw = (self.0 & (below | beyond)) | moved | (slot << last);
        Self(raw - 1)
    }

    /// Keeps the first `count` keys.
    #[inline]
    pub(crate) const fn truncate(self, count: usize) -> Self {
        debug_assert!(count <= self.count());
        Self((self.0 & !15) | count as u64)
    }

    /// Whether the word names each slot exactly once.
    pub(crate) fn is_valid(self) -> bool {
        let seen = (0..WIDTH).fold(0_u32, |seen, index| seen | 1 << self.slot(index));
        seen == 0x7fff && self.count() <= WIDTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_vector_of_slots_through_random_changes() {
        for width in [WIDTH, 6, 2] {
            follow_a_vector(width);
        }
    }

    fn follow_a_vector(width: usize) {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below as u64) as usize
        };
        let mut permutation = Permutation::empty();
        let mut live: Vec<usize> = Vec::new();
        for _ in 0..20_000 {
            if live.len() < width && next(2) == 0 {
                let index = next(live.len() + 1);
                let (slot, changed) = permutation.insert(index);
                assert!(!live.contains(&slot), "slot {slot} was live");
                assert!(slot < width, "slot {slot} of {width}");
                live.insert(index, slot);
                permutation = changed;
            } else if !live.is_empty() {
                let index = next(live.len());
                permutation = permutation.remove(index, width);
                let slot = live.remove(index);
                assert_eq!(permutation.slot(width - 1), slot, "freed slots go last");
            }
            assert!(permutation.is_valid());
            let order: Vec<usize> = (0..permutation.count())
                .map(|i| permutation.slot(i))
                .collect();
            assert_eq!(order, live);
            for slot in 0..WIDTH {
                assert_eq!(permutation.is_live(slot), live.contains(&slot));
                assert_eq!(permutation.slot(permutation.index_of(slot)), slot);
            }
        }
    }
}
