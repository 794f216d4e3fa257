//! The list of closed ranges, whose rows a commit is removing: see `removals.rs`.

use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use crate::index::bounds::Bounds;

/// A range of which no row can be written, nor read alone.
pub(crate) struct ClosedRange {
    pub(crate) keyspace: u32,
    pub(crate) start: Bound<Vec<u8>>,
    pub(crate) end: Bound<Vec<u8>>,
}

impl ClosedRange {
    fn bounds(&self) -> Bounds<'_> {
        let (start, end) = (self.start.as_ref(), self.end.as_ref());
        (start.map(Vec::as_slice), end.map(Vec::as_slice))
    }

    fn overlaps(&self, keyspace: u32, (start, end): Bounds<'_>) -> bool {
        let own = self.bounds();
        self.keyspace == keyspace && !is_before(own.1, start) && !is_before(end, own.0)
    }
}

/// Whether all keys up to an end are before those from a start on.
fn is_before(end: Bound<&[u8]>, start: Bound<&[u8]>) -> bool {
    match (end, start) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(end), Bound::Included(start)) => end < start,
        (
            Bound::Included(end) | Bound::Excluded(end),
            Bound::Included(start) | Bound::Excluded(start),
        ) => end <= start,
    }
}

/// The closed ranges.
#[derive(Default)]
pub(crate) struct ClosedRanges(RwLock<Vec<ClosedRange>>);

impl ClosedRanges {
    pub(crate) fn overlaps_any(&self, keyspace: u32, bounds: Bounds<'_>) -> bool {
        let ranges = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ranges.iter().any(|range| range.overlaps(keyspace, bounds))
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<ClosedRange>)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}
