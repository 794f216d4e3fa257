//! Commit timestamps: (epoch, sequence), as in Silo.
//!
//! An epoch is what group commit makes durable as a whole; the sequence orders commits inside an
//! epoch. There is no global counter: a timestamp only has to exceed the earlier ones of its keys
//! and of its log shard, so commits of unrelated keys in different shards may share one.

use std::fmt;

/// When a commit happened: an epoch in the high 40 bits, a sequence number in the low 24.
///
/// Ordered as the pair. A shard that uses up the 16.7 million sequence numbers of an epoch moves
/// on into the next epoch, which is always allowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

const SEQUENCE_BITS: u32 = 24;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

impl Timestamp {
    /// Before every commit: stands for "absent".
    pub const ZERO: Timestamp = Timestamp(0);

    /// The largest epoch that fits.
    pub(crate) const MAX_EPOCH: u64 = (1 << 40) - 1;

    /// The largest epoch that a file may name: those of the next openings fit, too.
    pub(crate) const MOST_STORED_EPOCH: u64 = Self::MAX_EPOCH - (1 << 32);

    /// The timestamp of this pair.
    ///
    /// # Panics
    /// In debug builds, if a part does not fit its bits.
    pub const fn new(epoch: u64, sequence: u32) -> Timestamp {
        debug_assert!(epoch <= Self::MAX_EPOCH && sequence as u64 <= SEQUENCE_MASK);
        Timestamp(epoch << SEQUENCE_BITS | sequence as u64)
    }

    /// The epoch: what must be durable for this commit to be.
    pub const fn epoch(self) -> u64 {
        self.0 >> SEQUENCE_BITS
    }

    /// The place inside the epoch.
    pub const fn sequence(self) -> u32 {
        (self.0 & SEQUENCE_MASK) as u32
    }

    /// As one integer, with the same order.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// From [`Timestamp::raw`].
    pub const fn from_raw(raw: u64) -> Timestamp {
        Timestamp(raw)
    }

    /// The next larger timestamp.
    pub(crate) const fn next(self) -> Timestamp {
        Timestamp(self.0 + 1)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.sequence())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_order_is_that_of_the_pair() {
        let a = Timestamp::new(7, 3);
        assert_eq!((a.epoch(), a.sequence()), (7, 3));
        assert_eq!(Timestamp::from_raw(a.raw()), a);
        assert!(Timestamp::new(7, 4) > a && Timestamp::new(8, 0) > Timestamp::new(7, 99));
        assert_eq!(
            Timestamp::new(7, (1 << 24) - 1).next(),
            Timestamp::new(8, 0)
        );
        assert_eq!(
            Timestamp::new(Timestamp::MAX_EPOCH, 0).epoch(),
            Timestamp::MAX_EPOCH
        );
        assert_eq!(a.to_string(), "7.3");
    }
}
