//! Prefetching of the pages that a scan will want.
//!
//! **Leaves.** The node above a leaf names the leaves that follow. After its second leaf a scan
//! prefetches the next two. Each time it has used half of them it prefetches twice as many as
//! before, up to 32. So the reads of a long scan overlap, and a short scan reads nothing in vain.
//! Only children of the same node are prefetched. A page in memory costs a check of its state.
//!
//! **Values** in overflow pages are read together: those of a record and of the records behind it
//! in its leaf that the scan is known to want, 64 at most. For a scan of unknown length they are 1,
//! 4, 8, and so on, so that hardly more is read in vain than is used. A scan that is known to want
//! more than its leaf has prefetches the leaves behind together with the first values.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};

use hedgerow_index::ScanRange;
use hedgerow_pages::{PageId, Pages, Pool, Restart};

use super::BTreeIndex;
use super::descend::{Leaf, SearchTarget};
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::layout::Kind;
use crate::node::page::Image;
use crate::node::search::Node;
use crate::node::slotted::Comparison;

/// Leaves that a scan visits before it prefetches any.
const FIRST: usize = 2;

/// Leaves that are prefetched at once, at most.
const MOST: usize = 32;

/// Overflow pages that are prefetched at once, at most.
const MOST_OF_VALUES: usize = 64;

/// How far ahead of a scan of one layer leaves were prefetched.
#[derive(Default)]
pub(super) struct LeafPrefetch {
    visited: usize,
    /// Leaves that were prefetched and not visited yet.
    prefetched: usize,
    window: usize,
}

impl LeafPrefetch {
    /// Counts a leaf that is about to be visited; returns how many leaves to prefetch now, behind
    /// those that were prefetched.
    fn step(&mut self) -> usize {
        self.visited += 1;
        self.prefetched = self.prefetched.saturating_sub(1);
        if self.visited <= FIRST || 2 * self.prefetched > self.window {
            return 0;
        }
        self.window = (2 * self.window).clamp(2, MOST);
        self.window
    }

    /// How many leaves to prefetch, if so many behind the present one will be wanted.
    fn missing_of(&self, wanted: usize) -> usize {
        wanted.min(MOST).saturating_sub(self.prefetched)
    }

    /// Whether the scan has left its first leaf.
    pub(super) fn is_past_first_leaf(&self) -> bool {
        self.visited > 1
    }
}

/// How many more pairs a scan visits at most.
pub(super) struct Remaining {
    left: Cell<usize>,
    is_limited: bool,
}

impl Remaining {
    /// Those of a scan with a limit; `usize::MAX` is none.
    pub(super) fn of(limit: usize) -> Self {
        Self {
            left: Cell::new(limit),
            is_limited: limit < usize::MAX,
        }
    }

    /// Counts a pair that was visited; breaks behind the last.
    #[inline(always)]
    pub(super) fn count(&self) -> ControlFlow<()> {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// How many there are, if the scan has a limit.
    pub(super) fn known(&self) -> Option<usize> {
        self.is_limited.then(|| self.left.get())
    }
}

/// How many values a scan reads together.
pub(super) struct ValueReads {
    /// Whether values in overflow pages are wanted.
    values: bool,
    /// Whether the scan has a limit.
    is_limited: bool,
    /// Records whose values were read together last.
    window: usize,
}

impl ValueReads {
    /// Those of a scan of a range.
    pub(super) fn of(range: &ScanRange<'_>) -> Self {
        Self {
            values: range.values,
            is_limited: range.limit < usize::MAX,
            window: 0,
        }
    }

    /// Of how many of `wanted` records the values are to be read now.
    fn next_window(&mut self, wanted: usize) -> usize {
        self.window = match self.window {
            _ if self.is_limited => MOST_OF_VALUES,
            0 => 1,
            1 => 4,
            window => (2 * window).min(MOST_OF_VALUES),
        };
        self.window.min(wanted)
    }
}

/// How many records a scan will visit, as far as its range and its limit say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Those of the leaf that it visits.
    pub here: usize,
    /// Those of the leaves behind.
    pub beyond: usize,
}

