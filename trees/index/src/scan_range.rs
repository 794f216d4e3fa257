//! What a scan visits: its bounds, its direction, its limit.

use std::ops::Bound;

/// The order in which [`Index::scan`](crate::Index::scan) visits keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending by key bytes, from the bound upwards.
    Forward,
    /// Descending by key bytes, from the bound downwards.
    Reverse,
}

/// What [`Index::scan`](crate::Index::scan) visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanRange<'k> {
    /// Where the scan begins: the lower bound forwards, the upper bound in reverse.
    pub from: Bound<&'k [u8]>,
    /// Where it ends: the upper bound forwards, the lower bound in reverse. The index visits no
    /// key beyond.
    pub to: Bound<&'k [u8]>,
    /// The order of the keys.
    pub direction: Direction,
    /// The most pairs that the index visits; `usize::MAX` for all.
    pub limit: usize,
    /// Whether the visitor needs values. An index that keeps them apart from keys does not touch
    /// them otherwise.
    pub values: bool,
}

impl<'k> ScanRange<'k> {
    /// All pairs from a bound on.
    #[inline]
    #[must_use]
    pub fn starting_at(from: Bound<&'k [u8]>, direction: Direction) -> Self {
        Self {
            from,
            to: Bound::Unbounded,
            direction,
            limit: usize::MAX,
            values: true,
        }
    }

    /// All pairs between a lower and an upper bound.
    #[inline]
    #[must_use]
    pub fn between(
        (lower, upper): (Bound<&'k [u8]>, Bound<&'k [u8]>),
        direction: Direction,
    ) -> Self {
        let (from, to) = match direction {
            Direction::Forward => (lower, upper),
            Direction::Reverse => (upper, lower),
        };
        Self {
            to,
            ..Self::starting_at(from, direction)
        }
    }

    /// The range with a limit of pairs.
    #[inline]
    #[must_use]
    pub fn limited(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// The range without values.
    #[inline]
    #[must_use]
    pub fn keys_only(self) -> Self {
        Self {
            values: false,
            ..self
        }
    }

    /// The lower and the upper bound.
    #[inline]
    #[must_use]
    pub fn bounds(&self) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
        match self.direction {
            Direction::Forward => (self.from, self.to),
            Direction::Reverse => (self.to, self.from),
        }
    }

    /// Whether the scan visits nothing, whatever the keys are: its limit is 0, or its bounds are in
    /// the wrong order.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let (lower, upper) = self.bounds();
        self.limit == 0 || is_inverted(lower, upper)
    }

    /// Whether the scan ends before a key.
    #[inline]
    #[must_use]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match (self.to, self.direction) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(to), Direction::Forward) => key > to,
            (Bound::Excluded(to), Direction::Forward) => key >= to,
            (Bound::Included(to), Direction::Reverse) => key < to,
            (Bound::Excluded(to), Direction::Reverse) => key <= to,
        }
    }
}

/// Whether no key can lie between a lower and an upper bound because they are in the wrong order.
#[inline]
#[must_use]
pub fn is_inverted(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Excluded(lower), Bound::Excluded(upper)) => lower >= upper,
        (Bound::Included(lower) | Bound::Excluded(lower), Bound::Included(upper))
        | (Bound::Included(lower), Bound::Excluded(upper)) => lower > upper,
    }
}
