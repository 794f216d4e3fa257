//! The permutation word (§4.6.2): which slots of a leaf are in use, in the order of their keys.

/// Keys of a node.
pub const WIDTH: usize = 15;

/// The count in the lowest 4 bits; above it a slot each, those in use in key order, then the free
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order(pub u64);

/// The bits below the slot of a rank, which may be [`WIDTH`].
#[inline(always)]
fn below(rank: usize) -> u64 {
    u64::MAX >> (4 * (WIDTH - rank))
}

impl Order {
    /// So many slots in use, from the first on.
    pub const fn identity(count: usize) -> Self {
        Self(0xEDCB_A987_6543_2100 | count as u64)
    }

    /// How many slots are in use.
    #[inline(always)]
    pub fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot of a rank.
    #[inline(always)]
    pub fn slot(self, rank: usize) -> usize {
        (self.0 >> (4 + 4 * rank) & 15) as usize
    }

    /// The same slots, of which only so many are in use.
    pub fn truncated(self, count: usize) -> Self {
        Self(self.0 & !15 | count as u64)
    }

    /// With the first free slot in use at a rank.
    #[inline]
    pub fn inserted(self, rank: usize) -> Self {
        let count = self.count();
        let slot = self.slot(count) as u64;
        let moved = self.0 & below(count) & !below(rank);
        let kept = self.0 & (below(rank) | !below(count + 1));
        Self((kept | moved << 4 | slot << (4 + 4 * rank)) + 1)
    }

    /// With the slot of a rank as the first free one.
    #[inline]
    pub fn removed(self, rank: usize) -> Self {
        let count = self.count();
        let slot = self.slot(rank) as u64;
        let moved = self.0 & below(count) & !below(rank + 1);
        let kept = self.0 & (below(rank) | !below(count));
        Self((kept | moved >> 4 | slot << (4 * count)) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow_lab_data::random::Random;

    fn slots(order: Order) -> Vec<usize> {
        (0..WIDTH).map(|rank| order.slot(rank)).collect()
    }

    #[test]
    fn insertions_and_removals_do_what_they_would_to_a_list() {
        let mut random = Random::new(5);
        let mut order = Order::identity(0);
        let mut list: Vec<usize> = (0..WIDTH).collect();
        let mut count = 0;
        assert_eq!(slots(order), list);
        for _ in 0..10_000 {
            if count == 0 || count < WIDTH && random.below(2) == 0 {
                let rank = random.below(count as u64 + 1) as usize;
                order = order.inserted(rank);
                let slot = list.remove(count);
                list.insert(rank, slot);
                count += 1;
            } else {
                let rank = random.below(count as u64) as usize;
                order = order.removed(rank);
                count -= 1;
                let slot = list.remove(rank);
                list.insert(count, slot);
            }
            assert_eq!((order.count(), slots(order)), (count, list.clone()));
        }
        assert_eq!(order.truncated(3).count(), 3);
        assert_eq!(slots(order.truncated(3)), list);
    }
}
