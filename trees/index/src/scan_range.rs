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

impl Direction {
    /// Forwards if so: for scans that are compiled for each direction.
    #[inline(always)]
    #[must_use]
    pub const fn of(is_forward: bool) -> Self {
        if is_forward {
            Self::Forward
        } else {
            Self::Reverse
        }
    }

    /// The other direction.
    #[inline(always)]
    fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }
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
        KeyBound::of(self.to).is_some_and(|end| !end.admits_before(key, self.direction))
    }
}

/// A bound of a scan that is a key: where the scan begins, or where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBound<'k> {
    /// The key.
    pub key: &'k [u8],
    /// Whether the scan visits the key itself.
    pub inclusive: bool,
}

impl<'k> KeyBound<'k> {
    /// The bound, or `None` at an end of the key space.
    #[inline(always)]
    #[must_use]
    pub fn of(bound: Bound<&'k [u8]>) -> Option<Self> {
        let (key, inclusive) = match bound {
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
            Bound::Unbounded => return None,
        };
        Some(Self { key, inclusive })
    }

    /// Whether a scan that begins here visits a key.
    #[inline(always)]
    #[must_use]
    pub fn admits_from(self, key: &[u8], direction: Direction) -> bool {
        let is_behind = match direction {
            Direction::Forward => key > self.key,
            Direction::Reverse => key < self.key,
        };
        is_behind || (self.inclusive && key == self.key)
    }

    /// Whether a scan that ends here visits a key.
    #[inline(always)]
    #[must_use]
    pub fn admits_before(self, key: &[u8], direction: Direction) -> bool {
        self.admits_from(key, direction.reversed())
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