impl Wanted {
    /// Of a leaf with so many places behind the scan's start, of which `in_range` are before its
    /// end, and of a scan that visits at most so many more records, if it has a limit.
    pub(super) fn of(places: usize, in_range: usize, left: Option<usize>) -> Self {
        let Some(left) = left else {
            let here = in_range;
            return Self { here, beyond: 0 };
        };
        let here = in_range.min(left);
        let beyond = if in_range == places { left - here } else { 0 };
        Self { here, beyond }
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Prefetches leaves that come after one to which a target led, if it is time to.
    #[inline]
    pub(super) fn prefetch_next_leaves<const FORWARD: bool>(
        &self,
        prefetch: &mut LeafPrefetch,
        leaf: &Leaf,
        target: SearchTarget<'_>,
    ) {
        let more = prefetch.step();
        if more > 0 {
            self.prefetch_leaves::<FORWARD>(prefetch, leaf, target, more);
        }
    }

    #[cold]
    fn prefetch_leaves<const FORWARD: bool>(
        &self,
        prefetch: &mut LeafPrefetch,
        leaf: &Leaf,
        target: SearchTarget<'_>,
        more: usize,
    ) {
        let pool: &Pool<PAGE> = &self.pool;
        let Some(above) = leaf.above else {
            return;
        };
        let page = pool.seen(&above.snapshot);
        // If a writer changed the node meanwhile, the prefetch is skipped.
        if let Ok(ids) = children_behind::<C, FORWARD>(page, target, prefetch.prefetched, more)
            && pool.validate(&above.snapshot).is_ok()
        {
            prefetch.prefetched += ids.len();
            pool.prefetch(&ids);
        }
    }

    /// Prefetches the leaves behind one, as far as the records that are wanted beyond it fill
    /// leaves like `page`, its copy.
    #[cold]
    pub(super) fn prefetch_wanted_leaves<const FORWARD: bool>(
        &self,
        prefetch: &mut LeafPrefetch,
        leaf: &Leaf,
        target: SearchTarget<'_>,
        page: &Image<PAGE>,
        wanted: Wanted,
    ) {
        let more = prefetch.missing_of(wanted.beyond.div_ceil(page.count().max(1)));
        if more > 0 {
            self.prefetch_leaves::<FORWARD>(prefetch, leaf, target, more);
        }
    }

    /// Brings the overflow pages of the next records of a leaf to memory, `wanted` at most: of how
    /// many records, one at least.
    #[cold]
    pub(super) fn load_next_values<const FORWARD: bool>(
        &self,
        reads: &mut ValueReads,
        page: &Image<PAGE>,
        mut left: Range<usize>,
        wanted: usize,
    ) -> usize {
        let pool: &Pool<PAGE> = &self.pool;
        // Pages that other scans prefetched stay in memory.
        let most_pages = MOST_OF_VALUES.min(pool.limit() / 8);
        let most = reads.next_window(wanted);
        let (mut ids, mut records) = (Vec::new(), 0);
        while records < most
            && ids.len() < most_pages
            && let Some(place) = page.next_place::<C, FORWARD>(&mut left)
        {
            let payload = page.payload(page.leaf_record::<C>(place));
            let is_wanted = match payload.kind {
                Kind::Overflow => reads.values,
                Kind::Long => true,
                Kind::Inline | Kind::Layer => false,
            };
            if is_wanted {
                ids.extend(Chain::read::<PAGE>(payload).named().map(PageId));
                records += 1;
            }
        }
        // A single one is read when the scan comes to it.
        if records > 1 {
            ids.sort_unstable_by_key(|id| id.0);
            ids.dedup();
            pool.load_many(&ids);
        }
        records.max(1)
    }

    /// Prefetches overflow pages of records of a leaf.
    #[cold]
    pub(super) fn prefetch_values<const FORWARD: bool>(
        &self,
        page: &Image<PAGE>,
        mut left: Range<usize>,
    ) {
        let pool: &Pool<PAGE> = &self.pool;
        let mut ids = Vec::new();
        while ids.len() < MOST_OF_VALUES
            && let Some(place) = page.next_place::<C, FORWARD>(&mut left)
        {
            let payload = page.payload(page.leaf_record::<C>(place));
            if matches!(payload.kind, Kind::Overflow | Kind::Long) {
                ids.extend(Chain::read::<PAGE>(payload).named().map(PageId));
            }
        }
        pool.prefetch(&ids);
    }
}

/// The children of a node behind the one that a target leads to, without those right behind it
/// that were prefetched already.
fn children_behind<C: Configuration, const FORWARD: bool>(
    page: impl Node,
    target: SearchTarget<'_>,
    prefetched: usize,
    more: usize,
) -> Result<Vec<PageId>, Restart> {
    let Some((_, index)) = target.child::<Comparison<C>>(page)? else {
        return Ok(Vec::new());
    };
    let count = page.records()?;
    let child = |index| page.child_at::<Comparison<C>>(index, count).map(PageId);
    if FORWARD {
        let first = index + 1 + prefetched;
        (first..(first + more).min(count + 1)).map(child).collect()
    } else {
        let end = index.saturating_sub(prefetched);
        (end.saturating_sub(more)..end).rev().map(child).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use hedgerow_index::Direction;

    use super::*;

    #[test]
    fn of_a_scan_whose_length_is_known_all_is_wanted_at_once_and_no_more() {
        let range = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
        let wanted = |here, beyond| Wanted { here, beyond };
        let remaining = Remaining::of(50);
        assert_eq!(Wanted::of(30, 30, remaining.known()), wanted(30, 20));
        let mut known = ValueReads::of(&range.limited(50));
        assert_eq!(known.next_window(30), 30);
        (0..30).for_each(|_| assert!(remaining.count().is_continue()));
        assert_eq!(Wanted::of(30, 30, remaining.known()), wanted(20, 0));
        // The end of the range is nearer.
        assert_eq!(Wanted::of(30, 7, remaining.known()), wanted(7, 0));
        (0..19).for_each(|_| assert!(remaining.count().is_continue()));
        assert!(remaining.count().is_break());
        assert_eq!(Remaining::of(usize::MAX).known(), None);
        assert_eq!(Wanted::of(100, 100, None), wanted(100, 0));
        let mut unknown = ValueReads::of(&range);
        let windows: Vec<_> = (0..8).map(|_| unknown.next_window(100)).collect();
        assert_eq!(windows, [1, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(unknown.next_window(3), 3);
    }

    #[test]
    fn a_scan_prefetches_late_and_then_more_and_more() {
        let mut prefetch = LeafPrefetch::default();
        let mut prefetched = Vec::new();
        for _ in 0..200 {
            let more = prefetch.step();
            prefetch.prefetched += more;
            prefetched.push(more);
        }
        assert_eq!(prefetched[..8], [0, 0, 2, 4, 0, 0, 8, 0]);
        assert!(prefetched.iter().all(|&more| more <= MOST) && prefetched.contains(&MOST));
        // It never runs out, nor gets far ahead.
        let (mut left, mut most) = (0, 0);
        for &more in &prefetched[2..] {
            left += more;
            most = left.max(most);
            assert!(left > 0);
            left -= 1;
        }
        assert!(most <= 2 * MOST, "{most}");
    }
}
